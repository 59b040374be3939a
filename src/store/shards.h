/* Shards: parameter servers own the parameters. They are dedicated processes, or every process owns a part. This is the store
 * of a process that trains, on top of its connection to the servers (remote.h).
 *
 *     lockstep       announce 0 | pull 0  grad 0  announce 1  push 0 + keys 1  clock: all have pushed 0 | pull 1 ...
 *     with keys      announce 0, 1 | pull 0  grad 0  push 0 + keys 1  announce 2  clock: finds keys 2, all have pushed 0 | pull 1
 *     asynchronous   announce 0 | pull 0  grad 0  announce 1  push 0 + keys 1  clock: waits for nobody | pull 1 ...
 *
 * In lockstep, and if the model has a dense group, the threads of a process compute one gradient together: it is summed in
 * thread order, and each thread sends it to some of the servers. So it is sent once, and fewer gradients are in flight. The
 * threads also find the keys of their batches together. Otherwise each thread has its own channel.
 *
 * The servers' answers say when to stop and, in lockstep, when an epoch is over: after a round in which no worker had examples.
 * With a quorum, workers take part in rounds as in lockstep, but lease their examples as in asynchronous mode. Each worker calls
 * the store on its own thread.
 */
#ifndef YK_STORE_SHARDS_H
#define YK_STORE_SHARDS_H

#include "base/team.h"
#include "store/remote.h"

typedef struct {
    yk_remote *remote; /* borrowed, like the next two */
    yk_team *team;
    yk_phases *phases; /* [workers], or NULL */
    int workers;       /* threads */
    bool joint;        /* the threads compute one gradient */
    bool synchronous;  /* it is one step of the job; otherwise one of each thread */
    bool lockstep;     /* without a quorum */
    int depth;         /* outstanding requests */
    int ngroups;
    yk_group group[YK_MAX_GROUPS];
} yk_shards_config;

yk_status yk_shards_create(const yk_shards_config *config, yk_store **out);

#endif
