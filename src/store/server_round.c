/* Applies what clients send: each message as it arrives, or the sum of a round, once. Clients send gradients, to which the update
 * rule is applied, or, if they train on copies, deltas, which are added (local_copy.h). */
#include "store/server_internal.h"

#include "base/clock.h"
#include <limits.h>
#include <string.h>

/* The gradients or deltas of one client, or the sum of those of `workers` clients (0: local_copy.h). */
typedef struct {
    yk_server *s;
    const yk__up *totals;         /* their steps, examples and loss */
    const yk_stale_mark *read_at; /* stale gradients: when their parameters were read */
    uint64_t now;                 /* deltas: the step after them */
    uint32_t *key;
    size_t n, stride;
    float *block[YK_MAX_GROUPS];      /* the values of each group */
    const float *read[YK_MAX_GROUPS]; /* stale gradients: the parameters they were computed with */
    int workers;
} update;

static update update_of(yk_server *s, const yk__client *c)
{
    const yk__up *up = yk__header_of(c);
    const yk__pull *p = yk__pull_of(s, c, up->push_of);
    update u = {.s = s,
                .totals = up,
                .key = p->key,
                .n = p->n,
                .stride = p->n,
                .workers = s->plan->copy_lifetime ? 0 : s->active};
    float *at = yk__values_of(c);
    /* a client may send a gradient without having received the parameters */
    const bool known = p->out && p->wants && !p->unanswered && s->stale;
    size_t sent = sizeof(yk__down);
    for (int g = 0; g < s->layout.ngroups; g++) {
        u.block[g] = at;
        u.read[g] = known ? (const float *)(const void *)(p->out + sent) : NULL;
        at += yk__layout_floats(&s->layout, g, p->n);
        sent += yk__layout_floats(&s->layout, g, p->n) * sizeof(float);
    }
    return u;
}

/* Pushes gradients to the store: those of the groups that are updated on arrival, or of the others, which ends a step. */
static yk_status push(const update *u, bool immediate)
{
    yk_server *s = u->s;
    yk_grad grad = {.examples = (size_t)u->totals->examples,
                    .steps = u->totals->steps,
                    .extra_weight = u->totals->extra_weight,
                    .loss = u->totals->loss,
                    .read_at = u->read_at,
                    .clip = s->clip,
                    .pool = s->pool};
    yk_merger pairs[YK_MAX_GROUPS];
    yk_step_result result;
    for (int g = 0; g < s->layout.ngroups; g++) {
        if (s->immediate[g] != immediate)
            continue;
        if (!s->layout.group[g].keyed) {
            grad.group[g].dense = u->block[g];
        } else if (u->key && s->layout.group[g].each) {
            pairs[g] = (yk_merger){.n = u->n, .key = u->key, .value = u->block[g]};
            grad.group[g].pairs = &pairs[g];
            grad.group[g].read = u->read[g];
        }
    }
    yk_store *table = yk_local_store(s->config.table);
    yk_status st = table->ops->push(table, 0, &grad);
    return st || immediate ? st : table->ops->clock(table, 0, YK_ACTION_CONTINUE, &result);
}

static void add_part(void *context, int me, int all)
{
    const update *u = context;
    yk_local *table = u->s->config.table;
    for (int g = 0; g < u->s->layout.ngroups; g++) {
        const yk_copy_keys k = yk__part_of_group(u->s, g, u->key, u->n, u->stride, me, all);
        yk_copy_add(table, g, &k, u->block[g], u->workers, u->now);
    }
}

/* Ends a step, or adds the deltas of several. */
static yk_status apply(update *u)
{
    yk_server *s = u->s;
    if (!s->copy_steps)
        return push(u, false);
    u->now = yk_local_steps(s->config.table) + u->totals->steps;
    yk_thread_pool_run(yk__pool_for(s, yk__layout_all(&s->layout, u->n)), add_part, u);
    yk_local_restore(s->config.table, u->now);
    return YK_OK;
}

static yk_status updated(yk_server *s, const yk__up *sum)
{
    const yk_server_hooks *h = &s->hooks;
    const double weight = (double)sum->examples + sum->extra_weight;
    s->state.updates += sum->steps;
    if (!s->chief)
        yk_phases_done(s->config.phases, sum->steps, sum->examples, weight, sum->loss);
    yk_status st = s->chief && h->updated ? h->updated(h->context, yk_local_steps(s->config.table),
                                                       sum->examples, weight, sum->loss)
                                          : YK_OK;
    if (!st)
        yk__stop_if_asked(s);
    return st;
}

/* Counts the steps of a client. */
static void count(yk_server *s, yk__client *c, const yk__up *up)
{
    yk__count_shares(s, c);
    c->pushes += up->steps;
    c->thread[up->thread].pushes += up->steps;
    /* a gradient of several threads is one step of each */
    c->thread[up->thread].clock += s->copy_steps ? up->steps : 1;
    c->examples += up->examples;
}

/* ---- no rounds ---- */

static bool is_within_bound(const yk_server *s, const yk__client *c, const yk__pull *p)
{
    const uint64_t k = s->plan->staleness;
    const uint32_t channels = (uint32_t)s->plan->channels;
    if (k == YK_ASYNC || s->stopping)
        return true;
    /* `clock`: the worker's clock in the last step with this answer. All updates up to clock - K - 1 must be included */
    const yk__client_thread *t = &c->thread[p->number % channels];
    const uint64_t min = yk__slowest(s), ahead = p->number / channels + 1 - t->rounds,
                   steps = s->copy_steps ? s->copy_steps : 1,
                   clock = c->skipped + t->clock + ahead * steps - 1;
    return min >= UINT64_MAX - k || min + k >= clock;
}

static yk_status apply_now(yk_server *s, yk__client *c, bool again)
{
    const yk__up *up = yk__header_of(c);
    const yk__pull *p = yk__pull_of(s, c, up->push_of);
    if (again || !up->examples)
        return YK_OK;
    update u = update_of(s, c);
    yk_phase_to(s->config.phases, YK_PHASE_APPLY);
    yk_staleness_add(&s->state.staleness,
                     s->state.updates - p->updates_then - (c->thread[up->thread].pushes - p->own_then));
    if (s->stale)
        u.read_at = &p->mark;
    count(s, c, up);
    yk_status st = apply(&u);
    return st ? st : updated(s, up);
}

static const yk__rounds no_rounds = {.push = apply_now, .may_answer = is_within_bound};

/* ---- rounds ---- */

/* After its gradient was applied. */
static bool is_applied(const yk_server *s, const yk__client *c, const yk__pull *p)
{
    return !(p->of_push && (c->pushed || s->awaits_squares));
}

/* Updates the groups that do not wait for the end of the round. */
static yk_status apply_immediately(yk_server *s, yk__client *c)
{
    bool any = false;
    for (int g = 0; g < s->layout.ngroups; g++)
        any |= s->immediate[g];
    const update u = update_of(s, c);
    yk_phase_to(s->config.phases, any ? YK_PHASE_APPLY : YK_PHASE_OTHER);
    return any ? push(&u, true) : YK_OK;
}

static yk_status push_to_round(yk_server *s, yk__client *c, bool again)
{
    c->pushed = true;
    c->counts |= !again && (s->chief || !s->rounds->decides); /* otherwise server 0 decides */
    c->pushed_at = c->last_message;
    s->before_last = s->last ? s->last->pushed_at : 0.0;
    s->last = c;
    return yk__header_of(c)->examples && !again ? apply_immediately(s, c) : YK_OK;
}

/* How long gradients have waited for those of others, and for which worker they waited the longest. */
static void record_straggler(yk_server *s)
{
    const double now = yk_now();
    if (s->last && s->before_last > 0.0)
        s->last->came_last++;
    for (yk__client *c = s->client; c < s->client + s->nclients; c++) {
        c->gradient_waited = c->pushed_at > 0.0 ? now - c->pushed_at : c->gradient_waited;
        c->pushed_at = 0.0;
    }
    s->last = NULL;
}

/* Assigns a sum to each key of a pull. New sums are 0. */
static yk_status place(yk_server *s, yk__pull *p)
{
    const size_t before = s->keys.n;
    if (YK_RESERVE(p->at, p->at_cap, (size_t)p->n + 1, "the keys of a round"))
        return YK_ESYSTEM;
    yk_merger_slots(&s->keys, p->key, p->n, p->at);
    for (int g = 0; g < s->layout.ngroups; g++)
        for (int a = 0; s->layout.group[g].keyed && a < s->layout.group[g].arrays; a++)
            memset(s->sum[g] + ((size_t)a * s->capacity + before) * s->layout.group[g].each, 0,
                   (s->keys.n - before) * s->layout.group[g].each * sizeof(float));
    p->placed = true;
    s->placed++;
    return YK_OK;
}

/* The same for these pulls, one of each client (NULL: none). */
static yk_status place_keys(yk_server *s, yk__pull *const *pull)
{
    size_t max = 1;
    s->placed = 0;
    for (int i = 0; i < s->nclients; i++)
        max += pull[i] ? pull[i]->n : 0;
    yk_status st = yk_merger_reserve(&s->keys, max);
    s->capacity = max;
    for (int g = 0; !st && g < s->layout.ngroups; g++)
        st = YK_RESERVE(s->sum[g], s->sum_cap[g], yk__layout_floats(&s->layout, g, max) + 1,
                        "the gradients of all workers");
    for (int i = 0; !st && i < s->nclients; i++)
        if (pull[i])
            st = place(s, pull[i]);
    return st;
}

/* While workers compute: prepares the sums of their gradients. */
static yk_status prepare_round(yk_server *s)
{
    yk__pull *pull[YK__MAX_WORKERS];
    bool any = false;
    if (s->placed || s->awaits_squares)
        return YK_OK;
    for (int i = 0; i < s->nclients; i++) {
        const yk__client *c = &s->client[i];
        pull[i] = c->active ? yk__pull_of(s, c, c->newest) : NULL;
        if (c->pushed || (pull[i] && pull[i]->unanswered))
            return YK_OK;
        if (pull[i] && (!pull[i]->wants || !pull[i]->key))
            pull[i] = NULL;
        any |= pull[i] != NULL;
    }
    return any ? place_keys(s, pull) : YK_OK;
}

/* Computes the totals of the gradients that have arrived, and clears their sums. */
static yk_status begin_sum(yk_server *s)
{
    yk__pull *pull[YK__MAX_WORKERS];
    yk__up *sum = &s->totals; /* as if one client had sent them */
    int n = 0, placed = 0;
    *sum = (yk__up){0};
    for (int i = 0; i < s->nclients; i++) {
        const yk__client *c = &s->client[i];
        const yk__up *up = yk__header_of(c);
        const bool adds = c->pushed && c->counts && up->round <= s->round && up->examples;
        pull[i] = adds ? yk__pull_of(s, c, up->push_of) : NULL;
        if (!adds)
            continue;
        n++;
        placed += pull[i]->placed;
        sum->steps = up->steps > sum->steps ? up->steps : sum->steps;
        sum->examples += up->examples;
        sum->extra_weight += up->extra_weight;
        sum->loss += up->loss;
    }
    yk_status st = n == placed && n == s->placed ? YK_OK : place_keys(s, pull);
    s->placed = 0;
    s->round_workers = n;
    for (int g = 0; !st && n && g < s->layout.ngroups; g++)
        if (!s->layout.group[g].keyed)
            memset(s->sum[g], 0, yk__layout_floats(&s->layout, g, 0) * sizeof(float));
    return st;
}

typedef struct {
    float *sum;
    const float *values;
    size_t n;
} dense_sum;

static void add_dense_part(void *context, int me, int all)
{
    const dense_sum *d = context;
    size_t begin = 0, end = d->n;
    yk_part_of_range(&begin, &end, 16, me, all);
    for (size_t i = begin; i < end; i++)
        d->sum[i] += d->values[i];
}

static void add_keyed(yk_server *s, int group, const uint32_t *at, size_t n, const float *values)
{
    const size_t width = s->layout.group[group].each;
    for (int a = 0; a < s->layout.group[group].arrays; a++, values += n * width) {
        float *sum = s->sum[group] + (size_t)a * s->capacity * width;
        for (size_t i = 0; width == 1 && i < n; i++)
            sum[at[i]] += values[i];
        for (size_t i = 0; width > 1 && i < n; i++)
            for (size_t j = 0; j < width; j++)
                sum[at[i] * width + j] += values[i * width + j];
    }
}

static void add_to_sum(yk_server *s, const yk__client *c)
{
    const update u = update_of(s, c);
    const double weight = (double)u.totals->examples + u.totals->extra_weight,
                 all = (double)s->totals.examples + s->totals.extra_weight;
    const float factor = s->copy_steps ? yk_copy_factor(weight, all, s->round_workers) : 1.0f;
    for (uint32_t i = 0; factor != 1.0f && i < u.totals->npush; i++)
        yk__values_of(c)[i] *= factor;
    for (int g = 0; g < s->layout.ngroups; g++) {
        const size_t n = yk__layout_floats(&s->layout, g, 0);
        if (s->layout.group[g].keyed)
            add_keyed(s, g, yk__pull_of(s, c, u.totals->push_of)->at, u.n, u.block[g]);
        else
            yk_thread_pool_run(yk__pool_for(s, n), add_dense_part, &(dense_sum){s->sum[g], u.block[g], n});
    }
}

/* Adds the gradients of a round in worker order. */
static void add_all(yk_server *s)
{
    for (int i = 0; i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        const yk__up *up = yk__header_of(c);
        if (!c->pushed || up->round > s->round) /* it may already be in the next round */
            continue;
        c->pushed = false;
        if (!c->counts)
            continue;
        c->counts = false;
        count(s, c, up);
        if (up->examples)
            add_to_sum(s, c);
    }
}

static yk_status apply_round(yk_server *s)
{
    update u = {.s = s,
                .totals = &s->totals,
                .key = s->keys.key,
                .n = s->keys.n,
                .stride = s->capacity,
                .workers = s->round_workers};
    memcpy(u.block, s->sum, sizeof u.block);
    const yk_status st = apply(&u);
    s->clip = 0.0f;
    return st ? st : updated(s, &s->totals);
}

/* The sums of a round wait until the squares of those of all servers are known: sends those of this server to the others. */
static yk_status send_squares(yk_server *s)
{
    yk_status st = YK_OK;
    s->awaits_squares = true;
    s->squares_at = yk_now();
    s->squares[s->me].sum = 0.0; /* that of the last round was received: all servers have applied it */
    for (int g = 0; g < s->layout.ngroups; g++)
        if (!s->immediate[g])
            s->squares[s->me].sum += yk_squares(s->sum[g], yk__layout_floats(&s->layout, g, s->keys.n));
    for (int k = 0; !st && k < s->plan->owners; k++) {
        yk__squares *q = &s->squares[k];
        if (k == s->me)
            continue;
        st = yk_comm_wait(s->config.comm, &q->out, 1, s->plan->control_timeout,
                          "a server to receive a gradient norm");
        if (!st)
            st = yk_comm_recv(s->config.comm, k, YK__TAG_SQUARES, YK_PURPOSE_CONTROL, &q->sum, sizeof q->sum,
                              &q->in);
        if (!st)
            st = yk_comm_send(s->config.comm, k, YK__TAG_SQUARES, YK_PURPOSE_CONTROL, &s->squares[s->me].sum,
                              sizeof q->sum, &q->out);
    }
    return st;
}

static yk_status continue_round(yk_server *s)
{
    const bool late = yk_now() - s->squares_at > s->plan->first_step_timeout;
    bool all = true;
    double sum = 0.0;
    for (int k = 0; k < s->plan->owners; k++) { /* in the same order on all of them */
        bool known;
        const yk_status st = yk_comm_test(s->config.comm, &s->squares[k].in, &known);
        if (st)
            return st;
        if (!known && late)
            return yk_fail(
                YK_ELOST,
                "server %d sent no gradient norm within %.1f s: it has died, is hung, or cannot be reached",
                k, s->plan->first_step_timeout);
        all &= known;
        sum += s->squares[k].sum;
    }
    if (!all)
        return YK_OK;
    s->awaits_squares = false;
    s->clip = yk_clip_factor(sum, (double)s->totals.examples + s->totals.extra_weight, s->plan->clip_norm);
    return apply_round(s);
}

/* Applies the gradients of a round. */
static yk_status end_round(yk_server *s)
{
    yk_phase_to(s->config.phases, YK_PHASE_APPLY);
    yk_status st = begin_sum(s);
    if (st)
        return st;
    add_all(s);
    record_straggler(s);
    s->decided = false;
    s->round++;
    if (s->totals.examples && s->squares)
        return (st = send_squares(s)) ? st : continue_round(s);
    if (s->totals.examples)
        return apply_round(s);
    if (s->rounds->decides) /* the examples of all gradients went to other workers */
        return YK_OK;
    const yk_server_hooks *h = &s->hooks; /* no worker had examples: the end of an epoch, not a step */
    st = s->chief && h->epoch_over ? h->epoch_over(h->context) : YK_OK;
    if (!st)
        yk__stop_if_asked(s);
    return st;
}

/* Whether server 0 has decided on the gradients of the round, and they have arrived. */
static bool decided_have_arrived(const yk_server *s)
{
    bool arrived = s->decided;
    for (int i = 0; i < s->nclients; i++) {
        const yk__client *c = &s->client[i];
        arrived &= !c->counts || (c->pushed && yk__header_of(c)->round == s->round);
    }
    return arrived;
}

/* Whether the gradients of all workers with examples have arrived, or of as many as a round needs. */
static bool have_arrived(const yk_server *s, int max)
{
    int pushed = 0, expected = 0;
    for (int i = 0; i < s->nclients; i++) {
        pushed += s->client[i].pushed;
        expected += s->client[i].active && !yk__is_idle(s, &s->client[i]);
    }
    return pushed && pushed >= (max < expected ? max : expected);
}

/* Ends the round if it is complete. */
static yk_status close_round(yk_server *s)
{
    const bool decides = s->rounds->decides;
    yk_status st = YK_OK;
    if (s->awaits_squares)
        return continue_round(s);
    if (decides && !s->chief ? !decided_have_arrived(s)
                             : !have_arrived(s, decides ? s->plan->quorum : INT_MAX))
        return YK_OK;
    if (decides && s->chief)
        st = yk__control_round(s);
    return st ? st : end_round(s);
}

static const yk__rounds sync_rounds = {.push = push_to_round,
                                       .may_answer = is_applied,
                                       .close = close_round,
                                       .prepare = prepare_round},
                        quorum_rounds = {.push = push_to_round,
                                         .may_answer = is_applied,
                                         .close = close_round,
                                         .decides = true};

const yk__rounds *yk__rounds_of(const yk_plan *plan)
{
    return plan->quorum ? &quorum_rounds : plan->synchronous ? &sync_rounds : &no_rounds;
}
