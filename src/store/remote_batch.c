/* What a worker asks for: the keys of a batch, or of several, each once. Sparse batches are copied with places among these
 * keys instead of the keys themselves. */
#include "store/remote_internal.h"

#include <stdlib.h>
#include <string.h>

static yk__asked *open_of(yk_remote *r, yk__remote_lane *l)
{
    yk__asked *a = l->open ? l->open : &l->slot[l->asked % YK__OUTSTANDING];
    if (l->open)
        return a;
    l->open = a;
    a->batches = a->nkeys = a->rows.n = a->bytes = 0;
    a->chunk = NULL;
    memset(a->begin, 0, ((size_t)r->config.servers + 1) * sizeof *a->begin);
    if (l->asked) /* threads that have no batch in it are where they were */
        memcpy(a->share, l->slot[(l->asked - 1) % YK__OUTSTANDING].share,
               (size_t)(r->config.threads / r->config.lanes) * sizeof *a->share);
    for (int i = 0; i < r->config.threads / r->config.lanes; i++)
        a->share[i].batches = 0;
    yk_merger_clear(&l->keys);
    return a;
}

/* Room for a batch with so many entries. */
static yk_status reserve(yk__asked *a, const yk_batch *b, size_t entries)
{
    yk_rows *w = &a->rows;
    const size_t rows = w->n + b->n + 1, all = entries + (w->n ? w->start[w->n] : 0) + 16;
    void *start = yk_grow(w->start, &a->row_cap, rows, sizeof *w->start, "a batch");
    w->start = start ? start : w->start;
    void *index = yk_grow(w->index, &a->entry_cap, all, sizeof *w->index, "a batch");
    w->index = index ? index : w->index;
    void *label = yk_grow(w->label, &a->label_cap, rows, sizeof *w->label, "a batch");
    w->label = label ? label : w->label;
    void *pick = yk_grow(a->pick, &a->pick_cap, rows, sizeof *a->pick, "a batch");
    a->pick = pick ? pick : a->pick;
    void *end = yk_grow(a->end, &a->end_cap, a->batches + 1, sizeof *a->end, "a batch");
    a->end = end ? end : a->end;
    void *value =
        b->rows->value ? yk_grow(w->value, &a->value_cap, all, sizeof *w->value, "a batch") : w->value;
    w->value = value ? value : w->value;
    void *field =
        b->rows->field ? yk_grow(w->field, &a->field_cap, all, sizeof *w->field, "a batch") : w->field;
    w->field = field ? field : w->field;
    if (b->rows->field && !field)
        return YK_ESYSTEM;
    return start && index && label && pick && end && (value || !b->rows->value) ? YK_OK : YK_ESYSTEM;
}

static yk_status add_sparse(yk_remote *r, yk__remote_lane *l, yk__asked *a, const yk_batch *b)
{
    const bool bias = r->config.bias_key != UINT32_MAX && a->batches == 0;
    yk_rows *w = &a->rows;
    size_t entries = bias;
    for (size_t i = 0; i < b->n; i++)
        entries += yk_rows_entries(b->rows, b->pick[i]);
    yk_status st = reserve(a, b, entries);
    if (st || (st = yk_merger_more(&l->keys, entries + 1)))
        return st;
    if (r->config.bias_key != UINT32_MAX)
        l->keys.value[yk_merger_slot(&l->keys, r->config.bias_key)] += (float)b->n;
    uint64_t e = w->n ? w->start[w->n] : 0;
    for (size_t i = 0, to = w->n; i < b->n; i++, to++) {
        const size_t row = b->pick[i];
        w->start[to] = e;
        w->label[to] = b->rows->label[row];
        a->pick[to] = (uint32_t)to;
        for (uint64_t at = b->rows->start[row]; at < b->rows->start[row + 1]; at++, e++) {
            const uint32_t place = yk_merger_slot(&l->keys, b->rows->index[at]);
            const float x = b->rows->value ? b->rows->value[at] : 1.0f;
            w->index[e] = place;
            l->keys.value[place] += x * x;
            if (b->rows->value)
                w->value[e] = x;
            if (b->rows->field)
                w->field[e] = b->rows->field[at];
        }
    }
    w->n += b->n;
    w->start[w->n] = e;
    w->kind = YK_ROWS_SPARSE;
    if (!b->rows->value) {
        free(w->value);
        w->value = NULL;
        a->value_cap = 0;
    }
    if (!b->rows->field) {
        free(w->field);
        w->field = NULL;
        a->field_cap = 0;
    }
    a->end[a->batches++] = w->n;
    return YK_OK;
}

yk_status yk__asked_add(yk_remote *r, yk__remote_lane *l, const yk_batch *b, size_t *index_out)
{
    yk__asked *a = open_of(r, l);
    *index_out = a->batches;
    if (r->keyed)
        return add_sparse(r, l, a, b);
    a->dense = *b;
    a->batches = 1;
    return YK_OK;
}

yk_status yk__asked_add_chunk(yk_remote *r, yk__remote_lane *l, const yk_chunk *chunk, const yk_batch *b)
{
    yk__asked *a = open_of(r, l);
    const size_t before = a->batches ? a->end[a->batches - 1] : 0;
    void *pick = yk_grow(a->pick, &a->pick_cap, before + b->n + 1, sizeof *a->pick, "a batch");
    a->pick = pick ? pick : a->pick;
    void *end = yk_grow(a->end, &a->end_cap, a->batches + 1, sizeof *a->end, "a batch");
    a->end = end ? end : a->end;
    if (!pick || !end)
        return YK_ESYSTEM;
    memcpy(a->pick + before, b->pick, b->n * sizeof *a->pick);
    a->end[a->batches++] = before + b->n;
    a->chunk = chunk;
    a->chunk_rows = b->rows;
    a->nkeys = chunk->nkeys;
    a->squares_sum = chunk->squares_sum;
    a->entries = chunk->entries;
    for (int k = 0; k <= r->config.servers; k++)
        a->begin[k] = chunk->begin[k];
    return YK_OK;
}

/* Which server has which of the keys, and as which number: places in the order of servers. */
static yk_status sort_by_server(yk_remote *r, yk__remote_lane *l, yk__asked *a)
{
    const size_t n = l->keys.n;
    const uint32_t servers = (uint32_t)r->config.servers;
    void *order = yk_grow(a->order, &a->order_cap, n + 1, sizeof *a->order, "a batch");
    a->order = order ? order : a->order;
    void *row = yk_grow(a->row, &a->key_cap, n + 1, sizeof *a->row, "a batch");
    a->row = row ? row : a->row;
    void *squares = yk_grow(a->squares, &a->squares_cap, n + 1, sizeof *a->squares, "a batch");
    a->squares = squares ? squares : a->squares;
    if (!order || !row || !squares)
        return YK_ESYSTEM;
    a->nkeys = a->rows.dim = n;
    a->squares_sum = 0.0;
    a->entries = a->rows.n ? a->rows.start[a->rows.n] : 0;
    for (size_t i = 0; i < n; i++) {
        a->squares[i] = l->keys.value[i];
        a->squares_sum += (double)a->squares[i];
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t number;
        a->begin[yk__server_of(l->keys.key[i], servers, &number) + 1]++;
    }
    for (uint32_t k = 0; k < servers; k++)
        a->begin[k + 1] += a->begin[k];
    for (size_t i = 0; i < n;
         i++) { /* begin[k] moves on to where server k + 1 begins, and is put back below */
        uint32_t number;
        const size_t to = a->begin[yk__server_of(l->keys.key[i], servers, &number)]++;
        a->order[to] = (uint32_t)i;
        a->row[to] = number;
    }
    memmove(a->begin + 1, a->begin, servers * sizeof *a->begin);
    a->begin[0] = 0;
    return YK_OK;
}

/* Room for the values of all groups. */
static yk_status make_room(yk_remote *r, yk__asked *a)
{
    size_t floats = 0;
    for (int g = 0; g < r->config.ngroups; g++) {
        const yk_group *group = &r->config.group[g];
        a->at[g] = floats;
        floats += YK_ROUND_UP(
            (group->keyed ? a->nkeys * group->width : (size_t)group->keys) * (size_t)r->config.arrays[g], 16);
    }
    if (floats + 16 <= a->w_cap)
        return YK_OK;
    yk_free(a->w);
    a->w_cap = r->keyed ? floats + floats / 2 + 16 : floats + 16;
    a->w = yk_alloc(a->w_cap, sizeof *a->w, "the parameters of a batch");
    return a->w ? YK_OK : YK_ESYSTEM;
}

yk_status yk__asked_close(yk_remote *r, int lane, yk__asked **out)
{
    yk__remote_lane *l = &r->lane[lane];
    yk__asked *a = open_of(r, l);
    l->open = NULL;
    a->number = l->asked++ * (uint32_t)r->config.lanes + (uint32_t)lane;
    atomic_store(&a->missing, r->config.servers);
    *out = a;
    yk_status st = a->batches && r->keyed && !a->chunk ? sort_by_server(r, l, a) : YK_OK;
    return st || !a->batches ? st : make_room(r, a);
}

void yk__asked_fini(yk__asked *a)
{
    free(a->rows.start);
    free(a->rows.index);
    free(a->rows.value);
    free(a->rows.field);
    free(a->rows.label);
    free(a->pick);
    free(a->end);
    free(a->order);
    free(a->row);
    free(a->squares);
    yk_free(a->w);
    yk_free(a->begin);
    yk_free(a->share);
}
