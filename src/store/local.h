/* The store of one process: all parameters, in tables that its threads share. A step is that of store.h.
 *
 * Each parameter group (core/group.h) is a table with its own optimizer and its own staleness bound K:
 *   0         synchronous. clock() waits for all workers. Gradients are added in worker order and applied once, divided by
 *             the number of all examples: the same bits every time. N workers with batch b equal one worker with batch N b,
 *             up to rounding.
 *   K         a worker that is more than K steps ahead of the slowest active worker waits before its next step.
 *   infinity  asynchronous: no worker waits.
 * With K > 0, push() updates the shared weights immediately and without locks, with two exceptions. Each worker has a copy of
 * the hottest keys and merges it periodically (local_hot.c), because if all cores write to the same cache lines, many cores are
 * slower than one. And a linear model on dense data is locked range by range (local_table.c). If one group has K = 0, all workers
 * take the same steps, and the other groups are updated immediately within these steps.
 *
 * Parameter servers also keep their parameters in such a store, and so do replicas (local_replica.c). Worker `me` calls every
 * function on its own thread, except create and free. Once a worker has seen its largest batch, its steps allocate no memory.
 */
#ifndef YK_STORE_LOCAL_H
#define YK_STORE_LOCAL_H

#include "base/team.h"
#include "core/keymap.h"
#include "core/observed.h"
#include "core/plan.h"
#include "optim/optim.h"
#include "store/store.h"
#include "watch/phase.h"
#include <stdatomic.h>

typedef struct {
    yk_group shape;
    yk_optim_config optim;
    uint64_t staleness;
    const yk_optim_range *range; /* dense: parameters with their own learning rate, ascending. Borrowed */
    size_t nranges;
} yk_local_group;

typedef struct {
    int ngroups;
    yk_local_group group[YK_MAX_GROUPS];
    yk_team *team; /* of several workers. Borrowed */
    int workers;
    size_t batch;            /* examples per worker */
    const yk_keymap *keymap; /* which keys are hot; NULL: none. Borrowed */
    double clip_norm;        /* 0: no limit */
    bool stale_rules;        /* the rules of local_stale.c apply to asynchronous gradients */
    bool linear;             /* the model is linear (local_stale.c) */
    bool staggered;          /* workers begin one after the other (local_stale.c) */
    uint64_t max_warm_up;    /* local_stale.c: steps, of dense groups */
    yk_phases *phases;       /* [workers] NULL: not measured. Borrowed */
    /* A replica (local_replica.c): sums over all ranks. NULL: there are no other ranks. Borrowed */
    struct yk_exchange *exchange;
    uint64_t local_steps; /* of a replica: H of local SGD; 0: gradients are summed in every step */
    /* Local SGD (also shards.h): the number of steps from this one until an evaluation, a checkpoint or the end is due. */
    uint64_t (*until_due)(void *context, uint64_t step);
    void *context;
    /* When true, a worker that waits for slower ones stops waiting, because all are about to enter a barrier. */
    const atomic_bool *interrupted;
} yk_local_config;

typedef struct yk_local yk_local;

/* local_stale.c: if workers begin one after the other, the number of steps of the job before this worker begins. */
uint64_t yk_steps_before(int worker);

/* local_stale.c: the number of steps of the warm-up, and the reduced momentum, with this many gradients in flight. */
uint64_t yk_warm_up_steps(int in_flight, uint64_t max);
float yk_reduced_momentum(float momentum, int in_flight);

/* A sample of the parameters of the dense group, taken when a worker read them (local_stale.c). */
enum { YK_SAMPLE = 1024 };
typedef struct yk_stale_mark {
    float sample[YK_SAMPLE];
} yk_stale_mark;

void yk_staleness_add(yk_staleness *s, uint64_t late); /* a gradient, with `late` updates of others */

yk_status yk_local_create(const yk_local_config *config, yk_local **out);
void yk_local_free(yk_local *s); /* NULL is fine */

/* The same as a store (store.h), whose functions take the steps; freed with it. */
yk_store *yk_local_store(yk_local *s);

/* For parameter servers: the number of gradients that workers compute at the same time, and the mark of the parameters that a
 * worker reads now (yk_grad.read_at). */
void yk_local_set_in_flight(yk_local *s, int gradients);
void yk_local_mark(const yk_local *s, yk_stale_mark *out);

/* --lr-schedule plateau: how often the learning rate was reduced so far. No worker may be in a call. reduce() first applies pending
 * decay at the previous rate; set() is for a store that was filled in. */
void yk_local_set_reductions(yk_local *s, uint32_t n);
void yk_local_reduce(yk_local *s, uint32_t n);
uint32_t yk_local_reductions(const yk_local *s);

/* Steps so far: rounds, or the updates of all workers. */
uint64_t yk_local_steps(const yk_local *s);

/* For a consistent view, all workers call quiesce and then wait at a barrier. Until the next barrier the tables are complete
 * and do not change; yk_local_table() returns them. Then each worker calls resume. */
yk_status yk_local_quiesce(yk_local *s, int me);
yk_view yk_local_table(yk_local *s, int group);  /* weights with all pending updates */
void yk_local_tables(yk_local *s, yk_view *out); /* [groups] */
yk_status yk_local_resume(yk_local *s, int me);

/* Takes the weights of a group out of the store, which can then only be freed. The caller passes them to yk_free(). NULL: they
 * are not in an array of their own. */
float *yk_local_take(yk_local *s, int group);

/* The state for checkpoints, while quiesced. Elements are in the order of internal ids. */
typedef struct {
    yk_view live; /* weights, and the optimizer's state; [floats] each */
    /* [keys] the step up to which the decay of each weight is applied (local_decay.c), or NULL. */
    uint32_t *touched;
    const yk_optim_rule *rule;
    const yk_group *shape;
} yk_local_state;

yk_local_state yk_local_raw(const yk_local *s, int group);
int yk_local_groups(const yk_local *s);

/* After the arrays were filled in (from a checkpoint, or by other processes): sets the step count. No worker may be in a
 * call. */
void yk_local_restore(yk_local *s, uint64_t steps);

/* While quiesced, or after the workers have finished: the staleness of a worker; -1: of all. */
void yk_local_staleness(const yk_local *s, int worker, yk_staleness *out);

#endif
