#include "store/local_internal.h"

#include "base/clock.h"
#include "store/exchange.h"

enum { COUNT_EVERY = 1024 }; /* examples, see yk__global_step() */

static const yk_store_ops local_ops, replica_ops, local_sgd_ops;
static const yk_burst_ops bursts;

/* Whether bursts are possible (store.h). */
static bool can_burst(const yk_local *s)
{
    const yk_local_config *c = &s->config;
    const yk__table *t = &s->table[0];
    const yk_optim_config *o = &t->config.optim;
    return s->ngroups == 1 && t->config.shape.keyed && t->width == 1 && c->batch == 1 && t->rule->plain &&
           yk_lr_is_constant(o) && !t->touched && c->clip_norm == 0.0 &&
           (c->workers == 1 || t->config.staleness == YK_ASYNC);
}

static void make_worker(yk_local *s, yk__worker *w)
{
    w->wants = 1;
    w->coef = yk_arena_alloc(&s->memory, s->config.batch, sizeof *w->coef, "a batch");
    if (s->marks)
        w->mark = yk_arena_alloc(&s->memory, 1, sizeof *w->mark, "a sample of the parameters");
}

static const yk_store_ops *ops_of(const yk_local_config *c)
{
    if (c->local_steps)
        return &local_sgd_ops;
    return yk__replica_sums(c) && c->workers == 1 ? &replica_ops : &local_ops;
}

yk_status yk_local_create(const yk_local_config *config, yk_local **out)
{
    yk_local *s = yk_alloc(1, sizeof *s, "the store");
    if (!s)
        return YK_ESYSTEM;
    s->config = *config;
    s->kern = yk_linear();
    s->bound = YK_ASYNC;
    s->base.ops = ops_of(config);
    for (int g = 0; g < config->ngroups; g++)
        s->rounds |= config->group[g].staleness == 0;
    s->sums = s->rounds && (config->workers > 1 || yk__replica_sums(config));
    s->clocks = s->rounds ? 1 : config->workers;
    s->worker = yk_arena_alloc(&s->memory, (size_t)config->workers, sizeof *s->worker, "the workers");
    yk_status st = s->memory.status;
    for (int g = 0; !st && g < config->ngroups; g++) {
        yk__table *t = &s->table[g];
        s->ngroups = g + 1;
        st = yk__table_create(t, s, &config->group[g]);
        if (!st && !s->rounds && yk__hot_bound(t) < s->bound)
            s->bound = yk__hot_bound(t);
        s->decays |= t->touched != NULL;
    }
    for (int i = 0; !st && i < config->workers; i++)
        make_worker(s, &s->worker[i]);
    if (config->workers > 1 && yk__replica_sums(config))
        s->sum = yk_arena_alloc(&s->memory, s->table[0].floats, sizeof *s->sum, "the gradients");
    if (st || (st = s->memory.status)) {
        yk_local_free(s);
        return st;
    }
    s->base.burst = can_burst(s) ? &bursts : NULL;
    *out = s;
    return YK_OK;
}

void yk_local_free(yk_local *s)
{
    if (!s)
        return;
    for (int g = 0; g < s->ngroups; g++)
        yk__table_free(&s->table[g]);
    yk_arena_free(&s->memory);
    yk_free(s);
}

/* ---- pull, push, clock ---- */

static yk_local *local_of(yk_store *s)
{
    return (yk_local *)(void *)s;
}

static size_t wants(const yk_store *s, int me)
{
    return ((const yk_local *)(const void *)s)->worker[me].wants;
}

static yk_status announce(yk_store *s, int me, const yk_batch *batch, const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__worker *w = &local_of(s)->worker[me];
    (void)cursor;
    w->announced = *batch;
    w->wants = 0;
    return YK_OK;
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *out)
{
    yk_local *s = local_of(store);
    yk__worker *w = &s->worker[me];
    yk_status st = YK_OK;
    *batch_out = w->announced;
    for (int g = 0; !st && s->decays && g < s->ngroups; g++)
        if (s->table[g].touched)
            st = yk__decay_pull(&s->table[g], me, &w->announced);
    if (st)
        return st;
    if (yk__sampled(s, w))
        w->stale_at_pull = yk__steps_of_others(s, me);
    if (w->mark)
        yk_local_mark(s, w->mark);
    for (int g = 0; g < s->ngroups; g++) {
        out[g] = s->table[g].worker[me].view;
        out[g].in_flight = s->table[g].stale_rules && !s->table[g].config.shape.keyed ? s->in_flight : 0;
    }
    return YK_OK;
}

/* The hyperparameters of this step, if they change from step to step. */
static void prepare_step(yk_local *s, int me)
{
    yk__worker *w = &s->worker[me];
    bool change[YK_MAX_GROUPS], any = s->decays;
    for (int g = 0; g < s->ngroups; g++) {
        const yk_optim_config *c = &s->table[g].config.optim;
        change[g] = !yk_lr_is_constant(c) || s->table[g].rule->velocity == YK_VELOCITY_MEAN ||
                    (s->table[g].stale_rules && s->in_flight > 1);
        any |= change[g];
    }
    if (s->clocks > 1 && any && (w->own_steps - w->counted_at) * s->config.batch >= COUNT_EVERY) {
        w->counted = w->own_steps + yk__steps_of_others(s, me);
        w->counted_at = w->own_steps;
    }
    for (int g = 0; g < s->ngroups; g++)
        if (w->own_steps == 0 || change[g])
            yk__table_prepare(&s->table[g], me, yk__global_step(s, w));
}

/* --clip-norm: the squares of the groups whose gradients are applied with the sum of all workers, or of the others. */
static yk_status measure(yk_local *s, int me, bool sums)
{
    yk_status st = YK_OK;
    s->worker[me].squares = 0.0;
    for (int g = 0; !st && g < s->ngroups; g++)
        if ((s->table[g].ops->clock != NULL) == sums)
            st = s->table[g].ops->squares(&s->table[g], me, &s->worker[me].squares);
    return st;
}

static yk_status clip_own(yk_local *s, int me)
{
    yk__worker *w = &s->worker[me];
    const yk_status st = w->grad.examples ? measure(s, me, false) : YK_OK;
    if (!st && w->grad.examples)
        w->clip =
            yk_clip_factor(w->squares, (double)w->grad.examples + w->grad.extra_weight, s->config.clip_norm);
    return st;
}

static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    yk_local *s = local_of(store);
    yk__worker *w = &s->worker[me];
    w->grad = *g;
    w->clip = g->clip > 0.0f ? g->clip : 1.0f;
    yk_status st = s->config.clip_norm > 0.0 ? clip_own(s, me) : YK_OK;
    if (w->mark)
        w->grad.read_at = w->mark;
    prepare_step(s, me);
    for (int i = 0; !st && i < s->ngroups; i++)
        st = s->table[i].ops->push(&s->table[i], me);
    return st;
}

yk_status yk__local_barrier(yk_local *s, int me, bool count_last)
{
    if (s->config.workers == 1)
        return YK_OK;
    yk_phases *p = yk_phases_of(s->config.phases, me);
    yk_phase_to(p, YK_PHASE_WORKERS);
    yk_status st = yk_team_barrier(s->config.team, me);
    yk_phase_waited(p, YK_PHASE_WORKERS, yk_team_waited(s->config.team, me));
    if (count_last)
        yk_phases_barrier(p, yk_team_was_last(s->config.team, me));
    yk_phase_to(p, YK_PHASE_APPLY);
    return st;
}

/* The same factor in all workers. */
static yk_status clip_sum(yk_local *s, int me, double weight)
{
    yk_status st = measure(s, me, true);
    double all = 0.0;
    if (st || (st = yk__local_barrier(s, me, false)))
        return st;
    for (int i = 0; i < s->config.workers; i++)
        all += s->worker[i].squares;
    s->worker[me].clip = yk_clip_factor(all, weight, s->config.clip_norm);
    return YK_OK;
}

static yk_status end_together(yk_local *s, int me, yk_step_result *out)
{
    yk_status st = yk__local_barrier(s, me, true);
    if (!st && yk__replica_sums(&s->config))
        st = yk__replica_sum(s, me);
    if (st)
        return st;
    double extra = 0.0;
    *out = (yk_step_result){0};
    for (int i = 0; i < s->config.workers; i++) {
        out->examples += s->worker[i].grad.examples;
        extra += s->worker[i].grad.extra_weight;
        out->loss += s->worker[i].grad.loss;
    }
    out->weight = (double)out->examples + extra;
    if (out->examples && s->config.clip_norm > 0.0)
        st = clip_sum(s, me, out->weight);
    for (int g = 0; !st && out->examples && g < s->ngroups; g++)
        if (s->table[g].ops->clock)
            st = s->table[g].ops->clock(&s->table[g], me, out->weight);
    /* all apply the same amount: which one is last does not matter */
    return st ? st : yk__local_barrier(s, me, false);
}

/* The steps of a worker; UINT64_MAX: it has finished. */
static uint64_t steps_of(const yk_local *s, int worker)
{
    const yk__worker *w = &s->worker[worker];
    uint64_t steps = atomic_load_explicit(&w->steps, memory_order_acquire);
    return atomic_load_explicit(&w->finished, memory_order_acquire) ? UINT64_MAX : steps;
}

static int slowest_of_others(const yk_local *s, int me, uint64_t *steps_out)
{
    int slowest = me;
    *steps_out = UINT64_MAX;
    for (int i = 0; i < s->config.workers; i++) {
        const uint64_t there = i == me ? UINT64_MAX : steps_of(s, i);
        if (there < *steps_out) {
            *steps_out = there;
            slowest = i;
        }
    }
    return slowest;
}

/* Waits until the slowest worker is at most `bound` steps behind. Reads only the steps of that worker until it has caught up: a
 * cache line that all workers read costs its writer more. */
static yk_status wait_until_within_bound(yk_local *s, int me)
{
    yk__worker *w = &s->worker[me];
    const uint64_t needed = w->own_steps - s->bound;
    yk_wait turns = yk_team_wait(s->config.team);
    for (;;) {
        const int slowest = slowest_of_others(s, me, &w->slowest_seen);
        if (w->slowest_seen >= needed)
            return YK_OK;
        while (steps_of(s, slowest) < needed) {
            if (yk_team_stopped(s->config.team))
                return yk_fail(YK_ESTOP, "another worker stopped the run");
            if (s->config.interrupted && atomic_load_explicit(s->config.interrupted, memory_order_relaxed))
                return YK_OK; /* the slower worker may wait for this one at the barrier */
            if (!yk_wait_poll(&turns))
                return yk_fail(YK_ELOST,
                               "worker %d took no step for %g s: its thread is hung or starved of CPU time",
                               slowest, turns.seconds);
        }
    }
}

/* Returns at once if there is no bound. */
static yk_status wait_for_slowest(yk_local *s, int me)
{
    const yk__worker *w = &s->worker[me];
    if (w->own_steps <= s->bound || w->own_steps - s->bound <= w->slowest_seen)
        return YK_OK;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_WORKERS);
    const uint64_t since = yk_now_ns();
    yk_status st = wait_until_within_bound(s, me);
    yk_phase_waited(yk_phases_of(s->config.phases, me), YK_PHASE_WORKERS, yk_now_ns() - since);
    return st;
}

static yk_status end_step(yk_local *s, int me, yk_step_result *out)
{
    yk__worker *w = &s->worker[me];
    if (s->sums) {
        yk_status st = end_together(s, me, out);
        if (st || out->examples == 0)
            return st;
    } else {
        *out = (yk_step_result){.examples = w->grad.examples,
                                .weight = (double)w->grad.examples + w->grad.extra_weight,
                                .loss = w->grad.loss};
        if (out->examples == 0) /* the end of an epoch is not a step */
            return YK_OK;
        if (yk__sampled(s, w))
            yk__record_staleness(s, me);
    }
    yk__hot_step(&s->table[0], me, 1, w->grad.examples);
    out->steps = w->grad.steps > 1 ? w->grad.steps : 1;
    w->own_steps += out->steps;
    atomic_store_explicit(&w->steps, w->own_steps, memory_order_release);
    return wait_for_slowest(s, me);
}

static yk_status finish(yk_store *store, int me)
{
    yk_local *s = local_of(store);
    yk__hot_merge(&s->table[0], me);
    atomic_store_explicit(&s->worker[me].finished, true, memory_order_release);
    return YK_OK;
}

uint32_t yk_local_reductions(const yk_local *s)
{
    return s->table[0].config.optim.reductions;
}

void yk_local_set_reductions(yk_local *s, uint32_t n)
{
    for (int g = 0; g < s->ngroups; g++)
        s->table[g].config.optim.reductions = n;
}

void yk_local_reduce(yk_local *s, uint32_t n)
{
    for (int g = 0; g < s->ngroups && n != yk_local_reductions(s); g++)
        if (s->table[g].touched)
            yk__decay_apply(&s->table[g]);
    yk_local_set_reductions(s, n);
}

uint64_t yk_local_steps(const yk_local *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->clocks; i++)
        sum += atomic_load_explicit(&s->worker[i].steps, memory_order_relaxed);
    return s->restored_steps + sum;
}

/* ---- state ---- */

static yk_status wait_for_all(yk_local *s, int me)
{
    return s->config.workers > 1 ? yk_team_barrier(s->config.team, me) : YK_OK;
}

yk_status yk_local_quiesce(yk_local *s, int me)
{
    yk__hot_merge(&s->table[0], me);
    yk_status st = wait_for_all(s, me);
    for (int g = 0; !st && g < s->ngroups; g++)
        if (s->table[g].touched)
            yk__decay_catch_up(&s->table[g], me);
    return st || !s->decays ? st : wait_for_all(s, me);
}

yk_view yk_local_table(yk_local *s, int group)
{
    const yk__table *t = &s->table[group];
    yk_view v = t->shared;
    if (t->decayed)
        v.w = t->decayed;
    return v;
}

float *yk_local_take(yk_local *s, int group)
{
    const yk__table *t = &s->table[group];
    return t->decayed ? NULL : yk_arena_take(&s->memory, t->shared.w);
}

void yk_local_tables(yk_local *s, yk_view *out)
{
    for (int g = 0; g < s->ngroups; g++)
        out[g] = yk_local_table(s, g);
}

yk_status yk_local_resume(yk_local *s, int me)
{
    yk__hot_refresh(&s->table[0], me);
    /* a worker that stopped waiting because of the barrier is still ahead */
    return atomic_load(&s->worker[me].finished) ? YK_OK : wait_for_slowest(s, me);
}

yk_local_state yk_local_raw(const yk_local *s, int group)
{
    const yk__table *t = &s->table[group];
    return (yk_local_state){t->shared, t->touched, t->rule, &t->config.shape};
}

int yk_local_groups(const yk_local *s)
{
    return s->ngroups;
}

void yk_local_restore(yk_local *s, uint64_t steps)
{
    s->restored_steps = steps;
    for (int i = 0; i < s->config.workers; i++) {
        yk__worker *w = &s->worker[i];
        w->own_steps = w->counted = w->counted_at = w->next_sample = w->slowest_seen = 0;
        atomic_store(&w->steps, 0);
        yk__hot_refresh(&s->table[0], i);
    }
}

/* ---- as a store ---- */

/* In rounds, all workers do what worker 0 asks for. Two entries are enough: no worker is two rounds ahead of another. */
static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk_local *s = local_of(store);
    yk__worker *w = &s->worker[me];
    atomic_int *at = &s->action_at[w->calls++ & 1];
    if (s->rounds && me == 0)
        atomic_store_explicit(at, (int)action, memory_order_relaxed);
    w->wants = 1;
    const uint64_t own = w->grad.examples;
    yk_status st = end_step(s, me, out);
    out->own = own;
    out->over = !s->rounds && out->examples == 0;
    out->action = s->rounds ? (yk_action)atomic_load_explicit(at, memory_order_relaxed) : action;
    return st;
}

static yk_status clock_local_sgd(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk_step_result one;
    yk_status st = clock_step(store, me, action, &one);
    return st ? st : yk__replica_end_step(local_of(store), me, action, &one, out);
}

static yk_status ready(yk_store *s, int me, float *dense, size_t begin, size_t end)
{
    (void)me;
    return yk_exchange_ready(local_of(s)->config.exchange, dense, begin, end);
}

static uint64_t steps_so_far(const yk_store *s, int me)
{
    (void)me;
    return yk_local_steps((const yk_local *)(const void *)s);
}

/* A step whose staleness is recorded is taken alone, because staleness is measured per step. */
static size_t burst_max(const yk_store *store, int me)
{
    const yk_local *s = (const yk_local *)(const void *)store;
    const yk__worker *w = &s->worker[me];
    if (s->config.workers == 1)
        return YK_MAX_BURST;
    const uint64_t until = w->next_sample - w->own_steps;
    return until == 0 ? 1 : until < YK_MAX_BURST ? (size_t)until : YK_MAX_BURST;
}

static void burst_begin(yk_store *store, int me, yk_view *view_out, float *lr_out)
{
    yk_local *s = local_of(store);
    yk__worker *w = &s->worker[me];
    if (yk__sampled(s, w))
        w->stale_at_pull = yk__steps_of_others(s, me);
    *view_out = s->table[0].worker[me].view;
    *lr_out = s->table[0].worker[me].optim.lr;
}

static void burst_end(yk_store *store, int me, size_t steps)
{
    yk_local *s = local_of(store);
    yk__worker *w = &s->worker[me];
    if (steps == 0)
        return;
    if (yk__sampled(s, w))
        yk__record_staleness(s, me);
    yk__hot_step(&s->table[0], me, steps, steps);
    w->own_steps += steps;
    atomic_store_explicit(&w->steps, w->own_steps, memory_order_release);
}

static const yk_burst_ops bursts = {.max = burst_max, .begin = burst_begin, .end = burst_end};

#define SHARED                                                                                               \
    .wants = wants, .announce = announce, .pull = pull, .push = push, .finish = finish, .steps = steps_so_far
static const yk_store_ops local_ops = {.clock = clock_step, SHARED},
                          replica_ops = {.clock = clock_step, .ready = ready, SHARED},
                          local_sgd_ops = {.clock = clock_local_sgd, SHARED};

yk_store *yk_local_store(yk_local *s)
{
    return &s->base;
}
