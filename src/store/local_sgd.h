/* Local SGD: a process trains on a copy of the parameters for up to H steps, a round, and then the copies of all processes
 * are merged. Wraps replicas, where the copy is the replica itself and rounds end with a mean over all, or shards, where it
 * is fetched from the servers, and how it has changed is sent back (delta.h).
 *
 *     replicas   | step step step step | mean of all | step step step step | mean of all | ...
 *     shards     announce 0 | pull 0  step step step step  announce 1  push delta 0 + keys 1 | pull 1  step step ...
 *
 * The threads of a process train together, synchronously, on its copy. A round is shorter where an evaluation, a checkpoint
 * or the end is due. clock() says `pending` for all steps but the last of a round.
 *
 * In lockstep everybody makes the same rounds; whoever has no batches left takes part with nothing, until nobody has any.
 * All know the first step of a round without asking. Otherwise the servers' count goes into learning rates
 * and decay: a process counts its own steps on from it, and sees those of others in the next round.
 */
#ifndef YK_STORE_LOCAL_SGD_H
#define YK_STORE_LOCAL_SGD_H

#include "store/exchange.h"
#include "store/local.h"
#include "store/remote.h"

typedef struct {
    yk_team *team;       /* borrowed, as all pointers here */
    yk_phases *phases;   /* [workers], or NULL */
    int workers;         /* threads */
    uint64_t steps;      /* H */
    uint64_t first_step; /* that the run has made already */
    bool synchronous, lockstep;
    uint32_t bias_key; /* of keyed groups, in every example; UINT32_MAX: none */
    /* How many steps may be made from this one on until something is due. */
    uint64_t (*until_due)(void *context, uint64_t step);
    void *context;

    /* replicas */
    yk_exchange *exchange;
    yk_local *local;
    double heartbeat_timeout;

    /* shards */
    yk_remote *remote;
    yk_local_config copy; /* of all parameters; that of keyed groups is made as large as a round needs */

} yk_local_sgd_config;

yk_status yk_local_sgd_create(const yk_local_sgd_config *config, yk_store **out);

#endif
