/* Messages between the launcher of a job and its agents (agent.h), over a socket, or over stdin and stdout of the remote shell.
 *
 *     0          4          8          12
 *     | kind     | rank     | bytes    | payload | 0 |
 *
 * Example:
 *     yk_channel c = {.in = fd, .out = fd};
 *     yk_channel_send(&c, YK_FRAME_STOP, 0, NULL, 0);
 *     yk_job_frame f;
 *     for (bool open = yk_channel_read(&c); yk_channel_next(&c, &f);) // when poll() says that there is something to read
 *         handle(f.kind, f.data, f.bytes);
 *
 * Both ends run the same version of the program on hosts with the same byte order: an agent first sends its version
 * (YK_AGENT_GREETING). One thread at a time.
 */
#ifndef YK_CLI_CHANNEL_H
#define YK_CLI_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    YK_FRAME_ALIVE, /* a heartbeat, both ways, once a second */
    /* to an agent */
    YK_FRAME_START, /* strings that end with zeros (agent.h) */
    YK_FRAME_STOP,  /* SIGTERM to its ranks: they save and end */
    YK_FRAME_KILL,  /* SIGKILL */
    /* to the launcher */
    YK_FRAME_MASTER, /* the address at which rank 0 listens, with the port */
    YK_FRAME_STATUS, /* bytes of the lines that ranks report (job_status.h) */
    YK_FRAME_OUT,    /* bytes of their stdout, and of their stderr */
    YK_FRAME_ERR,
    YK_FRAME_EXITED, /* a rank has ended; int32_t: its status, as from waitpid(); 0 after YK_FRAME_KILL */
    YK_FRAME_FAILED, /* text: why the agent cannot start its ranks */
} yk_job_frame_kind;

typedef struct {
    uint32_t kind;
    int32_t rank;
    uint32_t bytes;
    const char *data; /* [bytes], then a zero; until the next call */
} yk_job_frame;

typedef struct {
    int in, out;
    char *data; /* owned: bytes that were read, but not returned yet */
    size_t at, n, cap;
} yk_channel;

bool yk_channel_read(yk_channel *c); /* reads once; false: the other end has closed it, or it failed */
bool yk_channel_next(yk_channel *c, yk_job_frame *out);
bool yk_channel_send(yk_channel *c, yk_job_frame_kind kind, int rank, const void *data, size_t bytes);
void yk_channel_fini(yk_channel *c); /* also closes it */

bool yk_write_all(int fd, const void *data, size_t bytes);

#endif
