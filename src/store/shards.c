#include "store/shards.h"

#include "base/mem.h"
#include "kern/linear.h"
#include <stdlib.h>
#include <string.h>

/* The gradient of a channel, and the answer that it was computed with. */
typedef struct {
    yk_remote_answer answer;
    float *sum[YK_MAX_GROUPS]; /* of several threads: [keys][width], or dense: [floats] */
    size_t cap[YK_MAX_GROUPS];
    uint64_t *share; /* [threads] examples */
    yk_remote_pushed pushed;
    yk_step_result result; /* joint: for all threads */
} channel;

typedef struct {
    /* Batches as they were announced: in the request that is not sent yet, in the last one that was sent. Empty: there are no
     * more, or none for now. */
    _Alignas(YK_ALIGN) yk_batch next;
    yk_batch now;
    bool announced; /* `next` is set */
    bool found;     /* the keys of `next` are found */
    bool answered;  /* clock() has waited for the answer of the next pull */
    yk_grad grad;
    float *sum[YK_MAX_GROUPS]; /* keyed groups: the gradient, [keys][width] */
    size_t cap[YK_MAX_GROUPS];
} worker;

typedef struct {
    yk_store base;
    yk_shards_config config;
    const yk_linear_ops *kern;
    bool keyed;
    channel *channel; /* [1] if joint, else [workers] */
    worker *worker;   /* [workers] */
} shards;

static shards *of(yk_store *s)
{
    return (shards *)(void *)s;
}

static int channel_of(const shards *s, int me)
{
    return s->config.joint ? 0 : me;
}

/* The number of threads of a channel. */
static int threads_of(const shards *s)
{
    return s->config.joint ? s->config.workers : 1;
}

static yk_status barrier(shards *s, int me)
{
    return threads_of(s) > 1 ? yk_team_barrier(s->config.team, me) : YK_OK;
}

/* Finds the keys of the announced batches; all threads of the channel together. */
static yk_status find_keys(shards *s, int me)
{
    const int number = channel_of(s, me);
    yk_status st = YK_OK;
    for (int stage = 0; !st && stage < YK_REMOTE_STAGES; stage++)
        if (!(st = stage ? barrier(s, me) : YK_OK))
            st = yk_remote_find_keys(s->config.remote, number, stage, me - number, threads_of(s));
    s->worker[me].found = true;
    return st;
}

/* ---- announce, pull ---- */

static size_t wants(const yk_store *store, int me)
{
    return !((const shards *)(const void *)store)->worker[me].announced;
}

/* The request is sent with the next gradient, or by the next pull. */
static yk_status announce(yk_store *store, int me, const yk_batch *batch,
                          const uint64_t cursor[YK_CURSOR_SIZE])
{
    shards *s = of(store);
    worker *w = &s->worker[me];
    w->announced = true;
    w->next = *batch;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY); /* not waiting for input */
    return batch->n ? yk_remote_add(s->config.remote, channel_of(s, me), me, batch, NULL, false, cursor)
                    : YK_OK;
}

/* The request with the announced batch was sent, or is about to be. */
static void take(worker *w)
{
    w->now = w->next;
    w->announced = w->found = false;
}

/* Awaits the answer for the next batch, if any thread has one. */
static yk_status await(shards *s, int number)
{
    yk_remote *r = s->config.remote;
    yk_status st = YK_OK;
    if (yk_remote_outstanding(r, number) == 0 && yk_remote_added(r, number) > 0)
        st = yk_remote_pull(r, number);
    return st || yk_remote_outstanding(r, number) == 0
               ? st
               : yk_remote_await(r, number, &s->channel[number].answer);
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    shards *s = of(store);
    worker *w = &s->worker[me];
    const int number = channel_of(s, me);
    const yk_remote_answer *answer = &s->channel[number].answer;
    if (!w->answered || !s->base.ahead)
        take(w);
    if (!w->answered) {
        yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_PARAMETERS);
        yk_status st = barrier(s, me);
        if (!st && (me == 0 || !s->config.joint))
            st = await(s, number);
        if (st || (st = barrier(s, me)))
            return st;
    }
    w->answered = false;
    for (int g = 0; g < s->config.ngroups; g++)
        view_out[g] = (yk_view){.w = answer->value[g]};
    const bool stop = answer->status.stop && !s->config.lockstep; /* in lockstep, clock() reports it */
    *batch_out = stop || !w->now.n ? (yk_batch){0}
                 : s->keyed        ? yk_remote_batch(answer, me - number, 0)
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

/* The number of floats of a group's gradient. */
static size_t floats_of(const shards *s, const channel *l, int group)
{
    const yk_group *g = &s->config.group[group];
    return g->keyed ? l->answer.keys * g->width : (size_t)g->keys;
}

/* Adds a gradient of remapped keys. */
static void add_keyed(const shards *s, float *sum, uint32_t width, const yk_group_grad *g)
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
static yk_status sum_own(shards *s, channel *l, int me)
{
    worker *w = &s->worker[me];
    const bool sums = threads_of(s) > 1 && me == 0;
    yk_status st = YK_OK;
    for (int k = 0; !st && k < s->config.ngroups; k++) {
        const yk_group *group = &s->config.group[k];
        const size_t n = floats_of(s, l, k);
        if (sums)
            st = reserve(&l->sum[k], &l->cap[k], n + 16);
        if (st || !group->keyed || !w->grad.examples || (st = reserve(&w->sum[k], &w->cap[k], n + 16)))
            continue;
        memset(w->sum[k], 0, n * sizeof(float));
        add_keyed(s, w->sum[k], group->width, &w->grad.group[k]);
    }
    return st;
}

static const float *gradient_of(const shards *s, int thread, int group)
{
    const worker *w = &s->worker[thread];
    return s->config.group[group].keyed ? w->sum[group] : w->grad.group[group].dense;
}

/* Adds the gradients of all threads in their order: part `me` of them. */
static void sum_part(shards *s, channel *l, int me)
{
    for (int k = 0; k < s->config.ngroups; k++) {
        size_t begin = 0, end = floats_of(s, l, k);
        yk_part_of_range(&begin, &end, 16, me, s->config.workers);
        if (begin < end)
            memset(l->sum[k] + begin, 0, (end - begin) * sizeof(float));
        for (int i = 0; i < s->config.workers; i++) {
            const float *g = gradient_of(s, i, k);
            for (size_t j = begin; s->worker[i].grad.examples && j < end; j++)
                l->sum[k][j] += g[j];
        }
    }
}

/* The totals of threads first .. end - 1, and their gradient. */
static yk_remote_pushed totals(const shards *s, channel *l, int first, int end)
{
    yk_remote_pushed p = {.round = l->answer.status.round, .share = l->share};
    for (int i = first; i < end; i++) {
        const yk_grad *g = &s->worker[i].grad;
        l->share[i - first] = g->examples;
        p.examples += g->examples;
        p.loss += g->loss;
        p.steps += g->examples > 0;
    }
    if (s->config.synchronous)
        p.steps = p.examples > 0;
    for (int k = 0; p.examples && k < s->config.ngroups; k++)
        p.value[k] = end - first > 1 ? l->sum[k] : gradient_of(s, first, k);
    return p;
}

/* Sends the gradient of the channel, with the keys of the next batches. */
static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    shards *s = of(store);
    worker *w = &s->worker[me];
    const int number = channel_of(s, me), threads = threads_of(s);
    channel *l = &s->channel[number];
    w->grad = *g;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_SENDING);
    yk_status st = sum_own(s, l, me);
    if (!st && s->keyed && !w->found && !(st = barrier(s, me)))
        st = find_keys(s, me);
    if (s->base.ahead)
        take(w);
    if (st || (st = barrier(s, me)))
        return st;
    if (threads > 1)
        sum_part(s, l, me);
    if (me == number) {
        l->pushed = totals(s, l, number, number + threads);
        if (l->pushed.examples || s->config.lockstep)
            st = yk_remote_begin_push(s->config.remote, number);
    }
    if (st || (st = barrier(s, me)))
        return st;
    return l->pushed.examples || s->config.lockstep
               ? yk_remote_push_part(s->config.remote, number, &l->pushed, me - number, threads)
               : YK_OK;
}

/* Ends the step of a channel; called by its first thread. */
static yk_status clock_channel(shards *s, int number, yk_step_result *out)
{
    channel *l = &s->channel[number];
    const yk_remote_pushed *p = &l->pushed;
    const int end = number + threads_of(s);
    yk_status st = YK_OK;
    *out = (yk_step_result){.examples = p->examples, .loss = p->loss, .steps = p->steps};
    if (s->config.lockstep) {
        st = yk_remote_await(s->config.remote, number, &l->answer);
        out->examples = l->answer.status.examples;
        out->loss = l->answer.status.loss;
        out->steps = out->examples > 0;
    } else if (!p->examples) {
        yk_remote_out_of_examples(s->config.remote, number, end, out);
    }
    yk_remote_end_step(s->config.remote, number, end, l->answer.status.stop, out);
    return st;
}

static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    shards *s = of(store);
    worker *w = &s->worker[me];
    const int number = channel_of(s, me);
    (void)action; /* the chief decides */
    yk_status st = s->base.ahead ? find_keys(s, me) : YK_OK;
    if (s->config.lockstep)
        yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_PARAMETERS);
    if (!st && me == number)
        st = clock_channel(s, number, &s->channel[number].result);
    if (!st)
        st = barrier(s, me);
    *out = s->channel[number].result;
    out->own = w->grad.examples;
    if (!s->config.synchronous)
        out->steps = out->own > 0;
    w->answered = s->config.lockstep && out->examples > 0;  /* otherwise it was the end of an epoch */
    if ((out->pending || out->examples == 0) && !w->next.n) /* ask the feed again */
        w->announced = w->found = false;
    return st;
}

static yk_status finish(yk_store *store, int me)
{
    shards *s = of(store);
    yk_status st = barrier(s, me);
    return st || (s->config.joint && me) ? st : yk_remote_leave(s->config.remote, me);
}

static uint64_t steps_so_far(const yk_store *store, int me)
{
    const shards *s = (const shards *)(const void *)store;
    return s->channel[channel_of(s, me)].answer.status.steps;
}

static yk_status ready(yk_store *store, int me, float *dense, size_t begin, size_t end)
{
    (void)me, (void)dense, (void)begin, (void)end;
    return yk_remote_progress(of(store)->config.remote);
}

static void free_all(yk_store *store)
{
    shards *s = of(store);
    for (int i = 0; s->channel && i < (s->config.joint ? 1 : s->config.workers); i++) {
        for (int g = 0; g < YK_MAX_GROUPS; g++)
            yk_free(s->channel[i].sum[g]);
        yk_free(s->channel[i].share);
    }
    for (int i = 0; s->worker && i < s->config.workers; i++)
        for (int g = 0; g < YK_MAX_GROUPS; g++)
            yk_free(s->worker[i].sum[g]);
    yk_free(s->channel);
    yk_free(s->worker);
    yk_free(s);
}

static const yk_store_ops shards_ops = {.wants = wants,
                                        .announce = announce,
                                        .pull = pull,
                                        .push = push,
                                        .clock = clock_step,
                                        .finish = finish,
                                        .steps = steps_so_far,
                                        .ready = ready,
                                        .free = free_all};

yk_status yk_shards_create(const yk_shards_config *config, yk_store **out)
{
    shards *s = yk_alloc(1, sizeof *s, "the store");
    const size_t channels = config->joint ? 1 : (size_t)config->workers;
    if (!s)
        return YK_ESYSTEM;
    s->base.ops = &shards_ops;
    s->config = *config;
    s->kern = yk_linear();
    for (int g = 0; g < config->ngroups; g++)
        s->keyed |= config->group[g].keyed;
    s->base.ahead = s->keyed && config->lockstep;
    s->worker = yk_alloc((size_t)config->workers, sizeof *s->worker, "the workers");
    s->channel = yk_alloc(channels, sizeof *s->channel, "the workers");
    bool ok = s->worker && s->channel;
    for (size_t i = 0; ok && i < channels; i++)
        ok = (s->channel[i].share = yk_alloc((size_t)config->workers, sizeof(uint64_t), "the workers")) !=
             NULL;
    if (!ok) {
        free_all(&s->base);
        return YK_ESYSTEM;
    }
    *out = &s->base;
    return YK_OK;
}
