/* Pacing: how a worker learns that an evaluation, a checkpoint or the end of the run is due (schedule.h), and what it does then.
 *
 * If a process has all parameters (a single process, or a replica), its workers evaluate and save at a barrier (barrier.c):
 *
 *     lockstep           after each step, all workers make the same decision, and enter the barrier if something is due
 *     separate steps     the first worker that finds something due sets `barrier_due`; each worker enters the barrier after its
 *                        current step. A worker without examples waits there
 *
 * With parameter servers or shards, workers only train, in lockstep or in separate steps. The chief evaluates and saves snapshots
 * (chief.c), and the store says when the run ends. So there are three tables of functions.
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
    uint64_t done, epoch; /* steps and epochs so far: of the run in lockstep, else of this worker */
    unsigned round;
    bool over;           /* it takes no more steps */
    double weight, loss; /* of examples that were not added to its phases yet */
    yk_status ready; /* the result of the store's ready(), which the model calls during the backward pass */
    /* used by its pacing */
    uint64_t seen; /* lockstep: examples of all workers in all epochs, including those before a resume */
    uint64_t next_check; /* separate steps: this worker checks what is due after this many of its steps */
    uint64_t quota;      /* separate steps: steps that this worker may take before it needs another quota */
    bool begun;          /* separate steps: whether it was its turn to begin (store/local_stale.c) */
} yk__loop;

struct yk__pacing {
    /* These set w->over. */
    yk_status (*begin)(yk__loop *w);                     /* before the first step */
    yk_status (*before)(yk__loop *w, bool *entered_out); /* before a step: may enter a barrier instead */
    size_t (*max_burst)(const yk__loop *w); /* steps of a burst that does not skip anything that is due */
    yk_status (*after)(yk__loop *w, const yk_step_result *r);
};

/* The pacing of the workers of this process. */
const yk__pacing *yk__pacing_of(const yk_plan *plan);

#endif
