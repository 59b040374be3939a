#include "cli/launch.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/overhear.h"
#include "comm/comm.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WORDS = 512, MOST_HOSTS = 1024 };
static const double grace = 1.0; /* seconds that mpirun may take to end once its ranks have */

typedef struct {
    char *word[MOST_WORDS + 1];
    int n;
    bool full;
} words;

static void add(words *w, const char *text)
{
    char *copy = w->n < MOST_WORDS ? strdup(text) : NULL;
    if (copy)
        w->word[w->n++] = copy;
    else
        w->full = true;
}

static void add_all(words *w, const char *text)
{
    char *copy = strdup(text), *save = NULL;
    for (char *word = copy ? strtok_r(copy, " ", &save) : NULL; word; word = strtok_r(NULL, " ", &save))
        add(w, word);
    free(copy);
}

static void forget(words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->word[i]);
    *w = (words){0};
}

bool yk_launch_wanted(const yk_config *c)
{
    return (c->launch || c->hosts || c->hostfile || c->join) && yk_comm_expected() == 0;
}

/* "a,b:2" is three places on two hosts. */
static yk_status count_hosts(const char *hosts, int64_t *out)
{
    *out = 0;
    for (const char *at = hosts; *at;) {
        const size_t n = strcspn(at, ",");
        const char *colon = memchr(at, ':', n);
        char *end = NULL;
        long slots = colon ? strtol(colon + 1, &end, 10) : 1;
        if (n == 0 || colon == at || slots < 1 || slots > MOST_HOSTS || (colon && end != at + n))
            return yk_fail(YK_EUSAGE,
                           "--hosts %s: it is a list like a,b:2 (a host, or a host and how many processes)",
                           hosts);
        *out += slots;
        at += n + (at[n] == ',');
    }
    return *out ? YK_OK : yk_fail(YK_EUSAGE, "--hosts is empty");
}

/* Whether the job goes on without a worker that is lost. */
static bool survives(const yk_config *c)
{
    return (c->mode && strcmp(c->mode, "async") == 0) || c->staleness > 0 || c->quorum > 0;
}

/* What works as root, with more processes than cores, and does not pin threads to one core. */
static yk_status mpirun_words(const yk_config *c, const char *folder, const char *server, words *w)
{
    char number[32], text[PATH_MAX + 16];
    int64_t n = c->launch;
    yk_status st = YK_OK;
    add(w, getenv("YK_MPIRUN") ? getenv("YK_MPIRUN") : YK_MPIRUN_DEFAULT);
    if (c->hosts && !(st = count_hosts(c->hosts, &n)))
        n = c->launch ? c->launch : n;
    if (st)
        return st;
    if (yk_comm_is_open_mpi()) {
        add_all(
            w, "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca odls_base_sigkill_timeout 0 "
               "--mca pml ob1 --mca btl_base_warn_component_unused 0 --mca mpi_event_tick_rate 1");
        if (!c->hosts && !c->hostfile) { /* what a killed process leaves behind goes with the folder */
            add_all(w, "--mca btl_vader_backing_directory");
            add(w, folder);
            add_all(w, "--mca orte_tmpdir_base");
            add(w, folder);
        }
        if (!c->mpi_options || !strstr(c->mpi_options, "mca btl "))
            add_all(w, "--mca btl self,vader,tcp");
        if (survives(c))
            add(w, "--enable-recovery");
        else /* a link that is down ends the job within seconds */
            add_all(w, "--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca "
                       "oob_tcp_keepalive_probes 3");
        if (server) {
            snprintf(text, sizeof text, "file:%s", server);
            add(w, "--ompi-server");
            add(w, text);
        }
        if (c->agent) {
            add_all(w, "--mca plm_rsh_agent");
            add(w, c->agent);
        }
        if (c->hosts || c->hostfile) {
            add_all(w, c->hosts ? "--map-by slot --host" : "--hostfile");
            add(w, c->hosts ? c->hosts : c->hostfile);
            for (int i = 0; i < 3; i++) { /* the processes of this machine have it all anyway */
                static const char *const names[] = {"YK_ENDED", "YK_JOINABLE", "YK_PROGRESS"};
                if (getenv(names[i])) {
                    add(w, "-x");
                    add(w, names[i]);
                }
            }
        }
    } else if (c->hosts || c->hostfile) {
        add(w, c->hosts ? "-hosts" : "-f");
        add(w, c->hosts ? c->hosts : c->hostfile);
    }
    if (c->mpi_options)
        add_all(w, c->mpi_options);
    if (n || c->join) {
        n = c->join ? 1 : n;
        snprintf(number, sizeof number, "%lld", (long long)n);
        add(w, "-n");
        add(w, number);
    }
    ssize_t got = readlink("/proc/self/exe", text, sizeof text - 1);
    if (got < 0)
        return yk_fail(YK_ESYSTEM, "cannot find this program's own file: %s", strerror(errno));
    text[got] = '\0';
    add(w, text);
    return YK_OK;
}

/* A folder for what the job leaves on this machine while it runs; shared memory, where there is some. */
static yk_status make_folder(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, size, "/dev/shm/yoke-XXXXXX");
    if (mkdtemp(path))
        return YK_OK;
    snprintf(path, size, "%s/yoke-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(path) ? YK_OK : yk_fail(YK_ESYSTEM, "%s: cannot be made: %s", path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s, (void)kind, (void)f;
    remove(path);
    return 0;
}

static void remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The file in it where the job writes how it ended. */
static yk_status ended_file(const char *folder, char *path, size_t size)
{
    snprintf(path, size, "%s/ended", folder);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return yk_fail(YK_ESYSTEM, "%s: cannot be made: %s", path, strerror(errno));
    close(fd);
    setenv("YK_ENDED", path, 1);
    return YK_OK;
}

/* The launcher may be on another machine: it hears these lines, and does not pass them on (overhear.h). */
static void whisper(const char *format, ...)
{
    char text[64];
    va_list args;
    if (!getenv("YK_ENDED"))
        return;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* nobody listens */
}

void yk_launch_begun(int workers)
{
    whisper("\001begun %d\n", workers);
}

void yk_launch_lost(void)
{
    whisper("\001lost\n");
}

void yk_launch_ended(yk_status status, bool interrupted)
{
    const char *path = getenv("YK_ENDED");
    char text[32];
    int fd =
        path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1; /* not made: it may be another machine's */
    struct stat there;
    const int n = snprintf(text, sizeof text, "%d %d\n", (int)status, (int)interrupted);
    whisper("\001ended %d\n", (int)status);
    if (fd < 0)
        return;
    if (fstat(fd, &there) == 0 && there.st_size == 0) /* the first to fail knows why */
        n == write(fd, text, (size_t)n) ? (void)0 : (void)errno;
    close(fd);
}

static bool read_ended(const char *path, int *status, int *interrupted)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fscanf(f, "%d %d", status, interrupted) == 2;
    if (f)
        fclose(f);
    return ok;
}

static pid_t start(const words *w, const char *folder, yk_overheard *o)
{
    int fd[2], out[2];
    if (pipe2(fd, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid != 0) {
        close(fd[1]);
        close(out[1]);
        fcntl(fd[0], F_SETFL, O_NONBLOCK);
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        o->from = fd[0];
        o->results = out[0];
        return pid;
    }
    dup2(fd[1], STDERR_FILENO);
    dup2(out[1], STDOUT_FILENO);
    setpgid(0, 0);
    setenv("TMPDIR", folder, 1); /* of mpirun itself; daemons elsewhere have their own */
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    execvp(w->word[0], w->word);
    fprintf(stderr, "yoke: error: %s: cannot be run: %s; install openmpi-bin, or name it in YK_MPIRUN\n",
            w->word[0], strerror(errno));
    _exit(127);
}

/* The name server that others find the job by, if they want to join it: asynchronous jobs with a run directory have one. Its
 * address is in RUN/join. Without it the job runs as well. */
static pid_t start_names(const char *path, const char *folder)
{
    unlink(path);
    const pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
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
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return -1;
}

static void nap(double seconds)
{
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

/* Until it has ended, passing signals on; its wait status. */
static int stand_by(pid_t pid, yk_overheard *o, const char *ended)
{
    int status = 0, code = 0, interrupted;
    sig_atomic_t passed = 0;
    double asked = 0.0, over = 0.0;
    bool told = false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        const double now = yk_now();
        yk_overhear(o);
        if (yk_cli_stop && !passed) {
            passed = yk_cli_stop;
            asked = now;
            kill(pid, SIGUSR1); /* mpirun hands it to all ranks at once: they save and end */
        } else if (passed && yk_cli_stop_again) {
            kill(-pid, SIGTERM);
            asked = now - 60.0;
        }
        if (!over && (read_ended(ended, &code, &interrupted) || o->ended >= 0)) {
            over = now;
            code = o->ended >= 0 ? o->ended : code;
        }
        /* the ranks are through, but mpirun hangs: on a host that is gone, or one that was stopped */
        const double since = passed && yk_cli_stop_again ? asked : over;
        const bool well =
            over > 0.0 && code == YK_OK; /* one that is aborting anyway dies of a SIGTERM, and loudly */
        if (since != 0.0 && now - since > grace && !told && well) {
            told = true;
            kill(pid, SIGTERM); /* it tells its daemons, and cleans up */
        }
        if (since != 0.0 && now - since > grace + (told ? 2.0 : 0.0))
            kill(-pid, SIGKILL);
        nap(0.01);
    }
    kill(-pid, SIGKILL); /* nobody is left behind */
    yk_overhear(o);
    yk_overhear_results(o);
    close(o->from);
    close(o->results);
    return status;
}

typedef struct {
    bool restartable, told; /* told: a rank has said why */
    int exit;
    const char *why;
} outcome;

static outcome judge(int wait_status, const yk_overheard *heard, const char *ended, bool begun)
{
    int status = heard->ended, interrupted;
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (read_ended(ended, &status, &interrupted) || status >= 0) {
        const bool lost = status == YK_ELOST || status == YK_ESTOP;
        return (outcome){lost, true, yk_status_exit((yk_status)status), "a process was lost"};
    }
    if (code == 127 || (code == 0 && !heard->begun))
        return (outcome){false, true, code ? 4 : 0, ""};
    if (!begun) { /* no attempt ever did: the next one would not either */
        char said[256];
        snprintf(said, sizeof said,
                 "mpirun could not start the job (status %d); can every host be reached (--hosts, "
                 "--hostfile, --agent), is "
                 "this program there in the same place, and is mpirun content with --mpi-options?",
                 code);
        yk_report_error(said);
        return (outcome){false, true, 4, ""};
    }
    /* whatever mpirun says: rank 0 never came to its end */
    return (outcome){true, heard->lost > 0, code > 4 || !code ? 1 : code, "a process died"};
}

/* Where the run directory will be: one for all attempts. */
static void out_folder(const yk_config *c, char *out, size_t size)
{
    time_t now = time(NULL);
    struct tm tm;
    char when[32];
    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", &tm);
    if (c->join || c->out)
        snprintf(out, size, "%s", c->join ? c->join : c->out);
    else
        snprintf(out, size, "runs/%.40s-%s-%d", !c->model || strpbrk(c->model, " ,/") ? "net" : c->model,
                 when, (int)getpid());
}

/* Everything but mpirun's own words: `server` is the address of the name server, or NULL. */
static yk_status job_words(const yk_config *c, int argc, char **argv, const char *folder, const char *out,
                           const char *server, words *w)
{
    char path[PATH_MAX + 16];
    yk_status st = mpirun_words(c, folder, server, w);
    if (st)
        return st;
    add(w, "train");
    if (c->join) {
        snprintf(path, sizeof path, "%s/config.ini", c->join);
        add(w, "--config");
        add(w, path);
    }
    for (int i = 1; i < argc; i++)
        add(w, argv[i]);
    if (!c->out && !c->join) {
        add(w, "--out");
        add(w, out);
    }
    return w->full ? yk_fail(YK_EUSAGE, "the command line is too long") : YK_OK;
}

/* Once, to its end. */
static outcome attempt(const words *base, bool resume, const char *folder, const char *ended, int64_t number,
                       bool *begun)
{
    char text[32];
    words w = *base; /* the words themselves stay where they are */
    if (resume)
        w.word[w.n++] = (char *)"--resume";
    w.word[w.n] = NULL;
    if (truncate(ended, 0))
        return (outcome){false, true, 4, ""};
    snprintf(text, sizeof text, "%lld", (long long)number);
    setenv("YK_RESTARTS", text, 1);
    snprintf(text, sizeof text, "%.6f", yk_now());
    setenv("YK_STARTED", text, 1);
    yk_overheard heard = {.ended = -1};
    const pid_t pid = start(&w, folder, &heard);
    if (pid < 0) {
        yk_report_error("cannot start mpirun: there is no room for another process");
        return (outcome){false, true, 4, ""};
    }
    const int status = stand_by(pid, &heard, ended);
    *begun |= heard.begun;
    const outcome o = judge(status, &heard, ended, *begun);
    if (o.exit && *heard.died) {
        char said[320];
        snprintf(said, sizeof said, "the job was lost: %s", heard.died);
        yk_report_error(said);
    } else if (o.exit && !o.told) {
        yk_report_error(
            "the job ended without a word; is every machine reachable, and the program in the same place?");
    }
    return o;
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

int yk_launch(const yk_config *c, int argc, char **argv)
{
    char folder[PATH_MAX] = "", ended[PATH_MAX + 8], out[PATH_MAX], names[PATH_MAX + 8];
    const bool joinable = survives(c) && !c->quorum;
    words base = {0};
    pid_t names_pid = -1;
    out_folder(c, out, sizeof out);
    snprintf(names, sizeof names, "%s/join", out);
    set_environment();
    yk_status st = make_folder(folder, sizeof folder);
    if (!st)
        st = ended_file(folder, ended, sizeof ended);
    if (!st && c->hostfile && access(c->hostfile, R_OK))
        st = yk_fail(YK_EUSAGE, "%s: the hostfile cannot be read: %s", c->hostfile, strerror(errno));
    if (!st && c->join && access(names, R_OK))
        st = yk_fail(YK_EUSAGE, "%s: no asynchronous job is running there that could be joined", c->join);
    if (!st && !c->join && joinable && strcmp(out, "none") && yk_comm_is_open_mpi() &&
        !(st = yk_dir_make(out)))
        names_pid = start_names(names, folder);
    if (names_pid > 0)
        setenv("YK_JOINABLE", "1", 1);
    if (!st)
        st = job_words(c, argc, argv, folder, out, names_pid > 0 || c->join ? names : NULL, &base);
    outcome o = {false, true, yk_status_exit(st), ""};
    bool begun = false;
    for (int64_t i = 0; !st; i++) {
        if (i > 1) /* what was lost may take a while to come back */
            nap(i < 10 ? 0.1 * (double)(i * i) : 10.0);
        o = attempt(&base, i > 0 && !c->resume, folder, ended, i, &begun);
        if (!o.restartable || i >= c->restarts || yk_cli_stop)
            break;
        yk_warn("%s; starting again from the last checkpoint (restart %lld of %lld)", o.why,
                (long long)(i + 1), (long long)c->restarts);
    }
    if (names_pid > 0) {
        kill(names_pid, SIGKILL);
        waitpid(names_pid, NULL, 0);
        unlink(names);
    }
    if (*folder)
        remove_folder(folder);
    forget(&base);
    return st ? yk_cli_exit(st) : o.exit;
}
