#include "core/keys.h"

#include "base/mem.h"
#include <string.h>

void yk_merger_fini(yk_merger *m)
{
    yk_free(m->key);
    yk_free(m->value);
    yk_free(m->slot);
    *m = (yk_merger){0};
}

yk_status yk_merger_reserve(yk_merger *m, size_t keys)
{
    if (keys <= m->cap && m->cap) {
        yk_merger_clear(m);
        return YK_OK;
    }
    int bits = 6;
    while (((size_t)1 << bits) < 3 * keys) /* with 2 * keys, collisions took a fifth of the time */
        bits++;
    const uint32_t width = m->width ? m->width : 1;
    yk_merger_fini(m);
    m->width = width;
    m->slots = (size_t)1 << bits;
    m->cap = m->slots / 2;
    m->shift = 64 - bits;
    m->key = yk_alloc(m->cap, sizeof *m->key, "the keys of a batch");
    m->value = yk_alloc(m->cap * width, sizeof *m->value, "the gradient of a batch");
    m->slot = yk_alloc(m->slots, sizeof *m->slot, "the keys of a batch");
    m->stamp = (uint32_t)m->cap;
    return m->key && m->value && m->slot ? YK_OK : YK_ESYSTEM;
}

yk_status yk_merger_grow(yk_merger *m, size_t keys)
{
    if (m->n + keys <= m->cap)
        return YK_OK;
    yk_merger old = *m;
    *m = (yk_merger){.width = old.width};
    yk_status st = yk_merger_reserve(m, 2 * old.n + keys);
    if (!st && old.by_line) /* they are added in order, so their indices do not change */
        yk_merger_slots(m, old.key, old.n, (uint32_t *)(void *)old.slot);
    for (size_t i = 0; !st && !old.by_line && i < old.n; i++)
        yk_merger_slot_wide(m, old.key[i], m->width);
    if (!st && old.n)
        memcpy(m->value, old.value, old.n * m->width * sizeof *m->value);
    yk_merger_fini(&old);
    return st;
}

void yk_merger_clear(yk_merger *m)
{
    m->n = 0;
    m->by_line = false;
    m->stamp += (uint32_t)m->cap;
    if (m->stamp == 0 && m->slot) { /* old stamps would look current */
        memset(m->slot, 0, m->slots * sizeof *m->slot);
        m->stamp = (uint32_t)m->cap;
    }
}

/* Whether a key is new is unpredictable. Without this, compilers make a branch of it. */
static inline uint32_t no_branch(uint32_t x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* 1 if a slot is taken by another key. */
static inline uint32_t other(uint64_t slot, uint32_t key, uint32_t stamp, uint32_t cap)
{
    return no_branch(((uint32_t)slot - stamp < cap) & (slot >> 32 != key));
}

static inline __attribute__((always_inline)) void add_all(yk_merger *m, const uint32_t *key,
                                                          const float *value, float scale, size_t n)
{
    uint64_t *const slot = m->slot;
    uint32_t *const keys = m->key;
    float *const sums = m->value;
    const size_t last = m->slots - 1;
    const uint32_t stamp = m->stamp, cap = (uint32_t)m->cap;
    const int shift = m->shift;
    uint32_t next = (uint32_t)m->n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t k = key[i];
        size_t at = yk__merger_hash(k, shift);
        at = (at + other(slot[at], k, stamp, cap)) & last; /* the first collision takes no branch */
        while (__builtin_expect(other(slot[at], k, stamp, cap), 0))
            at = (at + 1) & last;
        const uint32_t there = (uint32_t)slot[at] - stamp, known = no_branch(there < cap), mask = -known;
        const uint32_t index = (there & mask) | (next & ~mask);
        next += 1 - known;
        uint32_t bits;
        memcpy(&bits, &sums[index], sizeof bits);
        bits &= mask; /* a new key begins at 0 */
        float sum;
        memcpy(&sum, &bits, sizeof sum);
        slot[at] = (uint64_t)k << 32 | (stamp + index);
        keys[index] = k;
        sums[index] = sum + (value ? scale * value[i] : scale);
    }
    m->n = next;
}

void yk_merger_add_all(yk_merger *m, const uint32_t *key, const float *value, float scale, size_t n)
{
    if (value)
        add_all(m, key, value, scale, n);
    else
        add_all(m, key, NULL, scale, n);
}

/* Eight neighboring keys share a cache line: frequent keys are neighbors (keymap.h). */
static inline size_t slot_of(uint32_t key, int shift)
{
    return yk__merger_hash(key >> 3, shift + 3) << 3 | (key & 7);
}

void yk_merger_slots(yk_merger *m, const uint32_t *key, size_t n, uint32_t *slot_out)
{
    enum { LATER = 8 };
    uint64_t *const slot = m->slot;
    uint32_t *const keys = m->key;
    const size_t last = m->slots - 1;
    const uint32_t stamp = m->stamp, cap = (uint32_t)m->cap;
    const int shift = m->shift;
    uint32_t next = (uint32_t)m->n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t k = key[i];
        size_t at = slot_of(k, shift);
        __builtin_prefetch(slot + slot_of(key[i + LATER < n ? i + LATER : i], shift), 1);
        while (__builtin_expect(other(slot[at], k, stamp, cap), 0))
            at = (at + 1) & last;
        const uint32_t there = (uint32_t)slot[at] - stamp, known = no_branch(there < cap), mask = -known;
        const uint32_t index = (there & mask) | (next & ~mask);
        next += 1 - known;
        slot[at] = (uint64_t)k << 32 | (stamp + index);
        keys[index] = k;
        slot_out[i] = index;
    }
    for (size_t i = m->n; i < next; i++)
        m->value[i] = 0.0f;
    m->n = next;
    m->by_line = true;
}
