#include "store/replicas.h"

#include "base/mem.h"
#include <string.h>

typedef struct {
    _Alignas(YK_ALIGN) yk_grad grad; /* of this step */
    /* local SGD: */
    uint64_t steps;        /* calls to clock() in this round */
    yk_step_result totals; /* of this round */
} worker;

typedef struct {
    yk_store base;
    yk_replicas_config config;
    size_t nparams;
    worker *worker; /* [workers] */
    yk_grad total;
    float *sum;            /* of the gradients of several threads */
    yk_action action;      /* of all ranks */
    uint64_t step;         /* local SGD: the first step of the round */
    yk_step_result result; /* local SGD: of the last round */
} replicas;

static replicas *of(yk_store *s)
{
    return (replicas *)(void *)s;
}

static yk_status ready(yk_store *s, int me, float *dense, size_t begin, size_t end)
{
    const yk_replicas_config *c = &of(s)->config;
    (void)me;
    return c->workers == 1 ? yk_exchange_ready(c->exchange, dense, begin, end) : YK_OK;
}

static yk_status push(yk_store *s, int me, const yk_grad *g)
{
    of(s)->worker[me].grad = *g; /* applied in clock() */
    return YK_OK;
}

/* The gradient of several threads, in r->total: each adds its part, 0 + g0 + g1 + ... in thread order. */
static yk_status add_threads(replicas *r, int me)
{
    size_t begin = 0, end = r->nparams;
    yk_status st = yk_team_barrier(r->config.team, me);
    if (st)
        return st;
    yk_part_of_range(&begin, &end, 16, me, r->config.workers);
    if (begin < end)
        memset(r->sum + begin, 0, (end - begin) * sizeof *r->sum);
    for (int i = 0; i < r->config.workers; i++) {
        const yk_grad *g = &r->worker[i].grad;
        for (size_t k = begin; g->examples && k < end; k++)
            r->sum[k] += g->group[0].dense[k];
    }
    if ((st = yk_team_barrier(r->config.team, me)) || me)
        return st;
    r->total = (yk_grad){.group = {{.dense = r->sum}}};
    for (int i = 0; i < r->config.workers; i++) {
        r->total.examples += r->worker[i].grad.examples;
        r->total.extra_weight += r->worker[i].grad.extra_weight;
        r->total.loss += r->worker[i].grad.loss;
    }
    return YK_OK;
}

/* A step with the gradients of all ranks. */
static yk_status clock_all(yk_store *s, int me, yk_action action, yk_step_result *out)
{
    replicas *r = of(s);
    yk_phases *phases = yk_phases_of(r->config.phases, me);
    const yk_grad none = {0};
    yk_status st = r->config.workers > 1 ? add_threads(r, me) : YK_OK;
    if (r->config.workers == 1)
        r->total = r->worker[0].grad;
    if (!st && me == 0) {
        yk_round round;
        yk_phase_to(phases, YK_PHASE_SENDING);
        st = yk_exchange_sum(r->config.exchange, &r->total, action, phases ? phases->track : NULL, &round);
        r->action = (yk_action)round.action;
        yk_exchange_end_round(r->config.exchange, &round, phases);
    }
    if (!st)
        st = yk_store_push(s->inner, me, me == 0 ? &r->total : &none);
    if (!st)
        st = yk_store_clock(s->inner, me, me == 0 ? r->action : YK_ACTION_CONTINUE, out);
    out->own = r->worker[me].grad.examples;
    return st;
}

/* ---- local SGD ---- */

/* Ends a round of all ranks. */
static yk_status average(replicas *r, const yk_step_result *own)
{
    yk_exchange *x = r->config.exchange;
    const yk_view v = yk_local_raw(r->config.local, 0).live;
    yk_round round;
    yk_phase_to(r->config.phases, YK_PHASE_SENDING);
    yk_status st = yk_exchange_headers(x, own->examples, own->loss, own->action, own->steps, &round);
    if (!st && round.examples)
        st = yk_exchange_mean(x, v.w);
    for (int i = 0; !st && round.examples && i < yk_local_rule(r->config.local, 0)->slots; i++)
        st = yk_exchange_mean(x, v.s[i]);
    if (st)
        return st;
    r->step += round.steps;
    yk_local_restore(r->config.local, r->step); /* some ranks had fewer batches than others */
    yk_exchange_end_round(x, &round, r->config.phases);
    r->result = (yk_step_result){.examples = round.examples,
                                 .loss = round.loss,
                                 .steps = round.steps,
                                 .action = (yk_action)round.action};
    return YK_OK;
}

/* A step of this process; after the last one of a round, parameters are averaged. */
static yk_status clock_local(yk_store *s, int me, yk_action action, yk_step_result *out)
{
    replicas *r = of(s);
    worker *w = &r->worker[me];
    yk_step_result *sum = &w->totals, one;
    const uint64_t due =
        r->config.until_due(r->config.context, r->step); /* the same in all steps of a round */
    yk_status st = yk_store_clock(s->inner, me, action, &one);
    sum->examples += one.examples;
    sum->loss += one.loss;
    sum->steps += one.steps;
    sum->own += one.own;
    sum->action = action > sum->action ? action : sum->action;
    *out = (yk_step_result){.pending = true, .own = sum->own};
    if (st || ++w->steps < (due < r->config.steps ? due : r->config.steps))
        return st;
    const bool threads = r->config.workers > 1;
    if ((st = threads ? yk_team_barrier(r->config.team, me) : YK_OK) || (me == 0 && (st = average(r, sum))) ||
        (st = threads ? yk_team_barrier(r->config.team, me) : YK_OK))
        return st;
    *out = r->result;
    out->own = sum->own;
    w->steps = 0;
    *sum = (yk_step_result){0};
    return YK_OK;
}

/* ---- the store ---- */

static void free_all(yk_store *s)
{
    replicas *r = of(s);
    yk_free(r->worker);
    yk_free(r->sum);
    yk_free(r);
}

static const yk_store_ops replicas_ops = {.push = push, .clock = clock_all, .ready = ready, .free = free_all};
static const yk_store_ops local_sgd_ops = {.clock = clock_local, .free = free_all};

yk_status yk_replicas_create(const yk_replicas_config *config, yk_store **out)
{
    replicas *r = yk_alloc(1, sizeof *r, "the replica");
    if (!r)
        return YK_ESYSTEM;
    r->base.ops = config->steps ? &local_sgd_ops : &replicas_ops;
    r->base.inner = yk_local_store(config->local);
    r->config = *config;
    r->nparams = yk_group_floats(yk_local_group_of(config->local, 0));
    r->step = config->first_step;
    r->worker = yk_alloc((size_t)config->workers, sizeof *r->worker, "the gradients");
    r->sum = yk_alloc(config->workers > 1 ? r->nparams : 1, sizeof *r->sum, "the gradients");
    if (!r->worker || !r->sum) {
        free_all(&r->base);
        return YK_ESYSTEM;
    }
    *out = &r->base;
    return YK_OK;
}
