/* Pacing: how the workers of a process take their steps, and how they find out what is due (schedule.h).
 *
 *                 all workers take the same steps         workers take separate steps
 *     at          after each round, all come to the       a worker that finds something due sets `barrier_due`, and each
 *     barriers    same decisions, and if something is     worker enters the barrier after its current step; a worker
 *                 due, enter a barrier                    without examples waits there
 *     by a        workers only train; the chief evaluates and saves snapshots (chief.c), and the store says when the run ends
 *     chief
 *
 * Workers meet at barriers (barrier.c) if the parameters are in the processes that train: in one process, or in replicas.
 *
 * Example:
 *     st = w->pacing->begin(w);
 *     while (!st && !w->over) {
 *         bool entered = false;
 *         st = w->pacing->before(w, &entered); // may enter a barrier instead of a step
 *         if (!st && !entered && !(st = take_a_step(w, &result)))
 *             st = w->pacing->after(w, &result);
 *     }
 */
#ifndef YK_TRAIN_PACING_H
#define YK_TRAIN_PACING_H

#include "train/trainer.h"

typedef struct yk__pacing yk__pacing;

/* A worker in the loop (loop.c). */
typedef struct {
    yk__trainer *t;
    int me, number; /* index in this process; in the job */
    yk__worker_state *state;
    yk_store *store;
    const yk__pacing *pacing;
    bool bursts;          /* several steps at once (store/store.h) */
    yk_action action;     /* what this worker wants all workers to do after this step */
    uint64_t done, epoch; /* steps and epochs so far; of this worker if it takes separate steps */
    unsigned round;
    bool over;       /* it takes no more steps */
    double loss;     /* of its examples that the phases do not have yet */
    yk_status ready; /* of the store's ready() during a gradient */
    /* used by its pacing */
    uint64_t seen;       /* rounds: examples of all workers in all epochs, including those before a resume */
    uint64_t next_check; /* separate steps: this worker checks what is due after this many of its steps */
    uint64_t quota;      /* separate steps: those that this worker may still take before a barrier is due */
    bool begun;          /* separate steps: whether it was its turn to begin (store/local_stale.c) */
} yk__loop;

struct yk__pacing {
    bool together; /* all workers take the same steps, on fixed shares of the data, and end epochs together */
    /* These set w->over. */
    yk_status (*begin)(yk__loop *w);                     /* before the first step */
    yk_status (*before)(yk__loop *w, bool *entered_out); /* before a step: may enter a barrier instead */
    size_t (*max_burst)(const yk__loop *w); /* steps of a burst that does not skip anything that is due */
    yk_status (*after)(yk__loop *w, const yk_step_result *r);
};

/* That of a run, or of this process if it has workers. */
const yk__pacing *yk__pacing_of(const yk_plan *plan);

#endif
