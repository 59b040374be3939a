/* The internals of local SGD: local_sgd.c takes steps on a copy; local_sgd_replicas.c and local_sgd_shards.c begin and end
 * rounds. */
#ifndef YK_STORE_LOCAL_SGD_INTERNAL_H
#define YK_STORE_LOCAL_SGD_INTERNAL_H

#include "base/mem.h"
#include "store/copy.h"
#include "store/local_sgd.h"

/* The batches that a thread announced for a round: their indices in the request. */
typedef struct {
    size_t *index, n, cap;
} yk__announced;

typedef struct {
    _Alignas(YK_ALIGN) yk_batch batch; /* dense groups, or replicas: the next one */
    uint64_t cursor[YK_CURSOR_SIZE];
    bool announced;          /* dense groups, or replicas: announce() was called */
    bool exhausted;          /* no more batches until the epoch is over, or until others return theirs */
    yk__announced now, next; /* keyed groups on shards: for this round, and for the next one */
    yk_grad grad;
    uint64_t calls;    /* calls to clock() in this round */
    uint64_t examples; /* in this round */
} yk__sgd_worker;

/* The work of this process in a round. */
typedef struct {
    uint64_t steps, examples;
    double loss;
    yk_action action;
} yk__round_totals;

/* Replicas: the keys of keyed groups that changed since the last merge, and their values at that merge. */
typedef struct {
    yk_merger keys;
    size_t n;
    float *before[YK_MAX_GROUPS][1 + YK_MAX_SLOTS];
    size_t before_cap[YK_MAX_GROUPS][1 + YK_MAX_SLOTS];
    uint32_t *since; /* the step up to which each was decayed */
    size_t since_cap;
} yk__touched;

typedef struct yk__sgd yk__sgd;

/* Replicas or shards. Every thread calls the functions with `me`, and progress(). Only the first thread calls the others, while
 * the rest wait. */
typedef struct {
    yk_status (*create)(yk__sgd *s);
    void (*free)(yk__sgd *s);
    yk_status (*end)(yk__sgd *s); /* ends a round: merges the copies of all processes, and sets s->result */
    /* Optional. Without wants and batch, a thread announces a batch before each step, and uses it in this step. */
    size_t (*wants)(const yk__sgd *s, int me);
    yk_status (*announce)(yk__sgd *s, int me); /* s->worker[me].batch */
    yk_batch (*batch)(yk__sgd *s, int me);     /* of the next step */
    yk_status (*begin)(yk__sgd *s);            /* begins a round: makes the copy, and sets s->max */
    yk_status (*keys)(yk__sgd *s);             /* keyed groups: before a step changes the copy */
    bool (*done)(const yk__sgd *s);            /* no thread of this process has another batch for the round */
    yk_status (*progress)(yk__sgd *s);         /* during long computations */
    yk_status (*leave)(yk__sgd *s);            /* after the last step */
} yk__sgd_ops;

struct yk__sgd {
    yk_store base;
    const yk__sgd_ops *ops;
    yk_local_sgd_config config;
    bool keyed;
    yk_local *copy; /* steps are taken on it */
    yk__sgd_worker *worker;
    yk__round_totals totals;
    uint64_t max; /* calls to clock() in this round */
    bool open;    /* a round has begun */
    yk_step_result result;
    uint64_t *share; /* [workers] examples of each in this round */

    /* replicas */
    uint64_t step; /* global step at the beginning of the round */
    yk__touched touched;
    yk_copy_sums sums;
    char *out;
    size_t out_cap;
    const char **data; /* [ranks] the deltas of all */
    size_t *bytes;

    /* shards */
    size_t capacity;         /* of the copy, in keys */
    yk_remote_answer answer; /* no batches: the answer for the next round has not arrived */
};

/* The maximum number of steps of a round that begins with this step. With a quorum, the first step of a round is only an
 * estimate until it begins. */
static inline uint64_t yk__sgd_max_steps(const yk__sgd *s, uint64_t step)
{
    const uint64_t h = s->config.steps;
    if (!s->config.synchronous)
        return h;
    const uint64_t due = s->config.until_due(s->config.context, step), max = due < h ? due : h;
    return max || s->config.lockstep ? max : 1;
}

extern const yk__sgd_ops yk__sgd_replicas, yk__sgd_shards;

#endif
