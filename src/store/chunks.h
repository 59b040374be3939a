/* Chunks: examples that are always trained together, with the keys that they need.
 *
 *     rows of the data      | chunk 0: rows 0 .. U-1 | chunk 1: U .. 2U-1 | ...           U: the unit of data/feed.h
 *     index[] of a chunk    before: keys;  after: indices into the chunk's own list of keys, each key once
 *     list of keys          | those of server 0 | of server 1 | ... |    as the servers number them
 *
 * The keys of a chunk are found once, when it is used for the first time. From then on no epoch hashes a key again: a request
 * is the list as it is, an answer is a table that they index, and both lie in memory as in the messages.
 *
 *     st = yk_chunks_create(rows, unit, servers, bias_key, &c);
 *     st = yk_chunks_get(c, row, &scratch, &chunk);     // of this row. A chunk is used by one thread at a time
 *
 * The rows are changed in place: nobody else may read their keys.
 */
#ifndef YK_STORE_CHUNKS_H
#define YK_STORE_CHUNKS_H

#include "base/keys.h"
#include "base/rows.h"

typedef struct {
    uint32_t nkeys;
    uint32_t bias;  /* the index of the bias key; UINT32_MAX: none */
    uint32_t *row;  /* [nkeys] numbers on their servers */
    float *squares; /* [nkeys] sum of the squared values of each key */
    double squares_sum;
    uint64_t entries; /* values that these are of */
    uint32_t *begin;  /* [servers + 1] where the keys of each begin */
    bool known;
} yk_chunk;

typedef struct yk_chunks yk_chunks;

yk_status yk_chunks_create(yk_rows *rows, size_t unit, int servers, uint32_t bias_key, yk_chunks **out);
void yk_chunks_free(yk_chunks *c); /* NULL is fine */

/* scratch: of the calling thread; initialised by it (yk_merger_init). */
yk_status yk_chunks_get(yk_chunks *c, size_t row, yk_merger *scratch, const yk_chunk **out);

/* Finds the keys of all chunks, before training: thread `me` of `all` does its part. */
yk_status yk_chunks_prepare(yk_chunks *c, int me, int all);

#endif
