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

static void summarise(yk__trainer *t)
{
    yk_result *r = t->result;
    r->seconds = t->began > 0.0 ? yk_now() - t->began : 0.0;
    r->train_seconds = r->seconds - r->eval_seconds - r->checkpoint_seconds;
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
    yk_status st = yk__observe_stop(t, YK_OK);
    if (!st)
        st = yk__cluster_finish(t);
    if (!st && chief) {
        summarise(t);
        st = t->cluster.role == YK__SERVER ? YK_OK : yk__profile_take(t);
    }
    if (!st && chief && r->examples == 0 && !r->interrupted)
        st = yk_fail(YK_EDATA, "%s: there are no examples in it", t->config->data);
    if (!st)
        st = yk__observe_conclude(t, false);
    if (!st)
        st = yk__journal_close(t);
    if (st || !chief)
        return st;
    yk__guard(t);
    if (yk__was_done(t))
        yk_note("nothing left to do: the run already has %llu steps; raise --epochs or --steps to continue",
                (unsigned long long)t->step);
    if (!r->run_dir)
        return YK_OK;
    return yk__was_done(t) && t->done_summary ? yk_summary_keep(r->run_dir, t->done_summary)
                                              : yk_result_save(t->config, r, r->run_dir);
}

/* ---- what failed ---- */

/* In brief, as it was then. */
static void read_verdict(const char *line, yk_verdict *v)
{
    char name[64];
    yk__line_text(line, "bottleneck", name, sizeof name);
    for (int k = YK_VERDICT_NONE + 1; k < YK_VERDICT_KINDS; k++)
        if (strcmp(name, yk_verdict_name((yk_verdict_kind)k)) == 0)
            v->kind = (yk_verdict_kind)k;
    if (v->kind == YK_VERDICT_NONE)
        return;
    v->share = yk__line_number(line, "share");
    snprintf(v->text, sizeof v->text, "%s: %.0f %% of the time, by the last lines of metrics.jsonl", name,
             100.0 * v->share);
}

/* How far the run is by the last line that the chief wrote, and what held it back by then. */
static void read_progress(const char *run_dir, yk_result *r)
{
    char line[1024] = "", held[1024] = "", *path = path_in(run_dir, "metrics.jsonl");
    if (path) {
        yk__lines_last(path, "step", line, sizeof line);
        yk__lines_last(path, "bottleneck", held, sizeof held);
    }
    free(path);
    r->steps = (uint64_t)fmax(yk__line_number(line, "step"), 0.0); /* fmax() passes NaN over */
    r->examples = r->trained_here = (uint64_t)fmax(yk__line_number(line, "examples"), 0.0);
    r->epochs = (uint64_t)fmax(yk__line_number(line, "epoch"), 0.0);
    r->seconds = fmax(yk__line_number(line, "seconds"), r->seconds); /* of its own, if it has seen more */
    r->train_seconds = r->seconds;
    read_verdict(held, &r->watched.verdict);
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
    return k->rank == 0 ? t->is_run : t->shared_dir && !k->joined && !goes_on;
}

/* Steps that this process knows of: since the last meeting, or the chief's last line, there were more. */
static uint64_t steps_so_far(const yk__trainer *t)
{
    const yk__role role = t->cluster.role;
    const uint64_t stored = t->local && !yk__serves(role) ? yk_local_steps(t->local) : 0;
    const uint64_t own = role == YK__WORKER && t->plan->lockstep ? t->step + t->self.look.steps : t->step;
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
        read_progress(t->shared_dir, r);
    r->steps = steps > r->steps ? steps : r->steps;
    yk__cluster_salvage(t);
    if (!r->watched.nprocesses && t->observer)
        yk__observe_conclude(t, true);
    yk_result_save_first(t->config, r, chief ? r->run_dir : t->shared_dir);
}

static void end_badly(yk__trainer *t, yk_status st)
{
    yk_result *r = t->result;
    r->status = st;
    if (t->cluster.comm)
        yk_comm_explain(t->cluster.comm, st);
    r->error = strdup(*yk_error() ? yk_error() : yk_status_text(st));
    yk__observe_stop(t, st);
    yk__journal_close(t);
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
