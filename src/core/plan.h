/* The plan of a run: all decisions that follow from its options, its model, its data and its processes. Plain data, made by one
 * pure function (train/plan.h).
 *
 * All other code reads these decisions from the plan and never derives them again: for example, whether this process owns
 * parameters, and how long to wait for a peer.
 */
#ifndef YK_CORE_PLAN_H
#define YK_CORE_PLAN_H

#include "base/wait.h"
#include "core/group.h"
#include "core/optim_config.h"
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

/* How workers get their examples. Also the first number of a data cursor (data/feed.h). */
typedef enum { YK_CURSOR_LOCKSTEP = 1, YK_CURSOR_LEASE, YK_CURSOR_STREAM } yk_cursor_kind;
enum { YK_CURSOR_SIZE = 5 }; /* numbers in the cursor of a worker that reads a stream */
/* With leases, chunk_rows, if not the default, is in the bits of the first number above its kind. */
enum { YK_CURSOR_CHUNK_SHIFT = 8 };

/* How a parameter group is trained. */
typedef struct {
    yk_optim_config optim;
    double default_lr;  /* if --lr is not given */
    uint64_t staleness; /* the bound; YK_ASYNC: none */
    yk_placement placement;
} yk_group_plan;

typedef struct {
    int ngroups; /* 0: the model is not known */
    yk_group_plan group[YK_MAX_GROUPS];

    /* synchronization */
    uint64_t staleness; /* the smallest bound of any group; YK_ASYNC: none */
    const char *mode;   /* "sync" or "async" */
    bool synchronous;   /* a bound of 0, with or without a quorum */
    /* Synchronous without a quorum: all workers take the same steps, on fixed shares of the data, and end an epoch together. */
    bool lockstep;
    int quorum; /* processes whose gradients form a step; 0: all workers */
    /* Asynchronous, keyed parameters on shards: batches that a worker trains on with one copy (store/shards.h); 0: no copies. */
    uint64_t copy_lifetime;
    int depth; /* on shards: requests for parameters (or copies) that a worker has in flight; 1: no prefetching */
    uint64_t local_steps; /* local SGD: steps between averaging; 0: every gradient is sent */
    /* Asynchronous workers (store/local_stale.c): */
    bool stale_gradients; /* gradients are applied one by one, after others have changed the parameters */
    bool stale_rules;     /* the optimizers of the groups adapt to stale gradients */
    bool staggered;       /* the workers begin one after the other */
    uint64_t max_warm_up; /* steps: half of the run */

    /* processes and threads */
    yk_placement placement;  /* of all groups; if only some are replicated, of the others */
    bool replicates;         /* some groups are replicated, next to servers or shards for the others */
    int processes;           /* in the job */
    int servers;             /* dedicated parameter servers: the first processes */
    int workers;             /* in all processes together */
    int workers_per_process; /* threads, in each process that trains */
    bool sums_workers;       /* with servers: a process sends the sum of its workers' gradients */
    int channels;            /* to servers, of each process that trains (store/messages.h) */
    int threads;             /* per worker */
    int usable_threads;      /* the same, but at most the number of cores */
    bool survives_loss;      /* the job continues without a lost worker */
    bool joinable;           /* workers may join the running job */

    /* this process (train/cluster.c) */
    bool alone;               /* the only process of the run */
    bool trains;              /* it has workers */
    bool serves;              /* it owns a shard of the parameters, for the workers of all processes */
    bool whole;               /* it has all parameters: it is alone, or a replica */
    int owners;               /* processes that own a shard: the first ranks, or all */
    int first_client;         /* the rank of the first process that trains */
    int clients;              /* processes that train */
    int first_worker;         /* the number, in the job, of the first worker of this process */
    int serving_threads;      /* of a dedicated server */
    bool has_progress_thread; /* the main thread sends and receives for the workers (store/shards.h) */
    yk_wait_kind wait;        /* how threads wait for other processes */

    /* steps */
    uint64_t batch; /* examples per worker and step */
    /* The batches of all workers whose gradients may form a step. An asynchronous step uses batch * gradients_per_step. */
    uint64_t global_batch;
    /* Asynchronous: 1, or with local SGD the workers of a process. */
    uint64_t gradients_per_step;
    uint64_t steps, epochs;   /* UINT64_MAX: no limit; at least one of them is limited */
    uint64_t steps_per_epoch; /* 0: not known in advance */
    uint64_t run_steps;       /* UINT64_MAX: not known */
    double clip_norm;         /* 0: no limit */
    bool monitors;            /* learning rates depend on the results of evaluations (train/selection.h) */
    uint64_t leased_steps;    /* batches that are leased: `steps`, if a step is one batch; else UINT64_MAX */
    uint64_t eval_every; /* steps; 0: after each epoch; at the end if the length of an epoch is not known */
    uint64_t
        skipped_eval; /* the expected last step: the end of the run, at most a few steps later, is evaluated instead */
    uint64_t checkpoint_every; /* steps; 0: by time */
    uint64_t log_every;        /* steps; 0: a number that suits the length of the run */
    yk_cursor_kind cursor_kind;
    bool
        leases; /* the chief assigns examples to workers while they train; otherwise they have fixed shares */
    uint64_t
        chunk_rows; /* neighboring examples that shuffling keeps together (data/feed.h); 0: the default */

    /* timeouts in seconds, all derived from --deadline */
    double heartbeat_timeout; /* a peer without a heartbeat for this long is lost */
    double worker_timeout;    /* the same, for servers that wait for a worker */
    /* The same, for workers that wait for a server; longer, so that the server can name a missing worker. */
    double server_timeout;
    double heartbeat_every;    /* interval of heartbeats during a long computation */
    double startup_timeout;    /* heartbeat timeout before training begins */
    double first_step_timeout; /* for a worker that has not completed its first step */
    double report_timeout;     /* for the chief, which waits for reports at the end of the run */
    double end_timeout;        /* the same, for other ranks; longer, so that the chief can name a lost one */
    double barrier_timeout;    /* for replicas that evaluate or save, which takes longer than a step */
    double control_timeout;    /* for messages between servers, which may be waiting for a worker */
    double leave_timeout;      /* for leave messages that have arrived at server 0, but not at this server */
    double dead_timeout;       /* for the last messages of a process that has died */
    double team_timeout;       /* for threads of a process, which may be waiting for another process */
} yk_plan;

/* Steps that a worker takes on a copy of the parameters before it is merged; 0: every gradient is sent. */
static inline uint64_t yk_plan_copy_steps(const yk_plan *p)
{
    return p->copy_lifetime ? p->copy_lifetime : p->local_steps;
}

/* A copy is merged after this many examples (store/local_copy.h); */
enum { YK_COPY_EXAMPLES = 2048 };
/* after this many times as many if its keys are less frequent (store/local_hot.c), or in a long job (train/plan.c); */
enum { YK_LONGEST_COPY = 4 };
/* and early in a run sooner: all copies in flight together have at most 1/64 of the examples so far. */
enum { YK_COPY_AGE = 64 };
enum { YK_TIMEOUT_FACTOR = 10 }; /* a timeout is at least this many times the longest step so far */

#endif
