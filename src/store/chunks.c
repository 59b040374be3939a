#include "store/chunks.h"

#include "base/mem.h"
#include "store/messages.h"
#include <stdlib.h>

struct yk_chunks {
    yk_rows *rows;
    size_t unit, n;
    int servers;
    uint32_t bias_key;
    yk_chunk *chunk;
};

yk_status yk_chunks_create(yk_rows *rows, size_t unit, int servers, uint32_t bias_key, yk_chunks **out)
{
    yk_chunks *c = yk_alloc(1, sizeof *c, "the chunks of the data");
    if (!c)
        return YK_ESYSTEM;
    *c = (yk_chunks){.rows = rows,
                     .unit = unit,
                     .n = (rows->n + unit - 1) / unit,
                     .servers = servers,
                     .bias_key = bias_key};
    if (!(c->chunk = yk_alloc(c->n, sizeof *c->chunk, "the chunks of the data"))) {
        yk_free(c);
        return YK_ESYSTEM;
    }
    *out = c;
    return YK_OK;
}

void yk_chunks_free(yk_chunks *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        free(c->chunk[i].row); /* one block */
    yk_free(c->chunk);
    yk_free(c);
}

/* Keys by first occurrence, and their squares, in `m`; the rows get the numbers of these. */
static yk_status find_keys(yk_chunks *c, size_t first, size_t end, yk_merger *m)
{
    yk_rows *r = c->rows;
    yk_status st = yk_merger_reserve(m, (size_t)(r->start[end] - r->start[first]) + 1);
    if (st)
        return st;
    for (uint64_t e = r->start[first]; e < r->start[end]; e++) {
        const uint32_t place = yk_merger_slot(m, r->index[e]);
        const float x = r->value ? r->value[e] : 1.0f;
        r->index[e] = place;
        m->value[place] += x * x;
    }
    if (c->bias_key != UINT32_MAX)
        m->value[yk_merger_slot(m, c->bias_key)] += (float)(end - first);
    return YK_OK;
}

/* One block: row, squares, begin. */
static yk_status make_lists(const yk_chunks *c, yk_chunk *chunk, size_t n)
{
    const size_t servers = (size_t)c->servers;
    uint32_t *block = malloc((2 * n + servers + 1) * sizeof *block);
    if (!block)
        return yk_fail_memory((2 * n + servers + 1) * sizeof *block, "the keys of a chunk");
    chunk->nkeys = (uint32_t)n;
    chunk->row = block;
    chunk->squares = (float *)(void *)(block + n);
    chunk->begin = block + 2 * n;
    for (size_t k = 0; k <= servers; k++)
        chunk->begin[k] = 0;
    return YK_OK;
}

static yk_status make(yk_chunks *c, yk_chunk *chunk, size_t first, size_t end, yk_merger *m)
{
    const uint32_t servers = (uint32_t)c->servers;
    yk_rows *r = c->rows;
    yk_status st = find_keys(c, first, end, m);
    if (st || (st = make_lists(c, chunk, m->n)))
        return st;
    uint32_t row;
    for (size_t i = 0; i < m->n; i++)
        chunk->begin[yk__server_of(m->key[i], servers, &row) + 1]++;
    for (uint32_t k = 0; k < servers; k++)
        chunk->begin[k + 1] += chunk->begin[k];
    chunk->bias = UINT32_MAX;
    chunk->entries = r->start[end] - r->start[first];
    for (size_t i = 0; i < m->n;
         i++) { /* begin[k] moves on to where server k + 1 begins, and is put back below */
        const uint32_t to = chunk->begin[yk__server_of(m->key[i], servers, &row)]++;
        chunk->row[to] = row;
        chunk->squares[to] = m->value[i];
        chunk->squares_sum += (double)m->value[i];
        if (m->key[i] == c->bias_key)
            chunk->bias = to;
        m->key[i] = to; /* from here on: the final place */
    }
    for (uint32_t k = servers; k > 0; k--)
        chunk->begin[k] = chunk->begin[k - 1];
    chunk->begin[0] = 0;
    for (uint64_t e = r->start[first]; e < r->start[end]; e++)
        r->index[e] = m->key[r->index[e]];
    chunk->known = true;
    return YK_OK;
}

yk_status yk_chunks_get(yk_chunks *c, size_t row, yk_merger *scratch, const yk_chunk **out)
{
    const size_t number = row / c->unit, first = number * c->unit,
                 end = first + c->unit < c->rows->n ? first + c->unit : c->rows->n;
    yk_chunk *chunk = &c->chunk[number];
    *out = chunk;
    return chunk->known ? YK_OK : make(c, chunk, first, end, scratch);
}

yk_status yk_chunks_prepare(yk_chunks *c, int me, int all)
{
    const yk_chunk *chunk;
    yk_merger scratch;
    yk_status st = yk_merger_init(&scratch, 1024);
    for (size_t i = (size_t)me; !st && i < c->n; i += (size_t)all)
        st = yk_chunks_get(c, i * c->unit, &scratch, &chunk);
    yk_merger_fini(&scratch);
    return st;
}
