#include "cli/launch.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait.h"
#include "cli/cli.h"
#include "cli/job_folder.h"
#include "cli/job_status.h"
#include "cli/mpirun.h"
#include "cli/network.h"
#include "cli/output_filter.h"
#include "comm/comm.h"
#include "train/run_dir.h"
#include "train/summary.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double grace = 1.0; /* seconds that mpirun may take to end once its ranks have */

typedef struct {
    const yk_config *config;
    yk_plan plan;
    yk_mpirun mpirun;
    yk_words words;
    char folder[PATH_MAX]; /* job_folder.h; "": not made yet */
    int folder_lock;
    char ended[PATH_MAX + 8];   /* job_status.h */
    char out[PATH_MAX];         /* the run directory, the same for all attempts */
    char names[PATH_MAX + 8];   /* the address of the name server that others find the job by */
    char server[PATH_MAX + 16]; /* that address for mpirun; "": there is none */
    pid_t names_pid;            /* -1: there is none */
} job;

bool yk_launch_wanted(const yk_config *c)
{
    return (c->launch || c->hosts || c->hostfile || c->join) && yk_comm_expected() == 0;
}

/* ---- mpirun ---- */

/* In a child, after the fork: it ends when the launcher ends, for whatever reason. */
static void follow_launcher(pid_t launcher)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(127);
}

/* In the child, after the fork. */
static void become_mpirun(const yk_words *w, const char *folder, int out, int err)
{
    const int null = open("/dev/null", O_RDONLY);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        _exit(127);
    setenv("TMPDIR", folder, 1); /* of mpirun itself; daemons elsewhere have their own */
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    execvp(w->word[0], w->word);
    fprintf(stderr, "yoke: error: %s: cannot be run: %s; install openmpi-bin, or name it in YK_MPIRUN\n",
            w->word[0], strerror(errno));
    _exit(127);
}

/* -1: there is no room for another process. */
static pid_t start(const yk_words *w, const char *folder, yk_output_filter *o)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC))
        return -1;
    if (pipe2(err, O_CLOEXEC)) {
        close(out[0]);
        close(out[1]);
        return -1;
    }
    const pid_t launcher = getpid(), pid = fork();
    if (pid == 0) {
        follow_launcher(launcher);
        become_mpirun(w, folder, out[1], err[1]);
    }
    close(out[1]);
    close(err[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    o->results = out[0];
    o->from = err[0];
    if (pid < 0) {
        close(out[0]);
        close(err[0]);
    }
    return pid;
}

/* Whether the job has ended, as far as its processes have told, and how. */
static bool has_ended(const yk_output_filter *o, const char *ended, yk_ended *out)
{
    const bool there = yk_ended_read(ended, out);
    if (!there && o->ended >= 0)
        *out = (yk_ended){.status = (yk_status)o->ended};
    return there || o->ended >= 0;
}

/* The progress of an attempt, as the launcher sees it. Times are 0 until the event has happened. */
typedef struct {
    pid_t pid;    /* of mpirun, and of its process group */
    double limit; /* timeout in seconds without output, before training and after a signal */
    double asked; /* when a signal came, and was passed on */
    double told;  /* when it was last passed on; mpirun may lose it */
    double over;  /* when the ranks had finished */
    double ends;  /* when we began to end mpirun itself */
    bool hangs;   /* it was ended because it sent no heartbeat */
} watchdog;

/* One signal ends a job: all ranks save and end; if they do not, mpirun is ended. */
static bool ignores_signal(const watchdog *v, const yk_output_filter *o, double now)
{
    static const double start_grace = 1.0; /* nothing to save yet */
    if (v->asked == 0.0 || (o->training && o->saving))
        return false;
    const double since = o->heard_at > v->asked && o->training ? o->heard_at : v->asked;
    return now - since > (o->training ? v->limit : start_grace);
}

/* Ranks end by themselves after the limit and report the reason, so give them time. */
static bool never_starts(const watchdog *v, const yk_output_filter *o, double now)
{
    static const double margin = 5.0;
    return !o->training && now - o->heard_at > v->limit + margin;
}

/* Asks mpirun to end, and kills it if it does not: it may be waiting for a host that is down or stopped. */
static void end_mpirun(watchdog *v, bool ask, double now)
{
    static const double patience = 1.0;
    if (v->ends == 0.0) {
        v->ends = now;
        kill(ask ? v->pid : -v->pid,
             ask ? SIGTERM : SIGKILL); /* SIGTERM: it tells its daemons, and cleans up */
    } else if (now - v->ends > patience) {
        kill(-v->pid, SIGKILL);
    }
}

/* Until it has ended, passing signals on; its wait status. */
static int stand_by(watchdog *v, yk_output_filter *o, const char *ended)
{
    int status = 0;
    o->heard_at = yk_now();
    while (waitpid(v->pid, &status, WNOHANG) == 0) {
        yk_ended how = {0};
        yk_output_filter_read(o);
        const double now = yk_now();
        if (has_ended(o, ended, &how) && v->over == 0.0)
            v->over = now;
        if (yk_cli_stop && v->over == 0.0 && now - v->told > 1.0) {
            v->told = now;
            v->asked = v->asked > 0.0 ? v->asked : now;
            kill(v->pid, SIGUSR1); /* mpirun hands it to all ranks at once: they save and end */
        }
        if (yk_cli_stop_again)
            kill(-v->pid, SIGKILL);
        v->hangs |= v->over == 0.0 && never_starts(v, o, now);
        if (v->over > 0.0 && now - v->over > grace)
            end_mpirun(v, how.status == YK_OK, now); /* if it is aborting it would print messages */
        else if (v->over == 0.0 && (v->hangs || ignores_signal(v, o, now)))
            end_mpirun(v, true, now);
        yk_output_filter_wait(o, yk_cli_stop || v->over > 0.0 ? 0.01 : 0.1);
    }
    kill(-v->pid, SIGKILL); /* no process is left behind */
    return status;
}

/* ---- an attempt ---- */

typedef struct {
    bool restartable;
    int exit;
    const char *why; /* it is started again */
} outcome;

static outcome stopped_early(void)
{
    yk_note("stopped by a signal before training began");
    return (outcome){false, 0, ""};
}

/* Its processes have told how it ended. */
static outcome judge_told(const yk_output_filter *heard, const yk_ended *how)
{
    const bool lost = how->status == YK_ELOST || how->status == YK_ESTOP;
    if (how->status == YK_EINTERRUPTED)
        return stopped_early();
    if (heard->ended < 0 && *how->error) /* mpirun was gone before it brought their last words */
        yk_report_error(how->error);
    return (outcome){lost, yk_status_exit(how->status), "a process was lost"};
}

/* They have not: rank 0 never came to its end, whatever mpirun says. */
static outcome judge_untold(int wait_status, const yk_output_filter *heard, const watchdog *v, bool begun)
{
    char text[400];
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (yk_cli_stop && !heard->training)
        return stopped_early();
    if (v->hangs) {
        snprintf(text, sizeof text,
                 "the job did not start: no heartbeat for %.0f s; for a job that starts slowly, raise "
                 "--deadline (the limit is 8 times that)",
                 v->limit);
        yk_report_error(text);
        return (outcome){true, 1, "it did not start"};
    }
    if (code == 127)
        return (outcome){false, 4, ""};
    if (!begun && !*heard->died && code < 128) { /* the next attempt would fail as well */
        snprintf(
            text, sizeof text,
            "mpirun could not start the job (status %d); can every host be reached (--hosts, --hostfile, "
            "--agent), is this program there in the same place, and is mpirun content with "
            "--mpi-options?",
            code);
        yk_report_error(text);
        return (outcome){false, 4, ""};
    }
    if (!*heard->died && !heard->lost)
        yk_report_error(
            "the job ended without a word; is every machine reachable, and the program in the same place?");
    return (outcome){true, code > 4 || !code ? 1 : code, "a process died"};
}

/* What is known of an attempt whose processes could not write down how it ended. */
static void keep_lost(const job *j, time_t since, const yk_output_filter *heard, int code, const char *error)
{
    const yk_lost lost = {.run_dir = j->out,
                          .error = *error ? error : "the job ended without a word",
                          .since = since,
                          .exit_code = code,
                          .workers = heard->workers,
                          .ranks = (int)j->config->launch};
    if (!j->config->join && strcmp(j->out, "none"))
        yk_summary_of_lost(j->config, &lost);
}

/* Once, to its end. */
static outcome attempt(const job *j, int64_t number, bool *begun)
{
    char text[320];
    yk_words w = j->words; /* the words themselves stay where they are */
    if (number > 0 && !j->config->resume)
        w.word[w.n++] = (char *)"--resume";
    w.word[w.n] = NULL;
    if (truncate(j->ended, 0))
        return (outcome){false, yk_cli_exit(yk_fail(YK_ESYSTEM, "%s: %s", j->ended, strerror(errno))), ""};
    snprintf(text, sizeof text, "%lld", (long long)number);
    setenv("YK_RESTARTS", text, 1);
    snprintf(text, sizeof text, "%.6f", yk_now());
    setenv("YK_STARTED", text, 1);
    yk_output_filter heard = {.ended = -1};
    const pid_t pid = start(&w, j->folder, &heard);
    if (pid < 0)
        return (outcome){false, yk_cli_exit(yk_fail(YK_ESYSTEM, "cannot start mpirun: %s", strerror(errno))),
                         ""};
    const time_t since = time(NULL);
    watchdog v = {.pid = pid, .limit = j->plan.start_limit};
    const int status = stand_by(&v, &heard, j->ended);
    const yk_status passed_on = yk_output_filter_end(&heard);
    *begun |= heard.begun;
    yk_ended how = {.error = ""};
    outcome o = has_ended(&heard, j->ended, &how) ? judge_told(&heard, &how)
                                                  : judge_untold(status, &heard, &v, *begun);
    if (o.exit && *heard.died) {
        snprintf(text, sizeof text, "the job was lost: %s", heard.died);
        yk_report_error(text);
    }
    if (o.exit && heard.begun)
        keep_lost(j, since, &heard, o.exit, *heard.died ? text : how.error);
    if (!o.exit)
        o.exit = yk_cli_exit(passed_on);
    return o;
}

/* ---- the job ---- */

/* The name server that others find the job by, if they want to join it: asynchronous jobs with a run directory have one. Its
 * address is in RUN/join. Without it the job runs as well. */
static pid_t start_names(const char *path, const char *folder)
{
    unlink(path);
    const pid_t launcher = getpid(), pid = fork();
    if (pid == 0) {
        follow_launcher(launcher);
        const int null = open("/dev/null", O_RDWR);
        for (int fd = 0; null >= 0 && fd < 3; fd++)
            dup2(null, fd);
        execlp("ompi-server", "ompi-server", "--no-daemonize", "--mca", "orte_tmpdir_base", folder, "-r",
               path, (char *)NULL);
        _exit(127);
    }
    struct stat there;
    for (int i = 0; pid > 0 && i < 200; i++) {
        if (stat(path, &there) == 0 && there.st_size > 0)
            return pid;
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return -1;
        yk_nap(0.005);
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return -1;
}

/* The run directory, the same for all attempts. */
static yk_status choose_run_dir(const yk_config *c, char *out, size_t size)
{
    char *name = c->join || c->out ? strdup(c->join ? c->join : c->out) : yk_run_dir_name(c->model);
    if (!name)
        return yk_fail_memory(64, "a path");
    snprintf(out, size, "%s", name);
    free(name);
    return YK_OK;
}

static void set_environment(void)
{
    struct winsize size = {0};
    char text[32];
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    if (isatty(STDERR_FILENO) && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) {
        snprintf(text, sizeof text, "%d", size.ws_col);
        setenv("YK_PROGRESS", text, 1); /* a rank's stderr is no terminal, but ours is */
    }
}

/* mpirun needs about 25 + 3 n open files for n processes, and hangs if the limit is lower. */
static yk_status allow_open_files(int64_t processes)
{
    struct rlimit files;
    const rlim_t wanted = 64 + 8 * (rlim_t)processes;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= wanted)
        return YK_OK;
    if (files.rlim_max < wanted)
        return yk_fail(
            YK_ESYSTEM,
            "a job of %lld processes needs %llu open files, but the limit is %llu; raise it with ulimit -n",
            (long long)processes, (unsigned long long)wanted, (unsigned long long)files.rlim_max);
    files.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &files);
    return YK_OK;
}

static yk_status prepare(job *j, int argc, char **argv)
{
    const yk_config *c = j->config;
    int64_t n = 0;
    yk_status st = yk_job_processes(c, &n);
    if (!st) /* before anything is started */
        st = yk_plan_make(c, (int)n, yk_cores() / (int)n, &j->plan);
    if (!st)
        st = yk_mpirun_find(&j->mpirun);
    if (!st && !c->hosts && !c->hostfile)
        st = yk_mpi_check(j->mpirun.mpi);
    const bool joinable =
        j->plan.joinable && !c->join && strcmp(j->out, "none") && j->mpirun.mpi == YK_MPI_OPEN_MPI;
    if (!st)
        st = allow_open_files(n);
    if (!st)
        st = yk_job_folder_make(n, j->folder, sizeof j->folder, &j->folder_lock);
    if (!st)
        st = yk_ended_make(j->folder, j->ended, sizeof j->ended);
    if (!st && c->hostfile)
        st = yk_network_check_hostfile(c->hostfile);
    if (!st && c->join)
        st = yk_network_read_join(j->names, c->network && strcmp(c->network, "any") == 0, j->server,
                                  sizeof j->server);
    if (!st)
        yk_network_confine(c, joinable || c->join);
    if (!st && joinable && !(st = yk_dir_make(j->out)))
        j->names_pid = start_names(j->names, j->folder);
    if (j->names_pid > 0) {
        snprintf(j->server, sizeof j->server, "file:%s", j->names);
        setenv("YK_JOINABLE", "1", 1);
    }
    const yk_job_paths paths = {j->folder, j->out, *j->server ? j->server : NULL, &j->plan};
    return st ? st : yk_job_words(c, &j->mpirun, argc, argv, &paths, &j->words);
}

/* As often as --restarts allows; the exit status. */
static int run(const job *j)
{
    const int64_t most = j->config->restarts;
    bool begun = false;
    for (int64_t i = 0;; i++) {
        if (i > 1) /* what was lost may take a while to come back */
            yk_nap(i < 10 ? 0.1 * (double)(i * i) : 10.0);
        const outcome o = attempt(j, i, &begun);
        if (!o.restartable || i >= most || yk_cli_stop)
            return o.exit;
        yk_warn("%s; starting again from the last checkpoint (restart %lld of %lld)", o.why,
                (long long)(i + 1), (long long)most);
    }
}

static void clean_up(job *j)
{
    if (j->names_pid > 0) {
        kill(j->names_pid, SIGKILL);
        waitpid(j->names_pid, NULL, 0);
        unlink(j->names);
    }
    if (*j->folder)
        yk_job_folder_remove(j->folder, j->folder_lock);
    yk_words_fini(&j->words);
}

int yk_launch(const yk_config *c, int argc, char **argv)
{
    job j = {.config = c, .names_pid = -1};
    yk_status st = choose_run_dir(c, j.out, sizeof j.out);
    snprintf(j.names, sizeof j.names, "%s/join", j.out);
    set_environment();
    if (!st)
        st = prepare(&j, argc, argv);
    const int code = st ? yk_cli_exit(st) : run(&j);
    if (code && !c->out && !c->join)
        rmdir(j.out); /* made by yk_run_dir_name(); stays if anything was written */
    clean_up(&j);
    return code;
}
