#include "store/chunks.h"

#include "base/mem.h"
#include "store/messages.h"
#include <stdlib.h>
#include <string.h>

struct yk_chunks {
    yk_rows *rows;
    size_t chunk_rows, n;
    int servers;
    uint32_t bias_key;
    yk_chunk *chunk;
};

yk_status yk_chunks_create(yk_rows *rows, size_t chunk_rows, int servers, uint32_t bias_key, yk_chunks **out)
{
    yk_chunks *c = yk_alloc(1, sizeof *c, "the chunks");
    if (!c)
        return YK_ESYSTEM;
    *c = (yk_chunks){.rows = rows,
                     .chunk_rows = chunk_rows,
                     .n = (rows->n + chunk_rows - 1) / chunk_rows,
                     .servers = servers,
                     .bias_key = bias_key};
    c->chunk = yk_alloc(c->n, sizeof *c->chunk, "the chunks");
    if (!c->chunk) {
        yk_chunks_free(c);
        return YK_ESYSTEM;
    }
    *out = c;
    return YK_OK;
}

void yk_chunks_free(yk_chunks *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->chunk && i < c->n; i++)
        free(c->chunk[i].begin);
    yk_free(c->chunk);
    yk_free(c);
}

/* Collects the keys, in the order of their first occurrence, and their squares in `m`. The rows get their slots. */
static yk_status find_keys(yk_chunks *c, size_t first, size_t end, yk_merger *m)
{
    yk_rows *r = c->rows;
    const size_t n = (size_t)(r->start[end] - r->start[first]);
    uint32_t *index = r->index + r->start[first], bias;
    yk_status st = yk_merger_reserve(m, n + 1);
    if (st)
        return st;
    yk_merger_slots(m, index, n, index);
    for (size_t i = 0; i < n; i++) {
        const float x = yk_rows_value(r, r->start[first] + i);
        m->value[index[i]] += x * x;
    }
    if (c->bias_key != UINT32_MAX) {
        yk_merger_slots(m, &c->bias_key, 1, &bias);
        m->value[bias] += (float)(end - first);
    }
    return YK_OK;
}

yk_status yk__chunk_reserve(yk_chunk *c, size_t n, int servers)
{
    const size_t k = (size_t)servers;
    if (YK_RESERVE(c->begin, c->cap, k + 1 + 2 * n, "the keys of a batch"))
        return YK_ESYSTEM;
    memset(c->begin, 0, (k + 1) * sizeof *c->begin);
    c->row = c->begin + k + 1;
    c->squares = (float *)(void *)(c->row + n);
    c->nkeys = (uint32_t)n;
    c->bias = UINT32_MAX;
    c->squares_sum = 0.0;
    return YK_OK;
}

yk_status yk__chunk_sort(yk_chunk *c, yk_merger *m, const uint32_t *order, int servers, uint32_t bias_key)
{
    const size_t n = m->n, k = (size_t)servers;
    uint32_t row;
    if (yk__chunk_reserve(c, n, servers))
        return YK_ESYSTEM;
    for (size_t i = 0; i < n; i++)
        c->begin[yk__server_of(m->key[i], (uint32_t)servers, &row) + 1]++;
    for (size_t i = 0; i < k; i++)
        c->begin[i + 1] += c->begin[i];
    for (size_t j = 0; j < n; j++) {
        /* begin[k] advances to the start of server k + 1; it is restored below */
        const size_t i = order ? order[j] : j;
        const uint32_t to = c->begin[yk__server_of(m->key[i], (uint32_t)servers, &row)]++;
        c->row[to] = row;
        c->squares[to] = m->value ? m->value[i] : 0.0f;
        c->squares_sum += (double)c->squares[to];
        if (m->key[i] == bias_key)
            c->bias = to;
        m->key[i] = to;
    }
    memmove(c->begin + 1, c->begin, k * sizeof *c->begin);
    c->begin[0] = 0;
    return YK_OK;
}

/* The slots of `m` by ascending key. Ascending rows make an owner's gathers cheaper: the frequent keys, which have the smallest
 * numbers, are next to each other. Free it with free(). */
static uint32_t *ascending(const yk_merger *m)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    const size_t n = m->n;
    uint32_t *a = malloc((2 * n + 1) * sizeof *a), *from = a, *to = a + n;
    for (size_t i = 0; a && i < n; i++)
        a[i] = (uint32_t)i;
    for (int shift = 0; a && shift < 32; shift += BITS) {
        size_t count[BUCKETS + 1] = {0};
        for (size_t i = 0; i < n; i++)
            count[(m->key[i] >> shift & (BUCKETS - 1)) + 1]++;
        for (size_t k = 0; k < BUCKETS; k++)
            count[k + 1] += count[k];
        for (size_t i = 0; i < n; i++)
            to[count[m->key[from[i]] >> shift & (BUCKETS - 1)]++] = from[i];
        uint32_t *const swap = from;
        from = to;
        to = swap;
    }
    if (!a)
        yk_fail_memory((2 * n + 1) * sizeof *a, "the keys of a chunk");
    else if (from != a)
        memcpy(a, from, n * sizeof *a);
    return a;
}

static yk_status make(yk_chunks *c, yk_chunk *chunk, size_t first, size_t end, yk_merger *m)
{
    yk_rows *r = c->rows;
    yk_status st = find_keys(c, first, end, m);
    uint32_t *order = st ? NULL : ascending(m);
    if (!order)
        return st ? st : YK_ESYSTEM;
    st = yk__chunk_sort(chunk, m, order, c->servers, c->bias_key);
    free(order);
    if (st)
        return st;
    chunk->entries = r->start[end] - r->start[first];
    for (uint64_t e = r->start[first]; e < r->start[end]; e++)
        r->index[e] = m->key[r->index[e]];
    return YK_OK;
}

yk_status yk_chunks_prepare(yk_chunks *c, int me, int all)
{
    const size_t rows = c->rows->n;
    yk_merger m = {0};
    yk_status st = YK_OK;
    for (size_t i = (size_t)me; !st && i < c->n; i += (size_t)all) {
        const size_t first = i * c->chunk_rows, end = first + c->chunk_rows;
        st = make(c, &c->chunk[i], first, end < rows ? end : rows, &m);
    }
    yk_merger_fini(&m);
    return st;
}

const yk_chunk *yk_chunks_get(const yk_chunks *c, size_t row)
{
    return &c->chunk[row / c->chunk_rows];
}
