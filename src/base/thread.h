/* A team of worker threads that meet at barriers, and can be told to stop from any of them.
 *
 *     yk_team *team;
 *     st = yk_team_create(3, &team);
 *     st = yk_team_run(team, work, context);     // runs work(context, 0..2) on three threads; the first error wins
 *     yk_team_free(team);
 *
 *     static yk_status work(void *context, int me) { ... if ((st = yk_team_meet(team, me))) return st; ... }
 *
 * A worker that returns an error, or anybody who calls yk_team_stop(), releases those who wait: yk_team_meet() then
 * returns YK_ESTOP. Waiting spins for a moment where there is a core for each worker, then sleeps, and gives up with
 * YK_ELOST and the name of the missing worker after YK_MEET_SECONDS.
 */
#ifndef YK_BASE_THREAD_H
#define YK_BASE_THREAD_H

#include "base/status.h"
#include "base/wait.h"
#include <stdbool.h>
#include <stdint.h>

#define YK_MEET_SECONDS 600

typedef struct yk_team yk_team;

int yk_cores(void); /* that this process may use: affinity and cgroup limit, at least 1 */

yk_status yk_team_create(int workers, yk_team **out);
void yk_team_free(yk_team *team); /* NULL is fine */

void yk_team_patient(
    yk_team *team); /* waits without a deadline: for threads that idle between pieces of work */

/* Worker 0 runs on the calling thread. Returns when all have returned. */
yk_status yk_team_run(yk_team *team, yk_status (*work)(void *context, int me), void *context);

yk_status yk_team_meet(yk_team *team, int me);

/* Of this worker's last barrier, for its own thread: whether it came last, and the nanoseconds that it waited once its short
 * spin was over (0: it did not). */
bool yk_team_was_last(const yk_team *team, int me);
uint64_t yk_team_waited(const yk_team *team, int me);
void yk_team_stop(yk_team *team);
bool yk_team_stopped(const yk_team *team);

/* For waits outside a barrier, with the same timeout. */
yk_wait yk_team_wait(const yk_team *team);

#endif
