/* The store of one process: all parameters, in tables that its threads share.
 *
 *     yk_local *s;
 *     st = yk_local_create(&config, &s);
 *     each worker, each step:
 *         yk_local_pull(s, me, &batch, view);       // parameters as fresh as the mode asks for; view: [groups]
 *         model->grad(..., view, &batch, &grad);
 *         yk_local_push(s, me, &grad);
 *         yk_local_clock(s, me, &result);           // the step is over
 *     yk_local_finish(s, me);                       // no more steps from this worker
 *
 * Each group of parameters (base/group.h) is a table with an optimizer and a staleness bound K of its own:
 *   0         synchronous. clock() waits for all; gradients are added in worker order and applied once, divided by the
 *             examples of all. The same bits every time. N workers of batch b equal one worker of batch N b, to rounding.
 *   K         no worker is more than K steps ahead of the slowest one that still works.
 *   infinity  asynchronous: nobody waits.
 * With K > 0 push() changes the shared weights at once and without locks. The hottest keys (all, of a small dense group)
 * are the exception: each worker has its own copy and merges it now and then (hot.c), because cache lines that all cores
 * write make many cores slower than one. If one group is synchronous, workers make the same steps, and those of the other
 * groups are applied at once within them.
 *
 * Servers and replicas keep their parameters in such a store, too. Every function is called by worker `me` on its own
 * thread, except create and free. A step allocates nothing once the largest batch was seen.
 */
#ifndef YK_STORE_LOCAL_H
#define YK_STORE_LOCAL_H

#include "base/keymap.h"
#include "base/plan.h"
#include "base/thread.h"
#include "optim/optim.h"
#include "store/store.h"
#include "watch/phase.h"
#include <stdatomic.h>

typedef struct {
    yk_group shape;
    yk_optim_config optim;
    uint64_t staleness;
    const yk_optim_range *range; /* dense: parameters with rates of their own, ascending. Borrowed */
    size_t nranges;
} yk_local_group;

typedef struct {
    int ngroups;
    yk_local_group group[YK_MAX_GROUPS];
    yk_team *team; /* of the workers, if there are several. Borrowed */
    int workers;
    size_t batch;            /* per worker, as asked for */
    const yk_keymap *keymap; /* which keys are hot (names are inside ones); NULL: none. Borrowed */
    float mean_square;       /* dense: expected square of an input; 0: no copies, workers share all */
    float norm;              /* expected sum of the squares of all inputs of an example */
    yk_phases *phases;       /* [workers] waiting and applying are told apart; NULL: not measured. Borrowed */
    const atomic_bool
        *interrupted; /* when true, a worker that waits for slower ones stops waiting: all are about to
                                       meet at a barrier */
} yk_local_config;

typedef struct yk_local yk_local;

enum { YK_STALENESS_BUCKETS = 40 };

typedef struct {
    uint64_t observed; /* gradients looked at (all when steps are long, a sample when tiny) */
    uint64_t
        bucket[YK_STALENESS_BUCKETS]; /* 0, 1, 2-3, 4-7, ...: others' updates between its pull and its push */
    double mean, max;
    uint32_t hot;       /* keys with copies, of the group that has most of them; 0: none */
    double merge_every; /* examples of a worker between merges of all of them, on average */
    uint64_t merges;
} yk_staleness;

yk_status yk_local_create(const yk_local_config *config, yk_local **out);
void yk_local_free(yk_local *s); /* NULL is fine */

/* The same as a store (store.h); freed with it. */
yk_store *yk_local_store(yk_local *s);

yk_status yk_local_pull(yk_local *s, int me, const yk_batch *batch, yk_view *out);
yk_status yk_local_push(yk_local *s, int me, const yk_grad *g);
yk_status yk_local_clock(yk_local *s, int me, yk_step_result *out);
void yk_local_finish(yk_local *s, int me);

/* For a server, whose store has one worker: the weights of these keys of a keyed group, up to date. out: [n][width] */
void yk_local_read(yk_local *s, int group, const uint32_t *key, size_t n, float *out);

uint64_t
yk_local_steps(const yk_local *s); /* so far: rounds of all when synchronous, else updates of all workers */

/* A consistent view: all workers call quiesce, then wait at a barrier. Until the next barrier the tables are complete
 * and do not change; yk_local_table() returns them. Then each calls resume. */
yk_status yk_local_quiesce(yk_local *s, int me);
yk_view yk_local_table(yk_local *s, int group);  /* weights with every pending change made */
void yk_local_tables(yk_local *s, yk_view *out); /* [groups] */
yk_status yk_local_resume(yk_local *s, int me);

/* For checkpoints, while quiesced: what the state is made of; element order is that of inside keys. */
typedef struct {
    yk_view live;      /* weights as trained on, and the optimizer's state; [floats] each */
    uint32_t *touched; /* [keys] when each weight was last brought up to date (decay.c), or NULL */
} yk_local_state;

yk_local_state yk_local_raw(yk_local *s, int group);
const yk_optim_rule *yk_local_rule(const yk_local *s, int group);
int yk_local_groups(const yk_local *s);
const yk_group *yk_local_group_of(const yk_local *s, int group);

/* After the arrays were filled in, from a checkpoint or by others: the number of steps that made them. No worker is inside. */
void yk_local_restore(yk_local *s, uint64_t steps);

/* While quiesced, or after the workers are done: of all of them, or of one. */
void yk_local_staleness(const yk_local *s, yk_staleness *out);
void yk_local_staleness_of(const yk_local *s, int worker, yk_staleness *out);

#endif
