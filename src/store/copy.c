#include "store/copy.h"

#include "store/local_internal.h"
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 32 }; /* distance of prefetching, in keys */

int yk_copy_arrays(const yk_local *s, int group)
{
    return 1 + s->table[group].rule->slots;
}

float *yk_copy_array(yk_local *s, int group, int number)
{
    const yk_view *shared = &s->table[group].shared;
    return number ? shared->s[number - 1] : shared->w;
}

static inline size_t key_at(const uint32_t *key, size_t i)
{
    return key ? key[i] : i;
}

void yk_copy_read(yk_local *s, int group, const yk_copy_keys *k, int arrays, float *out)
{
    yk__table *t = &s->table[group];
    const uint32_t *key = k->key;
    const size_t width = t->width;
    if (t->touched)
        yk__decay_keys(t, 0, key + k->begin, k->end - k->begin);
    for (int a = 0; a < arrays; a++, out += k->stride * width) {
        const float *from = yk_copy_array(s, group, a);
        if (!key)
            memcpy(out + k->begin * width, from + k->begin * width,
                   (k->end - k->begin) * width * sizeof *out);
        for (size_t i = k->begin; key && width == 1 && i < k->end; i++) {
            if (i + AHEAD < k->end)
                __builtin_prefetch(from + key[i + AHEAD]);
            out[i] = from[key[i]];
        }
        for (size_t i = k->begin; key && width > 1 && i < k->end; i++)
            memcpy(out + i * width, from + key[i] * width, width * sizeof *out);
    }
}

yk_status yk_copy_make(const yk_local_config *config, size_t keys, yk_local **copy, size_t *capacity)
{
    yk_local_config c = *config;
    if (*copy && keys <= *capacity)
        return YK_OK;
    yk_local_free(*copy);
    *copy = NULL;
    *capacity = keys + keys / 2;
    for (int g = 0; g < c.ngroups; g++)
        if (c.group[g].shape.keyed)
            c.group[g].shape.keys = *capacity;
    return yk_local_create(&c, copy);
}

/* The number of keys, or of floats of a dense group, in a copy. */
static size_t length_of(const yk__table *t, size_t keys)
{
    return t->config.shape.keyed ? keys : (size_t)t->config.shape.keys;
}

void yk_copy_begin(yk_local *copy, size_t keys, float *const *values, uint64_t steps)
{
    for (int g = 0; g < copy->ngroups; g++) {
        yk__table *t = &copy->table[g];
        const size_t n = length_of(t, keys), floats = n * t->width;
        for (int a = 0; a < yk_copy_arrays(copy, g); a++)
            memcpy(yk_copy_array(copy, g, a), values[g] + (size_t)a * floats, floats * sizeof(float));
        for (size_t i = 0; t->touched && i < n; i++)
            t->touched[i] = (uint32_t)steps;
    }
    yk_local_restore(copy, steps);
}

/* value becomes new - old; the array gets the old value. */
static void extract_all(float *restrict array, size_t floats, float *restrict value)
{
    for (size_t i = 0; i < floats; i++) {
        const float old = value[i];
        value[i] = array[i] - old;
        array[i] = old;
    }
}

static void extract(float *array, const uint32_t *key, size_t n, size_t width, float *value)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) {
            float *w = &array[key_at(key, i) * width + j], old = value[i * width + j];
            value[i * width + j] = *w - old;
            *w = old;
        }
}

static void extract_decayed(yk__table *t, const uint32_t *key, size_t n, const uint32_t *since, float *value)
{
    const uint32_t now = (uint32_t)yk_local_steps(t->store);
    for (size_t i = 0; i < n; i++) {
        float *w = &t->shared.w[key_at(key, i)];
        uint32_t *touched = &t->touched[key_at(key, i)];
        const uint32_t then = since ? since[i] : (uint32_t)t->store->restored_steps;
        const float old = value[i];
        value[i] = yk__decayed(t, *w, *touched, now) - yk__decayed(t, old, then, now);
        *w = old;
        *touched = then;
    }
}

void yk_copy_extract(yk_local *s, int group, const uint32_t *key, size_t n, const uint32_t *since,
                     float *values)
{
    yk__table *t = &s->table[group];
    for (int a = 0; a < yk_copy_arrays(s, group); a++, values += n * t->width) {
        if (a == 0 && t->touched)
            extract_decayed(t, key, n, since, values);
        else if (!key)
            extract_all(yk_copy_array(s, group, a), n * t->width, values);
        else
            extract(yk_copy_array(s, group, a), key, n, t->width, values);
    }
}

void yk_copy_end(yk_local *copy, size_t keys, float *const *values)
{
    for (int g = 0; g < copy->ngroups; g++)
        yk_copy_extract(copy, g, NULL, length_of(&copy->table[g], keys), NULL, values[g]);
}

/* Only hot keys have copies that are merged while other workers train (hot.c). */
static void decay(yk__table *t, const yk_copy_keys *k, uint32_t now)
{
    if (t->hot) {
        yk__decay_hot(t, k->begin, k->end, now);
        return;
    }
    for (size_t i = k->begin; i < k->end; i++) {
        const size_t at = key_at(k->key, i);
        t->shared.w[at] = yk__decayed(t, t->shared.w[at], t->touched[at], now);
        t->touched[at] = now;
    }
}

void yk_copy_add(yk_local *s, int group, const yk_copy_keys *k, const float *deltas, int workers,
                 uint64_t now)
{
    yk__table *t = &s->table[group];
    const uint32_t *key = k->key;
    const float share = workers ? 1.0f / (float)workers : 1.0f;
    const size_t width = t->width;
    if (t->touched)
        decay(t, k, (uint32_t)now);
    for (int a = 0; a < yk_copy_arrays(s, group); a++, deltas += k->stride * width) {
        float *array = yk_copy_array(s, group, a);
        for (size_t i = k->begin; !key && i < k->end; i++)
            array[i] += share * deltas[i];
        for (size_t i = k->begin; key && width == 1 && i < k->end; i++) {
            if (i + AHEAD < k->end)
                __builtin_prefetch(array + key[i + AHEAD], 1);
            array[key[i]] += share * deltas[i];
        }
        for (size_t i = k->begin; key && width > 1 && i < k->end; i++)
            for (size_t j = 0; j < width; j++)
                array[key[i] * width + j] += share * deltas[i * width + j];
    }
    if (!workers && t->rule->derives) {
        const yk_optim_step o = yk_optim_at(&t->config.optim, now);
        yk_optim_reconcile(t->rule, &o, &t->shared, key, k->begin, k->end);
    }
}

/* ---- sums ---- */

yk_status yk_copy_sums_init(yk_copy_sums *d, const yk_local *s, bool all_arrays)
{
    *d = (yk_copy_sums){.ngroups = s->ngroups};
    for (int g = 0; g < s->ngroups; g++) {
        d->group[g].width = s->table[g].width;
        if (s->table[g].config.shape.keyed && s->table[g].config.shape.keys)
            d->group[g].arrays = all_arrays ? yk_copy_arrays(s, g) : 1;
    }
    return yk_merger_init(&d->keys, 64);
}

void yk_copy_sums_fini(yk_copy_sums *d)
{
    yk_merger_fini(&d->keys);
    free(d->at);
    for (int g = 0; g < d->ngroups; g++)
        free(d->group[g].sum);
    *d = (yk_copy_sums){0};
}

yk_status yk_copy_sums_reserve(yk_copy_sums *d, size_t keys)
{
    yk_status st = yk_merger_reserve(&d->keys, keys);
    for (int g = 0; !st && g < d->ngroups; g++) {
        const size_t n = keys * (size_t)d->group[g].arrays * d->group[g].width;
        if (YK_RESERVE(d->group[g].sum, d->group[g].cap, n + 1, "the deltas of all workers"))
            return YK_ESYSTEM;
    }
    if (!st && YK_RESERVE(d->at, d->at_cap, keys, "the deltas of all workers"))
        return YK_ESYSTEM;
    d->capacity = keys;
    return st;
}

void yk_copy_sums_place(yk_copy_sums *d, const uint32_t *key, size_t n, uint32_t *at_out)
{
    const size_t before = d->keys.n;
    yk_merger_slots(&d->keys, key, n, at_out);
    for (int g = 0; g < d->ngroups; g++)
        for (size_t a = 0, width = d->group[g].width; a < (size_t)d->group[g].arrays; a++)
            memset(&d->group[g].sum[(a * d->capacity + before) * width], 0,
                   (d->keys.n - before) * width * sizeof(float));
}

void yk_copy_sums_add(yk_copy_sums *d, const uint32_t *at, size_t n, const float *const *block)
{
    for (int g = 0; g < d->ngroups; g++) {
        const size_t width = d->group[g].width;
        for (size_t a = 0; a < (size_t)d->group[g].arrays; a++) {
            float *sum = &d->group[g].sum[a * d->capacity * width];
            const float *from = &block[g][a * n * width];
            for (size_t i = 0; width == 1 && i < n; i++)
                sum[at[i]] += from[i];
            for (size_t i = 0; width > 1 && i < n; i++)
                for (size_t j = 0; j < width; j++)
                    sum[at[i] * width + j] += from[i * width + j];
        }
    }
}
