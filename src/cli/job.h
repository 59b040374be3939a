/* Jobs of several processes: the launcher (`yoke train --launch 4`, `--hosts a,b:2`, `--hostfile FILE`), and the
 * processes that the launcher, mpirun or srun starts.
 *
 * Example:
 *     const int code = yk_job_wanted(options) ? yk_job(options, argc, argv) : train(options);
 *
 * Signals, exit codes and the exit of a process that has lost its peers are handled here, not in the library.
 *
 * The launcher starts an agent per host, and these start the processes (supervise.h, agent.h). The first signal makes all
 * processes save and end; a second one ends the job immediately.
 *
 * With --restarts R, a job that was lost (a process died or is hung, or a link is down) is restarted from its last
 * checkpoint, up to R times. A job with a usage error or bad data, or one that diverged, is not restarted: it would fail
 * again. Main thread only.
 */
#ifndef YK_CLI_JOB_H
#define YK_CLI_JOB_H

#include "config/config.h"
#include <yoke.h>

/* Whether this process is part of a job, or should start one. */
bool yk_job_wanted(const yoke_options *options);
int yk_job(const yoke_options *options, int argc, char **argv); /* returns the exit status */
int yk_launch(const yk_config *c, int argc, char **argv);       /* the launcher; returns the exit status */

#endif
