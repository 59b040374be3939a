#include "cli/channel.h"

#include "base/mem.h"
#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER = 16, MAX_FRAME = 1 << 24 };

bool yk_write_all(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(fd, (const char *)data + done, bytes - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool yk_channel_read(yk_channel *c)
{
    enum { SPACE = 65536 };
    c->n -= c->at;
    if (c->at)
        memmove(c->data, c->data + c->at, c->n);
    c->at = 0;
    if (c->n > 2 * MAX_FRAME || YK_RESERVE(c->data, c->cap, c->n + SPACE, "messages of an agent"))
        return false;
    const ssize_t n = read(c->in, c->data + c->n, c->cap - c->n - 1);
    c->n += n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && errno == EINTR);
}

bool yk_channel_next(yk_channel *c, yk_job_frame *out)
{
    if (c->n - c->at < HEADER)
        return false;
    memcpy(out, c->data + c->at, HEADER);
    if (c->n - c->at - HEADER < (size_t)out->bytes + 1)
        return false;
    out->data = c->data + c->at + HEADER;
    c->at += HEADER + out->bytes + 1;
    return true;
}

bool yk_channel_send(int fd, yk_job_frame_kind kind, int rank, int value, const void *data, size_t bytes)
{
    const yk_job_frame header = {kind, rank, value, (uint32_t)bytes, NULL};
    char all[PIPE_BUF];
    if (HEADER + bytes + 1 > sizeof all) /* to an agent: only the launcher writes to it */
        return yk_write_all(fd, &header, HEADER) && yk_write_all(fd, data, bytes) && yk_write_all(fd, "", 1);
    memcpy(all, &header, HEADER);
    if (bytes)
        memcpy(all + HEADER, data, bytes);
    all[HEADER + bytes] = '\0';
    return yk_write_all(fd, all, HEADER + bytes + 1);
}

void yk_channel_fini(yk_channel *c)
{
    free(c->data);
    close(c->in);
    if (c->out != c->in)
        close(c->out);
    *c = (yk_channel){.in = -1, .out = -1};
}

/* ---- a rank ---- */

static int status_fd = -1, own_rank;

void yk_job_status_open(void)
{
    status_fd = (int)yk_env_number("YOKE_STATUS_FD", -1);
    own_rank = (int)yk_env_number("YOKE_RANK", 0);
    unsetenv("YOKE_STATUS_FD");
    if (status_fd >= 0 && fcntl(status_fd, F_SETFD, FD_CLOEXEC))
        status_fd = -1;
}

bool yk_job_has_launcher(void)
{
    return status_fd >= 0;
}

/* If the agent has died, there is nobody to report to. */
void yk_job_report(yk_job_frame_kind kind, int value, const void *data, size_t bytes)
{
    if (status_fd >= 0)
        yk_channel_send(status_fd, kind, own_rank, value, data, bytes);
}
