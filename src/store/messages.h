/* The messages between clients and servers. A client is a process that trains; a server owns a shard of the parameters. A
 * message is a header and its data:
 *
 *     client to server, TAG_UP      | yk__up   | shares, 64 bytes [nshares] | values, f32 [npush] | keys, u32 [npull] |
 *     server to client, TAG_DOWN    | yk__down | values of the parameters, f32 [n] |
 *     server 0 to server, TAG_CTRL  | yk__up   | UP_ROUND: ranks of clients, u32 [npush] |
 *     server to server, TAG_SQUARES | f64: the squares of its sums of this round (--clip-norm) |
 *
 * A step takes one message up and one down: the gradient of step t travels with the keys of step t + 1, and the answer
 * contains their values (shards.h).
 *
 * A message has values of all parameter groups that the server owns a part of, one after another: for a keyed group, the values
 * of the keys; for a dense group, all values that the server owns. A push contains no keys: its values are in the order of the
 * keys that were pulled, which the server remembers.
 *
 * If clients train on copies (local_copy.h), weights and optimizer state travel down, deltas up. The arrays of a group are
 * consecutive. The threads of a client pull and push together, or each in its own channel. The number of a pull is
 * count of the channel * channels + channel.  A share describes the examples of one thread in a push.
 *
 * Each group has its own placement: the processes that own a part of it. Usually every server owns a part of every group. With
 * K dedicated servers, some groups can be replicated instead. The N processes that train then own these groups, and are
 * servers for each other:
 *
 *     --servers        dedicated servers, ranks 0 .. K-1    processes that train, ranks K .. K+N-1
 *     K                all groups                           none
 *     keyed=K,dense=0  keyed groups                         dense groups
 *     keyed=0,dense=K  dense groups                         keyed groups
 *     linear=0,v=K     all groups but linear                the group linear
 *
 * Each owner sums the gradients of its piece, updates it, and sends it. For a dense group, this is a reduce-scatter and an all-gather, that is, an all-reduce with the update in the middle. For a
 * keyed group, it is the same with only the keys of the batches.
 *
 * An owner has a contiguous piece of a dense group. The keys of a keyed group are assigned to its owners by
 *
 *     key k:  row = k / K,  owner = (k + mix(row)) mod K,  its index there = row            K owners, from first_owner
 *
 * so that adjacent keys and the hottest keys are distributed over all owners, whatever the pattern of the keys.
 */
#ifndef YK_STORE_MESSAGES_H
#define YK_STORE_MESSAGES_H

#include "comm/comm.h"
#include "core/group.h"
#include "store/store.h"

enum { YK__TAG_UP = 8, YK__TAG_DOWN = 9, YK__TAG_SNAPSHOT = 10, YK__TAG_CTRL = 11, YK__TAG_SQUARES = 7 };
enum { YK__MAX_OUTSTANDING = 4 }; /* outstanding pulls of a channel: more than the depth */

typedef enum {
    YK__UP_STEP = 1, /* push, pull, or both */
    YK__UP_LEASE,    /* to server 0: requests examples */
    YK__UP_LEAVE,    /* leave message: the channel sends no more; server 0 answers with an empty lease */
    YK__UP_SNAPSHOT, /* from server 0 to the others: requests their parameters */
    YK__UP_END,      /* from server 0 to the others: the job is over */
    YK__UP_ALIVE,    /* a heartbeat; with YK__IDLE: the thread has no examples for now */
    YK__UP_JOIN,     /* the first message of a worker that joins */
    YK__UP_ROUND, /* from server 0 to the others, with a quorum: the clients whose gradients a round uses */
} yk__up_kind;

enum {
    YK__HAS_PUSH = 1,
    YK__HAS_PULL = 2,
    YK__IDLE = 4,      /* the thread has nothing to do until it gets examples */
    YK__WANTS = 8,     /* there is a batch: the answer must contain values */
    YK__LAST = 16,     /* the final snapshot: all clients have left, and it includes everything they sent */
    YK__EVALUATES = 32 /* a snapshot of only the parameters that an evaluation reads */
};

/* The flags of an answer of server 0, and of the next push to any server, also have the number of reductions of the learning rate
 * (--lr-schedule plateau): all servers apply a reduction after the same round. */
enum { YK__REDUCTIONS_SHIFT = 8 };

typedef struct {
    uint32_t magic;
    uint16_t kind, flags;
    uint32_t pull, push_of; /* number of this pull; number of the pull whose keys the gradient has */
    uint32_t npush, npull, nshares;
    /* of the client: that of the first share, the one that requests examples, or the channel that leaves */
    uint32_t thread;
    uint64_t round; /* of the gradient */
    uint64_t examples;
    double loss;
    uint64_t identity; /* UP_JOIN: a digest of program, options, data and model */
    uint64_t steps;    /* in the gradient, or in the deltas; 0: there were no examples */
    /* UP_LEASE of streamed data: the stream that the thread returns, plus 1 (0: none); its cursor after the last batch, without
     * the last number; its next epoch */
    uint64_t stream, last[YK_CURSOR_SIZE - 1], next_epoch;
    double extra_weight; /* as in a gradient (core/grad.h) */
} yk__up;

/* The examples of one thread in a push. */
typedef struct {
    uint64_t examples;
    uint32_t incarnation, newest; /* of the client when the first and the last of them were leased */
    /* Streamed data: the cursor of the thread after these examples (data/streams.h). */
    uint64_t cursor[YK_CURSOR_SIZE];
    uint64_t batches;
} yk__share;

typedef enum { YK__DOWN_VALUES = 1, YK__DOWN_LEASE, YK__DOWN_ALIVE, YK__DOWN_REFUSED } yk__down_kind;
enum {
    YK__STOP = 1,
    /* No lease for now, but perhaps later: others may return theirs, or messages of a stream are in flight. */
    YK__RETRY_LATER = 2,
    YK__STREAM = 4, /* the lease is a stream */
    YK__ORPHANS = 8 /* there are streams without a worker */
};

typedef struct {
    uint32_t magic;
    uint16_t kind, flags;
    uint32_t pull, n;  /* the pull that is answered; a lease: the thread, and chunk_rows (data/feed.h) */
    uint64_t round;    /* completed rounds */
    uint64_t examples; /* of the last round; a lease: its epoch */
    uint64_t unused;
    /* values: ns that the gradient waited for those of others; global steps so far
     * a lease: its range; empty: there are no more examples
     * a stream: its number is `n`, its cursor is round, examples, begin, end */
    union {
        uint64_t begin, waited;
    };
    union {
        uint64_t end, steps;
    };
    /* of the client: how often it was declared lost. Leases of earlier incarnations went to other workers */
    uint32_t incarnation;
    uint32_t workers; /* values: threads of all clients that train now */
} yk__down;

_Static_assert(sizeof(yk__up) == 128 && sizeof(yk__share) == 64 && sizeof(yk__down) == 64,
               "values begin on a cache line");

#define YK__MAGIC 0x796f6b65u

/* ---- which server owns what ---- */

static inline uint32_t yk__mix32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return x;
}

/* The owner of a key, counted from the first owner of its group, and the key's row there. */
static inline uint32_t yk__server_of(uint32_t key, uint32_t servers, uint32_t *row_out)
{
    if (servers == 1) {
        *row_out = key;
        return 0;
    }
    const uint32_t row = key / servers;
    *row_out = row;
    return (key % servers + yk__mix32(row) % servers) % servers;
}

/* The key of this row of this owner; may be beyond the last key. */
static inline uint64_t yk__key_of(uint32_t row, uint32_t server, uint32_t servers)
{
    const uint32_t turn = servers == 1 ? 0 : yk__mix32(row) % servers;
    return (uint64_t)row * servers + (server + servers - turn) % servers;
}

/* ---- the layout of values in a message ---- */

/* The groups of a job, as stored on one server. */
typedef struct {
    int ngroups;
    struct {
        bool keyed;
        size_t each; /* floats of one array: of a key, or of the whole piece; 0: it owns no part */
        int arrays;  /* number of arrays that are sent: with local SGD, also the optimizer's state */
    } group[YK_MAX_GROUPS];
} yk__layout;

static inline yk__layout yk__layout_of(const yk_group *group, int ngroups, const int *arrays, int server)
{
    yk__layout l = {.ngroups = ngroups};
    for (int g = 0; g < ngroups; g++) {
        const uint64_t piece = yk_group_piece(&group[g], server, &(size_t){0}).keys;
        l.group[g].keyed = group[g].keyed;
        l.group[g].each = group[g].keyed && piece ? group[g].width : (size_t)piece;
        l.group[g].arrays = arrays[g];
    }
    return l;
}

static inline size_t yk__layout_floats(const yk__layout *l, int group, size_t keys)
{
    return (l->group[group].keyed ? keys : 1) * l->group[group].each * (size_t)l->group[group].arrays;
}

/* The number of floats in a message with this many keys. */
static inline size_t yk__layout_all(const yk__layout *l, size_t keys)
{
    size_t all = 0;
    for (int g = 0; g < l->ngroups; g++)
        all += yk__layout_floats(l, g, keys);
    return all;
}

/* Counts the values of a message with this many keys, which was sent. */
static inline void yk__count_values(yk_comm *c, const yk__layout *l, size_t keys)
{
    for (int g = 0; g < l->ngroups; g++)
        yk_comm_counted(c)->values_sent[g] += yk__layout_floats(l, g, keys) * sizeof(float);
}

#endif
