/* How often each key of a sparse data set occurs: exact, for any 32-bit keys, in about a byte per key.
 *
 *     yk_keycount k;
 *     st = yk_keycount_init(&k);
 *     st = yk_keycount_add(&k, key);                       // for each entry
 *     st = yk_keycount_rank(&k, cut, 4, &ranking);         // how many keys, which lead, what share the leaders have
 *     yk_keycount_fini(&k);
 *
 * Most keys of power-law data are rare and a few are in nearly every row. So a key has one byte, which stops at 255, and
 * what goes beyond is kept for the few that need it in a small hash table:
 *
 *     page[key >> 16]  ->  | 3 | 0 | 255 | 1 | ...      65536 bytes, made when the first of its keys comes
 *                                   |
 *                          large: key -> 4711           occurrences beyond 255
 *
 * 33,762,578 columns take at most 34 MB, 2^31 of them 2 GB (and only where keys of all parts of that range occur).
 * One thread at a time.
 */
#ifndef YK_DATA_KEYCOUNT_H
#define YK_DATA_KEYCOUNT_H

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

#define YK_KEYCOUNT_LEADERS 10
#define YK_KEYCOUNT_CUTS    8

typedef struct {
    uint32_t key;
    uint64_t count;
} yk_key_count;

typedef struct {
    uint8_t **page;      /* [65536] each NULL or [65536] */
    yk_key_count *large; /* [slots] open addressing; count is what exceeds 255, 0: a free slot */
    size_t slots, nlarge;
    uint64_t total; /* occurrences of all keys */
} yk_keycount;

typedef struct {
    uint64_t distinct;                        /* keys that occur */
    size_t nleaders;                          /* the most frequent ones, by falling count, then by key */
    yk_key_count leader[YK_KEYCOUNT_LEADERS]; /* [nleaders] */
    uint64_t sum[YK_KEYCOUNT_CUTS]; /* sum[i]: occurrences of the cut[i] most frequent keys together */
} yk_key_ranking;

yk_status yk_keycount_init(yk_keycount *k);
void yk_keycount_fini(yk_keycount *k); /* zeroed is fine */

uint64_t yk_keycount_of(const yk_keycount *k, uint32_t key);

/* At most YK_KEYCOUNT_CUTS cuts. */
yk_status yk_keycount_rank(const yk_keycount *k, const uint64_t *cut, size_t ncuts, yk_key_ranking *out);

/* The key's page is not there yet, or its byte is full. */
yk_status yk__keycount_add_rarely(yk_keycount *k, uint32_t key);

static inline yk_status yk_keycount_add(yk_keycount *k, uint32_t key)
{
    uint8_t *page = k->page[key >> 16];
    if (!page || page[key & 0xffff] == UINT8_MAX)
        return yk__keycount_add_rarely(k, key);
    page[key & 0xffff]++;
    k->total++;
    return YK_OK;
}

#endif
