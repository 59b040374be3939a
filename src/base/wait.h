/* Waiting for another thread or process: spins, then yields the core, then sleeps for short intervals, until a timeout.
 *
 * Example:
 *     yk_wait w = yk_wait_begin(YK_WAIT_RANKS, 30.0);
 *     while (!atomic_load(&arrived))
 *         if (!yk_wait_poll(&w))
 *             return yk_fail(YK_ELOST, "no message within 30 s");
 *
 * Waking a thread takes fifty microseconds or more, as long as a step of a small model, so spinning pays off. But a process
 * that only yields costs other processes on its cores a third of their time, so after a while it sleeps (docs/experiments-log.md,
 * "Messages and jobs"). A wait is plain data for one thread.
 */
#ifndef YK_BASE_WAIT_H
#define YK_BASE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    YK_WAIT_THREADS, /* threads of one process with a core for each: spins for 10 us, yields for a few ms */
    YK_WAIT_OVERSUBSCRIBED, /* more threads than cores: another thread needs the core */
    YK_WAIT_RANKS, /* messages, which must be polled: yields for about 1 ms; most answers arrive by then */
    YK_WAIT_MEMORY /* processes with shared memory and a core for each */
} yk_wait_kind;

typedef struct {
    unsigned polls; /* so far */
    unsigned spins, yields;
    uint64_t yield_ns; /* then a wait for processes sleeps: on a busy host, a yield takes milliseconds */
    double seconds;
    double pause;   /* yk_wait_every(): seconds; 0: spins and yields first */
    uint64_t began; /* ns: when it stopped spinning; 0: still spinning */
} yk_wait;

yk_wait yk_wait_begin(yk_wait_kind kind, double seconds); /* HUGE_VAL: no timeout */

/* Cores divided by processes: if there are many processes for each core, waits sleep earlier, so that the one that the others
 * wait for gets a core. */
void yk_wait_set_share(double cores);

/* For long waits, for example until another process has written a file: each poll sleeps for `pause` seconds and reads the
 * clock. */
yk_wait yk_wait_every(double pause, double seconds);

/* One iteration of a polling loop. False: timeout. Reads the clock every 256 iterations (yk_wait_every(): in each). */
bool yk_wait_poll(yk_wait *w);

/* Restarts the wait and its timeout, after progress. */
static inline void yk_wait_restart(yk_wait *w)
{
    w->polls = 0;
    w->began = 0;
}

/* Whether this iteration should make expensive checks. */
static inline bool yk_wait_is_check_due(const yk_wait *w)
{
    return w->polls % 256 == 0;
}

/* For callers with their own way to sleep: spins or yields; returns false when it is time to sleep. */
bool yk_wait_spin(yk_wait *w);
bool yk_wait_expired(const yk_wait *w); /* reads the clock */

/* Sleeps; a signal ends the sleep early. */
void yk_sleep(double seconds);

#endif
