/* Lazy weight decay on sparse data. A step of sgd with l2 shrinks every weight, including those that are not in the batch. With
 * 33 million weights and a batch of one, that is too expensive. So each weight has the step up to which it was decayed, and
 * when a batch needs the weight, the missed decay is applied at once:
 *
 *     w <- shrink(w * exp(-l2 * S), l1 * S),    S = sum of the learning rates of the steps since then
 *
 * (Langford, Li, Zhang 2009 for l1). docs/models.md states the error of this approximation, and tests/test_store.c checks it.
 * Only for plain sgd on sparse rows: the other rules decay the weights that they update. A worker advances the step of a weight
 * with an atomic compare-and-swap, never backwards, so that no decay is applied twice. With several asynchronous workers, push() only adds gradients, and the next pull or merge applies the decay
 * of that step. Hot keys (local_hot.c) are decayed when they are merged.
 */
#include "store/local_internal.h"

#include <math.h>

enum { KEYS_AHEAD = 24, ROWS_AHEAD = 6 }; /* distances of prefetching */

void yk__decay_create(yk__table *t)
{
    yk_arena *memory = &t->store->memory;
    const yk_optim_config *o = &t->config.optim;
    if (!t->config.shape.keyed || t->width != 1 || !yk_optim_rule_of(o->kind)->plain ||
        (o->l2 == 0.0 && o->l1 == 0.0))
        return;
    t->touched = yk_arena_alloc(memory, t->floats, sizeof *t->touched, "the last steps of the weights");
    t->decayed = yk_arena_alloc(memory, t->floats, sizeof *t->decayed, "the decayed weights");
}

float yk__decayed(const yk__table *t, float w, uint32_t from, uint32_t to)
{
    const yk_optim_config *o = &t->config.optim;
    if (w == 0.0f || to <= from)
        return w;
    /* usually there are few steps: a polynomial instead of exp() differs by less than 1e-13 */
    const double sum = yk_lr_sum(o, from, to), x = o->l2 * sum;
    const double factor = x > 1e-3 ? exp(-x) : 1.0 - x * (1.0 - x * (0.5 - x * (1.0 / 6.0)));
    const double magnitude = fabs((double)w) * factor - o->l1 * sum;
    return magnitude > 0.0 ? copysignf((float)magnitude, w) : 0.0f;
}

uint32_t yk__decay_advance(yk__table *t, uint32_t key, uint32_t to)
{
    uint32_t then = __atomic_load_n(&t->touched[key], __ATOMIC_RELAXED);
    while (then < to && !__atomic_compare_exchange_n(&t->touched[key], &then, to, true, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED))
        ;
    return then;
}

/* Prefetches the entries of a later row of a batch. Always inlined: gcc drops calls to a function that only prefetches. */
static inline __attribute__((always_inline)) void prefetch_row(const yk_batch *b, size_t i)
{
    const yk_rows *rows = b->rows;
    if (i + 2 * ROWS_AHEAD < b->n)
        __builtin_prefetch(&rows->start[b->pick[i + 2 * ROWS_AHEAD]]);
    if (i + ROWS_AHEAD >= b->n)
        return;
    const uint64_t from = rows->start[b->pick[i + ROWS_AHEAD]], to = rows->start[b->pick[i + ROWS_AHEAD] + 1];
    for (uint64_t e = from; e < to; e += YK_ALIGN / sizeof *rows->index)
        __builtin_prefetch(&rows->index[e]);
}

/* The keys of a batch that have no copies. They may occur several times. */
static yk_status cold_keys(yk__table *t, int me, const yk_batch *b, size_t *n_out)
{
    yk__table_worker *w = &t->worker[me];
    const uint32_t hot = t->hot;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        const uint64_t from = b->rows->start[b->pick[i]], to = b->rows->start[b->pick[i] + 1];
        prefetch_row(b, i);
        if (YK_RESERVE(w->cold, w->cold_cap, n + (size_t)(to - from), "the keys of a batch"))
            return YK_ESYSTEM;
        for (uint64_t e = from; e < to; e++) { /* without a branch, which would be unpredictable */
            w->cold[n] = b->rows->index[e];
            n += b->rows->index[e] >= hot;
        }
    }
    *n_out = n;
    return YK_OK;
}

YK_RACY void yk__decay_keys(yk__table *t, uint32_t now, const uint32_t *key, size_t n)
{
    float *const w = t->shared.w;
    for (size_t i = 0; i < n; i++) {
        const uint32_t k = key[i];
        if (i + KEYS_AHEAD < n) {
            __builtin_prefetch(&t->touched[key[i + KEYS_AHEAD]], 1);
            __builtin_prefetch(&w[key[i + KEYS_AHEAD]], 1);
        }
        if (k < t->hot || __atomic_load_n(&t->touched[k], __ATOMIC_RELAXED) >= now)
            continue;
        const uint32_t then = yk__decay_advance(t, k, now);
        if (w[k] != 0.0f && then < now)
            w[k] = yk__decayed(t, w[k], then, now);
    }
}

static yk_status step_of(const yk_local *s, int me, uint32_t *out)
{
    const uint64_t now = yk__global_step(s, &s->worker[me]);
    *out = (uint32_t)now;
    return now < UINT32_MAX
               ? YK_OK
               : yk_fail(YK_EUSAGE,
                         "sgd with --l1 or --l2 on sparse data is limited to %u steps; use a larger --batch, "
                         "or --optimizer ftrl",
                         UINT32_MAX);
}

yk_status yk__decay_pull(yk__table *t, int me, const yk_batch *batch)
{
    uint32_t now;
    size_t n;
    yk_status st = step_of(t->store, me, &now);
    if (st || (st = cold_keys(t, me, batch, &n)))
        return st;
    yk__decay_keys(t, now, t->worker[me].cold, n);
    /* in lockstep, another worker may be decaying a key of this batch */
    return t->ops->clock ? yk_team_barrier(t->store->config.team, me) : YK_OK;
}

/* Decay that is too small for a float is left to a later merge. Most keys were decayed up to the same step. */
void yk__decay_hot(yk__table *t, size_t begin, size_t end, uint32_t now)
{
    const yk_optim_config *o = &t->config.optim;
    bool small = true;
    uint32_t then = now;
    for (size_t k = begin; k < end; k++) {
        if (t->touched[k] != then) {
            then = t->touched[k];
            const double sum = yk_lr_sum(o, then, now); /* 0 if now is earlier */
            small = o->l2 * sum < 1e-4 && o->l1 * sum < 1e-5;
        }
        if (small)
            continue;
        t->shared.w[k] = yk__decayed(t, t->shared.w[k], then, now);
        t->touched[k] = now;
    }
}

/* The step of the worker that is ahead of all others. */
static uint32_t last_step(const yk_local *s)
{
    uint32_t now = 0;
    for (int i = 0; i < s->config.workers; i++) {
        uint32_t there = (uint32_t)yk__global_step(s, &s->worker[i]);
        now = there > now ? there : now;
    }
    return now;
}

void yk__decay_apply(yk__table *t)
{
    const uint32_t now = last_step(t->store);
    for (size_t k = 0; k < t->floats; k++) {
        if (t->shared.w[k] != 0.0f)
            t->shared.w[k] = yk__decayed(t, t->shared.w[k], t->touched[k], now);
        t->touched[k] = now > t->touched[k] ? now : t->touched[k];
    }
}

/* The keys that occur are the first ones (keymap.h), so each worker takes every Nth block. */
void yk__decay_catch_up(yk__table *t, int me)
{
    enum { BLOCK = 4096 };
    const yk_local *s = t->store;
    const uint32_t now = last_step(s);
    const size_t stride = (size_t)s->config.workers * BLOCK;
    for (size_t begin = (size_t)me * BLOCK; begin < t->floats; begin += stride)
        for (size_t k = begin; k < begin + BLOCK && k < t->floats; k++) {
            const float w = t->shared.w[k];
            if (w != 0.0f ||
                t->decayed[k] != 0.0f) /* most keys never occurred: their pages are not written */
                t->decayed[k] = yk__decayed(t, w, t->touched[k], now);
        }
}
