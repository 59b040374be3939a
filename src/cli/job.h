/* Jobs of several processes: the launcher (cli/launch.h), and the processes that the launcher, mpirun or srun starts.
 *
 * Example:
 *     const int code = yk_job_wanted(options) ? yk_job(options, argc, argv) : train(options);
 *
 * Signals, exit codes and the exit of a process that has lost its peers are handled here, not in the library. Main thread
 * only.
 */
#ifndef YK_CLI_JOB_H
#define YK_CLI_JOB_H

#include <stdbool.h>
#include <yoke.h>

bool yk_job_is_process(void); /* whether a launcher started this process */

/* Whether this process is part of a job, or should start one. */
bool yk_job_wanted(const yoke_options *options);
int yk_job(const yoke_options *options, int argc, char **argv); /* returns the exit status */

#endif
