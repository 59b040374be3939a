/* The training loop. Every worker runs it, in every mode, over the store interface (store/store.h):
 *
 *     feed -> announce -> pull -> gradient -> announce ahead -> push -> clock -> what is due
 *
 * Where the parameters are in the processes that train (one process, or replicas), workers stop at a barrier to evaluate
 * and save (barrier.c):
 *
 *     lockstep       all workers take the same steps, so that a barrier is due after the same step for all of them
 *     asynchronous   a worker that finds one due sets `barrier_due`; each worker enters it after its current step. A worker
 *                    without examples waits for the next barrier; the one after all examples is the last
 *
 * With servers, the chief evaluates snapshots in the background (chief.c), and the store says when training is over.
 */
#include "train/loop.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/wait.h"
#include "model/model.h"
#include "train/saver.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    yk__trainer *t;
    int me, number; /* index in this process; in the job */
    yk__worker_state *state;
    yk_store *store;
    bool bursts;          /* several steps at once (store/store.h) */
    bool remote;          /* the parameters are on servers */
    uint64_t done, epoch; /* steps and epochs so far; of this worker if asynchronous */
    uint64_t seen; /* lockstep: examples of all workers in all epochs, including those before a resume */
    unsigned round;
    uint64_t next_check; /* asynchronous: this worker checks what is due after this many of its steps */
    uint64_t quota;      /* the same: steps that this worker may still take before a barrier is due */
    double loss;         /* of its examples that the phases do not have yet */
    bool begun;          /* see wait_to_begin() */
    yk_status ready;     /* of the store's ready() during a gradient */
    double slow_seconds; /* per step; 0: not slowed down */
} loop;

/* ---- one step ---- */

static yk_status next_batch(loop *w, size_t max, yk_batch *out)
{
    yk__trainer *t = w->t;
    if (!t->plan->alone)
        yk_phase_to(w->state->phases, YK_PHASE_INPUT);
    return yk_feed_next(t->feed, w->number, max, out);
}

/* Announces as many batches as the store wants. */
static yk_status announce(loop *w)
{
    while (yk_store_wants(w->store, w->me) > 0) {
        yk_batch batch;
        uint64_t cursor[YK_CURSOR_SIZE] = {0};
        yk_status st = next_batch(w, 1, &batch);
        if (st)
            return st;
        yk_feed_cursor_of(w->t->feed, w->number, cursor);
        cursor[YK_CURSOR_SIZE - 1] |= (uint64_t)yk_feed_stream(w->t->feed, w->number) << YK_STREAM_SHIFT;
        if ((st = yk_store_announce(w->store, w->me, &batch, cursor)))
            return st;
    }
    return YK_OK;
}

static void on_ready(void *context, float *dense, size_t begin, size_t end)
{
    loop *w = context;
    if (!w->ready)
        w->ready = w->store->ops->ready(w->store, w->me, dense, begin, end);
}

/* YK_SLOW_WORKER, for tests: INDEX:100ms adds to the time of each step of a worker. */
static void read_slowdown(loop *w)
{
    const char *text = getenv("YK_SLOW_WORKER");
    uint64_t worker;
    double ms;
    const char *colon = text ? yk_digits(text, INT_MAX, &worker) : NULL,
               *unit = colon && *colon == ':' ? yk_decimal(colon + 1, &ms) : NULL;
    if (unit && strcmp(unit, "ms") == 0 && (int)worker == w->number)
        w->slow_seconds = ms * 1e-3;
}

static yk_status gradient(loop *w, const yk_view *view, const yk_batch *batch, yk_grad *out)
{
    yk__trainer *t = w->t;
    *out = (yk_grad){0};
    if (!batch->n)
        return YK_OK;
    t->model->ops->grad(t->model, w->state->work, view, batch, out);
    if (out->status)
        return out->status;
    if (w->slow_seconds > 0.0)
        yk_sleep(w->slow_seconds);
    if (!(out->loss <= yk__max_loss * (double)out->examples))
        return yk__diverged(t, "the training loss", out->loss / (double)out->examples,
                            yk_store_steps(w->store, w->me));
    return w->ready;
}

static yk_status step(loop *w, yk_action action, yk_step_result *out)
{
    yk_phases *p = w->state->phases;
    yk_view view[YK_MAX_GROUPS];
    yk_batch batch;
    yk_grad grad;
    yk_status st = announce(w);
    yk_phase_to(p, YK_PHASE_PARAMETERS);
    if (st || (st = yk_store_pull(w->store, w->me, &batch, view)))
        return st;
    yk_phase_to(p, YK_PHASE_COMPUTE);
    if ((st = gradient(w, view, &batch, &grad)) || (st = announce(w)))
        return st;
    yk_phase_to(p, YK_PHASE_APPLY);
    if ((st = yk_store_push(w->store, w->me, &grad)) || (w->store->ahead && (st = announce(w))) ||
        (st = yk_store_clock(w->store, w->me, action, out)))
        return st;
    yk_phase_to(p, YK_PHASE_OTHER);
    w->loss += grad.loss;
    if (!w->t->cluster.exchange) { /* replicas count the examples of all: record_round() */
        w->state->period_loss += grad.loss;
        w->state->period_examples += grad.examples;
        w->state->examples += grad.examples;
    }
    return YK_OK;
}

/* A batch of up to `max` examples, and one step for each of them. */
static yk_status burst(loop *w, yk_action action, size_t max, yk_step_result *out)
{
    yk__trainer *t = w->t;
    yk__worker_state *state = w->state;
    yk_batch batch;
    yk_view view;
    float lr, loss[YK_MAX_BURST];
    yk_status st = next_batch(w, max, &batch);
    if (st)
        return st;
    yk_phase_to(state->phases, YK_PHASE_COMPUTE);
    w->store->burst->begin(w->store, w->me, &view, &lr);
    t->model->ops->burst(t->model, state->work, &view, &batch, lr, loss);
    *out = (yk_step_result){.examples = batch.n, .steps = batch.n, .own = batch.n, .action = action};
    out->over = batch.n == 0 && !t->plan->lockstep;
    for (size_t i = 0; i < batch.n; i++) {
        if (!((double)loss[i] <= yk__max_loss))
            return yk__diverged(t, "the training loss", (double)loss[i], yk_store_steps(w->store, w->me) + i);
        state->period_loss += (double)loss[i];
        out->loss += (double)loss[i];
    }
    yk_phase_to(state->phases, YK_PHASE_APPLY);
    w->store->burst->end(w->store, w->me, batch.n);
    yk_phase_to(state->phases, YK_PHASE_OTHER);
    w->loss += out->loss;
    state->period_examples += batch.n;
    state->examples += batch.n;
    return YK_OK;
}

/* ---- lockstep ---- */

/* What this worker wants all workers to do after this step. Worker 0 of the chief decides whether a checkpoint is overdue. */
static yk_action action_of(const loop *w)
{
    if (yk__is_stopped(w->t))
        return YK_ACTION_STOP;
    if (w->t->cluster.rank || w->me || w->remote) /* with servers, the chief decides (chief.c) */
        return YK_ACTION_CONTINUE;
    return yk__save_is_overdue(&w->t->schedule, w->round) ? YK_ACTION_SAVE : YK_ACTION_CONTINUE;
}

/* Worker 0 of each process records what all workers did. Replicas count the examples of all, not their own. */
static yk_status record_round(loop *w, const yk_step_result *r, bool epoch_over)
{
    yk__trainer *t = w->t;
    if (t->cluster.exchange) {
        w->state->period_loss += r->loss;
        w->state->period_examples += r->examples;
        w->state->examples += r->examples;
    }
    t->step = w->done;
    t->epoch = w->epoch;
    t->trained_examples += r->examples;
    t->trained_loss += r->loss;
    w->seen += r->examples;
    if (epoch_over) /* now the size of an epoch is known */
        yk__set_epoch_examples(t, w->seen, w->epoch);
    if (!epoch_over)
        yk_observer_traffic(t->observer);
    return epoch_over ? YK_OK : yk__report_progress(t, t->step, true);
}

static yk_status barrier_sync(loop *w, yk__due due)
{
    if (w->me == 0)
        w->t->due = due;
    return due.eval || due.save || due.end ? yk__barrier(w->t, w->me) : YK_OK;
}

/* All workers come to the same decisions here. */
static yk_status after_round(loop *w, const yk_step_result *r, bool *end_out)
{
    yk__trainer *t = w->t;
    const bool epoch_over = r->examples == 0;
    w->done += r->steps;
    w->epoch += epoch_over;
    if (epoch_over) /* at the end, too: a longer run may resume from here */
        yk_feed_epoch(t->feed, w->number, w->epoch);
    if (w->remote) { /* the chief decides when training is over */
        *end_out = r->over;
        return YK_OK;
    }
    const yk__due due = yk__due_sync(&t->schedule, w->done, w->epoch, epoch_over, r->action == YK_ACTION_STOP,
                                     r->action == YK_ACTION_SAVE);
    yk_status st = YK_OK;
    if (w->me == 0) {
        t->result->interrupted = due.end && !yk__is_complete(&t->schedule, w->done, w->epoch);
        st = record_round(w, r, epoch_over);
    }
    *end_out = due.end;
    return st ? st : barrier_sync(w, due);
}

/* ---- asynchronous, in one process ---- */

/* Any worker, one at a time: worker 0 may be waiting for a core. */
static yk_status check_due(loop *w)
{
    yk__trainer *t = w->t;
    if (atomic_flag_test_and_set_explicit(&t->checking, memory_order_acquire))
        return YK_OK;
    const uint64_t step = yk_store_steps(w->store, w->me);
    if (yk__is_due_async(&t->schedule, step) || yk__is_stopped(t))
        atomic_store(&t->barrier_due, true);
    yk_status st = yk__report_progress(t, step, w->me == 0);
    atomic_flag_clear_explicit(&t->checking, memory_order_release);
    return st;
}

/* All workers enter; worker 0 decides what is done. */
static yk_status barrier_async(loop *w)
{
    yk__trainer *t = w->t;
    yk_phases_detail(w->state->phases);
    yk_phase_to(w->state->phases, YK_PHASE_WORKERS);
    yk_status st = yk_team_barrier(t->team, w->me);
    if (st)
        return st;
    w->quota = 0; /* yk__due_async() divides them again */
    if (w->me == 0) {
        const bool all_done = atomic_load(&t->finished) == t->plan->workers;
        const uint64_t examples = yk__progress_now(t).examples;
        t->step = yk_store_steps(w->store, w->me);
        t->epoch = t->train.examples ? examples / t->train.examples : 0;
        if (all_done && !yk__is_done(&t->schedule, t->step, t->epoch)) {
            t->epoch = t->plan->epochs; /* no examples are left in any epoch */
            yk__set_epoch_examples(t, examples, t->epoch);
        }
        /* nothing is due if a worker did not use its quota */
        t->due = yk__due_async(&t->schedule, t->step, all_done || yk__is_stopped(t));
        t->result->interrupted = t->due.end && !all_done;
    }
    return yk__barrier(t, w->me);
}

/* Enters the barrier if one is due; a worker that has finished waits until then. *entered_out: it did, instead of a step. */
static yk_status enter_barrier(loop *w, bool *entered_out)
{
    yk__trainer *t = w->t;
    if (w->state->finished) {
        yk_phases_detail(w->state->phases);
        yk_phase_to(w->state->phases, YK_PHASE_WORKERS);
        for (yk_wait wait = yk_wait_every(200e-6, HUGE_VAL); !atomic_load(&t->barrier_due);
             yk_wait_poll(&wait)) {
            if (yk_team_stopped(t->team))
                return yk_fail(YK_ESTOP, "another worker stopped the run");
            yk_status st = w->me == 0 ? check_due(w) : YK_OK;
            if (st)
                return st;
        }
    }
    const bool waits = !w->state->finished && !w->quota && !(w->quota = yk__acquire_quota(&t->schedule));
    if (waits || yk__is_stopped(t)) /* every worker checks: worker 0 may be waiting for a core */
        atomic_store(&t->barrier_due, true);
    *entered_out = atomic_load_explicit(&t->barrier_due, memory_order_relaxed);
    return *entered_out ? barrier_async(w) : YK_OK;
}

/* No examples are left for this worker. */
static yk_status finish_async(loop *w)
{
    yk__trainer *t = w->t;
    yk_status st = yk_store_finish(w->store, w->me);
    w->state->finished = true;
    if (atomic_fetch_add(&t->finished, 1) + 1 == t->plan->workers)
        atomic_store(&t->barrier_due, true);
    return st;
}

static yk_status after_step(loop *w, const yk_step_result *r)
{
    yk__trainer *t = w->t;
    w->done += r->steps;
    w->quota -= yk__min(w->quota, r->steps);
    if (w->remote || w->done <= w->next_check)
        return YK_OK;
    w->next_check = w->done + yk__check_after(&t->schedule, w->me);
    return check_due(w);
}

/* ---- the loop ---- */

/* Steps of a burst that does not skip an evaluation or a checkpoint. */
static size_t burst_steps(const loop *w)
{
    const yk__trainer *t = w->t;
    const size_t max = w->store->burst->max(w->store, w->me);
    if (t->plan->lockstep) /* a stop takes effect after one more step, as without bursts */
        return yk__is_stopped(t) ? 1 : yk__min(max, yk__until_due(&w->t->schedule, w->done));
    return yk__min(w->quota, yk__min(max, w->next_check + 1 - w->done));
}

/* Threads begin one after the other (store/stale.c). Returns early, without *begun_out, if a barrier is due. */
static yk_status wait_to_begin(loop *w)
{
    yk__trainer *t = w->t;
    yk_wait turns = yk_wait_every(20e-6, t->plan->team_timeout);
    for (uint64_t last = 0;;) {
        const uint64_t steps = yk_store_steps(w->store, w->me) - t->resumed.step;
        w->begun = steps >= yk_steps_before(w->me) || atomic_load(&t->finished) || yk__is_stopped(t) ||
                   yk_team_stopped(t->team);
        if (w->begun || atomic_load(&t->barrier_due))
            return YK_OK;
        yk_phase_to(w->state->phases, YK_PHASE_WORKERS);
        if (steps != last)
            yk_wait_restart(&turns);
        last = steps;
        if (!yk_wait_poll(&turns))
            return yk_fail(
                YK_ELOST,
                "worker %d is waiting for its first step, but no worker has completed a step for %g s", w->me,
                turns.seconds);
    }
}

static yk_status train(loop *w)
{
    yk__trainer *t = w->t;
    const bool lockstep = t->plan->lockstep, local_async = !lockstep && !w->remote;
    for (;; w->round++) {
        yk_step_result r;
        bool entered = false, end = false;
        yk_status st = w->begun ? YK_OK : wait_to_begin(w);
        if (!st && local_async)
            st = enter_barrier(w, &entered);
        if (st || (entered && t->due.end))
            return st;
        if (entered)
            continue;
        if (w->me == 0 && yk__saver_failed(t->saver))
            return yk__saver_finish(t, YK_OK);
        yk_phases_step(w->state->phases);
        st = w->bursts ? burst(w, action_of(w), burst_steps(w), &r) : step(w, action_of(w), &r);
        if (st)
            return st;
        if (w->remote && !t->plan->driven)
            yk_observer_traffic(t->observer);
        if (r.pending)
            continue;
        yk_phases_done(w->state->phases, r.own > 0 ? r.steps : 0, r.own, w->loss);
        w->loss = 0.0;
        if (lockstep)
            st = after_round(w, &r, &end);
        else if (r.over && local_async)
            st = finish_async(w);
        else if (r.over)
            end = true;
        else
            st = after_step(w, &r);
        if (st || end)
            return st;
    }
}

static yk_status train_worker(void *trainer, int me)
{
    yk__trainer *t = trainer;
    const yk_progress_state *start =
        &t->resumed; /* t->step and t->epoch may be those of a chief in this process */
    loop w = {.t = t,
              .me = me,
              .number = t->plan->first_worker + me,
              .state = &t->worker[me],
              .store = t->store,
              .bursts = t->store->burst && yk_model_can_burst(t->model),
              .remote = t->cluster.remote != NULL,
              .begun = t->cluster.remote || !t->plan->staggered, /* with servers, they decide */
              .done = start->step,
              .next_check = start->step,
              .epoch = start->epoch,
              .seen = start->examples};
    read_slowdown(&w);
    yk_phases_begin(w.state->phases, t->plan->lockstep ? t->plan->workers : 1);
    yk_model_on_ready(t->model, w.state->work, w.store->ops->ready ? on_ready : NULL, &w);
    const yk__due due = yk__due_first(&t->schedule, w.done, w.epoch);
    yk_status st = w.remote ? YK_OK : barrier_sync(&w, due); /* with servers, the chief evaluates */
    if (!st && !due.end)
        st = train(&w);
    if (!st && w.remote)
        st = yk_store_finish(w.store, me);
    yk_phases_end(w.state->phases);
    return st;
}

yk_status yk__run_workers(void *trainer)
{
    return yk_team_run(((yk__trainer *)trainer)->team, train_worker, trainer);
}
