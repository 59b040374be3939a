/* A team of worker threads with barriers. Any of them can stop the team.
 *
 * Example:
 *     yk_team *team;
 *     yk_status st = yk_team_create(3, &team);
 *     if (!st)
 *         st = yk_team_run(team, work, context); // calls work(context, 0..2) on three threads; returns the first error
 *     yk_team_free(team);
 *
 * work() waits for the others with yk_team_barrier(team, me). If a worker returns an error, or any thread calls
 * yk_team_stop(), all waits end and yk_team_barrier() returns YK_ESTOP. A wait spins briefly if each worker has a core, then
 * sleeps. After the timeout, if there is one, it returns YK_ELOST and names the missing workers.
 */
#ifndef YK_BASE_TEAM_H
#define YK_BASE_TEAM_H

#include "base/status.h"
#include "base/wait.h"

typedef struct yk_team yk_team;

/* The number of cores that this process may use, by affinity and cgroup limit; at least 1. */
int yk_cores(void);

/* The number of cores for each of `processes` processes that share this host; at least 1. 0 (unknown) counts as one process. */
int yk_cores_per_process(int processes);

/* The number of threads for a computation that can be divided into `parts`: at most one per core, and at most YK_MAX_THREADS. */
enum { YK_MAX_THREADS = 16 };
int yk_cores_for(size_t parts);

/* Calls work(context, i) for i from 0 to threads - 1, each on its own thread, and waits for all of them. Returns the first error. */
yk_status yk_team_once(int threads, yk_status (*work)(void *context, int me), void *context);

yk_status yk_team_create(int workers, yk_team **out);
void yk_team_free(yk_team *team); /* NULL is fine */

/* How long workers wait for each other. By default there is no timeout, because threads may be idle between jobs.
 * Call it before yk_team_run(). */
void yk_team_set_timeout(yk_team *team, double seconds);

/* Worker 0 runs on the calling thread. Returns when all workers have returned. */
yk_status yk_team_run(yk_team *team, yk_status (*work)(void *context, int me), void *context);

yk_status yk_team_barrier(yk_team *team, int me);

/* About the last barrier of this worker: whether it arrived last, and the nanoseconds that it waited after spinning. Call
 * these in the worker's own thread. */
bool yk_team_was_last(const yk_team *team, int me);
uint64_t yk_team_waited(const yk_team *team, int me);
void yk_team_stop(yk_team *team);
bool yk_team_stopped(const yk_team *team);

/* For waits outside a barrier, with the same timeout. */
yk_wait yk_team_wait(const yk_team *team);

/* ---- pools: teams whose threads wait for work between calls, for one piece of work at a time
 *
 *     yk_thread_pool *pool;
 *     yk_status st = yk_thread_pool_create(4, &pool);
 *     if (!st)
 *         yk_thread_pool_run(pool, part, context); // calls part(context, 0, 4) .. part(context, 3, 4), and waits for all of them
 *     yk_thread_pool_free(pool);
 *
 * Part 0 runs on the calling thread. Parts can wait for each other with yk_team_barrier(pool, me). One thread at a time may use a
 * pool. */
typedef yk_team yk_thread_pool;

yk_status yk_thread_pool_create(int threads, yk_thread_pool **out); /* including the caller */
void yk_thread_pool_free(yk_thread_pool *p);                        /* NULL is fine */

/* NULL: calls part(context, 0, 1). */
void yk_thread_pool_run(yk_thread_pool *p, void (*part)(void *context, int me, int all), void *context);

/* Part `me` of `all` of the range [*begin, *end), in multiples of `unit`. */
static inline void yk_part_of_range(size_t *begin, size_t *end, size_t unit, int me, int all)
{
    const size_t from = *begin, units = (*end - from + unit - 1) / unit;
    const size_t to = from + units * (size_t)(me + 1) / (size_t)all * unit;
    *begin = from + units * (size_t)me / (size_t)all * unit;
    *end = to < *end ? to : *end;
}

#endif
