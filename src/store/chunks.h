/* Chunks: examples that are always trained together, with the keys that they need.
 *
 *     rows of the data      | chunk 0: rows 0 .. U-1 | chunk 1: U .. 2U-1 | ...           U: chunk_rows of data/feed.h
 *     index[] of a chunk    before: keys;  after: indices into the chunk's own list of keys, each key once
 *     list of keys          | those of server 0 | of server 1 | ... |    as row numbers on the servers, ascending
 *
 * The keys of a chunk are found once, before training. Then no epoch hashes a key again: a request is
 * the list itself, and an answer is a table that the rows index. Both have the same layout in memory as in messages.
 *
 * Example:
 *     yk_chunks *c;
 *     yk_status st = yk_chunks_create(&rows, chunk_rows, servers, bias_key, &c);
 *     if (!st)
 *         st = yk_chunks_prepare(c, 0, 1);
 *     const yk_chunk *chunk = st ? NULL : yk_chunks_get(c, row); // the chunk of this row
 *     yk_chunks_free(c);
 *
 * The rows are modified in place: no other code may read their keys.
 */
#ifndef YK_STORE_CHUNKS_H
#define YK_STORE_CHUNKS_H

#include "core/keys.h"
#include "core/rows.h"

typedef struct {
    uint32_t nkeys;
    uint32_t bias; /* the index of the bias key; UINT32_MAX: none */
    /* [servers that own keys + 1] where the keys of each server begin; one allocation with the next two */
    uint32_t *begin;
    uint32_t *row;  /* [nkeys] their rows on their servers */
    float *squares; /* [nkeys] sum of the squared values of each key */
    size_t cap;
    double squares_sum;
    uint64_t entries; /* number of values that were summed */
} yk_chunk;

typedef struct yk_chunks yk_chunks;

yk_status yk_chunks_create(yk_rows *rows, size_t chunk_rows, int servers, uint32_t bias_key, yk_chunks **out);
void yk_chunks_free(yk_chunks *c); /* NULL is fine */

/* Memory for n keys; *chunk may have been used before. */
yk_status yk__chunk_reserve(yk_chunk *chunk, size_t n, int servers);

/* Fills in everything but `entries` from the keys of `m` and their squares (m->value; NULL: they are not known); m->key[i] becomes
 * the index of key i. order: the order of the keys on each server; NULL: that of `m`. */
yk_status yk__chunk_sort(yk_chunk *chunk, yk_merger *m, const uint32_t *order, int servers,
                         uint32_t bias_key);

/* Finds the keys of all chunks. Each of `all` threads calls it with its number `me` and does its part. */
yk_status yk_chunks_prepare(yk_chunks *c, int me, int all);

/* Afterwards: the chunk of a row. */
const yk_chunk *yk_chunks_get(const yk_chunks *c, size_t row);

#endif
