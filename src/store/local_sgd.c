#include "store/local_sgd_internal.h"

#include <string.h>

static yk__sgd *sgd_of(yk_store *s)
{
    return (yk__sgd *)(void *)s;
}

static yk_status barrier(yk__sgd *s, int me)
{
    return s->config.workers > 1 ? yk_team_barrier(s->config.team, me) : YK_OK;
}

/* Runs `what` in the first thread, while the others wait. */
static yk_status once(yk__sgd *s, int me, yk_status (*what)(yk__sgd *s))
{
    yk_status st = barrier(s, me);
    if (!st && me == 0)
        st = what(s);
    return st ? st : barrier(s, me);
}

static size_t wants(const yk_store *store, int me)
{
    const yk__sgd *s = (const yk__sgd *)(const void *)store;
    return s->ops->wants ? s->ops->wants(s, me) : !s->worker[me].announced;
}

static yk_status announce(yk_store *store, int me, const yk_batch *batch,
                          const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__sgd *s = sgd_of(store);
    yk__sgd_worker *w = &s->worker[me];
    w->batch = *batch;
    w->announced = true;
    memcpy(w->cursor, cursor, sizeof w->cursor);
    return s->ops->announce ? s->ops->announce(s, me) : YK_OK;
}

static yk_status begin_round(yk__sgd *s)
{
    s->totals = (yk__round_totals){0};
    for (int i = 0; i < s->config.workers; i++)
        s->worker[i].calls = s->worker[i].examples = 0;
    s->max = yk__sgd_max_steps(s, s->step);
    s->open = true;
    return s->ops->begin ? s->ops->begin(s) : YK_OK;
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    yk__sgd *s = sgd_of(store);
    yk__sgd_worker *w = &s->worker[me];
    yk_status st = YK_OK;
    if (!s->open)
        st = once(s, me, begin_round);
    if (st)
        return st;
    *batch_out = s->ops->batch ? s->ops->batch(s, me) : w->batch;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY); /* lazy decay of the batch's weights */
    if (s->keyed && s->ops->keys && (st = once(s, me, s->ops->keys)))
        return st;
    if (!s->copy) { /* no thread has a batch */
        memset(view_out, 0, (size_t)s->config.copy.ngroups * sizeof *view_out);
        return YK_OK;
    }
    return yk_local_pull(s->copy, me, batch_out, view_out);
}

static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    yk__sgd *s = sgd_of(store);
    s->worker[me].grad = *g;
    s->worker[me].examples += g->examples;
    return s->copy ? yk_local_push(s->copy, me, g) : YK_OK;
}

static yk_status end_round(yk__sgd *s)
{
    s->open = false;
    for (int i = 0; i < s->config.workers; i++)
        s->share[i] = s->worker[i].examples;
    yk_status st = s->ops->end(s);
    for (int i = 0; s->result.examples == 0 && i < s->config.workers; i++)
        s->worker[i].exhausted = s->worker[i].announced = false; /* ask the feed again */
    return st;
}

/* After a step of all threads, in the first thread. */
static yk_status count_step(yk__sgd *s)
{
    s->result = (yk_step_result){.pending = true};
    if (s->worker[0].calls < s->max && !(s->ops->done && s->ops->done(s)))
        return YK_OK;
    return end_round(s);
}

static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk__sgd *s = sgd_of(store);
    yk__sgd_worker *w = &s->worker[me];
    yk_step_result one = {0};
    yk_status st = s->copy ? yk_local_clock(s->copy, me, &one) : YK_OK;
    w->calls++;
    w->announced &= s->ops->batch != NULL; /* without batch(), this step used the announced batch */
    if (!st && me == 0) {
        s->totals.steps += one.steps;
        s->totals.examples += one.examples;
        s->totals.loss += one.loss;
        s->totals.action = action > s->totals.action ? action : s->totals.action;
    }
    const uint64_t own = w->examples;
    if (!st)
        st = once(s, me, count_step);
    *out = s->result;
    out->own = own;
    return st;
}

static yk_status finish(yk_store *store, int me)
{
    yk__sgd *s = sgd_of(store);
    return s->ops->leave ? once(s, me, s->ops->leave) : YK_OK;
}

static uint64_t steps_so_far(const yk_store *store, int me)
{
    const yk__sgd *s = (const yk__sgd *)(const void *)store;
    (void)me;
    return s->copy ? yk_local_steps(s->copy) : s->config.first_step;
}

static yk_status ready(yk_store *store, int me, float *dense, size_t begin, size_t end)
{
    yk__sgd *s = sgd_of(store);
    (void)me, (void)dense, (void)begin, (void)end;
    return s->ops->progress ? s->ops->progress(s) : YK_OK;
}

static void free_all(yk_store *store)
{
    yk__sgd *s = sgd_of(store);
    s->ops->free(s);
    yk_free(s->worker);
    yk_free(s->share);
    yk_free(s);
}

static const yk_store_ops sgd_ops = {.wants = wants,
                                     .announce = announce,
                                     .pull = pull,
                                     .push = push,
                                     .clock = clock_step,
                                     .finish = finish,
                                     .steps = steps_so_far,
                                     .ready = ready,
                                     .free = free_all};

yk_status yk_local_sgd_create(const yk_local_sgd_config *config, yk_store **out)
{
    yk__sgd *s = yk_alloc(1, sizeof *s, "local SGD");
    if (!s)
        return YK_ESYSTEM;
    s->base.ops = &sgd_ops;
    s->config = *config;
    s->ops = config->remote ? &yk__sgd_shards : &yk__sgd_replicas;
    s->worker = yk_alloc((size_t)config->workers, sizeof *s->worker, "the workers");
    s->share = yk_alloc((size_t)config->workers, sizeof *s->share, "the workers");
    yk_status st = s->worker && s->share ? YK_OK : YK_ESYSTEM;
    if (!st)
        st = s->ops->create(s);
    if (st)
        free_all(&s->base);
    else
        *out = &s->base;
    return st;
}
