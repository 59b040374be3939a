/* Replicas of dense models: every process has all parameters.
 *
 *     pull  grad ----------> sum of the threads' gradients, in thread order    all-reduce    apply  clock
 *                \ buckets are sent as soon as they are final
 *
 * N processes with T threads and batch b equal one worker with batch N T b, up to rounding. Gradients are added
 * in thread order within a process and in rank order between processes: the same bits every time, on every rank. The first
 * thread of a process sends and receives.
 *
 * Local SGD: a process takes up to H steps on its own, its threads together. Then parameters and optimizer
 * state become their mean over all ranks:
 *
 *     | step step step step | mean of all | step step step step | mean of all | ...
 *
 * Such a round is shorter if an evaluation, a checkpoint or the end is due. All ranks know its first step, and so its length,
 * without a message. clock() reports `pending` for all steps but the last of a round.
 */
#ifndef YK_STORE_REPLICAS_H
#define YK_STORE_REPLICAS_H

#include "store/exchange.h"
#include "store/local.h"

typedef struct {
    yk_exchange *exchange; /* borrowed, like the next three */
    yk_local *local;       /* this process's replica, with one worker per thread; staleness bounds are 0 */
    yk_team *team;
    yk_phases *phases; /* [workers], or NULL */
    int workers;

    uint64_t steps;      /* H of local SGD; 0: gradients are summed in every step */
    uint64_t first_step; /* of this run: more than 0 if it was resumed */
    /* The number of steps from this one until an evaluation, a checkpoint or the end is due. */
    uint64_t (*until_due)(void *context, uint64_t step);
    void *context;
} yk_replicas_config;

yk_status yk_replicas_create(const yk_replicas_config *config, yk_store **out);

#endif
