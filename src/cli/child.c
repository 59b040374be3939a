#include "cli/child.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 250, READ_BYTES = 1 << 16, MAX_TEXT = 64 << 20 };

static volatile pid_t running; /* 0: none */

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    yk_cli_stop = signal;
    /* The kernel sends Ctrl-C to the child as well. A second signal would end it without saving. */
    if (running > 0 && info->si_code != SI_KERNEL)
        kill(running, signal);
    errno = saved;
}

void yk_child_catch_signals(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* In the child, after the fork: only async-signal-safe calls. */
static void exec_self(const char *const *argv, int out, int log, pid_t parent, const sigset_t *mask)
{
    int null = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        _exit(127);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv("/proc/self/exe", (char *const *)argv);
    _exit(127);
}

static yk_status start(const char *const *argv, int out, int log)
{
    sigset_t block, before;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, &before); /* no signal between fork() and setting `running` */
    yk_status st = YK_OK;
    pid_t parent = getpid(), pid = yk_cli_stop ? 0 : fork();
    if (yk_cli_stop)
        st = yk_fail(YK_ESTOP, "stopped by a signal");
    else if (pid < 0)
        st = yk_fail(YK_ESYSTEM, "cannot start a child process: %s", strerror(errno));
    else if (pid == 0)
        exec_self(argv, out, log, parent, &before);
    running = pid > 0 ? pid : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return st;
}

/* Appends available output to the text. *open_out: whether more may follow. */
static yk_status read_some(int fd, yk_child *c, bool *open_out)
{
    if (YK_RESERVE(c->text, c->cap, c->size + READ_BYTES + 1, "the output of a run"))
        return YK_ESYSTEM;
    ssize_t n = read(fd, c->text + c->size, READ_BYTES);
    *open_out = n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n > 0 && c->size < MAX_TEXT) /* longer output is not a result: it is read and discarded */
        c->size += (size_t)n;
    c->text[c->size] = '\0';
    return YK_OK;
}

/* Waits until the child has closed stdout or has ended: a process that it started may keep stdout open. */
static yk_status follow(int fd, void (*tick)(void *), void *context, yk_child *c, int *wait_out)
{
    bool open = true, ended = false;
    yk_status st = YK_OK;
    while (!st && open && !ended) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, TICK_MS);
        if (ready > 0)
            st = read_some(fd, c, &open);
        else if (ready == 0)
            ended = waitpid(running, wait_out, WNOHANG) == running;
        if (tick)
            tick(context);
    }
    for (struct pollfd p = {.fd = fd, .events = POLLIN}; !st && open && poll(&p, 1, 0) > 0;)
        st = read_some(fd, c, &open);
    if (st)
        kill(running, SIGTERM);
    while (!ended)
        ended = waitpid(running, wait_out, 0) == running || errno != EINTR;
    return st;
}

yk_status yk_child_run(const char *const *argv, const char *dir, const char *log, bool append,
                       void (*tick)(void *), void *context, yk_child *out)
{
    *out = (yk_child){0};
    const double start_time = yk_now();
    int ends[2], status = 0;
    int file = yk_open_in(dir, log, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC));
    if (file < 0)
        return yk_fail_in(dir, log, "cannot write", errno);
    if (pipe2(ends, O_CLOEXEC)) {
        close(file);
        return yk_fail(YK_ESYSTEM, "cannot create a pipe: %s", strerror(errno));
    }
    yk_limits before, after;
    yk_cgroup_limits("/proc", "/sys", &before);
    yk_status st = start(argv, ends[1], file);
    close(ends[1]);
    close(file);
    if (!st)
        st = follow(ends[0], tick, context, out, &status);
    running = 0;
    close(ends[0]);
    out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    out->seconds = yk_now() - start_time;
    yk_cgroup_limits("/proc", "/sys", &after);
    if (WIFSIGNALED(status))
        yk_cgroup_killed(&before, &after, out->killed, sizeof out->killed);
    if (!st && !out->text && !(out->text = strdup("")))
        st = yk_fail_memory(1, "the output of a run");
    return st;
}

void yk_child_fini(yk_child *c)
{
    free(c->text);
    *c = (yk_child){0};
}

/* Replaces each sequence of white space with one blank. */
static void flatten(char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++)
        if (!strchr(" \t\r\n", *p))
            *out++ = *p;
        else if (out > text && out[-1] != ' ')
            *out++ = ' ';
    while (out > text && out[-1] == ' ')
        out--;
    *out = '\0';
}

/* The member `error` of the last line of stdout; NULL: none. The caller frees it. */
static char *error_in_json(const yk_child *c)
{
    size_t n = c->size;
    while (n > 0 && c->text[n - 1] == '\n')
        n--;
    const char *newline = n ? memrchr(c->text, '\n', n) : NULL, *line = newline ? newline + 1 : c->text;
    json_t *all = n ? json_loadb(line, (size_t)(c->text + n - line), 0, NULL) : NULL;
    const char *error = json_string_value(json_object_get(all, "error"));
    char *copy = error && *error ? strdup(error) : NULL;
    json_decref(all);
    return copy;
}

static bool is_disk_full(const char *path)
{
    struct statvfs s;
    return statvfs(path, &s) == 0 && s.f_bavail == 0;
}

char *yk_child_last_error(const yk_child *c, const char *log)
{
    enum { LAST_BYTES = 4096 };
    static const char mark[] = "yoke: error: ";
    FILE *f = fopen(log, "re");
    char *text = calloc(1, LAST_BYTES + 1);
    if (f && text) {
        if (fseek(f, -LAST_BYTES, SEEK_END))
            rewind(f); /* the file is shorter */
        text[fread(text, 1, LAST_BYTES, f)] = '\0';
    }
    if (f)
        fclose(f);
    if (!text)
        return NULL;
    char *at = NULL;
    for (char *p = text; (p = strstr(p, mark)); p++)
        at = p + strlen(mark);
    char *said = at ? NULL : error_in_json(c);
    if (said) {
        free(text);
        text = said;
    } else if (!at) { /* no error: the last line */
        size_t n = strlen(text);
        while (n > 0 && text[n - 1] == '\n')
            text[--n] = '\0';
        at = strrchr(text, '\n');
    }
    if (at)
        memmove(text, at, strlen(at) + 1);
    flatten(text);
    if (*text)
        return text;
    free(text);
    return strdup(is_disk_full(log) ? "the disk is full, and the log is empty" : "no error message");
}
