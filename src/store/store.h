/* The store: where the parameters live, with their optimizer state. This one is for the threads of one process.
 *
 *     yk_store *s;
 *     st = yk_store_create(&config, &s);
 *     each worker, each step:
 *         yk_store_pull(s, me, &batch, &view);      // parameters as fresh as the mode asks for
 *         model->grad(..., &view, &batch, &grad);
 *         yk_store_push(s, me, &grad);
 *         yk_store_clock(s, me, &result);           // the step is over
 *     yk_store_finish(s, me);                       // no more steps from this worker
 *
 * One number, the staleness bound K, makes the mode:
 *   0         synchronous. clock() waits for all; gradients are added in worker order and applied once, divided by the
 *             examples of all. The same bits every time. N workers of batch b equal one worker of batch N b, to rounding.
 *   K         no worker is more than K steps ahead of the slowest one that still works.
 *   infinity  asynchronous: nobody waits.
 * With K > 0 push() changes the shared weights at once and without locks. The hottest keys (all, of a small dense model)
 * are the exception: each worker has its own copy and merges it now and then (hot.h), because cache lines that all cores
 * write make many cores slower than one.
 *
 * Every function is called by worker `me` on its own thread, except create and free. A step allocates nothing once the
 * largest batch was seen.
 */
#ifndef YK_STORE_STORE_H
#define YK_STORE_STORE_H

#include "base/grad.h"
#include "base/keymap.h"
#include "base/plan.h"
#include "base/thread.h"
#include "base/view.h"
#include "optim/optim.h"
#include "watch/phase.h"
#include <stdatomic.h>

typedef struct {
    size_t nparams;
    bool sparse;
    yk_optim_config optim;
    yk_team *team; /* borrowed */
    int workers;
    uint64_t staleness;
    size_t batch;            /* per worker, as asked for */
    const yk_keymap *keymap; /* sparse: which keys are hot (names are inside ones); NULL: none. Borrowed */
    float mean_square;       /* dense: expected square of an input; 0: no copies, workers share all */
    float norm;              /* expected sum of the squares of all inputs of an example */
    const yk_optim_group *group; /* dense: parameters with rates of their own, ascending. Borrowed */
    size_t ngroups;
    yk_phases
        *phases; /* [workers] waiting and applying are told apart; NULL: nobody wants to know. Borrowed */
    const atomic_bool *
        interrupted; /* when true, a worker that waits for slower ones stops waiting: all are about to meet */
} yk_store_config;

typedef struct yk_store yk_store;

/* What the step that clock() ended was. */
typedef struct {
    size_t examples; /* synchronous: of all workers, 0 when nobody had any; otherwise of this worker */
    double loss;     /* summed over those */
} yk_step_result;

enum { YK_STALENESS_BUCKETS = 40 };

typedef struct {
    uint64_t observed; /* gradients looked at (all when steps are long, a sample when tiny) */
    uint64_t
        bucket[YK_STALENESS_BUCKETS]; /* 0, 1, 2-3, 4-7, ...: others' updates between its pull and its push */
    double mean, max;
    uint32_t hot;       /* keys with copies; 0: none */
    double merge_every; /* examples of a worker between merges of all of them, on average */
    uint64_t merges;
} yk_staleness;

yk_status yk_store_create(const yk_store_config *config, yk_store **out);
void yk_store_free(yk_store *s); /* NULL is fine */

yk_status yk_store_pull(yk_store *s, int me, const yk_batch *batch, yk_view *out);
/* For a server, whose store has one worker: the parameters of these keys, as fresh as they can be. */
void yk_store_read(yk_store *s, const uint32_t *key, size_t n, float *out);
yk_status yk_store_push(yk_store *s, int me, const yk_grad *g);
yk_status yk_store_clock(yk_store *s, int me, yk_step_result *out);
void yk_store_finish(yk_store *s, int me);

uint64_t
yk_store_steps(const yk_store *s); /* so far: rounds of all when synchronous, else updates of all workers */

/* A frozen look: all workers call settle, and then meet; until they meet again the table is still and complete, and
 * yk_store_table() shows it. After that meeting each calls resume. */
yk_status yk_store_settle(yk_store *s, int me);
yk_view yk_store_table(yk_store *s); /* weights with every pending change made */
yk_status yk_store_resume(yk_store *s, int me);

/* For checkpoints, while settled: what the state is made of; element order is that of inside keys. */
typedef struct {
    yk_view live;      /* weights as trained on, and the optimizer's state; [nparams] each */
    uint32_t *touched; /* [nparams] when each weight was last brought up to date (decay.c), or NULL */
} yk_store_state;

yk_store_state yk_store_raw(yk_store *s);
const yk_optim_rule *yk_store_rule(const yk_store *s);

/* After the arrays were filled in, from a checkpoint or by others: the number of steps that made them. No worker is inside. */
void yk_store_restore(yk_store *s, uint64_t steps);

/* While settled, or after the workers are done: of all of them, or of one. */
void yk_store_staleness(const yk_store *s, yk_staleness *out);
void yk_store_staleness_of(const yk_store *s, int worker, yk_staleness *out);

#endif
