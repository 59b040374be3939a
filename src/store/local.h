/* Inside of the store in one process: shared by local.c (the three verbs), hot.c (copies of hot keys), decay.c (what
 * sparse weights missed while they were not touched) and staleness.c (how stale the weights are). */
#ifndef YK_STORE_LOCAL_H
#define YK_STORE_LOCAL_H

#include "base/mem.h"
#include "kern/linear.h"
#include "store/store.h"
#include <stdatomic.h>

enum { YK__HOT_TIER = 256, YK__HOT_RANGE = 4096 };

typedef struct {
    /* what others read, on a line of its own */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t steps;
    atomic_bool finished;

    /* this worker's own */
    _Alignas(YK_ALIGN) yk_view view; /* what the model and the update rule work on */
    yk_view copies;                  /* shared table and copies, for merging */
    yk_grad grad;                    /* pushed in this step */
    yk_merger pairs;                 /* this worker's gradient, or the keys it pulls */
    yk_merger part;                  /* synchronous: its part of everybody's */
    float *coef;
    size_t coef_cap;
    yk_optim_step optim;

    uint64_t own_steps, slowest_seen;
    uint64_t counted_at,
        counted; /* at which own step the steps of all were last counted, and how many they were */
    uint64_t stale_at_pull, next_sample;
    double stale_sum, stale_max;
    uint64_t stale_seen, stale_bucket[YK_STALENESS_BUCKETS];

    /* hot.c: intervals in examples, and when they began */
    float *base[1 + YK_MAX_SLOTS];
    double tier_every, all_every, since_tier, since_all, timed_examples, ns_per_example;
    uint64_t timed_from, merges, merged_examples;
} yk__worker;

struct yk_store {
    yk_store_config config;
    const yk_optim_rule *rule;
    const yk_linear_ops *kern;
    float *block[1 + YK_MAX_SLOTS]; /* copies of all workers, then the shared array */
    yk_view shared;                 /* w and s of the shared arrays, no copies */
    uint32_t hot, hot_pad;
    atomic_flag *hot_lock;
    yk__worker *worker;
    uint64_t restored_steps;
    uint32_t *touched; /* decay.c: [nparams], NULL when nothing is to be caught up */
    float *settled;    /* decay.c: [nparams] weights with everything caught up */
};

/* hot.c */
yk_status yk__hot_create(yk_store *s);
void yk__hot_free(yk_store *s);
void yk__hot_step(yk_store *s, yk__worker *w, size_t examples); /* merges when it is time */
void yk__hot_merge(yk_store *s, yk__worker *w);                 /* all of them, now */
void yk__hot_refresh(yk_store *s, yk__worker *w);

/* decay.c */
yk_status yk__decay_create(yk_store *s);
yk_status yk__decay_pull(yk_store *s, int me, const yk_batch *batch);
void yk__decay_read(yk_store *s, const uint32_t *key, size_t n);
void yk__decay_settle(yk_store *s, int me);
float yk__decayed(const yk_store *s, float w, uint32_t from,
                  uint32_t to); /* what steps from .. to - 1 leave of it */
uint32_t yk__decay_advance(yk_store *s, uint32_t key,
                           uint32_t to); /* up to date until `to`; since when it was */

/* staleness.c */
uint64_t yk__steps_of_others(const yk_store *s, int me);
void yk__record_staleness(yk_store *s, int me); /* at the end of a sampled step */

/* Whether the staleness of this step is recorded. That costs a cache miss per worker, so it is done every few thousand
 * examples, or in every step if steps are long. */
static inline bool yk__sampled(const yk_store *s, const yk__worker *w)
{
    return s->config.staleness != 0 && s->config.workers > 1 && w->own_steps == w->next_sample;
}

/* The step that a worker is in, of all workers together. Asynchronously they go on at about the same pace since all were
 * last counted; a worker that is slow, or was kept waiting, must not believe that the run is young. */
static inline uint64_t yk__global_step(const yk_store *s, const yk__worker *w)
{
    uint64_t per_round = s->config.staleness == 0 ? 1 : (uint64_t)s->config.workers;
    return s->restored_steps + w->counted + (w->own_steps - w->counted_at) * per_round;
}

/* The rule on parameters first .. first + n of a dense model, each with the rates of its group. */
static inline void yk__apply_dense(const yk_store *s, const yk_view *v, size_t first, size_t n,
                                   const float *g, float scale, const yk_optim_step *o)
{
    for (size_t at = first, end; at < first + n; at = end) {
        const yk_optim_step own = yk_optim_in_group(o, s->config.group, s->config.ngroups, at, &end);
        end = end < first + n ? end : first + n;
        s->rule->dense(v, at, end - at, g + (at - first), scale, &own);
    }
}

/* Which worker applies a key in synchronous mode. */
static inline int yk__part_of(uint32_t key, int parts)
{
    return (int)((uint64_t)(key * 0x9e3779b1u) * (uint32_t)parts >> 32);
}

#endif
