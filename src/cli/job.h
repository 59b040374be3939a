/* Runs yoke train: in this process, as a process of a job that the launcher, mpirun or srun has started, or as the launcher
 * of a job of several processes (`--launch 4`, `--hosts a,b:2`, `--hostfile FILE`).
 *
 * Example:
 *     const int code = yk_job(options, argc, argv);
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

int yk_job(const yoke_options *options, int argc, char **argv); /* returns the exit status */
int yk_launch(const yk_config *c, int argc, char **argv);       /* the launcher; returns the exit status */

#endif
