/* Rounds of local SGD on shards: the copy is a store like that of one process. Of a dense group it has all parameters, of
 * keyed ones those of the round's batches, which are announced before the round begins. Without keyed groups only the
 * first batch is, to know that there is one; the others are announced when it is their turn. */
#include "store/local_sgd_internal.h"

#include <stdlib.h>
#include <string.h>

yk_status yk__sgd_shards_create(yk__sgd *s)
{
    const yk_local_config *c = &s->config.copy;
    for (int g = 0; g < c->ngroups; g++)
        s->keyed |= c->group[g].shape.keyed;
    s->answer.news.steps = s->config.first_step;
    return s->keyed ? YK_OK : yk_delta_make_copy(c, 1, &s->copy, &s->room);
}

void yk__sgd_shards_free(yk__sgd *s)
{
    if (!s->config.remote)
        return;
    for (int i = 0; s->worker && i < s->config.workers; i++) {
        free(s->worker[i].now.index);
        free(s->worker[i].next.index);
    }
    yk_local_free(s->copy);
}

/* ---- batches ---- */

/* The job ends: nothing more is trained. In lockstep the end of a round says so. */
static bool is_stopped(const yk__sgd *s)
{
    return s->answer.news.stop && !s->config.lockstep;
}

/* Whether the step that is being made is the last of its round. */
static bool last_step(const yk__sgd *s, const yk__sgd_worker *w)
{
    return w->calls + 1 >= s->most;
}

size_t yk__sgd_shards_wants(const yk__sgd *s, int me)
{
    const yk__sgd_worker *w = &s->worker[me];
    if (w->exhausted)
        return 0;
    if (!s->keyed)
        return !w->announced;
    if (s->open && !last_step(s, w))
        return 0;
    /* whoever has batches left has made as many steps as anybody: the next round begins after these */
    const uint64_t made = s->open ? s->made.steps + (w->now.n > w->calls) : 0;
    const uint64_t most = yk__sgd_most(s, s->answer.news.steps + made);
    return w->next.n < most ? (size_t)(most - w->next.n) : 0;
}

yk_status yk__sgd_shards_announce(yk__sgd *s, int me, const yk_batch *batch)
{
    yk__sgd_worker *w = &s->worker[me];
    w->exhausted = batch->n == 0;
    if (w->exhausted || !s->keyed)
        return YK_OK;
    size_t *grown = yk_grow(w->next.index, &w->next.cap, w->next.n + 1, sizeof *grown, "announced batches");
    if (!grown)
        return YK_ESYSTEM;
    w->next.index = grown;
    return yk_remote_add(s->config.remote, 0, me, batch, w->cursor, &w->next.index[w->next.n++]);
}

yk_batch yk__sgd_shards_batch(yk__sgd *s, int me)
{
    yk__sgd_worker *w = &s->worker[me];
    if (is_stopped(s))
        return (yk_batch){0};
    if (s->keyed)
        return w->calls < w->now.n ? yk_remote_batch(&s->answer, w->now.index[w->calls]) : (yk_batch){0};
    if (!w->announced || !w->has)
        return (yk_batch){0};
    w->announced = false;
    yk_remote_share(s->config.remote, 0, me, w->cursor);
    return w->batch;
}

bool yk__sgd_shards_over(const yk__sgd *s)
{
    bool any = false;
    for (int i = 0; i < s->config.workers; i++) {
        const yk__sgd_worker *w = &s->worker[i];
        any |= s->keyed ? w->calls < w->now.n : w->announced && w->has;
    }
    return !any || is_stopped(s);
}

/* ---- rounds ---- */

/* Without keyed groups: the first batch of a round is what the parameters are asked for. */
static yk_status ask_dense(yk__sgd *s)
{
    yk_status st = YK_OK;
    size_t index;
    for (int i = 0; !st && !s->keyed && i < s->config.workers; i++)
        if (s->worker[i].announced && s->worker[i].has)
            st = yk_remote_add(s->config.remote, 0, i, &s->worker[i].batch, s->worker[i].cursor, &index);
    return st;
}

yk_status yk__sgd_shards_begin(yk__sgd *s)
{
    yk_remote *r = s->config.remote;
    const bool asks = s->answer.batches == 0 && yk_remote_under_way(r, 0) == 0;
    yk_status st = asks ? ask_dense(s) : YK_OK;
    if (!st && asks && yk_remote_added(r, 0) > 0)
        st = yk_remote_ask(r, 0);
    yk_phase_to(s->config.phases, YK_PHASE_PARAMETERS);
    if (!st && yk_remote_under_way(r, 0) > 0)
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
    s->most = yk__sgd_most(s, s->answer.news.steps);
    if (s->keyed) { /* announced for another step than it turned out to be: all of it is used */
        size_t longest = 0;
        for (int i = 0; i < s->config.workers; i++)
            longest = s->worker[i].now.n > longest ? s->worker[i].now.n : longest;
        s->most = stop ? 0 : longest;
    }
    if (!values || (st = yk_delta_make_copy(&s->config.copy, s->answer.keys, &s->copy, &s->room)))
        return st;
    for (int g = 0; g < yk_local_groups(s->copy); g++) {
        const yk_group *group = yk_local_group_of(s->copy, g);
        yk_delta_begin(s->copy, g, group->keyed ? s->answer.keys : (size_t)group->keys, s->answer.value[g],
                       s->answer.news.steps);
    }
    yk_local_restore(s->copy, s->answer.news.steps);
    return YK_OK;
}

yk_status yk__sgd_shards_end(yk__sgd *s)
{
    yk_remote *r = s->config.remote;
    yk__made *m = &s->made;
    yk_status st = YK_OK;
    yk_phase_to(s->config.phases, YK_PHASE_APPLY);
    const uint64_t most = yk__sgd_most(s, s->answer.news.steps);
    m->steps = m->steps < most ? m->steps : most; /* do not skip an evaluation or checkpoint */
    for (int g = 0; m->examples && g < yk_local_groups(s->copy); g++) {
        const yk_group *group = yk_local_group_of(s->copy, g);
        yk_delta_take(s->copy, g, NULL, group->keyed ? s->answer.keys : (size_t)group->keys, NULL,
                      s->answer.value[g]);
    }
    s->result = (yk_step_result){.examples = m->examples, .loss = m->loss, .steps = m->steps};
    yk_phase_to(s->config.phases, YK_PHASE_SENDING);
    if (!m->examples && !s->config.lockstep) {
        yk_remote_rest(r, 0, s->config.workers, &s->result);
    } else {
        yk_remote_pushed p = {.steps = m->steps,
                              .examples = m->examples,
                              .loss = m->loss,
                              .round = s->answer.news.round,
                              .share = s->share};
        for (int g = 0; g < YK_MAX_GROUPS; g++)
            p.value[g] = s->answer.value[g];
        if (!(st = ask_dense(s)))
            st = yk_remote_push(r, 0, &p);
        s->answer.batches = 0;
        if (!st && s->config.lockstep) {
            const uint64_t before = s->answer.news.steps;
            yk_phase_to(s->config.phases, YK_PHASE_WORKERS);
            st = yk_remote_await(r, 0, &s->answer);
            s->result.examples = s->answer.news.examples;
            s->result.loss = s->answer.news.loss;
            s->result.steps = s->answer.news.steps - before;
        }
    }
    if (s->answer.news.stop)
        s->result.word = YK_WORD_STOP;
    s->result.over |= s->answer.news.stop || yk_remote_leaves(r);
    for (int i = 0; i < s->config.workers; i++)
        yk_remote_idle(r, i, s->result.pending);
    return st;
}

yk_status yk__sgd_shards_leave(yk__sgd *s)
{
    yk_remote_answer unused;
    yk_status st = YK_OK;
    while (!st && yk_remote_under_way(s->config.remote, 0) > 0)
        st = yk_remote_await(s->config.remote, 0, &unused);
    return st ? st : yk_remote_leave(s->config.remote, 0);
}
