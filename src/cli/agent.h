/* An agent starts the ranks of a job on one host and watches them for the launcher (supervise.h).
 *
 *     launcher --fork--> agent --exec--> ranks 0 .. 3               --launch 4
 *     launcher --ssh b--> yoke agent --exec--> ranks 1 .. 2         --hosts a,b:2
 *
 * Example:
 *     const int code = yk_agent((yk_channel){.in = fd, .out = fd}, false); // runs until its ranks have ended
 *
 * YK_FRAME_START has the working directory, environment variables, "", and the command of a rank:
 *
 *     /home/x | YOKE_SIZE=4 | YOKE_MASTER=unix:yoke-1-2 | YOKE_AGENT_TIMEOUT=8 | | yoke | train | --model=softmax | ...
 *
 * The agent that starts rank 0 opens the socket on which rank 0 listens, so that the others need not wait for it. YOKE_MASTER
 * is "unix:NAME", or "HOST:PORT"; with port 0, that agent chooses one. Each rank runs this program, and has YOKE_RANK,
 * YOKE_LOCAL_RANK, YOKE_LOCAL_SIZE, YOKE_MASTER and YOKE_STATUS_FD (job_status.h) in its environment, and rank 0
 * YOKE_LISTEN_FD.
 *
 * An agent ignores SIGTERM, SIGINT and SIGHUP: the launcher decides. When the launcher dies, or sends no heartbeat for
 * YOKE_AGENT_TIMEOUT seconds (0: no limit), the agent kills its ranks. When the agent dies, the kernel kills them.
 */
#ifndef YK_CLI_AGENT_H
#define YK_CLI_AGENT_H

#include "cli/channel.h"

#define YK_AGENT_GREETING "\001yoke agent "

/* Returns the exit status of the agent. forwards: it sends the output of its ranks to the launcher; otherwise they inherit stdout
 * and stderr. */
int yk_agent(yk_channel channel, bool forwards);

#endif
