/* Local SGD: a process trains on a copy of the parameters for up to H steps, a round, and then the copies of all processes
 * are merged. It wraps replicas, where the copy is the replica itself and rounds end with a mean over all ranks, or shards,
 * where the copy is fetched from the servers and its delta is sent back (copy.h).
 *
 *     replicas   | step step step step | mean of all | step step step step | mean of all | ...
 *     shards     announce 0 | pull 0  step step step step  announce 1  push delta 0 + keys 1 | pull 1  step step ...
 *
 * The threads of a process train synchronously on its copy. A round is shorter if an evaluation, a checkpoint or the end is
 * due. clock() reports `pending` for all steps but the last of a round.
 *
 * In lockstep, all processes have the same rounds. A process without batches takes part with zero examples, until no process
 * has any. All know the first step of a round without a message. Otherwise, learning rates and decay follow the servers' step
 * count: a process counts its own steps from there, and sees those of others in the next round.
 *
 * Each worker calls the store on its own thread; the first thread of a process sends and receives.
 */
#ifndef YK_STORE_LOCAL_SGD_H
#define YK_STORE_LOCAL_SGD_H

#include "store/exchange.h"
#include "store/local.h"
#include "store/remote.h"

typedef struct {
    yk_team *team;       /* borrowed, like all pointers here */
    yk_phases *phases;   /* [workers], or NULL */
    int workers;         /* threads */
    uint64_t steps;      /* H */
    uint64_t first_step; /* of this run: more than 0 if it was resumed */
    bool synchronous, lockstep;
    uint32_t bias_key; /* the key of the bias of keyed groups; UINT32_MAX: none */
    /* The number of steps from this one until an evaluation, a checkpoint or the end is due. */
    uint64_t (*until_due)(void *context, uint64_t step);
    void *context;

    /* replicas */
    yk_exchange *exchange;
    yk_local *local;

    /* shards */
    yk_remote *remote;
    yk_local_config copy; /* of all parameters; keyed groups are allocated as large as a round needs */
} yk_local_sgd_config;

yk_status yk_local_sgd_create(const yk_local_sgd_config *config, yk_store **out);

#endif
