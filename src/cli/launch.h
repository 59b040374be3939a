/* The launcher: starts a job of several processes with mpirun and supervises it (`yoke train --launch 4`, `--hosts a,b:2`,
 * `--hostfile FILE`).
 *
 * Example:
 *     int code = 0;
 *     if (yk_launch_wanted(&config))
 *         code = yk_launch(&config, argc, argv); // exit status of the job
 *
 * mpirun gets a process group of its own, so that Ctrl-C reaches only the launcher. The first signal makes all processes
 * save and end; a second one ends the job immediately. The output of the processes is forwarded (cli/output_filter.h). At the
 * end of the job, the launcher ends its remaining processes and removes its temporary files.
 *
 * With --restarts R, a job that was lost (a process died or is hung, or a link is down) is restarted from its last
 * checkpoint, up to R times. A job with a usage error or bad data, or one that diverged, is not restarted: it would fail
 * again. The processes report how the job ended (job_status.h), because mpirun may return 0 after a failure. Main thread
 * only.
 */
#ifndef YK_CLI_LAUNCH_H
#define YK_CLI_LAUNCH_H

#include "config/config.h"

bool yk_launch_wanted(const yk_config *c);
int yk_launch(const yk_config *c, int argc, char **argv);

#endif
