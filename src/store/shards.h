/* Shards: parameter servers own the parameters. They are dedicated processes, or every process owns a part. This is the store
 * of a process that trains, on top of its connection to the servers (remote.h). It sends the gradient of each step, or takes up
 * to H steps on a copy of the parameters (local_copy.h), which is then merged:
 *
 *     lockstep       announce 0 | pull 0  grad 0  announce 1  push 0 + keys 1  clock: all have pushed 0 | pull 1 ...
 *     asynchronous   announce 0 | pull 0  grad 0  announce 1  push 0  clock: waits for nobody | pull 1 ...
 *     with keys      announce 0, 1 | pull 0  grad 0  push 0 + keys 1  announce 2  clock: finds keys 2 | pull 1 ...
 *     copies         announce 0 | pull 0  step step step step  announce 1  push delta 0 + keys 1 | pull 1  step step ...
 *     prefetched     announce 0, announce 1 | pull 0  step step  announce 2  push delta 0 + keys 2 | pull 1 (has arrived)  step ...
 *
 * In rounds, with local SGD, and if the model has a dense group, the threads of a process work together (`sums_workers`). They sum
 * their gradients in thread order, and each thread sends the sum to some of the servers; or they train synchronously on one copy.
 * So less is sent, and fewer gradients are in flight. Otherwise, each thread has its own channel.
 *
 * Local SGD: a round is shorter than H steps if an evaluation, a checkpoint or the end is due. In lockstep, all processes have the
 * same rounds, whose first step all know without a message. A process without batches takes part with zero examples, until no
 * process has any. Otherwise, learning rates and decay follow the servers' step count, and a process counts its own steps from there.
 *
 * Linear models in asynchronous mode (docs/convergence.md): each thread trains on its own copy of the keys of its next H batches, at
 * first of fewer (`scaled`). By default, two copies are in flight, so that a worker does not wait unless there is a staleness
 * bound. A bound K limits all copies of a worker in flight to K steps together. A worker sends the share of its delta that
 * optim/optim.h defines; T is the number of copies in flight, and the sum of squares is over the batches of the copy, so that the
 * frequencies of keys need not be known in advance. For data in memory, a copy holds one chunk (chunks.h), whose keys are found
 * once; a copy of fewer batches has only their keys. Lazy decay (local_decay.c) is applied by the servers: these copies do not decay.
 *
 * The servers' answers say when to stop and, in lockstep, when an epoch is over: after a round in which no worker had examples.
 * With a quorum, gradients are summed in rounds, but workers lease their examples and do not wait for each other (yk_remote_config
 * has `rounds` unset). clock() reports `pending` for all steps on a copy but the last. Each worker calls the store on its own thread.
 */
#ifndef YK_STORE_SHARDS_H
#define YK_STORE_SHARDS_H

#include "store/local.h"
#include "store/remote.h"

typedef struct {
    yk_remote *remote; /* borrowed, like all pointers here */
    yk_team *team;
    yk_phases *phases; /* [workers], or NULL */
    int workers;       /* threads of this process */
    bool sums_workers;
    bool stale[YK_MAX_GROUPS]; /* the rules for stale gradients apply to this group (local_stale.c) */
    double clip_norm;          /* 0: no limit */
    bool clips[YK_MAX_GROUPS]; /* this process clips the gradient of this group; otherwise its servers do */
    bool one_step; /* the gradient of all threads is one step of the job; otherwise one of each thread */
    /* Of all parameters, and of a copy of them; its keyed groups are as large as the copy needs. */
    yk_local_config whole;

    /* copies */
    uint64_t steps;      /* H; 0: gradients are sent */
    bool scaled;         /* they are merged with a share of their delta; otherwise with the mean */
    bool bounded;        /* there is a staleness bound */
    int depth;           /* copies in flight */
    yk_chunks *chunks;   /* data in memory: a scaled copy holds one chunk; NULL: any batches */
    uint64_t first_step; /* of this run: more than 0 if it was resumed */
    /* The number of steps from this one until an evaluation, a checkpoint or the end is due, which ends a round on copies. NULL:
     * that need not happen at a certain step. */
    uint64_t (*until_due)(void *context, uint64_t step);
    void *context;
} yk_shards_config;

yk_status yk_shards_create(const yk_shards_config *config, yk_store **out);

#endif
