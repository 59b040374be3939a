/* What the processes of a job tell their launcher alone.
 *
 *     a process                                              the launcher
 *     yk_job_report_stage(...)   \001alive 0\n    on stderr     yk_output_filter.heard_at
 *                             \001begun 3\n                  .begun, .workers
 *                             \001training 3\n               .training
 *                             \001saving 3\n, \001saved 3\n  .saving
 *     yk_job_report_lost()       \001lost\n       on stderr     .lost
 *     yk_job_report_ended(st)    \001ended 2\n    on stderr     .ended
 *                             "2 rank 3 has died\n", a file  yk_ended_read()
 *
 * mpirun cannot be asked: it may return 0 after a failure, or hang. The lines on stderr come from any machine, behind the
 * process's own last words (output_filter.h keeps them from the user). But mpirun brings them, and where all is slow it may be gone
 * before it did; so how a job ended is also in a file, which only processes of the launcher's machine can reach. Its
 * name is in YK_ENDED; without that there is no launcher, and nothing is said.
 */
#ifndef YK_CLI_JOB_STATUS_H
#define YK_CLI_JOB_STATUS_H

#include "base/status.h"
#include "train/train.h"
#include <stdbool.h>
#include <stddef.h>

/* Reports the stage of the run (train.h). */
void yk_job_report_stage(yk_train_stage stage, int workers);

/* In a process of a job: ends it when its launcher dies (job_folder.h). */
void yk_job_follow_launcher(void);

/* In a worker that the job can do without: it is gone. When all of them are, the launcher ends the rest. */
void yk_job_report_lost(void);

/* In rank 0, or one that failed: how it ended. Where it failed, yk_error() goes into the file. */
void yk_job_report_ended(yk_status status);

/* The launcher's side: the file in `folder`, for yk_job_report_ended() to write. */
yk_status yk_ended_make(const char *folder, char *path, size_t size);

typedef struct {
    yk_status status;
    char error[1024]; /* "" where there was none */
} yk_ended;

/* What the first that wrote wrote; false: nobody has. */
bool yk_ended_read(const char *path, yk_ended *out);

#endif
