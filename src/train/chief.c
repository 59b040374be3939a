/* A process that owns a shard serves it, and if it trains as well, sends and receives for its workers meanwhile. The chief,
 * rank 0, also evaluates and saves on the side:
 *
 *     server loop    update  update [due: snapshot]  update  update  update [the look is over: metrics]  update ...
 *     a thread                           \ evaluate the snapshot, save it /
 *
 * Workers do not stop for that. In lockstep, snapshots are taken after exactly the step that is due: if the previous
 * evaluation is still running, answers wait for it (and workers get heartbeats). Otherwise the next one starts when
 * the previous one ends.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sync.h"
#include "base/wait.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A look at a snapshot. */
typedef struct {
    bool begun, eval, save;
    atomic_bool over;
    yk_thread thread;
    yk_progress_state progress;
    yk_status st;
    char error[2048];
    double eval_seconds, save_seconds;
} look;

typedef struct {
    yk__trainer *t;
    look look;
    yk__due due;   /* in lockstep: a look that has to wait for the one before */
    uint64_t used; /* in step: positions of the epoch */
    double looked; /* at the other servers */
    bool streams;

    /* the workers of this process */
    bool started;
    yk_thread thread;
    atomic_bool workers_over;
    yk_status workers;
    char workers_error[2048];
} chief;

/* ---- a look ---- */

static yk_status test_and_save(chief *c)
{
    yk__trainer *t = c->t;
    look *l = &c->look;
    const double began = yk_now();
    yk_view table[YK_MAX_GROUPS];
    yk_server_assemble(t->cluster.server, t->cluster.whole);
    yk_status st = yk_local_quiesce(t->cluster.whole, 0);
    yk_local_tables(t->cluster.whole, table);
    if (!st && l->eval && t->tested)
        st = yk__evaluate(t, t->evaluator, 0, 1, table);
    l->eval_seconds = yk_now() - began;
    if (!st && l->save)
        st = yk__save(t, t->cluster.whole, &l->progress);
    l->save_seconds = yk_now() - began - l->eval_seconds;
    return st;
}

static void *look_thread(void *context)
{
    chief *c = context;
    c->look.st = test_and_save(c);
    if (c->look.st)
        snprintf(c->look.error, sizeof c->look.error, "%s", yk_error());
    atomic_store(&c->look.over, true);
    return NULL;
}

static yk_status cursor_of(chief *c, yk_progress_state *p)
{
    const yk__trainer *t = c->t;
    p->ncursor = c->streams          ? 2 + 5 * (size_t)t->plan->workers
                 : t->plan->lockstep ? 3
                                     : yk_assignment_cursor_size(&t->cluster.assignment);
    if (!(p->cursor = yk_alloc(p->ncursor, sizeof *p->cursor, "the data cursor")))
        return YK_ESYSTEM;
    if (c->streams)
        yk_server_cursors(t->cluster.server, p->cursor, (size_t)t->config->shuffle_mb << 20,
                          t->plan->lockstep ? t->epoch : 0);
    else if (t->plan->lockstep)
        memcpy(p->cursor,
               (uint64_t[3]){1, t->epoch, c->used < t->train.examples ? c->used : t->train.examples},
               3 * sizeof *p->cursor);
    else
        yk_assignment_cursor_save(&t->cluster.assignment, p->cursor);
    return YK_OK;
}

/* A look that has no thread: nobody may join it. */
static void give_up(look *l)
{
    l->begun = false;
    yk_free(l->progress.cursor);
}

/* Takes the snapshot; the rest is for test_and_save(). */
static yk_status take(chief *c, bool eval, bool save)
{
    yk__trainer *t = c->t;
    yk__worker_state *me = t->evaluator;
    look *l = &c->look;
    yk_server_state s;
    yk_server_state_of(t->cluster.server, &s);
    *l = (look){.begun = true, .eval = eval, .save = save && t->result->run_dir};
    l->progress = (yk_progress_state){.step = t->step,
                                      .late = t->earlier_late + s.late,
                                      .late_examples = t->late_examples,
                                      .epoch = t->epoch,
                                      .examples = t->earlier_examples + me->examples,
                                      .seconds = t->earlier_seconds + yk_now() - t->began,
                                      .period_loss = me->period_loss,
                                      .period_examples = me->period_examples};
    yk_status st = l->save ? cursor_of(c, &l->progress) : YK_OK;
    if (eval) {
        me->period_loss = 0.0;
        me->period_examples = 0;
        t->last_eval = t->step;
    }
    if (save) {
        t->last_save = t->step;
        t->saved_at = yk_now();
    }
    if (!st)
        st = yk_server_snapshot(t->cluster.server, t->cluster.whole);
    if (st)
        give_up(l);
    return st;
}

/* The look is over: what it found, as of its own step. */
static yk_status conclude(chief *c)
{
    yk__trainer *t = c->t;
    yk__worker_state *me = t->evaluator;
    look *l = &c->look;
    l->begun = false;
    yk_free(l->progress.cursor);
    t->result->eval_seconds += l->eval_seconds;
    t->result->checkpoint_seconds += l->save_seconds;
    if (l->st)
        return yk_fail(l->st, "%s", l->error);
    if (!l->eval)
        return YK_OK;
    const uint64_t step = t->step, examples = me->examples, period_examples = me->period_examples,
                   late_examples = t->late_examples;
    const double period_loss = me->period_loss;
    t->step = l->progress.step;
    t->late_examples = l->progress.late_examples;
    me->examples = l->progress.examples - t->earlier_examples;
    me->period_loss = l->progress.period_loss;
    me->period_examples = l->progress.period_examples;
    yk_status st = yk__conclude(t);
    t->step = step;
    t->late_examples = late_examples;
    me->examples = examples;
    me->period_loss = period_loss;
    me->period_examples = period_examples;
    return st;
}

static yk_status begin(chief *c, bool eval, bool save)
{
    yk_status st = take(c, eval, save);
    if (st)
        return st;
    int e = yk_thread_start(&c->look.thread, look_thread, c);
    if (e)
        give_up(&c->look);
    return e ? yk_fail(YK_ESYSTEM, "cannot start the evaluation thread: %s", strerror(e)) : YK_OK;
}

static yk_status look_after(chief *c, bool wait)
{
    yk_status st = YK_OK;
    if (c->look.begun && (wait || atomic_load(&c->look.over))) {
        yk_thread_join(&c->look.thread);
        st = conclude(c);
    }
    if (!st && !c->look.begun && (c->due.eval || c->due.save)) {
        const yk__due due = c->due;
        c->due = (yk__due){0};
        st = begin(c, due.eval, due.save);
    }
    return st;
}

/* ---- what the server tells us ---- */

static bool stop(void *context)
{
    const yk__trainer *t = ((chief *)context)->t;
    return yk__is_stopped(t) || yk__is_done(t, t->step, t->epoch);
}

static yk_status due_sync(chief *c, bool epoch_over)
{
    yk__trainer *t = c->t;
    if (stop(c)) /* the last step is always evaluated */
        return YK_OK;
    const yk__due due = yk__due_sync(t, t->step, epoch_over, false, !epoch_over && yk__save_is_overdue(t));
    c->due.eval |= due.eval && t->step != t->last_eval;
    c->due.save |= due.save && t->step != t->last_save;
    return look_after(c, false);
}

static yk_status due_async(chief *c)
{
    yk__trainer *t = c->t;
    if (c->look.begun || stop(c))
        return YK_OK;
    if (!yk__is_due_async(t, t->step))
        return YK_OK;
    c->due = yk__due_async(t, t->step);
    return look_after(c, false);
}

/* In asynchronous mode or with a quorum, an epoch ends when all of its examples were used. Each worker has its own
 * share of a stream. */
static void count_epochs(chief *c)
{
    yk__trainer *t = c->t;
    const bool quorum = t->plan->quorum > 0;
    yk_server_state s;
    if (quorum) {
        yk_server_state_of(t->cluster.server, &s);
        t->late_examples = t->earlier_late_examples + s.late_examples;
    }
    if (c->streams && quorum)
        t->epoch = yk_server_cursors_epoch(t->cluster.server);
    else
        t->epoch = t->train.examples
                       ? (t->earlier_examples + t->evaluator->examples + t->late_examples) / t->train.examples
                       : 0;
}

static yk_status updated(void *context, uint64_t steps, uint64_t examples, double loss)
{
    chief *c = context;
    yk__trainer *t = c->t;
    yk__worker_state *me = t->evaluator;
    if (!(loss <= yk__most_loss * (double)examples))
        return yk__diverged(t, "the training loss", loss / (double)examples, steps);
    const uint64_t made = steps - t->step; /* more than one with local steps */
    t->step = steps;
    me->examples += examples;
    me->period_loss += loss;
    me->period_examples += examples;
    c->used += made * (uint64_t)t->plan->workers * t->plan->batch;
    yk_phases_done(me->phases, made, examples);
    yk_observer_progress(t->observer, loss / (double)examples);
    if (t->plan->lockstep)
        return due_sync(c, false);
    const uint64_t epoch = t->epoch;
    count_epochs(c);
    if (!t->plan->synchronous)
        return due_async(c);
    yk_status st = due_sync(c, false);
    return !st && t->epoch > epoch ? due_sync(c, true) : st;
}

static yk_status epoch_over(void *context)
{
    chief *c = context;
    yk__trainer *t = c->t;
    if (!t->train.examples)
        t->train.examples = t->earlier_examples + t->evaluator->examples;
    t->epoch++;
    c->used = 0;
    return due_sync(c, true);
}

/* Finds a dead server before the workers that wait for it time out. */
static yk_status look_for_servers(chief *c, double now)
{
    const yk__cluster *k = &c->t->cluster;
    if (now - c->looked < 0.25)
        return YK_OK;
    c->looked = now;
    for (int i = 1; i < k->servers; i++)
        if (yk_comm_dead(k->comm, i))
            return yk_fail(YK_ELOST, "server %d (rank %d) has died", i, i);
    return YK_OK;
}

/* Telemetry and heartbeats, on all servers. */
static yk_status tell(void *context)
{
    yk__trainer *t = ((chief *)context)->t;
    yk_observer_traffic(t->observer);
    return t->cluster.remote ? yk_remote_alive(t->cluster.remote) : YK_OK;
}

static yk_status now_and_then(void *context)
{
    yk_status st = look_for_servers(context, yk_now());
    if (!st)
        st = tell(context);
    return st ? st : look_after(context, false);
}

static bool hold(void *context)
{
    const chief *c = context;
    return c->due.eval || c->due.save;
}

/* ---- the workers of this process ---- */

static void *run_workers(void *context)
{
    chief *c = context;
    c->workers = yk_team_run(c->t->team, yk__train_worker, c->t);
    if (c->workers)
        snprintf(c->workers_error, sizeof c->workers_error, "%s", yk_error());
    atomic_store(&c->workers_over, true);
    return NULL;
}

/* What they send and receive; an error of theirs. */
static yk_status pump(void *context, bool *busy)
{
    chief *c = context;
    yk_status st = yk_remote_pump(c->t->cluster.remote, busy);
    return !st && atomic_load(&c->workers_over) && c->workers ? yk_fail(c->workers, "%s", c->workers_error)
                                                              : st;
}

static yk_status start_workers(chief *c)
{
    int e = yk_thread_start(&c->thread, run_workers, c);
    c->started = e == 0;
    return e ? yk_fail(YK_ESYSTEM, "cannot start the worker threads: %s", strerror(e)) : YK_OK;
}

/* Returns the error of the server if there is one, else that of the workers. */
static yk_status join_workers(chief *c, yk_status st)
{
    char error[2048];
    if (!c->started)
        return st;
    snprintf(error, sizeof error, "%s", yk_error());
    if (st) {
        yk_remote_fail(c->t->cluster.remote);
        yk_team_stop(c->t->team);
    }
    yk_thread_join(&c->thread);
    if (!st && c->workers)
        return yk_fail(c->workers, "%s", c->workers_error);
    return st ? yk_fail(st, "%s", error) : YK_OK;
}

/* A process of workers that owns nothing: until all of them have left. */
static yk_status drive(chief *c)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    yk_status st = YK_OK;
    while (!st && !atomic_load(&c->workers_over)) {
        bool busy = false;
        st = pump(c, &busy);
        if (busy)
            yk_wait_again(&w);
        else
            yk_wait_turn(&w);
        if (!st && yk_wait_polls(&w))
            st = tell(c);
    }
    return st;
}

/* ---- serving ---- */

/* After the last update: what is left to evaluate and to save. */
static yk_status end_chief(chief *c)
{
    yk__trainer *t = c->t;
    yk_server_state state;
    yk_server_state_of(t->cluster.server, &state);
    if (!t->plan->lockstep)
        count_epochs(c);
    if (!t->plan->lockstep && !state.stopped &&
        t->step < t->plan->steps) /* no examples are left in any epoch */
        t->epoch = t->plan->epochs;
    t->result->interrupted = yk__is_stopped(t) && state.stopped && !yk__is_done(t, t->step, t->epoch) &&
                             t->epoch < t->plan->epochs;
    const bool eval = t->step != t->last_eval, save = t->step != t->last_save;
    yk_status st = take(c, eval, save);
    if (!st) {
        c->look.st = test_and_save(c);
        snprintf(c->look.error, sizeof c->look.error, "%s", yk_error());
        st = conclude(c);
    }
    return st;
}

static yk_status serve(chief *c)
{
    yk__trainer *t = c->t;
    yk__cluster *k = &t->cluster;
    yk_server_hooks hooks = {.context = c, .now_and_then = tell};
    if (k->rank == 0)
        hooks = (yk_server_hooks){.context = c,
                                  .updated = updated,
                                  .epoch_over = epoch_over,
                                  .now_and_then = now_and_then,
                                  .stop = stop,
                                  .hold = hold};
    hooks.turn = k->remote ? pump : NULL;
    yk_server_hook(k->server, &hooks);
    yk_status st = yk_server_run(k->server);
    if (!st && k->remote) /* their last messages are on their way */
        st = drive(c);
    if (k->rank != 0)
        return st;
    t->trained = yk_now();
    c->due = (yk__due){0};
    if (!st)
        st = look_after(c, true);
    else if (c->look.begun)
        yk_thread_join(&c->look.thread);
    if (!st)
        st = end_chief(c);
    return st ? st : yk_server_end(k->server);
}

yk_status yk__serve(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    chief c = {.t = t, .streams = k->rank == 0 && k->cursor_kind == 3, .used = t->used};
    yk_status st = k->remote ? start_workers(&c) : YK_OK;
    if (!st)
        st = k->server ? serve(&c) : drive(&c);
    return join_workers(&c, st);
}
