#include "store/changes.h"

#include "store/local.h"
#include <stdlib.h>
#include <string.h>

static inline size_t at(const uint32_t *key, size_t i)
{
    return key ? key[i] : i;
}

int yk_changes_arrays(const yk_store *s)
{
    return 1 + s->rule->slots;
}

yk_view yk_changes_view(float *block, size_t n)
{
    return (yk_view){.w = block, .s = {block + n, block + 2 * n}};
}

void yk_changes_read(yk_store *s, const uint32_t *key, size_t n, const yk_view *out)
{
    if (s->touched)
        yk__decay_read(s, key, n);
    for (int a = 0; a < yk_changes_arrays(s); a++) {
        const float *from = a ? s->shared.s[a - 1] : s->shared.w;
        float *to = a ? out->s[a - 1] : out->w;
        for (size_t i = 0; i < n; i++)
            to[i] = from[at(key, i)];
    }
}

void yk_changes_begin(yk_store *copy, size_t n, const yk_view *values, uint64_t steps)
{
    memcpy(copy->shared.w, values->w, n * sizeof(float));
    for (int k = 0; k < copy->rule->slots; k++)
        memcpy(copy->shared.s[k], values->s[k], n * sizeof(float));
    for (size_t i = 0; copy->touched && i < n; i++)
        copy->touched[i] = (uint32_t)steps;
    yk_store_restore(copy, steps);
}

/* new - old, and the old value is back in its place. */
static void take(float *array, const uint32_t *key, size_t n, float *value)
{
    for (size_t i = 0; i < n; i++) {
        const float old = value[i];
        value[i] = array[at(key, i)] - old;
        array[at(key, i)] = old;
    }
}

static void take_decayed(yk_store *s, const uint32_t *key, size_t n, const uint32_t *since, float *value)
{
    const uint32_t now = (uint32_t)yk_store_steps(s);
    for (size_t i = 0; i < n; i++) {
        float *w = &s->shared.w[at(key, i)];
        uint32_t *touched = &s->touched[at(key, i)];
        const uint32_t then = since ? since[i] : (uint32_t)s->restored_steps;
        const float old = value[i];
        value[i] = yk__decayed(s, *w, *touched, now) - yk__decayed(s, old, then, now);
        *w = old;
        *touched = then;
    }
}

void yk_changes_take(yk_store *s, const uint32_t *key, size_t n, const uint32_t *since, const yk_view *values)
{
    if (s->touched)
        take_decayed(s, key, n, since, values->w);
    else
        take(s->shared.w, key, n, values->w);
    for (int k = 0; k < s->rule->slots; k++)
        take(s->shared.s[k], key, n, values->s[k]);
}

static void add(float *array, const uint32_t *key, size_t n, const float *change, float share)
{
    for (size_t i = 0; i < n; i++)
        array[at(key, i)] += share * change[i];
}

void yk_changes_add(yk_store *s, const uint32_t *key, size_t n, const yk_view *changes, int workers,
                    uint64_t steps)
{
    const uint64_t now = yk_store_steps(s) + steps;
    const float share = 1.0f / (float)workers;
    for (size_t i = 0; s->touched && i < n; i++) {
        float *w = &s->shared.w[at(key, i)];
        *w = yk__decayed(s, *w, s->touched[at(key, i)], (uint32_t)now);
        s->touched[at(key, i)] = (uint32_t)now;
    }
    add(s->shared.w, key, n, changes->w, share);
    for (int k = 0; k < s->rule->slots; k++)
        add(s->shared.s[k], key, n, changes->s[k], share);
    yk_store_restore(s, now);
}

/* ---- sums ---- */

yk_status yk_changes_init(yk_changes *c, int arrays)
{
    *c = (yk_changes){.arrays = arrays};
    return yk_merger_init(&c->keys, 64);
}

void yk_changes_fini(yk_changes *c)
{
    yk_merger_fini(&c->keys);
    free(c->sum);
    *c = (yk_changes){0};
}

yk_status yk_changes_reserve(yk_changes *c, size_t keys)
{
    yk_status st = yk_merger_reserve(&c->keys, keys);
    float *grown = st ? NULL
                      : yk_grow(c->sum, &c->cap, keys * (size_t)c->arrays + 1, sizeof *c->sum,
                                "the changes of all workers");
    if (!grown)
        return YK_ESYSTEM;
    c->sum = grown;
    c->room = keys;
    return YK_OK;
}

void yk_changes_sum(yk_changes *c, const uint32_t *key, size_t n, const float *block)
{
    for (size_t i = 0; i < n; i++) {
        const size_t known = c->keys.n, place = yk_merger_place(&c->keys, key[i]);
        for (size_t a = 0; a < (size_t)c->arrays; a++) {
            float *sum = &c->sum[a * c->room + place];
            *sum = (place == known ? 0.0f : *sum) + block[a * n + i];
        }
    }
}

yk_view yk_changes_sums(const yk_changes *c)
{
    return yk_changes_view(c->sum, c->room);
}
