/* Time: a monotonic clock in seconds and in nanoseconds. */
#ifndef YK_BASE_CLOCK_H
#define YK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t yk_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double yk_now(void)
{
    return (double)yk_now_ns() * 1e-9;
}

#endif
