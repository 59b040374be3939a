#include "store/replicas.h"

#include "base/mem.h"
#include <string.h>

typedef struct {
    yk_store base;
    yk_replicas_config config;
    yk_grad *grad; /* [workers] of this step */
    yk_grad total;
    float *sum; /* of the dense group, over the threads; NULL: one thread, or no dense group */
    yk_merger pairs[YK_MAX_GROUPS]; /* of keyed groups, over the threads */
    yk_action action;               /* of all ranks */
} replicas;

static replicas *of(yk_store *s)
{
    return (replicas *)(void *)s;
}

static yk_status ready(yk_store *s, int me, float *dense, size_t begin, size_t end)
{
    (void)me;
    return of(s)->config.workers == 1 ? yk_exchange_ready(of(s)->config.exchange, dense, begin, end) : YK_OK;
}

static yk_status push(yk_store *s, int me, const yk_grad *g)
{
    of(s)->grad[me] = *g;
    return YK_OK;
}

/* ---- the gradients of several threads ---- */

/* This thread's part of the dense group: 0 + g0 + g1 + ... in thread order. */
static void add_dense(replicas *r, int me, int group, size_t n)
{
    const size_t workers = (size_t)r->config.workers, each = YK_ROUND_UP((n + workers - 1) / workers, 16);
    const size_t begin = each * (size_t)me < n ? each * (size_t)me : n,
                 end = begin + each < n ? begin + each : n;
    memset(r->sum + begin, 0, (end - begin) * sizeof *r->sum);
    for (size_t i = 0; i < workers; i++)
        for (size_t k = begin; r->grad[i].examples && k < end; k++)
            r->sum[k] += r->grad[i].group[group].dense[k];
}

static yk_status add_pairs(replicas *r, int group)
{
    yk_merger *sum = &r->pairs[group], one;
    yk_status st = yk_merger_init_wide(&one, 64, sum->width);
    yk_merger_clear(sum);
    for (int i = 0; !st && i < r->config.workers; i++) {
        const yk_group_grad *g = &r->grad[i].group[group];
        const yk_merger *pairs = g->pairs ? g->pairs : &one;
        if (!r->grad[i].examples || (!g->pairs && (st = yk_grad_merge(g, &one))) ||
            (st = yk_merger_grow(sum, pairs->n + 1)))
            continue;
        for (size_t k = 0; k < pairs->n; k++)
            yk_merger_add_wide(sum, pairs->key[k], pairs->value + k * sum->width, sum->width);
    }
    yk_merger_fini(&one);
    return st;
}

/* The gradient of this process, in r->total. */
static yk_status add_threads(replicas *r, int me)
{
    const yk_local *local = r->config.local;
    yk_status st = yk_team_barrier(r->config.team, me);
    for (int g = 0; !st && g < yk_local_groups(local); g++) {
        const yk_group *group = yk_local_group_of(local, g);
        if (!group->keyed)
            add_dense(r, me, g, yk_group_floats(group));
        else if (me == 0)
            st = add_pairs(r, g);
    }
    if (st || (st = yk_team_barrier(r->config.team, me)) || me)
        return st;
    r->total = (yk_grad){0};
    for (int i = 0; i < r->config.workers; i++) {
        r->total.examples += r->grad[i].examples;
        r->total.loss += r->grad[i].loss;
    }
    for (int g = 0; g < yk_local_groups(local); g++) {
        if (yk_local_group_of(local, g)->keyed)
            r->total.group[g].pairs = &r->pairs[g];
        else
            r->total.group[g].dense = r->sum;
    }
    return YK_OK;
}

static yk_status clock_all(yk_store *s, int me, yk_action action, yk_step_result *out)
{
    replicas *r = of(s);
    yk_phases *phases = yk_phases_of(r->config.phases, me);
    const bool threads = r->config.workers > 1;
    const yk_grad none = {0};
    const uint64_t own = r->grad[me].examples;
    yk_status st = threads ? add_threads(r, me) : YK_OK;
    if (!threads)
        r->total = r->grad[0];
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
    out->own = own;
    return st;
}

static void free_all(yk_store *s)
{
    replicas *r = of(s);
    for (int g = 0; g < YK_MAX_GROUPS; g++)
        yk_merger_fini(&r->pairs[g]);
    yk_free(r->grad);
    yk_free(r->sum);
    yk_free(r);
}

static const yk_store_ops replicas_ops = {.push = push, .clock = clock_all, .ready = ready, .free = free_all};

yk_status yk_replicas_create(const yk_replicas_config *config, yk_store **out)
{
    replicas *r = yk_alloc(1, sizeof *r, "the replica");
    if (!r)
        return YK_ESYSTEM;
    r->base.ops = &replicas_ops;
    r->config = *config;
    r->base.inner = yk_local_store(config->local);
    r->grad = yk_alloc((size_t)config->workers, sizeof *r->grad, "the gradients");
    yk_status st = r->grad ? YK_OK : YK_ESYSTEM;
    for (int g = 0; !st && config->workers > 1 && g < yk_local_groups(config->local); g++) {
        const yk_group *group = yk_local_group_of(config->local, g);
        if (group->keyed)
            st = yk_merger_init_wide(&r->pairs[g], 64, group->width);
        else if (!(r->sum = yk_alloc(yk_group_floats(group), sizeof *r->sum, "the gradients")))
            st = YK_ESYSTEM;
    }
    if (st)
        free_all(&r->base);
    else
        *out = &r->base;
    return st;
}
