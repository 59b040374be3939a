/* The output filter: forwards stderr and stdout of a job, except for Open MPI messages that do not help the user.
 *
 * Example:
 *     yk_output_filter o = {.err.fd = job_stderr, .out.fd = job_stdout, .ended = -1}; // read ends of pipes, non-blocking
 *     yk_output_filter_read(&o);                 // forwards what has arrived
 *     yk_output_filter_wait(&o, 0.1);            // waits for more
 *     yk_status st = yk_output_filter_end(&o);   // forwards the rest, closes both pipes
 *     if (!st && *o.died)
 *         printf("%s\n", o.died);                // "process rank 2 ... exited on signal 9 (Killed)"
 *
 * Lines from ranks pass unchanged. mpirun writes its messages between two lines of dashes. The message that a process died is
 * kept for the launcher. Messages that only repeat that the job ends (a rank called abort, or did not finalize) are
 * dropped. Until all processes are connected, the remaining messages are held: if MPI_Init fails, or a host cannot be reached,
 * they are dropped, and the launcher says why in fewer words; otherwise they pass. With YK_MPI_MESSAGES=1 in the environment,
 * nothing is dropped. Lines that begin with \001 are for the launcher (job_status.h). Not thread-safe.
 */
#ifndef YK_CLI_OUTPUT_FILTER_H
#define YK_CLI_OUTPUT_FILTER_H

#include "base/text.h"
#include <limits.h>

typedef struct {
    int fd;
    char text[16384]; /* an incomplete line */
    size_t n;
} yk_output_pipe;

/* Where a rank runs. */
typedef struct {
    int daemon; /* the number of mpirun's daemon on that host; 0: mpirun itself */
    char host[HOST_NAME_MAX + 1];
    bool lost;
} yk_rank_place;

typedef struct {
    yk_output_pipe err, out; /* of the job */
    yk_text results;         /* complete lines of stdout; printed at the end, after the notes */
    bool in_block;           /* between two lines of dashes */
    char block[8192];
    size_t nblock;
    char held[16384]; /* messages that are held; NUL-terminated */
    size_t nheld;
    bool init_failed;     /* MPI_Init failed */
    char died[256];       /* the processes that were lost, and how; "": not known */
    yk_rank_place *place; /* [places] by rank; host "": not known */
    size_t places, place_cap;
    int workers, lost;  /* workers of the job; how many are lost */
    bool unreachable;   /* mpirun could not start its daemon on a host */
    bool connected;     /* rank 0 reported that all processes are connected */
    bool training;      /* all ranks are ready */
    bool saving;        /* a checkpoint is being written */
    double last_output; /* time of the last output (base/clock.h) */
    int ended; /* yk_status of rank 0, or of the first process that failed; -1: none yet. Set it to -1 before use */
} yk_output_filter;

void yk_output_filter_read(yk_output_filter *o);
void yk_output_filter_wait(yk_output_filter *o, double seconds); /* at most; a signal ends the wait */
yk_status yk_output_filter_end(yk_output_filter *o);

/* mpirun has lost the daemons of the places that are marked: names their ranks in `died`, unless it has a text. */
void yk_output_filter_name_lost(yk_output_filter *o);

/* Why MPI could not start, from its messages (`held`): they have dozens of lines, and the reason is in one or two. "": no known
 * reason was found. */
void yk_output_filter_reason(const yk_output_filter *o, char *out, size_t size);

#endif
