/* The store: where the parameters live. Training is one loop over this interface, whatever is behind it:
 *
 *     each worker, each step:
 *         while (yk_store_wants(s, me) > 0)
 *             yk_store_announce(s, me, &batch, cursor);   // a batch that it will pull; empty: there is none
 *         yk_store_pull(s, me, &batch, view);            // the oldest one, and the parameters that it needs
 *         model->grad(..., view, &batch, &grad);
 *         ... announce more, if wanted: their keys travel with the gradient ...
 *         yk_store_push(s, me, &grad);
 *         yk_store_clock(s, me, word, &result);          // the step is over
 *     yk_store_finish(s, me);                            // no more steps from this worker
 *
 *     implementation   parameters are                                     file
 *     one process      in a table that its threads share                  local.h
 *     replicas         in every process; gradients are all-reduced        replicas.h
 *     shards           in parameter servers, or a part in each process    shards.h
 *     local SGD        in a copy of one of the last two for some steps    local_sgd.h
 *
 * A batch comes back from pull() because a store may remap its keys to indices into a small table of just these
 * parameters. Every function is called by worker `me` of this process on its own thread.
 */
#ifndef YK_STORE_STORE_H
#define YK_STORE_STORE_H

#include "base/grad.h"
#include "base/status.h"
#include "base/view.h"

/* What a worker says with its step. In lockstep the most urgent word of all workers counts, for all of them. */
typedef enum { YK_WORD_GO_ON, YK_WORD_SAVE, YK_WORD_STOP } yk_word;

/* What the step that clock() ended was. */
typedef struct {
    uint64_t examples; /* lockstep: of all workers, 0 at the end of an epoch; else of this worker */
    double loss;       /* summed over those */
    uint64_t steps;    /* that it was: more than one where a round of local SGD ended */
    uint64_t own;      /* examples of this process */
    yk_word word;
    bool pending; /* nothing is known yet: a round of local SGD goes on, or there are no examples for now */
    bool over;    /* nothing is left to train on, or the job ends */
} yk_step_result;

typedef struct yk_store yk_store;

enum { YK_CURSOR = 5 }; /* numbers that say where a worker of a stream is (data/feed.h) */

typedef struct {
    /* How many more batches to announce before the next call of pull() or push(). */
    size_t (*wants)(const yk_store *s, int me);
    yk_status (*announce)(yk_store *s, int me, const yk_batch *batch, const uint64_t cursor[YK_CURSOR]);
    yk_status (*pull)(yk_store *s, int me, yk_batch *batch_out, yk_view *view_out); /* view_out: [groups] */
    yk_status (*push)(yk_store *s, int me, const yk_grad *g);
    yk_status (*clock)(yk_store *s, int me, yk_word word, yk_step_result *out);
    yk_status (*finish)(yk_store *s, int me);
    /* Optional (NULL): the model has gradients of the dense group that will not change any more; called while the rest
     * is computed, by the thread of the worker. */
    yk_status (*ready)(yk_store *s, int me, float *dense, size_t begin, size_t end);
    void (*free)(yk_store *s);
} yk_store_ops;

struct yk_store {
    const yk_store_ops *ops;
};

static inline size_t yk_store_wants(const yk_store *s, int me)
{
    return s->ops->wants(s, me);
}

static inline yk_status yk_store_announce(yk_store *s, int me, const yk_batch *batch,
                                          const uint64_t cursor[YK_CURSOR])
{
    return s->ops->announce(s, me, batch, cursor);
}

static inline yk_status yk_store_pull(yk_store *s, int me, yk_batch *batch_out, yk_view *view_out)
{
    return s->ops->pull(s, me, batch_out, view_out);
}

static inline yk_status yk_store_push(yk_store *s, int me, const yk_grad *g)
{
    return s->ops->push(s, me, g);
}

static inline yk_status yk_store_clock(yk_store *s, int me, yk_word word, yk_step_result *out)
{
    return s->ops->clock(s, me, word, out);
}

static inline yk_status yk_store_finish(yk_store *s, int me)
{
    return s->ops->finish(s, me);
}

static inline void yk_store_free(yk_store *s) /* NULL is fine */
{
    if (s)
        s->ops->free(s);
}

#endif
