/* Replicas: every process has all parameters, and makes the same steps with the sum of everybody's gradients.
 *
 *     pull  grad ----------> the threads' gradients become one, in order    all-reduce    apply  clock
 *                \ buckets leave as they are ready
 *
 * Synchronous: N processes with T threads of batch b equal one worker of batch N T b, to rounding. The sum is made in
 * thread order within a process and in rank order between them: the same bits every time, everywhere. The first thread of
 * a process sends and receives.
 */
#ifndef YK_STORE_REPLICAS_H
#define YK_STORE_REPLICAS_H

#include "store/exchange.h"
#include "store/local.h"

typedef struct {
    yk_exchange *exchange; /* borrowed, as the next three */
    yk_local *local; /* this process's replica: synchronous, with as many workers as there are threads */
    yk_team *team;
    yk_phases *phases; /* [workers], or NULL */
    int workers;
    double heartbeat_timeout;
} yk_replicas_config;

yk_status yk_replicas_create(const yk_replicas_config *config, yk_store **out);

/* How long to wait for other ranks: much longer than any round took; a fixed limit for the first two rounds. */
typedef struct {
    double heartbeat_timeout, longest, ended;
    unsigned rounds;
} yk_round_timer;

double yk_round_timer_limit(const yk_round_timer *t);

/* A round of all ranks is over; says so to the phases of the thread that took part. */
void yk_round_timer_over(yk_round_timer *t, const yk_round *round, yk_phases *phases);

enum {
    YK_BARRIER_SECONDS = 120
}; /* more, where an evaluation or a checkpoint is due: it takes as long as it takes */

#endif
