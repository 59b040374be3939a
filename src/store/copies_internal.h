/* The internals of a store of copies: copies.c takes steps on them; copies_shards.c begins and ends rounds. */
#ifndef YK_STORE_COPIES_INTERNAL_H
#define YK_STORE_COPIES_INTERNAL_H

#include "base/mem.h"
#include "store/copies.h"
#include "store/copy.h"

typedef struct {
    _Alignas(YK_ALIGN) yk_batch batch; /* the last one that was announced */
    uint64_t cursor[YK_CURSOR_SIZE];
    bool announced; /* dense groups, or replicas: `batch` is for the next step */
    bool exhausted; /* no more batches until the epoch is over, or until others return theirs */
    bool held;      /* chunks: `batch` belongs to the next chunk, and is for the request after this one */
    uint32_t *held_pick;
    size_t held_cap;
    size_t target;     /* shards: batches of the next request */
    size_t n, at;      /* shards: its batches in this round; where to look for the next one in the answer */
    uint64_t calls;    /* calls to clock() in this round */
    uint64_t examples; /* in this round */
} yk__copy_worker;

/* A copy, and the threads that train on it. */
typedef struct {
    int first, end; /* threads */
    yk_local *local;
    size_t capacity; /* in keys */
    bool open;       /* a round has begun */
    uint64_t max;    /* calls to clock() in this round */
    struct {
        uint64_t steps, examples;
        double loss;
        yk_action action;
    } totals; /* of this round */
    yk_step_result result;

    /* shards */
    yk_remote_answer answer; /* no batches: the answer for the next round has not arrived */
    const yk_chunk *chunk;   /* of the batches in the next request */
    yk_merger scratch;
} yk__copy;

typedef struct yk__copies yk__copies;

/* Every thread calls the functions with `me`. Only the first thread of a copy calls the others, while the
 * rest wait. */
typedef struct {
    yk_status (*create)(yk__copies *s);
    void (*free)(yk__copies *s);
    size_t (*wants)(const yk__copies *s, int me);
    yk_status (*announce)(yk__copies *s, int me, const yk_batch *batch,
                          const uint64_t cursor[YK_CURSOR_SIZE]);
    yk_batch (*batch)(yk__copies *s, int me);       /* of the next step */
    yk_status (*begin)(yk__copies *s, yk__copy *c); /* begins a round: makes the copy, and sets c->max */
    yk_status (*keys)(yk__copies *s, yk__copy *c);  /* before a step changes the copy */
    bool (*done)(const yk__copies *s, const yk__copy *c); /* its threads have no more batches for the round */
    yk_status (*merge)(yk__copies *s, yk__copy *c);       /* ends a round, and sets c->result */
    yk_status (*leave)(yk__copies *s, yk__copy *c);       /* after the last step */
} yk__copies_ops;

struct yk__copies {
    yk_store base;
    const yk__copies_ops *ops;
    yk_copies_config config;
    bool keyed;
    yk__copy_worker *worker; /* [workers] */
    yk__copy *copy;          /* [1] if joint, else [workers] */
    uint64_t *share;         /* [workers] examples of each in this round */
};

/* The copy that a thread trains on. */
static inline yk__copy *yk__copy_of(const yk__copies *s, int me)
{
    return &s->copy[s->config.joint ? 0 : me];
}

/* The maximum number of steps of a round that begins with this step. With a quorum, the first step of a round is only an
 * estimate until it begins. */
static inline uint64_t yk__max_steps(const yk__copies *s, uint64_t step)
{
    const uint64_t h = s->config.steps;
    if (!s->config.synchronous)
        return h;
    const uint64_t due = s->config.until_due(s->config.context, step), max = due < h ? due : h;
    return max || s->config.lockstep ? max : 1;
}

extern const yk__copies_ops yk__copies_of_shards;

#endif
