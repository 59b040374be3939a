/* Counts how often each key of a sparse data set occurs: exact, for any 32-bit keys, in about a byte per key.
 *
 * Example:
 *     yk_keycount k;
 *     const uint64_t cut[] = {10, 100};
 *     yk_key_ranking ranking;
 *     st = yk_keycount_init(&k);
 *     st = yk_keycount_add(&k, 17);                        // for each entry
 *     st = yk_keycount_rank(&k, cut, 2, &ranking);         // distinct keys, the most frequent ones, their counts
 *     yk_keycount_fini(&k);
 *
 * In power-law data most keys are rare, and a few occur in nearly every row. So a key has one byte, which saturates at 255,
 * and a small hash table counts the occurrences beyond that:
 *
 *     page[key >> 16]  ->  | 3 | 0 | 255 | 1 | ...      65536 bytes, allocated for the first of its keys
 *                                   |
 *                          large: key -> 4711           occurrences beyond 255
 *
 * 33,762,578 columns take at most 34 MB, 2^31 columns 2 GB (if keys from the whole range occur). One thread at a time.
 */
#ifndef YK_DATA_KEYCOUNT_H
#define YK_DATA_KEYCOUNT_H

#include "base/status.h"

#define YK_KEYCOUNT_LEADERS 10
#define YK_KEYCOUNT_CUTS    8

typedef struct {
    uint32_t key;
    uint64_t count;
} yk_key_count;

typedef struct {
    uint8_t **page;      /* [65536] each NULL or [65536] */
    yk_key_count *large; /* [slots] open addressing; occurrences beyond 255, 0: a free slot */
    size_t slots, nlarge;
    uint64_t total; /* occurrences of all keys */
} yk_keycount;

typedef struct {
    uint64_t distinct;                        /* keys that occur */
    size_t nleaders;                          /* the most frequent keys, by descending count, then by key */
    yk_key_count leader[YK_KEYCOUNT_LEADERS]; /* [nleaders] */
    uint64_t sum[YK_KEYCOUNT_CUTS];           /* sum[i]: total occurrences of the cut[i] most frequent keys */
} yk_key_ranking;

yk_status yk_keycount_init(yk_keycount *k);
void yk_keycount_fini(yk_keycount *k); /* zeroed is fine */

uint64_t yk_keycount_of(const yk_keycount *k, uint32_t key);

/* At most YK_KEYCOUNT_CUTS cuts. */
yk_status yk_keycount_rank(const yk_keycount *k, const uint64_t *cut, size_t ncuts, yk_key_ranking *out);

/* The rare case: the page of the key is not allocated yet, or its byte is saturated. */
yk_status yk__keycount_add_slow(yk_keycount *k, uint32_t key);

static inline yk_status yk_keycount_add(yk_keycount *k, uint32_t key)
{
    uint8_t *page = k->page[key >> 16];
    if (!page || page[key & 0xffff] == UINT8_MAX)
        return yk__keycount_add_slow(k, key);
    page[key & 0xffff]++;
    k->total++;
    return YK_OK;
}

#endif
