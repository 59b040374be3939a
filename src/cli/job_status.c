#include "cli/job_status.h"

#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int pipe_fd = -1, rank;
static char stop_line[32];

void yk_job_status_open(void)
{
    pipe_fd = (int)yk_env_number("YOKE_STATUS_FD", -1);
    rank = (int)yk_env_number("YOKE_RANK", 0);
    unsetenv("YOKE_STATUS_FD");
    if (pipe_fd >= 0 && fcntl(pipe_fd, F_SETFD, FD_CLOEXEC))
        pipe_fd = -1;
    snprintf(stop_line, sizeof stop_line, "%d stop\n", rank);
}

bool yk_job_has_launcher(void)
{
    return pipe_fd >= 0;
}

/* One line with one write(): other processes write at the same time. */
__attribute__((format(printf, 1, 2))) static void send_line(const char *format, ...)
{
    char text[1200];
    va_list args;
    if (pipe_fd < 0)
        return;
    int n = snprintf(text, sizeof text, "%d ", rank);
    va_start(args, format);
    n += vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    n = n < (int)sizeof text - 2 ? n : (int)sizeof text - 2;
    for (char *at = text; (at = memchr(at, '\n', (size_t)(text + n - at)));)
        *at = ' ';
    text[n++] = '\n';
    if (write(pipe_fd, text, (size_t)n) < 0)
        return; /* the agent has died: there is no one to report to */
}

void yk_job_report_stage(yk_train_stage stage, int workers)
{
    static const char *const name[] = {[YK_STAGE_ALIVE] = "alive",
                                       [YK_STAGE_CONNECTED] = "connected",
                                       [YK_STAGE_TRAINING] = "training",
                                       [YK_STAGE_SAVING] = "saving",
                                       [YK_STAGE_SAVED] = "saved"};
    send_line("%s %d", name[stage], workers);
}

void yk_job_report_stop(void)
{
    const int error = errno;
    if (pipe_fd >= 0 && write(pipe_fd, stop_line, strlen(stop_line)) < 0)
        pipe_fd = -1;
    errno = error;
}

static const char *text_of(yk_status status)
{
    return !status ? "" : *yk_error() ? yk_error() : yk_status_text(status);
}

void yk_job_report_lost(void)
{
    send_line("lost %s", text_of(YK_ELOST));
}

void yk_job_report_outcome(yk_status status)
{
    send_line("ended %d %s", (int)status, text_of(status));
}
