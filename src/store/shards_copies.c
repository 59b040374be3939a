/* Rounds on copies. A copy has all parameters of a dense group, but only those keys of a keyed group that the batches of the round
 * use; these batches are announced before the round begins. Without keyed groups, only the first batch is announced in advance,
 * to know that there is one; each of the others is announced when it is needed. */
#include "store/shards_internal.h"

#include <math.h>
#include <string.h>

yk_status yk__copies_create(yk_shards *s)
{
    yk_local_config *copy = &s->whole;
    yk_status st = YK_OK;
    for (int g = 0; s->plan->copy_lifetime && g < copy->ngroups; g++) {
        yk_optim_config *o = &copy->group[g].optim;
        if (s->plan->staleness == YK_ASYNC)
            *o = yk_optim_without_velocity(o);
        if (yk_optim_rule_of(o->kind)->plain)
            o->l1 = o->l2 = 0.0; /* the servers apply it */
    }
    for (int i = 0; !st && i < s->plan->channels; i++) {
        yk__channel *c = &s->channel[i];
        if (!s->owners[0].n)
            st = yk_copy_make(copy, 1, &c->local, &c->capacity);
    }
    return st;
}

/* ---- batches ---- */

/* The maximum number of steps of a round that begins with this step. If some processes do not take part in a round, its first
 * step is only an estimate until it begins. */
static uint64_t max_steps(const yk_shards *s, uint64_t step)
{
    const uint64_t h = s->copy_steps;
    if (!s->plan->synchronous)
        return h;
    const uint64_t due = s->whole.until_due(s->whole.context, step), max = due < h ? due : h;
    return max || s->plan->lockstep ? max : 1;
}

/* T (shards.h), as the last answer says. Before the first one, only one step will be taken with a copy. */
static int copies_in_flight(const yk_shards *s, const yk__channel *c)
{
    const int workers = (int)c->status.workers;
    return (workers > 1 ? workers : 1) * s->plan->depth;
}

/* The batches of this thread in the next round. */
static size_t batches_of_next(const yk_shards *s, const yk__channel *c, const yk__thread *w)
{
    /* a process that has batches left is not behind the others: the next round begins after its steps */
    const uint64_t steps = c->status.steps + (c->training ? c->totals.steps + (w->n > w->calls) : 0);
    const uint64_t max = max_steps(s, steps);
    if (!s->plan->copy_lifetime || s->plan->staleness != YK_ASYNC)
        return (size_t)max;
    const uint64_t young = c->status.steps / (YK_COPY_AGE * (uint64_t)copies_in_flight(s, c));
    return (size_t)(young < 1 ? 1 : young < max ? young : max);
}

/* Batches are requested during the last step of a round, or before the first round. */
size_t yk__copies_wants(const yk_store *store, int me)
{
    const yk_shards *s = (const yk_shards *)(const void *)store;
    const yk__channel *c = yk__channel_of(s, me);
    const yk__thread *w = &s->thread[me];
    if (!s->owners[0].n)
        return !w->exhausted && !w->announced;
    const size_t added = yk__shards_added_by(c, me);
    const int in_flight = yk__outstanding(c) + (!c->training && c->answered);
    if (w->exhausted || (w->held && added > 0) || (c->training && w->calls + 1 < c->max) ||
        in_flight >= s->plan->depth)
        return 0;
    const size_t max = added && s->plan->copy_lifetime ? w->target : batches_of_next(s, c, w);
    return added < max ? max - added : 0;
}

static yk_status add(yk_shards *s, int me, const yk_chunk *chunk)
{
    const yk__thread *w = &s->thread[me];
    return yk__shards_add(s, me, &w->batch, chunk, w->target == s->copy_steps, w->cursor);
}

/* Adds a batch of a chunk to the next request. A batch of another chunk is held back until that request was sent. */
static yk_status add_to_chunk(yk_shards *s, int me)
{
    yk__thread *w = &s->thread[me];
    yk__channel *c = yk__channel_of(s, me);
    const yk_chunk *chunk = yk_chunks_get(s->chunks, w->batch.pick[0]);
    w->held = yk__shards_added(c) > 0 && chunk != c->next_chunk;
    if (!w->held) {
        c->next_chunk = chunk;
        return add(s, me, chunk);
    }
    if (YK_RESERVE(w->held_pick, w->held_cap, w->batch.n, "a batch"))
        return YK_ESYSTEM;
    memcpy(w->held_pick, w->batch.pick, w->batch.n * sizeof *w->held_pick);
    w->batch.pick = w->held_pick;
    return YK_OK;
}

/* Adds the batch that was held back, if the next request is empty, or, without keyed groups, the first batch of the round. */
static yk_status add_rest(yk_shards *s, yk__channel *c)
{
    yk_status st = YK_OK;
    for (int i = c->first; !st && i < c->end; i++) {
        yk__thread *w = &s->thread[i];
        if (w->held && yk__shards_added(c) == 0) {
            w->target = batches_of_next(s, c, w);
            st = add_to_chunk(s, i);
        } else if (!s->owners[0].n && w->announced && w->batch.n) {
            st = add(s, i, NULL);
        }
    }
    return st;
}

yk_status yk__copies_announce(yk_store *store, int me, const yk_batch *batch,
                              const uint64_t cursor[YK_CURSOR_SIZE])
{
    yk_shards *s = yk__shards_of(store);
    yk__thread *w = &s->thread[me];
    yk__channel *c = yk__channel_of(s, me);
    yk_status st = w->held ? add_rest(s, c) : YK_OK;
    w->batch = *batch;
    w->announced = true;
    w->exhausted = batch->n == 0;
    memcpy(w->cursor, cursor, sizeof w->cursor);
    if (st || !s->owners[0].n)
        return st;
    if (yk__shards_added_by(c, me) == 0)
        w->target = batches_of_next(s, c, w);
    if (!w->exhausted)
        st = s->chunks ? add_to_chunk(s, me) : add(s, me, NULL);
    const size_t added = yk__shards_added(c);
    const bool complete = added == w->target || (added > 0 && (w->exhausted || w->held));
    /* prefetching: the next request cannot wait; otherwise it is sent with the delta, or by begin_round() */
    return !st && s->plan->depth > 1 && complete && !c->training ? yk__shards_pull(s, c) : st;
}

/* Whether the thread has a batch for the next step of the round. */
static bool has_batch(const yk_shards *s, const yk__thread *w)
{
    return s->owners[0].n ? w->calls < w->n : w->announced && w->batch.n;
}

static yk_batch next_batch(yk_shards *s, const yk__channel *c, int me)
{
    yk__thread *w = &s->thread[me];
    if (yk__channel_stopped(s, c) || !has_batch(s, w))
        return (yk_batch){0};
    if (s->owners[0].n)
        return yk__shards_batch(c, me, w->at++);
    w->announced = false;
    yk__shards_count_batch(s, c->current, me, w->cursor);
    return w->batch;
}

/* ---- rounds ---- */

static yk_status begin_round(yk_shards *s, yk__channel *c)
{
    yk_phases *phases = yk_phases_of(s->config.phases, c->first);
    yk_status st = !c->answered && yk__outstanding(c) == 0 ? add_rest(s, c) : YK_OK;
    yk_phase_to(phases, YK_PHASE_PARAMETERS);
    if (!st && !c->answered)
        st = yk__shards_ask(s, c);
    yk_phase_to(phases, YK_PHASE_APPLY);
    const bool values = c->answered && !st && !yk__channel_stopped(s, c);
    c->training = true;
    c->totals = (yk__up){0};
    c->max = s->owners[0].n ? 0 : max_steps(s, c->status.steps);
    for (int i = c->first; i < c->end; i++) {
        yk__thread *w = &s->thread[i];
        /* the first step may differ from the estimate: all announced batches are used */
        w->n = values && s->owners[0].n ? c->current->part[i - c->first].batches : 0;
        w->at = 0;
        w->calls = c->share[i - c->first] = 0;
        c->max = w->n > c->max ? w->n : c->max;
    }
    const size_t keys = yk__keys_of(c);
    if (!values || (st = yk_copy_make(&s->whole, keys, &c->local, &c->capacity)))
        return st;
    yk_copy_begin(c->local, keys, c->current->value, c->status.steps);
    yk_local_set_reductions(c->local, yk__reductions_of(c->status.flags));
    return YK_OK;
}

yk_status yk__copies_pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out)
{
    yk_shards *s = yk__shards_of(store);
    yk__channel *c = yk__channel_of(s, me);
    yk_status st = c->training ? YK_OK : yk__shards_once(s, me, begin_round);
    if (st)
        return st;
    *batch_out = next_batch(s, c, me);
    yk_phase_to(yk_phases_of(s->config.phases, me), YK_PHASE_APPLY); /* lazy decay of the batch's weights */
    if (!c->local) {                                                 /* no thread has a batch */
        memset(view_out, 0, (size_t)s->plan->ngroups * sizeof *view_out);
        return YK_OK;
    }
    yk_store *copy = yk_local_store(c->local);
    st = copy->ops->announce(copy, me - c->first, batch_out, s->thread[me].cursor);
    return st ? st : copy->ops->pull(copy, me - c->first, batch_out, view_out);
}

yk_status yk__copies_push(yk_store *store, int me, const yk_grad *g)
{
    yk__channel *c = yk__channel_of(yk__shards_of(store), me);
    yk_store *copy = c->local ? yk_local_store(c->local) : NULL;
    c->share[me - c->first] += g->examples;
    return copy ? copy->ops->push(copy, me - c->first, g) : YK_OK;
}

/* Scales the delta to the share that is sent. The copy has its old state again. */
static void scale(const yk_shards *s, const yk__channel *c)
{
    const yk_chunk *keys = c->current->keys;
    /* the sums of a chunk are over all of its examples, which are usually those of the copy */
    const double norm = keys->squares_sum / fmax(1.0, (double)c->totals.examples);
    const float one = (float)(keys->squares_sum / fmax(1.0, (double)keys->entries));
    const yk_local_state old = yk_local_raw(c->local, 0);
    const yk_optim_share share = {.squares = keys->squares,
                                  .times = 1.0f,
                                  .less = one,
                                  .one = one,
                                  .moves = (float)(YK_CURVATURE * pow(norm, 0.75) / (double)s->whole.batch),
                                  .steps = (float)c->totals.steps,
                                  .workers = copies_in_flight(s, c),
                                  .state = {old.live.s[0], old.live.s[1]}};
    yk_optim_config optim = s->whole.group[0].optim;
    optim.reductions = yk__reductions_of(c->status.flags);
    const yk_optim_step o = yk_optim_at(&optim, c->status.steps);
    old.rule->scale(&share, 0, keys->nkeys, c->current->value[0], keys->nkeys, &o);
}

/* Ends a round. */
static yk_status merge(yk_shards *s, yk__channel *c)
{
    yk_phases *phases = yk_phases_of(s->config.phases, c->first);
    yk__up *sum = &c->totals;
    const uint64_t max = max_steps(s, c->status.steps);
    yk_status st = YK_OK;
    c->training = false;
    yk_phase_to(phases, YK_PHASE_APPLY);
    if (sum->examples) {
        yk_copy_end(c->local, yk__keys_of(c), c->current->value);
        if (s->plan->copy_lifetime)
            scale(s, c);
    }
    sum->steps = sum->steps < max ? sum->steps : max; /* do not skip an evaluation or checkpoint */
    yk_phase_to(phases, YK_PHASE_SENDING);
    if ((c->sends = sum->examples || s->plan->lockstep)) {
        memcpy(c->value, c->current->value, sizeof c->value);
        if (!(st = add_rest(s, c)) && !(st = yk__shards_begin_push(s, c)))
            st = yk__shards_push_part(s, c, 0, 1);
        c->answered = false;
    }
    if (s->plan->lockstep)
        yk_phase_to(phases, YK_PHASE_WORKERS);
    return st ? st : yk__shards_end_step(s, c);
}

/* After a step of all threads of a copy. */
static yk_status count_step(yk_shards *s, yk__channel *c)
{
    bool more = false;
    for (int i = c->first; i < c->end; i++)
        more |= has_batch(s, &s->thread[i]);
    c->result = (yk_step_result){.pending = true};
    if (s->thread[c->first].calls < c->max && more && !yk__channel_stopped(s, c))
        return YK_OK;
    yk_status st = merge(s, c);
    for (int i = c->first; c->result.examples == 0 && i < c->end; i++)
        s->thread[i].exhausted = s->thread[i].announced = false; /* ask the feed again */
    return st;
}

yk_status yk__copies_clock(yk_store *store, int me, yk_action action, yk_step_result *out)
{
    yk_shards *s = yk__shards_of(store);
    yk__channel *c = yk__channel_of(s, me);
    yk_store *copy = c->local ? yk_local_store(c->local) : NULL;
    yk_step_result one = {0};
    yk_status st = copy ? copy->ops->clock(copy, me - c->first, action, &one) : YK_OK; /* the chief decides */
    s->thread[me].calls++;
    if (!st && me == c->first) {
        c->totals.steps += one.steps;
        c->totals.examples += one.examples;
        c->totals.extra_weight += one.weight - (double)one.examples;
        c->totals.loss += one.loss;
    }
    const uint64_t own = c->share[me - c->first];
    if (!st)
        st = yk__shards_once(s, me, count_step);
    *out = c->result;
    out->own = own;
    return st;
}
