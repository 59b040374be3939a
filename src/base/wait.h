/* Waiting for another thread or process: spins, then yields the core, then sleeps for short intervals, until a deadline.
 *
 *     yk_wait w = yk_wait_begin(YK_WAIT_RANKS, 30.0);
 *     while (!atomic_load(&there))
 *         if (!yk_wait_turn(&w))
 *             return yk_fail(YK_ELOST, "no message within 30 s");
 *
 * Waking a thread takes fifty microseconds or more, as long as a step of a small model, so spinning pays. But a process
 * that only yields costs other processes on its cores a third of their time, so after a while it sleeps (docs/performance.md,
 * "Waiting"). A wait is plain data of one thread.
 */
#ifndef YK_BASE_WAIT_H
#define YK_BASE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    YK_WAIT_THREADS, /* threads of one process with a core for each: spins for 10 us, yields for some ms */
    YK_WAIT_CROWD,   /* more threads than cores: another thread needs this core */
    YK_WAIT_RANKS,   /* messages, which must be polled: yields for about 1 ms, as long as most answers take */
    YK_WAIT_MEMORY   /* processes that share memory, with a core for each */
} yk_wait_kind;

typedef struct {
    unsigned turn; /* so far */
    unsigned spins, yields;
    double seconds;
    uint64_t began; /* ns: when it stopped spinning; 0: still spinning */
} yk_wait;

yk_wait yk_wait_begin(yk_wait_kind kind, double seconds); /* HUGE_VAL: no deadline */

/* One turn. False: the deadline has passed; the clock is read every 256 turns. */
bool yk_wait_turn(yk_wait *w);

/* There was progress: restarts the wait and its deadline. */
static inline void yk_wait_again(yk_wait *w)
{
    w->turn = 0;
    w->began = 0;
}

/* Whether to check for rare events in this turn. */
static inline bool yk_wait_polls(const yk_wait *w)
{
    return w->turn % 256 == 0;
}

/* For callers that sleep in their own way: spins or yields; returns false when it is time to sleep. */
bool yk_wait_busy(yk_wait *w);
bool yk_wait_over(const yk_wait *w); /* reads the clock */

/* Sleeps; a signal ends the sleep early. */
void yk_nap(double seconds);

#endif
