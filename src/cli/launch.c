/* The launcher of a job of several processes: --launch 4, --hosts a,b:2, --hostfile FILE.
 *
 * It starts an agent per host, which starts the processes (agent.c), and watches the ranks until all have ended. The job is lost
 * if a rank dies, unless it is a worker that the job can continue without (survives_loss). If an agent ends, or sends no heartbeat for
 * the heartbeat timeout, all of its ranks are lost. The first report of a failure counts, and ends the other ranks at once. The first
 * signal (yk_cli_stop) to the launcher, or to any rank, is sent to all ranks, which save and end; a second one to the launcher
 * (yk_cli_stop_again) kills them.
 *
 * With --restarts R, a job that was lost (a process died or is hung, or a link is down) is restarted from its last
 * checkpoint, up to R times. A job with a usage error or bad data, or one that diverged, is not restarted: it would fail
 * again. */
#include "cli/cli.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/team.h"
#include "base/wait.h"
#include "cli/channel.h"
#include "comm/rendezvous.h"
#include "config/hosts.h"
#include "lib/internal.h"
#include "train/plan.h"
#include "train/run_dir.h"
#include "train/summary.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds for processes to end: after rank 0, after SIGKILL, after a signal before training. The timeouts
 * between processes are in the plan. */
static const double grace = 1.0;

/* The launcher's end of an agent, and the ranks of its host. */
typedef struct {
    bool remote;      /* on another host: it forwards the output of its ranks */
    const char *host; /* as the user named it; for this host, its name */
    int first, last;  /* ranks */
    pid_t pid;        /* of the forked agent, or of ssh; 0: it has ended */
    yk_channel channel;
    bool greeted, started;
    double last_message; /* when it last sent something */
} host_agent;

typedef struct {
    const yk_config *config;
    yk_plan plan;
    yk_host *host; /* [hosts] */
    size_t hosts;
    yk_arena command; /* the command line of a rank */
    char *out;        /* the run directory, the same for all attempts */
    /* the state of an attempt */
    host_agent *agent;    /* [hosts] */
    struct pollfd *ready; /* [hosts] */
    bool *ended;          /* [plan.processes] ranks that have ended, or are about to */
} job;

/* An attempt to run the job. Times are 0 until the event has happened. */
typedef struct {
    const job *job;
    host_agent *agent; /* those of the job */
    bool *ended;
    char master[512], token[YK_TOKEN_TEXT];
    time_t since;                  /* when it began */
    double last_message;           /* when a rank last reported something */
    double signaled, over, killed; /* over: a rank reported the end of the job */
    double alive;                  /* when the last heartbeats were sent to agents */
    int workers;                   /* 0: the processes are not connected yet */
    bool training, saving;
    bool output_failed; /* stdout could not be written */
    /* how it ended */
    yk_status status; /* YK_EINTERRUPTED: by a signal, before it trained */
    bool reported;    /* by a process, which has printed the error */
    char error[1024];
    int exit;
} attempt;

/* ---- heartbeats and output ---- */

/* Between the launcher and an agent on another host. */
static double heartbeat_timeout(const attempt *s)
{
    return fmax(3.0, s->job->plan.heartbeat_timeout);
}

/* An agent on this host needs no heartbeats: its channel is closed if the launcher ends. */
static void send_all(const attempt *s, yk_job_frame_kind kind)
{
    for (size_t i = 0; i < s->job->hosts; i++)
        if (s->agent[i].pid && s->agent[i].greeted && (s->agent[i].remote || kind != YK_FRAME_ALIVE))
            yk_channel_send(s->agent[i].channel.out, kind, 0, 0, NULL, 0);
}

static void keep_alive(attempt *s)
{
    const double now = yk_now();
    if (now - s->alive < YK_AGENT_HEARTBEAT)
        return;
    s->alive = now;
    send_all(s, YK_FRAME_ALIVE);
}

/* Agents get heartbeats also while the program that reads the output is slow. */
static bool print(attempt *s, int fd, const char *data, size_t bytes)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    for (size_t n; bytes; data += n, bytes -= n) {
        while (poll(&p, 1, 500) == 0)
            keep_alive(s);
        n = bytes < PIPE_BUF ? bytes : PIPE_BUF; /* does not block now */
        if (!yk_write_all(fd, data, n))
            return false;
    }
    return true;
}

/* ---- the end of a job ---- */

static void end_agent(host_agent *a)
{
    if (!a->pid)
        return;
    yk_channel_fini(&a->channel);
    kill(a->pid, SIGKILL);
    waitpid(a->pid, NULL, 0);
    a->pid = 0;
}

/* An agent kills its ranks, reports that, and ends. */
static void kill_all(attempt *s)
{
    if (s->killed > 0.0)
        return;
    s->killed = yk_now();
    send_all(s, YK_FRAME_KILL);
    for (size_t i = 0; i < s->job->hosts; i++)
        if (!s->agent[i].started)
            end_agent(&s->agent[i]);
}

/* The first failure counts. Exception: ranks may report that they lost another rank before the launcher knows how that one ended. */
__attribute__((format(printf, 3, 4))) static void fail(attempt *s, yk_status status, const char *format, ...)
{
    va_list args;
    const bool cause = s->reported && s->status == YK_ELOST && status == YK_ELOST;
    if ((s->over > 0.0 || s->killed > 0.0) && !cause)
        return;
    s->reported = false;
    va_start(args, format);
    vsnprintf(s->error, sizeof s->error, format, args);
    va_end(args);
    s->status = status;
    kill_all(s);
}

/* ---- hosts ---- */

/* In the child: AGENT HOST 'exec /path/of/yoke agent'. Does not return. */
static void run_ssh(const attempt *s, const host_agent *a, int fd)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGTSTP}; /* the launcher decides */
    const char *agent = s->job->config->agent ? s->job->config->agent : "ssh";
    char path[PATH_MAX] = "";
    yk_arena w = {0};
    yk_text program = {0};
    for (const char *word = agent; *(word += strspn(word, " "));) {
        const int n = (int)strcspn(word, " ");
        yk_arena_print(&w, "%.*s", n, word);
        word += n;
    }
    const bool found = readlink("/proc/self/exe", path, sizeof path - 1) > 0;
    yk_text_shell(&program, path);
    yk_arena_print(&w, "%s", a->host);
    yk_arena_print(&w, "exec %s agent", program.s);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    if (!found || w.status || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        _exit(127);
    execvp(yk_arena_texts(&w)[0], yk_arena_texts(&w));
    const host_agent *first = s->agent;
    while (!first->remote)
        first++;
    while (first != a) /* the reason is the same for all hosts: the first one says it, and ends the job */
        pause();
    fprintf(stderr, "yoke: error: cannot run %s (--agent): %s\n", yk_arena_texts(&w)[0], strerror(errno));
    _exit(127);
}

static const char *this_host(void)
{
    static char name[HOST_NAME_MAX + 1];
    gethostname(name, sizeof name - 1);
    return name;
}

static bool is_this_host(const yk_config *c, const char *name)
{
    return !*name || (!c->agent && (strcmp(name, "localhost") == 0 || strcmp(name, this_host()) == 0));
}

/* In the child, after the fork. The kernel kills it when the launcher dies. */
static void become_agent(const attempt *s, size_t index, pid_t launcher, int fd, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(127);
    for (size_t i = 0; i <= index; i++) /* the launcher's ends */
        if (s->agent[i].pid || i == index)
            close(s->agent[i].channel.in);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (s->agent[index].remote)
        run_ssh(s, &s->agent[index], fd);
    _exit(yk_agent((yk_channel){.in = fd, .out = fd}, false));
}

static yk_status start_agents(attempt *s, const sigset_t *mask)
{
    const pid_t launcher = getpid();
    int rank = 0;
    for (size_t i = 0; i < s->job->hosts; i++) {
        host_agent *a = &s->agent[i];
        const char *name = s->job->host[i].name;
        int fd[2];
        a->remote = !is_this_host(s->job->config, name);
        a->host = a->remote ? name : this_host();
        a->first = rank;
        a->last = (rank += s->job->host[i].processes) - 1;
        a->last_message = yk_now();
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
            return yk_fail(YK_ESYSTEM, "cannot create a socket: %s", strerror(errno));
        a->channel = (yk_channel){.in = fd[0], .out = fd[0]};
        const pid_t pid = fork();
        if (pid == 0)
            become_agent(s, i, launcher, fd[1], mask);
        close(fd[1]);
        if (pid < 0) {
            close(fd[0]);
            return yk_fail(YK_ESYSTEM, "cannot start the agent of host %s: %s", a->host, strerror(errno));
        }
        a->pid = pid;
    }
    return YK_OK;
}

/* The token, and the address of rank 0: "unix:yoke-0-1234-5e6f", or "HOST:0", with a port that the agent of rank 0 chooses.
 * YOKE_SHARED_MEMORY=0 (comm.h): TCP anyway. */
static yk_status choose_master(attempt *s)
{
    const char *host = s->agent[0].host, *at = strrchr(host, '@');
    host = at ? at + 1 : host;
    if (s->job->hosts == 1 && yk_env_number("YOKE_SHARED_MEMORY", 1) == 0)
        snprintf(s->master, sizeof s->master, "127.0.0.1:0");
    else if (s->job->hosts == 1)
        snprintf(s->master, sizeof s->master, "unix:yoke-%u-%d-%llx", (unsigned)getuid(), (int)getpid(),
                 (unsigned long long)yk_now_ns());
    else
        snprintf(s->master, sizeof s->master, strchr(host, ':') ? "[%s]:0" : "%s:0", host);
    return yk_token_create(s->token);
}

static void start_ranks(attempt *s, host_agent *a)
{
    static const char *const names[] = {"YK_RESTARTS", "YK_PROGRESS"}; /* for other hosts */
    char directory[PATH_MAX];
    yk_text t = {0};
    yk_text_print(&t, "%s%c", getcwd(directory, sizeof directory) ? directory : "/", 0);
    yk_text_print(&t, "YOKE_SIZE=%d%cYOKE_TOKEN=%s%cYOKE_MASTER=%s%cYOKE_AGENT_TIMEOUT=%g%c",
                  s->job->plan.processes, 0, s->token, 0, s->master, 0,
                  a->remote ? heartbeat_timeout(s) : 0.0, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            yk_text_print(&t, "%s=%s%c", names[i], getenv(names[i]), 0);
    yk_text_put(&t, "", 1);
    for (char *const *w = yk_arena_texts(&s->job->command); *w; w++)
        yk_text_put(&t, *w, strlen(*w) + 1);
    a->started = true;
    if (t.status)
        fail(s, YK_ESYSTEM, "%s", yk_error());
    else
        yk_channel_send(a->channel.out, YK_FRAME_START, a->first, a->last - a->first + 1, t.s, t.n);
    yk_text_fini(&t);
}

/* The agent of rank 0 starts its ranks first: it chooses the port. */
static void start_greeted(attempt *s)
{
    const size_t n = strlen(s->master);
    const bool known = s->job->hosts == 1 || strcmp(s->master + n - 2, ":0");
    for (size_t i = 0; i < s->job->hosts; i++)
        if (s->agent[i].greeted && !s->agent[i].started && (i == 0 || known) && s->killed == 0.0)
            start_ranks(s, &s->agent[i]);
}

/* ---- what ranks report ---- */

/* Whether the job can go on without this rank. */
static bool is_dispensable(const attempt *s, int rank)
{
    return s->job->plan.survives_loss && rank >= s->job->plan.servers && s->training;
}

/* Ranks have ended, without a report. Server 0 ends the job if no worker is left: others may have joined. */
static void lose_ranks(attempt *s, int first, int last, const char *why)
{
    bool dispensable = true;
    for (int r = first; r <= last; r++) {
        dispensable &= s->ended[r] || is_dispensable(s, r);
        s->ended[r] = true;
    }
    if (!dispensable)
        fail(s, YK_ELOST, "%s", why);
    else if (!*s->error)
        snprintf(s->error, sizeof s->error, "%s", why);
}

static void handle_stage(attempt *s, const yk_job_frame *f)
{
    if (f->value == YK_STAGE_CONNECTED && f->bytes == sizeof s->workers)
        memcpy(&s->workers, f->data, sizeof s->workers);
    s->training |= f->value == YK_STAGE_TRAINING;
    s->saving = f->value == YK_STAGE_SAVING || (s->saving && f->value != YK_STAGE_SAVED);
}

static void handle_end(attempt *s, const yk_job_frame *f)
{
    const bool better = s->reported && !s->workers &&
                        f->rank == 0; /* it knows which ranks are missing; the others only lost rank 0 */
    if ((s->over > 0.0 || s->killed > 0.0) && !better)
        return;
    s->over = yk_now();
    s->status = (yk_status)f->value;
    s->reported = true;
    snprintf(s->error, sizeof s->error, "%s", f->data);
    if (s->status && s->workers)
        kill_all(s);
}

static void handle_exit(attempt *s, const host_agent *a, int rank, int status)
{
    char how[128], text[512];
    s->ended[rank] |= WIFEXITED(status) && (!WEXITSTATUS(status) || s->over > 0.0);
    if (s->ended[rank])
        return;
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    snprintf(text, sizeof text, "the job was lost: rank %d on host %s %s%s", rank, a->host, how,
             s->training ? "" : " before training began");
    lose_ranks(s, rank, rank, text);
}

/* ---- what agents send ---- */

/* "ranks 2, 3", of those that have not ended. */
static int name_ranks(const attempt *s, const host_agent *a, char *out, size_t size)
{
    int n = 0;
    yk_text t = {0};
    for (int r = a->first; r <= a->last; r++)
        if (!s->ended[r])
            yk_text_print(&t, "%s%d", n++ ? ", " : "", r);
    snprintf(out, size, "rank%s %s", n > 1 ? "s" : "", t.s ? t.s : "");
    yk_text_fini(&t);
    return n;
}

/* The agent has ended, or sends no heartbeats. */
static void lose_agent(attempt *s, host_agent *a)
{
    char ranks[300], text[600];
    const int n = name_ranks(s, a, ranks, sizeof ranks);
    const bool greeted = a->greeted;
    end_agent(a);
    if (!n)
        return;
    if (!greeted) {
        fail(s, YK_ESYSTEM,
             "cannot start the job on host %s; check that this command works, without a password: %s %s true "
             "(--hosts, --hostfile, --agent), and that %s has this program at the same path",
             a->host, s->job->config->agent ? s->job->config->agent : "ssh", a->host, a->host);
        return;
    }
    snprintf(text, sizeof text, "the job was lost: %s on host %s %s lost: %s", ranks, a->host,
             n > 1 ? "were" : "was",
             a->remote ? "the host has died, or cannot be reached" : "their agent has ended");
    lose_ranks(s, a->first, a->last, text);
}

/* Skips what the shell on the other host prints before it. False: it has not arrived yet. */
static bool read_greeting(attempt *s, host_agent *a)
{
    static const char greeting[] = YK_AGENT_GREETING;
    const size_t n = sizeof greeting - 1;
    yk_channel *c = &a->channel;
    char *at = memmem(c->data + c->at, c->n - c->at, greeting, n),
         *end = at ? memchr(at, '\n', (size_t)(c->data + c->n - at)) : NULL;
    if (!end)
        return false;
    *end = '\0';
    c->at = (size_t)(end + 1 - c->data);
    a->greeted = true;
    if (strcmp(at + n, yoke_version()))
        fail(s, YK_ESYSTEM,
             "host %s has version %.40s of yoke, but this host has %s; install the same version on all hosts",
             a->host, at + n, yoke_version());
    return true;
}

static void handle_frame(attempt *s, const host_agent *a, const yk_job_frame *f)
{
    const bool of_rank = f->kind >= YK_FRAME_EXITED;
    if (of_rank && (f->rank < a->first || f->rank > a->last))
        return;
    if (of_rank && f->kind != YK_FRAME_EXITED)
        s->last_message = yk_now();
    switch (f->kind) {
    case YK_FRAME_MASTER:
        snprintf(s->master, sizeof s->master, "%s", f->data);
        break;
    case YK_FRAME_OUT:
        s->output_failed |= !print(s, STDOUT_FILENO, f->data, f->bytes);
        break;
    case YK_FRAME_ERR:
        print(s, STDERR_FILENO, f->data, f->bytes);
        break;
    case YK_FRAME_FAILED:
        fail(s, YK_ESYSTEM, "host %s: %s", a->host, f->data);
        break;
    case YK_FRAME_EXITED:
        handle_exit(s, a, f->rank, f->value);
        break;
    case YK_FRAME_STAGE:
        handle_stage(s, f);
        break;
    case YK_FRAME_SIGNALED:
        if (!yk_cli_stop)
            raise(SIGTERM); /* as if the launcher had received it */
        break;
    case YK_FRAME_LOST:
        s->ended[f->rank] = true;
        if (!*s->error)
            snprintf(s->error, sizeof s->error, "%s", f->data);
        break;
    case YK_FRAME_ENDED:
        handle_end(s, f);
        break;
    }
}

static void receive(attempt *s, host_agent *a)
{
    yk_job_frame f;
    const bool open = yk_channel_read(&a->channel);
    a->last_message = yk_now();
    if (a->greeted || read_greeting(s, a))
        while (a->pid && yk_channel_next(&a->channel, &f))
            handle_frame(s, a, &f);
    if (!open && a->pid)
        lose_agent(s, a);
}

/* ---- time ---- */

/* After a signal all ranks save and end. If they do not, they are killed. */
static bool ignores_signal(const attempt *s, double now)
{
    if (s->signaled == 0.0 || (s->training && s->saving))
        return false;
    const double since = s->last_message > s->signaled && s->training ? s->last_message : s->signaled;
    return now - since > (s->training ? s->job->plan.startup_timeout : grace);
}

static void handle_signals(attempt *s, double now)
{
    bool started = true;
    for (size_t i = 0; i < s->job->hosts; i++)
        started &= s->agent[i].started;
    if (yk_cli_stop_again)
        fail(s, YK_ESTOP, "ended by a second signal");
    if (yk_cli_stop && s->signaled == 0.0 && s->over == 0.0) {
        s->signaled = now;
        if (started)
            send_all(s, YK_FRAME_STOP);
        else
            kill_all(s);
    }
    if (ignores_signal(s, now) && s->training)
        fail(s, YK_ELOST, "the job did not end within %.0f s after a signal, and was killed",
             s->job->plan.startup_timeout);
    else if (ignores_signal(s, now))
        kill_all(s);
}

/* Whether an agent has sent nothing for too long. On this host, it is probably only slow. What it sent while the launcher was stopped or
 * could not print counts. */
static bool is_silent(const attempt *s, const host_agent *a, double now)
{
    const double limit = s->job->plan.startup_timeout, timeout = !a->remote   ? fmax(60.0, limit)
                                                                 : a->greeted ? heartbeat_timeout(s)
                                                                              : limit;
    struct pollfd p = {.fd = a->channel.in, .events = POLLIN};
    return now - a->last_message > timeout && poll(&p, 1, 0) == 0;
}

static void check_time(attempt *s)
{
    static const double margin = 5.0;
    const double now = yk_now(), limit = s->job->plan.startup_timeout;
    handle_signals(s, now);
    if (s->over > 0.0 && now - s->over > (s->status ? 0.2 : grace))
        kill_all(s);
    /* ranks end and report the cause when the limit is reached; the margin lets them do that first */
    if (!s->training && now - s->last_message > limit + margin)
        fail(s, YK_ELOST,
             "the job did not start: no heartbeat for %.0f s; if it needs longer to start, raise --deadline "
             "(the "
             "limit is 8 times --deadline, but at least 60 s)",
             limit);
    for (size_t i = 0; i < s->job->hosts; i++) {
        host_agent *a = &s->agent[i];
        const bool late = s->killed > 0.0 && now - s->killed > grace;
        if (a->pid && (is_silent(s, a, now) || (late && a->remote)))
            lose_agent(s, a);
        else if (late) /* on this host, it is only slow */
            end_agent(a);
    }
}

/* ---- the loop ---- */

/* Waits for agents and signals; returns the number of agents. */
static size_t wait_and_receive(attempt *s, const sigset_t *mask)
{
    struct pollfd *p = s->job->ready;
    const bool soon = s->over > 0.0 || s->killed > 0.0 || s->signaled > 0.0;
    const struct timespec time = {.tv_nsec = (long)((soon ? 0.1 : YK_AGENT_HEARTBEAT) * 1e9)};
    size_t n = 0;
    for (size_t i = 0; i < s->job->hosts; i++) {
        p[i] = (struct pollfd){.fd = s->agent[i].pid ? s->agent[i].channel.in : -1, .events = POLLIN};
        n += s->agent[i].pid != 0;
    }
    if (n && ppoll(p, s->job->hosts, &time, mask) > 0)
        for (size_t i = 0; i < s->job->hosts; i++)
            if (p[i].revents && s->agent[i].pid)
                receive(s, &s->agent[i]);
    return n;
}

static void watch(attempt *s, const sigset_t *mask)
{
    s->last_message = yk_now();
    while (wait_and_receive(s, mask)) {
        start_greeted(s);
        keep_alive(s);
        check_time(s);
    }
    if (yk_cli_stop && !s->training && (!s->reported || s->status == YK_ELOST)) /* they lose each other */
        s->status = YK_EINTERRUPTED;
    else if (!s->reported && !s->status) {
        s->status = YK_ELOST;
        if (!*s->error)
            snprintf(s->error, sizeof s->error,
                     "the job ended without an error message; see the output of its processes");
    }
    /* the kernel kills the ranks of an agent that died; they are children of the launcher now */
    yk_wait w = yk_wait_every(0.002, 2.0);
    while (s->status && waitpid(-1, NULL, WNOHANG) >= 0 && yk_wait_poll(&w))
        ;
}

static void supervise(attempt *s)
{
    const sigset_t stop = yk_cli_stop_signals();
    sigset_t before;
    memset(s->agent, 0, s->job->hosts * sizeof *s->agent);
    memset(s->ended, 0, (size_t)s->job->plan.processes * sizeof *s->ended);
    sigprocmask(SIG_BLOCK, &stop, &before); /* delivered while it waits */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    yk_status st = start_agents(s, &before);
    if (!st)
        st = choose_master(s);
    if (st)
        fail(s, st, "%s", yk_error());
    else
        watch(s, &before);
    for (size_t i = 0; i < s->job->hosts; i++)
        end_agent(&s->agent[i]);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- attempts ---- */

/* Sets the exit status and the error of an attempt, and prints the error. `before`: the limits of the control group, in which the
 * kernel may have killed a process. */
static void judge(attempt *s, const yk_limits *before)
{
    yk_limits after;
    s->exit = yk_status_exit(s->status);
    if (s->status == YK_EINTERRUPTED) {
        yk_note("%s", yk_status_text(s->status));
        yk_failure_print(yk_status_text(s->status), 0);
        return;
    }
    if (!s->status && s->output_failed) {
        s->exit = yk_cli_exit(yk_fail(YK_ESYSTEM, "cannot write the results to stdout"));
        snprintf(s->error, sizeof s->error, "%s", yk_error());
    }
    if (s->exit == yk_status_exit(YK_ESYSTEM) && s->training && yk_cli_reader_left())
        s->exit = 128 + SIGPIPE; /* as yk_cli_exit() in rank 0 */
    if (s->status && !s->reported)
        yk_report_error(s->error);
    yk_cgroup_limits("/proc", "/sys", &after);
    if (s->exit && yk_cgroup_killed(before, &after, s->error, sizeof s->error)) {
        yk_report_error(s->error);
        s->exit = yk_status_exit(YK_ESYSTEM);
    }
}

/* Runs the job once. *connected: its processes were connected, in this attempt or before. Returns whether another attempt may
 * succeed. */
static bool try(attempt *s, int64_t number, bool *connected)
{
    const job *j = s->job;
    yk_limits before;
    yk_env_set_number("YK_RESTARTS", (double)number);
    yk_env_set_number("YK_STARTED", number ? yk_now() : yk_cli_started);
    yk_cgroup_limits("/proc", "/sys", &before);
    s->since = (time_t)yk_wall();
    supervise(s);
    judge(s, &before);
    const bool again = s->status == YK_ELOST || (s->reported && s->status == YK_ESTOP) ||
                       /* a host that was lost may come back */
                       (*connected && !s->reported && s->status == YK_ESYSTEM);
    *connected |= s->workers > 0;
    if (s->exit && s->workers && strcmp(j->out, "none")) /* its processes could not write it */
        yk_summary_save_lost(j->config,
                             &(yk_result){.plan = j->plan,
                                          .run_dir = j->out,
                                          .error = s->error,
                                          .status = s->status,
                                          .exit_code = s->exit,
                                          .workers_connected = s->workers},
                             s->since);
    return again;
}

/* ---- the job ---- */

static yk_status prepare(job *j, int argc, char **argv)
{
    const yk_config *c = j->config;
    const int width = yk_log_width();
    int n = 0;
    yk_status st = yk_job_hosts(c, &j->host, &j->hosts);
    for (size_t i = 0; !st && i < j->hosts; i++)
        n += j->host[i].processes;
    /* checks the options before anything is started */
    const yk_topology topology = {.processes = n, .cores = yk_cores_per_process(n)};
    if (st || (st = yk_plan_options(c, &topology, &j->plan)))
        return st;
    j->agent = calloc(j->hosts, sizeof *j->agent);
    j->ready = calloc(j->hosts, sizeof *j->ready);
    j->ended = calloc((size_t)n, sizeof *j->ended);
    if (!j->agent || !j->ready || !j->ended)
        return yk_fail_memory((size_t)n, "the processes of a job");
    if (width < INT_MAX)
        yk_env_set_number("YK_PROGRESS", width + 1); /* on other hosts, stderr is a pipe */
    yk_arena_print(&j->command, "yoke");
    yk_arena_print(&j->command, "train");
    for (int i = 1; i < argc; i++)
        yk_arena_print(&j->command, "%s", argv[i]);
    if (!c->out)
        yk_arena_print(&j->command, "--out=%s", j->out);
    return j->command.status;
}

/* Runs the job, restarts it as --restarts allows, and returns the exit status. */
static int run(job *j)
{
    const int64_t max = j->config->restarts;
    const bool saved = strcmp(j->out, "none") != 0;
    bool connected = false;
    for (int64_t i = 0;; i++) {
        attempt s = {.job = j, .agent = j->agent, .ended = j->ended};
        if (i == 1 && !j->config->resume && saved)
            yk_arena_print(&j->command, "--resume");
        if (i > 1) /* a lost host may need time to come back */
            yk_sleep(i < 10 ? 0.1 * (double)(i * i) : 10.0);
        if (!try(&s, i, &connected) || i >= max || yk_cli_stop) {
            if (s.exit) {
                yk_failure_print_summary(j->out, s.since);
                yk_failure_print(s.error, s.exit);
            }
            return s.exit;
        }
        yk_warn("a process was lost; restarting from the %s (restart %lld of %lld)",
                saved ? "last checkpoint" : "beginning", (long long)(i + 1), (long long)max);
    }
}

int yk_launch(const yk_config *c, int argc, char **argv)
{
    job j = {.config = c};
    yk_status st = yk_run_dir_choose(c->out, c->model, &j.out);
    if (!st)
        st = prepare(&j, argc, argv);
    const int code = st ? yk_cli_exit(st) : run(&j);
    if (code && j.out && !c->out)
        rmdir(j.out); /* created by yk_run_dir_choose(); stays if anything was written */
    yk_arena_free(&j.command);
    free(j.agent);
    free(j.ready);
    free(j.ended);
    free(j.host);
    free(j.out);
    return code;
}
