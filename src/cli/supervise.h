/* Supervises mpirun during one attempt of a job: forwards signals, and ends it when the job has ended, hangs, or has lost a
 * process without mpirun noticing.
 *
 * Example:
 *     yk_output_filter filter = {.ended = -1};
 *     yk_watchdog v = {.pid = 4711, .limit = 60.0, .results = true};
 *     int status = yk_supervise(&v, &filter); // as from waitpid()
 *     yk_job_outcome how;
 *     bool reported = yk_job_has_ended(&filter, &how);
 *
 * Main thread of the launcher only.
 */
#ifndef YK_CLI_SUPERVISE_H
#define YK_CLI_SUPERVISE_H

#include "cli/job_status.h"
#include "cli/output_filter.h"
#include <sys/types.h>

enum { YK_MAX_RANKS_SEEN = 1024 };

typedef struct {
    pid_t pid;
    int rank;
    bool alive;
} yk_rank_seen;

/* The state of an attempt. Times are 0 until the event has happened. */
typedef struct {
    void (*training)(void *context); /* called once, when training has begun */
    void *context;
    pid_t pid;           /* of mpirun, and of its process group */
    double limit;        /* timeout in seconds without output, before training and after a signal */
    double signaled;     /* when a signal arrived and was first forwarded */
    double forwarded;    /* when it was last forwarded; mpirun may lose it */
    double over;         /* when the ranks had ended */
    double ending_since; /* when the launcher began to end mpirun */
    bool hung, results;  /* the launcher ends mpirun because there was no heartbeat; the job prints results */
    int ranks;           /* processes on this host; 0: not known */
    yk_rank_seen seen[YK_MAX_RANKS_SEEN];
    int nseen;
    double lost;                /* when a process was missing before training began */
    char missing[32];           /* which one: "rank 2", or "a process" */
    const char *joined_run_dir; /* the run directory of the job that is joined; NULL: none */
    double gone, checked_at;    /* when that job was found to have ended; when that was last checked */
} yk_watchdog;

int yk_supervise(yk_watchdog *v, yk_output_filter *o); /* the wait status of mpirun */

/* Whether the processes have reported that the job ended, and how. */
bool yk_job_has_ended(const yk_output_filter *o, yk_job_outcome *out);

#endif
