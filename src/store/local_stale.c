/* Stale gradients: how the owner of parameters applies a gradient that was computed with older values of them.
 *
 * n gradients are in flight: each of n asynchronous workers computes one while the others update the parameters. With the
 * learning rate of one worker, networks and embedding vectors would diverge. So these rules change it:
 *
 *     start      workers begin one after the other, 25 steps apart, or the learning rate warms up instead (lr * t / (50 n) at step t;
 *                for a network, during at most half of the run)
 *     momentum   mu - (1 - 1/n), but at least 0, and lr such that the total effect of a gradient stays the same: staleness
 *                acts like a momentum of 1 - 1/n (Mitliagkas et al. 2016)
 *     mean input lr / (2 n - 1) in the direction of the mean input of a layer, for networks and linear models on dense data: the
 *                workers apply this rule, because only they know the inputs (model/mean_input.h)
 *     distance   lr / (1 + d), for networks: d is how far the parameters have moved since the worker read them, in units of
 *                one step that is not scaled down. n gradients that point in different directions move the parameters less than n
 *                steps, and need less damping (gap-aware training: Barkai, Hakimi, Schuster 2020)
 *     revision   keyed groups with adagrad: gradients in flight that point in the same direction count as one (optim/optim.h)
 *
 * A sum of m gradients (of the threads of a process) counts as m steps. docs/convergence.md says to which runs each rule applies, and
 * why.
 */
#include "store/local_internal.h"

#include <math.h>

static size_t sample_size(const yk__table *t)
{
    return t->floats < YK_SAMPLE ? t->floats : YK_SAMPLE;
}

/* Distances are those of a sample of the parameters, one in each of YK_SAMPLE ranges of equal length. */
void yk__stale_create(yk__table *t)
{
    const yk_local_config *c = &t->store->config;
    const size_t n = sample_size(t);
    t->stale_rules = c->stale_rules && !t->hot;
    if (c->workers > 1 && t->config.staleness > 0)
        t->store->in_flight = c->workers;
    if (!t->stale_rules || t->config.shape.keyed || c->linear)
        return;
    t->sample = yk_arena_alloc(&t->store->memory, n + 1, sizeof *t->sample, "a sample of the parameters");
    for (size_t i = 0; t->sample && i < n; i++) {
        const size_t begin = t->floats * i / n, end = t->floats * (i + 1) / n;
        t->sample[i] = begin + (size_t)(((uint32_t)i * 0x9e3779b1u) >> 8) % (end - begin);
    }
    t->store->marks |= t->concurrent;
}

uint64_t yk_steps_before(int worker)
{
    enum { APART = 25 };
    return APART * (uint64_t)worker;
}

bool yk__stale_revises(const yk__table *t)
{
    return t->stale_rules && t->rule->accumulates && t->store->in_flight > 1;
}

uint64_t yk_warm_up_steps(int in_flight, uint64_t max)
{
    enum { EACH = 50 }; /* steps per gradient in flight */
    const uint64_t steps = EACH * (uint64_t)in_flight;
    return steps < max ? steps : max;
}

float yk_reduced_momentum(float momentum, int in_flight)
{
    return fmaxf(0.0f, momentum - (1.0f - 1.0f / (float)in_flight));
}

float yk__stale_adjust(const yk__table *t, uint64_t step, yk_optim_step *o)
{
    const int n = t->store->in_flight;
    const float mu = o->momentum;
    if (!t->stale_rules || n <= 1)
        return 1.0f;
    const uint64_t until =
        yk_warm_up_steps(n, t->config.shape.keyed ? UINT64_MAX : t->store->config.max_warm_up);
    const float warm_up = !t->rule->scale_free && !t->store->config.staggered && step < until
                              ? (float)(step + 1) / (float)until
                              : 1.0f;
    o->lr *= warm_up;
    if (t->rule->velocity == YK_VELOCITY_SUM) {
        o->momentum = yk_reduced_momentum(mu, n);
        o->lr *= (1.0f - o->momentum) / (1.0f - mu);
    }
    return warm_up;
}

YK_RACY static void mark(const yk__table *t, yk_stale_mark *out)
{
    for (size_t i = 0; i < sample_size(t); i++)
        out->sample[i] = t->shared.w[t->sample[i]];
}

YK_RACY static double squared_distance(const yk__table *t, const yk_stale_mark *from)
{
    double sum = 0.0;
    for (size_t i = 0; i < sample_size(t); i++) {
        const double d = (double)t->shared.w[t->sample[i]] - (double)from->sample[i];
        sum += d * d;
    }
    return sum;
}

/* A moving mean. Threads of a process share it: it does not matter if one of them loses an update. */
YK_RACY static void add_to_mean(double *mean, double x)
{
    const double share = 0.05;
    if (isfinite(x))
        *mean += (*mean > 0.0 ? share : 1.0) * (x - *mean);
}

YK_RACY float yk__stale_begin(yk__table *t, int me, yk__stale_step *out)
{
    const yk_stale_mark *read_at = t->store->worker[me].grad.read_at;
    mark(t, &out->before);
    const double d = t->squared_step > 0.0 ? sqrt(squared_distance(t, read_at) / t->squared_step) : 0.0;
    return out->factor = (float)(1.0 / (1.0 + d));
}

YK_RACY void yk__stale_end(yk__table *t, int me, const yk__stale_step *s)
{
    const double scale = (double)(s->factor * t->worker[me].warm_up);
    add_to_mean(&t->squared_step, squared_distance(t, &s->before) / (scale * scale));
}

void yk_local_set_in_flight(yk_local *s, int gradients)
{
    s->in_flight = gradients;
}

YK_RACY void yk_local_mark(const yk_local *s, yk_stale_mark *out)
{
    for (int g = 0; s->in_flight > 1 && g < s->ngroups; g++)
        if (s->table[g].sample)
            mark(&s->table[g], out);
}

/* ---- measured staleness: the steps of other workers between a worker's pull and its clock, in a sample of steps ---- */

uint64_t yk__steps_of_others(const yk_local *s, int me)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->config.workers; i++)
        if (i != me)
            sum += atomic_load_explicit(&s->worker[i].steps, memory_order_relaxed);
    return sum;
}

void yk_staleness_add(yk_staleness *s, uint64_t late)
{
    const int bucket = late == 0 ? 0 : 64 - __builtin_clzll(late);
    s->bucket[bucket < YK_STALENESS_BUCKETS ? bucket : YK_STALENESS_BUCKETS - 1]++;
    s->observed++;
    s->sum += (double)late;
    s->mean = s->sum / (double)s->observed;
    s->max = (double)late > s->max ? (double)late : s->max;
}

void yk__record_staleness(yk_local *s, int me)
{
    yk__worker *w = &s->worker[me];
    yk_staleness_add(&w->stale, yk__steps_of_others(s, me) - w->stale_at_pull);
    uint64_t every = 4096 / (s->config.batch < 4096 ? s->config.batch : 4096);
    w->next_sample = w->own_steps + (every < 1 ? 1 : every > 1024 ? 1024 : every);
}

void yk_local_staleness(const yk_local *s, int worker, yk_staleness *out)
{
    const int first = worker < 0 ? 0 : worker, end = worker < 0 ? s->config.workers : worker + 1;
    const yk__table *copied = &s->table[0]; /* only models with one group have copies (local_hot.c) */
    *out = (yk_staleness){.hot = copied->hot};
    double merged = 0.0, steps = 0.0;
    for (int i = first; i < end; i++) {
        const yk_staleness *w = &s->worker[i].stale;
        for (int b = 0; b < YK_STALENESS_BUCKETS; b++)
            out->bucket[b] += w->bucket[b];
        out->observed += w->observed;
        out->sum += w->sum;
        out->max = w->max > out->max ? w->max : out->max;
        out->merges += copied->worker[i].merges;
        merged += (double)copied->worker[i].merged_examples;
        steps += (double)copied->worker[i].merged_steps;
    }
    out->mean = out->observed ? out->sum / (double)out->observed : 0.0;
    out->merge_every = out->merges ? merged / (double)out->merges : 0.0;
    out->merge_steps = out->merges ? steps / (double)out->merges : 0.0;
}
