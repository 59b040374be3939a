/* Lazy weight decay on sparse data. A step of sgd with l2 shrinks every weight, including those that are not in the batch. With
 * 33 million weights and a batch of one, that is too expensive. So each weight has the step up to which it was decayed, and
 * when a batch needs the weight, the missed decay is applied at once:
 *
 *     w <- shrink(w * exp(-l2 * S), l1 * S),    S = sum of the learning rates of the steps since then
 *
 * (Langford, Li, Zhang 2009 for l1). For l2 this is exact to the order of (lr l2)^2. Only for plain sgd on sparse rows: the
 * other rules decay the weights that they update. In synchronous mode each key is decayed by one worker. In asynchronous mode
 * a worker advances the weight's step by an atomic exchange, never back, so that no decay is applied twice.
 */
#include "store/local_internal.h"

#include <math.h>
#include <stdatomic.h>

yk_status yk__decay_create(yk__table *t)
{
    const yk_optim_config *o = &t->config.optim;
    if (!t->config.shape.keyed || t->width != 1 || o->kind != YK_SGD || (o->l2 == 0.0 && o->l1 == 0.0))
        return YK_OK;
    t->touched = yk_alloc(t->floats, sizeof *t->touched, "the last steps of the weights");
    t->decayed = yk_alloc(t->floats, sizeof *t->decayed, "the decayed weights");
    return t->touched && t->decayed ? YK_OK : YK_ESYSTEM;
}

float yk__decayed(const yk__table *t, float w, uint32_t from, uint32_t to)
{
    const yk_optim_config *o = &t->config.optim;
    if (w == 0.0f || to <= from)
        return w;
    double sum = yk_optim_lr_sum(o, from, to);
    double magnitude = fabs((double)w) * exp(-o->l2 * sum) - o->l1 * sum;
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

/* Decays the keys of this part. */
static YK_RACY void catch_up(yk__table *t, uint32_t now, const uint32_t *key, size_t n, int part, int parts)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key[i];
        if (parts > 1 && yk__part_of(k, parts) != part)
            continue;
        t->shared.w[k] = yk__decayed(t, t->shared.w[k], yk__decay_advance(t, k, now), now);
    }
}

yk_status yk__decay_pull(yk__table *t, int me, const yk_batch *batch)
{
    yk_local *s = t->store;
    yk__worker *w = &s->worker[me];
    yk_merger *pairs = &t->worker[me].pairs;
    const int workers = s->config.workers;
    yk_group_grad keys = {.rows = *batch, .err = w->coef}; /* the values are not used */
    yk_status st = yk_grad_merge(&keys, pairs);
    if (st)
        return st;
    if (yk__global_step(s, w) >= UINT32_MAX)
        return yk_fail(
            YK_EUSAGE,
            "sgd with --l1 or --l2 on sparse data is limited to %u steps; use a larger --batch, or "
            "--optimizer ftrl",
            UINT32_MAX);
    const uint32_t now = (uint32_t)yk__global_step(s, w);
    if (!t->together) {
        catch_up(t, now, pairs->key, pairs->n, 0, 1);
        return YK_OK;
    }
    if ((st = yk_team_barrier(s->config.team, me)))
        return st;
    for (int i = 0; i < workers; i++)
        catch_up(t, now, t->worker[i].pairs.key, t->worker[i].pairs.n, me, workers);
    return yk_team_barrier(s->config.team, me);
}

void yk__decay_read(yk__table *t, const uint32_t *key, size_t n)
{
    catch_up(t, (uint32_t)yk__global_step(t->store, &t->store->worker[0]), key, n, 0, 1);
}

void yk__decay_catch_up(yk__table *t, int me)
{
    const yk_local *s = t->store;
    uint32_t now = 0;
    for (int i = 0; i < s->config.workers; i++) {
        uint32_t there = (uint32_t)yk__global_step(s, &s->worker[i]);
        now = there > now ? there : now;
    }
    size_t n = t->floats, parts = (size_t)s->config.workers;
    size_t begin = n / parts * (size_t)me, end = me + 1 == (int)parts ? n : begin + n / parts;
    for (size_t k = begin; k < end; k++)
        t->decayed[k] = yk__decayed(t, t->shared.w[k], t->touched[k], now);
}
