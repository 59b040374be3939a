/* The internals of the store on shards: shards.c sends gradients, shards_copies.c takes steps on copies. */
#ifndef YK_STORE_SHARDS_INTERNAL_H
#define YK_STORE_SHARDS_INTERNAL_H

#include "base/mem.h"
#include "kern/linear.h"
#include "store/local_copy.h"
#include "store/shards.h"

/* A thread. */
typedef struct {
    /* The last batch that was announced. Empty: there are no more, or none for now. */
    _Alignas(YK_ALIGN) yk_batch batch;
    uint64_t cursor[YK_CURSOR_SIZE];
    bool announced; /* `batch` is not used yet */

    /* gradients */
    yk_batch now;  /* of this step, as it was announced */
    bool found;    /* the keys of `batch` are found */
    bool taken;    /* `now` is already the batch of the next step: push() has sent its keys */
    bool answered; /* clock() has waited for the answer of the next pull */
    yk_grad grad;
    float *sum[YK_MAX_GROUPS]; /* keyed groups: the gradient, [keys][width] */
    size_t cap[YK_MAX_GROUPS];

    /* copies */
    bool exhausted; /* no more batches until the epoch is over, or until others return theirs */
    bool held;      /* chunks: `batch` belongs to the next chunk, and is for the request after this one */
    uint32_t *held_pick;
    size_t held_cap;
    size_t target;  /* batches of the next request */
    size_t n, at;   /* its batches in this round; where to look for the next one in the answer */
    uint64_t calls; /* calls to clock() in this round */
} yk__shards_worker;

/* Threads that send together, and what they send. */
typedef struct {
    int first, end;          /* threads */
    yk_remote_answer answer; /* copies: no batches: the answer for the next round has not arrived */
    uint64_t *share;         /* [threads] examples of each in this step or round */
    yk_remote_pushed pushed;
    bool sends; /* `pushed`: there are examples, or servers expect it in this round */
    bool asks;  /* push() also requests the parameters of the next batches */
    bool
        complete; /* the keys of the next step are known: a thread without a batch for it does nothing then */
    yk_step_result result;

    float *sum[YK_MAX_GROUPS]; /* gradients of several threads: [keys][width], or dense: [floats] */
    size_t cap[YK_MAX_GROUPS];

    yk_local *local;       /* the copy; NULL: none yet */
    size_t capacity;       /* in keys */
    bool open;             /* a round has begun */
    uint64_t max;          /* calls to clock() in this round */
    const yk_chunk *chunk; /* of the batches in the next request */
    yk_merger scratch;
} yk__channel;

typedef struct {
    yk_store base;
    yk_shards_config config;
    const yk_linear_ops *kern;
    bool keyed;
    bool rounds; /* all processes take part in every round (remote.h) */
    int nchannels;
    yk__shards_worker *worker; /* [workers] */
    yk__channel *channel;      /* [nchannels] 1 if sums_workers, else one per worker */
} yk__shards;

static inline yk__shards *yk__shards_of(yk_store *s)
{
    return (yk__shards *)(void *)s;
}

static inline yk__channel *yk__channel_of(const yk__shards *s, int me)
{
    return &s->channel[s->config.sums_workers ? 0 : me];
}

/* The job ends: no more training. In rounds, clock() reports it. */
static inline bool yk__channel_stopped(const yk__shards *s, const yk__channel *c)
{
    return c->answer.status.stop && !s->rounds;
}

/* shards.c: runs `what` in the first thread of a channel, while the others wait. */
yk_status yk__shards_once(yk__shards *s, int me, yk_status (*what)(yk__shards *s, yk__channel *c));
/* Awaits the answer to the next request, if any thread has a batch. */
yk_status yk__shards_await(yk__shards *s, yk__channel *c);
/* After c->pushed was sent, or if there are no examples: sets c->result. */
yk_status yk__shards_end_step(yk__shards *s, yk__channel *c);

/* shards_copies.c */
yk_status yk__copies_create(yk__shards *s);
size_t yk__copies_wants(const yk_store *store, int me);
yk_status yk__copies_announce(yk_store *store, int me, const yk_batch *batch,
                              const uint64_t cursor[YK_CURSOR_SIZE]);
yk_status yk__copies_pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out);
yk_status yk__copies_push(yk_store *store, int me, const yk_grad *g);
yk_status yk__copies_clock(yk_store *store, int me, yk_action action, yk_step_result *out);

#endif
