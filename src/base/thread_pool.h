/* A pool of threads that share one piece of work at a time.
 *
 * Example:
 *     yk_thread_pool *pool;
 *     yk_status st = yk_thread_pool_create(4, &pool);
 *     if (!st)
 *         yk_thread_pool_run(pool, part, context); // calls part(context, 0, 4) .. part(context, 3, 4), and waits for all of them
 *     yk_thread_pool_free(pool);
 *
 * Part 0 runs on the calling thread, and the others on threads that wait between two calls: they spin briefly if each has a
 * core, then sleep (wait.h). Parts can wait for each other with yk_team_barrier(yk_thread_pool_team(pool), me). One thread at
 * a time may use a pool.
 */
#ifndef YK_BASE_THREAD_POOL_H
#define YK_BASE_THREAD_POOL_H

#include "base/team.h"

typedef struct yk_thread_pool yk_thread_pool;

yk_status yk_thread_pool_create(int threads, yk_thread_pool **out); /* including the caller */
void yk_thread_pool_free(yk_thread_pool *p);                        /* NULL is fine */

/* NULL: calls part(context, 0, 1). */
void yk_thread_pool_run(yk_thread_pool *p, void (*part)(void *context, int me, int all), void *context);

yk_team *yk_thread_pool_team(yk_thread_pool *p); /* NULL: NULL */

/* Part `me` of `all` of the range [*begin, *end), in multiples of `unit`. */
static inline void yk_part_of_range(size_t *begin, size_t *end, size_t unit, int me, int all)
{
    const size_t from = *begin, units = (*end - from + unit - 1) / unit;
    const size_t to = from + units * (size_t)(me + 1) / (size_t)all * unit;
    *begin = from + units * (size_t)me / (size_t)all * unit;
    *end = to < *end ? to : *end;
}

#endif
