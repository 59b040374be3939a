#include "cli/supervise.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/wait.h"
#include "cli/agent.h"
#include "cli/cli.h"
#include "comm/token.h"
#include "lib/internal.h"
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
#include <unistd.h>

/* Seconds for processes to end: after rank 0, after SIGKILL, after a signal before training. The timeouts
 * between processes are in the plan. */
static const double grace = 1.0;

/* ---- heartbeats and output ---- */

/* How an agent is started. */
struct yk_agent_ops {
    bool remote; /* the agent is on another host, and forwards the output of its ranks */
    void (*run)(const yk_supervisor *s, const yk_host_agent *a, int fd); /* in the child; does not return */
};

/* Between the launcher and an agent on another host. */
static double heartbeat_timeout(const yk_supervisor *s)
{
    return fmax(3.0, s->plan->heartbeat_timeout);
}

static void keep_alive(yk_supervisor *s)
{
    static const double every = 1.0;
    const double now = yk_now();
    if (now - s->alive < every)
        return;
    s->alive = now;
    for (size_t i = 0; i < s->hosts; i++)
        if (s->agent[i].pid && s->agent[i].ops->remote && s->agent[i].greeted)
            yk_channel_send(s->agent[i].channel.out, &(yk_job_frame){.kind = YK_FRAME_ALIVE});
}

/* Agents get heartbeats also while the program that reads the output is slow. */
static bool print(yk_supervisor *s, int fd, const char *data, size_t bytes)
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

static void send_all(yk_supervisor *s, yk_job_frame_kind kind)
{
    for (size_t i = 0; i < s->hosts; i++)
        if (s->agent[i].pid && s->agent[i].started)
            yk_channel_send(s->agent[i].channel.out, &(yk_job_frame){.kind = kind});
}

static void end_agent(yk_host_agent *a)
{
    if (!a->pid)
        return;
    yk_channel_fini(&a->channel);
    kill(a->pid, SIGKILL);
    waitpid(a->pid, NULL, 0);
    a->pid = 0;
}

/* An agent kills its ranks, reports that, and ends. */
static void kill_all(yk_supervisor *s)
{
    if (s->killed > 0.0)
        return;
    s->killed = yk_now();
    send_all(s, YK_FRAME_KILL);
    for (size_t i = 0; i < s->hosts; i++)
        if (!s->agent[i].started)
            end_agent(&s->agent[i]);
}

/* The first failure counts. Exception: ranks may report that they lost another rank before the launcher knows how that one ended. */
__attribute__((format(printf, 4, 5))) static void fail(yk_supervisor *s, yk_status status, bool lost,
                                                       const char *format, ...)
{
    va_list args;
    const bool cause = s->reported && s->status == YK_ELOST && lost;
    if ((s->over > 0.0 || s->killed > 0.0) && !cause)
        return;
    s->reported = false;
    va_start(args, format);
    vsnprintf(s->error, sizeof s->error, format, args);
    va_end(args);
    s->status = status;
    s->lost = lost;
    kill_all(s);
}

/* ---- hosts ---- */

static void run_fork(const yk_supervisor *s, const yk_host_agent *a, int fd)
{
    (void)s, (void)a;
    _exit(yk_agent((yk_channel){.in = fd, .out = fd}, false));
}

static void add_command(yk_argv *w)
{
    char path[PATH_MAX] = "";
    yk_text t = {0};
    if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0)
        _exit(127);
    for (const char *c = path; *c; c++)
        yk_text_print(&t, *c == '\'' ? "'\\''" : "%c", *c);
    yk_argv_add(w, "exec '%s' agent", t.s);
}

/* AGENT HOST 'exec /path/of/yoke agent' */
static void run_ssh(const yk_supervisor *s, const yk_host_agent *a, int fd)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGTSTP}; /* the launcher decides */
    const char *agent = s->config->agent ? s->config->agent : "ssh";
    yk_argv w = {0};
    for (const char *word = agent; *(word += strspn(word, " "));) {
        const int n = (int)strcspn(word, " ");
        yk_argv_add(&w, "%.*s", n, word);
        word += n;
    }
    yk_argv_add(&w, "%s", a->host);
    add_command(&w);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    if (w.status || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        _exit(127);
    execvp(w.arg[0], w.arg);
    const yk_host_agent *first = s->agent;
    while (!first->ops->remote)
        first++;
    while (first != a) /* the reason is the same for all hosts: the first one says it, and ends the job */
        pause();
    fprintf(stderr, "yoke: error: cannot run %s (--agent): %s\n", w.arg[0], strerror(errno));
    _exit(127);
}

static const yk_agent_ops fork_ops = {false, run_fork}, ssh_ops = {true, run_ssh};

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
static void become_agent(const yk_supervisor *s, size_t index, pid_t launcher, int fd, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(127);
    for (size_t i = 0; i <= index; i++) /* the launcher's ends */
        if (s->agent[i].pid || i == index)
            close(s->agent[i].channel.in);
    sigprocmask(SIG_SETMASK, mask, NULL);
    s->agent[index].ops->run(s, &s->agent[index], fd);
    _exit(127);
}

static yk_status start_agents(yk_supervisor *s, const sigset_t *mask)
{
    const pid_t launcher = getpid();
    int rank = 0;
    for (size_t i = 0; i < s->hosts; i++) {
        yk_host_agent *a = &s->agent[i];
        const char *name = s->host[i].name;
        int fd[2];
        a->ops = is_this_host(s->config, name) ? &fork_ops : &ssh_ops;
        a->host = a->ops->remote ? name : this_host();
        a->first = rank;
        a->last = (rank += s->host[i].processes) - 1;
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

/* "unix:yoke-0-1234-5e6f", or "HOST:0", with a port that the agent of rank 0 chooses. YOKE_SHARED_MEMORY=0 (comm.h): TCP
 * anyway. */
static void choose_master(yk_supervisor *s)
{
    const char *host = s->agent[0].host, *at = strrchr(host, '@');
    host = at ? at + 1 : host;
    if (s->hosts == 1 && yk_env_number("YOKE_SHARED_MEMORY", 1) == 0)
        snprintf(s->master, sizeof s->master, "127.0.0.1:0");
    else if (s->hosts == 1)
        snprintf(s->master, sizeof s->master, "unix:yoke-%u-%d-%llx", (unsigned)getuid(), (int)getpid(),
                 (unsigned long long)yk_now_ns());
    else
        snprintf(s->master, sizeof s->master, strchr(host, ':') ? "[%s]:0" : "%s:0", host);
}

static yk_status choose_token(yk_supervisor *s)
{
    unsigned char token[YK_TOKEN_BYTES];
    const yk_status st = yk_token_create(token);
    if (!st)
        yk_token_print(token, s->token);
    choose_master(s);
    return st;
}

static void start_ranks(yk_supervisor *s, yk_host_agent *a)
{
    static const char *const names[] = {"YK_RESTARTS", "YK_PROGRESS"}; /* for other hosts */
    char directory[PATH_MAX];
    yk_text t = {0};
    yk_text_print(&t, "%s%c", getcwd(directory, sizeof directory) ? directory : "/", 0);
    yk_text_print(&t, "YOKE_SIZE=%d%cYOKE_TOKEN=%s%cYOKE_MASTER=%s%cYOKE_AGENT_TIMEOUT=%g%c",
                  s->plan->processes, 0, s->token, 0, s->master, 0,
                  a->ops->remote ? heartbeat_timeout(s) : 0.0, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            yk_text_print(&t, "%s=%s%c", names[i], getenv(names[i]), 0);
    yk_text_put(&t, "", 1);
    for (char *const *w = s->argv; *w; w++)
        yk_text_put(&t, *w, strlen(*w) + 1);
    a->started = true;
    if (t.status)
        fail(s, YK_ESYSTEM, false, "%s", yk_error());
    else
        yk_channel_send(a->channel.out, &(yk_job_frame){YK_FRAME_START, a->first, a->last - a->first + 1,
                                                        (uint32_t)t.n, t.s});
    yk_text_fini(&t);
}

/* The agent of rank 0 starts its ranks first: it chooses the port. */
static void start_greeted(yk_supervisor *s)
{
    const size_t n = strlen(s->master);
    const bool known = s->hosts == 1 || strcmp(s->master + n - 2, ":0");
    for (size_t i = 0; i < s->hosts; i++)
        if (s->agent[i].greeted && !s->agent[i].started && (i == 0 || known) && s->killed == 0.0)
            start_ranks(s, &s->agent[i]);
}

/* ---- what ranks report ---- */

/* Whether the job can go on without this rank. */
static bool is_dispensable(const yk_supervisor *s, int rank)
{
    return s->plan->survives_loss && rank >= s->plan->servers && s->training;
}

/* Server 0 ends the job if no worker is left: others may have joined. */
static void lose_rank(yk_supervisor *s, int rank, const char *why)
{
    s->rank[rank] = YK_RANK_LOST;
    if (!*s->error)
        snprintf(s->error, sizeof s->error, "%s", why);
}

static void handle_stage(yk_supervisor *s, const yk_job_frame *f)
{
    if (f->value == YK_STAGE_CONNECTED && f->bytes == sizeof s->workers) {
        s->connected = true;
        memcpy(&s->workers, f->data, sizeof s->workers);
    }
    s->training |= f->value == YK_STAGE_TRAINING;
    s->saving = f->value == YK_STAGE_SAVING || (s->saving && f->value != YK_STAGE_SAVED);
}

static void handle_end(yk_supervisor *s, const yk_job_frame *f)
{
    const bool better = s->reported && !s->connected &&
                        f->rank == 0; /* it knows which ranks are missing; the others only lost rank 0 */
    if ((s->over > 0.0 || s->killed > 0.0) && !better)
        return;
    s->over = yk_now();
    s->status = (yk_status)f->value;
    s->reported = true;
    snprintf(s->error, sizeof s->error, "%s", f->data);
    if (s->status && s->connected)
        kill_all(s);
}

static void handle_exit(yk_supervisor *s, const yk_host_agent *a, int rank, int status)
{
    char how[128], text[512];
    if (s->rank[rank] == YK_RANK_ENDED)
        return;
    const yk_rank_state before = s->rank[rank];
    s->rank[rank] = YK_RANK_ENDED;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || before == YK_RANK_LOST || s->over > 0.0))
        return;
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    snprintf(text, sizeof text, "the job was lost: rank %d on host %s %s%s", rank, a->host, how,
             s->training ? "" : " before training began");
    if (is_dispensable(s, rank)) {
        lose_rank(s, rank, text);
        s->rank[rank] = YK_RANK_ENDED;
    } else {
        fail(s, YK_ELOST, true, "%s", text);
    }
}

/* ---- what agents send ---- */

/* "ranks 2, 3", of those that have not ended. */
static int name_ranks(const yk_supervisor *s, const yk_host_agent *a, char *out, size_t size)
{
    int n = 0;
    yk_text t = {0};
    for (int r = a->first; r <= a->last; r++)
        if (s->rank[r] != YK_RANK_ENDED)
            yk_text_print(&t, "%s%d", n++ ? ", " : "", r);
    snprintf(out, size, "rank%s %s", n > 1 ? "s" : "", t.s ? t.s : "");
    yk_text_fini(&t);
    return n;
}

/* The agent has ended, or sends no heartbeats. */
static void lose_agent(yk_supervisor *s, yk_host_agent *a)
{
    char ranks[300], text[600];
    bool dispensable = true;
    const int n = name_ranks(s, a, ranks, sizeof ranks);
    const bool greeted = a->greeted;
    end_agent(a);
    if (!n)
        return;
    if (!greeted) {
        fail(s, YK_ESYSTEM, false,
             "cannot start the job on host %s; check that this command works, without a password: %s %s true "
             "(--hosts, --hostfile, --agent), and that %s has this program at the same path",
             a->host, s->config->agent ? s->config->agent : "ssh", a->host, a->host);
        return;
    }
    snprintf(text, sizeof text, "the job was lost: %s on host %s %s lost: %s", ranks, a->host,
             n > 1 ? "were" : "was",
             a->ops->remote ? "the host has died, or cannot be reached" : "their agent has ended");
    for (int r = a->first; r <= a->last; r++) {
        if (s->rank[r] == YK_RANK_ENDED)
            continue;
        dispensable &= is_dispensable(s, r);
        lose_rank(s, r, text);
        s->rank[r] = YK_RANK_ENDED;
    }
    if (!dispensable)
        fail(s, YK_ELOST, true, "%s", text);
}

/* Skips what the shell on the other host prints before it. False: it has not arrived yet. */
static bool read_greeting(yk_supervisor *s, yk_host_agent *a)
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
        fail(s, YK_ESYSTEM, false,
             "host %s has version %.40s of yoke, but this host has %s; install the same version on all hosts",
             a->host, at + n, yoke_version());
    return true;
}

static void handle_rank(yk_supervisor *s, const yk_host_agent *a, const yk_job_frame *f)
{
    if (f->rank < a->first || f->rank > a->last)
        return;
    if (f->kind != YK_FRAME_EXITED)
        s->last_message = yk_now();
    if (f->kind == YK_FRAME_STAGE)
        handle_stage(s, f);
    else if (f->kind == YK_FRAME_LOST)
        lose_rank(s, f->rank, f->data);
    else if (f->kind == YK_FRAME_ENDED)
        handle_end(s, f);
    else if (f->kind == YK_FRAME_EXITED)
        handle_exit(s, a, f->rank, f->value);
    else if (f->kind == YK_FRAME_SIGNALED && !yk_cli_stop)
        raise(SIGTERM); /* as if the launcher had received it */
}

static void handle_frame(yk_supervisor *s, const yk_host_agent *a, const yk_job_frame *f)
{
    switch (f->kind) {
    case YK_FRAME_ALIVE:
        break;
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
        fail(s, YK_ESYSTEM, false, "host %s: %s", a->host, f->data);
        break;
    default:
        handle_rank(s, a, f);
    }
}

static void receive(yk_supervisor *s, yk_host_agent *a)
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
static bool ignores_signal(const yk_supervisor *s, double now)
{
    if (s->signaled == 0.0 || (s->training && s->saving))
        return false;
    const double since = s->last_message > s->signaled && s->training ? s->last_message : s->signaled;
    return now - since > (s->training ? s->plan->startup_timeout : grace);
}

static void handle_signals(yk_supervisor *s, double now)
{
    bool started = true;
    for (size_t i = 0; i < s->hosts; i++)
        started &= s->agent[i].started;
    if (yk_cli_stop_again)
        fail(s, YK_ESTOP, false, "ended by a second signal");
    if (yk_cli_stop && s->signaled == 0.0 && s->over == 0.0) {
        s->signaled = now;
        if (started)
            send_all(s, YK_FRAME_STOP);
        else
            kill_all(s);
    }
    if (ignores_signal(s, now) && s->training)
        fail(s, YK_ELOST, false, "the job did not end within %.0f s after a signal, and was killed",
             s->plan->startup_timeout);
    else if (ignores_signal(s, now))
        kill_all(s);
}

/* Whether an agent has sent nothing for too long. What it sent while the launcher was stopped or could not print counts. */
static bool is_silent(const yk_supervisor *s, const yk_host_agent *a, double now)
{
    /* the death of an agent on this host closes its channel; a live one may be slow on a busy host */
    const double limit = s->plan->startup_timeout, timeout = !a->ops->remote ? fmax(60.0, limit)
                                                             : a->greeted    ? heartbeat_timeout(s)
                                                                             : limit;
    struct pollfd p = {.fd = a->channel.in, .events = POLLIN};
    return now - a->last_message > timeout && poll(&p, 1, 0) == 0;
}

static void check_time(yk_supervisor *s)
{
    static const double margin = 5.0;
    const double now = yk_now(), limit = s->plan->startup_timeout;
    handle_signals(s, now);
    if (s->over > 0.0 && now - s->over > (s->status ? 0.2 : grace))
        kill_all(s);
    /* ranks end and report the cause when the limit is reached; the margin lets them do that first */
    if (!s->training && now - s->last_message > limit + margin)
        fail(s, YK_ELOST, true,
             "the job did not start: no heartbeat for %.0f s; if it needs longer to start, raise --deadline "
             "(the "
             "limit is 8 times --deadline, but at least 60 s)",
             limit);
    for (size_t i = 0; i < s->hosts; i++) {
        yk_host_agent *a = &s->agent[i];
        const bool late = s->killed > 0.0 && now - s->killed > grace;
        if (a->pid && (is_silent(s, a, now) || (late && a->ops->remote)))
            lose_agent(s, a);
        else if (late) /* on this host, it is only slow */
            end_agent(a);
    }
}

/* ---- the loop ---- */

/* Waits for agents and signals; returns the number of agents. */
static size_t wait_and_receive(yk_supervisor *s, struct pollfd *p, const sigset_t *mask)
{
    const bool soon = s->over > 0.0 || s->killed > 0.0 || s->signaled > 0.0;
    const struct timespec time = {.tv_sec = !soon, .tv_nsec = soon ? 100000000 : 0};
    size_t n = 0;
    for (size_t i = 0; i < s->hosts; i++) {
        p[i] = (struct pollfd){.fd = s->agent[i].pid ? s->agent[i].channel.in : -1, .events = POLLIN};
        n += s->agent[i].pid != 0;
    }
    if (n && ppoll(p, s->hosts, &time, mask) > 0)
        for (size_t i = 0; i < s->hosts; i++)
            if (p[i].revents && s->agent[i].pid)
                receive(s, &s->agent[i]);
    return n;
}

static void watch(yk_supervisor *s, struct pollfd *p, const sigset_t *mask)
{
    s->last_message = yk_now();
    while (wait_and_receive(s, p, mask)) {
        start_greeted(s);
        keep_alive(s);
        check_time(s);
    }
    if (yk_cli_stop && !s->training && (!s->reported || s->status == YK_ELOST)) /* they lose each other */
        s->status = YK_EINTERRUPTED;
    else if (!s->reported && !s->status) {
        s->status = YK_ELOST;
        s->lost = true;
        if (!*s->error)
            snprintf(s->error, sizeof s->error,
                     "the job ended without an error message; see the output of its processes");
    }
    /* the kernel kills the ranks of an agent that died; they are children of the launcher now */
    yk_wait w = yk_wait_every(0.002, 2.0);
    while (s->status && waitpid(-1, NULL, WNOHANG) >= 0 && yk_wait_poll(&w))
        ;
}

void yk_supervise(yk_supervisor *s)
{
    const sigset_t stop = yk_cli_stop_signals();
    sigset_t before;
    struct pollfd *p = calloc(s->hosts, sizeof *p);
    s->agent = calloc(s->hosts, sizeof *s->agent);
    s->rank = calloc((size_t)s->plan->processes, sizeof *s->rank);
    sigprocmask(SIG_BLOCK, &stop, &before); /* delivered while it waits */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    s->hosts = p && s->agent && s->rank ? s->hosts : 0;
    yk_status st = s->hosts ? start_agents(s, &before)
                            : yk_fail_memory((size_t)s->plan->processes, "the processes of a job");
    if (!st)
        st = choose_token(s);
    if (st)
        fail(s, st, false, "%s", yk_error());
    else
        watch(s, p, &before);
    for (size_t i = 0; i < s->hosts; i++)
        end_agent(&s->agent[i]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(p);
}

void yk_supervisor_fini(yk_supervisor *s)
{
    free(s->agent);
    free(s->rank);
    s->agent = NULL;
    s->rank = NULL;
}
