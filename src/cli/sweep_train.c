#include "cli/sweep_train.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/perm.h"
#include "cli/cli.h"
#include "lib/internal.h"
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
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FAILURES = 3, SAVE_SECONDS = 5 };

/* ---- messages ---- */

static void clock_text(double seconds, char *out, size_t size)
{
    long s = lround(fmax(seconds, 0.0));
    if (s >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

/* Expected seconds of run i: the mean over other seeds of its combination, else over all runs. 0: unknown. */
static double expected(const yk_sweep *s, size_t i)
{
    double same = 0.0, all = 0.0;
    size_t nsame = 0, nall = 0;
    for (size_t k = 0; k < s->plan.nruns; k++) {
        if (s->took[k] <= 0.0)
            continue;
        all += s->took[k], nall++;
        if (s->plan.run[k].point == s->plan.run[i].point)
            same += s->took[k], nsame++;
    }
    return nsame ? same / (double)nsame : nall ? all / (double)nall : 0.0;
}

/* ", about 1:40 left" for the runs from `first` on, of which `spent` seconds have passed. */
static void left_text(const yk_sweep *s, size_t first, double spent, char *out, size_t size)
{
    double left = 0.0;
    char text[32];
    *out = '\0';
    for (size_t i = s->plan.file.halving ? s->plan.nruns : first; i < s->plan.nruns; i++) {
        double one = s->took[i] > 0.0 ? 0.0 : expected(s, i); /* 0: complete */
        left += i == first ? fmax(one - spent, 0.0) : one;
    }
    if (left <= 0.0)
        return;
    clock_text(left, text, sizeof text);
    snprintf(out, size, ", about %s left", text);
}

static void show_progress(const yk_sweep *s)
{
    char spent[32], left[64];
    if (!yk_progress_wanted())
        return;
    clock_text(yk_now() - s->began, spent, sizeof spent);
    left_text(s, s->at, yk_now() - s->began, left, sizeof left);
    yk_progress("run %zu of %zu: %s  %s%s", s->at + 1, s->plan.nruns, s->plan.run[s->at].label, spent, left);
}

/* "92.10 %, test loss 0.2896, AUC 0.7844", as far as known. */
static void score_text(const yk_sweep_result *r, char *out, size_t size)
{
    double accuracy = yk_sweep_result_number(r, "test_accuracy"), auc = yk_sweep_result_number(r, "test_auc"),
           loss = yk_sweep_result_number(r, "test_loss"), train = yk_sweep_result_number(r, "train_loss");
    int n = 0;
    if (isfinite(accuracy))
        n = snprintf(out, size, "accuracy %.2f %%, test loss %.4f", 100.0 * accuracy, loss);
    else
        n = snprintf(out, size, "training loss %.4f", train);
    if (isfinite(auc) && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ", AUC %.4f", auc);
}

static void report_done(const yk_sweep *s, size_t i)
{
    char score[96], left[64];
    score_text(&s->result[i], score, sizeof score);
    left_text(s, i + 1, 0.0, left, sizeof left);
    yk_note("run %zu of %zu: %s: %s in %.1f s%s", i + 1, s->plan.nruns, s->plan.run[i].label, score,
            s->took[i], left);
}

/* ---- a child ---- */

typedef struct {
    int status; /* exit status, or 128 + the number of the signal that killed it */
    double seconds;
    char error[2048]; /* if it failed: why the kernel killed it, or its own error; one line */
} child;

/* Waits until the child has ended, and passes on the first and the second signal; returns its wait status. */
static int follow(const yk_sweep *s, pid_t pid, const sigset_t *mask)
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

/* Copies a text, with one blank for each sequence of white space. */
static void flatten(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (text += strspn(text, " \t\r\n"); *text && n + 1 < size; text++)
        if (!strchr(" \t\r\n", *text))
            out[n++] = *text;
        else if (!strchr(" \t\r\n", text[1])) /* the last one of a sequence, and not at the end */
            out[n++] = ' ';
    out[n] = '\0';
}

/* The member `error` of the JSON output; false: there is none. */
static bool error_in_json(FILE *out, char *error, size_t size)
{
    char *line = yk_last_object(out);
    json_t *object = line ? json_loads(line, 0, NULL) : NULL;
    const char *found = json_string_value(json_object_get(object, "error"));
    flatten(found ? found : "", error, size);
    json_decref(object);
    free(line);
    return *error;
}

/* The error in the JSON output, or else the last line of the log. A log on a full disk is empty. */
static void explain(int log, FILE *out, char *error, size_t size)
{
    enum { LAST_BYTES = 4096 };
    char text[LAST_BYTES + 1];
    struct statvfs disk;
    if (error_in_json(out, error, size))
        return;
    const off_t bytes = lseek(log, 0, SEEK_END);
    ssize_t n = pread(log, text, LAST_BYTES, bytes > LAST_BYTES ? bytes - LAST_BYTES : 0);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *line = strrchr(text, '\n');
    flatten(line ? line : text, error, size);
    if (!*error)
        snprintf(error, size, "%s",
                 fstatvfs(log, &disk) == 0 && disk.f_bavail == 0 ? "the disk is full, and the log is empty"
                                                                 : "no error message");
}

/* Runs this program as a child: the running version, even if its file was replaced, so all runs of a sweep use one version. Its
 * stdin is empty, its stderr goes to DIR/log.txt, and its stdout is only searched for an error. It receives SIGTERM when its
 * parent dies. YK_ESTOP: a signal arrived before the child was started. */
static yk_status run_program(const yk_sweep *s, char *const *argv, const char *dir, bool append, child *out)
{
    const double start_time = yk_now();
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
        out->seconds = yk_now() - start_time;
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

/* Epochs or steps, of the current rung. */
static int64_t length_of(const yk_sweep *s, const yk_sweep_run *run)
{
    const int64_t all = run->steps ? run->steps : run->epochs, divisor = s->divisor ? s->divisor : 1;
    return (all + divisor - 1) / divisor;
}

static yk_status make_command(const yk_sweep *s, const yk_sweep_run *run, const char *directory, bool resume,
                              yk_argv *a)
{
    yk_argv_add(a, "yoke");
    yk_argv_add(a, "train");
    for (size_t i = 0; run->argument[i]; i++)
        yk_argv_add(a, "%s", run->argument[i]);
    yk_argv_add(a, "--out=%s", directory);
    yk_argv_add(a, "--json");
    if (resume)
        yk_argv_add(a, "--resume");
    if (s->divisor)
        yk_argv_add(a, "--%s=%lld", run->steps ? "steps" : "epochs", (long long)length_of(s, run));
    return a->status;
}

static yk_status record_failure(yk_sweep *s, size_t i, const child *c, bool diverged, const char *directory)
{
    yk_sweep_result *r = &s->result[i];
    if (asprintf(&r->problem, c->status > 128 ? "killed by signal %d: %s" : "exit status %d: %s",
                 c->status > 128 ? c->status - 128 : c->status, c->error) < 0)
        r->problem = NULL;
    r->state = diverged ? YK_SWEEP_DIVERGED : YK_SWEEP_FAILED;
    yk_progress_end();
    yk_warn("run %zu of %zu: %s failed: %s (log: %s/log.txt)", i + 1, s->plan.nruns, s->plan.run[i].label,
            r->problem ? r->problem : "", directory);
    s->consecutive_failures = diverged ? 0 : s->consecutive_failures + 1;
    if (s->consecutive_failures < MAX_FAILURES || s->keep_going)
        return YK_OK;
    return yk_fail(
        YK_ELOST,
        "%d runs in a row failed, so the sweep ends. Fix the error and run the same command again, or use "
        "--keep-going",
        MAX_FAILURES);
}

static yk_status run_child(yk_sweep *s, size_t i, bool resume, const char *directory)
{
    yk_argv command = {0};
    child c = {0};
    char *file = yk_sweep_dir_path(s->path, &s->plan.run[i], "summary.json");
    yk_status st = file ? make_command(s, &s->plan.run[i], directory, resume, &command) : YK_ESYSTEM;
    s->at = i;
    s->began = yk_now();
    if (s->plan.file.drop_models)
        setenv("YK_DROP_MODEL", "1", 1); /* a finished run writes no checkpoint */
    if (!st)
        st = yk_remove_in(directory, "summary.json"); /* from before it was stopped */
    if (!st)
        st = run_program(s, command.arg, directory, resume, &c);
    yk_progress_end();
    json_t *summary = st ? NULL : json_load_file(file, 0, NULL);
    /* stopped before it trained, or killed by a second Ctrl-C: it has not failed */
    const bool stopped = yk_cli_stop && (c.status == 0 || c.status > 128);
    if (summary && c.status == 0) {
        yk_sweep_result_take(&s->result[i], json_incref(summary));
        s->consecutive_failures = 0;
        if (s->result[i].state == YK_SWEEP_DONE) {
            s->took[i] = c.seconds;
            report_done(s, i);
        }
    } else if (!st && !stopped) {
        st = record_failure(s, i, &c, json_is_true(json_object_get(summary, "diverged")), directory);
    }
    json_decref(summary);
    yk_argv_fini(&command);
    free(file);
    return st;
}

/* Removes the files of an earlier attempt, unless it is resumed. Fails if another process is writing there. */
static yk_status clear_run(const yk_sweep *s, const yk_sweep_run *run, const char *directory, bool resume)
{
    yk_lock *lock;
    yk_status st = resume ? YK_OK : yk_dir_make_in(s->path, run->directory);
    if (!st && !(st = yk_run_dir_acquire(directory, &lock))) {
        st = resume ? YK_OK : yk_run_dir_clear(s->path, run->directory, false);
        yk_lock_release(lock);
    }
    return st;
}

bool yk_sweep_can_resume(const char *path, const yk_sweep_run *run, yk_sweep_run_state state)
{
    char *directory = state == YK_SWEEP_RUN_INCOMPLETE ? yk_sweep_dir_path(path, run, NULL) : NULL,
         *checkpoint = NULL;
    const bool can = directory && yk_checkpoint_find(directory, &checkpoint) == YK_OK && checkpoint;
    free(checkpoint);
    free(directory);
    return can;
}

static yk_status run_one(yk_sweep *s, size_t i, bool resume)
{
    const yk_sweep_run *run = &s->plan.run[i];
    char *directory = yk_sweep_dir_path(s->path, run, NULL);
    yk_status st = directory ? clear_run(s, run, directory, resume) : YK_ESYSTEM;
    if (!st)
        st = run_child(s, i, resume, directory);
    if (!st && s->plan.file.drop_models && s->result[i].state == YK_SWEEP_DONE)
        st = yk_run_dir_clear(s->path, run->directory, true);
    free(directory);
    return st;
}

/* Saves the results, even after a failure, and keeps its error text. */
static yk_status save_at_end(const yk_sweep *s, yk_status st)
{
    char *error = st ? strdup(yk_error()) : NULL;
    yk_status saved = yk_sweep_table_save(&s->plan, s->result, s->path);
    if (st && error)
        yk_fail(st, "%s", error);
    free(error);
    return st ? st : saved;
}

/* Finds complete runs first, to estimate the remaining time. */
static yk_status find_complete(yk_sweep *s)
{
    yk_status st = YK_OK;
    size_t found = 0;
    for (size_t i = 0; !st && i < s->plan.nruns; i++) {
        json_t *summary;
        st = yk_sweep_dir_find(s->path, &s->plan.run[i], s->plan.file.halving, &s->state[i], &summary);
        if (s->plan.file.halving) {
            json_decref(summary); /* the rungs have their own */
            summary = NULL;
        }
        if (summary) {
            yk_sweep_result_take(&s->result[i], summary);
            const double took = yk_sweep_result_number(&s->result[i], "seconds") +
                                yk_sweep_result_number(&s->result[i], "load_seconds");
            s->took[i] = took > 0.0 ? took : 1e-3;
            found++;
        } else if (!st && s->state[i] == YK_SWEEP_RUN_DIFFERENT && !s->force)
            st = yk_fail(YK_EUSAGE,
                         "%s/%s: the options of this run differ from the plan; --force trains it again",
                         s->path, s->plan.run[i].directory);
    }
    if (!st && found)
        yk_note("%zu of %zu runs are already complete, in %s", found, s->plan.nruns, s->path);
    return st;
}

/* ---- search = halving ---- */

/* The mean loss of the seeds of a combination; infinity: one has failed or diverged. */
static double loss_of(const yk_sweep *s, size_t point)
{
    static const char *const names[] = {"validation_loss", "test_loss", "train_loss"};
    double sum = 0.0;
    for (size_t i = point; i < s->plan.nruns; i += s->plan.npoints) {
        double loss = (double)NAN;
        for (int k = 0; k < 3 && !isfinite(loss); k++)
            loss = yk_sweep_result_number(&s->result[i], names[k]);
        sum += s->result[i].state == YK_SWEEP_DONE && isfinite(loss) ? loss : (double)INFINITY;
    }
    return sum;
}

/* Trains run i to the end of this rung, unless an earlier sweep has. */
static yk_status run_rung(yk_sweep *s, size_t i, int rung)
{
    const yk_sweep_run *run = &s->plan.run[i];
    char name[32];
    snprintf(name, sizeof name, "rung-%d.json", rung);
    char *file = yk_sweep_dir_path(s->path, run, name), *directory = yk_sweep_dir_path(s->path, run, NULL);
    const bool same =
        rung > 1 || s->state[i] == YK_SWEEP_RUN_INCOMPLETE || s->state[i] == YK_SWEEP_RUN_COMPLETE;
    yk_status st = file && directory ? YK_OK : YK_ESYSTEM;
    json_t *summary = !st && same ? json_load_file(file, 0, NULL) : NULL;
    if (summary) {
        yk_sweep_result_take(&s->result[i], summary);
    } else if (!st &&
               !(st = run_one(s, i, same && yk_sweep_can_resume(s->path, run, YK_SWEEP_RUN_INCOMPLETE))) &&
               s->result[i].state == YK_SWEEP_DONE) {
        char *text = json_dumps(s->result[i].summary, 0);
        st = text ? yk_file_save(directory, name, "%s\n", text) : YK_ESYSTEM;
        free(text);
    }
    s->result[i].rung = rung;
    free(file);
    free(directory);
    return st;
}

/* Moves the best `keep` of n combinations to the front; returns how many have a loss. */
static size_t select_best(const yk_sweep *s, size_t *point, size_t n, size_t keep)
{
    size_t good = 0;
    for (; good < keep; good++) {
        size_t best = good;
        for (size_t i = good + 1; i < n; i++)
            best = loss_of(s, point[i]) < loss_of(s, point[best]) ? i : best;
        if (!isfinite(loss_of(s, point[best])))
            break;
        const size_t other = point[good];
        point[good] = point[best];
        point[best] = other;
    }
    return good;
}

/* Rungs after the first one: as many as halve the combinations to one, but each with at least one epoch or step. */
static int count_rungs(yk_sweep *s, size_t n)
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
static bool is_over(const yk_sweep *s, double started, int rung, int rungs)
{
    const double share = rung == 1 ? 2.0 / (2.0 + rungs) : 1.0;
    return s->plan.file.seconds && yk_now() - started > share * (double)s->plan.file.seconds;
}

static yk_status halve(yk_sweep *s, size_t *point, size_t n)
{
    const double started = yk_now();
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
        for (; !st && !yk_cli_stop && done < n && !is_over(s, started, rung, rungs); done++)
            for (size_t i = point[done]; !st && !yk_cli_stop && i < s->plan.nruns; i += s->plan.npoints)
                st = run_rung(s, i, rung);
        if (st || yk_cli_stop || (done < n && rung > 1))
            break; /* the time is over */
        s->searched = rung == rungs + 1;
        n = select_best(s, point, done, (done + 1) / 2);
        if (!st)
            st = yk_sweep_table_save(&s->plan, s->result, s->path);
    }
    return st;
}

/* All combinations, or a random sample of them. */
static yk_status train_halving(yk_sweep *s)
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

yk_status yk_sweep_train(yk_sweep *s)
{
    yk_status st = find_complete(s);
    if (st)
        return st;
    double saved = yk_now();
    /* the next run does not wait until somebody has seen the page of this one */
    setenv("YK_HTTP_WAIT", "0", 0);
    if (s->plan.file.halving)
        st = train_halving(s);
    for (size_t i = 0; !s->plan.file.halving && !st && !yk_cli_stop && i < s->plan.nruns; i++) {
        if (s->state[i] == YK_SWEEP_RUN_COMPLETE)
            continue;
        const bool resume = yk_sweep_can_resume(s->path, &s->plan.run[i], s->state[i]);
        if (resume)
            yk_note("run %zu of %zu: resuming %s", i + 1, s->plan.nruns, s->plan.run[i].label);
        st = run_one(s, i, resume);
        if (!st && yk_now() - saved > SAVE_SECONDS) { /* for users who read the tables during the sweep */
            st = yk_sweep_table_save(&s->plan, s->result, s->path);
            saved = yk_now();
        }
    }
    st = save_at_end(s, st);
    return st == YK_ESTOP ? YK_OK : st;
}
