#include "store/copies_internal.h"

#include <string.h>

static yk__copies *of(yk_store *s)
{
    return (yk__copies *)(void *)s;
}

static yk_status barrier(yk__copies *s, int me)
{
    return s->config.joint && s->config.workers > 1 ? yk_team_barrier(s->config.team, me) : YK_OK;
}

/* Runs `what` in the first thread of a copy, while the others wait. */
static yk_status once(yk__copies *s, int me, yk_status (*what)(yk__copies *s, yk__copy *c))
{
    yk__copy *c = yk__copy_of(s, me);
    yk_status st = barrier(s, me);
    if (!st && me == c->first)
        st = what(s, c);
    return st ? st : barrier(s, me);
}

static size_t wants(const yk_store *store, int me)
{
    const yk__copies *s = (const yk__copies *)(const void *)store;
    const yk__copy_worker *w = &s->worker[me];
    return s->ops->wants && s->keyed ? s->ops->wants(s, me) : !w->exhausted && !w->announced;
}

static yk_status announce(yk_store *store, int me, const yk_batch *batch,
                          const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__copies *s = of(store);
    yk__copy_worker *w = &s->worker[me];
    if (s->ops->announce)
        return s->ops->announce(s, me, batch, cursor);
    w->batch = *batch;
    w->announced = true;
    return YK_OK;
}

static yk_status begin_round(yk__copies *s, yk__copy *c)
{
    memset(&c->totals, 0, sizeof c->totals);
    for (int i = c->first; i < c->end; i++)
        s->worker[i].calls = s->worker[i].examples = 0;
    c->open = true;
    return s->ops->begin(s, c);
}

static yk_status pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    yk__copies *s = of(store);
    yk__copy *c = yk__copy_of(s, me);
    yk_status st = c->open ? YK_OK : once(s, me, begin_round);
    if (st)
        return st;
    *batch_out = s->ops->batch ? s->ops->batch(s, me) : s->worker[me].batch;
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY); /* lazy decay of the batch's weights */
    if (s->keyed && s->ops->keys && (st = once(s, me, s->ops->keys)))
        return st;
    if (!c->local) { /* no thread has a batch */
        memset(view_out, 0, (size_t)s->config.copy.ngroups * sizeof *view_out);
        return YK_OK;
    }
    return yk_local_pull(c->local, me - c->first, batch_out, view_out);
}

static yk_status push(yk_store *store, int me, const yk_grad *g)
{
    yk__copies *s = of(store);
    yk__copy *c = yk__copy_of(s, me);
    s->worker[me].examples += g->examples;
    return c->local ? yk_local_push(c->local, me - c->first, g) : YK_OK;
}

/* After a step of all threads of a copy. */
static yk_status count_step(yk__copies *s, yk__copy *c)
{
    c->result = (yk_step_result){.pending = true};
    if (s->worker[c->first].calls < c->max && !(s->ops->done && s->ops->done(s, c)))
        return YK_OK;
    c->open = false;
    for (int i = c->first; i < c->end; i++)
        s->share[i] = s->worker[i].examples;
    yk_status st = s->ops->merge(s, c);
    for (int i = c->first; c->result.examples == 0 && i < c->end; i++)
        s->worker[i].exhausted = s->worker[i].announced = false; /* ask the feed again */
    return st;
}

static yk_status clock_step(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk__copies *s = of(store);
    yk__copy *c = yk__copy_of(s, me);
    yk__copy_worker *w = &s->worker[me];
    yk_step_result one = {0};
    yk_status st = c->local ? yk_local_clock(c->local, me - c->first, &one) : YK_OK;
    w->calls++;
    w->announced &= s->ops->batch != NULL; /* without batch(), this step used the announced batch */
    if (!st && me == c->first) {
        c->totals.steps += one.steps;
        c->totals.examples += one.examples;
        c->totals.loss += one.loss;
        c->totals.action = action > c->totals.action ? action : c->totals.action;
    }
    const uint64_t own = w->examples;
    if (!st)
        st = once(s, me, count_step);
    *out = c->result;
    out->own = own;
    return st;
}

static yk_status finish(yk_store *store, int me)
{
    yk__copies *s = of(store);
    return s->ops->leave ? once(s, me, s->ops->leave) : YK_OK;
}

static uint64_t steps_so_far(const yk_store *store, int me)
{
    const yk__copies *s = (const yk__copies *)(const void *)store;
    const yk__copy *c = yk__copy_of(s, me);
    return c->local ? yk_local_steps(c->local) : s->config.first_step;
}

static yk_status ready(yk_store *store, int me, float *dense, size_t begin, size_t end)
{
    (void)me, (void)dense, (void)begin, (void)end;
    return yk_remote_progress(of(store)->config.remote);
}

static void free_all(yk_store *store)
{
    yk__copies *s = of(store);
    if (s->copy && s->worker)
        s->ops->free(s);
    yk_free(s->worker);
    yk_free(s->copy);
    yk_free(s->share);
    yk_free(s);
}

static const yk_store_ops copies_ops = {.wants = wants,
                                        .announce = announce,
                                        .pull = pull,
                                        .push = push,
                                        .clock = clock_step,
                                        .finish = finish,
                                        .steps = steps_so_far,
                                        .ready = ready,
                                        .free = free_all};

yk_status yk_copies_create(const yk_copies_config *config, yk_store **out)
{
    yk__copies *s = yk_alloc(1, sizeof *s, "the store");
    const int workers = config->workers, copies = config->joint ? 1 : workers;
    if (!s)
        return YK_ESYSTEM;
    s->base.ops = &copies_ops;
    s->config = *config;
    s->ops = &yk__copies_of_shards;
    s->worker = yk_alloc((size_t)workers, sizeof *s->worker, "the workers");
    s->copy = yk_alloc((size_t)copies, sizeof *s->copy, "the workers");
    s->share = yk_alloc((size_t)workers, sizeof *s->share, "the workers");
    for (int i = 0; s->copy && i < copies; i++) {
        s->copy[i].first = i;
        s->copy[i].end = config->joint ? workers : i + 1;
    }
    yk_status st = s->worker && s->copy && s->share ? s->ops->create(s) : YK_ESYSTEM;
    if (st)
        free_all(&s->base);
    else
        *out = &s->base;
    return st;
}
