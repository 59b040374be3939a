/* Starting a job of several processes, and standing by it: `yoke train --launch 4`, `--hosts a,b:2`, `--hostfile FILE`.
 *
 *     if (yk_launch_wanted(&config))
 *         return yk_launch(&config, argc, argv);     // exit status of the job
 *
 * It runs mpirun with the options that work (as root, with more processes than cores, without pinning), gives it a process
 * group of its own, so that Ctrl-C comes to us alone, and passes one signal on as "save and end"; a second one ends the job
 * at once. What the processes print comes through with their rank in front. When it is over nothing is left behind.
 *
 * With --restarts R a job that was lost (a process died, hangs, a link is down) is started again from its last
 * checkpoint, up to R times; one that failed for a reason that would come again (wrong usage, bad data, it diverged) is not.
 * The processes tell how it ended (job_status.h): mpirun may return 0 after a failure.
 */
#ifndef YK_CLI_LAUNCH_H
#define YK_CLI_LAUNCH_H

#include "config/config.h"

bool yk_launch_wanted(const yk_config *c);
int yk_launch(const yk_config *c, int argc, char **argv);

#endif
