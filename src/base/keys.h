/* Keys: the parameters that a batch touches, each once, with the gradient of each.
 *
 *     yk_merger m;
 *     st = yk_merger_init(&m, 4096);                    // room for so many different keys; grows
 *     yk_merger_clear(&m);
 *     yk_merger_add(&m, key, 0.5f);                     // equal keys add up
 *     m.n, m.key[i], m.value[i]                         // in the order in which keys were first seen
 *
 * One thread each. Growing is the only allocation, and stops once a batch as large as any to come was seen.
 */
#ifndef YK_BASE_KEYS_H
#define YK_BASE_KEYS_H

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t n;
    uint32_t width; /* floats per key */
    uint32_t *key;
    float *value; /* [n][width] */
    /* open addressing: slot -> place in key[]; a slot is free unless it carries this round's stamp */
    struct yk_merger_slot {
        uint32_t stamp, place;
    } * slot;
    size_t cap, slots;
    uint32_t stamp;
} yk_merger;

yk_status yk_merger_init(yk_merger *m, size_t keys); /* one float per key */
yk_status yk_merger_init_wide(yk_merger *m, size_t keys, uint32_t width);
void yk_merger_fini(yk_merger *m);

yk_status yk_merger_reserve(yk_merger *m, size_t keys); /* so that `keys` more can be added; empties it */
yk_status yk_merger_more(yk_merger *m, size_t keys);    /* the same, but keeps what is in it */
void yk_merger_clear(yk_merger *m);

/* The place of a key in key[], which is added if it is new, with `width` zeros. Needs room: see reserve. */
static inline uint32_t yk_merger_slot_wide(yk_merger *m, uint32_t key, uint32_t width)
{
    size_t mask = m->slots - 1;
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        struct yk_merger_slot *s = &m->slot[at];
        if (s->stamp != m->stamp) {
            *s = (struct yk_merger_slot){m->stamp, (uint32_t)m->n};
            m->key[m->n] = key;
            for (uint32_t j = 0; j < width; j++)
                m->value[m->n * width + j] = 0.0f;
            return (uint32_t)m->n++;
        }
        if (m->key[s->place] == key)
            return s->place;
    }
}

/* The same where there is one float per key. */
static inline uint32_t yk_merger_slot(yk_merger *m, uint32_t key)
{
    return yk_merger_slot_wide(m, key, 1);
}

/* One float per key. Needs room: see reserve. */
static inline void yk_merger_add(yk_merger *m, uint32_t key, float value)
{
    m->value[yk_merger_slot(m, key)] += value;
}

#endif
