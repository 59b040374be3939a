/* The end of a run: reports and RUN/summary.json. Which process writes the summary:
 *
 *     success                the chief, from the reports of all ranks: "state" is "done", or "stopped" after a signal
 *     the chief failed       the chief, from its own report and the telemetry of the others: "failed", with the error
 *     another rank failed    that rank, before it ends the job: its own report, and the progress in the last line of the
 *                            chief's metrics; unless the chief has already written one; ranks that end because of this
 *                            failure write none
 *     a rank died            the launcher, if there is one (yk_summary_save_lost)
 *     all were killed        none: there is no summary
 */
#include "train/summary.h"

#include "train/checkpoint_dir.h"
#include "train/loop.h"
#include "train/run_dir.h"
#include "train/setup.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Steps of the first worker of this process since it started. */
static uint64_t steps_here(const yk__trainer *t)
{
    yk_phases_sample l;
    yk_phases_read(&t->phases[0], &l);
    return l.steps;
}

/* Whether the run was already done when it was resumed, so that its files stay unchanged. All ranks come to the same
 * result. */
static bool was_done(const yk__trainer *t)
{
    const uint64_t steps = t->cluster.rank == 0 ? t->step
                           : t->local           ? yk_local_steps(t->local)
                                                : t->step + steps_here(t);
    return t->result->resumed_from && steps == t->result->resumed_from && !t->result->interrupted;
}

static void summarize(yk__trainer *t)
{
    yk_result *r = t->result;
    const double first_step = t->schedule.first_step;
    r->first_step_seconds = first_step > 0.0 ? first_step - t->caller->started : 0.0;
    const double ended = t->ended > 0.0 ? t->ended : yk_now();
    r->seconds = t->training_started > 0.0 ? ended - t->training_started : 0.0;
    r->train_seconds = r->seconds - r->eval_seconds - r->checkpoint_seconds;
    if (t->training_ended > 0.0) /* a server evaluates in the background, except at the end */
        r->train_seconds = t->training_ended - t->training_started;
    r->steps = t->step;
    r->epochs = t->epoch;
    r->examples = yk__progress_now(t).examples;
    r->epochs_unknown = r->examples && !t->train.examples && !t->epoch && !t->plan->lockstep;
    r->trained_here = r->examples - t->resumed.examples;
    r->bad_records = t->train.source ? t->train.source->bad : 0; /* a server may have none */
    if (t->plan->alone) {
        yk_local_staleness(t->local, -1, &r->observed);
        r->cpu_seconds = (double)clock() / CLOCKS_PER_SEC;
    }
}

/* ---- the reports of all ranks of a job ---- */

static void sum_traffic(yk_result *r)
{
    for (int i = 0; i < r->observation.nprocesses; i++) {
        const yk_process *of = &r->observation.process[i];
        r->cpu_seconds += of->cpu_seconds;
        for (int g = 0; g < r->ngroups; g++)
            r->group[g].values_sent += of->values_sent[g];
        for (int p = 0; p < YK_PURPOSES; p++) {
            r->traffic[p].sent += of->traffic[p].sent;
            r->traffic[p].received += of->traffic[p].received;
            r->traffic[p].messages_sent += of->traffic[p].messages_sent;
            r->traffic[p].messages_received += of->traffic[p].messages_received;
        }
    }
}

static void copy_server_counters(yk__trainer *t)
{
    yk_result *r = t->result;
    yk_server_state s;
    yk_server_state_of(t->cluster.server, &s);
    r->observed = s.staleness;
    r->late = t->resumed.late + s.late;
    r->late_examples = t->resumed.late_examples + s.late_examples;
    r->lost = s.lost;
    r->joined = s.joined;
    r->returned = s.returned;
    t->cluster.rank_lost |= s.lost > 0;
}

static yk_status gather_reports(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_result *r = t->result;
    if (t->plan->alone)
        return YK_OK;
    if (k->server && k->rank == 0)
        copy_server_counters(t);
    yk_status st = yk_observer_gather(t->observer, &k->rank_lost, &r->observation);
    k->rank_lost |= k->joined; /* the job that it joined may have ended */
    if (st || !r->observation.process)
        return st;
    sum_traffic(r);
    int lost = 0;
    for (int i = 0; i < r->observation.nprocesses; i++)
        lost += r->observation.process[i].lost;
    r->lost = lost > r->lost ? lost : r->lost; /* some may be lost after the last step */
    return YK_OK;
}

/* On the live page, if there is one. */
static void show_end(const yk__trainer *t, const char *state)
{
    const yk_result *r = t->result;
    const double here = (double)(r->steps - r->resumed_from);
    const yk_run_position at = {
        .examples = r->examples, .late_examples = r->late_examples, .epoch_examples = yk__epoch_examples(t)};
    const yk_run_end end = {.state = state,
                            .error = r->error,
                            .verdict = &r->observation.verdict,
                            .step = r->steps,
                            .examples = r->examples,
                            .epoch = yk_epochs_done(&at),
                            .seconds = t->resumed.seconds + r->seconds,
                            .train_loss = r->train_loss,
                            .examples_per_second = (double)r->trained_here / r->train_seconds,
                            .steps_per_second = here / r->train_seconds};
    yk_observer_show_end(t->observer, &end, t->caller->stop);
}

/* All metrics of the best model, or else of the last one. */
static yk_status make_metrics(yk__trainer *t)
{
    const yk_source *s = t->train.source; /* a server may have none */
    const yk_tally *tally = t->selection.best.step ? &t->selection.tested : &t->set[YK__TEST].tally;
    if (!tally->examples)
        return YK_OK;
    yk_status st = yk_eval_metrics_make(tally, &t->result->metrics);
    if (st)
        return st;
    const yk__names *names = s ? s->class_names : t->schema ? &t->schema->classes : NULL;
    t->result->metrics_json = yk_eval_metrics_json(&t->result->metrics, names, 9);
    return t->result->metrics_json ? YK_OK : YK_ESYSTEM;
}

/* Whether this run learned something, as far as is known: without its weights, an example has no gradient. */
static yk_status check_examples(const yk__trainer *t)
{
    const yk_result *r = t->result;
    yk_phases_sample own;
    if (r->interrupted)
        return YK_OK;
    if (!r->examples)
        return yk_fail(YK_EDATA, "%s: no examples", t->config->data);
    yk_phases_read_all(t->phases, t->local_workers, &own);
    double weight = own.weight;
    for (int i = 0; i < r->observation.nprocesses; i++)
        weight += r->observation.process[i].phases.weight;
    return weight > 0.0 || r->resumed_from || r->lost || t->cluster.rank_lost
               ? YK_OK
               : yk_fail(
                     YK_EDATA,
                     "%s: all examples that the run used have zero weight, so it learned nothing: use other "
                     "weights, or none",
                     t->config->data);
}

/* The results of all ranks, on the chief. */
static yk_status conclude(yk__trainer *t)
{
    yk_result *r = t->result;
    yk_status st = gather_reports(t);
    if (!st && t->cluster.rank == 0) {
        summarize(t);
        st = yk__profile_collect(t);
        if (!st)
            st = make_metrics(t);
        if (!st)
            st = check_examples(t);
    }
    if (!st)
        st = yk_observer_conclude(t->observer, t->cluster.rank_lost, &r->observation);
    return st;
}

/* From here on, the test scores are those of the best model. */
static void use_best(yk__trainer *t)
{
    yk_result *r = t->result;
    const yk_best *best = &t->selection.best;
    if (!r->validated || !best->step)
        return;
    r->selected = *best;
    r->last_test = r->test;
    r->test = best->test;
    if (t->schedule.stopped && t->step < t->plan->steps && t->epoch < t->plan->epochs)
        r->waited = best->waited;
}

static void print_end(const yk__trainer *t)
{
    const yk_result *r = t->result;
    if (r->waited)
        yk_note("stopped early: no improvement for %llu evaluation%s; best at step %llu",
                (unsigned long long)r->waited, yk_plural(r->waited), (unsigned long long)r->selected.step);
    if (was_done(t))
        yk_note("nothing left to do: the run already has %llu step%s; raise %s to continue",
                (unsigned long long)t->step, yk_plural(t->step),
                yk__selection_is_over(&t->selection) ? "--patience" : "--epochs or --steps");
    yk_text word = {0};
    if (r->interrupted && r->run_dir) {
        yk_text_shell(&word, r->run_dir);
        yk_note("stopped at step %llu, saved in %s; continue with: yoke train --out %s --resume",
                (unsigned long long)r->steps, r->checkpoint, word.s ? word.s : r->run_dir);
    } else if (r->interrupted)
        yk_note("stopped at step %llu; with --out none nothing is saved", (unsigned long long)r->steps);
    yk_text_fini(&word);
}

static yk_status end_success(yk__trainer *t)
{
    yk_result *r = t->result;
    const char *state = r->interrupted ? "stopped" : "done";
    t->ended = yk_now();
    yk_status st = yk_observer_stop(t->observer, t->step, was_done(t), YK_OK);
    if (st || (st = conclude(t)) || (st = yk_observer_close(t->observer, state)) || t->cluster.rank != 0)
        return st;
    use_best(t);
    yk__add_warnings(t);
    print_end(t);
    if (r->run_dir && !(st = yk_run_dir_verify(r->run_dir, t->lock)))
        st = was_done(t) && t->done_summary ? yk_summary_restore(r->run_dir, t->done_summary)
                                            : yk_result_save(t->config, r, r->run_dir);
    show_end(t, state);
    return st;
}

/* ---- failure ---- */

/* The progress and the bottleneck of the run according to the last lines of the chief's metrics. */
static void read_progress(const char *run_dir, yk_result *r)
{
    yk_metrics_end end;
    yk_metrics_read_end(run_dir, &end);
    r->steps = end.steps;
    r->examples = r->trained_here = end.examples;
    r->epochs = (uint64_t)fmax(end.epochs, 0.0); /* fmax() ignores NaN */
    r->epochs_unknown = !isfinite(end.epochs) && end.examples;
    r->seconds = fmax(end.seconds, r->seconds); /* this process may have run longer */
    r->train_seconds = r->seconds;
    r->load_seconds = r->first_step_seconds = r->eval_seconds = r->checkpoint_seconds = (double)NAN;
    r->without_chief = true;
    r->resumed_from = 0; /* these are the steps and the time of the whole run */
    if (end.verdict.kind != YK_VERDICT_NONE)
        r->observation.verdict = end.verdict;
}

/* Whether this failure ends the run: this process is the chief, or ends the job. */
static bool writes_summary(const yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    const yk_status st = t->result->status;
    const bool continues = t->plan->trains && t->plan->survives_loss && (st == YK_ELOST || st == YK_ESTOP);
    if (st == YK_EINTERRUPTED) /* nothing was trained */
        return false;
    if (k->rank == 0 && t->lock && !yk_lock_covers(t->lock, t->result->run_dir))
        return false;
    if (k->rank != 0 && k->comm && yk_comm_check(k->comm)) /* another rank has ended the job, and knows why */
        return false;
    return k->rank == 0 ? t->run_dir_claimed : yk_observer_run_dir(t->observer) && !k->joined && !continues;
}

/* Errors here are ignored: the failure itself is more important. */
static void save_failure(yk__trainer *t)
{
    yk_result *r = t->result;
    const bool chief = t->cluster.rank == 0;
    const bool counts = t->cluster.shards && !t->plan->serves && t->plan->lockstep;
    const uint64_t stored = t->local && t->plan->whole ? yk_local_steps(t->local) : 0,
                   own = counts ? t->step + steps_here(t) : t->step; /* since the last barrier, too */
    summarize(t);
    if (!chief)
        read_progress(yk_observer_run_dir(t->observer), r);
    r->steps = stored > r->steps ? stored : r->steps;
    r->steps = own > r->steps ? own : r->steps;
    /* what is known without communication */
    const bool gathered = r->observation.process;
    yk_observer_conclude_failed(t->observer, &r->observation);
    if (!gathered)
        sum_traffic(r);
    yk_result_save_if_missing(t->config, r, chief ? r->run_dir : yk_observer_run_dir(t->observer));
}

static void end_failure(yk__trainer *t, yk_status st)
{
    yk_result *r = t->result;
    r->status = st;
    if (t->cluster.comm)
        yk_comm_explain(t->cluster.comm, st);
    yk_comm_abandon(t->cluster.comm); /* buffers are freed soon */
    r->error = strdup(*yk_error() ? yk_error() : yk_status_text(st));
    yk_observer_stop(t->observer, t->step, t->observer && was_done(t), st);
    yk_observer_close(t->observer, "failed");
    if (writes_summary(t))
        save_failure(t);
    if (t->plan->alone) /* the other processes of a job must not wait */
        show_end(t, "failed");
    if (r->error)
        yk_fail(st, "%s", r->error);
}

yk_status yk__end_run(yk__trainer *t, yk_status st)
{
    if (!st)
        st = end_success(t);
    if (st)
        end_failure(t, st);
    return st;
}

void yk_summary_save_lost(const yk_config *c, yk_result *r, time_t since)
{
    struct stat config;
    const yk_path path = yk_path_of("%s/config.ini", r->run_dir);
    if (yk_sys->stat(AT_FDCWD, path.s, &config, 0) ||
        config.st_mtime < since) /* the directory holds an older run, or none */
        return;
    r->from_launcher = true;
    r->lr = yk_by_group_of(&c->lr, "", true, (double)NAN);
    r->train_loss = (double)NAN;
    read_progress(r->run_dir, r);
    yk_result_save_if_missing(c, r, r->run_dir);
}
