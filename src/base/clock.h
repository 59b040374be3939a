/* Time: a monotonic clock in seconds and in nanoseconds, the time of day, and sleeping.
 *
 * Example:
 *     const double began = yk_now();
 *     yk_sleep_ns(1000000); // a millisecond
 *     yk_yield();           // lets another thread run
 *     const double elapsed = yk_now() - began;
 *     const time_t timestamp = (time_t)yk_wall();
 *
 * Any thread may call these. Simulations (tests/sim.h) can replace the clock of a thread with yk_clock_set(). The simulated
 * clock then decides how time passes, when a sleep ends and which thread runs (base/sync.h). Checking for it costs a load
 * and a branch.
 */
#ifndef YK_BASE_CLOCK_H
#define YK_BASE_CLOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct yk_thread;

typedef struct {
    uint64_t (*now_ns)(void *self);
    double (*wall)(void *self);
    void (*sleep_ns)(void *self, uint64_t ns);
    void (*yield)(void *self);
    /* Threads (base/sync.h); start() fills in t->task, or returns an errno value. */
    int (*start)(void *self, struct yk_thread *t);
    void (*join)(void *self, void *task);
    void (*block)(void *self, const void *on, uint64_t until); /* until wake(on), or until that time */
    void (*wake)(void *self, const void *on);                  /* all threads that block on it */
    void *self;
} yk_clock;

/* NULL: the system clock. Set it with yk_clock_set(). */
extern _Thread_local const yk_clock *yk__thread_clock;

/* Sets the clock of this thread (borrowed); NULL: the system clock. */
static inline void yk_clock_set(const yk_clock *clock)
{
    yk__thread_clock = clock;
}

static inline bool yk_clock_is_real(void)
{
    return !yk__thread_clock;
}

static inline uint64_t yk_now_ns(void)
{
    struct timespec t;
    if (__builtin_expect(yk__thread_clock != NULL, 0))
        return yk__thread_clock->now_ns(yk__thread_clock->self);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double yk_now(void)
{
    return (double)yk_now_ns() * 1e-9;
}

/* CPU seconds of this thread: how long something takes without the time that other programs use. */
static inline double yk_thread_seconds(void)
{
    struct timespec t;
    if (yk__thread_clock)
        return yk_now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds since 1970, for timestamps. Not for durations: it jumps when the system clock is set. */
static inline double yk_wall(void)
{
    struct timespec t;
    if (yk__thread_clock)
        return yk__thread_clock->wall(yk__thread_clock->self);
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void yk_sleep_ns(uint64_t ns)
{
    if (yk__thread_clock)
        yk__thread_clock->sleep_ns(yk__thread_clock->self, ns);
    else
        nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

static inline void yk_yield(void)
{
    if (yk__thread_clock)
        yk__thread_clock->yield(yk__thread_clock->self);
    else
        sched_yield();
}

#endif
