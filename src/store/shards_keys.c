/* Requests: the keys of one or more batches, each once. Sparse batches are copied, with indices into these keys instead of the
 * keys. Each thread of a channel adds its batches to its own part of the request, and finds their keys. Then the keys of all
 * parts are merged, those of each server separately. */
#include "store/shards_internal.h"

#include <stdlib.h>
#include <string.h>

/* The open request, or a new one. */
static yk__request *open_request(yk__channel *c)
{
    yk__request *a = &c->slot[c->requested % YK__MAX_OUTSTANDING];
    const size_t threads = (size_t)yk__threads_of(c);
    if (c->open)
        return a;
    c->open = a;
    a->bytes = 0;
    a->keys_found = false;
    c->chunk = NULL;
    if (c->requested) /* the cursors of threads without a batch do not change */
        memcpy(a->share, c->slot[(c->requested - 1) % YK__MAX_OUTSTANDING].share, threads * sizeof *a->share);
    for (size_t i = 0; i < threads; i++) {
        a->share[i].batches = 0;
        a->part[i].batches = 0;
        a->part[i].whole = NULL;
        a->part[i].rows = &a->part[i].copied;
        yk_rows_clear(&a->part[i].copied);
        a->part[i].copied.kind = YK_ROWS_SPARSE;
        yk_merger_clear(&c->keys[i]);
    }
    return a;
}

/* Adds a batch; its picks follow. */
static yk_status add_batch(yk__part *p, const yk_batch *b)
{
    const size_t before = p->batches ? p->batch[p->batches - 1].end : 0;
    if (YK_RESERVE(p->pick, p->pick_cap, before + b->n + 1, "a batch") ||
        YK_RESERVE(p->batch, p->batch_cap, p->batches + 1, "a batch"))
        return YK_ESYSTEM;
    p->batch[p->batches].end = before + b->n;
    p->batch[p->batches++].noise = yk_batch_noise(b);
    return YK_OK;
}

/* Begins a request for some batches of a chunk. */
static yk_status begin_part(yk__channel *c, const yk_chunk *chunk)
{
    const size_t n = chunk->nkeys + 8, before = c->used_cap;
    if (YK_RESERVE(c->squares, c->squares_cap, n, "the keys of a batch") ||
        YK_RESERVE(c->used_at, c->used_at_cap, n, "the keys of a batch") ||
        YK_RESERVE(c->used, c->used_cap, n, "the keys of a batch"))
        return YK_ESYSTEM;
    if (c->used_cap > before) {
        memset(c->used, 0, c->used_cap);
        memset(c->squares, 0, c->squares_cap * sizeof *c->squares);
    }
    c->chunk = chunk;
    return YK_OK;
}

/* Marks the keys of a row, and the bias, as used. */
static void mark_keys(yk__channel *c, const yk_rows *w, size_t row)
{
    const uint32_t *restrict index = w->index, bias = c->chunk->bias;
    unsigned char *restrict used = c->used;
    float *restrict squares = c->squares;
    for (uint64_t e = w->start[row]; e < w->start[row + 1]; e++) {
        const float x = yk_rows_value(w, e);
        used[index[e]] = 1;
        squares[index[e]] += x * x;
    }
    if (bias != UINT32_MAX) {
        used[bias] = 1;
        squares[bias] += 1.0f;
    }
}

/* Copies the rows of a batch. Until the keys are found, index[] are the slots of the keys in `m`, or the indices of the chunk. */
static yk_status add_sparse(yk_shards *s, yk__channel *c, yk__part *p, yk_merger *m, const yk_batch *b,
                            const yk_chunk *chunk)
{
    yk_rows *w = &p->copied;
    size_t row = w->n;
    yk_status st = yk_rows_append_picked(w, b->rows, b->pick, b->n);
    if (st || (st = add_batch(p, b)) || (st = chunk ? begin_part(c, chunk) : yk_merger_grow(m, 1)))
        return st;
    if (!chunk && s->config.bias_key != UINT32_MAX) {
        uint32_t bias;
        yk_merger_slots(m, &s->config.bias_key, 1, &bias);
        m->value[bias] += (float)b->n;
    }
    for (; row < w->n; row++) {
        const uint64_t begin = w->start[row], end = w->start[row + 1];
        p->pick[row] = (uint32_t)row;
        if (chunk) {
            mark_keys(c, w, row);
            continue;
        }
        /* most keys are in several rows: a table for all entries would not fit into a cache */
        if ((st = yk_merger_grow(m, end - begin)))
            return st;
        yk_merger_slots(m, w->index + begin, end - begin, w->index + begin);
        for (uint64_t e = begin; e < end; e++) {
            const float x = yk_rows_value(w, e);
            m->value[w->index[e]] += x * x;
        }
    }
    return YK_OK;
}

static yk_status add_chunk(yk__part *p, const yk_chunk *chunk, const yk_batch *b)
{
    yk_status st = add_batch(p, b);
    if (st)
        return st;
    memcpy(p->pick + p->batch[p->batches - 1].end - b->n, b->pick, b->n * sizeof *p->pick);
    p->whole = chunk;
    p->rows = b->rows;
    return YK_OK;
}

void yk__shards_count_batch(yk_shards *s, yk__request *a, int thread, const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__share *share = &a->share[thread - yk__channel_of(s, thread)->first];
    share->newest = s->thread[thread].lease_incarnation;
    if (share->batches++ == 0)
        share->incarnation = share->newest;
    memcpy(share->cursor, cursor, sizeof share->cursor);
}

yk_status yk__shards_add(yk_shards *s, int thread, const yk_batch *batch, const yk_chunk *chunk, bool whole,
                         const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__channel *c = yk__channel_of(s, thread);
    const int number = thread - c->first;
    yk_mutex_lock(&c->lock);
    yk__request *a = open_request(c);
    a->keys_found = false; /* if its keys were found, it had none */
    yk_mutex_unlock(&c->lock);
    yk__part *p = &a->part[number];
    yk_status st = YK_OK;
    if (!s->owners[0].n) {
        p->batches = 1; /* nothing is remapped */
    } else {
        st =
            chunk && whole ? add_chunk(p, chunk, batch) : add_sparse(s, c, p, &c->keys[number], batch, chunk);
    }
    if (!st)
        yk__shards_count_batch(s, a, thread, cursor);
    return st;
}

yk_batch yk__shards_batch(const yk__channel *c, int thread, size_t i)
{
    const yk__request *a = c->current;
    const yk__part *p = &a->part[thread - c->first];
    const size_t begin = i ? p->batch[i - 1].end : 0;
    return (yk_batch){.rows = p->rows,
                      .pick = p->pick + begin,
                      .n = p->batch[i].end - begin,
                      .ahead = p->batch[p->batches - 1].end - p->batch[i].end,
                      .noise = p->batch[i].noise,
                      .remapped = true,
                      .bias = p->whole ? p->whole->bias : p->bias};
}

/* The keys of a chunk that the copied rows have, in the order of the chunk. */
static yk_status keys_of_part(yk_shards *s, yk__channel *c, yk_chunk *found)
{
    const yk_chunk *chunk = c->chunk;
    const uint32_t servers = (uint32_t)s->owners[0].n;
    if (yk__chunk_reserve(found, chunk->nkeys, s->owners[0].n))
        return YK_ESYSTEM;
    uint32_t n = 0, k = 0;
    for (uint32_t eight = 0; eight < chunk->nkeys; eight += 8) {
        uint64_t used; /* one bit per key */
        memcpy(&used, c->used + eight, sizeof used);
        memset(c->used + eight, 0, sizeof used);
        for (; used; used &= used - 1, n++) {
            const uint32_t i = eight + (uint32_t)__builtin_ctzll(used) / 8;
            while (i >= chunk->begin[k + 1])
                found->begin[++k] = n;
            c->used_at[i] = n;
            found->row[n] = chunk->row[i];
            found->squares[n] = c->squares[i];
            found->squares_sum += (double)c->squares[i];
            c->squares[i] = 0.0f;
        }
    }
    while (k < servers)
        found->begin[++k] = n;
    found->nkeys = n;
    found->bias = chunk->bias == UINT32_MAX ? UINT32_MAX : c->used_at[chunk->bias];
    c->chunk = NULL;
    return YK_OK;
}

/* Remaps index[] of the copied rows. */
static void remap(yk__part *p, const uint32_t *number, uint32_t keys)
{
    yk_rows *w = &p->copied;
    w->dim = keys;
    for (uint64_t e = 0; e < p->part_keys.entries; e++)
        w->index[e] = number[w->index[e]];
}

/* Stage 0: sorts the keys of a part by server. */
static yk_status sort_part(yk_shards *s, yk__channel *c, yk__part *p, yk_merger *m, bool only)
{
    if (!p->batches || p->whole)
        return YK_OK;
    const uint32_t *number = c->chunk ? c->used_at : m->key;
    yk_status st = c->chunk ? keys_of_part(s, c, &p->part_keys)
                            : yk__chunk_sort(&p->part_keys, m, NULL, s->owners[0].n, s->config.bias_key);
    if (st)
        return st;
    p->part_keys.entries = p->copied.start[p->copied.n];
    p->bias = p->part_keys.bias;
    if (only)
        remap(p, number, p->part_keys.nkeys);
    return YK_RESERVE(p->at, p->at_cap, only ? 1 : p->part_keys.nkeys + 1, "the keys of a batch") ? YK_ESYSTEM
                                                                                                  : YK_OK;
}

/* Stage 1: the keys of all parts on server k. */
static yk_status merge_keys(const yk__request *a, int threads, int k, yk_merger *m)
{
    size_t max = 1;
    for (const yk__part *p = a->part; p < a->part + threads; p++)
        max += p->batches ? p->part_keys.begin[k + 1] - p->part_keys.begin[k] : 0;
    yk_status st = yk_merger_reserve(m, max);
    for (const yk__part *p = a->part; !st && p < a->part + threads; p++)
        if (p->batches)
            yk_merger_slots(m, p->part_keys.row + p->part_keys.begin[k],
                            p->part_keys.begin[k + 1] - p->part_keys.begin[k], p->at + p->part_keys.begin[k]);
    return st;
}

/* Stage 2: the indices of the part's keys among those of all parts. */
static void remap_part(const yk_shards *s, const yk__channel *c, yk__part *p, yk_merger *m)
{
    uint32_t before = 0;
    if (!p->batches)
        return;
    for (int k = 0; k < s->owners[0].n; before += (uint32_t)c->united[k++].n)
        for (uint32_t i = p->part_keys.begin[k]; i < p->part_keys.begin[k + 1]; i++)
            p->at[i] += before;
    for (size_t i = 0; i < m->n; i++)
        m->key[i] = p->at[m->key[i]];
    p->bias = p->part_keys.bias == UINT32_MAX ? UINT32_MAX : p->at[p->part_keys.bias];
    remap(p, m->key, before);
}

/* Lists the keys of all parts. */
static yk_status list_keys(const yk_shards *s, const yk__channel *c, yk_chunk *out)
{
    const size_t servers = (size_t)s->owners[0].n;
    size_t n = 0;
    for (size_t k = 0; k < servers; k++)
        n += c->united[k].n;
    if (yk__chunk_reserve(out, n, s->owners[0].n))
        return YK_ESYSTEM;
    for (size_t k = 0; k < servers; k++) {
        memcpy(out->row + out->begin[k], c->united[k].key, c->united[k].n * sizeof *out->row);
        out->begin[k + 1] = out->begin[k] + (uint32_t)c->united[k].n;
    }
    return YK_OK;
}

/* Sorts the keys by their owners in the groups with another placement. */
static yk_status sort_keys_elsewhere(const yk_shards *s, yk__request *a)
{
    const uint32_t servers = (uint32_t)s->owners[0].n, n = a->keys->nkeys;
    if (!s->owners[1].n)
        return YK_OK;
    if (YK_RESERVE(a->elsewhere_at, a->elsewhere_cap, 2 * (size_t)n + 1, "the keys of a batch"))
        return YK_ESYSTEM;
    uint32_t *key = a->elsewhere_at + n;
    for (uint32_t k = 0; k < servers; k++)
        for (uint32_t i = a->keys->begin[k]; i < a->keys->begin[k + 1]; i++)
            key[i] = (uint32_t)yk__key_of(a->keys->row[i], k, servers);
    yk_status st = yk__chunk_sort(&a->keys_elsewhere, &(yk_merger){.n = n, .key = key}, NULL, s->owners[1].n,
                                  UINT32_MAX);
    for (uint32_t i = 0; !st && i < n; i++)
        a->elsewhere_at[key[i]] = i;
    return st;
}

yk_status yk__shards_reserve(float **array, size_t *cap, size_t floats)
{
    if (floats + 16 <= *cap)
        return YK_OK;
    yk_free(*array);
    *cap = floats + floats / 2 + 16;
    *array = yk_alloc(*cap, sizeof **array, "the parameters or gradients of a batch");
    return *array ? YK_OK : YK_ESYSTEM;
}

/* Reserves memory for the values of all groups. */
static yk_status reserve_values(yk_shards *s, yk__request *a)
{
    size_t floats = 0, at[YK_MAX_GROUPS];
    for (int g = 0; g < s->plan->ngroups; g++) {
        const yk_group *group = &s->config.group[g];
        at[g] = floats;
        floats += YK_ROUND_UP(
            (group->keyed ? a->keys->nkeys * group->width : (size_t)group->keys) * (size_t)s->arrays[g], 16);
    }
    yk_status st = yk__shards_reserve(&a->w, &a->w_cap, floats);
    for (int g = 0; !st && g < s->plan->ngroups; g++)
        a->value[g] = a->w + at[g];
    return st;
}

/* Stage 2, in one thread. */
static yk_status find_all(yk_shards *s, const yk__channel *c, yk__request *a)
{
    const bool only = yk__threads_of(c) == 1;
    yk_status st = YK_OK;
    a->keys_found = true;
    a->batches = yk__shards_added(c);
    a->keys = NULL;
    if (a->batches && s->owners[0].n) {
        a->keys = !only ? &a->united : a->part->whole ? a->part->whole : &a->part->part_keys;
        if (!(st = only ? YK_OK : list_keys(s, c, &a->united)))
            st = sort_keys_elsewhere(s, a);
    }
    return st || !a->batches ? st : reserve_values(s, a);
}

yk_status yk__shards_find_keys(yk_shards *s, yk__channel *c, int stage, int me, int all)
{
    const int threads = yk__threads_of(c), servers = threads > 1 ? s->owners[0].n : 0;
    yk_mutex_lock(&c->lock); /* in stage 0, other threads may still add their batches */
    yk__request *a = c->open;
    yk_mutex_unlock(&c->lock);
    yk_status st = YK_OK;
    if (!a)
        return YK_OK;
    if (stage == 0) {
        for (int i = me; !st && s->owners[0].n && i < threads; i += all)
            st = sort_part(s, c, &a->part[i], &c->keys[i], threads == 1);
        return st;
    }
    if (stage == 1) {
        for (int k = me; !st && k < servers; k += all)
            st = merge_keys(a, threads, k, &c->united[k]);
        return st;
    }
    for (int i = me; servers && i < threads; i += all)
        remap_part(s, c, &a->part[i], &c->keys[i]);
    return me == 0 ? find_all(s, c, a) : YK_OK;
}

yk_status yk__shards_close(yk_shards *s, yk__channel *c, yk__request **out)
{
    yk__request *a = open_request(c);
    yk_status st = YK_OK;
    for (int stage = 0; !a->keys_found && !st && stage < YK__STAGES; stage++)
        st = yk__shards_find_keys(s, c, stage, 0, 1);
    c->open = NULL;
    a->number = c->requested++ * (uint32_t)s->plan->channels + (uint32_t)c->first;
    atomic_store(&a->missing, s->plan->owners);
    *out = a;
    return st;
}

size_t yk__shards_added(const yk__channel *c)
{
    size_t n = 0;
    for (int i = 0; c->open && i < yk__threads_of(c); i++)
        n += c->open->part[i].batches;
    return n;
}

size_t yk__shards_added_by(const yk__channel *c, int thread)
{
    return c->open ? (size_t)c->open->share[thread - c->first].batches : 0;
}

void yk__request_fini(yk__request *a, int parts, int servers)
{
    for (int k = 0; a->answer && k < servers; k++)
        free(a->answer[k].data);
    for (yk__part *p = a->part; p && p < a->part + parts; p++) {
        yk_rows_fini(&p->copied);
        free(p->part_keys.begin);
        free(p->at);
        free(p->pick);
        free(p->batch);
    }
    free(a->united.begin);
    free(a->keys_elsewhere.begin);
    free(a->elsewhere_at);
    yk_free(a->w);
}
