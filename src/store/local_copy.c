#include "store/local_copy.h"

#include "store/local_internal.h"
#include <string.h>

enum { AHEAD = 32 }; /* distance of prefetching, in keys */

float *yk_copy_array(yk_local *s, int group, int number)
{
    const yk_view *shared = &s->table[group].shared;
    return number ? shared->s[number - 1] : shared->w;
}

void yk_copy_read(yk_local *s, int group, const yk_copy_keys *k, int arrays, float *out)
{
    yk__table *t = &s->table[group];
    const uint32_t *key = k->key;
    const size_t width = t->width;
    if (t->touched)
        yk__decay_keys(t, (uint32_t)yk_local_steps(s), key + k->begin, k->end - k->begin);
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
        for (size_t i = k->begin; key && width > 1 && i < k->end; i++) {
            if (i + AHEAD / 2 < k->end)
                __builtin_prefetch(from + key[i + AHEAD / 2] * width);
            memcpy(out + i * width, from + key[i] * width, width * sizeof *out);
        }
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
        for (int a = 0; a <= t->rule->slots; a++)
            memcpy(yk_copy_array(copy, g, a), values[g] + (size_t)a * floats, floats * sizeof(float));
        for (size_t i = 0; t->touched && i < n; i++)
            t->touched[i] = (uint32_t)steps;
    }
    yk_local_restore(copy, steps);
}

/* value becomes new - old; the array gets the old value. */
static void extract(float *restrict array, size_t floats, float *restrict value)
{
    for (size_t i = 0; i < floats; i++) {
        const float old = value[i];
        value[i] = array[i] - old;
        array[i] = old;
    }
}

static void extract_decayed(yk__table *t, size_t n, float *value)
{
    const uint32_t now = (uint32_t)yk_local_steps(t->store), then = (uint32_t)t->store->restored_steps;
    for (size_t i = 0; i < n; i++) {
        const float old = value[i];
        value[i] = yk__decayed(t, t->shared.w[i], t->touched[i], now) - yk__decayed(t, old, then, now);
        t->shared.w[i] = old;
        t->touched[i] = then;
    }
}

void yk_copy_end(yk_local *copy, size_t keys, float *const *values)
{
    for (int g = 0; g < copy->ngroups; g++) {
        yk__table *t = &copy->table[g];
        const size_t floats = length_of(t, keys) * t->width;
        for (int a = 0; a <= t->rule->slots; a++) {
            if (a == 0 && t->touched)
                extract_decayed(t, floats, values[g]);
            else
                extract(yk_copy_array(copy, g, a), floats, values[g] + (size_t)a * floats);
        }
    }
}

/* Adds a share of the deltas of one array. */
static void add_array(float *array, const yk_copy_keys *k, size_t width, float share, const float *deltas)
{
    const uint32_t *key = k->key;
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

void yk_copy_add(yk_local *s, int group, const yk_copy_keys *k, const float *deltas, int workers,
                 uint64_t now)
{
    yk__table *t = &s->table[group];
    const float share = workers ? 1.0f / (float)workers : 1.0f;
    if (t->touched && t->hot)
        yk__decay_hot(t, k->begin, k->end, (uint32_t)now);
    else if (t->touched && k->begin < k->end)
        yk__decay_keys(t, (uint32_t)now, k->key + k->begin, k->end - k->begin);
    for (int a = 0; a <= t->rule->slots; a++, deltas += k->stride * t->width)
        add_array(yk_copy_array(s, group, a), k, t->width, share, deltas);
    if (!workers && t->rule->derives) {
        const yk_optim_step o = yk_optim_at(&t->config.optim, now);
        yk_optim_reconcile(t->rule, &o, &t->shared, k->key, k->begin, k->end);
    }
}
