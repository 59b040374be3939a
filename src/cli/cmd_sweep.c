/* yoke sweep: trains the runs of a grid one after the other, each in a child process (yoke train); then prints a table and writes a
 * report.
 *
 * Complete runs are kept, stopped runs are resumed, the others are started. A failed run is a result. Three failed runs in
 * a row end the sweep unless keep_going; runs that diverged do not count. The results so far are saved every few seconds
 * and at the end (sweep.csv, runs.csv, sweep.json).
 *
 * search = halving: with R rungs, all combinations train for 1/2^R of their length (rung 1); the better half, by the value of
 * --monitor on the validation set, else the loss on the test set, else on the training set, is resumed for twice as long (rung 2),
 * and so on. RUN/rung-20-epochs.json is the summary of a run after 20 epochs, the end of a rung, so that an interrupted sweep can
 * be continued, even with other rungs. */
#include "cli/cli.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/moments.h"
#include "base/perm.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "data/source.h"
#include "format/json_value.h"
#include "lib/internal.h"
#include "report/report.h"
#include "sweep/dir.h"
#include "sweep/table.h"
#include "train/checkpoint.h"
#include "train/run_dir.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SETS = 64, MAX_FAILURES = 3, SAVE_SECONDS = 5 };

typedef struct {
    char *file;
    const char *out;
    const char *set[MAX_SETS];
    size_t nsets;
    bool quick, dry_run, keep_going, force, no_report, json;
} arguments;

typedef struct {
    yk_sweep_plan plan;
    arguments a;
    char **argv;  /* "sweep" and its arguments */
    size_t at;    /* the current run */
    double began; /* when it was started */
    size_t consecutive_failures;
    int64_t divisor; /* halving: runs are trained for this part of their length; 0: whole runs */
    bool searched;   /* halving: the last rung is complete, or the time is over */
    double spent;    /* halving: seconds of the rungs so far, also by earlier sweeps */
} sweep;

/* ---- messages ---- */

static const char *clock_text(double seconds, char out[32])
{
    long s = lround(fmax(seconds, 0.0));
    if (s >= 3600)
        snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 32, "%ld:%02ld", s / 60, s % 60);
    return out;
}

/* Seconds that a complete run took, including loading; 0: it is not complete. */
static double took(const yk_sweep_run *r)
{
    const double loading = yk_number_at(r->summary, "load_seconds"),
                 seconds = yk_number_at(r->summary, "seconds") + (isfinite(loading) ? loading : 0.0);
    return r->state != YK_SWEEP_DONE ? 0.0 : seconds > 0.0 ? seconds : 1e-3;
}

/* Expected seconds of a run: the mean over other seeds of its combination, else over all runs. 0: unknown. */
static double expected(const yk_sweep_plan *p, size_t point)
{
    yk_moments same = {0}, all = {0};
    for (size_t k = 0; k < p->nruns; k++) {
        const double seconds = took(&p->run[k]);
        yk_moments_add(&all, seconds > 0.0 ? seconds : (double)NAN);
        yk_moments_add(&same, seconds > 0.0 && p->run[k].point == point ? seconds : (double)NAN);
    }
    return same.n ? same.mean : all.mean;
}

/* ", about 1:40 left" for the runs from `first` on, of which `spent` seconds have passed; "" if that is not known. */
static const char *left_text(const sweep *s, size_t first, double spent, char out[64])
{
    double left = 0.0;
    char text[32];
    for (size_t i = s->plan.file.halving ? s->plan.nruns : first; i < s->plan.nruns; i++) {
        double one = took(&s->plan.run[i]) > 0.0 ? 0.0 : expected(&s->plan, s->plan.run[i].point);
        left += i == first ? fmax(one - spent, 0.0) : one;
    }
    if (left <= 0.0)
        return "";
    snprintf(out, 64, ", about %s left", clock_text(left, text));
    return out;
}

static void show_progress(const sweep *s)
{
    const double spent = yk_now() - s->began;
    char text[32], left[64];
    if (yk_progress_wanted())
        yk_progress("run %zu of %zu: %s  %s%s", s->at + 1, s->plan.nruns, s->plan.run[s->at].label,
                    clock_text(spent, text), left_text(s, s->at, spent, left));
}

/* "accuracy 92.10 %, test loss 0.2896, AUC 0.7844, validation AUC 0.7801", as far as known; without a test set, the training loss. */
static void report_done(const sweep *s, size_t i)
{
    const yk_sweep_run *r = &s->plan.run[i];
    const double accuracy = yk_number_at(r->summary, "test_accuracy"),
                 test = yk_number_at(r->summary, "test_loss"), auc = yk_number_at(r->summary, "test_auc");
    const bool percent = yk_sweep_in_percent(&s->plan);
    yk_text score = {0};
    char left[64];
    if (isfinite(accuracy))
        yk_text_print(&score, "accuracy %.2f %%, test loss %.4f", 100.0 * accuracy, test);
    else
        yk_text_print(&score, "%s loss %.4f", isfinite(test) ? "test" : "training",
                      isfinite(test) ? test : yk_number_at(r->summary, "train_loss"));
    if (isfinite(auc))
        yk_text_print(&score, ", AUC %.4f", auc);
    if (s->plan.monitor)
        yk_text_print(&score, percent ? ", validation %s %.2f %%" : ", validation %s %.4f",
                      s->plan.monitor->title,
                      (percent ? 100.0 : 1.0) * yk_number_at(r->summary, "best_value"));
    yk_note("run %zu of %zu: %s: %s in %.1f s%s", i + 1, s->plan.nruns, r->label, score.s ? score.s : "",
            took(r), left_text(s, i + 1, 0.0, left));
    yk_text_fini(&score);
}

/* ---- a child ---- */

typedef struct {
    int status;       /* exit status, or 128 + the number of the signal that killed it */
    char error[2048]; /* if it failed: why the kernel killed it, or its own error; one line */
} child;

/* Waits until the child has ended, and passes on the first and the second signal; returns its wait status. */
static int follow(const sweep *s, pid_t pid, const sigset_t *mask)
{
    static const struct timespec every = {.tv_nsec = 250000000};
    int status = 0, sent = 0;
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    while (waitpid(pid, &status, WNOHANG) == 0) {
        ppoll(&ended, 1, &every, mask); /* without a pidfd, it only waits */
        if (sent < (yk_cli_stop != 0) + (yk_cli_stop_again != 0)) {
            kill(pid, SIGTERM);
            sent++;
        }
        show_progress(s);
    }
    if (ended.fd >= 0)
        close(ended.fd);
    return status;
}

/* The error in the JSON output, or else the last line of the log, as one line. */
static void explain(int log, FILE *out, char *error, size_t size)
{
    enum { LAST_BYTES = 2000 };
    char text[LAST_BYTES + 1], *line = yk_last_object(out);
    json_t *object = line ? json_loads(line, 0, NULL) : NULL;
    const char *found = json_string_value(json_object_get(object, "error"));
    if (!found) {
        const off_t bytes = lseek(log, 0, SEEK_END);
        ssize_t n = pread(log, text, LAST_BYTES, bytes > LAST_BYTES ? bytes - LAST_BYTES : 0);
        while (n > 0 && text[n - 1] == '\n')
            n--;
        text[n > 0 ? n : 0] = '\0';
        const char *last = strrchr(text, '\n');
        found = last ? last + 1 : *text ? text : "no error message";
    }
    snprintf(error, size, "%s", found);
    for (char *c = error; (c = strpbrk(c, "\t\r\n"));)
        *c = ' ';
    json_decref(object);
    free(line);
}

/* Runs this program as a child: the running version, even if its file was replaced, so all runs of a sweep use one version. Its
 * stdin is empty, its stderr goes to DIR/log.txt, and its stdout is only searched for an error. It receives SIGTERM when its
 * parent dies. YK_ESTOP: a signal arrived before the child was started. */
static yk_status run_program(const sweep *s, char *const *argv, const char *dir, bool append, child *out)
{
    const int log = yk_open_in(dir, "log.txt", O_RDWR | O_CREAT | (append ? O_APPEND : O_TRUNC));
    if (log < 0)
        return yk_fail_in(dir, "log.txt", "cannot write", errno);
    const sigset_t stop = yk_cli_stop_signals();
    sigset_t mask;
    pid_t pid;
    FILE *results = NULL;
    yk_limits before, after;
    yk_cgroup_limits("/proc", "/sys", &before);
    sigprocmask(SIG_BLOCK, &stop, &mask); /* delivered while it waits */
    const yk_status st = yk_cli_stop ? yk_fail(YK_ESTOP, "stopped by a signal")
                                     : yk_child_start("/proc/self/exe", argv, log, &results, &pid);
    if (!st) {
        const int status = follow(s, pid, &mask);
        out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        yk_cgroup_limits("/proc", "/sys", &after);
        if (!WIFSIGNALED(status) || !yk_cgroup_killed(&before, &after, out->error, sizeof out->error))
            explain(log, results, out->error, sizeof out->error);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (results)
        fclose(results);
    close(log);
    return st;
}

/* ---- one run ---- */

/* halving: until the end of this rung */
static int64_t length_of(const sweep *s, const yk_sweep_run *r)
{
    return ((r->steps ? r->steps : r->epochs) + s->divisor - 1) / s->divisor;
}

static const char *unit_of(const yk_sweep_run *r)
{
    return r->steps ? "steps" : "epochs";
}

static yk_status make_command(const sweep *s, size_t i, bool resume, yk_arena *a)
{
    const yk_sweep_run *run = &s->plan.run[i];
    yk_arena_print(a, "yoke");
    yk_arena_print(a, "train");
    for (char *const *arg = run->argument; *arg; arg++)
        yk_arena_print(a, "%s", *arg);
    yk_arena_print(a, "--out=%s", run->path);
    yk_arena_print(a, "--json");
    if (resume)
        yk_arena_print(a, "--resume");
    if (s->divisor)
        yk_arena_print(a, "--%s=%lld", unit_of(run), (long long)length_of(s, run));
    return a->status;
}

static yk_status record_failure(sweep *s, size_t i, const child *c, bool diverged)
{
    yk_sweep_run *r = &s->plan.run[i];
    free(r->problem);
    if (asprintf(&r->problem, c->status > 128 ? "killed by signal %d: %s" : "exit status %d: %s",
                 c->status > 128 ? c->status - 128 : c->status, c->error) < 0)
        r->problem = NULL;
    r->state = diverged ? YK_SWEEP_DIVERGED : YK_SWEEP_FAILED;
    yk_progress_end();
    yk_warn("run %zu of %zu: %s failed: %s (log: %s/log.txt)", i + 1, s->plan.nruns, r->label,
            r->problem ? r->problem : "", r->path);
    s->consecutive_failures = diverged ? 0 : s->consecutive_failures + 1;
    if (s->consecutive_failures < MAX_FAILURES || s->a.keep_going)
        return YK_OK;
    return yk_fail(
        YK_ELOST,
        "%d runs in a row failed, so the sweep ends. Fix the error and run the same command again, or use "
        "--keep-going",
        MAX_FAILURES);
}

/* Removes the files of an earlier attempt, unless it is resumed. Fails if another process is writing there. */
static yk_status clear_run(const sweep *s, const yk_sweep_run *r, bool resume)
{
    yk_lock *lock;
    yk_status st = resume ? YK_OK : yk_dir_make_in(s->plan.path, r->directory);
    if (!st && !(st = yk_run_dir_acquire(r->path, &lock))) {
        st = resume ? YK_OK : yk_run_dir_clear(s->plan.path, r->directory, false);
        yk_lock_release(lock);
    }
    return st;
}

static bool has_checkpoint(const yk_sweep_run *r)
{
    char *checkpoint = NULL;
    const bool can = yk_checkpoint_find(r->path, &checkpoint) == YK_OK && checkpoint;
    free(checkpoint);
    return can;
}

static yk_status run_one(sweep *s, size_t i, bool resume)
{
    yk_sweep_run *r = &s->plan.run[i];
    yk_arena command = {0};
    child c = {0};
    yk_status st = clear_run(s, r, resume);
    if (!st)
        st = make_command(s, i, resume, &command);
    s->at = i;
    s->began = yk_now();
    yk_sweep_run_take(r, NULL); /* of the previous rung */
    r->state = YK_SWEEP_STOPPED;
    if (s->plan.file.drop_models)
        setenv("YK_DROP_MODEL", "1", 1); /* a finished run writes no checkpoint */
    if (!st)
        st = yk_remove_in(r->path, "summary.json"); /* from before it was stopped */
    if (!st)
        st = run_program(s, yk_arena_texts(&command), r->path, resume, &c);
    yk_progress_end();
    json_t *summary = st ? NULL : yk_sweep_run_json(r, "summary.json");
    /* stopped before it trained, or killed by a second Ctrl-C: it has not failed */
    const bool stopped = yk_cli_stop && (c.status == 0 || c.status > 128);
    if (summary && c.status == 0) {
        yk_sweep_run_take(r, json_incref(summary));
        s->consecutive_failures = 0;
        if (r->state == YK_SWEEP_DONE) {
            report_done(s, i);
            if (s->plan.file.drop_models)
                st = yk_run_dir_clear(s->plan.path, r->directory, true);
        }
    } else if (!st && !stopped) {
        st = record_failure(s, i, &c, json_is_true(json_object_get(summary, "diverged")));
    }
    json_decref(summary);
    yk_arena_free(&command);
    return st;
}

/* Finds complete runs first, to estimate the remaining time. */
static yk_status find_complete(sweep *s)
{
    size_t found = 0;
    for (size_t i = 0; i < s->plan.nruns; i++) {
        yk_sweep_run *r = &s->plan.run[i];
        yk_sweep_run_find(r, s->plan.file.halving);
        if (r->state == YK_SWEEP_DIFFERENT && !s->a.force)
            return yk_fail(YK_EUSAGE,
                           "%s: the options of this run differ from the plan; --force trains it again",
                           r->path);
        if (s->plan.file.halving && r->state >= YK_SWEEP_DONE) {
            yk_sweep_run_take(r, NULL); /* the rungs have their own summaries */
            r->state = YK_SWEEP_STOPPED;
        }
        found += r->state >= YK_SWEEP_DONE;
    }
    if (found)
        yk_note("%zu of %zu runs are already complete, in %s", found, s->plan.nruns, s->plan.path);
    return YK_OK;
}

/* ---- search = halving ---- */

static yk_status save_summary(const yk_sweep_run *r, const char *name, const json_t *summary)
{
    char *text = json_dumps(summary, 0);
    const yk_status st = text ? yk_file_save(r->path, name, "%s\n", text) : YK_ESYSTEM;
    free(text);
    return st;
}

/* A run with no steps left keeps its results if --patience ended it in an earlier rung. If it was trained for longer, by a sweep with
 * other rungs, it starts from scratch. */
static yk_status train_rung(sweep *s, size_t i, bool resume)
{
    yk_sweep_run *r = &s->plan.run[i];
    json_t *earlier = yk_sweep_run_json(r, "summary.json");
    yk_status st = run_one(s, i, resume);
    const bool same =
        !st && resume && r->state == YK_SWEEP_DONE && !(yk_number_at(r->summary, "steps_per_second") > 0.0);
    const char *state = yk_string_at(earlier, "state");
    if (same && yk_number_at(r->summary, unit_of(r)) > (double)length_of(s, r)) {
        st = run_one(s, i, false);
    } else if (same && state && !strcmp(state, "done")) { /* it has the rates */
        yk_sweep_run_take(r, json_incref(earlier));
        st = save_summary(r, "summary.json", earlier);
    }
    json_decref(earlier);
    return st;
}

/* Writes the summary of a run at the end of a rung, with the seconds that it took. */
static yk_status save_rung(const yk_sweep_run *r, const char *name, double seconds)
{
    json_t *summary = yk_sweep_run_json(r, "summary.json");
    json_object_set_new(summary, "rung_seconds", json_real(seconds));
    const yk_status st = save_summary(r, name, summary);
    json_decref(summary);
    return st;
}

/* Trains run i to the end of this rung, unless an earlier sweep has, or --patience has ended the run. */
static yk_status run_rung(sweep *s, size_t i, int rung)
{
    yk_sweep_run *r = &s->plan.run[i];
    const bool same = r->state != YK_SWEEP_NOT_RUN && r->state != YK_SWEEP_DIFFERENT;
    const double began = yk_now();
    char name[64];
    yk_status st = YK_OK;
    r->rung = rung;
    if (yk_number_at(r->summary, "stopped_early") > 0.0)
        return YK_OK;
    snprintf(name, sizeof name, "rung-%lld-%s.json", (long long)length_of(s, r), unit_of(r));
    json_t *summary = same ? yk_sweep_run_json(r, name) : NULL;
    double seconds = yk_number_at(summary, "rung_seconds");
    if (summary) {
        json_object_del(summary, "rung_seconds");
        yk_sweep_run_take(r, summary);
    } else {
        st = train_rung(s, i, same && has_checkpoint(r));
        seconds = yk_now() - began;
        if (!st && (r->state == YK_SWEEP_DONE || r->state == YK_SWEEP_DIVERGED))
            st = save_rung(r, name, seconds);
    }
    s->spent += fmax(0.0, seconds); /* ignores NaN */
    return st;
}

/* Moves the best `keep` of n combinations to the front; returns how many have a loss. */
static size_t select_best(const sweep *s, size_t *point, size_t n, size_t keep)
{
    size_t good = 0;
    for (; good < keep; good++) {
        size_t best = good;
        for (size_t i = good + 1; i < n; i++)
            best = yk_sweep_point_loss(&s->plan, point[i]) < yk_sweep_point_loss(&s->plan, point[best])
                       ? i
                       : best;
        if (!isfinite(yk_sweep_point_loss(&s->plan, point[best])))
            break;
        const size_t other = point[good];
        point[good] = point[best];
        point[best] = other;
    }
    return good;
}

/* Rungs after the first one: as many as halve the combinations to one, but each with at least one epoch or step. */
static int count_rungs(sweep *s, size_t n)
{
    int rungs = 0;
    for (; (size_t)1 << rungs < n; rungs++) {
        s->divisor = (int64_t)2 << rungs;
        for (size_t i = 0; i < s->plan.nruns; i++)
            if ((s->plan.run[i].steps ? s->plan.run[i].steps : s->plan.run[i].epochs) < s->divisor)
                return rungs;
    }
    return rungs;
}

/* Whether the time of a rung is over. The first one trains n combinations for a part of their length, the others each train half as much. */
static bool is_over(const sweep *s, int rung, int rungs)
{
    const double share = rung == 1 ? 2.0 / (2.0 + rungs) : 1.0;
    return s->plan.file.seconds && s->spent > share * (double)s->plan.file.seconds;
}

static yk_status halve(sweep *s, size_t *point, size_t n)
{
    const int rungs = count_rungs(s, n);
    yk_status st = YK_OK;
    if (!rungs && n > 1)
        return yk_fail(
            YK_EUSAGE,
            "%s: search = halving begins with a part of each run: set epochs, steps or examples to more",
            s->plan.file.path);
    for (int rung = 1; !st && n && rung <= rungs + 1; rung++) {
        size_t done = 0;
        s->divisor = (int64_t)1 << (rungs + 1 - rung);
        yk_note("rung %d of %d: %zu combination%s, 1/%lld of each run", rung, rungs + 1, n, yk_plural(n),
                (long long)s->divisor);
        for (; !st && !yk_cli_stop && done < n && !is_over(s, rung, rungs); done++)
            for (size_t i = point[done]; !st && !yk_cli_stop && i < s->plan.nruns; i += s->plan.npoints)
                st = run_rung(s, i, rung);
        if (st || yk_cli_stop)
            break;
        const bool over = done < n && rung > 1;
        s->searched = over || rung == rungs + 1;
        if (over) {
            yk_note("the time limit was reached");
            break;
        }
        n = select_best(s, point, done, (done + 1) / 2);
        if (!st)
            st = yk_sweep_table_save(&s->plan);
    }
    return st;
}

/* All combinations, or a random sample of them. */
static yk_status train_halving(sweep *s)
{
    const yk_sweep_file *f = &s->plan.file;
    const size_t all = s->plan.npoints, max = f->max_points ? (size_t)f->max_points : all;
    const yk_perm order = yk_perm_make(all, 1);
    size_t *point = calloc(all, sizeof *point);
    if (!point)
        return yk_fail_memory(all * sizeof *point, "the combinations");
    for (size_t i = 0; i < all; i++)
        point[i] = max < all || f->seconds ? (size_t)yk_perm_at(&order, i) : i;
    const yk_status st = halve(s, point, max < all ? max : all);
    free(point);
    return st;
}

static yk_status train(sweep *s)
{
    yk_status st = find_complete(s);
    if (st)
        return st;
    double last_saved = yk_now();
    /* the next run does not wait until somebody has seen the page of this one */
    setenv("YK_HTTP_WAIT", "0", 0);
    if (s->plan.file.halving)
        st = train_halving(s);
    for (size_t i = 0; !s->plan.file.halving && !st && !yk_cli_stop && i < s->plan.nruns; i++) {
        const yk_sweep_run *r = &s->plan.run[i];
        if (r->state >= YK_SWEEP_DONE)
            continue;
        const bool resume = r->state == YK_SWEEP_STOPPED && has_checkpoint(r);
        if (resume)
            yk_note("run %zu of %zu: resuming %s", i + 1, s->plan.nruns, r->label);
        st = run_one(s, i, resume);
        if (!st &&
            yk_now() - last_saved > SAVE_SECONDS) { /* for users who read the tables during the sweep */
            st = yk_sweep_table_save(&s->plan);
            last_saved = yk_now();
        }
    }
    char error[1000]; /* the table is saved even after a failure */
    snprintf(error, sizeof error, "%s", st ? yk_error() : "");
    const yk_status saved = yk_sweep_table_save(&s->plan);
    st = st ? yk_fail(st, "%s", error) : saved;
    return st == YK_ESTOP ? YK_OK : st;
}

/* ---- results ---- */

/* All results are saved and printed: a failure is only a warning, and a signal may end the program. */
static yk_status write_report(const sweep *s)
{
    yk_arena runs = {0}; /* their paths, then that of the report */
    yk_report_result result = {0};
    for (size_t i = 0; i < s->plan.nruns; i++)
        if (s->plan.run[i].state == YK_SWEEP_DONE)
            yk_arena_print(&runs, "%s", s->plan.run[i].path);
    yk_arena_print(&runs, "%s/report.html", s->plan.path);
    const yk_status st = runs.status;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (!st) {
        const yk_report report = {.paths = yk_arena_texts(&runs),
                                  .n = runs.n - 1,
                                  .out = yk_arena_texts(&runs)[runs.n - 1],
                                  .title = s->plan.file.name};
        if (yk_report_make(&report, &result))
            yk_warn("cannot write the report: %s", yk_error());
        else
            yk_note("report: %s", report.out);
    }
    free(result.out);
    yk_arena_free(&runs);
    return st;
}

static yk_status print_results(const sweep *s)
{
    if (s->a.json) {
        char *text = yk_sweep_table_json(&s->plan, false);
        if (!text)
            return YK_ESYSTEM;
        yk_json_result_print(text); /* instead of an object for a failure */
        free(text);
    } else if (yk_sweep_table_print(&s->plan, stdout)) {
        return YK_ESYSTEM;
    }
    return yk_cli_flush();
}

/* Prints the command that continues the sweep. */
static void print_resume_command(const sweep *s, size_t done)
{
    yk_text t = {0};
    yk_text_add(&t, "yoke");
    for (char *const *word = s->argv; *word; word++) {
        yk_text_add(&t, " ");
        yk_text_shell(&t, *word);
    }
    if (!t.status)
        yk_note("stopped by a signal: %zu of %zu runs are complete; continue with: %s", done, s->plan.nruns,
                t.s);
    yk_text_fini(&t);
}

/* Prints the table, even after a failure, and returns the exit status. */
static int finish(const sweep *s, yk_status st)
{
    size_t done = 0, failed = 0, diverged = 0, warned = 0;
    yk_status printed = s->a.json ? print_results(s) : YK_OK;
    if (st)
        yk_cli_exit(st);
    for (size_t i = 0; i < s->plan.nruns; i++) {
        const yk_sweep_run *r = &s->plan.run[i];
        warned += json_array_size(json_object_get(r->summary, "warnings")) > 0;
        done += r->state == YK_SWEEP_DONE;
        failed += yk_sweep_run_failed(r);
        diverged += r->state == YK_SWEEP_DIVERGED;
    }
    if (done && !s->a.json)
        printed = print_results(s);
    if (!printed && warned)
        yk_note("%zu run%s warnings: see the report, or log.txt in the run directory", warned,
                warned == 1 ? " has" : "s have");
    if (!printed && done && !yk_cli_stop && !s->a.no_report)
        printed = write_report(s);
    if (printed)
        return yk_cli_exit(printed);
    if (st)
        return yk_status_exit(st);
    const bool complete = s->plan.file.halving ? s->searched : done + failed == s->plan.nruns;
    if (yk_cli_stop && !complete)
        print_resume_command(s, s->plan.file.halving ? 0 : done);
    else if (failed && !s->searched)
        return yk_cli_exit(yk_fail(YK_ELOST, "%zu of %zu runs failed; %s/runs.csv lists the errors; %s",
                                   failed, s->plan.nruns, s->plan.path,
                                   diverged == failed
                                       ? "they diverged, so the same command does not repeat them"
                                   : diverged ? "the same command repeats those that did not diverge"
                                              : "the same command runs them again"));
    return complete ? 0 : yk_status_exit(YK_ELOST);
}

/* ---- --dry-run ---- */

/* The number of training examples if it is known without reading the data; else 0. The last answer is cached: most sweeps
 * have one data set. */
static uint64_t examples_in(const yk_config *c)
{
    static const char *spec;
    static uint64_t answer;
    yk_source *source;
    if (spec && strcmp(spec, c->data) == 0)
        return answer;
    yk_source_options o = {.hash_bits = (unsigned)c->hash_bits, .features = (uint64_t)c->features};
    spec = c->data;
    answer = 0;
    if (yk_source_open(c->data, YK_SPLIT_TRAIN, &o, &source)) {
        yk_warn("%s", yk_error());
        return 0;
    }
    answer = source->examples;
    yk_source_free(source);
    return answer;
}

static yk_status describe(sweep *s)
{
    const yk_sweep_plan *p = &s->plan;
    double total = 0.0, examples = 0.0;
    bool known = true;
    for (size_t i = 0; i < p->nruns; i++) {
        yk_sweep_run *r = &s->plan.run[i];
        yk_hold_out h = {0};
        if (r->config.validation)
            (void)yk_hold_out_parse(r->config.validation, &h);
        const double trained = r->steps ? 0.0 : (1.0 - h.fraction) * (double)examples_in(&r->config);
        int64_t steps = yk_sweep_run_steps(r, (uint64_t)trained);
        yk_sweep_run_find(r, p->file.halving);
        char amount[64];
        if (steps)
            snprintf(amount, sizeof amount, "%lld step%s", (long long)steps, yk_plural(steps));
        else
            snprintf(amount, sizeof amount, "%lld epoch%s", (long long)r->epochs, yk_plural(r->epochs));
        printf("%4zu  %-16s %s%s\n", i + 1, amount, r->label,
               r->state >= YK_SWEEP_DONE                           ? "   (complete)"
               : r->state == YK_SWEEP_STOPPED && has_checkpoint(r) ? "   (stopped)"
                                                                   : "");
        known &= steps > 0;
        total += (double)steps;
        examples += (double)steps * yk_sweep_examples_per_step(r);
    }
    printf("%zu run%s, %zu combination%s with %lld seed%s, in %s", p->nruns, yk_plural(p->nruns), p->npoints,
           yk_plural(p->npoints), (long long)p->file.repeats, yk_plural(p->file.repeats), p->path);
    if (known)
        printf(": %s %.0f step%s and %.0f example%s in total\n", p->file.halving ? "at most" : "about", total,
               total == 1.0 ? "" : "s", examples, examples == 1.0 ? "" : "s");
    else
        printf("; the number of steps of some runs is not known in advance\n");
    return yk_cli_flush();
}

/* ---- the command ---- */

static void add_setting(const yk_argument *argument, const char *value)
{
    arguments *a = argument->to;
    if (a->nsets == MAX_SETS)
        yk_usage_error("--set is given more than %d times", MAX_SETS);
    a->set[a->nsets++] = value;
}

static const char notes[] =
    "FILE lists options and their values. Values are separated by spaces or by |.\n"
    "Options that vary together are separated by commas:\n"
    "\n"
    "  [sweep]\n"
    "  repeats = 3           ; with seeds 1, 2, 3\n"
    "  examples = 600k       ; in every run; or epochs = or steps =\n"
    "  eval-examples = 60k   ; examples between evaluations\n"
    "  search = halving      ; train all for a part of that, the better half for\n"
    "                        ; twice as long, and so on; runs = N or seconds = S\n"
    "                        ; limits the search\n"
    "  [train]               ; options of yoke train\n"
    "  model = softmax\n"
    "  data = synth:digits\n"
    "  [grid]\n"
    "  batch = 5 50 500\n"
    "  mode, workers = sync 1 | sync 3 | async 3\n"
    "  [quick]               ; with --quick, replaces lines above\n"
    "  examples = 60k\n"
    "\n"
    "Examples:\n"
    "  yoke sweep experiments/softmax.ini --quick\n"
    "  yoke sweep experiments/softmax.ini --set data=idx:mnist --out runs/mnist\n"
    "\n"
    "Ctrl-C saves the current run and ends; the same command continues. Exit status:\n"
    "0 all runs succeeded, 1 some failed or are missing, 2 to 4 as for yoke train.";

static void parse(int argc, char **argv, arguments *a)
{
    const yk_argument table[] = {
        {"out", 'o', "DIR", yk_argument_text, &a->out, "directory of the sweep",
         "runs/NAME; with --quick runs/NAME-quick"},
        {"quick", 0, NULL, yk_argument_flag, &a->quick,
         "train the small version of the sweep, with the lines of [quick]"},
        {"set", 0, "NAME=VALUES", add_setting, a,
         "set an option, as in --set data=idx:mnist; replaces the line of FILE with the same name; may be "
         "repeated. Options that a file cannot set, such as hosts, must be given this way"},
        {"dry-run", 0, NULL, yk_argument_flag, &a->dry_run,
         "print the runs and their steps without training"},
        {"keep-going", 0, NULL, yk_argument_flag, &a->keep_going,
         "continue after three failed runs in a row. A run that diverged is a result, not a failure"},
        {"force", 0, NULL, yk_argument_flag, &a->force,
         "continue in a directory that was started with other runs: runs with the same options are kept, the "
         "others are trained again"},
        {"no-report", 0, NULL, yk_argument_flag, &a->no_report, "do not write report.html"},
        {"json", 0, NULL, yk_argument_flag, &a->json, "print the results as one JSON object"},
        {"quiet", 0, NULL, yk_argument_quiet, NULL, "print no notes and no progress to stderr"},
        {NULL}};
    const yk_command_line line = {"yoke sweep",
                                  "FILE [OPTION...]",
                                  "Train every combination of a grid of options, and compare the runs.",
                                  table,
                                  &a->file,
                                  1,
                                  "expected one FILE",
                                  notes};
    if (!yk_arguments_parse(&line, argc, argv))
        yk_usage_error("FILE is missing: see yoke sweep --help, and experiments/ for examples");
}

int yk_cmd_sweep(int argc, char **argv)
{
    sweep s = {.argv = argv};
    yk_lock *lock = NULL;
    parse(argc, argv, &s.a);
    signal(SIGPIPE, SIG_IGN); /* if nobody reads the results, writing them fails */
    int status;
    yk_status st = yk_sweep_plan_make(s.a.file, s.a.quick, s.a.set, s.a.nsets, s.a.out, &s.plan);
    if (!st && !s.a.dry_run)
        st = yk_sweep_dir_open(&s.plan, s.a.force, &lock);
    if (st || s.a.dry_run) {
        status = yk_cli_exit(st ? st : describe(&s));
    } else {
        yk_cli_launcher = true;
        yk_cli_catch_signals();
        yk_note("%s: %zu run%s, in %s", s.plan.file.name, s.plan.nruns, yk_plural(s.plan.nruns), s.plan.path);
        status = finish(&s, train(&s));
    }
    yk_lock_release(lock);
    yk_sweep_plan_fini(&s.plan);
    return status;
}
