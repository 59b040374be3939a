/* Messages from the processes of a job to their launcher, over the channel of the agent of their host (channel.h).
 *
 * Example:
 *     yk_job_status_open();                       // at the start of main()
 *     if (yk_job_has_launcher())
 *         yk_job_report_stage(YK_STAGE_ALIVE, 0);
 *
 * YOKE_STATUS_FD in the environment is the channel. Without it there is no launcher, and nothing is sent. Any thread may call
 * these functions.
 */
#ifndef YK_CLI_JOB_STATUS_H
#define YK_CLI_JOB_STATUS_H

#include "base/status.h"
#include "train/train.h"

void yk_job_status_open(void);
bool yk_job_has_launcher(void); /* yoke's own; not mpirun, srun or torchrun */

void yk_job_report_stage(yk_train_stage stage, int workers); /* train/train.h */
void yk_job_report_stop(void);                               /* a signal handler may call it */
void yk_job_report_lost(void);

/* In rank 0, or in a process that failed: how the job ended. yk_error() is the error. */
void yk_job_report_outcome(yk_status status);

#endif
