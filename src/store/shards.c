#include "store/shards.h"

#include "base/mem.h"
#include "kern/linear.h"
#include <stdlib.h>
#include <string.h>

/* The gradient of a channel, and the answer that it was computed with. */
typedef struct {
    yk_remote_answer answer;
    bool answered;             /* `answer` is for the next pull: clock() has waited for it */
    float *sum[YK_MAX_GROUPS]; /* keyed: [keys][width]; dense, of several threads: [floats] */
    size_t cap[YK_MAX_GROUPS];
    uint64_t *share;       /* [threads] examples */
    yk_step_result result; /* joint: for all threads */
} channel;

typedef struct {
    _Alignas(YK_ALIGN) yk_batch batch; /* as it was announced; empty: there are no more, or none for now */
    size_t index;                      /* of the announced batch in its answer */
    bool announced;
    yk_grad grad;
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

static yk_status barrier(shards *s, int me)
{
    return s->config.joint && s->config.workers > 1 ? yk_team_barrier(s->config.team, me) : YK_OK;
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
    w->batch = *batch;
    return batch->n
               ? yk_remote_add(s->config.remote, channel_of(s, me), me, batch, NULL, false, cursor, &w->index)
               : YK_OK;
}

/* Awaits the answer for the next batch, if any thread has one. */
static yk_status await(shards *s, int channel_number)
{
    channel *l = &s->channel[channel_number];
    yk_remote *r = s->config.remote;
    yk_status st = YK_OK;
    const bool pulls =
        yk_remote_outstanding(r, channel_number) == 0 && yk_remote_added(r, channel_number) > 0;
    const bool answered = l->answered;
    l->answered = false;
    if (answered && !pulls) /* otherwise the last answer was the end of an epoch */
        return YK_OK;
    if (pulls)
        st = yk_remote_pull(r, channel_number);
    return st || yk_remote_outstanding(r, channel_number) == 0
               ? st
               : yk_remote_await(r, channel_number, &l->answer);
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    shards *s = of(store);
    worker *w = &s->worker[me];
    channel *l = &s->channel[channel_of(s, me)];
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_PARAMETERS);
    yk_status st = barrier(s, me);
    if (!st && (me == 0 || !s->config.joint))
        st = await(s, channel_of(s, me));
    if (st || (st = barrier(s, me)))
        return st;
    for (int g = 0; g < s->config.ngroups; g++)
        view_out[g] = (yk_view){.w = l->answer.value[g]};
    const bool stop = l->answer.status.stop && !s->config.lockstep; /* in lockstep, clock() reports it */
    *batch_out = stop || !w->batch.n ? (yk_batch){0}
                 : s->keyed          ? yk_remote_batch(&l->answer, w->index)
                                     : w->batch;
    w->announced = false;
    return YK_OK;
}

/* ---- push, clock ---- */

static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    of(store)->worker[me].grad = *g;
    return YK_OK;
}

static yk_status reserve(channel *l, int group, size_t floats)
{
    if (floats <= l->cap[group])
        return YK_OK;
    yk_free(l->sum[group]);
    l->cap[group] = floats + floats / 2;
    l->sum[group] = yk_alloc(l->cap[group], sizeof(float), "a gradient");
    return l->sum[group] ? YK_OK : YK_ESYSTEM;
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

/* Sums the gradients of threads first .. end - 1. */
static yk_status sum_threads(shards *s, channel *l, int first, int end, yk_remote_pushed *out)
{
    *out = (yk_remote_pushed){.round = l->answer.status.round, .share = l->share};
    for (int i = first; i < end; i++) {
        const yk_grad *g = &s->worker[i].grad;
        l->share[i - first] = g->examples;
        out->examples += g->examples;
        out->loss += g->loss;
        out->steps += g->examples > 0;
    }
    if (s->config.synchronous)
        out->steps = out->examples > 0;
    for (int k = 0; out->examples && k < s->config.ngroups; k++) {
        const yk_group *group = &s->config.group[k];
        const size_t n = group->keyed ? l->answer.keys * group->width : (size_t)group->keys;
        if (!group->keyed && end - first == 1) {
            out->value[k] = s->worker[first].grad.group[k].dense;
            continue;
        }
        yk_status st = reserve(l, k, n + 16);
        if (st)
            return st;
        memset(l->sum[k], 0, n * sizeof(float));
        out->value[k] = l->sum[k];
        for (int i = first; i < end; i++) {
            const yk_group_grad *g = &s->worker[i].grad.group[k];
            if (!s->worker[i].grad.examples)
                continue;
            if (group->keyed)
                add_keyed(s, l->sum[k], group->width, g);
            for (size_t j = 0; !group->keyed && j < n; j++)
                l->sum[k][j] += g->dense[j];
        }
    }
    return YK_OK;
}

/* Pushes the gradient of a channel; called by one of its threads. */
static yk_status clock_channel(shards *s, int number, int first, int end, yk_step_result *out)
{
    channel *l = &s->channel[number];
    yk_remote_pushed p;
    yk_phase_to(yk_phases_of(s->config.phases, first), YK_PHASE_SENDING);
    yk_status st = sum_threads(s, l, first, end, &p);
    if (st)
        return st;
    *out = (yk_step_result){.examples = p.examples, .loss = p.loss, .steps = p.steps};
    if (!p.examples && !s->config.lockstep) {
        yk_remote_out_of_examples(s->config.remote, first, end, out);
    } else if (!(st = yk_remote_push(s->config.remote, number, &p)) && s->config.lockstep) {
        yk_phase_to(yk_phases_of(s->config.phases, first), YK_PHASE_PARAMETERS);
        st = yk_remote_await(s->config.remote, number, &l->answer);
        l->answered = true;
        out->examples = l->answer.status.examples;
        out->loss = l->answer.status.loss;
        out->steps = out->examples > 0;
    }
    yk_remote_end_step(s->config.remote, first, end, l->answer.status.stop, out);
    return st;
}

static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    shards *s = of(store);
    worker *w = &s->worker[me];
    const int workers = s->config.workers;
    yk_status st = barrier(s, me);
    (void)action; /* the chief decides */
    if (!st && !s->config.joint)
        st = clock_channel(s, me, me, me + 1, out);
    else if (!st && me == 0)
        st = clock_channel(s, 0, 0, workers, &s->channel[0].result);
    if (!st)
        st = barrier(s, me);
    if (s->config.joint)
        *out = s->channel[0].result;
    out->own = w->grad.examples;
    if (!s->config.synchronous)
        out->steps = out->own > 0;
    if ((out->pending || out->examples == 0) && !w->batch.n) /* ask the feed again */
        w->announced = false;
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
