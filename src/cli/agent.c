/* An agent starts the ranks of a job on one host and watches them for the launcher (launch.c).
 *
 *     launcher --fork--> agent --exec--> ranks 0 .. 3               --launch 4
 *     launcher --ssh b--> yoke agent --exec--> ranks 1 .. 2         --hosts a,b:2
 *
 * YK_FRAME_START has the working directory, environment variables, "", and the command of a rank:
 *
 *     /home/x | YOKE_SIZE=4 | YOKE_MASTER=unix:yoke-1-2 | YOKE_AGENT_TIMEOUT=8 | | yoke | train | --model=softmax | ...
 *
 * The agent that starts rank 0 opens the socket on which rank 0 listens, so that the others need not wait for it. YOKE_MASTER
 * is "unix:NAME", or "HOST:PORT"; with port 0, that agent chooses one. Each rank runs this program, and has YOKE_RANK,
 * YOKE_LOCAL_RANK, YOKE_LOCAL_SIZE, YOKE_MASTER and YOKE_STATUS_FD (channel.h) in its environment, and rank 0
 * YOKE_LISTEN_FD.
 *
 * An agent blocks all signals: the launcher decides. When the launcher dies, or sends no heartbeat for
 * YOKE_AGENT_TIMEOUT seconds (0: no limit), the agent kills its ranks. When the agent dies, the kernel kills them.
 */
#include "cli/channel.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/socket.h"
#include "cli/cli.h"
#include "lib/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the agent reads from: the launcher, the signal SIGCHLD, and the output of its ranks. */
enum { CHANNEL, CHILDREN, OUT, ERR, SOURCES };

typedef struct {
    yk_channel channel;
    struct pollfd source[SOURCES]; /* .fd -1: not used */
    int to[SOURCES];               /* write ends of the pipes, for the ranks; -1: they inherit theirs */
    int listener;                  /* for rank 0; -1: none */
    pid_t *pid;                    /* [count]; 0: it has ended */
    int first, count, running;
    double timeout, last_message; /* when the launcher last sent something */
    bool killed;                  /* the launcher has ended the ranks */
} agent;

/* ---- the job ---- */

/* Sets the variables of the frame, changes to its directory, and returns the command, which the caller frees. */
static yk_status read_job(agent *a, const yk_job_frame *f, yk_arena *command)
{
    const char *at = f->data, *const end = f->data + f->bytes;
    a->first = f->rank;
    a->count = f->value;
    if (chdir(at))
        return yk_fail(YK_ESYSTEM, "cannot change to the directory %s: %s", at, strerror(errno));
    for (at += strlen(at) + 1; at < end && *at; at += strlen(at) + 1)
        putenv(strdup(at));
    for (at++; at < end; at += strlen(at) + 1)
        yk_arena_print(command, "%s", at);
    a->timeout = yk_env_number("YOKE_AGENT_TIMEOUT", 0);
    return command->status;
}

/* Connections between processes, and memory that they share, need open files. */
static yk_status allow_open_files(int processes)
{
    struct rlimit files;
    const rlim_t wanted = 64 + 8 * (rlim_t)processes;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= wanted)
        return YK_OK;
    if (files.rlim_max < wanted)
        return yk_fail(
            YK_ESYSTEM,
            "a job of %d processes needs %llu open files, but the limit is %llu; raise it with ulimit -n",
            processes, (unsigned long long)wanted, (unsigned long long)files.rlim_max);
    files.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &files);
    return YK_OK;
}

/* The agent of rank 0 listens for it: at a Unix socket, on the loopback address, or at any free port of all addresses. */
static yk_status open_listener(agent *a)
{
    char master[512];
    const char *given = getenv("YOKE_MASTER");
    const size_t n = given ? strlen(given) : 0;
    if (a->first > 0 || n < 2)
        return YK_OK;
    const bool local = strncmp(given, "unix:", 5) == 0 || strncmp(given, "127.", 4) == 0;
    const yk_status st = yk_socket_listen(local ? given : "[::]:0", &a->listener);
    if (st)
        return st;
    snprintf(master, sizeof master, "%s", given);
    if (strcmp(given + n - 2, ":0") == 0)
        snprintf(master, sizeof master, "%.*s%d", (int)n - 1, given, yk_socket_port(a->listener));
    setenv("YOKE_MASTER", master, 1);
    yk_channel_send(a->channel.out, YK_FRAME_MASTER, 0, 0, master, strlen(master));
    return YK_OK;
}

/* ---- ranks ---- */

/* In the child. Signals wait until the program handles them (cli/main.c). Ctrl-Z stops the launcher only. */
static void exec_rank(const agent *a, char *const *command, int index, pid_t parent)
{
    const int null = open("/dev/null", O_RDONLY), status = dup(a->channel.out); /* which may be stdout */
    const sigset_t stop = yk_cli_stop_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(null, STDIN_FILENO) < 0 ||
        (a->to[OUT] >= 0 && dup2(a->to[OUT], STDOUT_FILENO) < 0) ||
        (a->to[ERR] >= 0 && dup2(a->to[ERR], STDERR_FILENO) < 0))
        _exit(127);
    yk_env_set_number("YOKE_RANK", a->first + index);
    yk_env_set_number("YOKE_LOCAL_RANK", index);
    yk_env_set_number("YOKE_LOCAL_SIZE", a->count);
    yk_env_set_number("YOKE_STATUS_FD", status);
    unsetenv("YOKE_LISTEN_FD");
    if (a->first + index == 0) {
        yk_env_set_number("YOKE_LISTEN_FD", a->listener);
        fcntl(a->listener, F_SETFD, 0);
    }
    signal(SIGTSTP, SIG_IGN);
    sigprocmask(SIG_SETMASK, &stop, NULL);
    execv("/proc/self/exe", command);
    fprintf(stderr, "yoke: error: cannot run /proc/self/exe: %s\n", strerror(errno));
    _exit(127);
}

static yk_status start_ranks(agent *a, char *const *command)
{
    yk_status st;
    const pid_t self = getpid();
    if ((st = allow_open_files((int)yk_env_number("YOKE_SIZE", a->count))) || (st = open_listener(a)))
        return st;
    if (!(a->pid = calloc((size_t)a->count, sizeof *a->pid)))
        return yk_fail_memory((size_t)a->count * sizeof *a->pid, "the processes of a job");
    for (int i = 0; i < a->count; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            exec_rank(a, command, i, self);
        if (pid < 0)
            return yk_fail(YK_ESYSTEM, "cannot start rank %d: %s", a->first + i, strerror(errno));
        a->pid[i] = pid;
        a->running++;
    }
    for (int s = OUT; s < SOURCES; s++) /* only the ranks write */
        if (a->to[s] >= 0)
            close(a->to[s]);
    if (a->listener >= 0)
        close(a->listener);
    return YK_OK;
}

static void signal_ranks(const agent *a, int signal)
{
    for (int i = 0; a->pid && i < a->count; i++)
        if (a->pid[i] > 0)
            kill(a->pid[i], signal);
}

/* Sends what was read from a pipe to the launcher; false: there is nothing to read, now or ever again. */
static bool forward(agent *a, int source)
{
    char text[PIPE_BUF - 64]; /* with its header one write(): ranks write to the channel, too */
    const ssize_t n = a->source[source].fd >= 0 ? read(a->source[source].fd, text, sizeof text) : -1;
    if (n == 0) {
        close(a->source[source].fd);
        a->source[source].fd = -1;
    }
    if (n > 0)
        yk_channel_send(a->channel.out, source == OUT ? YK_FRAME_OUT : YK_FRAME_ERR, 0, 0, text, (size_t)n);
    return n > 0;
}

/* Forwards the last output of a rank before it reports that the rank has ended. */
static void reap(agent *a)
{
    struct signalfd_siginfo ignored[8];
    int status;
    while (read(a->source[CHILDREN].fd, ignored, sizeof ignored) > 0)
        ;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int s = OUT; s < SOURCES; s++)
            while (forward(a, s))
                ;
        for (int i = 0; i < a->count; i++)
            if (a->pid[i] == pid) {
                a->pid[i] = 0;
                a->running--;
                yk_channel_send(a->channel.out, YK_FRAME_EXITED, a->first + i, a->killed ? 0 : status, NULL,
                                0);
            }
    }
}

/* ---- the loop ---- */

static yk_status init(agent *a, bool forwards)
{
    sigset_t all, children;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    for (int s = 0; s < SOURCES; s++) {
        a->source[s] = (struct pollfd){.fd = -1, .events = POLLIN};
        a->to[s] = -1;
    }
    a->source[CHANNEL].fd = a->channel.in;
    a->source[CHILDREN].fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    bool ok = a->source[CHILDREN].fd >= 0;
    for (int s = OUT; ok && forwards && s < SOURCES; s++) {
        int end[2];
        ok = pipe2(end, O_CLOEXEC) == 0;
        a->source[s].fd = ok ? end[0] : -1;
        a->to[s] = ok ? end[1] : -1;
        ok = ok && fcntl(end[0], F_SETFL, O_NONBLOCK) == 0;
    }
    return ok ? YK_OK : yk_fail(YK_ESYSTEM, "cannot create a pipe: %s", strerror(errno));
}

/* Handles the launcher's messages; false: the launcher has died, or the ranks cannot be started. */
static bool handle_launcher(agent *a)
{
    yk_job_frame f;
    a->last_message = yk_now();
    if (!yk_channel_read(&a->channel))
        return false;
    while (yk_channel_next(&a->channel, &f)) {
        if (f.kind == YK_FRAME_START && !a->pid) {
            yk_arena command = {0};
            yk_status st = read_job(a, &f, &command);
            if (!st)
                st = start_ranks(a, yk_arena_texts(&command));
            yk_arena_free(&command);
            if (st) {
                yk_channel_send(a->channel.out, YK_FRAME_FAILED, 0, 0, yk_error(), strlen(yk_error()));
                return false;
            }
        } else if (f.kind == YK_FRAME_STOP) {
            signal_ranks(a, SIGTERM);
        } else if (f.kind == YK_FRAME_KILL) {
            reap(a); /* those that died before, with their status */
            a->killed = true;
            signal_ranks(a, SIGKILL);
        }
    }
    return true;
}

static void serve(agent *a)
{
    double next = 0.0;
    a->last_message = yk_now();
    while (!a->pid || a->running) {
        const double now = yk_now();
        if (now >= next) {
            next = now + YK_AGENT_HEARTBEAT;
            yk_channel_send(a->channel.out, YK_FRAME_ALIVE, 0, 0, NULL, 0);
        }
        const int ready = poll(a->source, SOURCES, (int)((next - now) * 1e3) + 1);
        if (a->timeout > 0.0 && now - a->last_message > a->timeout && ready >= 0 &&
            !a->source[CHANNEL].revents)
            return;
        if (ready <= 0)
            continue;
        for (int s = OUT; s < SOURCES; s++)
            if (a->source[s].revents)
                forward(a, s);
        if (a->source[CHILDREN].revents)
            reap(a);
        if (a->source[CHANNEL].revents && !handle_launcher(a))
            return;
    }
}

int yk_agent(yk_channel channel, bool forwards)
{
    agent a = {
        .channel = channel, .listener = -1, .timeout = forwards ? 10.0 : 0.0}; /* until the job is known */
    const yk_status st = init(&a, forwards);
    if (!st && dprintf(channel.out, "%s%s\n", YK_AGENT_GREETING, yoke_version()) > 0)
        serve(&a);
    signal_ranks(&a, SIGKILL);
    while (a.running && waitpid(-1, NULL, 0) > 0)
        a.running--;
    yk_channel_fini(&a.channel);
    free(a.pid);
    return yk_status_exit(st);
}
