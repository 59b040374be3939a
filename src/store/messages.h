/* What workers and servers say to each other. A message is a head and what follows it:
 *
 *     worker to server, TAG_UP      | yk__up   | values of the gradient, f32 [npush] | keys that are wanted, u32 [npull] |
 *     server to worker, TAG_DOWN    | yk__down | values of the parameters, f32 [n] |
 *     server 0 to server, TAG_UP    | yk__up   | UP_ROUND: ranks of workers, u32 [npush] |
 *
 * One message up and one down make a step: the gradient of step t goes together with the keys of step t + depth, and the
 * answer brings their values. Depth 1 in step, where those must contain step t; otherwise 2, so that the next
 * parameters are on their way while a batch is computed.
 *
 *     in step     up: push 0, keys 1 ------>  all N are here: applied  ------> down: values 1        depth 1
 *     otherwise   up: push 0, keys 2 ------>  applied at once  --------------> down: values 2        depth 2
 *                 (meanwhile the worker computes step 1 with values 1)
 *
 * With local steps (changes.h) a round is up to H steps that a worker makes by itself, and depth is 1: its keys are those of all
 * batches of the round; what comes down are weights and optimizer state, what goes up is how they have changed, each as
 * arrays one after the other: | weights [n] | state 0 [n] | state 1 [n] |.
 *
 *     up: changes of round 0, keys of round 1 ------>  in step: the mean of all N  ------> down: weights and state 1
 *                                                      otherwise: 1/N of each at once
 *
 * A gradient has no keys: its values are in the order of the keys that were asked for, which the server remembers. Of a
 * dense model a server has a contiguous piece, and all of it is wanted always. Of a sparse one it has
 *
 *     key k:  row = k / K,  server = (k + mix(row)) mod K,  its number there = row           K servers
 *
 * so that neighbours and the hottest keys are spread over all servers, whatever pattern there is in the keys.
 */
#ifndef YK_STORE_MESSAGES_H
#define YK_STORE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK__TAG_UP = 8, YK__TAG_DOWN = 9, YK__TAG_SNAPSHOT = 10, YK__TAG_HELLO = 11, YK__TAG_PLACE = 12 };
enum { YK__PLACE = 5 };       /* numbers that say where a worker of a stream is (data/feed.h) */
enum { YK__OUTSTANDING = 4 }; /* pulls of a worker that may be under way: more than the depth */

typedef enum {
    YK__UP_STEP = 1, /* push, pull, or both */
    YK__UP_DEAL,     /* which examples are next? to server 0 */
    YK__UP_BYE,      /* nothing more will come from this worker */
    YK__UP_SNAPSHOT, /* from server 0 to the others: send me all you have */
    YK__UP_END,      /* from server 0 to the others: the job is over */
    YK__UP_ALIVE,    /* waits for another server, or is in the middle of local steps */
    YK__UP_HELLO,    /* from one that joins */
    YK__UP_ROUND,    /* from server 0 to the others, with a quorum: which workers' gradients a round uses */
} yk__up_kind;

enum {
    YK__HAS_PUSH = 1,
    YK__HAS_PULL = 2,
    YK__IDLE = 4
}; /* idle: it has nothing to do until it gets examples */

typedef struct {
    uint32_t magic;
    uint16_t kind, flags;
    uint32_t pull, push_of; /* number of this pull; the pull whose keys the gradient is for */
    uint32_t npush, npull;
    uint64_t round; /* in step: the round that the gradient is for */
    uint64_t examples;
    double loss;
    uint64_t place[YK__PLACE]; /* of a stream: where this worker's reading stands once the gradient is used */
    uint64_t life;             /* of the worker, when the gradient's examples were dealt; see yk__down */
    uint64_t hello;            /* of one that joins: what it is */
    uint64_t steps; /* that the gradient, or the changes, are made of; 0: nothing was left to train on */
    uint64_t spare[2];
} yk__up;

typedef enum { YK__DOWN_VALUES = 1, YK__DOWN_DEAL, YK__DOWN_ALIVE, YK__DOWN_REFUSED } yk__down_kind;
enum {
    YK__STOP = 1,
    YK__LATER = 2
}; /* later: nothing to deal now, but others may give back what they have */

typedef struct {
    uint32_t magic;
    uint16_t kind, flags;
    uint32_t pull, n;
    uint64_t round;    /* rounds that are over (in step), or updates so far */
    uint64_t examples; /* of that round; a deal: the run's epoch */
    double loss;
    uint64_t begin, end; /* a deal: positions; empty: there are no more */
    /* values: begin, ns that the gradient waited for others'; end, steps so far, of all */
    uint64_t
        life; /* of the worker: how often it was given up. Examples of an earlier life were dealt to others */
} yk__down;

_Static_assert(sizeof(yk__up) == 128 && sizeof(yk__down) == 64, "values begin on a cache line");

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

static inline size_t yk__piece_begin(size_t nparams, int server, int servers)
{
    return nparams * (size_t)server / (size_t)servers / 16 * 16;
}

/* How many parameters a server has. */
static inline size_t yk__piece_size(size_t nparams, bool sparse, int server, int servers)
{
    if (sparse)
        return (nparams + (size_t)servers - 1) / (size_t)servers;
    return (server + 1 == servers ? nparams : yk__piece_begin(nparams, server + 1, servers)) -
           yk__piece_begin(nparams, server, servers);
}

#endif
