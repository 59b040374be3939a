/* Supervises the start-up of a process in a job, from its start to its first step, with a time limit.
 *
 * During this time a process may be stuck inside MPI (MPI_Init waits for a peer that has died), or busy for minutes with
 * work of its own (loading data). In neither case does it answer its peers or handle a signal. A thread does both for it.
 *
 * Example:
 *     yk_startup *s;
 *     yk_status st = yk_startup_begin(&config, &s);
 *     yk_startup_enter(s, YK_STARTUP_BUSY); // the thread sends heartbeats; do not call MPI
 *     load_data();
 *     yk_startup_enter(s, YK_STARTUP_WAITING); // for messages: yk_comm_wait() applies the limit
 *     yk_startup_end(s); // training begins
 *
 * What the thread does, by state:
 *
 *     state      signal received      limit exceeded                     otherwise
 *     BUSY       ends the process     ends the process if in MPI_Init    heartbeats to peers and launcher
 *     WAITING    - (waits return)     - (waits return)                   heartbeats to the launcher
 *
 * Nothing has been trained or written yet, so there is nothing to save when the process ends. The main thread calls these
 * functions.
 */
#ifndef YK_COMM_STARTUP_H
#define YK_COMM_STARTUP_H

#include "base/status.h"
#include <signal.h>

typedef struct yk_startup yk_startup;

typedef enum { YK_STARTUP_WAITING, YK_STARTUP_BUSY } yk_startup_state;

typedef struct {
    double limit;                      /* seconds */
    const volatile sig_atomic_t *stop; /* non-zero: a signal was received */
    void (*alive)(void *context);      /* heartbeat to the launcher, once a second; NULL: no launcher */
    void *context;
    /* Ends the process and never returns; yk_error() has the reason. NULL: the limit is not enforced. */
    void (*end_process)(yk_status status);
} yk_startup_config;

yk_status yk_startup_begin(const yk_startup_config *config, yk_startup **out);

/* NULL is fine, here and below. */
void yk_startup_enter(yk_startup *s, yk_startup_state state);
void yk_startup_end(yk_startup *s); /* frees it */

#endif
