/* What a job writes to stderr, on its way to ours: lines of ranks pass as they are; Open MPI's own are shortened to what a
 * user can do something with.
 *
 *     yk_output_filter o = {.from = its_stderr, .results = its_stdout, .ended = -1};      // ends of pipes, not blocking
 *     yk_output_filter_read(&o);                                                                // what it has said
 *     yk_output_filter_wait(&o, 0.1);                                                      // until it says more
 *     st = yk_output_filter_end(&o);                                                       // the rest; closes both
 *     o.died                                  // "process rank 2 ... exited on signal 9 (Killed)", or ""
 *
 * mpirun puts what it has to say between two lines of dashes. That a process died is kept for the launcher to tell; what only
 * repeats that a job ends (a rank called abort, or left without a farewell) is left out; all else passes.
 */
#ifndef YK_CLI_OUTPUT_FILTER_H
#define YK_CLI_OUTPUT_FILTER_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int from, results; /* its stderr; its stdout, which is said last, or it would overtake the notes */
    char *said;
    size_t nsaid, said_cap;
    char text[16384];
    size_t n;
    bool in_block; /* between the dashes */
    char block[8192];
    size_t nblock;
    char died[256];
    int workers, lost; /* of the job; of them are gone */
    bool begun;        /* rank 0 said that the processes have found each other */
    bool training;     /* all ranks are ready */
    bool saving;       /* a checkpoint is being written */
    double heard_at;   /* time of the last output (base/clock.h) */
    int ended; /* the status that rank 0, or the first that failed, ended with; -1: none has (to be set beforehand) */
} yk_output_filter;

void yk_output_filter_read(yk_output_filter *o);
void yk_output_filter_wait(yk_output_filter *o, double seconds); /* at most; a signal ends it, too */
yk_status yk_output_filter_end(yk_output_filter *o);

#endif
