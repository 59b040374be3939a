/* Messages from the processes of a job to their launcher.
 *
 *     a process                                                 the launcher
 *     yk_job_report_begin()      "begun\n", a file              yk_job_has_begun()
 *     yk_job_report_stage(...)   \001alive 0\n    on stderr     yk_output_filter.last_output
 *                                \001connected 3\n              .connected, .workers
 *                                \001training 3\n               .training
 *                                \001saving 3\n, \001saved 3\n  .saving
 *     yk_job_report_host(3)      \0013 1 name\n   on stderr     .place[3]: daemon 1 of mpirun, host `name`
 *     yk_job_report_lost()       \001lost\n       on stderr     .lost
 *     yk_job_report_outcome(st)  \001ended 2\n    on stderr     .ended
 *                                "2 rank 3 has died\n", a file  yk_job_outcome_read()
 *
 *     yk_job_redirect_results()  stdout, a file                 yk_job_results()
 *
 * The exit status of mpirun is not reliable: it may be 0 after a failure, or mpirun may hang. Lines on stderr arrive from
 * every host, after the process's other output (output_filter.h hides them from the user). But mpirun may end before it
 * has forwarded them. So the outcome is also written to a file, which processes on the launcher's host can reach. The
 * environment variable YK_ENDED names it; without YK_ENDED there is no launcher, and nothing is sent. Results are longer than
 * what mpirun forwards at once, and Open MPI 5's mpirun may forward parts of them to stderr. So a process on the launcher's
 * host writes them to a file, which YK_RESULTS names. Any thread may call the reporting functions.
 */
#ifndef YK_CLI_JOB_STATUS_H
#define YK_CLI_JOB_STATUS_H

#include "base/status.h"
#include "train/train.h"
#include <stdio.h>

/* Call this before MPI_Init(), which does not return if it fails, and whose messages mpirun may lose. */
void yk_job_report_begin(void);

/* Reports the stage of the run (train/train.h). */
void yk_job_report_stage(yk_train_stage stage, int workers);

void yk_job_report_host(int rank); /* where this process runs */

/* In a process of a job: ends it when its launcher dies (job_dir.h). */
void yk_job_end_with_launcher(void);

/* In a worker that the job can continue without: this worker is lost. When all workers are lost, the launcher ends the
 * job. */
void yk_job_report_lost(void);

/* In rank 0, or in a process that failed: how the job ended. After a failure, yk_error() is written to the file. */
void yk_job_report_outcome(yk_status status);

/* In a process of a job, before it prints results: from now on, stdout is the file of the launcher, if that is on this host. */
void yk_job_redirect_results(void);

/* In the launcher: creates the files for yk_job_report_begin(), yk_job_report_outcome() and yk_job_redirect_results() in
 * `directory`. */
yk_status yk_job_files_create(const char *directory);
yk_status yk_job_files_clear(void); /* empties them, before each attempt */

typedef struct {
    yk_status status;
    char error[1024]; /* "": none */
} yk_job_outcome;

/* Reads the first report; false: there is none yet. */
bool yk_job_outcome_read(const char *path, yk_job_outcome *out);

/* In the launcher: whether a process of this attempt, on this host, has begun. */
bool yk_job_has_begun(void);

/* In the launcher: opens the file with the results of an attempt. NULL: it is empty; a process on another host cannot write
 * to it. */
FILE *yk_job_results(void);

#endif
