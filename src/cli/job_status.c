#include "cli/job_status.h"

#include "base/number.h"
#include "cli/channel.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int channel_fd = -1, rank;

void yk_job_status_open(void)
{
    channel_fd = (int)yk_env_number("YOKE_STATUS_FD", -1);
    rank = (int)yk_env_number("YOKE_RANK", 0);
    unsetenv("YOKE_STATUS_FD");
    if (channel_fd >= 0 && fcntl(channel_fd, F_SETFD, FD_CLOEXEC))
        channel_fd = -1;
}

bool yk_job_has_launcher(void)
{
    return channel_fd >= 0;
}

/* If the agent has died, there is nobody to report to. */
static void send(yk_job_frame_kind kind, int value, const void *data, size_t bytes)
{
    if (channel_fd >= 0)
        yk_channel_send(channel_fd, &(yk_job_frame){kind, rank, value, (uint32_t)bytes, data});
}

static void send_error(yk_job_frame_kind kind, yk_status status)
{
    enum { MAX = 1024 }; /* one write(): other processes write at the same time */
    const char *text = !status ? "" : *yk_error() ? yk_error() : yk_status_text(status);
    send(kind, (int)status, text, strnlen(text, MAX));
}

void yk_job_report_stage(yk_train_stage stage, int workers)
{
    send(YK_FRAME_STAGE, (int)stage, &workers, sizeof workers);
}

void yk_job_report_stop(void)
{
    const int error = errno;
    send(YK_FRAME_SIGNALED, 0, NULL, 0);
    errno = error;
}

void yk_job_report_lost(void)
{
    send_error(YK_FRAME_LOST, YK_ELOST);
}

void yk_job_report_outcome(yk_status status)
{
    send_error(YK_FRAME_ENDED, status);
}
