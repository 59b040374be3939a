/* The internals of the store of one process, shared by local.c (pull, push, clock), local_table.c (applies gradients to the table
 * of a group), local_hot.c (copies of hot keys), local_decay.c (lazy weight decay), local_stale.c (stale gradients) and
 * local_replica.c (sums of all ranks). */
#ifndef YK_STORE_LOCAL_INTERNAL_H
#define YK_STORE_LOCAL_INTERNAL_H

#include "base/arena.h"
#include "base/mem.h"
#include "kern/linear.h"
#include "store/local.h"

enum { YK__HOTTEST = 2048, YK__HOT_RANGE = 256 }; /* local_hot.c: the hottest keys; floats under one lock */

/* The lock of a range of floats. On its own cache line. */
typedef struct {
    _Alignas(YK_ALIGN) atomic_flag lock;
} yk__hot_range;

/* A worker's part of a table. */
typedef struct {
    _Alignas(YK_ALIGN) yk_view view; /* what the model and the update rule work on */
    yk_merger pairs;                 /* this worker's gradient, or the keys it pulls */
    /* The next three are for the sums of all workers' gradients (`summed` in local_table.c).
     * This worker's gradient, ordered by the worker that applies each pair: */
    _Alignas(YK_ALIGN) struct yk__parts {
        size_t cap_keys, cap_values;
        size_t *begin; /* [workers + 1] */
        uint32_t *key;
        float *value;
    } parts; /* read by others */
    /* [frequent] this worker's gradient of the frequent keys; read by others. */
    float *sum_of_frequent;
    _Alignas(YK_ALIGN) yk_merger sum; /* the sum of the pairs that this worker applies */
    yk_optim_step optim;
    float warm_up; /* local_stale.c: the factor in `optim` */

    /* local_hot.c */
    float *base; /* [arrays][hot_pad] the copy after the last merge */
    /* merge intervals in examples */
    double hottest_every, all_every, since_hottest, since_all;
    uint64_t merges, merged_examples, merged_steps, steps_since_all;

    /* local_decay.c: the keys of a batch without copies; local_table.c: the keys of a row that are not frequent. */
    uint32_t *cold;
    size_t cold_cap;
    float *cold_value; /* local_table.c: their values */
    size_t cold_value_cap;
} yk__table_worker;

typedef struct {
    yk_stale_mark before;
    float factor;
} yk__stale_step;

typedef struct yk__table yk__table;

/* How the gradients of workers are applied to a table. */
typedef struct {
    yk_status (*push)(yk__table *t, int me); /* a worker's gradient */
    /* At the end of a step of all workers: applies a part of the sum of their gradients. NULL: push() applied them. */
    yk_status (*clock)(yk__table *t, int me, double weight);
    /* Adds the squares of what push(), or this worker in clock(), is about to apply. Only with clip_norm. */
    yk_status (*squares)(yk__table *t, int me, double *sum);
} yk__table_ops;

/* The parameters of a group. */
struct yk__table {
    yk_local *store;
    yk_local_group config;
    size_t floats;
    uint32_t width; /* floats per key */
    const yk_optim_rule *rule;
    const yk__table_ops *ops;
    bool concurrent;       /* several workers update it at any time */
    yk_view shared;        /* w and s of the shared arrays, which follow the copies of all workers */
    uint32_t hot;          /* keys with copies */
    size_t hot_pad;        /* floats of a worker's copy */
    uint64_t hot_lifetime; /* steps between merges, at most; YK_ASYNC: no limit */
    double hot_examples;   /* the same in examples */
    uint32_t frequent;     /* keys whose gradients are summed in arrays (local_table.c); 0: none */
    yk__hot_range *range;  /* locks of hot keys, or of a linear model on dense data; NULL: no locks */
    uint32_t *touched;     /* local_decay.c: [keys]; NULL: no lazy decay */
    float *decayed;        /* local_decay.c: [floats] weights with their decay applied */
    bool stale_rules;      /* local_stale.c: its rules apply if several gradients are in flight */
    /* local_stale.c: some parameters of a network, [YK_SAMPLE] or [floats]; NULL: not needed. */
    size_t *sample;
    double squared_step; /* moving mean of the squared length of an unscaled step of it; 0: none yet */
    yk__table_worker *worker;
};

typedef struct {
    /* read by others, on its own cache line */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t steps;
    atomic_bool finished;

    /* this worker's own */
    _Alignas(YK_ALIGN) yk_grad grad; /* pushed in this step */
    float clip;                      /* its factor (--clip-norm) */
    double squares;                  /* of the part of the sum that this worker applies; read by others */
    yk_batch announced;
    size_t wants; /* batches: 1 until one is announced */
    float *coef;
    yk_stale_mark *mark;                     /* local_stale.c: taken at the last pull; NULL: not needed */
    uint64_t own_steps, calls, slowest_seen; /* calls: of clock_step() */
    /* this worker's step at which the steps of all workers were last counted, and their number */
    uint64_t counted_at, counted;
    uint64_t stale_at_pull, next_sample;
    yk_staleness stale;
    /* local_replica.c, local SGD: calls to clock() in this round, and what it did */
    uint64_t round_calls;
    yk_step_result round;
} yk__worker;

struct yk_local {
    yk_store base; /* first: it is a store */
    yk_local_config config;
    yk_arena memory; /* of the arrays that do not grow */
    const yk_linear_ops *kern;
    int ngroups;
    yk__table table[YK_MAX_GROUPS];
    yk__worker *worker;
    uint64_t restored_steps;
    int in_flight; /* local_stale.c: gradients that are computed at the same time; 0 or 1: none is stale */
    bool
        rounds; /* a group is synchronous: all workers take the same steps, and a table sums their gradients */
    bool sums;  /* gradients are summed at the end of a step: those of several workers, or of all ranks */
    int clocks;     /* workers whose steps are counted: all, or one if they take them together */
    uint64_t bound; /* steps that a worker may be ahead of the slowest; YK_ASYNC: any number */
    bool decays;    /* a table has lazy decay */
    bool marks;     /* local_stale.c: workers mark the parameters that they read */
    /* The request of worker 0, by the parity of the round. */
    _Alignas(YK_ALIGN) atomic_int action_at[2];
    /* local_replica.c */
    float *sum;           /* of the gradients of several workers */
    yk_step_result round; /* local SGD: the last one */
};

/* local.c: waits for all workers at the end of a step. count_last: counts how often each worker was the last one. */
yk_status yk__local_barrier(yk_local *s, int me, bool count_last);

/* local_table.c */
yk_status yk__table_create(yk__table *t, yk_local *s, const yk_local_group *config);
void yk__table_free(yk__table *t);
void yk__table_prepare(yk__table *t, int me, uint64_t step); /* the learning rate of this step */

/* local_hot.c */
void yk__hot_create(yk__table *t);
uint64_t yk__hot_bound(const yk__table *t); /* steps that a worker may be ahead of the slowest */
void yk__hot_step(yk__table *t, int me, size_t steps, size_t examples); /* merges if the interval is over */
void yk__hot_merge(yk__table *t, int me);                               /* all hot keys, now */
void yk__hot_refresh(yk__table *t, int me);
/* Calls what() for ranges of floats begin .. end - 1, each while it is locked. Each worker begins with a different one, so that they
 * do not wait for each other. */
typedef void (*yk__range_fn)(yk__table *t, int me, size_t from, size_t to, const void *context);
void yk__each_range(yk__table *t, int me, size_t begin, size_t end, yk__range_fn what, const void *context);

/* local_stale.c */
void yk__stale_create(yk__table *t);
float yk__stale_adjust(const yk__table *t, uint64_t step, yk_optim_step *o); /* returns the warm-up */
bool yk__stale_revises(const yk__table *t); /* whether gradients need the parameters that were read */
/* Before and after the dense gradient of a worker is applied. begin() returns the factor of the learning rate. */
float yk__stale_begin(yk__table *t, int me, yk__stale_step *out);
void yk__stale_end(yk__table *t, int me, const yk__stale_step *s);
uint64_t yk__steps_of_others(const yk_local *s, int me);
void yk__record_staleness(yk_local *s, int me); /* at the end of a sampled step */

/* local_decay.c */
void yk__decay_create(yk__table *t);
yk_status yk__decay_pull(yk__table *t, int me, const yk_batch *batch); /* the keys of a worker's batch */
void yk__decay_keys(yk__table *t, uint32_t now, const uint32_t *key, size_t n); /* not those with copies */
void yk__decay_hot(yk__table *t, size_t begin, size_t end, uint32_t now);       /* which are locked */
void yk__decay_catch_up(yk__table *t, int me);
void yk__decay_apply(yk__table *t); /* of all keys, while no worker is in a call */
/* The weight after the decay of steps from .. to - 1. */
float yk__decayed(const yk__table *t, float w, uint32_t from, uint32_t to);
/* Marks a key as decayed up to step `to`; returns the previous step. */
uint32_t yk__decay_advance(yk__table *t, uint32_t key, uint32_t to);

/* local_replica.c */
bool yk__replica_sums(const yk_local_config *c); /* gradients of all ranks, in every step */
yk_status yk__replica_sum(yk_local *s, int me);  /* the gradient of worker 0 becomes that sum */
/* Local SGD, after a step of this process: ends the round if it is over. */
yk_status yk__replica_end_step(yk_local *s, int me, yk_action action, const yk_step_result *one,
                               yk_step_result *out);

/* Whether the staleness of this step is recorded. It costs a cache miss per worker, so it is recorded every few thousand
 * examples, or in every step if steps are long. */
static inline bool yk__sampled(const yk_local *s, const yk__worker *w)
{
    return s->clocks > 1 && w->own_steps == w->next_sample;
}

/* The global step that a worker is in, extrapolated from the last count of all workers' steps, so that a slow worker does not
 * use the learning rate of an earlier step. */
static inline uint64_t yk__global_step(const yk_local *s, const yk__worker *w)
{
    return s->restored_steps + w->counted + (w->own_steps - w->counted_at) * (uint64_t)s->clocks;
}

/* Which worker applies the sum of a key. All weights of a cache line are applied by the same worker. */
static inline int yk__part_of(uint32_t key, int parts)
{
    return (int)((uint64_t)((key >> 4) * 0x9e3779b1u) * (uint32_t)parts >> 32);
}

#endif
