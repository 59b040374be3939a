/* Rounds on shards. A copy has all parameters of a dense group, but only those keys of a keyed group that the batches of the round
 * use; these batches are announced before the round begins. Without keyed groups, only the first batch is announced in advance,
 * to know that there is one; each of the others is announced when it is needed. */
#include "store/copies_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_AGE = 64 }; /* copies.h */

static yk_status create(yk__copies *s)
{
    yk_local_config *copy = &s->config.copy;
    yk_status st = YK_OK;
    for (int g = 0; g < copy->ngroups; g++) {
        yk_optim_config *o = &copy->group[g].optim;
        s->keyed |= copy->group[g].shape.keyed;
        if (s->config.scaled && !s->config.bounded)
            *o = yk_optim_without_velocity(o);
        if (s->config.scaled && yk_optim_rule_of(o->kind)->plain)
            o->l1 = o->l2 = 0.0; /* the servers apply it */
    }
    for (int i = 0; !st && i < (s->config.joint ? 1 : s->config.workers); i++) {
        s->copy[i].answer.status.steps = s->config.first_step;
        if (s->config.chunks)
            st = yk_merger_init(&s->copy[i].scratch, 1024);
        if (!st && !s->keyed)
            st = yk_copy_make(copy, 1, &s->copy[i].local, &s->copy[i].capacity);
    }
    return st;
}

static void free_all(yk__copies *s)
{
    for (int i = 0; i < s->config.workers; i++)
        free(s->worker[i].held_pick);
    for (int i = 0; i < (s->config.joint ? 1 : s->config.workers); i++) {
        yk_local_free(s->copy[i].local);
        yk_merger_fini(&s->copy[i].scratch);
    }
}

/* ---- batches ---- */

/* The job ends: no more training. In lockstep, the end of a round reports it. */
static bool is_stopped(const yk__copies *s, const yk__copy *c)
{
    return c->answer.status.stop && !s->config.lockstep;
}

/* T (copies.h), as the last answer says. Before the first one, only one step will be taken with a copy. */
static int copies_in_flight(const yk__copies *s, const yk__copy *c)
{
    const int workers = c->answer.status.workers;
    return (workers > 1 ? workers : 1) * s->config.depth;
}

/* The batches of this thread in the next round. */
static size_t batches_of_next(const yk__copies *s, const yk__copy *c, const yk__copy_worker *w)
{
    /* a process that has batches left is not behind the others: the next round begins after its steps */
    const uint64_t steps = c->answer.status.steps + (c->open ? c->totals.steps + (w->n > w->calls) : 0);
    const uint64_t max = yk__max_steps(s, steps);
    if (!s->config.scaled || s->config.bounded)
        return (size_t)max;
    const uint64_t young = c->answer.status.steps / (COPY_AGE * (uint64_t)copies_in_flight(s, c));
    return (size_t)(young < 1 ? 1 : young < max ? young : max);
}

/* Batches are requested during the last step of a round, or before the first round. */
static size_t wants(const yk__copies *s, int me)
{
    const yk__copy *c = yk__copy_of(s, me);
    const yk__copy_worker *w = &s->worker[me];
    const yk_remote *r = s->config.remote;
    const size_t added = yk_remote_added_by(r, c->first, me);
    const int in_flight = yk_remote_outstanding(r, c->first) + (!c->open && c->answer.batches > 0);
    if (w->exhausted || (w->held && added > 0) || (c->open && w->calls + 1 < c->max) ||
        in_flight >= s->config.depth)
        return 0;
    const size_t max = added && s->config.scaled ? w->target : batches_of_next(s, c, w);
    return added < max ? max - added : 0;
}

static yk_status add(yk__copies *s, int me, const yk_chunk *chunk)
{
    const yk__copy_worker *w = &s->worker[me];
    return yk_remote_add(s->config.remote, yk__copy_of(s, me)->first, me, &w->batch, chunk,
                         w->target == s->config.steps, w->cursor);
}

/* Adds a batch of a chunk to the next request. A batch of another chunk is held back until that request was sent. */
static yk_status add_to_chunk(yk__copies *s, int me)
{
    yk__copy_worker *w = &s->worker[me];
    yk__copy *c = yk__copy_of(s, me);
    const yk_chunk *chunk;
    yk_status st = yk_chunks_get(s->config.chunks, w->batch.pick[0], &c->scratch, &chunk);
    if (st)
        return st;
    w->held = yk_remote_added(s->config.remote, me) > 0 && chunk != c->chunk;
    if (!w->held) {
        c->chunk = chunk;
        return add(s, me, chunk);
    }
    if (YK_RESERVE(w->held_pick, w->held_cap, w->batch.n, "a batch"))
        return YK_ESYSTEM;
    memcpy(w->held_pick, w->batch.pick, w->batch.n * sizeof *w->held_pick);
    w->batch.pick = w->held_pick;
    return YK_OK;
}

/* Adds the batch that was held back, if the next request is empty, or, without keyed groups, the first batch of the round. */
static yk_status add_rest(yk__copies *s, yk__copy *c)
{
    yk_status st = YK_OK;
    for (int i = c->first; !st && i < c->end; i++) {
        yk__copy_worker *w = &s->worker[i];
        if (w->held && yk_remote_added(s->config.remote, c->first) == 0) {
            w->target = batches_of_next(s, c, w);
            st = add_to_chunk(s, i);
        } else if (!s->keyed && w->announced && w->batch.n) {
            st = add(s, i, NULL);
        }
    }
    return st;
}

static yk_status announce(yk__copies *s, int me, const yk_batch *batch, const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__copy_worker *w = &s->worker[me];
    yk__copy *c = yk__copy_of(s, me);
    yk_remote *r = s->config.remote;
    yk_status st = w->held ? add_rest(s, c) : YK_OK;
    w->batch = *batch;
    w->announced = true;
    w->exhausted = batch->n == 0;
    memcpy(w->cursor, cursor, sizeof w->cursor);
    if (st || !s->keyed)
        return st;
    if (yk_remote_added_by(r, c->first, me) == 0)
        w->target = batches_of_next(s, c, w);
    if (!w->exhausted)
        st = s->config.chunks ? add_to_chunk(s, me) : add(s, me, NULL);
    const size_t added = yk_remote_added(r, c->first);
    const bool complete = added == w->target || (added > 0 && (w->exhausted || w->held));
    /* prefetching: the next request cannot wait; otherwise it is sent with the delta, or by begin() */
    return !st && s->config.depth > 1 && complete && !c->open ? yk_remote_pull(r, c->first) : st;
}

static yk_batch batch_of(yk__copies *s, int me)
{
    yk__copy_worker *w = &s->worker[me];
    const yk__copy *c = yk__copy_of(s, me);
    if (is_stopped(s, c) || (s->keyed ? w->calls >= w->n : !w->announced || !w->batch.n))
        return (yk_batch){0};
    if (s->keyed)
        return yk_remote_batch(&c->answer, me - c->first, w->at++);
    w->announced = false;
    yk_remote_count_batch(s->config.remote, c->first, me, w->cursor);
    return w->batch;
}

static bool done(const yk__copies *s, const yk__copy *c)
{
    bool any = false;
    for (int i = c->first; i < c->end; i++) {
        const yk__copy_worker *w = &s->worker[i];
        any |= s->keyed ? w->calls < w->n : w->announced && w->batch.n;
    }
    return !any || is_stopped(s, c);
}

/* ---- rounds ---- */

static yk_status begin(yk__copies *s, yk__copy *c)
{
    yk_remote *r = s->config.remote;
    yk_phases *phases = yk_phases_of(s->config.phases, c->first);
    const bool waits = c->answer.batches == 0;
    yk_status st = waits && yk_remote_outstanding(r, c->first) == 0 ? add_rest(s, c) : YK_OK;
    if (!st && waits && yk_remote_outstanding(r, c->first) == 0 && yk_remote_added(r, c->first) > 0)
        st = yk_remote_pull(r, c->first);
    yk_phase_to(phases, YK_PHASE_PARAMETERS);
    if (!st && waits && yk_remote_outstanding(r, c->first) > 0)
        st = yk_remote_await(r, c->first, &c->answer);
    yk_phase_to(phases, YK_PHASE_APPLY);
    const bool stop = is_stopped(s, c), values = c->answer.batches > 0 && !st && !stop;
    c->max = s->keyed ? 0 : yk__max_steps(s, c->answer.status.steps);
    for (int i = c->first; i < c->end; i++) {
        /* the first step may differ from the estimate: all announced batches are used */
        const size_t n = values && s->keyed ? yk_remote_batches(&c->answer, i - c->first) : 0;
        s->worker[i].n = n;
        s->worker[i].at = 0;
        c->max = n > c->max ? n : c->max;
    }
    if (!values || (st = yk_copy_make(&s->config.copy, c->answer.keys, &c->local, &c->capacity)))
        return st;
    yk_copy_begin(c->local, c->answer.keys, c->answer.value, c->answer.status.steps);
    return YK_OK;
}

/* Scales the delta to the share that is sent. The copy has its old state again. */
static void scale(const yk__copies *s, const yk__copy *c)
{
    const yk_chunk *keys = c->answer.chunk;
    /* the sums of a chunk are over all of its examples, which are usually those of the copy */
    const double norm = keys->squares_sum / fmax(1.0, (double)c->totals.examples);
    const float one = (float)(keys->squares_sum / fmax(1.0, (double)keys->entries));
    const yk_view old = yk_local_raw(c->local, 0).live;
    const yk_optim_share share = {.squares = keys->squares,
                                  .times = 1.0f,
                                  .less = one,
                                  .one = one,
                                  .moves =
                                      (float)(YK_CURVATURE * pow(norm, 0.75) / (double)s->config.copy.batch),
                                  .steps = (float)c->totals.steps,
                                  .workers = copies_in_flight(s, c),
                                  .state = {old.s[0], old.s[1]}};
    const yk_optim_step o = yk_optim_at(&s->config.copy.group[0].optim, c->answer.status.steps);
    yk_local_rule(c->local, 0)->scale(&share, 0, c->answer.keys, c->answer.value[0], c->answer.keys, &o);
}

static yk_status merge(yk__copies *s, yk__copy *c)
{
    yk_remote *r = s->config.remote;
    yk_phases *phases = yk_phases_of(s->config.phases, c->first);
    yk_status st = YK_OK;
    yk_phase_to(phases, YK_PHASE_APPLY);
    const uint64_t max = yk__max_steps(s, c->answer.status.steps);
    const uint64_t steps =
        c->totals.steps < max ? c->totals.steps : max; /* do not skip an evaluation or checkpoint */
    if (c->totals.examples) {
        yk_copy_end(c->local, c->answer.keys, c->answer.value);
        if (s->config.scaled)
            scale(s, c);
    }
    c->result = (yk_step_result){.examples = c->totals.examples, .loss = c->totals.loss, .steps = steps};
    yk_phase_to(phases, YK_PHASE_SENDING);
    if (!c->totals.examples && !s->config.lockstep) {
        yk_remote_out_of_examples(r, c->first, c->end, &c->result);
    } else {
        yk_remote_pushed p = {.steps = steps,
                              .examples = c->totals.examples,
                              .loss = c->totals.loss,
                              .round = c->answer.status.round,
                              .share = s->share + c->first};
        memcpy(p.value, c->answer.value, sizeof p.value);
        if (!(st = add_rest(s, c)))
            st = yk_remote_push(r, c->first, &p);
        c->answer.batches = 0;
        if (!st && s->config.lockstep) {
            yk_phase_to(phases, YK_PHASE_WORKERS);
            const uint64_t before = c->answer.status.steps;
            st = yk_remote_await(r, c->first, &c->answer);
            c->result.examples = c->answer.status.examples;
            c->result.loss = c->answer.status.loss;
            c->result.steps = c->answer.status.steps - before;
        }
    }
    yk_remote_end_step(r, c->first, c->end, c->answer.status.stop, &c->result);
    return st;
}

static yk_status leave(yk__copies *s, yk__copy *c)
{
    return yk_remote_leave(s->config.remote, c->first);
}

const yk__copies_ops yk__copies_of_shards = {.create = create,
                                             .free = free_all,
                                             .wants = wants,
                                             .announce = announce,
                                             .batch = batch_of,
                                             .begin = begin,
                                             .done = done,
                                             .merge = merge,
                                             .leave = leave};
