/* Merges (key, value) pairs: the keys that a batch touches, each once, with the sum of their values.
 *
 * Example:
 *     yk_merger m = {.width = 1};                 // floats per key
 *     yk_status st = yk_merger_reserve(&m, 4096); // space for 4096 distinct keys
 *     yk_merger_add(&m, key, 0.5f);               // values of equal keys are added
 *     for (size_t i = 0; i < m.n; i++)            // keys in the order in which they were first added
 *         sum += m.value[i];
 *     yk_merger_fini(&m);
 *
 * A zeroed merger is empty, with one float per key. One thread at a time. Memory grows with the largest batch so far.
 */
#ifndef YK_CORE_KEYS_H
#define YK_CORE_KEYS_H

#include "base/status.h"

typedef struct {
    size_t n;
    uint32_t width; /* floats per key; 0: one */
    uint32_t *key;
    float *value; /* [n][width] */
    /* Open addressing. A slot is key << 32 | stamp + index in key[]. It is free unless it has the current stamp. */
    uint64_t *slot;
    size_t cap, slots; /* cap: a power of two */
    int shift;         /* hash >> shift: a slot */
    uint32_t stamp;    /* a multiple of cap, not 0 */
    bool by_line;      /* its keys were added by yk_merger_slots() */
} yk_merger;

void yk_merger_fini(yk_merger *m);

yk_status yk_merger_reserve(yk_merger *m, size_t keys); /* clears it; then `keys` keys can be added */
yk_status yk_merger_grow(yk_merger *m, size_t keys);    /* keeps its contents; `keys` more can be added */
void yk_merger_clear(yk_merger *m);

#define YK__MERGER_FACTOR 0xd1b54a32d192ed03u

/* The first slot to look at. Multiplicative hashing: consecutive keys are spread evenly. */
static inline size_t yk__merger_hash(uint32_t key, int shift)
{
    return (size_t)(key * YK__MERGER_FACTOR >> shift);
}

/* The index of a key in key[]. A new key is added with `width` zeros; reserve space first. */
static inline uint32_t yk_merger_slot_wide(yk_merger *m, uint32_t key, uint32_t width)
{
    for (size_t at = yk__merger_hash(key, m->shift);; at = (at + 1) & (m->slots - 1)) {
        const uint32_t index = (uint32_t)m->slot[at] - m->stamp;
        if (index >= m->cap) {
            m->slot[at] = (uint64_t)key << 32 | (m->stamp + (uint32_t)m->n);
            m->key[m->n] = key;
            for (uint32_t j = 0; j < width; j++)
                m->value[m->n * width + j] = 0.0f;
            return (uint32_t)m->n++;
        }
        if (m->slot[at] >> 32 == key)
            return index;
    }
}

/* One float per key; reserve space first. */
static inline void yk_merger_add(yk_merger *m, uint32_t key, float value)
{
    m->value[yk_merger_slot_wide(m, key, 1)] += value;
}

/* The same as n calls to yk_merger_add() with scale * value[i] (with `scale` if value is NULL), but faster. If the keys of
 * a call are distinct, kern/linear.h has an even faster version. */
void yk_merger_add_all(yk_merger *m, const uint32_t *key, const float *value, float scale, size_t n);

/* slot_out[i]: the index of key[i] in m->key[]. New keys get the value 0. One float per key. Until the merger is
 * cleared, no other function may look up its keys. */
void yk_merger_slots(yk_merger *m, const uint32_t *key, size_t n, uint32_t *slot_out);

/* `width` floats per key. */
static inline void yk_merger_add_wide(yk_merger *m, uint32_t key, const float *value, uint32_t width)
{
    float *to = m->value + (size_t)yk_merger_slot_wide(m, key, width) * width;
    for (uint32_t j = 0; j < width; j++)
        to[j] += value[j];
}

#endif
