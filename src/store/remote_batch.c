/* What a worker asks for: the keys of a batch, or of several, each once. Sparse batches are copied with places among these
 * keys instead of the keys themselves. */
#include "store/remote_inside.h"

#include <stdlib.h>
#include <string.h>

yk__asked *yk__asked_open(yk_remote *r)
{
    yk__asked *a = r->open ? r->open : &r->slot[r->next_ask % YK__OUTSTANDING];
    if (r->open)
        return a;
    r->open = a;
    a->batches = a->nkeys = a->rows.n = 0;
    memset(a->count, 0, (size_t)r->config.servers * sizeof *a->count);
    yk_merger_clear(&r->keys);
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
    return start && index && label && pick && end && (value || !b->rows->value) ? YK_OK : YK_ESYSTEM;
}

static yk_status add_sparse(yk_remote *r, yk__asked *a, const yk_batch *b)
{
    const bool bias = r->config.bias_key != UINT32_MAX && a->batches == 0;
    yk_rows *w = &a->rows;
    size_t entries = bias;
    for (size_t i = 0; i < b->n; i++)
        entries += yk_rows_entries(b->rows, b->pick[i]);
    yk_status st = reserve(a, b, entries);
    if (st || (st = yk_merger_more(&r->keys, entries + 1)))
        return st;
    if (bias)
        yk_merger_place(&r->keys, r->config.bias_key);
    uint64_t e = w->n ? w->start[w->n] : 0;
    for (size_t i = 0, to = w->n; i < b->n; i++, to++) {
        const size_t row = b->pick[i];
        w->start[to] = e;
        w->label[to] = b->rows->label[row];
        a->pick[to] = (uint32_t)to;
        for (uint64_t at = b->rows->start[row]; at < b->rows->start[row + 1]; at++, e++) {
            w->index[e] = yk_merger_place(&r->keys, b->rows->index[at]);
            if (b->rows->value)
                w->value[e] = b->rows->value[at];
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
    a->end[a->batches++] = w->n;
    return YK_OK;
}

yk_status yk__asked_add(yk_remote *r, const yk_batch *b)
{
    yk__asked *a = yk__asked_open(r);
    if (r->config.sparse)
        return add_sparse(r, a, b);
    a->dense = *b;
    a->batches = a->nkeys = 1;
    return YK_OK;
}

/* Which server has which of the keys, and as which number. */
static yk_status find_servers(yk_remote *r, yk__asked *a)
{
    const size_t n = r->keys.n;
    void *server = yk_grow(a->server_of, &a->server_cap, n + 1, sizeof *a->server_of, "a batch");
    a->server_of = server ? server : a->server_of;
    void *values = yk_grow(a->w, &a->w_cap, n * r->arrays + 16, sizeof *a->w, "a batch");
    a->w = values ? values : a->w;
    if (!server || !values)
        return YK_ESYSTEM;
    a->nkeys = a->rows.dim = n;
    for (size_t i = 0; i < n; i++) {
        uint32_t row;
        a->server_of[i] = yk__server_of(r->keys.key[i], (uint32_t)r->config.servers, &row);
        r->keys.key[i] = row;
        a->count[a->server_of[i]]++;
    }
    return YK_OK;
}

yk_status yk__asked_close(yk_remote *r, yk__asked **out)
{
    yk__asked *a = yk__asked_open(r);
    r->open = NULL;
    a->number = r->next_ask++;
    a->missing = r->config.servers;
    *out = a;
    return r->config.sparse && a->batches ? find_servers(r, a) : YK_OK;
}

void yk__asked_fini(yk_remote *r, yk__asked *a)
{
    free(a->rows.start);
    free(a->rows.index);
    free(a->rows.value);
    free(a->rows.label);
    free(a->pick);
    free(a->end);
    free(a->server_of);
    yk_free(a->count);
    if (r->config.sparse)
        free(a->w);
    else
        yk_free(a->w);
}
