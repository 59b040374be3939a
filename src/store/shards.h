/* Shards: parameter servers own the parameters, dedicated ones or a part in every process; this is the store of a process
 * that trains, over its connection to them (remote.h).
 *
 *     lockstep       announce 0 | pull 0  grad 0  announce 1  push 0 + keys 1  clock: all have pushed 0 | pull 1 ...
 *     asynchronous   announce 0, 1 | pull 0  grad 0  announce 2  push 0 + keys 2  clock | pull 1 (is here already) ...
 *
 * In lockstep the threads of a process make one gradient together: it is summed in thread order, and the first thread sends
 * it. Asynchronously each thread has a lane of its own. The servers' answers say when to stop, and in lockstep when an
 * epoch is over: a round in which nobody had examples. With a quorum workers take part in rounds as in lockstep, but lease
 * their examples as asynchronous ones do.
 */
#ifndef YK_STORE_SHARDS_H
#define YK_STORE_SHARDS_H

#include "base/thread.h"
#include "store/remote.h"

typedef struct {
    yk_remote *remote; /* borrowed, as the next two */
    yk_team *team;
    yk_phases *phases; /* [workers], or NULL */
    int workers;       /* threads */
    bool together;     /* they make one gradient: lockstep, or with a quorum */
    bool lockstep;
    int depth; /* answers under way */
    int ngroups;
    yk_group group[YK_MAX_GROUPS];
} yk_shards_config;

yk_status yk_shards_create(const yk_shards_config *config, yk_store **out);

#endif
