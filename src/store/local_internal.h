/* Inside of the store in one process: shared by local.c (the verbs and clocks), table.c (gradients into a group's table),
 * hot.c (copies of hot keys), decay.c (what sparse weights missed while they were not touched) and staleness.c. */
#ifndef YK_STORE_LOCAL_INTERNAL_H
#define YK_STORE_LOCAL_INTERNAL_H

#include "base/mem.h"
#include "kern/linear.h"
#include "store/local.h"
#include <stdatomic.h>

enum { YK__HOT_TIER = 256, YK__HOT_RANGE = 4096 };

/* A worker's part of a table. */
typedef struct {
    _Alignas(YK_ALIGN) yk_view view; /* what the model and the update rule work on */
    yk_view copies;                  /* shared table and copies, for merging */
    yk_merger pairs;                 /* this worker's gradient, or the keys it pulls */
    yk_merger part;                  /* synchronous: its part of everybody's */
    yk_optim_step optim;

    /* hot.c: intervals in examples, and when they began */
    float *base[1 + YK_MAX_SLOTS];
    double tier_every, all_every, since_tier, since_all, timed_examples, ns_per_example;
    uint64_t timed_from, merges, merged_examples;
} yk__table_worker;

/* The parameters of a group. */
typedef struct {
    yk_local *store;
    yk_local_group config;
    size_t floats;
    uint32_t width; /* floats per key */
    const yk_optim_rule *rule;
    bool together;                  /* synchronous, and there are several workers: applied in clock() */
    float *block[1 + YK_MAX_SLOTS]; /* copies of all workers, then the shared array */
    yk_view shared;                 /* w and s of the shared arrays, no copies */
    uint32_t hot;                   /* keys with copies */
    size_t hot_pad;                 /* floats of a worker's copy */
    atomic_flag *hot_lock;
    uint32_t *touched; /* decay.c: [keys], NULL when nothing is to be caught up */
    float *decayed;    /* decay.c: [floats] weights with everything caught up */
    yk__table_worker *worker;
} yk__table;

typedef struct {
    /* what others read, on a line of its own */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t steps;
    atomic_bool finished;

    /* this worker's own */
    _Alignas(YK_ALIGN) yk_grad grad; /* pushed in this step */
    yk_batch announced;
    size_t wants; /* batches: 1 until one is announced */
    float *coef;
    size_t coef_cap;
    uint64_t own_steps, rounds, slowest_seen;
    uint64_t counted_at,
        counted; /* at which own step the steps of all were last counted, and how many they were */
    uint64_t stale_at_pull, next_sample;
    double stale_sum, stale_max;
    uint64_t stale_seen, stale_bucket[YK_STALENESS_BUCKETS];
} yk__worker;

struct yk_local {
    yk_store base; /* first: it is a store */
    yk_local_config config;
    const yk_linear_ops *kern;
    int ngroups;
    yk__table table[YK_MAX_GROUPS];
    yk__worker *worker;
    uint64_t restored_steps;
    bool lockstep;    /* a group is synchronous */
    uint64_t bound;   /* the least staleness bound of groups that are not; YK_ASYNC: none */
    bool hot, decays; /* a table has copies; has weights to catch up on */
    _Alignas(YK_ALIGN) atomic_int word_at[2]; /* lockstep: worker 0's word, by the parity of the round */
};

/* table.c: a gradient of this worker alone, onto what its view shows; then those of all, a part for each worker */
yk_status yk__table_create(yk__table *t, yk_local *s, const yk_local_group *config);
void yk__table_free(yk__table *t);
yk_status yk__table_apply_own(yk__table *t, int me);
yk_status yk__table_apply_part(yk__table *t, int me, size_t examples);
void yk__table_prepare(yk__table *t, int me, uint64_t step); /* the rates of this step */

/* hot.c */
yk_status yk__hot_create(yk__table *t);
void yk__hot_free(yk__table *t);
void yk__hot_step(yk__table *t, int me, size_t examples); /* merges when it is time */
void yk__hot_merge(yk__table *t, int me);                 /* all of them, now */
void yk__hot_refresh(yk__table *t, int me);

/* decay.c */
yk_status yk__decay_create(yk__table *t);
yk_status yk__decay_pull(yk__table *t, int me, const yk_batch *batch);
void yk__decay_read(yk__table *t, const uint32_t *key, size_t n);
void yk__decay_catch_up(yk__table *t, int me);
float yk__decayed(const yk__table *t, float w, uint32_t from,
                  uint32_t to); /* what steps from .. to - 1 leave of it */
uint32_t yk__decay_advance(yk__table *t, uint32_t key,
                           uint32_t to); /* up to date until `to`; since when it was */

/* staleness.c */
uint64_t yk__steps_of_others(const yk_local *s, int me);
void yk__record_staleness(yk_local *s, int me); /* at the end of a sampled step */

/* Whether the staleness of this step is recorded. That costs a cache miss per worker, so it is done every few thousand
 * examples, or in every step if steps are long. */
static inline bool yk__sampled(const yk_local *s, const yk__worker *w)
{
    return !s->lockstep && s->config.workers > 1 && w->own_steps == w->next_sample;
}

/* The step that a worker is in, of all workers together. Asynchronously they go on at about the same pace since all were
 * last counted; a worker that is slow, or was kept waiting, must not believe that the run is young. */
static inline uint64_t yk__global_step(const yk_local *s, const yk__worker *w)
{
    uint64_t per_round = s->lockstep ? 1 : (uint64_t)s->config.workers;
    return s->restored_steps + w->counted + (w->own_steps - w->counted_at) * per_round;
}

/* Which worker applies a key in synchronous mode. */
static inline int yk__part_of(uint32_t key, int parts)
{
    return (int)((uint64_t)(key * 0x9e3779b1u) * (uint32_t)parts >> 32);
}

#endif
