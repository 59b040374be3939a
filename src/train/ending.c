/* The end of a run, and what is left of it in RUN/summary.json. Who writes that:
 *
 *     it ended well          the chief, from the reports of all: "state" is "done", or "stopped" after a signal
 *     the chief failed       the chief, from what it saw of itself and has heard of the others: "failed", and why
 *     another rank failed    that rank, before it ends the job and the chief with it: what it saw of itself, and how far the run
 *                            was by the chief's last line; unless the chief was faster
 *     a rank died            the launcher, if there is one (yk_summary_of_lost)
 *     all were killed        nobody: there is none
 */
#include "train/summary.h"

#include "base/clock.h"
#include "base/log.h"
#include "train/trainer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *path_in(const char *dir, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", dir, name) >= 0)
        return path;
    yk_fail_memory(strlen(dir), "a path");
    return NULL;
}

/* Steps that a worker has made since the job began. */
static uint64_t steps_here(const yk__trainer *t)
{
    yk_phases_sample l;
    yk_phases_read(&t->phases[0], &l);
    return l.steps;
}

/* Whether the run was already done when it was resumed, so that its files stay unchanged. Each rank can tell by itself. */
static bool was_done(const yk__trainer *t)
{
    const uint64_t steps = t->cluster.role == YK__WORKER ? t->step + steps_here(t)
                           : t->cluster.rank             ? yk_local_steps(t->local)
                                                         : t->step;
    return t->result->resumed_from && steps == t->result->resumed_from && !t->result->interrupted;
}

static void summarise(yk__trainer *t)
{
    yk_result *r = t->result;
    const double first_step = yk_observer_first_step(t->observer);
    r->first_step_seconds = first_step > 0.0 ? first_step - t->started : 0.0;
    r->seconds = t->began > 0.0 ? yk_now() - t->began : 0.0;
    r->train_seconds = r->seconds - r->eval_seconds - r->checkpoint_seconds;
    if (t->trained > 0.0) /* the chief of servers evaluates and saves on the side, but for the last time */
        r->train_seconds = t->trained - t->began;
    r->steps = t->step;
    r->epochs = t->epoch;
    r->examples = t->earlier_examples;
    for (int i = 0; i < t->nevaluators; i++)
        r->examples += t->evaluator[i].examples;
    r->trained_here = r->examples - t->earlier_examples;
    r->bad_records = t->train.source->bad;
    if (t->cluster.role == YK__ALONE)
        yk_local_staleness(t->local, &r->observed);
}

static yk_status end_well(yk__trainer *t)
{
    const bool chief = t->cluster.rank == 0;
    yk_result *r = t->result;
    yk_status st = yk_observer_stop(t->observer, t->step, was_done(t), YK_OK);
    if (!st)
        st = yk__cluster_finish(t);
    if (!st && chief) {
        summarise(t);
        st = t->cluster.role == YK__SERVER ? YK_OK : yk__profile_take(t);
    }
    if (!st && chief && r->examples == 0 && !r->interrupted)
        st = yk_fail(YK_EDATA, "%s: there are no examples in it", t->config->data);
    if (!st)
        st = yk_observer_conclude(t->observer, r->report, r->nreports, t->cluster.lost_somebody, &r->watched);
    if (!st)
        st = yk_observer_close(t->observer);
    if (st || !chief)
        return st;
    yk__warn(t);
    if (was_done(t))
        yk_note("nothing left to do: the run already has %llu steps; raise --epochs or --steps to continue",
                (unsigned long long)t->step);
    if (r->interrupted && r->run_dir)
        yk_note("stopped at step %llu, saved in %s; continue with: yoke train --out %s --resume",
                (unsigned long long)r->steps, r->checkpoint, r->run_dir);
    else if (r->interrupted)
        yk_note("stopped at step %llu; with --out none nothing is saved", (unsigned long long)r->steps);
    if (!r->run_dir)
        return YK_OK;
    return was_done(t) && t->done_summary ? yk_summary_keep(r->run_dir, t->done_summary)
                                          : yk_result_save(t->config, r, r->run_dir);
}

/* ---- what failed ---- */

/* How far the run is by the last line that the chief wrote, and its bottleneck then. */
static void read_progress(const char *run_dir, yk_result *r)
{
    yk_metrics_end end;
    yk_metrics_read_end(run_dir, &end);
    r->steps = end.steps;
    r->examples = r->trained_here = end.examples;
    r->epochs = end.epochs;
    r->seconds = fmax(end.seconds, r->seconds); /* this process may have seen more */
    r->train_seconds = r->seconds;
    if (end.verdict.kind != YK_VERDICT_NONE)
        r->watched.verdict = end.verdict;
}

/* The run is over, and this process knows why: it is the chief, or ends the job. */
static bool has_the_last_word(const yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    const yk_status st = t->result->status;
    const bool goes_on =
        k->role == YK__WORKER && t->plan->survives_loss && (st == YK_ELOST || st == YK_ESTOP);
    if (st == YK_EINTERRUPTED) /* nothing was trained */
        return false;
    return k->rank == 0 ? t->is_run : yk_observer_run_dir(t->observer) && !k->joined && !goes_on;
}

/* Steps that this process knows of: since the last barrier, or the chief's last line, there were more. */
static uint64_t steps_so_far(const yk__trainer *t)
{
    const yk__role role = t->cluster.role;
    const uint64_t stored = t->local && !yk__serves(role) ? yk_local_steps(t->local) : 0;
    const uint64_t own = role == YK__WORKER && t->plan->lockstep ? t->step + steps_here(t) : t->step;
    return stored > own ? stored : own;
}

/* Nothing here matters as much as what went wrong before: errors are passed over. */
static void save_failure(yk__trainer *t)
{
    yk_result *r = t->result;
    const bool chief = t->cluster.rank == 0;
    const uint64_t steps = steps_so_far(t);
    summarise(t);
    if (!chief)
        read_progress(yk_observer_run_dir(t->observer), r);
    r->steps = steps > r->steps ? steps : r->steps;
    yk__cluster_salvage(t);
    if (!r->watched.nprocesses)
        yk_observer_conclude_failed(t->observer, r->report, r->nreports, &r->watched);
    yk_result_save_first(t->config, r, chief ? r->run_dir : yk_observer_run_dir(t->observer));
}

static void end_badly(yk__trainer *t, yk_status st)
{
    yk_result *r = t->result;
    r->status = st;
    if (t->cluster.comm)
        yk_comm_explain(t->cluster.comm, st);
    r->error = strdup(*yk_error() ? yk_error() : yk_status_text(st));
    yk_observer_stop(t->observer, t->step, t->observer && was_done(t), st);
    yk_observer_close(t->observer);
    if (has_the_last_word(t))
        save_failure(t);
    if (r->error)
        yk_fail(st, "%s", r->error);
}

yk_status yk__end(yk__trainer *t, yk_status st)
{
    if (!st)
        st = end_well(t);
    if (st)
        end_badly(t, st);
    return st;
}

/* Has the directory been this run's since then? Else there is an older run in it, or none. */
static bool is_its_run(const char *run_dir, time_t since)
{
    struct stat config;
    char *path = path_in(run_dir, "config.ini");
    const bool ours = path && stat(path, &config) == 0 && config.st_mtime >= since;
    free(path);
    return ours;
}

void yk_summary_of_lost(const yk_config *c, const yk_lost *lost)
{
    if (!is_its_run(lost->run_dir, lost->since))
        return;
    yk_result r = {.status = YK_ELOST,
                   .exit_code = lost->exit_code,
                   .error = (char *)lost->error, /* it is only read */
                   .run_dir = (char *)lost->run_dir,
                   .secondhand = true,
                   .lr = c->lr >= 0.0 ? c->lr : (double)NAN,
                   .train_loss = (double)NAN};
    yk_plan_describe(c, lost->ranks, &r.plan);
    r.plan.workers = lost->workers; /* 0: not known */
    read_progress(lost->run_dir, &r);
    yk_result_save_first(c, &r, lost->run_dir);
}
