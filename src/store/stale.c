/* Stale gradients: how the owner of parameters applies a gradient that was computed with older values of them.
 *
 * n gradients are in flight: each of n asynchronous workers computes one while the others update the parameters. With the
 * learning rate of one worker, networks and embedding vectors would diverge. So the owner changes it:
 *
 *     start      workers begin one after the other, each 25 steps after the one before: at first, all gradients point in the same
 *                direction. With a staleness bound, where others would wait, and with streamed data in a job, learning rates
 *                warm up instead: lr * t / (100 n) at step t, for at most half of the run for a network. Not for adam
 *     momentum   mu - (1 - 1/n), but at least 0, and lr such that the total effect of a gradient stays the same: staleness
 *                acts like a momentum of 1 - 1/n (Mitliagkas et al. 2016)
 *     distance   lr / (1 + d), for dense groups: d is how far the parameters have moved since the worker read them, in units of
 *                one step that is not scaled down. n gradients that point in different directions move the parameters less than n
 *                steps, and need less damping (gap-aware training: Barkai, Hakimi, Schuster 2020). Linear models: lr / sqrt(n)
 *     curvature  linear models that threads share: lr is at most pi / (2 (2 d + 1) c), where d is the number of steps since the
 *                worker read the parameters, and c the curvature of the loss in the direction in which they move. Gradient descent
 *                on c w^2 / 2 with gradients of staleness d >= 1 is stable up to about twice that rate. c is measured: the difference
 *                between a gradient and one about n steps earlier, divided by the distance the parameters moved in between
 *     revision   keyed groups with adagrad: where a gradient points in the direction in which others have moved a weight since it was
 *                read, they count as one large gradient (AdaptiveRevision, optim/optim.h)
 *
 * Asynchronous threads of one process read the parameters of a network layer by layer, while others update them, so that their
 * gradients are less stale: there, `distance` applies only with a staleness bound, where threads wait and then read at the same time.
 *
 * A sum of m gradients (of the threads of a process) counts as m steps of the same learning rate. Copies of linear models are
 * merged with a rule of their own (hot.c, shards.h).
 * docs/convergence.md has the measurements.
 */
#include "store/local_internal.h"

#include <math.h>

static size_t sample_size(const yk__table *t)
{
    return t->floats < YK_SAMPLE ? t->floats : YK_SAMPLE;
}

/* Distance and curvature are those of a sample of the parameters, one in each of YK_SAMPLE ranges of equal length. */
static void choose_sample(yk__table *t)
{
    const size_t n = sample_size(t);
    for (size_t i = 0; i < n; i++) {
        const size_t begin = t->floats * i / n, end = t->floats * (i + 1) / n;
        t->sample[i] = begin + (size_t)(((uint32_t)i * 0x9e3779b1u) >> 8) % (end - begin);
    }
}

yk_status yk__stale_create(yk__table *t)
{
    const yk_local_config *c = &t->store->config;
    t->stale_rules = c->stale_rules && !t->hot;
    if (c->workers > 1 && t->config.staleness > 0)
        t->store->in_flight = c->workers;
    if (!t->stale_rules || t->config.shape.keyed)
        return YK_OK;
    if (!(t->sample = yk_alloc(sample_size(t) + 1, sizeof *t->sample, "a sample of the parameters")))
        return YK_ESYSTEM;
    choose_sample(t);
    if (!c->linear || c->workers == 1)
        return YK_OK;
    t->curvature = yk_alloc(1, sizeof *t->curvature, "samples of the gradients");
    return t->curvature ? YK_OK : YK_ESYSTEM;
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
    enum { EACH = 100 }; /* steps per gradient in flight */
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
    const float warm_up = t->rule->warms_up && !t->store->config.staggered && step < until
                              ? (float)(step + 1) / (float)until
                              : 1.0f;
    o->lr *= warm_up;
    if (t->rule->velocity == YK_VELOCITY_SUM) {
        o->momentum = yk_reduced_momentum(mu, n);
        o->lr *= (1.0f - o->momentum) / (1.0f - mu);
    }
    return warm_up;
}

YK_RACY void yk__stale_mark(const yk__table *t, yk_stale_mark *out)
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
YK_RACY static void add_to_mean(double *mean, bool first, double x)
{
    const double share = 0.05;
    if (isfinite(x))
        *mean += (first ? 1.0 : share) * (x - *mean);
}

/* Measures how the gradient has changed since an earlier one, in the direction in which the parameters have moved. The step of the
 * earlier gradient is left out, because it contains the noise of that gradient. */
YK_RACY static void measure(const yk__table *t, const yk_stale_mark *read_at, const yk_stale_mark *gradient)
{
    yk__curvature *c = t->curvature;
    double product = 0.0, square = 0.0;
    for (size_t i = 0; i < sample_size(t); i++) {
        const double moved =
            (double)read_at->sample[i] - (double)c->read.sample[i] - (double)c->step.sample[i];
        product += moved * ((double)gradient->sample[i] - (double)c->gradient.sample[i]);
        square += moved * moved;
    }
    if (isfinite(product) && square > 0.0) {
        add_to_mean(&c->square, !c->measured, square);
        add_to_mean(&c->product, !c->measured++, product);
    }
}

/* The factor of the learning rate with which a gradient of this staleness, a sum of `steps` gradients, is stable. */
YK_RACY static double stable_factor(const yk__curvature *c, uint64_t staleness, uint64_t steps)
{
    const double half_limit = 1.5707963267948966;
    const double curvature = c->square > 0.0 && c->product > 0.0 ? c->product / c->square : 0.0,
                 x = (2.0 * (double)staleness + (double)steps) * c->rate * curvature / half_limit;
    return x > 1.0 ? 1.0 / x : 1.0;
}

/* Whether the curvature is measured again, with a gradient about n steps after the last one. */
YK_RACY static bool is_due(const yk__table *t)
{
    return t->curvature->age >= (uint64_t)t->store->in_flight;
}

/* Limits the learning rate by the curvature, and measures it if that is due. */
YK_RACY static float limit_by_curvature(yk__table *t, const yk_grad *g, yk__stale_step *out)
{
    const uint64_t steps = g->steps > 1 ? g->steps : 1,
                   staleness = yk_local_steps(t->store) - g->read_at->step;
    const float *dense = g->group[t - t->store->table].dense;
    yk__curvature *c = t->curvature;
    c->age += steps;
    out->measures = g->read_at->sampled && is_due(t) && !atomic_flag_test_and_set(&c->busy);
    if (out->measures)
        yk__stale_mark(t, &out->before);
    for (size_t i = 0; out->measures && i < sample_size(t); i++)
        out->gradient.sample[i] = dense[t->sample[i]] / (float)g->examples;
    if (out->measures && c->known)
        measure(t, g->read_at, &out->gradient);
    return (float)stable_factor(c, staleness, steps);
}

YK_RACY float yk__stale_begin(yk__table *t, int me, yk__stale_step *out)
{
    const yk_grad *g = &t->store->worker[me].grad;
    if (t->curvature)
        return out->factor = limit_by_curvature(t, g, out);
    yk__stale_mark(t, &out->before);
    if (t->store->config.linear)
        return out->factor = 1.0f / sqrtf((float)t->store->in_flight);
    const double d = t->squared_step > 0.0 ? sqrt(squared_distance(t, g->read_at) / t->squared_step) : 0.0;
    return out->factor = (float)(1.0 / (1.0 + d));
}

YK_RACY void yk__stale_end(yk__table *t, int me, const yk__stale_step *s)
{
    const yk_grad *g = &t->store->worker[me].grad;
    const double scale = (double)(s->factor * t->worker[me].warm_up);
    const size_t n = sample_size(t);
    yk__curvature *c = t->curvature;
    yk_stale_mark moved;
    if (!c) {
        add_to_mean(&t->squared_step, t->squared_step == 0.0,
                    squared_distance(t, &s->before) / (scale * scale));
        return;
    }
    if (!s->measures)
        return;
    double step = 0.0, gradient = 0.0;
    yk__stale_mark(t, &moved);
    for (size_t i = 0; i < n; i++) {
        moved.sample[i] -= s->before.sample[i];
        step += (double)moved.sample[i] * (double)moved.sample[i];
        gradient += (double)s->gradient.sample[i] * (double)s->gradient.sample[i];
    }
    if (gradient > 0.0) /* of one step */
        add_to_mean(&c->rate, c->rate == 0.0,
                    sqrt(step / gradient) / scale / (g->steps > 1 ? (double)g->steps : 1.0));
    c->read = *g->read_at;
    c->gradient = s->gradient;
    c->step = moved;
    c->known = true;
    c->age = 0;
    atomic_flag_clear(&c->busy);
}

bool yk__stale_marks(const yk_local *s)
{
    bool any = false;
    for (int g = 0; g < s->ngroups; g++) {
        const yk__table *t = &s->table[g];
        any |= t->stale_rules && !t->config.shape.keyed && t->config.staleness > 0 &&
               (t->config.staleness != YK_ASYNC || s->config.linear);
    }
    return any && s->config.workers > 1;
}

void yk_local_set_in_flight(yk_local *s, int gradients)
{
    s->in_flight = gradients;
}

YK_RACY void yk_local_mark(const yk_local *s, yk_stale_mark *out)
{
    out->step = yk_local_steps(s);
    out->sampled = false;
    for (int g = 0; s->in_flight > 1 && g < s->ngroups; g++) {
        const yk__table *t = &s->table[g];
        if (!t->sample || (t->curvature && !is_due(t)))
            continue;
        yk__stale_mark(t, out);
        out->sampled = true;
    }
}
