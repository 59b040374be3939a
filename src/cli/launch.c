#include "cli/job.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/team.h"
#include "base/wait.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/job_dir.h"
#include "cli/job_status.h"
#include "cli/mpirun.h"
#include "cli/network.h"
#include "cli/output_filter.h"
#include "cli/supervise.h"
#include "config/hosts.h"
#include "lib/internal.h"
#include "train/run_dir.h"
#include "train/summary.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
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

typedef struct {
    const yk_config *config;
    yk_plan plan;
    yk_mpirun mpirun;
    yk_argv command;
    yk_job_dir directory;
    char *out;                    /* the run directory, the same for all attempts */
    char join_file[PATH_MAX + 8]; /* RUN/join: has the address of the name server, while workers can join */
    char name_server[PATH_MAX + 32]; /* as an argument of mpirun; "": none */
    pid_t name_server_pid;           /* -1: none */
} job;

/* ---- mpirun ---- */

/* In a child, after the fork: makes it end when the launcher ends. */
static void follow_launcher(pid_t launcher)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(127);
}

/* In the child, after the fork. */
static void exec_mpirun(const yk_argv *w, const char *directory, int out, int err)
{
    const int null = open("/dev/null", O_RDONLY);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        _exit(127);
    setenv("TMPDIR", directory, 1); /* for mpirun itself; daemons on other hosts have their own */
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    execvp(w->arg[0], w->arg);
    fprintf(stderr,
            "yoke: error: cannot run %s: %s; install openmpi-bin, or set YK_MPIRUN to the path of mpirun\n",
            w->arg[0], strerror(errno));
    _exit(127);
}

/* -1: failed; errno is set, and the launcher ends. */
static pid_t start(const yk_argv *w, const char *directory, yk_output_filter *o)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        return -1;
    const pid_t launcher = getpid(), pid = fork();
    if (pid == 0) {
        follow_launcher(launcher);
        exec_mpirun(w, directory, out[1], err[1]);
    }
    close(out[1]);
    close(err[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    o->out.fd = out[0];
    o->err.fd = err[0];
    return pid;
}

/* ---- an attempt ---- */

typedef struct {
    int exit;
    yk_status status; /* that a process reported; YK_OK: none */
    const char *why;  /* the reason for a restart; NULL: another attempt would fail, too */
    time_t since;     /* when the attempt began */
    char error[1024]; /* "": the error that a process reported, if any */
} outcome;

__attribute__((format(printf, 3, 4))) static outcome failed(int exit, const char *why, const char *format,
                                                            ...)
{
    outcome o = {.exit = exit, .why = why};
    va_list args;
    va_start(args, format);
    vsnprintf(o.error, sizeof o.error, format, args);
    va_end(args);
    yk_report_error(o.error);
    return o;
}

static outcome stopped_early(void)
{
    yk_note("%s", yk_status_text(YK_EINTERRUPTED));
    yk_failure_print(yk_status_text(YK_EINTERRUPTED), 0);
    return (outcome){.exit = 0};
}

/* The processes have reported how the job ended. */
static outcome classify_reported(const yk_output_filter *o, const yk_job_outcome *how)
{
    /* when a process dies, mpirun interrupts the others */
    const bool died = how->status == YK_EINTERRUPTED && *o->died && !yk_cli_stop,
               lost = how->status == YK_ELOST || how->status == YK_ESTOP || died;
    if (how->status == YK_EINTERRUPTED && !died)
        return stopped_early();
    if (o->ended < 0 && *how->error) /* mpirun ended before it forwarded the error */
        yk_report_error(how->error);
    return (outcome){.exit = died ? 1 : yk_status_exit(how->status),
                     .status = how->status,
                     .why = lost ? "a process was lost" : NULL};
}

static outcome init_failed(const yk_output_filter *o)
{
    char reason[240];
    yk_output_filter_reason(o, reason, sizeof reason);
    return failed(
        4, NULL,
        "MPI could not start (MPI_Init failed)%s%s; check --mpi-options and the MPI parameters in "
        "the environment (OMPI_MCA_...); YK_MPI_MESSAGES=1 in the environment shows MPI's own messages",
        *reason ? ": " : "", reason);
}

/* The processes have reported nothing: rank 0 did not reach its end, whatever the exit status of mpirun. */
static outcome classify_unreported(int wait_status, const yk_output_filter *o, const yk_watchdog *v,
                                   bool connected)
{
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    const bool by_signal = code > 128 && code - 128 < NSIG; /* even if mpirun did not say so */
    if (yk_cli_stop && !o->training)
        return stopped_early();
    if (o->init_failed)
        return init_failed(o);
    if (v->lost > 0.0 && !*o->died)
        return failed(1, "a process died", "%s died before training began", v->missing);
    if (v->gone > 0.0)
        return failed(1, NULL, "the job in %.300s has ended", v->joined_run_dir);
    if (v->hung)
        return failed(1, "the job did not start",
                      "the job did not start: no heartbeat for %.0f s; if it needs longer to start, raise "
                      "--deadline (the limit is 8 times --deadline, but at least 60 s)",
                      v->limit);
    if (code == 127) /* exec_mpirun() has reported it */
        return (outcome){.exit = 4, .error = "cannot run mpirun; install openmpi-bin, or set YK_MPIRUN"};
    const int exit = code > 4 || !code ? 1 : code;
    static const char why[] = "a process died";
    if (o->unreachable && o->connected && !*o->died)
        return failed(1, why, "the job was lost: a host has died, or cannot be reached");
    if (o->unreachable && !o->connected)
        return failed(4, connected ? "a host could not be reached" : NULL,
                      "cannot start the job on every host; check that this command works for each of them, "
                      "without a password: ssh HOST true (--hosts, --hostfile, --agent), and that each has "
                      "Open MPI and this program at the same path");
    const bool no_start = !connected && !*o->died && WIFEXITED(wait_status) && !by_signal;
    if (no_start && yk_job_has_begun()) /* mpirun has lost the messages of MPI */
        return init_failed(o);
    if (no_start)
        return failed(
            4, NULL,
            "mpirun could not start the job (status %d); check that every host can "
            "be reached (--hosts, --hostfile, --agent) and has this program at the same path, and check "
            "--mpi-options and PATH; YK_MPI_MESSAGES=1 in the environment shows all messages of MPI",
            code);
    if (*o->died || o->lost)
        return (outcome){.exit = exit, .why = why};
    if (by_signal)
        return failed(exit, why, "the job was lost: a process was killed by signal %d (%s)", code - 128,
                      strsignal(code - 128));
    return failed(exit, why,
                  "the job ended without an error message; check that every host can be reached and has "
                  "this program at the same path");
}

/* Writes the summary of an attempt whose processes could not write it. */
static void save_lost(const job *j, const yk_output_filter *f, const outcome *o)
{
    const yk_lost_job lost = {.run_dir = j->out,
                              .error = o->error,
                              .since = o->since,
                              .status = o->status ? o->status : YK_ELOST,
                              .exit_code = o->exit,
                              .workers = f->workers,
                              .ranks = j->plan.processes};
    if (!j->config->join && strcmp(j->out, "none"))
        yk_summary_save_lost(j->config, &lost);
}

/* Whether the processes were interrupted by mpirun, because one of them died or because the launcher ended it: the reason is
 * not in their report. */
static bool mpirun_interrupted(const yk_output_filter *o, const yk_watchdog *v, const yk_job_outcome *how)
{
    return how->status == YK_EINTERRUPTED && !yk_cli_stop &&
           (*o->died || o->init_failed || v->lost > 0.0 || v->gone > 0.0 || v->hung);
}

/* Called when training has begun: the run directory has all that a worker needs to join, so RUN/join is written now. */
static void let_join(void *context)
{
    const job *j = context;
    char address[4096];
    if (j->name_server_pid > 0 && yk_file_text(address, sizeof address, "%s", j->name_server + 5) &&
        yk_file_save(j->out, "join", "%s", address))
        yk_warn("workers cannot join this job: %s", yk_error());
}

/* Runs the job once. */
static outcome attempt(job *j, int64_t number, bool *connected)
{
    char text[320];
    if (number == 1 && !j->config->resume)
        yk_argv_add(&j->command, "--resume");
    const yk_status cleared = yk_job_files_clear();
    if (j->name_server_pid > 0)
        unlink(j->join_file);
    if (cleared)
        return (outcome){.exit = yk_cli_exit(cleared)};
    snprintf(text, sizeof text, "%lld", (long long)number);
    setenv("YK_RESTARTS", text, 1);
    snprintf(text, sizeof text, "%.6f", yk_now());
    setenv("YK_STARTED", text, 1);
    yk_output_filter filter = {.ended = -1};
    yk_limits before, after;
    yk_cgroup_limits("/proc", "/sys", &before);
    const pid_t pid = start(&j->command, j->directory.path, &filter);
    if (pid < 0)
        return (outcome){.exit =
                             yk_cli_exit(yk_fail(YK_ESYSTEM, "cannot start mpirun: %s", strerror(errno)))};
    const time_t since = (time_t)yk_wall();
    yk_watchdog v = {.pid = pid, .limit = j->plan.startup_timeout, .results = !j->config->join};
    v.training = let_join;
    v.context = j;
    v.joined_run_dir = j->config->join ? j->out : NULL;
    if (!j->config->dry_run && !j->config->join && !yk_names_hosts(j->config))
        v.ranks = (int)j->config->launch;
    const int status = yk_supervise(&v, &filter);
    const yk_status written = yk_output_filter_end(&filter);
    *connected |= filter.connected;
    yk_job_outcome how = {.error = ""};
    const bool reported = yk_job_has_ended(&filter, &how) && !mpirun_interrupted(&filter, &v, &how);
    outcome o =
        reported ? classify_reported(&filter, &how) : classify_unreported(status, &filter, &v, *connected);
    if (o.exit && *filter.died) {
        snprintf(text, sizeof text, "the job was lost: %s", filter.died);
        yk_report_error(text);
    }
    o.since = since;
    if (!*o.error)
        snprintf(o.error, sizeof o.error, "%s",
                 *filter.died ? text
                 : *how.error ? how.error
                              : "the job ended without an error message");
    yk_cgroup_limits("/proc", "/sys", &after);
    /* mpirun only knows that a process was killed */
    if (o.exit && yk_cgroup_killed(&before, &after, o.error, sizeof o.error)) {
        yk_report_error(o.error);
        o.exit = yk_status_exit(YK_ESYSTEM);
    }
    if (o.exit && filter.connected)
        save_lost(j, &filter, &o);
    if (!o.exit)
        o.exit = yk_cli_exit(written);
    return o;
}

/* ---- the job ---- */

/* Starts the name server, through which workers join an asynchronous job with a run directory. It writes its address to the
 * file `path`. -1: failed; the job runs without it. */
static pid_t start_name_server(const char *path, const char *directory)
{
    const pid_t launcher = getpid(), pid = fork();
    if (pid == 0) {
        follow_launcher(launcher);
        const int null = open("/dev/null", O_RDWR);
        for (int fd = 0; null >= 0 && fd < 3; fd++)
            dup2(null, fd);
        execlp("ompi-server", "ompi-server", "--no-daemonize", "--mca", "orte_tmpdir_base", directory, "-r",
               path, (char *)NULL);
        _exit(127);
    }
    struct stat file;
    yk_wait w = yk_wait_every(0.005, 1.0);
    while (pid > 0 && yk_wait_poll(&w)) {
        if (stat(path, &file) == 0 && file.st_size > 0)
            return pid;
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return -1;
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return -1;
}

/* Tells the processes of a job whether workers can join it, or why not. */
static void set_joinable(const job *j)
{
    char path[PATH_MAX], library[96] = "", reason[240];
    unsetenv("YK_JOINABLE");
    unsetenv("YK_NOT_JOINABLE");
    if (j->name_server_pid > 0) {
        setenv("YK_JOINABLE", "1", 1);
    } else if (j->plan.joinable && !j->config->join) {
        yk_mpi_describe(j->mpirun.mpi, path, sizeof path, library, sizeof library);
        yk_network_join_obstacle(strcmp(j->out, "none"), library, reason, sizeof reason);
        setenv("YK_NOT_JOINABLE", reason, 1);
    }
}

static void set_environment(void)
{
    struct winsize size = {0};
    char text[32];
    const struct passwd *user = getpwuid(getuid());
    setenv("PATH", YK_DEFAULT_PATH, 0); /* Open MPI finds no program without it, and Open MPI 5 needs HOME */
    setenv("HOME", user ? user->pw_dir : "/", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    if (isatty(STDERR_FILENO) && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) {
        snprintf(text, sizeof text, "%d", size.ws_col);
        setenv("YK_PROGRESS", text, 1); /* the stderr of a rank is a pipe to this process */
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
    yk_status st;
    snprintf(j->join_file, sizeof j->join_file, "%s/join", j->out);
    if ((st = yk_job_processes(c, &n)))
        return st;
    /* checks the options before anything is started. A worker that joins reads those of the run, and checks them */
    const yk_topology topology = {.processes = (int)n, .cores = yk_cores_per_process((int)n)};
    st = yk_plan_options(c, &topology, &j->plan);
    if ((st && !c->join) || (st = yk_mpirun_find(&j->mpirun)) ||
        (!yk_names_hosts(c) && (st = yk_mpi_check(j->mpirun.mpi))) || (st = allow_open_files(n)) ||
        (st = yk_job_dir_create(n, &j->directory)) || (st = yk_job_files_create(j->directory.path)))
        return st;
    if (c->join)
        st = yk_network_read_join(j->join_file, c->network && strcmp(c->network, "any") == 0, j->name_server,
                                  sizeof j->name_server);
    if (st)
        return st;
    const bool joinable = false; /* workers need no name server */
    yk_network_confine(c, joinable || c->join);
    if (joinable) {
        snprintf(j->name_server, sizeof j->name_server, "file:%s/name-server", j->directory.path);
        j->name_server_pid = start_name_server(j->name_server + 5, j->directory.path);
        if (j->name_server_pid < 0)
            *j->name_server = '\0';
    }
    set_joinable(j);
    const yk_job_paths paths = {j->directory.path, j->out, *j->name_server ? j->name_server : NULL, &j->plan,
                                n};
    return yk_mpirun_argv(c, &j->mpirun, argc, argv, &paths, &j->command);
}

/* Runs the job, restarts it as --restarts allows, and returns the exit status. */
static int run(job *j)
{
    const int64_t max = j->config->restarts;
    bool connected = false;
    for (int64_t i = 0;; i++) {
        if (i > 1) /* a lost host may need time to come back */
            yk_sleep(i < 10 ? 0.1 * (double)(i * i) : 10.0);
        const outcome o = attempt(j, i, &connected);
        if (!o.why || i >= max || yk_cli_stop) {
            if (o.exit) {
                yk_failure_print_summary(j->out, o.since);
                yk_failure_print(o.error, o.exit);
            }
            return o.exit;
        }
        yk_warn("%s; restarting from the last checkpoint (restart %lld of %lld)", o.why, (long long)(i + 1),
                (long long)max);
    }
}

static void clean_up(job *j)
{
    if (j->name_server_pid > 0) {
        kill(j->name_server_pid, SIGKILL);
        waitpid(j->name_server_pid, NULL, 0);
        unlink(j->join_file);
    }
    if (*j->directory.path)
        yk_job_dir_remove(&j->directory);
    yk_argv_fini(&j->command);
    free(j->out);
}

int yk_launch(const yk_config *c, int argc, char **argv)
{
    job j = {.config = c, .name_server_pid = -1};
    yk_status st = yk_run_dir_choose(c->join ? c->join : c->out, c->model, &j.out);
    set_environment();
    if (!st)
        st = prepare(&j, argc, argv);
    const int code = st ? yk_cli_exit(st) : run(&j);
    if (code && j.out && !c->out && !c->join)
        rmdir(j.out); /* created by yk_run_dir_choose(); stays if anything was written */
    clean_up(&j);
    return code;
}
