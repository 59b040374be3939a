/* Rounds on copies. A copy has all parameters of a dense group, but only those keys of a keyed group that the batches of the round
 * use; these batches are announced before the round begins. Without keyed groups, only the first batch is announced in advance,
 * to know that there is one; each of the others is announced when it is needed. */
#include "store/shards_internal.h"

#include <math.h>
#include <string.h>

yk_status yk__copies_create(yk__shards *s)
{
    yk_local_config *copy = &s->config.whole;
    yk_status st = YK_OK;
    for (int g = 0; s->config.scaled && g < copy->ngroups; g++) {
        yk_optim_config *o = &copy->group[g].optim;
        if (!s->config.bounded)
            *o = yk_optim_without_velocity(o);
        if (yk_optim_rule_of(o->kind)->plain)
            o->l1 = o->l2 = 0.0; /* the servers apply it */
    }
    for (int i = 0; !st && i < s->nchannels; i++) {
        yk__channel *c = &s->channel[i];
        if (s->config.chunks)
            st = yk_merger_init(&c->scratch, 1024);
        if (!st && !s->keyed)
            st = yk_copy_make(copy, 1, &c->local, &c->capacity);
    }
    return st;
}

/* ---- batches ---- */

/* The maximum number of steps of a round that begins with this step. If some processes do not take part in a round, its first
 * step is only an estimate until it begins. */
static uint64_t max_steps(const yk__shards *s, uint64_t step)
{
    const uint64_t h = s->config.steps;
    if (!s->config.until_due)
        return h;
    const uint64_t due = s->config.until_due(s->config.context, step), max = due < h ? due : h;
    return max || s->rounds ? max : 1;
}

/* T (shards.h), as the last answer says. Before the first one, only one step will be taken with a copy. */
static int copies_in_flight(const yk__shards *s, const yk__channel *c)
{
    const int workers = c->answer.status.workers;
    return (workers > 1 ? workers : 1) * s->config.depth;
}

/* The batches of this thread in the next round. */
static size_t batches_of_next(const yk__shards *s, const yk__channel *c, const yk__shards_worker *w)
{
    /* a process that has batches left is not behind the others: the next round begins after its steps */
    const uint64_t steps = c->answer.status.steps + (c->open ? c->pushed.steps + (w->n > w->calls) : 0);
    const uint64_t max = max_steps(s, steps);
    if (!s->config.scaled || s->config.bounded)
        return (size_t)max;
    const uint64_t young = c->answer.status.steps / (YK_COPY_AGE * (uint64_t)copies_in_flight(s, c));
    return (size_t)(young < 1 ? 1 : young < max ? young : max);
}

/* Batches are requested during the last step of a round, or before the first round. */
size_t yk__copies_wants(const yk_store *store, int me)
{
    const yk__shards *s = (const yk__shards *)(const void *)store;
    const yk__channel *c = yk__channel_of(s, me);
    const yk__shards_worker *w = &s->worker[me];
    const yk_remote *r = s->config.remote;
    if (!s->keyed)
        return !w->exhausted && !w->announced;
    const size_t added = yk_remote_added_by(r, c->first, me);
    const int in_flight = yk_remote_outstanding(r, c->first) + (!c->open && c->answer.batches > 0);
    if (w->exhausted || (w->held && added > 0) || (c->open && w->calls + 1 < c->max) ||
        in_flight >= s->config.depth)
        return 0;
    const size_t max = added && s->config.scaled ? w->target : batches_of_next(s, c, w);
    return added < max ? max - added : 0;
}

static yk_status add(yk__shards *s, int me, const yk_chunk *chunk)
{
    const yk__shards_worker *w = &s->worker[me];
    return yk_remote_add(s->config.remote, yk__channel_of(s, me)->first, me, &w->batch, chunk,
                         w->target == s->config.steps, w->cursor);
}

/* Adds a batch of a chunk to the next request. A batch of another chunk is held back until that request was sent. */
static yk_status add_to_chunk(yk__shards *s, int me)
{
    yk__shards_worker *w = &s->worker[me];
    yk__channel *c = yk__channel_of(s, me);
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
static yk_status add_rest(yk__shards *s, yk__channel *c)
{
    yk_status st = YK_OK;
    for (int i = c->first; !st && i < c->end; i++) {
        yk__shards_worker *w = &s->worker[i];
        if (w->held && yk_remote_added(s->config.remote, c->first) == 0) {
            w->target = batches_of_next(s, c, w);
            st = add_to_chunk(s, i);
        } else if (!s->keyed && w->announced && w->batch.n) {
            st = add(s, i, NULL);
        }
    }
    return st;
}

yk_status yk__copies_announce(yk_store *store, int me, const yk_batch *batch,
                              const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__shards *s = yk__shards_of(store);
    yk__shards_worker *w = &s->worker[me];
    yk__channel *c = yk__channel_of(s, me);
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
    /* prefetching: the next request cannot wait; otherwise it is sent with the delta, or by begin_round() */
    return !st && s->config.depth > 1 && complete && !c->open ? yk_remote_pull(r, c->first) : st;
}

/* Whether the thread has a batch for the next step of the round. */
static bool has_batch(const yk__shards *s, const yk__shards_worker *w)
{
    return s->keyed ? w->calls < w->n : w->announced && w->batch.n;
}

static yk_batch next_batch(yk__shards *s, const yk__channel *c, int me)
{
    yk__shards_worker *w = &s->worker[me];
    if (yk__channel_stopped(s, c) || !has_batch(s, w))
        return (yk_batch){0};
    if (s->keyed)
        return yk_remote_batch(&c->answer, me - c->first, w->at++);
    w->announced = false;
    yk_remote_count_batch(s->config.remote, c->first, me, w->cursor);
    return w->batch;
}

/* ---- rounds ---- */

static yk_status begin_round(yk__shards *s, yk__channel *c)
{
    yk_phases *phases = yk_phases_of(s->config.phases, c->first);
    const bool waits = c->answer.batches == 0;
    yk_status st = waits && yk_remote_outstanding(s->config.remote, c->first) == 0 ? add_rest(s, c) : YK_OK;
    yk_phase_to(phases, YK_PHASE_PARAMETERS);
    if (!st && waits)
        st = yk__shards_await(s, c);
    yk_phase_to(phases, YK_PHASE_APPLY);
    const bool values = c->answer.batches > 0 && !st && !yk__channel_stopped(s, c);
    c->open = true;
    c->pushed = (yk_remote_pushed){.share = c->share};
    c->max = s->keyed ? 0 : max_steps(s, c->answer.status.steps);
    for (int i = c->first; i < c->end; i++) {
        yk__shards_worker *w = &s->worker[i];
        /* the first step may differ from the estimate: all announced batches are used */
        w->n = values && s->keyed ? yk_remote_batches(&c->answer, i - c->first) : 0;
        w->at = 0;
        w->calls = c->share[i - c->first] = 0;
        c->max = w->n > c->max ? w->n : c->max;
    }
    if (!values || (st = yk_copy_make(&s->config.whole, c->answer.keys, &c->local, &c->capacity)))
        return st;
    yk_copy_begin(c->local, c->answer.keys, c->answer.value, c->answer.status.steps);
    yk_local_set_reductions(c->local, c->answer.status.reductions);
    return YK_OK;
}

yk_status yk__copies_pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    yk__shards *s = yk__shards_of(store);
    yk__channel *c = yk__channel_of(s, me);
    yk_status st = c->open ? YK_OK : yk__shards_once(s, me, begin_round);
    if (st)
        return st;
    *batch_out = next_batch(s, c, me);
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY); /* lazy decay of the batch's weights */
    if (!c->local) {                                                 /* no thread has a batch */
        memset(view_out, 0, (size_t)s->config.whole.ngroups * sizeof *view_out);
        return YK_OK;
    }
    return yk_local_pull(c->local, me - c->first, batch_out, view_out);
}

yk_status yk__copies_push(yk_store *store, int me, const yk_grad *g)
{
    yk__channel *c = yk__channel_of(yk__shards_of(store), me);
    c->share[me - c->first] += g->examples;
    return c->local ? yk_local_push(c->local, me - c->first, g) : YK_OK;
}

/* Scales the delta to the share that is sent. The copy has its old state again. */
static void scale(const yk__shards *s, const yk__channel *c)
{
    const yk_chunk *keys = c->answer.chunk;
    /* the sums of a chunk are over all of its examples, which are usually those of the copy */
    const double norm = keys->squares_sum / fmax(1.0, (double)c->pushed.examples);
    const float one = (float)(keys->squares_sum / fmax(1.0, (double)keys->entries));
    const yk_view old = yk_local_raw(c->local, 0).live;
    const yk_optim_share share = {.squares = keys->squares,
                                  .times = 1.0f,
                                  .less = one,
                                  .one = one,
                                  .moves =
                                      (float)(YK_CURVATURE * pow(norm, 0.75) / (double)s->config.whole.batch),
                                  .steps = (float)c->pushed.steps,
                                  .workers = copies_in_flight(s, c),
                                  .state = {old.s[0], old.s[1]}};
    yk_optim_config optim = s->config.whole.group[0].optim;
    optim.reductions = c->answer.status.reductions;
    const yk_optim_step o = yk_optim_at(&optim, c->answer.status.steps);
    yk_local_rule(c->local, 0)->scale(&share, 0, c->answer.keys, c->answer.value[0], c->answer.keys, &o);
}

/* Ends a round. */
static yk_status merge(yk__shards *s, yk__channel *c)
{
    yk_phases *phases = yk_phases_of(s->config.phases, c->first);
    yk_remote_pushed *p = &c->pushed;
    const uint64_t max = max_steps(s, c->answer.status.steps);
    yk_status st = YK_OK;
    c->open = false;
    yk_phase_to(phases, YK_PHASE_APPLY);
    if (p->examples) {
        yk_copy_end(c->local, c->answer.keys, c->answer.value);
        if (s->config.scaled)
            scale(s, c);
    }
    p->steps = p->steps < max ? p->steps : max; /* do not skip an evaluation or checkpoint */
    p->round = c->answer.status.round;
    p->reductions = c->answer.status.reductions;
    yk_phase_to(phases, YK_PHASE_SENDING);
    if ((c->sends = p->examples || s->rounds)) {
        memcpy(p->value, c->answer.value, sizeof p->value);
        if (!(st = add_rest(s, c)))
            st = yk_remote_push(s->config.remote, c->first, p);
        c->answer.batches = 0;
    }
    if (s->rounds)
        yk_phase_to(phases, YK_PHASE_WORKERS);
    return st ? st : yk__shards_end_step(s, c);
}

/* After a step of all threads of a copy. */
static yk_status count_step(yk__shards *s, yk__channel *c)
{
    bool more = false;
    for (int i = c->first; i < c->end; i++)
        more |= has_batch(s, &s->worker[i]);
    c->result = (yk_step_result){.pending = true};
    if (s->worker[c->first].calls < c->max && more && !yk__channel_stopped(s, c))
        return YK_OK;
    yk_status st = merge(s, c);
    for (int i = c->first; c->result.examples == 0 && i < c->end; i++)
        s->worker[i].exhausted = s->worker[i].announced = false; /* ask the feed again */
    return st;
}

yk_status yk__copies_clock(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk__shards *s = yk__shards_of(store);
    yk__channel *c = yk__channel_of(s, me);
    yk_step_result one = {0};
    (void)action; /* the chief decides */
    yk_status st = c->local ? yk_local_clock(c->local, me - c->first, &one) : YK_OK;
    s->worker[me].calls++;
    if (!st && me == c->first) {
        c->pushed.steps += one.steps;
        c->pushed.examples += one.examples;
        c->pushed.loss += one.loss;
    }
    const uint64_t own = c->share[me - c->first];
    if (!st)
        st = yk__shards_once(s, me, count_step);
    *out = c->result;
    out->own = own;
    return st;
}
