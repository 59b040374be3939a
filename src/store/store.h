/* The store: where the parameters live. Training is one loop over this interface, for every implementation.
 *
 * Example:
 *     // worker `me`, in each step
 *     while (s->ops->wants(s, me) > 0)
 *         st = s->ops->announce(s, me, &next_batch, cursor); // a batch to pull later; empty: there are no more
 *     st = s->ops->pull(s, me, &batch, view); // the oldest announced batch, and the parameters that it needs
 *     compute(&batch, view, &grad);           // more batches may be announced here: their keys travel with the gradient
 *     st = s->ops->push(s, me, &grad);
 *     st = s->ops->clock(s, me, YK_ACTION_CONTINUE, &result); // the step is over
 *     // after its last step
 *     st = s->ops->finish(s, me);
 *
 *     implementation   the parameters are                                 file
 *     one process      in a table that its threads share                  local.h
 *     replicas         in every process; gradients are all-reduced        local.h
 *     shards           on parameter servers, or a part in each process;   shards.h
 *                      for some steps, in a copy of them
 *
 * pull() returns the batch, because a store may remap its keys to indices into a small table of just the parameters that it
 * needs. Worker `me` of this process calls every function on its own thread. "In rounds" means that all workers take their steps
 * together (lockstep).
 */
#ifndef YK_STORE_STORE_H
#define YK_STORE_STORE_H

#include "base/status.h"
#include "core/grad.h"
#include "core/plan.h"
#include "core/view.h"

/* What a worker asks for at the end of a step. In rounds, the most urgent request of any worker applies to all. */
typedef enum { YK_ACTION_CONTINUE, YK_ACTION_SAVE, YK_ACTION_STOP } yk_action;

/* The step that clock() ended. */
typedef struct {
    uint64_t examples;   /* of this worker; in rounds: of all workers, 0 at the end of an epoch */
    double weight, loss; /* sums over these examples; with servers, the chief has them */
    uint64_t steps;      /* more than one at the end of a round of local SGD */
    uint64_t own;        /* examples of this process */
    yk_action action;
    bool pending; /* no result yet: a round of local SGD continues, or there are no examples for now */
    bool over;    /* no examples are left, or the job ends */
} yk_step_result;

typedef struct yk_store yk_store;

typedef struct {
    /* The number of batches to announce before the next call to pull() or push(). */
    size_t (*wants)(const yk_store *s, int me);
    yk_status (*announce)(yk_store *s, int me, const yk_batch *batch, const uint64_t cursor[YK_CURSOR_SIZE]);
    yk_status (*pull)(yk_store *s, int me, yk_batch *batch_out, yk_view *view_out); /* view_out: [groups] */
    yk_status (*push)(yk_store *s, int me, const yk_grad *g);
    yk_status (*clock)(yk_store *s, int me, yk_action action, yk_step_result *out);
    yk_status (*finish)(yk_store *s, int me);
    /* Steps so far, as far as this worker knows: rounds, or the updates of all workers. */
    uint64_t (*steps)(const yk_store *s, int me);
    /* Optional (may be NULL). These gradients of the dense group are final. The worker's thread calls it while it computes
     * the others. */
    yk_status (*ready)(yk_store *s, int me, float *dense, size_t begin, size_t end);
} yk_store_ops;

/* Bursts: many steps of one example each, without announce, pull, push and clock for each of them. The store's side of burst() in
 * model/model.h:
 *
 *     size_t steps = s->burst->max(s, me);  // steps that may be taken now
 *     s->burst->begin(s, me, &view, &lr);   // the weights, and the learning rate of these steps
 *     train(&view, lr, steps);              // plain sgd on the view
 *     s->burst->end(s, me, steps);          // counts them, and merges copies of hot keys if that is due
 *
 * Possible only if a step is just w -= lr g (plain sgd at a constant rate, without lazy decay, on one sparse row at a time),
 * and no other worker waits for this one: there is one worker, or the mode is asynchronous. */
enum { YK_MAX_BURST = 64 }; /* steps; about 10 us, for which a barrier has to wait */
typedef struct {
    size_t (*max)(const yk_store *s, int me); /* 1 .. YK_MAX_BURST */
    void (*begin)(yk_store *s, int me, yk_view *view_out, float *lr_out);
    void (*end)(yk_store *s, int me, size_t steps);
} yk_burst_ops;

struct yk_store {
    const yk_store_ops *ops;
    const yk_burst_ops *burst; /* NULL: bursts are not possible */
    /* Batches are also announced between push() and clock(), while the parameters of the last one are in flight. */
    bool ahead;
};

#endif
