#include "store/shards_internal.h"

#include "base/wait.h"
#include <math.h>
#include <string.h>

/* Whether gradients of this group are applied when they arrive, not with the sum of a round. */
static bool applied_on_arrival(const yk_shards *s, int group)
{
    return s->plan->group[group].staleness > 0;
}

static yk_status barrier(yk_shards *s, int me)
{
    return yk__threads_of(s->channel) > 1 ? yk_team_barrier(s->whole.team, me) : YK_OK;
}

yk_status yk__shards_once(yk_shards *s, int me, yk_status (*what)(yk_shards *s, yk__channel *c))
{
    yk__channel *c = yk__channel_of(s, me);
    yk_status st = barrier(s, me);
    if (!st && me == c->first)
        st = what(s, c);
    return st ? st : barrier(s, me);
}

/* Finds the keys of the announced batches; all threads of the channel together. */
static yk_status find_keys(yk_shards *s, int me)
{
    yk__channel *c = yk__channel_of(s, me);
    yk_status st = YK_OK;
    for (int stage = 0; !st && stage < YK__STAGES; stage++)
        if (!(st = stage ? barrier(s, me) : YK_OK))
            st = yk__shards_find_keys(s, c, stage, me - c->first, yk__threads_of(c));
    s->thread[me].keys_found = true;
    return st;
}

/* ---- announce, pull ---- */

static size_t wants(const yk_store *store, int me)
{
    return !((const yk_shards *)(const void *)store)->thread[me].announced;
}

/* The request is sent with the next gradient, or by the next pull. */
static yk_status announce(yk_store *store, int me, const yk_batch *batch,
                          const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk_shards *s = yk__shards_of(store);
    yk__thread *w = &s->thread[me];
    w->announced = true;
    w->batch = *batch;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY); /* not waiting for input */
    return batch->n ? yk__shards_add(s, me, batch, NULL, false, cursor) : YK_OK;
}

/* The request with the announced batch was sent, or is about to be. */
static void take(yk__thread *w)
{
    w->now = w->batch;
    w->announced = w->keys_found = false;
}

yk_status yk__shards_ask(yk_shards *s, yk__channel *c)
{
    const bool outstanding = yk__outstanding(c) > 0;
    yk_status st = !outstanding && yk__shards_added(c) > 0 ? yk__shards_pull(s, c) : YK_OK;
    return st || yk__outstanding(c) == 0 ? st : yk__shards_await(s, c);
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    yk_shards *s = yk__shards_of(store);
    yk__thread *w = &s->thread[me];
    const yk__channel *c = yk__channel_of(s, me);
    if (!w->taken || (s->plan->lockstep && !w->answered))
        take(w);
    w->taken = false;
    if (!w->answered) {
        yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_PARAMETERS);
        yk_status st = yk__shards_once(s, me, yk__shards_ask);
        if (st)
            return st;
    }
    w->answered = false;
    for (int g = 0; g < s->plan->ngroups; g++)
        view_out[g] = (yk_view){
            .w = c->current->value[g],
            .in_flight = s->plan->stale_rules && applied_on_arrival(s, g) ? (int)c->status.workers : 0};
    *batch_out = yk__channel_stopped(s, c) || !w->now.n ? (yk_batch){0}
                 : s->owners[0].n                       ? yk__shards_batch(c, me, 0)
                                                        : w->now;
    return YK_OK;
}

/* ---- push, clock ---- */

/* The number of floats of a group's gradient. */
static size_t floats_of(const yk_shards *s, const yk__channel *c, int group)
{
    const yk_group *g = &s->config.group[group];
    return g->keyed ? yk__keys_of(c) * g->width : (size_t)g->keys;
}

/* Adds a gradient of remapped keys. */
static void add_keyed(float *sum, uint32_t width, const yk_group_grad *g)
{
    if (!g->pairs)
        yk_grad_add(g, sum);
    for (size_t i = 0; g->pairs && i < g->pairs->n; i++)
        for (uint32_t j = 0; j < width; j++)
            sum[g->pairs->key[i] * width + j] += g->pairs->value[i * width + j];
}

/* The worker's gradient of the keyed groups, and memory for the sum over all threads. */
static yk_status sum_own(yk_shards *s, yk__channel *c, int me)
{
    yk__thread *w = &s->thread[me];
    const bool sums = yk__threads_of(c) > 1 && me == c->first;
    yk_status st = YK_OK;
    for (int k = 0; !st && k < s->plan->ngroups; k++) {
        const size_t n = floats_of(s, c, k);
        if (sums)
            st = yk__shards_reserve(&c->sum[k], &c->cap[k], n);
        if (st || !s->config.group[k].keyed || !w->grad.examples ||
            (st = yk__shards_reserve(&w->sum[k], &w->cap[k], n)))
            continue;
        memset(w->sum[k], 0, n * sizeof(float));
        add_keyed(w->sum[k], s->config.group[k].width, &w->grad.group[k]);
    }
    return st;
}

static const float *gradient_of(const yk_shards *s, int thread, int group)
{
    const yk__thread *w = &s->thread[thread];
    return s->config.group[group].keyed ? w->sum[group] : w->grad.group[group].dense;
}

/* Adds the gradients of all threads in their order: part `me` of them. */
static void sum_part(yk_shards *s, yk__channel *c, int me)
{
    for (int k = 0; k < s->plan->ngroups; k++) {
        size_t begin = 0, end = floats_of(s, c, k);
        yk_part_of_range(&begin, &end, 16, me, s->plan->workers_per_process);
        if (begin < end)
            memset(c->sum[k] + begin, 0, (end - begin) * sizeof(float));
        for (int i = 0; i < s->plan->workers_per_process; i++) {
            const float *g = gradient_of(s, i, k);
            for (size_t j = begin; s->thread[i].grad.examples && j < end; j++)
                c->sum[k][j] += g[j];
        }
    }
}

/* The totals of the threads, and their gradient. */
static void add_totals(const yk_shards *s, yk__channel *c)
{
    yk__up *sum = &c->totals;
    *sum = (yk__up){0};
    for (int i = c->first; i < c->end; i++) {
        const yk_grad *g = &s->thread[i].grad;
        c->share[i - c->first] = g->examples;
        sum->examples += g->examples;
        sum->extra_weight += g->extra_weight;
        sum->loss += g->loss;
        sum->steps += g->examples > 0;
    }
    if (s->plan->synchronous)
        sum->steps = sum->examples > 0;
    c->sends = sum->examples || s->plan->lockstep;
    for (int k = 0; sum->examples && k < s->plan->ngroups; k++)
        c->value[k] = yk__threads_of(c) > 1 ? c->sum[k] : gradient_of(s, c->first, k);
}

/* --clip-norm. Servers clip the sum of a round. */
static yk_status clip(yk_shards *s, yk__channel *c)
{
    const yk__up *sum = &c->totals;
    double squares = 0.0;
    for (int k = 0; sum->examples && k < s->plan->ngroups; k++)
        squares += applied_on_arrival(s, k) ? yk_squares(c->value[k], floats_of(s, c, k)) : 0.0;
    const float factor =
        yk_clip_factor(squares, (double)sum->examples + sum->extra_weight, s->plan->clip_norm);
    for (int k = 0; factor < 1.0f && k < s->plan->ngroups; k++) {
        float *own = (float *)c->value[k]; /* of this process, for this step */
        for (size_t i = 0; applied_on_arrival(s, k) && i < floats_of(s, c, k); i++)
            own[i] *= factor;
    }
    return YK_OK;
}

/* Sends the gradient of the channel, with the keys of the next batches. */
static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    yk_shards *s = yk__shards_of(store);
    yk__thread *w = &s->thread[me];
    yk__channel *c = yk__channel_of(s, me);
    w->grad = *g;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_SENDING);
    yk_status st = sum_own(s, c, me);
    if (!st && s->owners[0].n && !w->keys_found && !(st = barrier(s, me)))
        st = find_keys(s, me);
    if (st || (st = barrier(s, me)))
        return st;
    if (yk__threads_of(c) > 1)
        sum_part(s, c, me);
    if (me == c->first) {
        add_totals(s, c);
        c->asks = s->plan->lockstep || (c->sends && yk__shards_added(c) > 0);
        if (c->sends)
            st = yk__shards_begin_push(s, c);
    }
    if (st || (st = barrier(s, me)))
        return st;
    if ((w->taken = s->base.ahead && c->asks))
        take(w);
    if (s->plan->clip_norm > 0.0 && (st = yk__shards_once(s, me, clip)))
        return st;
    return c->sends ? yk__shards_push_part(s, c, me - c->first, yk__threads_of(c)) : YK_OK;
}

/* Waits before it asks for examples again, because other workers may still return some. The pause is short at first, then a fifth of
 * the wait so far. The whole wait has no limit: a stream may last for hours. But each request has a deadline (yk__shards_wait()), and
 * server 0 declares workers lost. */
static void pause_before_retry(yk__channel *c)
{
    static const double shortest = 2e-4, longest = 0.02; /* seconds */
    const double pause = fmin(fmax(0.2 * c->idle_seconds, shortest), longest);
    yk_sleep(pause);
    c->idle_seconds += pause;
}

yk_status yk__shards_end_step(yk_shards *s, yk__channel *c)
{
    const uint64_t before = c->status.steps;
    const bool rounds = s->plan->lockstep,
               leaves = s->config.leave && *s->config.leave; /* the job that it joined */
    yk_step_result *out = &c->result;
    *out = (yk_step_result){.examples = c->totals.examples, .steps = c->totals.steps};
    if (rounds) {
        const yk_status st = yk__shards_await(s, c);
        if (st)
            return st;
        *out = (yk_step_result){.examples = c->status.examples, .steps = c->status.steps - before};
    }
    /* it has announced batches: it got examples since this step began */
    const bool stop = c->status.flags & YK__STOP, has = yk__shards_added(c) > 0 || yk__outstanding(c) > 0;
    bool later = false;
    for (int i = c->first; !out->examples && i < c->end; i++) /* a lease may be on its way */
        later |=
            !leaves && (atomic_load(&s->thread[i].pending) || s->thread[i].lease.flags & YK__RETRY_LATER);
    if (!out->examples && !rounds)
        *out = (yk_step_result){.pending = has || later, .over = !has && !later};
    if (!out->pending || has)
        c->idle_seconds = 0.0;
    else if (!stop)
        pause_before_retry(c);
    out->action = stop ? YK_ACTION_STOP : YK_ACTION_CONTINUE;
    out->over |= stop || leaves;
    out->pending &= !out->over;
    for (int i = c->first; i < c->end; i++)
        s->thread[i].idle = out->pending && !has; /* servers do not wait for an idle thread */
    return YK_OK;
}

static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk_shards *s = yk__shards_of(store);
    yk__thread *w = &s->thread[me];
    yk__channel *c = yk__channel_of(s, me);
    (void)action; /* the chief decides */
    yk_status st = s->base.ahead && !w->keys_found ? find_keys(s, me) : YK_OK;
    if (s->plan->lockstep)
        yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_PARAMETERS);
    if (!st && me == c->first) {
        st = yk__shards_end_step(s, c);
        c->complete = s->base.ahead && !s->plan->lockstep && yk__shards_added(c) > 0;
    }
    if (!st)
        st = barrier(s, me);
    *out = c->result;
    out->own = w->grad.examples;
    if (!s->plan->synchronous)
        out->steps = out->own > 0;
    w->answered = s->plan->lockstep && out->examples > 0; /* otherwise it was the end of an epoch */
    if ((out->pending || out->examples == 0) && !w->batch.n && !c->complete) /* ask the feed again */
        w->announced = w->keys_found = false;
    return st;
}

/* ---- gradients and copies ---- */

static yk_status finish(yk_store *store, int me)
{
    return yk__shards_once(yk__shards_of(store), me, yk__shards_leave);
}

static uint64_t steps_so_far(const yk_store *store, int me)
{
    const yk__channel *c = yk__channel_of((const yk_shards *)(const void *)store, me);
    return c->local ? yk_local_steps(c->local) : c->status.steps;
}

static yk_status ready(yk_store *store, int me, float *dense, size_t begin, size_t end)
{
    (void)me, (void)dense, (void)begin, (void)end;
    return yk__shards_progress(yk__shards_of(store));
}

#define SHARED .finish = finish, .steps = steps_so_far, .ready = ready
static const yk_store_ops gradient_ops = {.wants = wants,
                                          .announce = announce,
                                          .pull = pull,
                                          .push = push,
                                          .clock = clock_step,
                                          SHARED},
                          copy_ops = {.wants = yk__copies_wants,
                                      .announce = yk__copies_announce,
                                      .pull = yk__copies_pull,
                                      .push = yk__copies_push,
                                      .clock = yk__copies_clock,
                                      SHARED};

yk_status yk_shards_store(yk_shards *s, const yk_local_config *whole, yk_chunks *chunks, uint64_t first_step,
                          yk_store **out)
{
    s->whole = *whole;
    s->chunks = chunks;
    s->base.ops = s->copy_steps ? &copy_ops : &gradient_ops;
    s->base.ahead = s->owners[0].n && !s->copy_steps;
    for (int i = 0; i < s->plan->channels; i++)
        s->channel[i].status.steps = first_step;
    *out = &s->base;
    return s->copy_steps ? yk__copies_create(s) : YK_OK;
}
