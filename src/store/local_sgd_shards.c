/* Rounds of local SGD on shards. The copy is a store of one process. It has all parameters of a dense group, but only those
 * keys of a keyed group that the batches of the round use; these batches are announced before the round begins. Without keyed
 * groups, only the first batch is announced in advance, to know that there is one; each of the others is announced when it is
 * needed. */
#include "store/local_sgd_internal.h"

#include <stdlib.h>
#include <string.h>

static yk_status create(yk__sgd *s)
{
    const yk_local_config *c = &s->config.copy;
    for (int g = 0; g < c->ngroups; g++)
        s->keyed |= c->group[g].shape.keyed;
    s->answer.status.steps = s->config.first_step;
    return s->keyed ? YK_OK : yk_copy_make(c, 1, &s->copy, &s->capacity);
}

static void free_all(yk__sgd *s)
{
    for (int i = 0; s->worker && i < s->config.workers; i++) {
        free(s->worker[i].now.index);
        free(s->worker[i].next.index);
    }
    yk_local_free(s->copy);
}

/* ---- batches ---- */

/* The job ends: no more training. In lockstep, the end of a round reports it. */
static bool is_stopped(const yk__sgd *s)
{
    return s->answer.status.stop && !s->config.lockstep;
}

/* Whether this step is the last of its round. */
static bool last_step(const yk__sgd *s, const yk__sgd_worker *w)
{
    return w->calls + 1 >= s->max;
}

static size_t wants(const yk__sgd *s, int me)
{
    const yk__sgd_worker *w = &s->worker[me];
    if (w->exhausted)
        return 0;
    if (!s->keyed)
        return !w->announced;
    if (s->open && !last_step(s, w))
        return 0;
    if (!s->open && (s->answer.batches > 0 || yk_remote_outstanding(s->config.remote, 0) > 0))
        return 0; /* the batches of the next round were requested already; the step that it begins at may differ */
    /* a process that has batches left is not behind the others: the next round begins after its steps */
    const uint64_t totals = s->open ? s->totals.steps + (w->now.n > w->calls) : 0;
    const uint64_t max = yk__sgd_max_steps(s, s->answer.status.steps + totals);
    return w->next.n < max ? (size_t)(max - w->next.n) : 0;
}

static yk_status announce(yk__sgd *s, int me)
{
    yk__sgd_worker *w = &s->worker[me];
    w->exhausted = w->batch.n == 0;
    if (w->exhausted || !s->keyed)
        return YK_OK;
    if (YK_RESERVE(w->next.index, w->next.cap, w->next.n + 1, "announced batches"))
        return YK_ESYSTEM;
    return yk_remote_add(s->config.remote, 0, me, &w->batch, NULL, false, w->cursor,
                         &w->next.index[w->next.n++]);
}

static yk_batch batch_of(yk__sgd *s, int me)
{
    yk__sgd_worker *w = &s->worker[me];
    if (is_stopped(s))
        return (yk_batch){0};
    if (s->keyed)
        return w->calls < w->now.n ? yk_remote_batch(&s->answer, w->now.index[w->calls]) : (yk_batch){0};
    if (!w->announced || !w->batch.n)
        return (yk_batch){0};
    w->announced = false;
    yk_remote_count_batch(s->config.remote, 0, me, w->cursor);
    return w->batch;
}

static bool done(const yk__sgd *s)
{
    bool any = false;
    for (int i = 0; i < s->config.workers; i++) {
        const yk__sgd_worker *w = &s->worker[i];
        any |= s->keyed ? w->calls < w->now.n : w->announced && w->batch.n;
    }
    return !any || is_stopped(s);
}

/* ---- rounds ---- */

/* Without keyed groups: adds the first batch of the round to the request. */
static yk_status add_dense(yk__sgd *s)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && !s->keyed && i < s->config.workers; i++)
        if (s->worker[i].announced && s->worker[i].batch.n)
            st = yk_remote_add(s->config.remote, 0, i, &s->worker[i].batch, NULL, false, s->worker[i].cursor,
                               &(size_t){0});
    return st;
}

static yk_status begin(yk__sgd *s)
{
    yk_remote *r = s->config.remote;
    const bool pulls = s->answer.batches == 0 && yk_remote_outstanding(r, 0) == 0;
    yk_status st = pulls ? add_dense(s) : YK_OK;
    if (!st && pulls && yk_remote_added(r, 0) > 0)
        st = yk_remote_pull(r, 0);
    yk_phase_to(s->config.phases, YK_PHASE_PARAMETERS);
    if (!st && yk_remote_outstanding(r, 0) > 0)
        st = yk_remote_await(r, 0, &s->answer);
    yk_phase_to(s->config.phases, YK_PHASE_APPLY);
    for (int i = 0; i < s->config.workers; i++) {
        yk__sgd_worker *w = &s->worker[i];
        const yk__announced used = w->now;
        w->now = w->next;
        w->next = used;
        w->next.n = 0;
    }
    const bool stop = is_stopped(s), values = s->answer.batches > 0 && !st && !stop;
    s->max = yk__sgd_max_steps(s, s->answer.status.steps);
    if (s->keyed) { /* the first step may differ from the estimate: all announced batches are used */
        size_t longest = 0;
        for (int i = 0; i < s->config.workers; i++)
            longest = s->worker[i].now.n > longest ? s->worker[i].now.n : longest;
        s->max = stop ? 0 : longest;
    }
    if (!values || (st = yk_copy_make(&s->config.copy, s->answer.keys, &s->copy, &s->capacity)))
        return st;
    yk_copy_begin(s->copy, s->answer.keys, s->answer.value, s->answer.status.steps);
    return YK_OK;
}

static yk_status end(yk__sgd *s)
{
    yk_remote *r = s->config.remote;
    yk__round_totals *m = &s->totals;
    yk_status st = YK_OK;
    yk_phase_to(s->config.phases, YK_PHASE_APPLY);
    const uint64_t max = yk__sgd_max_steps(s, s->answer.status.steps);
    m->steps = m->steps < max ? m->steps : max; /* do not skip an evaluation or checkpoint */
    if (m->examples)
        yk_copy_end(s->copy, s->answer.keys, s->answer.value);
    s->result = (yk_step_result){.examples = m->examples, .loss = m->loss, .steps = m->steps};
    yk_phase_to(s->config.phases, YK_PHASE_SENDING);
    if (!m->examples && !s->config.lockstep) {
        yk_remote_out_of_examples(r, 0, s->config.workers, &s->result);
    } else {
        yk_remote_pushed p = {.steps = m->steps,
                              .examples = m->examples,
                              .loss = m->loss,
                              .round = s->answer.status.round,
                              .share = s->share};
        for (int g = 0; g < YK_MAX_GROUPS; g++)
            p.value[g] = s->answer.value[g];
        if (!(st = add_dense(s)))
            st = yk_remote_push(r, 0, &p);
        s->answer.batches = 0;
        if (!st && s->config.lockstep) {
            const uint64_t before = s->answer.status.steps;
            yk_phase_to(s->config.phases, YK_PHASE_WORKERS);
            st = yk_remote_await(r, 0, &s->answer);
            s->result.examples = s->answer.status.examples;
            s->result.loss = s->answer.status.loss;
            s->result.steps = s->answer.status.steps - before;
        }
    }
    yk_remote_end_step(r, 0, s->config.workers, s->answer.status.stop, &s->result);
    return st;
}

static yk_status progress(yk__sgd *s)
{
    return yk_remote_progress(s->config.remote);
}

static yk_status leave(yk__sgd *s)
{
    return yk_remote_leave(s->config.remote, 0);
}

const yk__sgd_ops yk__sgd_shards = {.create = create,
                                    .free = free_all,
                                    .wants = wants,
                                    .announce = announce,
                                    .begin = begin,
                                    .batch = batch_of,
                                    .done = done,
                                    .end = end,
                                    .progress = progress,
                                    .leave = leave};
