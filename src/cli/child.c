#include "cli/child.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "lib/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Waits until the child has ended, and passes on the first and the second signal; returns its wait status. */
static int follow(pid_t pid, const sigset_t *mask, void (*tick)(void *), void *context)
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
        if (tick)
            tick(context);
    }
    if (ended.fd >= 0)
        close(ended.fd);
    return status;
}

/* ---- why a child failed ---- */

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

yk_status yk_child_run(char *const *argv, const char *dir, const char *log, bool append, void (*tick)(void *),
                       void *context, yk_child *out)
{
    *out = (yk_child){0};
    const double start_time = yk_now();
    const int file = yk_open_in(dir, log, O_RDWR | O_CREAT | (append ? O_APPEND : O_TRUNC));
    if (file < 0)
        return yk_fail_in(dir, log, "cannot write", errno);
    const sigset_t stop = yk_cli_stop_signals();
    sigset_t mask;
    pid_t pid;
    FILE *results = NULL;
    yk_limits before, after;
    yk_cgroup_limits("/proc", "/sys", &before);
    sigprocmask(SIG_BLOCK, &stop, &mask); /* delivered while it waits */
    const yk_status st = yk_cli_stop ? yk_fail(YK_ESTOP, "stopped by a signal")
                                     : yk_child_start("/proc/self/exe", argv, file, &results, &pid);
    if (!st) {
        const int status = follow(pid, &mask, tick, context);
        out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        out->seconds = yk_now() - start_time;
        yk_cgroup_limits("/proc", "/sys", &after);
        if (!WIFSIGNALED(status) || !yk_cgroup_killed(&before, &after, out->error, sizeof out->error))
            explain(file, results, out->error, sizeof out->error);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (results)
        fclose(results);
    close(file);
    return st;
}
