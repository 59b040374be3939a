/* Evaluation and checkpoint barriers for processes that have all parameters: a single process, or replicas. All workers
 * stop, the store is quiesced, each worker evaluates its share of the test set and of the validation set, and the chief reports
 * and saves. */
#include "train/loop.h"

#include "base/crc.h"
#include <stdlib.h>

/* ---- replicas ---- */

uint64_t yk__parameter_hash(yk__trainer *t)
{
    uint64_t hash = 0;
    for (int g = 0; g < t->model->ngroups; g++)
        hash = hash * 0x100000001b3u + yk_crc32c(yk_local_raw(t->local, g).live.w,
                                                 yk_group_floats(&t->model->group[g]) * sizeof(float));
    return hash;
}

/* Checks that all replicas have the same parameters. */
static yk_status compare(yk__trainer *t)
{
    const int n = t->cluster.ranks;
    struct {
        uint64_t step, hash;
    } mine = {t->step, yk__parameter_hash(t)},
      *all = yk_alloc((size_t)n, sizeof *all, "the comparison of replicas");
    if (!all)
        return YK_ESYSTEM;
    yk_status st = yk_comm_gather(t->cluster.comm, &mine, sizeof mine, all, t->plan->barrier_timeout,
                                  "the parameters' hash");
    for (int i = 1; !st && t->cluster.rank == 0 && i < n; i++)
        if (all[i].step != mine.step || all[i].hash != mine.hash)
            st = yk_fail(YK_ELOST,
                         "the replicas differ: rank %d is at step %llu with parameter hash %08llx, rank 0 at "
                         "step %llu with %08llx",
                         i, (unsigned long long)all[i].step, (unsigned long long)all[i].hash,
                         (unsigned long long)mine.step, (unsigned long long)mine.hash);
    yk_free(all);
    return st;
}

/* The results of the workers of all processes, to the chief. */
static yk_status gather_tallies(yk__trainer *t, int set)
{
    const int own = t->plan->workers_per_process;
    yk_status st = YK_OK;
    for (int k = 0; !st && k < own; k++) {
        char *mine;
        size_t bytes;
        yk_comm_pieces all;
        if ((st = yk_tally_pack(&t->worker[k].tally[set], &mine, &bytes)))
            break;
        st = yk_comm_gatherv(t->cluster.comm, mine, bytes, &all, t->plan->barrier_timeout,
                             "a part of the evaluation");
        for (int i = 1; !st && i < all.n; i++)
            st = yk_tally_unpack(&t->worker[i * own + k].tally[set], all.data[i], all.bytes[i]);
        yk_comm_pieces_free(&all);
        free(mine);
    }
    return st;
}

/* The chief selects the best model, and all processes follow: the best one is saved, or the run ends. */
static yk_status conclude_evaluation(yk__trainer *t)
{
    const bool replica = t->cluster.exchange;
    const yk_progress_state at = yk__progress_now(t);
    yk_status st = YK_OK;
    for (int i = 0; replica && !st && i < YK__SETS; i++)
        st = t->set[i].used ? gather_tallies(t, i) : YK_OK;
    if (!st && t->cluster.rank == 0) {
        yk__start_period(t);
        if (!(st = yk__score_evaluation(t, &at, t->due.extra)))
            st = yk__report_evaluation(t, &at);
    }
    if (!st && replica && t->set[YK__VALIDATION].used)
        st = yk_comm_broadcast(t->cluster.comm, &t->selection.best, sizeof t->selection.best,
                               t->plan->barrier_timeout, "the best model so far");
    yk__evaluated(&t->schedule, t->step);
    if (st)
        return st;
    yk__follow_evaluation(t);
    t->due.best = !t->due.save && yk__saves_best(t);
    t->due.save |= t->due.best;
    if (t->schedule.stopped)
        t->due = yk__due_last(&t->schedule, t->step, (yk__due){.save = t->due.save});
    return YK_OK;
}

/* ---- a checkpoint ---- */

/* The cursors of a stream, of the workers of all processes. */
static yk_status gather_cursors(yk__trainer *t, uint64_t *cursors)
{
    const size_t own = (size_t)t->plan->workers_per_process;
    uint64_t *mine = yk_alloc(own * YK_CURSOR_SIZE, sizeof *mine, "the data cursor");
    if (!mine)
        return YK_ESYSTEM;
    for (size_t i = 0; i < own; i++)
        yk_feed_cursor_of(t->feed, t->plan->first_worker + (int)i, mine + YK_CURSOR_SIZE * i);
    yk_status st = yk_comm_gather(t->cluster.comm, mine, own * YK_CURSOR_SIZE * sizeof *mine, cursors,
                                  t->plan->barrier_timeout, "the data cursors");
    yk_free(mine);
    return st;
}

static yk_status save(yk__trainer *t)
{
    const bool streams = t->cluster.exchange && t->plan->cursor_kind == YK_CURSOR_STREAM;
    yk_progress_state p = yk__progress_now(t);
    if (t->cluster.rank != 0 && !streams) /* the cursor is the same on all ranks */
        return YK_OK;
    yk_status st = yk_feed_cursor(t->feed, &p.cursor, &p.ncursor);
    if (!st && streams)
        st = gather_cursors(t, p.cursor + 2);
    if (st || t->cluster.rank != 0 || !t->result->run_dir) {
        yk_free(p.cursor);
        return st;
    }
    return yk__save_async(t, &p, t->due.best);
}

/* ---- the barrier ---- */

/* Worker 0 of a process, while the others wait. */
static yk_status report_and_save(yk__trainer *t, yk_phases *p, double began)
{
    const bool replica = t->cluster.exchange;
    yk_status st = t->due.eval ? conclude_evaluation(t) : YK_OK;
    const double evaluated = yk_now();
    t->result->eval_seconds += evaluated - began;
    if (!st && t->due.save) {
        yk_phase_to(p, YK_PHASE_CHECKPOINT);
        st = save(t);
        yk__saved(&t->schedule, t->step);
        t->result->checkpoint_seconds += yk_now() - evaluated;
    } else if (!st) {
        st = yk__save_pending(t);
    }
    if (!st && replica) {
        yk_phase_to(p, YK_PHASE_WORKERS);
        st = yk_comm_barrier(t->cluster.comm, t->plan->barrier_timeout,
                             "the end of an evaluation or checkpoint");
    }
    atomic_store(&t->barrier_due, false);
    return st;
}

/* Each worker evaluates its share. Includes waiting for workers whose evaluation takes longer. */
static yk_status evaluate(yk__trainer *t, int me)
{
    yk_view table[YK_MAX_GROUPS];
    yk_local_tables(t->local, table);
    yk_status st = me == 0 && t->cluster.exchange ? compare(t) : YK_OK;
    if (!st && t->due.eval)
        st = yk__evaluate(t, &t->worker[me], t->plan->first_worker + me, t->plan->workers, table);
    return st ? st : yk_team_barrier(t->team, me);
}

yk_status yk__barrier(yk__trainer *t, int me)
{
    yk_phases *p = t->worker[me].phases;
    yk_phases_detail(p);
    yk_phase_to(p, YK_PHASE_WORKERS);
    yk_status st = yk_local_quiesce(t->local, me);
    const yk__due due = t->due; /* an evaluation may change it */
    /* separate steps: the last evaluation may be at a barrier before the one that ends the run */
    if (me == 0 && (t->due.end || yk__is_complete(&t->schedule, t->step, t->epoch)))
        yk__report_last(t);
    const double began = yk_now();
    yk_phase_to(p, due.eval ? YK_PHASE_EVAL : YK_PHASE_CHECKPOINT);
    if (!st)
        st = evaluate(t, me);
    if (!st && me == 0)
        st = report_and_save(t, p, began);
    else if (due.save)
        yk_phase_to(p, YK_PHASE_CHECKPOINT);
    if (!st)
        st = yk_team_barrier(t->team, me);
    yk_phase_to(p, YK_PHASE_OTHER);
    return st || t->due.end ? st : yk_local_resume(t->local, me);
}
