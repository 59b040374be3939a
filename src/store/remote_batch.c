/* Requests: the keys of one or more batches, each once. Sparse batches are copied, with indices into these keys instead of the
 * keys. */
#include "store/remote_internal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static yk__request *open_of(yk_remote *r, yk__remote_channel *l)
{
    yk__request *a = l->open ? l->open : &l->slot[l->requested % YK__MAX_OUTSTANDING];
    if (l->open)
        return a;
    l->open = a;
    a->batches = a->bytes = 0;
    a->remembered = 0;
    a->keys = NULL;
    a->rows = &a->copied;
    l->chunk = NULL;
    yk_rows_clear(&a->copied);
    if (l->requested) /* the cursors of threads without a batch do not change */
        memcpy(a->share, l->slot[(l->requested - 1) % YK__MAX_OUTSTANDING].share,
               (size_t)(r->config.threads / r->config.channels) * sizeof *a->share);
    for (int i = 0; i < r->config.threads / r->config.channels; i++)
        a->share[i].batches = 0;
    yk_merger_clear(&l->keys);
    return a;
}

/* Adds a batch; its picks follow. */
static yk_status add_batch(yk__request *a, const yk_batch *b)
{
    const size_t before = a->batches ? a->batch[a->batches - 1].end : 0;
    if (YK_RESERVE(a->pick, a->pick_cap, before + b->n + 1, "a batch") ||
        YK_RESERVE(a->batch, a->batch_cap, a->batches + 1, "a batch"))
        return YK_ESYSTEM;
    a->batch[a->batches].end = before + b->n;
    a->batch[a->batches++].noise = yk_batch_noise(b);
    return YK_OK;
}

/* Reserves memory for a batch with `entries` entries. Batches may differ in whether they have values or fields: rows without
 * them get 1 and 0. */
static yk_status reserve(yk_rows *to, const yk_batch *b, size_t entries)
{
    const size_t rows = to->n + b->n + 1, before = to->n ? to->start[to->n] : 0, all = before + entries + 16;
    if (!to->n && !b->rows->value) {
        free(to->value);
        to->value = NULL;
        to->cap[YK_ROWS_VALUE] = 0;
    }
    if (!to->n && !b->rows->field) {
        free(to->field);
        to->field = NULL;
        to->cap[YK_ROWS_FIELD] = 0;
    }
    const bool new_values = b->rows->value && !to->value, new_fields = b->rows->field && !to->field;
    if (YK_RESERVE(to->start, to->cap[YK_ROWS_START], rows, "a batch") ||
        YK_RESERVE(to->label, to->cap[YK_ROWS_LABEL], rows, "a batch") ||
        YK_RESERVE(to->index, to->cap[YK_ROWS_INDEX], all, "a batch") ||
        ((to->value || new_values) && YK_RESERVE(to->value, to->cap[YK_ROWS_VALUE], all, "a batch")) ||
        ((to->field || new_fields) && YK_RESERVE(to->field, to->cap[YK_ROWS_FIELD], all, "a batch")))
        return YK_ESYSTEM;
    for (size_t e = 0; new_values && e < before; e++)
        to->value[e] = 1.0f;
    if (new_fields)
        memset(to->field, 0, before * sizeof *to->field);
    return YK_OK;
}

/* Some batches of a chunk: counts its keys in l->squares. */
static yk_status begin_part(yk__remote_channel *l, const yk_chunk *chunk, size_t examples)
{
    if (l->chunk != chunk) {
        if (YK_RESERVE(l->squares, l->squares_cap, chunk->nkeys, "the keys of a batch") ||
            YK_RESERVE(l->used_at, l->used_cap, chunk->nkeys, "the keys of a batch"))
            return YK_ESYSTEM;
        memset(l->squares, 0, chunk->nkeys * sizeof *l->squares);
        l->chunk = chunk;
    }
    if (chunk->bias != UINT32_MAX)
        l->squares[chunk->bias] += (float)examples;
    return YK_OK;
}

/* The rows of a batch are in random order: prefetches a later one. */
static inline void prefetch_row(const yk_batch *b, size_t i)
{
    enum { LINE = 16, LATER = 4 }; /* keys; rows */
    if (i + 2 * LATER < b->n)
        __builtin_prefetch(b->rows->start + b->pick[i + 2 * LATER]);
    if (i + LATER >= b->n)
        return;
    const uint64_t begin = b->rows->start[b->pick[i + LATER]], end = b->rows->start[b->pick[i + LATER] + 1];
    for (uint64_t at = begin; at < end; at += LINE)
        __builtin_prefetch(b->rows->index + at);
}

/* Copies the rows of a batch. Until the request is closed, index[] are the slots of the keys in l->keys, or the indices of the
 * chunk. */
static yk_status add_sparse(yk_remote *r, yk__remote_channel *l, yk__request *a, const yk_batch *b,
                            const yk_chunk *chunk)
{
    yk_rows *w = &a->copied;
    size_t entries = 0;
    for (size_t i = 0; i < b->n; i++)
        entries += yk_rows_entries(b->rows, b->pick[i]);
    yk_status st = reserve(w, b, entries);
    if (st || (st = add_batch(a, b)) ||
        (st = chunk ? begin_part(l, chunk, b->n) : yk_merger_grow(&l->keys, entries + 1)))
        return st;
    if (!chunk && r->config.bias_key != UINT32_MAX) {
        uint32_t bias;
        yk_merger_slots(&l->keys, &r->config.bias_key, 1, &bias);
        l->keys.value[bias] += (float)b->n;
    }
    float *squares = chunk ? l->squares : l->keys.value;
    uint64_t e = w->n ? w->start[w->n] : 0;
    for (size_t i = 0, to = w->n; i < b->n; i++, to++) {
        const size_t row = b->pick[i];
        const uint64_t begin = b->rows->start[row], end = b->rows->start[row + 1];
        prefetch_row(b, i);
        w->start[to] = e;
        w->label[to] = b->rows->label[row];
        a->pick[to] = (uint32_t)to;
        if (chunk)
            memcpy(w->index + e, b->rows->index + begin, (end - begin) * sizeof *w->index);
        else
            yk_merger_slots(&l->keys, b->rows->index + begin, end - begin, w->index + e);
        for (uint64_t at = begin; at < end; at++, e++) {
            const float x = b->rows->value ? b->rows->value[at] : 1.0f;
            squares[w->index[e]] += x * x + FLT_MIN; /* not 0 */
            if (w->value)
                w->value[e] = x;
            if (w->field)
                w->field[e] = b->rows->field ? b->rows->field[at] : 0;
        }
    }
    w->n += b->n;
    w->start[w->n] = e;
    w->kind = YK_ROWS_SPARSE;
    return YK_OK;
}

static yk_status add_chunk(yk__request *a, const yk_chunk *chunk, const yk_batch *b)
{
    yk_status st = add_batch(a, b);
    if (st)
        return st;
    memcpy(a->pick + a->batch[a->batches - 1].end - b->n, b->pick, b->n * sizeof *a->pick);
    a->keys = chunk;
    a->rows = b->rows;
    return YK_OK;
}

yk_status yk__request_add(yk_remote *r, yk__remote_channel *l, const yk_batch *b, const yk_chunk *chunk,
                          bool whole, size_t *index_out)
{
    yk__request *a = open_of(r, l);
    *index_out = a->batches;
    if (r->owners[0].n)
        return chunk && whole ? add_chunk(a, chunk, b) : add_sparse(r, l, a, b, chunk);
    a->dense = *b;
    a->batches = 1;
    return YK_OK;
}

/* The keys of a chunk that the copied rows have, in the order of the chunk. */
static yk_status keys_of_part(yk_remote *r, yk__remote_channel *l, yk_chunk *found)
{
    const yk_chunk *chunk = l->chunk;
    const size_t servers = (size_t)r->owners[0].n;
    if (YK_RESERVE(found->begin, found->cap, servers + 1 + 2 * (size_t)chunk->nkeys, "the keys of a batch"))
        return YK_ESYSTEM;
    found->row = found->begin + servers + 1;
    found->squares = (float *)(void *)(found->row + chunk->nkeys);
    found->squares_sum = 0.0;
    uint32_t n = 0;
    for (size_t k = 0; k < servers; k++) {
        found->begin[k] = n;
        for (uint32_t i = chunk->begin[k]; i < chunk->begin[k + 1]; i++) {
            l->used_at[i] = n;
            found->row[n] = chunk->row[i];
            found->squares[n] = l->squares[i];
            found->squares_sum += (double)l->squares[i];
            n += l->squares[i] > 0.0f;
        }
    }
    found->begin[servers] = found->nkeys = n;
    found->bias = chunk->bias == UINT32_MAX ? UINT32_MAX : l->used_at[chunk->bias];
    l->chunk = NULL;
    return YK_OK;
}

/* Copies the keys for find_others(), because sorting overwrites them. Chunks do not occur here: they are used only in asynchronous
 * training, and groups with different placements need lockstep. */
static yk_status copy_keys(const yk_remote *r, const yk__remote_channel *l, yk__request *a)
{
    const size_t n = l->keys.n;
    if (!r->owners[1].n)
        return YK_OK;
    if (YK_RESERVE(a->others_at, a->others_cap, 2 * n + 1, "the keys of a batch"))
        return YK_ESYSTEM;
    memcpy(a->others_at + n, l->keys.key, n * sizeof *a->others_at);
    return YK_OK;
}

/* Sorts the keys by their owners in the groups with another placement. */
static yk_status find_others(const yk_remote *r, const yk__remote_channel *l, yk__request *a)
{
    if (!r->owners[1].n)
        return YK_OK;
    yk_merger m = l->keys;
    m.key = a->others_at + m.n;
    yk_status st = yk__chunk_sort(&a->others, &m, NULL, r->owners[1].n, UINT32_MAX);
    for (size_t i = 0; !st && i < m.n; i++)
        a->others_at[m.key[i]] = l->keys.key[i];
    return st;
}

/* Sorts the keys of the copied rows by server. */
static yk_status find_keys(yk_remote *r, yk__remote_channel *l, yk__request *a)
{
    yk_rows *w = &a->copied;
    const uint32_t *index_of = l->chunk ? l->used_at : l->keys.key;
    yk_status st = copy_keys(r, l, a);
    if (!st)
        st = l->chunk ? keys_of_part(r, l, &a->found)
                      : yk__chunk_sort(&a->found, &l->keys, NULL, r->owners[0].n, r->config.bias_key);
    if (st || (st = find_others(r, l, a)))
        return st;
    a->keys = &a->found;
    a->found.entries = w->start[w->n];
    w->dim = a->found.nkeys;
    for (uint64_t e = 0; e < a->found.entries; e++)
        w->index[e] = index_of[w->index[e]];
    return YK_OK;
}

/* Reserves memory for the values of all groups. */
static yk_status reserve_values(yk_remote *r, yk__request *a)
{
    size_t floats = 0;
    for (int g = 0; g < r->config.ngroups; g++) {
        const yk_group *group = &r->config.group[g];
        a->at[g] = floats;
        floats += YK_ROUND_UP((group->keyed ? a->keys->nkeys * group->width : (size_t)group->keys) *
                                  (size_t)r->config.arrays[g],
                              16);
    }
    if (floats + 16 <= a->w_cap)
        return YK_OK;
    yk_free(a->w);
    a->w_cap = r->owners[0].n ? floats + floats / 2 + 16 : floats + 16;
    a->w = yk_alloc(a->w_cap, sizeof *a->w, "the parameters of a batch");
    return a->w ? YK_OK : YK_ESYSTEM;
}

yk_status yk__request_close(yk_remote *r, int channel, yk__request **out)
{
    yk__remote_channel *l = &r->channel[channel];
    yk__request *a = open_of(r, l);
    l->open = NULL;
    a->number = l->requested++ * (uint32_t)r->config.channels + (uint32_t)channel;
    atomic_store(&a->missing, r->config.servers);
    *out = a;
    yk_status st = a->batches && r->owners[0].n && !a->keys ? find_keys(r, l, a) : YK_OK;
    return st || !a->batches ? st : reserve_values(r, a);
}

size_t yk_remote_added_by(const yk_remote *r, int channel, int thread)
{
    const yk__request *open = r->channel[channel].open;
    return open ? (size_t)open->share[thread - channel].batches : 0;
}

int yk_remote_thread(const yk_remote_answer *answer, size_t i)
{
    return ((const yk__request *)answer->request)->batch[i].thread;
}

void yk__request_fini(yk__request *a)
{
    yk_rows_fini(&a->copied);
    free(a->found.begin);
    free(a->others.begin);
    free(a->others_at);
    free(a->pick);
    free(a->batch);
    yk_free(a->w);
    yk_free(a->share);
}
