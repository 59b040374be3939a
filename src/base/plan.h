/* The plan of a run: all decisions that follow from its options, made once (train/plan.h) and never changed. Plain data.
 *
 * All other code reads the plan and does not repeat its decisions: whether a run is synchronous, how many servers there
 * are, how long to wait for a peer.
 */
#ifndef YK_BASE_PLAN_H
#define YK_BASE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define YK_ASYNC UINT64_MAX /* no staleness bound */

typedef enum {
    YK_PLACEMENT_LOCAL,    /* one process: all parameters, shared by its threads */
    YK_PLACEMENT_REPLICAS, /* every process has all parameters; gradients are all-reduced */
    YK_PLACEMENT_SERVERS,  /* parameter servers own them; workers pull and push */
    YK_PLACEMENT_SHARDS    /* every process trains, and owns a shard */
} yk_placement;

/* "local", "replicas", "servers", "shards" */
extern const char *const yk_placement_name[];

/* How the groups of one kind are trained. */
typedef struct {
    int optimizer;      /* yk_optim_kind (optim/optim.h) */
    double lr;          /* the initial learning rate */
    uint64_t staleness; /* the bound; YK_ASYNC: none */
    yk_placement placement;
} yk_group_plan;

typedef struct {
    yk_group_plan
        group[2]; /* [0]: dense groups, [1]: keyed groups; individual ones may differ (yk_plan_group()) */

    /* synchronization */
    uint64_t staleness; /* the stricter bound; YK_ASYNC: none */
    bool synchronous;   /* a bound of 0, with or without a quorum */
    bool lockstep;      /* without a quorum: all workers take the same steps, on fixed shares of the data */
    int quorum;         /* processes whose gradients form a step; 0: all workers */
    /* Asynchronous, keyed parameters on shards: the minimum number of batches that a worker processes with one copy; 0: no
     * copies. The actual number also depends on the size of the data (train/cluster_data.c). */
    uint64_t copy_lifetime;
    int depth; /* on shards: requests for parameters (or copies) that a worker has in flight; 1: no prefetching */
    uint64_t local_steps; /* local SGD: steps between averaging; 0: every gradient is sent */

    /* processes and threads */
    yk_placement placement;  /* of keyed groups; dense groups have the same, or replicas */
    int processes;           /* in the job */
    int servers;             /* dedicated parameter servers: the first processes */
    bool replicates_dense;   /* with dedicated servers: dense groups are on the workers (store/messages.h) */
    int workers;             /* in all processes together */
    int workers_per_process; /* threads, in each process that trains */
    int threads;             /* per worker */
    bool survives_loss;      /* the job continues without a lost worker */
    bool joinable;           /* workers may join the running job */

    /* steps */
    uint64_t batch; /* examples per worker and step */
    /* The batches of all workers, or of the quorum. An asynchronous step uses only one. */
    uint64_t global_batch;
    uint64_t gradients_per_step;           /* asynchronous: 1 */
    uint64_t steps, epochs;                /* UINT64_MAX: no limit; at least one of them is limited */
    uint64_t eval_every, checkpoint_every; /* steps; 0: eval each epoch, checkpoint by time */

    /* timeouts in seconds, all derived from --deadline */
    double heartbeat_timeout; /* a peer without a heartbeat for this long is lost */
    double worker_timeout;    /* the same, for servers that wait for a worker */
    /* The same, for workers that wait for a server; longer, so that the server can name a missing worker. */
    double server_timeout;
    double heartbeat_every;    /* interval of heartbeats during a long computation */
    double startup_timeout;    /* heartbeat timeout before training begins */
    double first_step_timeout; /* for a worker that has not completed its first step */
    double report_timeout;     /* for reports at the end of the run */
    double barrier_timeout;    /* for replicas that evaluate or save, which takes longer than a step */
    double control_timeout;    /* for messages between servers, which may be waiting for a worker */
    double team_timeout;       /* for threads of a process, which may be waiting for another process */
} yk_plan;

#endif
