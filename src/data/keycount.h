/* Counts how often each key of a sparse data set occurs, for any 32-bit keys, in four bytes per key.
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
 *     page[key >> 16]  ->  | 3 | 0 | 4711 | 1 | ...      65536 counts, allocated for the first of its keys
 *
 * 33,762,578 columns take at most 135 MB. A count stops at UINT32_MAX. One thread at a time.
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
    uint32_t **page; /* [65536] each NULL or [65536] */
    uint64_t total;  /* occurrences of all keys */
} yk_keycount;

typedef struct {
    uint64_t distinct;                        /* keys that occur */
    size_t nleaders;                          /* the most frequent keys, by descending count, then by key */
    yk_key_count leader[YK_KEYCOUNT_LEADERS]; /* [nleaders] */
    uint64_t sum[YK_KEYCOUNT_CUTS];           /* sum[i]: total occurrences of the cut[i] most frequent keys */
} yk_key_ranking;

yk_status yk_keycount_init(yk_keycount *k);
void yk_keycount_fini(yk_keycount *k); /* zeroed is fine */

/* At most YK_KEYCOUNT_CUTS cuts. */
yk_status yk_keycount_rank(const yk_keycount *k, const uint64_t *cut, size_t ncuts, yk_key_ranking *out);

/* The first key of a page. */
yk_status yk__keycount_add_page(yk_keycount *k, uint32_t key);

static inline yk_status yk_keycount_add(yk_keycount *k, uint32_t key)
{
    if (!k->page[key >> 16] && yk__keycount_add_page(k, key))
        return YK_ESYSTEM;
    uint32_t *count = &k->page[key >> 16][key & 0xffff];
    *count += *count < UINT32_MAX;
    k->total++;
    return YK_OK;
}

#endif
