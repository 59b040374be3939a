/* Sorted indices of hashed values, for csv, criteo and vw. */
#include "data/text.h"
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

typedef union {
    uint64_t word[8];
    uint8_t count[64]; /* little endian: byte k of word w is bucket 8 w + k */
} buckets;

/* Where each bucket of at most UINT8_MAX hashes begins. A bucket sort comes first: an insertion sort alone would take longer
 * than parsing a line of Criteo's 39 values. */
static inline buckets find_buckets(const uint64_t *hash, size_t n)
{
    buckets at = {{0}};
    for (size_t i = 0; i < n; i++)
        at.count[hash[i] >> 58]++;
    uint64_t sum = 0;
    for (int w = 0; w < 8; w++) {
        uint64_t upto = at.word[w] * YK__BYTES(1); /* byte k: the sum of bytes 0 .. k */
        at.word[w] = (upto << 8) + sum * YK__BYTES(1);
        sum += upto >> 56;
    }
    return at;
}

void yk__sort_words(const uint64_t *word, size_t n, uint64_t *out)
{
    if (n > UINT8_MAX) {
        memmove(out, word, n * sizeof *out);
        qsort(out, n, sizeof *out, compare);
        return;
    }
    buckets at = find_buckets(word, n);
    for (size_t i = 0; i < n; i++)
        out[at.count[word[i] >> 58]++] = word[i];
    for (size_t i = 1; i < n; i++) {
        const uint64_t v = out[i];
        size_t k = i;
        for (; k > 0 && out[k - 1] > v; k--)
            out[k] = out[k - 1];
        out[k] = v;
    }
}

size_t yk__sort_hashes(uint64_t *hash, size_t n, uint64_t features, uint32_t base, uint32_t *out)
{
    uint64_t few[UINT8_MAX], *const sorted = n > UINT8_MAX ? hash : few;
    uint32_t last = 0;
    size_t left = 0;
    yk__sort_words(hash, n, sorted);
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = base + yk_key_id(sorted[i], features);
        left += !left || id != last;
        out[left - 1] = last = id;
    }
    return left;
}
