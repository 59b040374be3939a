#include "store/local.h"

#include "base/clock.h"
#include "store/burst.h"
#include <math.h>
#include <string.h>

enum { COUNT_EVERY = 1024 }; /* examples, see yk__global_step() */

yk_status yk_store_create(const yk_store_config *config, yk_store **out)
{
    yk_store *s = yk_alloc(1, sizeof *s, "the store");
    if (!s)
        return YK_ESYSTEM;
    s->config = *config;
    s->rule = yk_optim_rule_of(config->optim.kind);
    s->kern = yk_linear();
    s->worker = yk_alloc((size_t)config->workers, sizeof *s->worker, "the workers");
    yk_status st = s->worker ? yk__decay_create(s) : YK_ESYSTEM;
    if (!st)
        st = yk__hot_create(s);
    for (int i = 0; !st && i < config->workers; i++) {
        yk__worker *w = &s->worker[i];
        w->optim = yk_optim_at(&config->optim, 0);
        w->coef_cap = config->batch;
        if (!(w->coef = yk_alloc(w->coef_cap, sizeof *w->coef, "a batch")))
            st = YK_ESYSTEM;
        else if (config->sparse)
            st = yk_merger_init(&w->pairs, 64);
        if (!st && config->sparse)
            st = yk_merger_init(&w->part, 64);
    }
    if (st) {
        yk_store_free(s);
        return st;
    }
    *out = s;
    return YK_OK;
}

void yk_store_free(yk_store *s)
{
    if (!s)
        return;
    for (int i = 0; s->worker && i < s->config.workers; i++) {
        yk_free(s->worker[i].coef);
        yk_merger_fini(&s->worker[i].pairs);
        yk_merger_fini(&s->worker[i].part);
    }
    yk__hot_free(s);
    yk_free(s->touched);
    yk_free(s->settled);
    yk_free(s->worker);
    yk_free(s);
}

/* ---- the three verbs ---- */

yk_status yk_store_pull(yk_store *s, int me, const yk_batch *batch, yk_view *out)
{
    yk__worker *w = &s->worker[me];
    if (s->touched) {
        yk_status st = yk__decay_pull(s, me, batch);
        if (st)
            return st;
    }
    if (yk__sampled(s, w))
        w->stale_at_pull = yk__steps_of_others(s, me);
    *out = w->view;
    return YK_OK;
}

void yk_store_read(yk_store *s, const uint32_t *key, size_t n, float *out)
{
    if (s->touched)
        yk__decay_read(s, key, n);
    for (size_t i = 0; i < n; i++)
        out[i] = s->shared.w[key[i]];
}

/* What is left for the rule of a weight's regularisation: nothing where decay.c does it, except for this very step. */
static void prepare_step(yk_store *s, int me)
{
    yk__worker *w = &s->worker[me];
    const yk_optim_config *c = &s->config.optim;
    const bool changes = c->schedule != YK_LR_CONSTANT || c->kind == YK_ADAM;
    if (s->config.staleness != 0 && s->config.workers > 1 && (changes || s->touched) &&
        (w->own_steps - w->counted_at) * s->config.batch >= COUNT_EVERY) {
        w->counted = w->own_steps + yk__steps_of_others(s, me);
        w->counted_at = w->own_steps;
    }
    if (w->own_steps == 0 || changes)
        w->optim = yk_optim_at(c, yk__global_step(s, w));
}

static void mark_touched(yk_store *s, uint32_t now, const yk_merger *pairs)
{
    for (size_t i = 0; i < pairs->n; i++)
        yk__decay_advance(s, pairs->key[i], now + 1);
}

/* Something for the threads of a worker to share, where there are enough parameters for it to be worth a meeting. */
enum { WORTH_SHARING = 1 << 15 };

static void share(const yk_crew *crew, size_t n, void (*part)(void *, int, int), void *context)
{
    if (crew && n >= WORTH_SHARING)
        crew->run(crew->threads, part, context);
    else
        part(context, 0, 1);
}

/* Part `me` of `all` of begin .. end, to whole cache lines. */
static void part_of_range(size_t *begin, size_t *end, int me, int all)
{
    const size_t piece = YK_ROUND_UP((*end - *begin + (size_t)all - 1) / (size_t)all, 16),
                 from = *begin + piece * (size_t)me;
    *end = from + piece < *end ? from + piece : *end;
    *begin = from < *end ? from : *end;
}

/* What apply_own_part() and apply_sum_part() share out. */
typedef struct {
    yk_store *s;
    yk__worker *w;
    size_t begin, end; /* parameters */
    float scale;
} dense_update;

static YK_RACY void apply_own_part(void *update, int me, int all)
{
    dense_update u = *(const dense_update *)update;
    part_of_range(&u.begin, &u.end, me, all);
    yk__apply_dense(u.s, &u.w->view, u.begin, u.end - u.begin, u.w->grad.dense + u.begin, u.scale,
                    &u.w->optim);
}

/* Gradients added up in worker order, applied once. */
static void apply_sum_part(void *update, int me, int all)
{
    enum { MOST = 1024 };
    dense_update u = *(const dense_update *)update;
    part_of_range(&u.begin, &u.end, me, all);
    for (size_t at = u.begin; at < u.end; at += MOST) {
        const size_t count = u.end - at < MOST ? u.end - at : MOST;
        float sum[MOST] = {0};
        for (int i = 0; i < u.s->config.workers; i++) {
            const yk_grad *g = &u.s->worker[i].grad;
            for (size_t k = 0; g->examples && k < count; k++)
                sum[k] += g->dense[at + k];
        }
        yk__apply_dense(u.s, &u.s->shared, at, count, sum, u.scale, &u.w->optim);
    }
}

/* A gradient of this worker alone, onto what its view shows. */
static YK_RACY yk_status apply_own(yk_store *s, yk__worker *w)
{
    const yk_grad *g = &w->grad;
    if (g->examples == 0)
        return YK_OK;
    const float scale = 1.0f / (float)g->examples;
    if (g->dense) {
        dense_update u = {s, w, 0, s->config.nparams, scale};
        share(g->crew, u.end, apply_own_part, &u);
        return YK_OK;
    }
    if (g->pairs) { /* merged already, by whoever gathered it from several processes */
        if (s->touched)
            yk__decay_read(s, g->pairs->key, g->pairs->n);
        s->rule->pairs(&w->view, g->pairs->key, g->pairs->value, g->pairs->n, scale, &w->optim);
        if (s->touched)
            mark_touched(s, (uint32_t)yk__global_step(s, w), g->pairs);
        return YK_OK;
    }
    if (s->config.optim.kind == YK_SGD && !s->touched) { /* no state: rows are added as they are */
        float bias = 0.0f;
        for (size_t i = 0; i < g->rows.n; i++) {
            w->coef[i] = -w->optim.lr * scale * g->err[i];
            bias += w->coef[i];
        }
        s->kern->add_rows(&w->view, &g->rows, w->coef);
        if (g->bias_key != UINT32_MAX)
            w->view.w[yk_view_at(&w->view, g->bias_key)] += bias;
        return YK_OK;
    }
    yk_status st = yk_grad_merge(g, &w->pairs);
    if (st)
        return st;
    s->rule->pairs(&w->view, w->pairs.key, w->pairs.value, w->pairs.n, scale, &w->optim);
    if (s->touched)
        mark_touched(s, (uint32_t)yk__global_step(s, w), &w->pairs);
    return YK_OK;
}

yk_status yk_store_push(yk_store *s, int me, const yk_grad *g)
{
    yk__worker *w = &s->worker[me];
    w->grad = *g;
    prepare_step(s, me);
    if (s->config.staleness == 0 && s->config.workers > 1)
        return g->dense ? YK_OK : yk_grad_merge(g, &w->pairs); /* applied together, in clock() */
    return apply_own(s, w);
}

/* Worker `me`'s part of the parameters. */
static yk_status apply_part(yk_store *s, int me, size_t examples)
{
    yk__worker *w = &s->worker[me];
    const size_t workers = (size_t)s->config.workers;
    const float scale = 1.0f / (float)examples;
    if (!s->config.sparse) {
        dense_update u = {s, w, 0, s->config.nparams, scale};
        part_of_range(&u.begin, &u.end, me, s->config.workers);
        share(w->grad.crew, u.end - u.begin, apply_sum_part, &u);
        return YK_OK;
    }
    size_t most = 0;
    for (size_t i = 0; i < workers; i++)
        most += s->worker[i].grad.examples ? s->worker[i].pairs.n : 0;
    yk_status st = yk_merger_reserve(&w->part, most + 1);
    for (size_t i = 0; !st && i < workers; i++) {
        const yk_merger *pairs = &s->worker[i].pairs;
        for (size_t k = 0; s->worker[i].grad.examples && k < pairs->n; k++)
            if (yk__part_of(pairs->key[k], (int)workers) == me)
                yk_merger_add(&w->part, pairs->key[k], pairs->value[k]);
    }
    if (st)
        return st;
    s->rule->pairs(&s->shared, w->part.key, w->part.value, w->part.n, scale, &w->optim);
    if (s->touched)
        mark_touched(s, (uint32_t)yk__global_step(s, w), &w->part);
    return YK_OK;
}

static yk_phases *phases_of(const yk_store *s, int me)
{
    return s->config.phases ? &s->config.phases[me] : NULL;
}

/* A meeting of all at the end of a step: who came last is written down. */
static yk_status meet(yk_store *s, int me, bool named)
{
    yk_phases *p = phases_of(s, me);
    yk_phase_to(p, YK_PHASE_WORKERS);
    yk_status st = yk_team_meet(s->config.team, me);
    yk_phase_waited(p, YK_PHASE_WORKERS, yk_team_waited(s->config.team, me));
    if (named)
        yk_phases_met(p, yk_team_was_last(s->config.team, me));
    yk_phase_to(p, YK_PHASE_APPLY);
    return st;
}

static yk_status clock_together(yk_store *s, int me, yk_step_result *out)
{
    yk_status st = meet(s, me, true);
    if (st)
        return st;
    *out = (yk_step_result){0};
    for (int i = 0; i < s->config.workers; i++) {
        out->examples += s->worker[i].grad.examples;
        out->loss += s->worker[i].grad.loss;
    }
    if (out->examples && (st = apply_part(s, me, out->examples)))
        return st;
    return meet(s, me, false); /* all have as much to apply: who is last here says nothing */
}

static bool bounded(const yk_store *s)
{
    return s->config.staleness != 0 && s->config.staleness != YK_ASYNC;
}

/* Waits until the slowest worker is at most K steps behind. */
static yk_status wait_until_near(yk_store *s, int me)
{
    yk__worker *w = &s->worker[me];
    /* with copies, what a worker did becomes visible up to K / 4 steps later: leave room for that */
    const uint64_t k = s->hot ? s->config.staleness / 2 : s->config.staleness;
    yk_wait turns = yk_team_wait(s->config.team);
    while (w->own_steps > w->slowest_seen + k) {
        uint64_t slowest = UINT64_MAX;
        int who = me;
        for (int i = 0; i < s->config.workers; i++) {
            yk__worker *other = &s->worker[i];
            uint64_t there = atomic_load_explicit(&other->steps, memory_order_acquire);
            if (i != me && there < slowest && !atomic_load_explicit(&other->finished, memory_order_acquire)) {
                slowest = there;
                who = i;
            }
        }
        w->slowest_seen = slowest < UINT64_MAX - k ? slowest : UINT64_MAX - k;
        if (w->own_steps <= w->slowest_seen + k)
            break;
        if (yk_team_stopped(s->config.team))
            return yk_fail(YK_ESTOP, "another worker stopped the run");
        if (s->config.interrupted && atomic_load_explicit(s->config.interrupted, memory_order_relaxed))
            break; /* all meet: waiting for a worker that waits for us would not end */
        if (!yk_wait_turn(&turns))
            return yk_fail(YK_ELOST, "worker %d made no step for %d s", who, YK_MEET_SECONDS);
    }
    return YK_OK;
}

static yk_status wait_for_slowest(yk_store *s, int me)
{
    const yk__worker *w = &s->worker[me];
    const uint64_t k = s->hot ? s->config.staleness / 2 : s->config.staleness;
    if (w->own_steps <= w->slowest_seen + k)
        return YK_OK;
    yk_phase_to(phases_of(s, me), YK_PHASE_WORKERS);
    const uint64_t since = yk_now_ns();
    yk_status st = wait_until_near(s, me);
    yk_phase_waited(phases_of(s, me), YK_PHASE_WORKERS, yk_now_ns() - since);
    return st;
}

yk_status yk_store_clock(yk_store *s, int me, yk_step_result *out)
{
    yk__worker *w = &s->worker[me];
    if (s->config.staleness == 0 && s->config.workers > 1) {
        yk_status st = clock_together(s, me, out);
        if (st || out->examples == 0)
            return st;
    } else {
        *out = (yk_step_result){w->grad.examples, w->grad.loss};
        if (out->examples == 0) /* the end of an epoch is no step, with one worker as with many */
            return YK_OK;
        if (yk__sampled(s, w))
            yk__record_staleness(s, me);
        yk__hot_step(s, w, w->grad.examples);
    }
    w->own_steps++;
    atomic_store_explicit(&w->steps, w->own_steps, memory_order_release);
    return bounded(s) ? wait_for_slowest(s, me) : YK_OK;
}

/* ---- many steps at once ---- */

bool yk_store_bursts(const yk_store *s)
{
    const yk_store_config *c = &s->config;
    return c->sparse && c->batch == 1 && c->optim.kind == YK_SGD && c->optim.schedule == YK_LR_CONSTANT &&
           !s->touched && (c->workers == 1 || c->staleness == YK_ASYNC);
}

/* A step whose staleness is looked at is made alone: what is measured is a step, not a burst. */
size_t yk_store_burst_most(const yk_store *s, int me)
{
    const yk__worker *w = &s->worker[me];
    if (s->config.workers == 1)
        return YK_BURST;
    const uint64_t until = w->next_sample - w->own_steps;
    return until == 0 ? 1 : until < YK_BURST ? (size_t)until : YK_BURST;
}

void yk_store_burst_begin(yk_store *s, int me, yk_view *view_out, float *lr_out)
{
    yk__worker *w = &s->worker[me];
    if (yk__sampled(s, w))
        w->stale_at_pull = yk__steps_of_others(s, me);
    *view_out = w->view;
    *lr_out = w->optim.lr;
}

void yk_store_burst_end(yk_store *s, int me, size_t steps)
{
    yk__worker *w = &s->worker[me];
    if (steps == 0)
        return;
    if (yk__sampled(s, w))
        yk__record_staleness(s, me);
    yk__hot_step(s, w, steps);
    w->own_steps += steps;
    atomic_store_explicit(&w->steps, w->own_steps, memory_order_release);
}

void yk_store_finish(yk_store *s, int me)
{
    yk__hot_merge(s, &s->worker[me]);
    atomic_store_explicit(&s->worker[me].finished, true, memory_order_release);
}

uint64_t yk_store_steps(const yk_store *s)
{
    uint64_t sum = 0;
    int counted = s->config.staleness == 0 ? 1 : s->config.workers;
    for (int i = 0; i < counted; i++)
        sum += atomic_load_explicit(&s->worker[i].steps, memory_order_relaxed);
    return s->restored_steps + sum;
}

/* ---- looking at it ---- */

yk_status yk_store_settle(yk_store *s, int me)
{
    yk__hot_merge(s, &s->worker[me]);
    yk_status st = yk_team_meet(s->config.team, me);
    if (!st && s->touched)
        yk__decay_settle(s, me);
    return st ? st : yk_team_meet(s->config.team, me);
}

yk_view yk_store_table(yk_store *s)
{
    yk_view v = s->shared;
    if (s->settled)
        v.w = s->settled;
    return v;
}

yk_status yk_store_resume(yk_store *s, int me)
{
    yk__hot_refresh(s, &s->worker[me]);
    /* whoever stopped waiting because of the meeting is still ahead */
    return bounded(s) && !atomic_load(&s->worker[me].finished) ? wait_for_slowest(s, me) : YK_OK;
}

yk_store_state yk_store_raw(yk_store *s)
{
    return (yk_store_state){s->shared, s->touched};
}

const yk_optim_rule *yk_store_rule(const yk_store *s)
{
    return s->rule;
}

void yk_store_restore(yk_store *s, uint64_t steps)
{
    s->restored_steps = steps;
    for (int i = 0; i < s->config.workers; i++) {
        yk__worker *w = &s->worker[i];
        w->own_steps = w->counted = w->counted_at = w->next_sample = 0;
        atomic_store(&w->steps, 0);
        yk__hot_refresh(s, w);
    }
}
