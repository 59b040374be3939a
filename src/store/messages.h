/* What workers and servers say to each other. A client is a process that trains. A message is a head and what follows it:
 *
 *     client to server, TAG_UP      | yk__up   | shares, 64 bytes [nshares] | values, f32 [npush] | keys, u32 [npull] |
 *     server to client, TAG_DOWN    | yk__down | values of the parameters, f32 [n] |
 *     server 0 to server, TAG_CTRL  | yk__up   | UP_ROUND: ranks of clients, u32 [npush] |
 *
 * One message up and one down make a step: the gradient of step t goes together with the keys of step t + depth, and the
 * answer brings their values. Depth is 1 where an answer must contain step t, as in lockstep. It is 2 where the parameters
 * of the next batch may be on their way while a batch is computed: for keyed groups, asynchronously.
 *
 *     lockstep       up: push 0, keys 1 ------>  all N are here: applied  ------> down: values 1        depth 1
 *     asynchronous   up: push 0, keys 2 ------>  applied at once  --------------> down: values 2        depth 2
 *                    (meanwhile the worker computes step 1 with values 1)
 *
 * Values are those of all parameter groups, one group after the other: of a keyed group those of the keys, of a dense one
 * all that the server has. A push has no keys: its values are in the order of the keys that were asked for, which the
 * server remembers.
 *
 * With local SGD (delta.h) a round is up to H steps that a client makes by itself, and depth is 1. Its keys are those of
 * all batches of the round. What comes down are weights and optimizer state, what goes up is how they have changed: each
 * array of a group follows the one before.
 *
 *     up: deltas of round 0, keys of round 1 ------>  synchronous: the mean of all N  ----> down: weights and state 1
 *                                                     asynchronous: 1/N of each at once
 *
 * The threads of a client make one gradient together (lockstep, local SGD), or each asks and pushes by itself, as a lane of
 * its own. A pull has the number  count of the lane * lanes + lane.  A share says which examples of a thread are in a push.
 *
 * Of a dense group a server has a contiguous piece. Of a keyed one it has
 *
 *     key k:  row = k / K,  server = (k + mix(row)) mod K,  its number there = row           K servers
 *
 * so that neighbours and the hottest keys are spread over all servers, whatever pattern there is in the keys.
 */
#ifndef YK_STORE_MESSAGES_H
#define YK_STORE_MESSAGES_H

#include "base/group.h"
#include "store/store.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK__TAG_UP = 8, YK__TAG_DOWN = 9, YK__TAG_SNAPSHOT = 10, YK__TAG_CTRL = 11 };
enum { YK__OUTSTANDING = 4 }; /* pulls of a lane that may be under way: more than the depth */

typedef enum {
    YK__UP_STEP = 1, /* push, pull, or both */
    YK__UP_LEASE,    /* which examples are next? to server 0 */
    YK__UP_LEAVE,    /* nothing more will come from this lane */
    YK__UP_SNAPSHOT, /* from server 0 to the others: send me all you have */
    YK__UP_END,      /* from server 0 to the others: the job is over */
    YK__UP_ALIVE,    /* a heartbeat; with YK__IDLE: the thread has no examples for now */
    YK__UP_HELLO,    /* from one that joins */
    YK__UP_ROUND,    /* from server 0 to the others, with a quorum: which clients' gradients a round uses */
} yk__up_kind;

enum {
    YK__HAS_PUSH = 1,
    YK__HAS_PULL = 2,
    YK__IDLE = 4,  /* it has nothing to do until it gets examples */
    YK__WANTS = 8, /* there is a batch: the answer must contain values */
    YK__LAST = 16  /* the final snapshot: all clients have left, and all they sent is in it */
};

typedef struct {
    uint32_t magic;
    uint16_t kind, flags;
    uint32_t pull, push_of; /* number of this pull; the pull whose keys the gradient is for */
    uint32_t npush, npull, nshares;
    uint32_t
        thread;     /* of the client: the first of the shares; that asks for examples; the lane that leaves */
    uint64_t round; /* lockstep: the round that the gradient is for */
    uint64_t examples;
    double loss;
    uint64_t hello; /* of one that joins: what it is */
    uint64_t steps; /* that the gradient, or the deltas, are made of; 0: nothing was left to train on */
    uint64_t spare[7];
} yk__up;

/* The examples of one thread in a push. */
typedef struct {
    uint64_t examples;
    uint32_t incarnation,
        newest; /* of the client when they were leased (yk__down): the first and the last of them */
    uint64_t cursor[YK_CURSOR]; /* of a stream: where the thread's reading stands once the gradient is used */
    uint64_t batches;
} yk__share;

typedef enum { YK__DOWN_VALUES = 1, YK__DOWN_LEASE, YK__DOWN_ALIVE, YK__DOWN_REFUSED } yk__down_kind;
enum {
    YK__STOP = 1,
    YK__LATER = 2
}; /* later: nothing to lease now, but others may give back what they have */

typedef struct {
    uint32_t magic;
    uint16_t kind, flags;
    uint32_t pull,
        n;          /* the pull that is answered; of a lease: the thread that asked, the unit of the order */
    uint64_t round; /* rounds that are over (lockstep), or updates so far */
    uint64_t examples; /* of that round; a lease: its epoch */
    double loss;
    uint64_t begin, end; /* a lease: positions; empty: there are no more */
    /* values: begin, ns that the gradient waited for others'; end, steps so far, of all */
    uint64_t
        incarnation; /* of the client: how often it was declared lost. Examples that an earlier one had leased went
                             to others */
} yk__down;

_Static_assert(sizeof(yk__up) == 128 && sizeof(yk__share) == 64 && sizeof(yk__down) == 64,
               "values begin on a cache line");

#define YK__MAGIC 0x796f6b65u

/* ---- which server has what ---- */

static inline uint32_t yk__mix32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return x;
}

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

/* The key that has this number on this server; may be beyond the last key. */
static inline uint64_t yk__key_of(uint32_t row, uint32_t server, uint32_t servers)
{
    const uint32_t turn = servers == 1 ? 0 : yk__mix32(row) % servers;
    return (uint64_t)row * servers + (server + servers - turn) % servers;
}

/* The keys of a keyed group on a server, or the floats of its piece of a dense one, which begins at *begin_out. */
static inline uint64_t yk__piece(const yk_group *g, int server, int servers, uint64_t *begin_out)
{
    const uint64_t k = (uint64_t)servers, i = (uint64_t)server;
    *begin_out = g->keyed ? 0 : g->keys * i / k / 16 * 16;
    if (g->keyed)
        return (g->keys + k - 1) / k;
    return (i + 1 == k ? g->keys : g->keys * (i + 1) / k / 16 * 16) - *begin_out;
}

/* ---- how values lie in a message ---- */

/* The groups of a job, as one server has them. */
typedef struct {
    int ngroups;
    struct {
        bool keyed;
        size_t each; /* floats: of a key, or of the whole piece; of one array */
        int arrays;  /* that travel: with local SGD the optimizer's state does */
    } group[YK_MAX_GROUPS];
} yk__layout;

static inline size_t yk__layout_floats(const yk__layout *l, int group, size_t keys)
{
    return (l->group[group].keyed ? keys : 1) * l->group[group].each * (size_t)l->group[group].arrays;
}

/* Floats of a message with so many keys. */
static inline size_t yk__layout_all(const yk__layout *l, size_t keys)
{
    size_t all = 0;
    for (int g = 0; g < l->ngroups; g++)
        all += yk__layout_floats(l, g, keys);
    return all;
}

#endif
