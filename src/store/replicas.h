/* Replicas: every process has all parameters, and takes the same steps with the sum of the gradients of all processes.
 *
 *     pull  grad ----------> sum of the threads' gradients, in thread order    all-reduce    apply  clock
 *                \ buckets are sent as soon as they are final
 *
 * Synchronous: N processes with T threads and batch b equal one worker with batch N T b, up to rounding. Gradients are added
 * in thread order within a process and in rank order between processes: the same bits every time, on every rank. The first
 * thread of a process sends and receives.
 */
#ifndef YK_STORE_REPLICAS_H
#define YK_STORE_REPLICAS_H

#include "store/exchange.h"
#include "store/local.h"

typedef struct {
    yk_exchange *exchange; /* borrowed, like the next three */
    yk_local *local;       /* this process's replica: synchronous, with one worker per thread */
    yk_team *team;
    yk_phases *phases; /* [workers], or NULL */
    int workers;
} yk_replicas_config;

yk_status yk_replicas_create(const yk_replicas_config *config, yk_store **out);

#endif
