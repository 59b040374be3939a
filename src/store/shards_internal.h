/* The internals of a client: shards.c receives and waits, shards_send.c sends, shards_keys.c builds requests, shards_steps.c takes
 * steps with gradients, and shards_copies.c takes steps on copies. */
#ifndef YK_STORE_SHARDS_INTERNAL_H
#define YK_STORE_SHARDS_INTERNAL_H

#include "base/arena.h"
#include "base/mem.h"
#include "base/sync.h"
#include "store/local_copy.h"
#include "store/messages.h"
#include "store/shards.h"
#include <stdatomic.h>

enum { YK__QUEUE_SIZE = 8 }; /* messages of a channel to a server in flight */

/* The batches of one thread in a request. */
typedef struct {
    _Alignas(YK_ALIGN) size_t batches;
    const yk_chunk *whole; /* its keys are all keys of this chunk; NULL: `part_keys` */
    const yk_rows *rows;   /* of the batches; their index[] are indices into the keys of the request */
    yk_rows copied;        /* these rows, unless they are those of a whole chunk */
    uint32_t *pick;        /* the rows of all batches */
    struct {
        size_t end;     /* in `pick` */
        uint64_t noise; /* of the batch, as it was added */
    } * batch;          /* [batches] */
    size_t pick_cap, batch_cap;
    yk_chunk part_keys; /* the keys of `copied` */
    uint32_t
        *at; /* [part_keys.nkeys] the indices of these keys in the request; not used if it has one part */
    size_t at_cap;
    uint32_t bias; /* the index of the bias in the request */
} yk__part;

/* A request for the parameters of one or more batches. */
typedef struct {
    atomic_int missing; /* servers that have not answered yet */
    uint32_t number;
    uint64_t requested_at, bytes; /* ns; bytes of the answers; for the timeline */
    yk__part *part;               /* [threads of the channel] */
    bool keys_found;              /* yk__shards_find_keys() is done: `batches` .. `united` are valid */
    size_t batches;               /* of all parts */
    const yk_chunk *keys; /* to pull: a chunk of the data, those of the only part, or `united`; NULL: none */
    yk_chunk keys_elsewhere; /* the same keys, sorted by their owners in groups with another placement */
    yk_chunk united;         /* the keys of several parts; without squares */
    uint32_t *elsewhere_at;  /* [nkeys] the index of each of these among `keys`; then scratch */
    size_t elsewhere_cap;
    yk_inbox *answer; /* [servers] messages, until the channel awaits them */
    float *w;         /* the groups, one after the other */
    size_t w_cap;
    /* Where each group begins: [arrays][keys or floats]; the channel may modify them until its push. */
    float *value[YK_MAX_GROUPS];
    yk__share *share; /* [threads of the channel] incarnations and cursor of its batches */
} yk__request;

/* The messages of a channel to one server: a ring buffer. The channel increments `queued`; the thread that calls yk_shards_pump()
 * increments `sent` and `done`. */
typedef struct {
    struct yk__message {
        char *data;
        size_t bytes, cap;
        yk_purpose purpose;
        size_t pushed_keys; /* the number of keys whose values it contains */
        yk_op op;
    } message[YK__QUEUE_SIZE];
    yk_mutex lock; /* of new messages: several threads of a channel may send them */
    atomic_uint queued, done;
    unsigned sent;
} yk__queue;

/* Threads that send together. */
typedef struct {
    _Alignas(YK_ALIGN) yk__request slot[YK__MAX_OUTSTANDING];
    int first, end;              /* threads */
    uint32_t requested, awaited; /* requests so far */
    yk__request *current;        /* the one that the channel computes with */
    yk__request *open;           /* the one that batches are added to, until it is sent; NULL: none */
    yk__request *sending;        /* with the current push; NULL: none */
    yk_merger *keys;             /* [threads of the channel] of the parts of `open` */
    yk_merger *united;           /* [servers] with several threads: the keys of all parts, by their owner */
    /* instead of `keys`, if `open` has some batches of a chunk; by index in the chunk: */
    const yk_chunk *chunk;
    unsigned char *used; /* 1: a key of these batches */
    float *squares;      /* sums of squared values; 0 for the other keys */
    uint32_t *used_at;   /* the index among the keys of these batches; not set for the others */
    size_t used_cap, squares_cap, used_at_cap;
    yk_mutex lock;    /* of `open` */
    yk__queue *queue; /* [servers] */

    /* the step, or round */
    yk__down status; /* of the servers, from the last answer of server 0 */
    yk__up totals;   /* of the gradients or deltas that are pushed */
    uint64_t *share; /* [threads] examples of each */
    /* what is pushed, as in a request; not read if there are no examples */
    const float *value[YK_MAX_GROUPS];
    bool sends;    /* `totals`: there are examples, or servers expect it in this round */
    bool asks;     /* push() also requests the parameters of the next batches */
    bool complete; /* the keys of the next step are known: a thread without a batch does nothing in it */
    double idle_seconds; /* how long it has waited for examples */
    yk_step_result result;
    float *sum[YK_MAX_GROUPS]; /* gradients of several threads: [keys][width], or dense: [floats] */
    size_t cap[YK_MAX_GROUPS];

    /* copies */
    yk_local *local;            /* NULL: none yet */
    size_t capacity;            /* in keys */
    bool answered;              /* the values for the next round have arrived */
    bool training;              /* a round has begun */
    uint64_t max;               /* steps of the round */
    const yk_chunk *next_chunk; /* of the batches in the next request */
} yk__channel;

/* A thread. */
typedef struct {
    /* its leases */
    _Alignas(YK_ALIGN) atomic_int pending; /* 1: a lease was requested */
    bool ready, idle;
    yk__down lease; /* the last one */
    uint32_t
        lease_incarnation; /* the incarnation of this process when the current lease of the feed was granted */

    /* The last batch that was announced. Empty: there are no more, or none for now. */
    _Alignas(YK_ALIGN) yk_batch batch;
    uint64_t cursor[YK_CURSOR_SIZE];
    bool announced; /* `batch` is not used yet */

    /* gradients */
    yk_batch now;    /* of this step, as it was announced */
    bool keys_found; /* the keys of `batch` are found */
    bool taken;      /* `now` is already the batch of the next step: push() has sent its keys */
    bool answered;   /* clock() has waited for the answer of the next pull */
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
} yk__thread;

/* The connection to a server. */
typedef struct {
    int peer;
    yk__layout layout; /* of values in messages */
    yk_inbox in;
    yk_op alive_op;
    double last_message;
    atomic_int pending_answers; /* requests that it has not answered yet */
    int left;                   /* channels whose leave message, their last message, was sent */
} yk__connection;

struct yk_shards {
    yk_store base; /* first: it is a store */
    yk_shards_config config;
    const yk_plan *plan;
    yk_arena memory;     /* of the arrays that do not grow */
    uint64_t copy_steps; /* H; 0: gradients are sent */
    yk_local_config whole;
    yk_chunks *chunks;
    /* The servers that own keys. [0]: of the first keyed group; [1]: of keyed groups with another placement. n: 0 if there are
     * none. */
    struct {
        int first, n;
    } owners[2];
    yk__connection *server;
    yk__channel *channel;
    yk__thread *thread;
    atomic_uint waiting; /* messages that are queued or in flight */
    atomic_uint activity, activity_seen;
    _Atomic uint64_t incarnation; /* of this process */
    atomic_bool stopped, failed, orphans;
    int arrays[YK_MAX_GROUPS]; /* that are sent: 1, or with copies also the optimizer's state */
    double heartbeat_at;
    int join_replies;
};

static inline yk_shards *yk__shards_of(yk_store *s)
{
    return (yk_shards *)(void *)s;
}

static inline yk__channel *yk__channel_of(const yk_shards *s, int thread)
{
    return &s->channel[s->plan->channels > 1 ? thread : 0];
}

static inline int yk__threads_of(const yk__channel *c)
{
    return c->end - c->first;
}

/* Requests that were not awaited yet. */
static inline int yk__outstanding(const yk__channel *c)
{
    return (int)(c->requested - c->awaited);
}

/* The number of keys of the current request. */
static inline size_t yk__keys_of(const yk__channel *c)
{
    return c->current->keys ? c->current->keys->nkeys : 0;
}

static inline uint32_t yk__reductions_of(uint16_t flags)
{
    return flags >> YK__REDUCTIONS_SHIFT;
}

/* The job ends: no more training. In rounds, clock() reports it. */
static inline bool yk__channel_stopped(const yk_shards *s, const yk__channel *c)
{
    return c->status.flags & YK__STOP && !s->plan->lockstep;
}

/* shards.c */
/* Waits until *missing is 0. */
yk_status yk__shards_wait(yk_shards *s, const atomic_int *missing, const char *what);
/* During long computations: sends and receives messages, if there is no progress thread. */
yk_status yk__shards_progress(yk_shards *s);
/* Waits for the answer to the oldest outstanding request, which becomes the current one. */
yk_status yk__shards_await(yk_shards *s, yk__channel *c);

/* shards_send.c */
yk_status yk__shards_send_queued(yk_shards *s); /* called by yk_shards_pump() */
/* The number of keys of the request on server k. */
size_t yk__shards_keys_on(const yk_shards *s, const yk__request *a, int k);
/* Copies the values of all groups on server k from a message, or into one. */
void yk__shards_move(const yk_shards *s, int k, const yk__request *a, float *const *values, float *message,
                     bool in);
yk_status yk__shards_pull(yk_shards *s, yk__channel *c); /* sends the open request, without a push */
/* Sends the gradient or delta of the channel, and the next request. The first thread begins; then, after a barrier, thread `me` of
 * `all` sends the messages to some servers. */
yk_status yk__shards_begin_push(yk_shards *s, yk__channel *c);
yk_status yk__shards_push_part(yk_shards *s, yk__channel *c, int me, int all);
/* Awaits outstanding answers, then sends a leave message: this channel sends nothing more, and its unused examples go to
 * others. */
yk_status yk__shards_leave(yk_shards *s, yk__channel *c);

/* shards_keys.c */
/* Adds a batch to the next request. `chunk`: the chunk of its rows (chunks.h), the same for all batches of a request; NULL: its
 * rows contain keys, not indices into a chunk. whole: the request is for all keys of the chunk. Otherwise it is only for the
 * keys of its batches, and sparse batches are copied. */
yk_status yk__shards_add(yk_shards *s, int thread, const yk_batch *batch, const yk_chunk *chunk, bool whole,
                         const uint64_t cursor[YK_CURSOR_SIZE]);
void yk__shards_count_batch(yk_shards *s, yk__request *a, int thread, const uint64_t cursor[YK_CURSOR_SIZE]);
size_t yk__shards_added(const yk__channel *c);                /* batches of the open request */
size_t yk__shards_added_by(const yk__channel *c, int thread); /* the same, of this thread */
/* The batch that a thread added as its `i`th, with remapped keys. */
yk_batch yk__shards_batch(const yk__channel *c, int thread, size_t i);
/* Finds the keys of the open request, at the latest when it is sent. Thread `me` of `all` does its part; there must be a barrier
 * between two stages. */
enum { YK__STAGES = 3 };
yk_status yk__shards_find_keys(yk_shards *s, yk__channel *c, int stage, int me, int all);
yk_status yk__shards_close(yk_shards *s, yk__channel *c, yk__request **out); /* the request gets its number */
/* Memory for so many floats, and for a vector after them. Does not keep the contents. */
yk_status yk__shards_reserve(float **array, size_t *cap, size_t floats);
void yk__request_fini(yk__request *a, int parts, int servers);

/* shards_steps.c: runs `what` in the first thread of a channel, while the others wait. */
yk_status yk__shards_once(yk_shards *s, int me, yk_status (*what)(yk_shards *s, yk__channel *c));
/* Requests the next batches, if any thread has one and no request is outstanding; awaits the answer if there is a request. */
yk_status yk__shards_ask(yk_shards *s, yk__channel *c);
/* After a push: sets c->result. If the channel had no examples: `pending` if it has some for the next step, or, after a short
 * sleep, if there may be some later (its threads are idle then); else `over`. */
yk_status yk__shards_end_step(yk_shards *s, yk__channel *c);

/* shards_copies.c */
yk_status yk__copies_create(yk_shards *s);
size_t yk__copies_wants(const yk_store *store, int me);
yk_status yk__copies_announce(yk_store *store, int me, const yk_batch *batch,
                              const uint64_t cursor[YK_CURSOR_SIZE]);
yk_status yk__copies_pull(yk_store *store, int me, yk_batch *batch_out, yk_view *view_out);
yk_status yk__copies_push(yk_store *store, int me, const yk_grad *g);
yk_status yk__copies_clock(yk_store *store, int me, yk_action action, yk_step_result *out);

#endif
