/* Messages between the launcher of a job, its agents (agent.c) and its ranks, over a socket, or over stdin and stdout of
 * the remote shell. Ranks write to the channel of their agent, YOKE_STATUS_FD in the environment: a message of up to PIPE_BUF bytes
 * is one write().
 *
 *     0          4          8          12         16
 *     | kind     | rank     | value    | bytes    | data | 0 |
 *
 * Example:
 *     yk_channel c = {.in = fd, .out = fd};
 *     yk_channel_send(c.out, YK_FRAME_STOP, 0, 0, NULL, 0);
 *     yk_job_frame f;
 *     for (bool open = yk_channel_read(&c); yk_channel_next(&c, &f);) // when poll() says that there is something to read
 *         handle(f.kind, f.data, f.bytes);
 *
 * Both ends run the same version of the program on hosts with the same byte order: an agent first sends its version
 * (YK_AGENT_GREETING). One thread at a time reads; any thread, and a signal handler, may send.
 */
#ifndef YK_CLI_CHANNEL_H
#define YK_CLI_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    YK_FRAME_ALIVE, /* a heartbeat, both ways, once a second */
    /* to an agent */
    YK_FRAME_START, /* rank: the first one; value: their number; data: zero-terminated strings (agent.c) */
    YK_FRAME_STOP,  /* SIGTERM to its ranks: they save and end */
    YK_FRAME_KILL,  /* SIGKILL */
    /* from an agent */
    YK_FRAME_MASTER, /* the address at which rank 0 listens, with the port */
    YK_FRAME_OUT,    /* bytes of the stdout of its ranks, and of their stderr */
    YK_FRAME_ERR,
    YK_FRAME_FAILED, /* text: why the agent cannot start its ranks */
    YK_FRAME_EXITED, /* a rank has ended; value: its status, as from waitpid(); 0 after YK_FRAME_KILL */
    /* from a rank */
    YK_FRAME_STAGE,    /* value: the stage (train/train.h); data: an int, the number of workers */
    YK_FRAME_SIGNALED, /* it has received SIGTERM, SIGINT or SIGHUP */
    YK_FRAME_LOST,  /* a worker ends because it lost its peers; the job can continue without it; text: why */
    YK_FRAME_ENDED, /* the job has ended; value: its status (base/status.h); text: its error */
} yk_job_frame_kind;

typedef struct {
    uint32_t kind;
    int32_t rank, value;
    uint32_t bytes;
    const char *data; /* [bytes]; if received: with a zero after it, valid until the next call */
} yk_job_frame;

typedef struct {
    int in, out;
    char *data; /* owned: bytes that were read, but not returned yet */
    size_t at, n, cap;
} yk_channel;

bool yk_channel_read(yk_channel *c); /* reads once; false: the other end has closed it, or it failed */
bool yk_channel_next(yk_channel *c, yk_job_frame *out);
/* Waits until it is sent; false: nobody reads it. */
bool yk_channel_send(int fd, yk_job_frame_kind kind, int rank, int value, const void *data, size_t bytes);
void yk_channel_fini(yk_channel *c); /* also closes it */

/* A rank opens the channel at the start of main(). Without a launcher, nothing is reported. Any thread, and a signal handler, may
 * report. */
void yk_job_status_open(void);
bool yk_job_has_launcher(void); /* yoke's own; not mpirun, srun or torchrun */
void yk_job_report(yk_job_frame_kind kind, int value, const void *data, size_t bytes);

/* An agent runs until its ranks have ended, and returns its exit status. forwards: it sends the output of its ranks to the launcher;
 * otherwise they inherit stdout and stderr. */
int yk_agent(yk_channel channel, bool forwards);
#define YK_AGENT_GREETING  "\001yoke agent "
#define YK_AGENT_HEARTBEAT 0.5 /* seconds; a sixth of the shortest timeout: hosts may be busy */

bool yk_write_all(int fd, const void *data, size_t bytes);

#endif
