/* An agent starts the ranks of a job on one host and watches them for the launcher (launch.c).
 *
 *     launcher --fork--> agent --exec--> ranks 0 .. 3               --launch 4
 *     launcher --ssh b--> yoke agent --exec--> ranks 1 .. 2         --hosts a,b:2
 *
 * Example:
 *     yk_text t = {0};
 *     yk_agent_job job = {.directory = "/home/x", .last = 3, .timeout = 60.0};
 *     yk_agent_job_write(&job, &t);                        // the payload of YK_FRAME_START
 *     const int code = yk_agent((yk_channel){.in = fd, .out = fd}, false); // in the agent: runs until its ranks have ended
 *
 * The agent that starts rank 0 opens the socket at which rank 0 listens, so that the others need not wait for it. YOKE_MASTER in
 * the environment is "unix:NAME", or "HOST:PORT"; with port 0, that agent chooses one. Each rank runs this program, and
 * has YOKE_RANK, YOKE_LOCAL_RANK, YOKE_LOCAL_SIZE, YOKE_MASTER and YOKE_STATUS_FD (job_status.h) in its environment, and rank
 * 0 YOKE_LISTEN_FD.
 *
 * An agent ignores SIGTERM, SIGINT and SIGHUP: the launcher decides. When the launcher dies, or sends no heartbeat for `timeout`
 * seconds, the agent kills its ranks. When the agent dies, the kernel kills them.
 */
#ifndef YK_CLI_AGENT_H
#define YK_CLI_AGENT_H

#include "base/text.h"
#include "cli/channel.h"

#define YK_AGENT_GREETING "\001yoke agent "

/* Borrowed. */
typedef struct {
    const char *directory;
    int first, last;          /* ranks */
    double timeout;           /* of the launcher's heartbeats, in seconds; 0: none */
    char *const *environment; /* "NAME=VALUE" ..., NULL */
    char *const *argv;        /* ..., NULL */
} yk_agent_job;

yk_status yk_agent_job_write(const yk_agent_job *job, yk_text *out);

/* Returns the exit status of the agent. forwards: it sends the output of its ranks to the launcher; otherwise they inherit stdout
 * and stderr. */
int yk_agent(yk_channel channel, bool forwards);

#endif
