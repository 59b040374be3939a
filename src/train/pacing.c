#include "train/pacing.h"

#include "train/loop.h"
#include <math.h>

/* ---- barriers ---- */

static yk_status enter_if_due(yk__loop *w, yk__due due)
{
    if (w->me == 0)
        w->t->due = due;
    return due.eval || due.save || due.end ? yk__barrier(w->t, w->me) : YK_OK;
}

static yk_status begin_at_barrier(yk__loop *w)
{
    const yk__due due = yk__due_first(&w->t->schedule, w->done, w->epoch);
    w->over = due.end;
    return enter_if_due(w, due);
}

/* ---- rounds ---- */

/* Worker 0 of the chief decides whether a checkpoint is overdue. */
static yk_status before_round(yk__loop *w, bool *entered_out)
{
    (void)entered_out;
    if (w->action == YK_ACTION_CONTINUE && w->t->cluster.rank == 0 && w->me == 0 &&
        yk__save_is_overdue(&w->t->schedule, w->round))
        w->action = YK_ACTION_SAVE;
    return YK_OK;
}

/* A stop takes effect after one more step, as without bursts. */
static size_t max_burst_of_round(const yk__loop *w)
{
    return yk__is_stopped(w->t) ? 1 : yk__until_due(&w->t->schedule, w->done);
}

/* Worker 0 of each process records what all workers did. Replicas count the examples of all, not their own. */
static yk_status record_round(yk__loop *w, const yk_step_result *r, bool epoch_over)
{
    yk__trainer *t = w->t;
    if (t->cluster.exchange) {
        w->state->period_loss += r->loss;
        w->state->period_examples += r->examples;
        w->state->period_extra_weight += r->weight - (double)r->examples;
        w->state->examples += r->examples;
    }
    t->step = w->done;
    t->epoch = w->epoch;
    t->trained_examples += r->examples;
    t->trained_weight += r->weight;
    t->trained_loss += r->loss;
    w->seen += r->examples;
    if (epoch_over) { /* now the size of an epoch is known */
        yk__set_epoch_examples(t, w->seen, w->epoch);
        return YK_OK;
    }
    yk_observer_traffic(t->observer);
    return yk__report_progress(t, t->step, true);
}

/* Whether the epoch is over. */
static bool count_round(yk__loop *w, const yk_step_result *r)
{
    w->done += r->steps;
    if (r->examples)
        return false;
    yk_feed_epoch(w->t->feed, w->number, ++w->epoch); /* at the end, too: a longer run may resume from here */
    return true;
}

/* All workers come to the same decisions here. */
static yk_status after_round(yk__loop *w, const yk_step_result *r)
{
    yk__trainer *t = w->t;
    const bool epoch_over = count_round(w, r);
    const yk__due due = yk__due_sync(&t->schedule, w->done, w->epoch, epoch_over, r->action == YK_ACTION_STOP,
                                     r->action == YK_ACTION_SAVE);
    yk_status st = YK_OK;
    if (w->me == 0) {
        t->result->interrupted = due.end && !yk__is_complete(&t->schedule, w->done, w->epoch);
        st = record_round(w, r, epoch_over);
    }
    if (!st)
        st = enter_if_due(w, due);
    w->over = due.eval ? w->t->due.end : due.end; /* an evaluation may end the run */
    return st;
}

/* ---- separate steps ---- */

/* Any worker, one at a time: worker 0 may be waiting for a core. */
static yk_status check_due(yk__loop *w)
{
    yk__trainer *t = w->t;
    if (atomic_flag_test_and_set_explicit(&t->checking, memory_order_acquire))
        return YK_OK;
    const uint64_t step = w->store->ops->steps(w->store, w->me);
    if (yk__is_due_async(&t->schedule, step) || yk__is_stopped(t))
        atomic_store(&t->barrier_due, true);
    yk_status st = yk__report_progress(t, step, w->me == 0);
    atomic_flag_clear_explicit(&t->checking, memory_order_release);
    return st;
}

/* All workers enter; worker 0 decides what is done. */
static yk_status enter_barrier(yk__loop *w)
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
        t->step = w->store->ops->steps(w->store, w->me);
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

/* Threads begin one after the other (store/local_stale.c). Returns early, before its turn, if a barrier is due. */
static yk_status wait_to_begin(yk__loop *w)
{
    yk__trainer *t = w->t;
    yk_wait turns = yk_wait_every(20e-6, t->plan->team_timeout);
    for (uint64_t last = 0;;) {
        const uint64_t steps = w->store->ops->steps(w->store, w->me) - t->resumed.step;
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

/* Without examples: until a barrier is due. */
static yk_status wait_for_barrier(yk__loop *w)
{
    yk__trainer *t = w->t;
    yk_phases_detail(w->state->phases);
    yk_phase_to(w->state->phases, YK_PHASE_WORKERS);
    for (yk_wait wait = yk_wait_every(200e-6, HUGE_VAL); !atomic_load(&t->barrier_due); yk_wait_poll(&wait)) {
        if (yk_team_stopped(t->team))
            return yk_fail(YK_ESTOP, "another worker stopped the run");
        yk_status st = w->me == 0 ? check_due(w) : YK_OK;
        if (st)
            return st;
    }
    return YK_OK;
}

static yk_status begin_steps(yk__loop *w)
{
    w->next_check = w->done;
    w->begun = !w->t->plan->staggered;
    return begin_at_barrier(w);
}

static yk_status before_step(yk__loop *w, bool *entered_out)
{
    yk__trainer *t = w->t;
    yk_status st = w->begun ? YK_OK : wait_to_begin(w);
    if (!st && w->state->finished)
        st = wait_for_barrier(w);
    if (st)
        return st;
    const bool waits = !w->state->finished && !w->quota && !(w->quota = yk__acquire_quota(&t->schedule));
    if (waits || yk__is_stopped(t)) /* every worker checks: worker 0 may be waiting for a core */
        atomic_store(&t->barrier_due, true);
    if (!atomic_load_explicit(&t->barrier_due, memory_order_relaxed))
        return YK_OK;
    st = enter_barrier(w);
    *entered_out = true;
    w->over = t->due.end;
    return st;
}

static size_t max_burst_of_steps(const yk__loop *w)
{
    return yk__min(w->quota, w->next_check + 1 - w->done);
}

static yk_status after_step(yk__loop *w, const yk_step_result *r)
{
    yk__trainer *t = w->t;
    if (r->over) { /* no examples are left for this worker */
        yk_status st = w->store->ops->finish(w->store, w->me);
        w->state->finished = true;
        if (atomic_fetch_add(&t->finished, 1) + 1 == t->plan->workers)
            atomic_store(&t->barrier_due, true);
        return st;
    }
    w->done += r->steps;
    w->quota -= yk__min(w->quota, r->steps);
    if (w->done <= w->next_check)
        return YK_OK;
    w->next_check = w->done + yk__check_after(&t->schedule, w->me);
    return check_due(w);
}

/* ---- a chief ---- */

static yk_status finish_if(yk__loop *w, bool over)
{
    w->over = over;
    return over ? w->store->ops->finish(w->store, w->me) : YK_OK;
}

static yk_status begin_for_chief(yk__loop *w)
{
    return finish_if(w, yk__due_first(&w->t->schedule, w->done, w->epoch).end);
}

static yk_status before_any(yk__loop *w, bool *entered_out)
{
    (void)entered_out;
    if (!w->t->plan->has_progress_thread)
        yk_observer_traffic(w->t->observer);
    return YK_OK;
}

static yk_status after_for_chief(yk__loop *w, const yk_step_result *r)
{
    if (w->t->plan->lockstep)
        count_round(w, r);
    return finish_if(w, r->over);
}

/* ---- the choice ---- */

const yk__pacing *yk__pacing_of(const yk_plan *plan)
{
    static const yk__pacing rounds = {begin_at_barrier, before_round, max_burst_of_round, after_round},
                            steps = {begin_steps, before_step, max_burst_of_steps, after_step},
                            for_chief = {begin_for_chief, before_any, NULL, after_for_chief};
    return !plan->whole ? &for_chief : plan->lockstep ? &rounds : &steps;
}
