/* Asynchronous workers begin one after the other if the model has embedding vectors:
 *
 *     worker 0   step step step step step step step step | step ...
 *     worker 1   [wait until the others have taken 8 steps] step ...
 *     worker 2   [wait until they have taken 16 steps ...
 *
 * The gradients of small vectors point in the same direction at first, and too many at once make the loss of a factorization
 * machine explode (docs/convergence.md). This does not apply with a staleness bound or local SGD, where the others would wait.
 *
 * This file staggers the workers of a process. The server that leases examples does the same for all processes
 * (store/server.h). */
#include "train/loop.h"

#include "base/wait.h"

enum { STAGGER_STEPS = 8 }; /* steps */

uint64_t yk__stagger_steps(const yk__trainer *t)
{
    bool vectors = false;
    for (int g = 0; g < t->model->ngroups; g++)
        vectors |= t->model->group[g].keyed && t->model->group[g].width > 1;
    const bool gradually =
        vectors && !t->plan->lockstep && t->plan->staleness == YK_ASYNC && t->plan->local_steps <= 1;
    return gradually ? STAGGER_STEPS : 0;
}

yk_status yk__wait_to_begin(yk__trainer *t, int worker, bool *begun_out)
{
    yk_wait w = yk_wait_every(100e-6, t->plan->team_timeout);
    for (uint64_t last = 0;;) {
        const uint64_t steps = atomic_load(&t->first_steps);
        *begun_out =
            steps >= STAGGER_STEPS * (uint64_t)worker || yk__is_stopped(t) || yk_team_stopped(t->team);
        if (*begun_out || atomic_load(&t->barrier_due))
            return YK_OK;
        yk_phase_to(t->worker[worker].phases, YK_PHASE_WORKERS);
        if (steps != last)
            yk_wait_restart(&w);
        last = steps;
        if (!yk_wait_poll(&w))
            return yk_fail(YK_ELOST, "worker %d waited to begin, but no worker took a step for %g s", worker,
                           w.seconds);
    }
}

void yk__count_first_steps(yk__trainer *t, uint64_t steps)
{
    const uint64_t enough = STAGGER_STEPS * (uint64_t)t->plan->workers_per_process;
    if (atomic_load_explicit(&t->first_steps, memory_order_relaxed) < enough)
        atomic_fetch_add(&t->first_steps, steps);
}
