/* The start-up of a process in a job, with a limit: from its start to its first step.
 *
 * During this time a process may be stuck inside MPI (MPI_Init waits for a peer that has died), or busy for minutes with
 * work of its own (loading data). In neither case does it answer its peers or see a signal. A thread does both for it:
 *
 *     yk_startup *s;
 *     st = yk_startup_begin(&config, &s);
 *     yk_startup_enter(s, YK_STARTUP_BLOCKED, "MPI_Init");    // a call that may never return: has the limit
 *     MPI_Init_thread(...);
 *     yk_startup_enter(s, YK_STARTUP_BUSY, "loading data");   // the thread sends heartbeats; we do not call MPI
 *     ...
 *     yk_startup_enter(s, YK_STARTUP_WAITING, "");            // messages: yk_comm_wait() has the limit
 *     yk_startup_end(s);                                      // training begins
 *
 * What the thread does, by state:
 *
 *     state      a signal came        the limit has passed       otherwise
 *     BLOCKED    ends the process     ends the process           -
 *     BUSY       ends the process     -                          heartbeats to peers and launcher
 *     WAITING    - (waits return)     - (waits return)           heartbeats to the launcher
 *
 * Nothing has been trained or written yet, so that there is nothing to save when the process ends.
 */
#ifndef YK_COMM_STARTUP_H
#define YK_COMM_STARTUP_H

#include "base/status.h"
#include <signal.h>
#include <stdbool.h>

typedef struct yk_startup yk_startup;

typedef enum { YK_STARTUP_WAITING, YK_STARTUP_BLOCKED, YK_STARTUP_BUSY } yk_startup_state;

typedef struct {
    double limit;                      /* seconds */
    const volatile sig_atomic_t *stop; /* non-zero: a signal came */
    void (*alive)(void *context);      /* once a second: tells the launcher; NULL: there is none */
    void *context;
    /* Ends the process and never returns; why is in yk_error(). NULL: the limit is not enforced. */
    void (*end_process)(yk_status status);
} yk_startup_config;

yk_status yk_startup_begin(const yk_startup_config *config, yk_startup **out);

/* `what` must outlive the state; it is named in the error. NULL for `s` is fine, here and below. */
void yk_startup_enter(yk_startup *s, yk_startup_state state, const char *what);
void yk_startup_end(yk_startup *s); /* frees it */

bool yk_startup_stopped(const yk_startup *s); /* whether a signal came */
double yk_startup_limit(const yk_startup *s); /* NULL: 0 */

/* comm.h: what the thread calls in the state BUSY. NULL: nothing any more. */
struct yk_comm;
void yk_startup_attach(yk_startup *s, struct yk_comm *comm);

#endif
