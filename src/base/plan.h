/* The plan of a run: all decisions that follow from its options, made once (train/plan.h) and never changed. Plain data.
 *
 * All other code reads it and decides nothing again: not whether a run is synchronous, not how many servers there are, not how
 * long to wait for whom.
 */
#ifndef YK_BASE_PLAN_H
#define YK_BASE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define YK_ASYNC UINT64_MAX /* the staleness bound that is none */

typedef enum {
    YK_PLACEMENT_LOCAL,    /* one process: all parameters, shared by its threads */
    YK_PLACEMENT_REPLICAS, /* every process has all parameters; gradients are all-reduced */
    YK_PLACEMENT_SERVERS   /* parameter servers own them; workers pull and push */
} yk_placement;

typedef struct {
    /* how workers go together */
    uint64_t staleness; /* the bound; YK_ASYNC: none */
    bool synchronous;   /* a bound of 0, with or without a quorum */
    bool
        lockstep; /* all workers make the same steps, on fixed shares of the data: synchronous without a quorum */
    int quorum;           /* so many gradients make a step; 0: those of all workers */
    uint64_t local_steps; /* local SGD: steps between two averages; 0: every gradient is shared */

    /* processes and threads */
    yk_placement placement;
    int processes;           /* of the job; 1: there are no others */
    int servers;             /* of the processes; the first ones */
    int workers;             /* in all processes together */
    int workers_per_process; /* of a process that trains */
    int threads;             /* of a worker */
    bool survives_loss;      /* it goes on without a worker that is lost */
    bool joinable;           /* workers may join it while it runs */

    /* steps */
    uint64_t batch;                        /* examples of a worker in a step */
    uint64_t global_batch;                 /* of a step of all workers, or of the quorum */
    uint64_t gradients_per_step;           /* asynchronous: 1 */
    uint64_t steps, epochs;                /* UINT64_MAX: no end; one of them has one */
    uint64_t eval_every, checkpoint_every; /* steps; 0: at the end of each epoch; by time */

    /* timeouts in seconds, all derived from --deadline */
    double heartbeat_timeout; /* without a sign of life a peer is lost */
    double worker_timeout;    /* the same, of servers that wait for a worker */
    double
        server_timeout; /* the same, of workers that wait for a server, which knows better who is missing */
    double heartbeat_every;    /* how often a peer that computes for long says that it is alive */
    double start_limit;        /* without a sign of life before training begins */
    double first_step_timeout; /* of a worker whose first step nobody has seen yet */
} yk_plan;

#endif
