/* Runs a job once: starts an agent per host (agent.h), and watches the ranks until all have ended.
 *
 * Example:
 *     yk_supervisor s = {.config = &config, .plan = &plan, .host = host, .hosts = n, .argv = argv};
 *     yk_supervise(&s);
 *     if (s.status)
 *         printf("%s\n", s.error); // "rank 2 on host b was killed by signal 9 (Killed)"
 *     yk_supervisor_fini(&s);
 *
 * The job is lost if a rank dies, unless it is a worker that the job can continue without (survives_loss). If an agent ends, or
 * sends no heartbeat for the heartbeat timeout, all of its ranks are lost. The first report of a failure counts, and ends the other
 * ranks at once. The first signal (yk_cli_stop) to the launcher, or to any rank, is sent to all ranks, which save and end; a
 * second one to the launcher (yk_cli_stop_again) kills them. Main thread of the launcher only.
 */
#ifndef YK_CLI_SUPERVISE_H
#define YK_CLI_SUPERVISE_H

#include "cli/channel.h"
#include "config/hosts.h"
#include "train/plan.h"
#include <limits.h>
#include <sys/types.h>

typedef struct yk_agent_ops yk_agent_ops;

/* The launcher's end of an agent, and the ranks of its host. */
typedef struct {
    const yk_agent_ops *ops;
    const char *host; /* as the user named it; for this host, its name */
    int first, last;  /* ranks */
    pid_t pid;        /* of the forked agent, or of ssh; 0: it has ended */
    yk_channel channel;
    bool greeted, started;
    double last_message; /* when it last sent something */
} yk_host_agent;

typedef enum { YK_RANK_RUNS, YK_RANK_LOST, YK_RANK_ENDED } yk_rank_state;

/* The caller sets the first part, and reads the second part afterwards. Times are 0 until the event has happened. */
typedef struct {
    const yk_config *config;
    const yk_plan *plan;
    const yk_host *host; /* [hosts] */
    size_t hosts;
    char *const *argv; /* of a rank */

    yk_status status; /* how the job ended; YK_EINTERRUPTED: by a signal, before it trained */
    bool reported;    /* by a process, which has printed the error */
    bool lost;        /* a process or host was lost: a restart may help */
    char error[1024];
    bool connected, training, saving;
    int workers; /* 0: not known */

    yk_host_agent *agent; /* [hosts] */
    yk_rank_state *rank;  /* [plan->processes] */
    char master[512], token[72];
    double last_message;           /* when a rank last reported something */
    double signaled, over, killed; /* over: a rank reported the end of the job */
    double alive;                  /* when the last heartbeats were sent to agents */
    bool output_failed;            /* stdout could not be written */
} yk_supervisor;

void yk_supervise(yk_supervisor *s);
void yk_supervisor_fini(yk_supervisor *s);

#endif
