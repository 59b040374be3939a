/* The store of a process that trains on copies (copy.h) of parameters on shards. In a round, it takes up to H steps on a copy,
 * which is then merged.
 *
 *     rounds     announce 0 | pull 0  step step step step  announce 1  push delta 0 + keys 1 | pull 1  step step ...
 *     prefetched announce 0, announce 1 | pull 0  step step  announce 2  push delta 0 + keys 2 | pull 1 (has arrived)  step ...
 *
 * Local SGD: the threads of a process train synchronously on one copy (`joint`). It is fetched from the servers, and its delta is
 * sent back. A round is shorter if an evaluation, a checkpoint or the end is due. In lockstep, all processes have the same rounds. A process
 * without batches takes part with zero examples, until no process has any. All know the first step of a round without a message.
 * Otherwise, learning rates and decay follow the servers' step count: a process counts its own steps from there, and sees
 * those of others in the next round.
 *
 * Linear models in asynchronous mode: each thread trains on its own copy of the keys of its next batches (`scaled`), which is
 * old enough to be merged after H batches. By default, two copies are in flight, so that a worker does not wait unless there is
 * a staleness bound. A bound K limits all copies of a worker in flight to K steps together. One message per server carries
 * thousands of keys instead of those of one batch, each key once. At first, copies are shorter: all copies in flight together
 * have at most 1/64 of the examples so far. The weights move fast then, and copies that are old relative to the run slow it down
 * (docs/convergence.md). A worker sends the share of its delta that optim/optim.h defines; T is the number of copies in
 * flight, and the sum of squares is over the batches of the copy, so that the frequencies of keys need not be known in advance.
 * Without a bound, copies have no velocities (yk_optim_without_velocity). For data in memory, a copy holds one chunk (chunks.h),
 * whose keys are found once. A copy of fewer batches has only their keys. For a stream, keys are found in each batch. Lazy decay
 * (decay.c) is applied by the servers: these copies do not decay.
 *
 * clock() reports `pending` for all steps but the last of a round. Each worker calls the store on its own thread; of a joint copy,
 * the first thread sends and receives.
 */
#ifndef YK_STORE_COPIES_H
#define YK_STORE_COPIES_H

#include "store/local.h"
#include "store/remote.h"

typedef struct {
    yk_team *team;     /* borrowed, like all pointers here */
    yk_phases *phases; /* [workers], or NULL */
    int workers;       /* threads of this process */
    bool joint;        /* they train on one copy */
    bool scaled;    /* asynchronous: copies are merged with a share of their delta; otherwise with the mean */
    uint64_t steps; /* H */
    bool synchronous, lockstep;

    /* joint */
    uint64_t first_step; /* of this run: more than 0 if it was resumed */
    /* The number of steps from this one until an evaluation, a checkpoint or the end is due. */
    uint64_t (*until_due)(void *context, uint64_t step);
    void *context;

    yk_remote *remote;
    int depth;            /* copies in flight */
    bool bounded;         /* there is a staleness bound */
    yk_chunks *chunks;    /* data in memory: a scaled copy holds one chunk; NULL: any batches */
    yk_local_config copy; /* of all parameters; keyed groups are allocated as large as a copy needs */
} yk_copies_config;

yk_status yk_copies_create(const yk_copies_config *config, yk_store **out);

#endif
