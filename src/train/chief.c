/* A process that owns a shard serves it. If it trains as well, it also sends and receives for its workers. The chief,
 * rank 0, also evaluates and saves snapshots in the background:
 *
 *     server loop          update  update [due: snapshot]  update  update [evaluated: metrics]  update  update ...
 *     background thread                              \ evaluate the snapshot /              \ save it /
 *
 * Workers do not stop for that. A snapshot is taken exactly after the step at which it is due: if the previous one is still
 * being evaluated, the workers wait for it, and get heartbeats: they get no answers, or the server receives no more gradients.
 * Synchronous workers also wait for an evaluation that may end the run, so that it always ends at the same step.
 * After a push of several steps (local SGD, copies), it may be a few steps late.
 */
#include "train/loop.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

typedef struct {
    bool taken; /* and not finished */
    yk__due due;
    bool parameters; /* they are needed: for an evaluation, for a checkpoint, or at the end */
    bool savable;    /* it has all that a checkpoint needs, which is due or may be that of the best model */
    bool evaluated;  /* and reported if due */
    bool saved;      /* a checkpoint was written, or at least begun */
    bool initial;    /* they are in `whole` already */
    bool repeated;   /* this step was evaluated and reported before */
    double cost;     /* of saving: seconds in which the server took it, and CPU time */
    yk__background thread;
    yk_progress_state at;
} snapshot;

typedef struct chief chief;

/* What the chief does after each step, for one kind of job. */
typedef struct {
    yk_status (*check)(chief *c); /* after a step: whether anything is due */
    bool exact;                   /* what is due happens after exactly this step, on all servers */
} step_kind;

struct chief {
    yk__trainer *t;
    const step_kind *kind;
    snapshot snapshot;
    yk__due due;            /* of a snapshot that waits for the previous one */
    uint64_t used;          /* examples of the epoch, if the workers end it together */
    uint64_t saved_late;    /* gradients that were too late, in the last checkpoint */
    double servers_checked; /* when */
    yk__saved_error paused; /* the error of a snapshot that paused() finished or began */
    yk_team *evaluators;
    yk__background workers; /* of this process */
};

/* ---- snapshots ---- */

static yk_status evaluate_share(void *context, int me)
{
    yk__trainer *t = ((chief *)context)->t;
    yk_view table[YK_MAX_GROUPS];
    yk_local_tables(t->cluster.whole, table);
    return yk__evaluate(t, &t->evaluator[me], me, t->nevaluators, table);
}

static yk_status evaluate_snapshot(void *context)
{
    chief *c = context;
    yk__trainer *t = c->t;
    const snapshot *s = &c->snapshot;
    const double began = yk_now();
    if (s->parameters && !s->initial)
        yk_server_assemble(t->cluster.server, t->cluster.whole);
    yk_status st = s->parameters ? yk_local_quiesce(t->cluster.whole, 0) : YK_OK;
    if (!st && s->due.eval && s->parameters && yk__is_evaluated(t))
        st = yk_team_run(c->evaluators, evaluate_share, c);
    if (!st && s->due.eval)
        st = yk__score_evaluation(t, &s->at, s->due.extra);
    t->result->eval_seconds += yk_now() - began;
    return st;
}

static yk_status save_snapshot(void *context)
{
    yk__trainer *t = ((chief *)context)->t;
    snapshot *s = &((chief *)context)->snapshot;
    const double began = yk_now(), cpu = yk_thread_seconds();
    s->at.best = t->selection.best;
    if (s->due.eval && t->set[YK__VALIDATION].used) { /* a resumed run must not select this step again */
        s->at.period_examples = 0;
        s->at.period_extra_weight = s->at.period_loss = 0.0;
    }
    const yk_status st = yk__save(t, t->cluster.whole, &s->at);
    t->result->checkpoint_seconds += yk_now() - began;
    s->cost += yk_thread_seconds() - cpu;
    return st;
}

static yk_status make_cursor(chief *c, yk_progress_state *p)
{
    const yk__trainer *t = c->t;
    const yk_cursor_kind kind = t->plan->cursor_kind;
    const uint64_t fixed[] = {YK_CURSOR_LOCKSTEP, t->epoch, yk__min(c->used, t->train.examples)};
    if (kind == YK_CURSOR_LEASE)
        return yk_assignment_cursor(&t->cluster.assignment, &p->cursor, &p->ncursor);
    p->ncursor = kind == YK_CURSOR_STREAM ? 2 + YK_CURSOR_SIZE * (size_t)t->plan->workers
                                          : sizeof fixed / sizeof *fixed;
    if (!(p->cursor = yk_alloc(p->ncursor, sizeof *p->cursor, "the data cursor")))
        return YK_ESYSTEM;
    if (kind == YK_CURSOR_STREAM)
        yk_streams_save(&t->cluster.streams, p->cursor, (size_t)t->config->shuffle_mb << 20,
                        t->plan->lockstep ? t->epoch : 0);
    else
        memcpy(p->cursor, fixed, sizeof fixed);
    return YK_OK;
}

static void release(snapshot *s)
{
    s->taken = false;
    yk_free(s->at.cursor);
}

/* Also sets t->late_examples: examples whose gradients arrived too late count as used in their epoch, too. */
static yk_server_state read_server_state(yk__trainer *t)
{
    yk_server_state s;
    yk_server_state_of(t->cluster.server, &s);
    t->late_examples = t->resumed.late_examples + s.late_examples;
    return s;
}

static void saved(chief *c, const yk_progress_state *at)
{
    yk__saved(&c->t->schedule, at->step);
    c->saved_late = at->late - c->t->resumed.late;
}

/* Copies the parameters of all servers for the snapshot. */
static yk_status copy_parameters(chief *c)
{
    yk__trainer *t = c->t;
    snapshot *s = &c->snapshot;
    yk_phases *p = t->evaluator->phases;
    yk_phases_detail(p);
    yk_phase_to(p, YK_PHASE_CHECKPOINT);
    const double began = yk_now();
    const yk_status st = yk_server_snapshot(t->cluster.server, t->cluster.whole, !s->savable);
    s->cost = yk_now() - began;
    yk_phase_to(p, YK_PHASE_OTHER);
    return st;
}

/* Evaluates the snapshot in the background, unless taking it failed with `st`. */
static yk_status start_thread(chief *c, yk_status st)
{
    st = st ? st : yk__background_start(&c->snapshot.thread, evaluate_snapshot, c, "the evaluation thread");
    if (st)
        release(&c->snapshot);
    return st;
}

static yk_status begin_snapshot(chief *c, yk__due due)
{
    yk__trainer *t = c->t;
    snapshot *s = &c->snapshot;
    const yk_server_state state = read_server_state(t);
    *s = (snapshot){.taken = true, .due = due, .at = yk__progress_now(t)};
    s->due.save &= t->result->run_dir != NULL;
    s->repeated = due.eval && t->step == t->schedule.eval.last;
    s->savable = s->due.save || (due.eval && t->set[YK__VALIDATION].used && t->result->run_dir);
    s->parameters = s->savable || (due.eval && yk__is_evaluated(t));
    s->at.late = t->resumed.late + state.late;
    yk_status st = s->savable ? make_cursor(c, &s->at) : YK_OK;
    if (due.eval) {
        yk__start_period(t);
        yk__evaluated(&t->schedule, t->step);
    }
    if (due.save)
        saved(c, &s->at);
    if (s->due.save)
        yk__save_begins(&t->schedule);
    return start_thread(c, st || !s->parameters ? st : copy_parameters(c));
}

/* Sends heartbeats to the other processes while they wait for the snapshot. */
static yk_status wait_for_snapshot(chief *c)
{
    yk__trainer *t = c->t;
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    double heartbeat_at = yk_now();
    yk_status st = YK_OK;
    while (!st && !atomic_load(&c->snapshot.thread.over)) {
        yk_wait_poll(&w);
        if (!yk_wait_is_check_due(&w) || yk_now() - heartbeat_at < t->plan->heartbeat_every)
            continue;
        heartbeat_at = yk_now();
        if (!(st = yk_server_alive(t->cluster.server)))
            st = yk_observer_alive(t->observer);
    }
    return st;
}

/* Waits for the thread, and may start the next one. The evaluation is reported before the checkpoint is written, because a run that
 * resumes from the checkpoint does not repeat it. */
static yk_status advance(chief *c, yk_status so_far)
{
    yk__trainer *t = c->t;
    snapshot *s = &c->snapshot;
    const yk_status waited = so_far ? so_far : wait_for_snapshot(c);
    yk_status st = yk__background_join(&s->thread, YK_OK);
    if (!s->evaluated && !st) {
        s->evaluated = true;
        if (s->due.eval && !s->repeated)
            st = yk__report_evaluation(t, &s->at);
        s->saved = !st && (s->due.save || (s->due.eval && s->savable && yk__saves_best(t)));
        if (s->saved &&
            !(st = yk__background_start(&s->thread, save_snapshot, c, "the thread that writes checkpoints")))
            return waited;
    }
    release(s);
    if (s->saved)
        yk__save_ended(&t->schedule, s->cost);
    if (s->saved && !s->due.save)
        saved(c, &s->at);
    if (!st && s->due.eval)
        yk__follow_evaluation(t);
    return waited ? waited : st;
}

/* Finishes evaluating and saving the snapshot, even if the job has failed. */
static yk_status finish(chief *c, yk_status so_far)
{
    yk__saved_error first;
    for (yk__error_save(&first, so_far); c->snapshot.taken;) {
        const yk_status st = advance(c, first.st);
        if (!first.st)
            yk__error_save(&first, st);
    }
    return yk__error_raise(&first);
}

/* Before the first step: the first point of the curves. The chief still has all of the initial parameters. */
static yk_status start_initial(chief *c)
{
    yk__trainer *t = c->t;
    const yk__due due = yk__due_first(&t->schedule, t->step, t->epoch);
    if (!due.eval || due.end)
        return YK_OK;
    c->snapshot =
        (snapshot){.taken = true, .due = due, .parameters = true, .initial = true, .at = yk__progress_now(t)};
    return start_thread(c, YK_OK);
}

static void request(chief *c, yk__due due)
{
    c->due.eval |= due.eval;
    c->due.save |= due.save;
}

static bool is_due(const chief *c)
{
    return c->due.eval || c->due.save;
}

/* Advances the snapshot if its thread is done, and begins the one that is due. */
static yk_status poll_snapshot(chief *c)
{
    yk_status st = YK_OK;
    if (c->snapshot.taken && atomic_load(&c->snapshot.thread.over))
        st = advance(c, YK_OK);
    if (st || c->snapshot.taken || !is_due(c))
        return st;
    st = begin_snapshot(c, c->due);
    c->due = (yk__due){0}; /* until now, workers wait: paused() */
    return st;
}

/* ---- hooks of the server ---- */

/* Whether the evaluation of the snapshot may end the run after exactly this step. */
static bool may_end(const chief *c)
{
    return c->kind->exact && (c->t->selection.patience || c->t->plan->monitors) && c->snapshot.taken &&
           c->snapshot.due.eval && !c->snapshot.initial;
}

/* Whether workers wait for a snapshot. Begins it as soon as the one before is done. A checkpoint that need not be exact can
 * wait instead. After an evaluation that may end the run they wait until the next call, however fast it was: the server asks
 * whether to stop when a pause ends. If a snapshot failed, no step follows it. */
static bool paused(void *context)
{
    chief *c = context;
    const bool ends = may_end(c);
    if ((is_due(c) || ends) && !c->paused.st && c->snapshot.taken && atomic_load(&c->snapshot.thread.over))
        yk__error_save(&c->paused, poll_snapshot(c)); /* and begins the next one */
    return c->due.eval || (c->due.save && c->kind->exact) || ends || may_end(c) || c->paused.st;
}

static bool stop(void *context)
{
    const yk__trainer *t = ((chief *)context)->t;
    return yk__is_stopped(t) || yk__is_done(&t->schedule, t->step, t->epoch);
}

static yk_status check_step(chief *c, bool epoch_over)
{
    const yk__trainer *t = c->t;
    const yk__schedule *s = &t->schedule;
    if (stop(c)) /* the last step is always evaluated */
        return YK_OK;
    request(c, yk__due_sync(s, t->step, t->epoch, epoch_over, false, yk__save_is_overdue(s, 0)));
    return poll_snapshot(c);
}

/* An epoch ends when all of its examples were used. In rounds, each worker has its own share of a stream. */
static uint64_t epoch_of(const chief *c)
{
    const yk__trainer *t = c->t;
    if (c->kind->exact && t->plan->cursor_kind == YK_CURSOR_STREAM)
        return yk_streams_epoch(&t->cluster.streams);
    return t->train.examples
               ? (t->resumed.examples + t->evaluator->examples + t->late_examples) / t->train.examples
               : 0;
}

static yk_status check_round(chief *c)
{
    return check_step(c, false);
}

/* The epoch follows from the examples. */
static yk_status check_round_and_epoch(chief *c)
{
    const uint64_t before = c->t->epoch;
    read_server_state(c->t);
    c->t->epoch = epoch_of(c);
    yk_status st = check_step(c, false);
    return !st && c->t->epoch > before ? check_step(c, true) : st;
}

static yk_status check_separate(chief *c)
{
    yk__trainer *t = c->t;
    yk__schedule *s = &t->schedule;
    t->epoch = epoch_of(c);
    /* the last step is evaluated when all servers have received its gradient */
    if (yk__is_stopped(t) || yk__is_complete(s, t->step, t->epoch) || !yk__is_due_async(s, t->step))
        return YK_OK;
    request(c, yk__due_async(s, t->step, false));
    return poll_snapshot(c);
}

static yk_status updated(void *context, uint64_t steps, uint64_t examples, double weight, double loss)
{
    chief *c = context;
    yk__trainer *t = c->t;
    yk__worker_state *me = t->evaluator;
    if (!(loss <= yk__max_loss(t) * weight))
        return yk__diverged(t, "the training loss", loss / weight, steps);
    const uint64_t made = steps - t->step; /* more than one with local steps */
    t->step = steps;
    me->examples += examples;
    me->period_loss += loss;
    me->period_examples += examples;
    me->period_extra_weight += weight - (double)examples;
    c->used += made * (uint64_t)t->plan->workers * t->plan->batch;
    t->trained_examples += examples;
    t->trained_weight += weight;
    t->trained_loss += loss;
    yk_phases_done(me->phases, made, examples, weight, loss);
    yk_status st = yk__report_progress(t, t->step, true);
    return st ? st : c->kind->check(c);
}

static const step_kind *kind_of(const yk_plan *p)
{
    static const step_kind rounds = {check_round, true}, some = {check_round_and_epoch, true},
                           separate = {check_separate, false};
    return p->lockstep ? &rounds : p->quorum ? &some : &separate;
}

static yk_status epoch_over(void *context)
{
    chief *c = context;
    yk__trainer *t = c->t;
    t->epoch++;
    yk__set_epoch_examples(t, t->resumed.examples + t->evaluator->examples, t->epoch);
    c->used = 0;
    return check_step(c, true);
}

/* Server 0 finds dead servers before the workers that wait for them time out. The others check server 0: without workers, no
 * one else would notice. */
static yk_status check_servers(chief *c, double now)
{
    const yk__trainer *t = c->t;
    const yk__cluster *k = &t->cluster;
    if (now - c->servers_checked < 0.25)
        return YK_OK;
    c->servers_checked = now;
    for (int i = k->rank == 0; i < (k->rank == 0 ? t->plan->owners : 1); i++)
        if (yk_comm_is_dead(k->comm, i))
            return yk_fail(YK_ELOST, "server %d (rank %d) has died", i, i);
    return YK_OK;
}

/* Telemetry and heartbeats, on all servers. */
static yk_status send_telemetry(void *context)
{
    yk__trainer *t = ((chief *)context)->t;
    yk_observer_traffic(t->observer);
    return t->cluster.shards ? yk_shards_alive(t->cluster.shards) : YK_OK;
}

/* On the servers other than server 0. */
static yk_status check_and_send(void *context)
{
    yk__trainer *t = ((chief *)context)->t;
    if (t->cluster.rank == 0 && yk_comm_is_asked_to_stop(t->cluster.comm))
        atomic_store(&t->canceled, true);
    else if (t->cluster.rank != 0 && yk__is_stopped(t))
        yk_comm_ask_to_stop(t->cluster.comm);
    yk_status st = check_servers(context, yk_now());
    return st ? st : send_telemetry(context);
}

static yk_status on_tick(void *context)
{
    yk_status st = yk__error_raise(&((chief *)context)->paused);
    st = st ? st : check_and_send(context);
    return st || may_end(context) ? st : poll_snapshot(context); /* otherwise paused() does it */
}

/* ---- the workers of this process ---- */

/* Sends and receives for them. Returns their error, if they have ended with one. */
static yk_status pump(void *context, bool *busy)
{
    chief *c = context;
    yk_status st = yk_shards_pump(c->t->cluster.shards, busy);
    return !st && atomic_load(&c->workers.over) ? yk__error_raise(&c->workers.error) : st;
}

/* Returns the error of the server if there is one, else that of the workers. */
static yk_status join_workers(chief *c, yk_status st)
{
    if (st && c->workers.started) {
        yk_shards_fail(c->t->cluster.shards);
        yk_team_stop(c->t->team);
    }
    return yk__background_join(&c->workers, st);
}

/* Until all workers of this process have left. */
static yk_status drive_workers(chief *c)
{
    yk_wait w = yk_wait_begin(c->t->plan->wait, HUGE_VAL);
    yk_status st = YK_OK;
    while (!st && !atomic_load(&c->workers.over)) {
        bool busy = false;
        st = pump(c, &busy);
        if (busy)
            yk_wait_restart(&w);
        else
            yk_wait_poll(&w);
        if (!st && yk_wait_is_check_due(&w))
            st = send_telemetry(c);
    }
    return st;
}

/* After the last update: the last evaluation and checkpoint. */
static yk_status end_chief(chief *c)
{
    yk__trainer *t = c->t;
    const bool common = t->plan->lockstep; /* epoch_over() ends them */
    const yk_server_state state = read_server_state(t);
    if (!common)
        t->epoch = epoch_of(c);
    if (!common && !state.stopped && !yk__is_done(&t->schedule, t->step, t->epoch)) {
        t->epoch = t->plan->epochs; /* no examples are left in any epoch */
        yk__set_epoch_examples(t, t->resumed.examples + t->evaluator->examples + t->late_examples, t->epoch);
    }
    t->result->interrupted =
        yk__is_stopped(t) && state.stopped && !yk__is_complete(&t->schedule, t->step, t->epoch);
    /* an earlier snapshot of this step may lack gradients that other servers received later */
    const bool again = !c->kind->exact && t->plan->owners > 1,
               later = state.late != c->saved_late; /* the cursor in the checkpoint lacks their examples */
    yk__due due = yk__due_last(&t->schedule, t->step, (yk__due){.eval = again, .save = again || later});
    due.extra = common && !yk__evaluates_at(&t->schedule, t->step, !c->used);
    yk_status st = begin_snapshot(c, due);
    if (!st)
        st = yk_server_end(t->cluster.server); /* the other servers are not needed any more */
    return finish(c, st);
}

static yk_status serve(chief *c)
{
    yk__trainer *t = c->t;
    yk__cluster *k = &t->cluster;
    yk_server_hooks hooks = {.context = c, .on_tick = check_and_send};
    if (k->rank == 0)
        hooks = (yk_server_hooks){.context = c,
                                  .updated = updated,
                                  .epoch_over = epoch_over,
                                  .on_tick = on_tick,
                                  .stop = stop,
                                  .paused = paused};
    hooks.poll = k->shards ? pump : NULL;
    yk_server_set_hooks(k->server, &hooks);
    yk_status st = k->rank == 0 ? start_initial(c) : YK_OK;
    st = st ? st : yk_server_run(k->server);
    if (!st && k->shards) /* their last messages are in transit */
        st = drive_workers(c);
    if (k->rank != 0)
        return st;
    t->training_ended = yk_now();
    yk__report_last(t);
    st = finish(c, st ? st : yk__error_raise(&c->paused));
    return st ? st : end_chief(c);
}

yk_status yk__serve(yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    chief c = {.t = t, .kind = kind_of(t->plan)};
    if (t->resumed.ncursor >= 3)
        c.used = t->resumed.cursor[2];
    yk_status st = yk_team_create(t->nevaluators, &c.evaluators);
    if (!st && k->shards)
        st = yk__background_start(&c.workers, yk__run_workers, t, "the worker threads");
    if (!st)
        st = k->server ? serve(&c) : drive_workers(&c);
    st = join_workers(&c, st);
    yk_team_free(c.evaluators);
    return st;
}
