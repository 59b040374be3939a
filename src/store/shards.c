#include "store/shards_internal.h"

#include <stdlib.h>
#include <string.h>

/* The number of threads of a channel. */
static int threads_of(const yk__channel *c)
{
    return c->end - c->first;
}

static yk_status barrier(yk__shards *s, int me)
{
    return threads_of(s->channel) > 1 ? yk_team_barrier(s->config.team, me) : YK_OK;
}

yk_status yk__shards_once(yk__shards *s, int me, yk_status (*what)(yk__shards *s, yk__channel *c))
{
    yk__channel *c = yk__channel_of(s, me);
    yk_status st = barrier(s, me);
    if (!st && me == c->first)
        st = what(s, c);
    return st ? st : barrier(s, me);
}

/* Finds the keys of the announced batches; all threads of the channel together. */
static yk_status find_keys(yk__shards *s, int me)
{
    const yk__channel *c = yk__channel_of(s, me);
    yk_status st = YK_OK;
    for (int stage = 0; !st && stage < YK_REMOTE_STAGES; stage++)
        if (!(st = stage ? barrier(s, me) : YK_OK))
            st = yk_remote_find_keys(s->config.remote, c->first, stage, me - c->first, threads_of(c));
    s->worker[me].found = true;
    return st;
}

/* ---- announce, pull ---- */

static size_t wants(const yk_store *store, int me)
{
    return !((const yk__shards *)(const void *)store)->worker[me].announced;
}

/* The request is sent with the next gradient, or by the next pull. */
static yk_status announce(yk_store *store, int me, const yk_batch *batch,
                          const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__shards *s = yk__shards_of(store);
    yk__shards_worker *w = &s->worker[me];
    w->announced = true;
    w->batch = *batch;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY); /* not waiting for input */
    return batch->n
               ? yk_remote_add(s->config.remote, yk__channel_of(s, me)->first, me, batch, NULL, false, cursor)
               : YK_OK;
}

/* The request with the announced batch was sent, or is about to be. */
static void take(yk__shards_worker *w)
{
    w->now = w->batch;
    w->announced = w->found = false;
}

yk_status yk__shards_await(yk__shards *s, yk__channel *c)
{
    yk_remote *r = s->config.remote;
    yk_status st = YK_OK;
    if (yk_remote_outstanding(r, c->first) == 0 && yk_remote_added(r, c->first) > 0)
        st = yk_remote_pull(r, c->first);
    return st || yk_remote_outstanding(r, c->first) == 0 ? st : yk_remote_await(r, c->first, &c->answer);
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    yk__shards *s = yk__shards_of(store);
    yk__shards_worker *w = &s->worker[me];
    const yk__channel *c = yk__channel_of(s, me);
    if (!w->taken || (s->rounds && !w->answered))
        take(w);
    w->taken = false;
    if (!w->answered) {
        yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_PARAMETERS);
        yk_status st = yk__shards_once(s, me, yk__shards_await);
        if (st)
            return st;
    }
    w->answered = false;
    for (int g = 0; g < s->config.whole.ngroups; g++)
        view_out[g] = (yk_view){.w = c->answer.value[g],
                                .in_flight = s->config.stale[g] ? c->answer.status.workers : 0};
    *batch_out = yk__channel_stopped(s, c) || !w->now.n ? (yk_batch){0}
                 : s->keyed                             ? yk_remote_batch(&c->answer, me - c->first, 0)
                                                        : w->now;
    return YK_OK;
}

/* ---- push, clock ---- */

static yk_status reserve(float **sum, size_t *cap, size_t floats)
{
    if (floats <= *cap)
        return YK_OK;
    yk_free(*sum);
    *cap = floats + floats / 2;
    *sum = yk_alloc(*cap, sizeof **sum, "a gradient");
    return *sum ? YK_OK : YK_ESYSTEM;
}

static const yk_group *group_of(const yk__shards *s, int group)
{
    return &s->config.whole.group[group].shape;
}

/* The number of floats of a group's gradient. */
static size_t floats_of(const yk__shards *s, const yk__channel *c, int group)
{
    const yk_group *g = group_of(s, group);
    return g->keyed ? c->answer.keys * g->width : (size_t)g->keys;
}

/* Adds a gradient of remapped keys. */
static void add_keyed(const yk__shards *s, float *sum, uint32_t width, const yk_group_grad *g)
{
    if (!g->pairs) {
        s->kern->add_rows(&(yk_view){.w = sum}, &g->rows, g->err);
        for (size_t i = 0; g->bias && i < g->rows.n; i++)
            sum[g->bias_key] += g->err[i];
        return;
    }
    for (size_t i = 0; i < g->pairs->n; i++)
        for (uint32_t j = 0; j < width; j++)
            sum[g->pairs->key[i] * width + j] += g->pairs->value[i * width + j];
}

/* The worker's gradient of the keyed groups, and memory for the sum over all threads. */
static yk_status sum_own(yk__shards *s, yk__channel *c, int me)
{
    yk__shards_worker *w = &s->worker[me];
    const bool sums = threads_of(c) > 1 && me == c->first;
    yk_status st = YK_OK;
    for (int k = 0; !st && k < s->config.whole.ngroups; k++) {
        const size_t n = floats_of(s, c, k);
        if (sums)
            st = reserve(&c->sum[k], &c->cap[k], n + 16);
        if (st || !group_of(s, k)->keyed || !w->grad.examples ||
            (st = reserve(&w->sum[k], &w->cap[k], n + 16)))
            continue;
        memset(w->sum[k], 0, n * sizeof(float));
        add_keyed(s, w->sum[k], group_of(s, k)->width, &w->grad.group[k]);
    }
    return st;
}

static const float *gradient_of(const yk__shards *s, int thread, int group)
{
    const yk__shards_worker *w = &s->worker[thread];
    return group_of(s, group)->keyed ? w->sum[group] : w->grad.group[group].dense;
}

/* Adds the gradients of all threads in their order: part `me` of them. */
static void sum_part(yk__shards *s, yk__channel *c, int me)
{
    for (int k = 0; k < s->config.whole.ngroups; k++) {
        size_t begin = 0, end = floats_of(s, c, k);
        yk_part_of_range(&begin, &end, 16, me, s->config.workers);
        if (begin < end)
            memset(c->sum[k] + begin, 0, (end - begin) * sizeof(float));
        for (int i = 0; i < s->config.workers; i++) {
            const float *g = gradient_of(s, i, k);
            for (size_t j = begin; s->worker[i].grad.examples && j < end; j++)
                c->sum[k][j] += g[j];
        }
    }
}

/* The totals of the threads, and their gradient. */
static void add_totals(const yk__shards *s, yk__channel *c)
{
    yk_remote_pushed *p = &c->pushed;
    *p = (yk_remote_pushed){
        .round = c->answer.status.round, .reductions = c->answer.status.reductions, .share = c->share};
    for (int i = c->first; i < c->end; i++) {
        const yk_grad *g = &s->worker[i].grad;
        c->share[i - c->first] = g->examples;
        p->examples += g->examples;
        p->extra_weight += g->extra_weight;
        p->loss += g->loss;
        p->steps += g->examples > 0;
    }
    if (s->config.one_step)
        p->steps = p->examples > 0;
    c->sends = p->examples || s->rounds;
    for (int k = 0; p->examples && k < s->config.whole.ngroups; k++)
        p->value[k] = threads_of(c) > 1 ? c->sum[k] : gradient_of(s, c->first, k);
}

/* --clip-norm: the groups whose gradients are applied on arrival. Servers clip the sum of a round. */
static yk_status clip(yk__shards *s, yk__channel *c)
{
    yk_remote_pushed *p = &c->pushed;
    double squares = 0.0;
    for (int k = 0; p->examples && k < s->config.whole.ngroups; k++)
        squares += s->config.clips[k] ? yk_squares(p->value[k], floats_of(s, c, k)) : 0.0;
    const float factor = yk_clip_factor(squares, (double)p->examples + p->extra_weight, s->config.clip_norm);
    for (int k = 0; factor < 1.0f && k < s->config.whole.ngroups; k++) {
        float *own = (float *)p->value[k]; /* of this process, for this step */
        for (size_t i = 0; s->config.clips[k] && i < floats_of(s, c, k); i++)
            own[i] *= factor;
    }
    return YK_OK;
}

/* Sends the gradient of the channel, with the keys of the next batches. */
static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    yk__shards *s = yk__shards_of(store);
    yk__shards_worker *w = &s->worker[me];
    yk__channel *c = yk__channel_of(s, me);
    w->grad = *g;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_SENDING);
    yk_status st = sum_own(s, c, me);
    if (!st && s->keyed && !w->found && !(st = barrier(s, me)))
        st = find_keys(s, me);
    if (st || (st = barrier(s, me)))
        return st;
    if (threads_of(c) > 1)
        sum_part(s, c, me);
    if (me == c->first) {
        add_totals(s, c);
        c->asks = s->rounds || (c->sends && yk_remote_added(s->config.remote, c->first) > 0);
        if (c->sends)
            st = yk_remote_begin_push(s->config.remote, c->first);
    }
    if (st || (st = barrier(s, me)))
        return st;
    if ((w->taken = s->base.ahead && c->asks))
        take(w);
    if (s->config.clip_norm > 0.0 && (st = yk__shards_once(s, me, clip)))
        return st;
    return c->sends
               ? yk_remote_push_part(s->config.remote, c->first, &c->pushed, me - c->first, threads_of(c))
               : YK_OK;
}

yk_status yk__shards_end_step(yk__shards *s, yk__channel *c)
{
    const yk_remote_pushed *p = &c->pushed;
    const uint64_t before = c->answer.status.steps;
    yk_step_result *out = &c->result;
    yk_status st = YK_OK;
    *out = (yk_step_result){.examples = p->examples, .loss = p->loss, .steps = p->steps};
    if (s->rounds) {
        st = yk_remote_await(s->config.remote, c->first, &c->answer);
        out->examples = c->answer.status.examples;
        out->loss = c->answer.status.loss;
        out->steps = c->answer.status.steps - before;
    }
    yk_remote_end_step(s->config.remote, c->first, c->end, c->answer.status.stop, out);
    return st;
}

static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk__shards *s = yk__shards_of(store);
    yk__shards_worker *w = &s->worker[me];
    yk__channel *c = yk__channel_of(s, me);
    (void)action; /* the chief decides */
    yk_status st = s->base.ahead && !w->found ? find_keys(s, me) : YK_OK;
    if (s->rounds)
        yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_PARAMETERS);
    if (!st && me == c->first) {
        st = yk__shards_end_step(s, c);
        c->complete = s->base.ahead && !s->rounds && yk_remote_added(s->config.remote, c->first) > 0;
    }
    if (!st)
        st = barrier(s, me);
    *out = c->result;
    out->own = w->grad.examples;
    if (!s->config.one_step)
        out->steps = out->own > 0;
    w->answered = s->rounds && out->examples > 0; /* otherwise it was the end of an epoch */
    if ((out->pending || out->examples == 0) && !w->batch.n && !c->complete) /* ask the feed again */
        w->announced = w->found = false;
    return st;
}

/* ---- gradients and copies ---- */

static yk_status leave(yk__shards *s, yk__channel *c)
{
    return yk_remote_leave(s->config.remote, c->first);
}

static yk_status finish(yk_store *store, int me)
{
    return yk__shards_once(yk__shards_of(store), me, leave);
}

static uint64_t steps_so_far(const yk_store *store, int me)
{
    const yk__channel *c = yk__channel_of((const yk__shards *)(const void *)store, me);
    return c->local ? yk_local_steps(c->local) : c->answer.status.steps;
}

static yk_status ready(yk_store *store, int me, float *dense, size_t begin, size_t end)
{
    (void)me, (void)dense, (void)begin, (void)end;
    return yk_remote_progress(yk__shards_of(store)->config.remote);
}

static void free_all(yk_store *store)
{
    yk__shards *s = yk__shards_of(store);
    for (int i = 0; s->channel && i < s->nchannels; i++) {
        yk__channel *c = &s->channel[i];
        for (int g = 0; g < YK_MAX_GROUPS; g++)
            yk_free(c->sum[g]);
        yk_local_free(c->local);
        yk_merger_fini(&c->scratch);
        yk_free(c->share);
    }
    for (int i = 0; s->worker && i < s->config.workers; i++) {
        for (int g = 0; g < YK_MAX_GROUPS; g++)
            yk_free(s->worker[i].sum[g]);
        free(s->worker[i].held_pick);
    }
    yk_free(s->channel);
    yk_free(s->worker);
    yk_free(s);
}

#define SHARED .finish = finish, .steps = steps_so_far, .ready = ready, .free = free_all
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

yk_status yk_shards_create(const yk_shards_config *config, yk_store **out)
{
    yk__shards *s = yk_alloc(1, sizeof *s, "the store");
    if (!s)
        return YK_ESYSTEM;
    s->base.ops = config->steps ? &copy_ops : &gradient_ops;
    s->config = *config;
    s->kern = yk_linear();
    s->nchannels = config->sums_workers ? 1 : config->workers;
    for (int g = 0; g < config->whole.ngroups; g++)
        s->keyed |= config->whole.group[g].shape.keyed;
    s->rounds = yk_remote_rounds(config->remote);
    s->base.ahead = s->keyed && !config->steps;
    s->worker = yk_alloc((size_t)config->workers, sizeof *s->worker, "the workers");
    s->channel = yk_alloc((size_t)s->nchannels, sizeof *s->channel, "the workers");
    yk_status st = s->worker && s->channel ? YK_OK : YK_ESYSTEM;
    for (int i = 0; !st && i < s->nchannels; i++) {
        yk__channel *c = &s->channel[i];
        c->first = i;
        c->end = config->sums_workers ? config->workers : i + 1;
        c->answer.status.steps = config->first_step;
        c->share = yk_alloc((size_t)config->workers, sizeof *c->share, "the workers");
        st = c->share ? YK_OK : YK_ESYSTEM;
    }
    if (!st && config->steps)
        st = yk__copies_create(s);
    if (st)
        free_all(&s->base);
    else
        *out = &s->base;
    return st;
}
