/* The internals of a client: remote.c receives and waits, remote_send.c sends, remote_batch.c builds requests. */
#ifndef YK_STORE_REMOTE_INTERNAL_H
#define YK_STORE_REMOTE_INTERNAL_H

#include "base/mem.h"
#include "base/sync.h"
#include "core/keys.h"
#include "store/messages.h"
#include "store/remote.h"
#include <stdatomic.h>

enum { YK__QUEUE_SIZE = 8 }; /* messages of a channel to a server in flight */

/* The batches of one thread in a request. */
typedef struct {
    _Alignas(YK_ALIGN) size_t batches;
    yk_batch dense;        /* without keyed groups: the batch itself */
    const yk_chunk *whole; /* its keys are all keys of this chunk; NULL: `found` */
    const yk_rows *rows;   /* of the batches; their index[] are indices into the keys of the request */
    yk_rows copied;        /* these rows, unless they are those of a whole chunk */
    uint32_t *pick;        /* the rows of all batches */
    struct {
        size_t end;     /* in `pick` */
        uint64_t noise; /* of the batch, as it was added */
    } * batch;          /* [batches] */
    size_t pick_cap, batch_cap;
    yk_chunk found; /* the keys of `copied` */
    uint32_t *at;   /* [found.nkeys] the indices of these keys in the request; not used if it has one part */
    size_t at_cap;
    uint32_t bias; /* the index of the bias in the request */
} yk__part;

/* A request for the parameters of one or more batches. */
typedef struct {
    atomic_int missing; /* servers that have not answered yet */
    uint32_t number;
    uint64_t requested_at, bytes; /* ns; bytes of the answers; for the timeline */
    yk__part *part;               /* [threads of the channel] */
    bool found;                   /* the next three are set */
    size_t batches;               /* of all parts */
    const yk_chunk *keys; /* to pull: a chunk of the data, those of the only part, or `united`; NULL: none */
    yk_chunk others;      /* the same keys, sorted by their owners in groups with another placement */
    yk_chunk united;      /* the keys of several parts; without squares */
    uint32_t *others_at;  /* [nkeys] the index of each of these among `keys` */
    size_t others_cap;
    yk_inbox *answer;                /* [servers] messages, until the channel awaits them */
    float *w;                        /* the groups, one after the other: [arrays][keys or floats] */
    size_t w_cap, at[YK_MAX_GROUPS]; /* where each group begins */
    yk__share *share;                /* [threads of the channel] incarnations and cursor of its batches */
    yk_remote_status status;
} yk__request;

/* The messages of a channel to one server: a ring buffer. The channel increments `queued`, the thread that pumps the other
 * two. */
typedef struct {
    struct yk__message {
        char *data;
        size_t bytes, cap;
        yk_purpose purpose;
        size_t pull_bytes;  /* of these: keys, which are counted under another purpose */
        size_t pushed_keys; /* the number of keys whose values it contains */
        yk_op op;
    } message[YK__QUEUE_SIZE];
    yk_mutex lock; /* of new messages: several threads of a channel may send them */
    atomic_uint queued, done;
    unsigned sent;
} yk__queue;

typedef struct {
    _Alignas(YK_ALIGN) yk__request slot[YK__MAX_OUTSTANDING];
    uint32_t requested, awaited; /* requests so far */
    yk__request *current;        /* the one that the channel computes with */
    yk__request *open;           /* the one that batches are added to, until it is sent; NULL: none */
    yk__request *sending;        /* with the current push; NULL: none */
    yk_merger *keys;             /* [threads of the channel] of the parts of `open` */
    yk_merger *united;           /* [servers] with several threads: the keys of all parts, by their owner */
    /* instead of `keys`, if `open` has some batches of a chunk; by index in the chunk: */
    const yk_chunk *chunk;
    float *squares;    /* sums of squared values; 0: not in these batches */
    uint32_t *used_at; /* the index among the keys of these batches */
    size_t squares_cap, used_cap;
    yk_mutex lock;    /* of `open` */
    yk__queue *queue; /* [servers] */
} yk__remote_channel;

/* The leases of a thread. */
typedef struct {
    atomic_int pending; /* 1: it was requested */
    bool ready, idle;
    yk__down lease;   /* the last one */
    uint32_t used_by; /* the incarnation of this process when the lease that the feed has was leased */
} yk__leases;

/* The connection to a server. */
typedef struct {
    int peer;
    yk__layout layout; /* of values in messages */
    yk_inbox in;
    yk_op alive_op;
    double last_message;
    atomic_int pending_answers; /* answers that it has not sent yet */
    int left;                   /* channels whose leave message was sent: it is their last one */
} yk__connection;

struct yk_remote {
    yk_remote_config config;
    /* The servers that own keys. [0]: of the first keyed group; [1]: of keyed groups with another placement. n: 0 if there are
     * none. */
    struct {
        int first, n;
    } owners[2];
    yk__connection *server;
    yk__remote_channel *channel;
    yk__leases *leases;  /* [threads] */
    atomic_uint waiting; /* messages that are queued or in flight */
    atomic_uint activity, activity_seen;
    _Atomic uint64_t incarnation; /* of this process */
    atomic_bool stopped, failed, orphans;
    yk__up alive;
    double heartbeat_at;
    int join_replies;
};

/* remote.c: waits until no answers are missing */
yk_status yk__remote_wait(yk_remote *r, const atomic_int *missing, const char *what);

/* remote_send.c */
yk_status yk__remote_send_queued(yk_remote *r);                             /* in the thread that pumps */
size_t yk__remote_keys_on(const yk_remote *r, const yk__request *a, int k); /* number, on server k */
/* Copies the values of all groups on server k from a message, or into one. */
void yk__remote_move(const yk_remote *r, int k, const yk__request *a, float *const *values, float *message,
                     bool in);

/* remote_batch.c */
yk__request *yk__request_open(yk_remote *r, yk__remote_channel *l); /* the open one, or a new one; locked */
yk_status yk__request_add(yk_remote *r, yk__remote_channel *l, yk__part *p, const yk_batch *b,
                          const yk_chunk *chunk, bool whole);
yk_status yk__request_close(yk_remote *r, int channel, yk__request **out); /* assigns its number */
void yk__request_fini(yk__request *a, int parts, int servers);

/* The number of threads of a channel. */
static inline int yk__remote_shares(const yk_remote *r)
{
    return r->config.threads / r->config.channels;
}

#endif
