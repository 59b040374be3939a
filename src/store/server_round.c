/* What workers send becomes part of the parameters: in step the sum of a round, once; otherwise each as it comes. Gradients,
 * which the update rule is applied to here, or with local steps changes, which are added as they are (changes.h). */
#include "store/server_inside.h"

#include "base/clock.h"
#include <string.h>

static const yk__up *head_of(const yk__client *c)
{
    return (const yk__up *)(const void *)c->in;
}

/* A gradient of `examples` as the store takes it: pairs that are borrowed, or a dense piece. */
static yk_status apply(yk_server *s, const yk__up *sum, const yk_merger *pairs, float *dense)
{
    yk_grad g = {.examples = (size_t)sum->examples,
                 .loss = sum->loss,
                 .bias_key = UINT32_MAX,
                 .pairs = pairs,
                 .dense = dense};
    yk_step_result result;
    yk_status st = yk_store_push(s->config.table, 0, &g);
    return st ? st : yk_store_clock(s->config.table, 0, &result);
}

static void count_staleness(yk_server *s, const yk__client *c, const yk__pull *p)
{
    const uint64_t late = (s->updates - p->updates_then) - (c->pushes - p->own_then);
    const int bucket = late == 0 ? 0 : 64 - __builtin_clzll(late);
    s->staleness.bucket[bucket < YK_STALENESS_BUCKETS ? bucket : YK_STALENESS_BUCKETS - 1]++;
    s->staleness.observed++;
    s->staleness.max = (double)late > s->staleness.max ? (double)late : s->staleness.max;
    s->stale_sum += (double)late;
}

static yk_status updated(yk_server *s, const yk__up *sum)
{
    const yk_server_hooks *h = &s->config.hooks;
    s->updates += sum->steps;
    yk_status st = s->chief && h->updated
                       ? h->updated(h->context, yk_store_steps(s->config.table), sum->examples, sum->loss)
                       : YK_OK;
    if (!st && s->chief && h->stop && h->stop(h->context))
        s->stopping = true;
    return st;
}

/* Its worker has made these steps. */
static void count(yk_server *s, yk__client *c, const yk__up *up)
{
    memcpy(c->place, up->place, sizeof c->place);
    c->pushes += up->steps;
    c->examples += up->examples;
    if (s->config.dealer)
        yk_dealer_used(s->config.dealer, c->peer, up->examples);
}

/* Not in step: at once. */
yk_status yk__take_push(yk_server *s, yk__client *c, const yk__up *up)
{
    const yk__pull *p = &c->pull[up->push_of % YK__OUTSTANDING];
    const size_t n = up->npush / (size_t)s->arrays;
    const uint32_t *key = s->config.sparse ? p->key : NULL;
    float *values = yk__values_of(c);
    yk_status st = YK_OK;
    count_staleness(s, c, p);
    count(s, c, up);
    if (s->config.local_steps) {
        const yk_view changes = yk_changes_view(values, n);
        yk_changes_add(s->config.table, key, n, &changes, s->here, up->steps);
    } else {
        const yk_merger one = {.n = n, .key = p->key, .value = values};
        st = apply(s, up, key ? &one : NULL, key ? NULL : values);
    }
    return st ? st : updated(s, up);
}

/* Who came last, and how long the others waited because of it. */
static void blame_last(yk_server *s)
{
    const double now = yk_now();
    yk__client *last = NULL;
    double before = 0.0;
    for (int i = 0; i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        if (c->pushed_at == 0.0)
            continue;
        c->kept = now - c->pushed_at;
        if (!last || c->pushed_at > last->pushed_at) {
            before = last ? last->pushed_at : 0.0;
            last = c;
        } else if (c->pushed_at > before) {
            before = c->pushed_at;
        }
    }
    if (last && before > 0.0) {
        last->waited += last->pushed_at - before;
        last->came_last++;
    }
    for (int i = 0; i < s->nclients; i++)
        s->client[i].pushed_at = 0.0;
}

static yk_status begin_sum(yk_server *s)
{
    size_t most = 1;
    if (!s->config.sparse) {
        memset(s->sum, 0, s->piece * (size_t)s->arrays * sizeof *s->sum);
        return YK_OK;
    }
    for (int i = 0; i < s->nclients; i++)
        if (s->client[i].pushed)
            most += head_of(&s->client[i])->npush / (size_t)s->arrays;
    return yk_changes_reserve(&s->sums, most);
}

static void add_to_sum(yk_server *s, yk__client *c)
{
    const yk__up *up = head_of(c);
    const float *v = yk__values_of(c);
    if (s->config.sparse)
        yk_changes_sum(&s->sums, c->pull[up->push_of % YK__OUTSTANDING].key, up->npush / (size_t)s->arrays,
                       v);
    for (size_t k = 0; !s->config.sparse && k < up->npush; k++)
        s->sum[k] += v[k];
}

/* The sum of so many workers onto the parameters. */
static yk_status apply_sum(yk_server *s, const yk__up *sum, int workers)
{
    const bool sparse = s->config.sparse;
    const yk_merger *keys = &s->sums.keys;
    if (s->config.local_steps) {
        const yk_view changes = sparse ? yk_changes_sums(&s->sums) : yk_changes_view(s->sum, s->piece);
        yk_changes_add(s->config.table, sparse ? keys->key : NULL, sparse ? keys->n : s->piece, &changes,
                       workers, sum->steps);
        return YK_OK;
    }
    const yk_merger pairs = {.n = keys->n, .key = keys->key, .value = s->sums.sum};
    return apply(s, sum, sparse ? &pairs : NULL, s->sum);
}

/* In step: all that are here, in worker order, once. */
static yk_status close_round(yk_server *s)
{
    yk__up sum = {0}; /* of all: as if one had sent it */
    int workers = 0;
    yk_status st = begin_sum(s);
    if (st)
        return st;
    for (int i = 0; i < s->nclients; i++) {
        yk__client *c = &s->client[i];
        const yk__up *up = head_of(c);
        if (!c->pushed || up->round > s->round) /* (server 0 may have closed the next one already) */
            continue;
        c->pushed = false;
        if (!c->counts)
            continue;
        c->counts = false;
        workers++;
        count(s, c, up);
        sum.steps = up->steps > sum.steps ? up->steps : sum.steps;
        sum.examples += up->examples;
        sum.loss += up->loss;
        if (up->examples)
            add_to_sum(s, c);
    }
    blame_last(s);
    s->decided = false;
    s->round++;
    s->round_examples = sum.examples;
    s->round_loss = sum.loss;
    if (sum.examples)
        return (st = apply_sum(s, &sum, workers)) ? st : updated(s, &sum);
    if (s->config.quorum) /* the examples of all that had arrived went to other workers */
        return YK_OK;
    const yk_server_hooks *h = &s->config.hooks; /* nobody had any: the end of an epoch is no step */
    st = s->chief && h->epoch_over ? h->epoch_over(h->context) : YK_OK;
    if (!st && s->chief && h->stop && h->stop(h->context))
        s->stopping = true;
    return st;
}

/* With a quorum: server 0 has decided which workers' gradients the round uses, and they have arrived. */
static bool decided_are_here(const yk_server *s)
{
    bool here = s->decided;
    for (int i = 0; i < s->nclients; i++) {
        const yk__client *c = &s->client[i];
        here &= !c->counts || (c->pushed && head_of(c)->round == s->round);
    }
    return here;
}

yk_status yk__close_round_if_all(yk_server *s)
{
    if (s->config.quorum && !s->chief)
        return decided_are_here(s) ? close_round(s) : YK_OK;
    int pushed = 0, expected = 0;
    for (int i = 0; i < s->nclients; i++) {
        pushed += s->client[i].pushed;
        expected += s->client[i].here && !s->client[i].idle;
    }
    if (s->config.quorum && s->config.quorum < expected)
        expected = s->config.quorum;
    if (!pushed || pushed < expected)
        return YK_OK;
    yk_status st = s->config.quorum ? yk__control_round(s) : YK_OK;
    return st ? st : close_round(s);
}
