/* The state of a run, which train.c sets up and most files of this directory share. setup.h has the functions that set up and end
 * a run, loop.h those that are called while it trains. */
#ifndef YK_TRAIN_TRAINER_H
#define YK_TRAIN_TRAINER_H

#include "base/arena.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/team.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "data/feed.h"
#include "data/schema.h"
#include "model/model.h"
#include "observe/observe.h"
#include "store/exchange.h"
#include "store/local.h"
#include "store/server.h"
#include "store/shards.h"
#include "store/store.h"
#include "train/background.h"
#include "train/checkpoint.h"
#include "train/divergence.h"
#include "train/schedule.h"
#include "train/selection.h"
#include "train/train.h"
#include "watch/phase.h"
#include <sched.h>

enum { YK__MAX_RANGES = YK_MAX_TENSORS / 2, YK__EVAL_BATCH = 64 };

/* The sets that are evaluated. */
enum { YK__TEST, YK__VALIDATION, YK__SETS };

typedef struct {
    bool used; /* there is such a set */
    yk_dataset data;
    yk_tally tally; /* on the chief: of the last evaluation */
} yk__evaluated_set;

/* The state of one worker. */
typedef struct {
    _Alignas(YK_ALIGN) yk_workspace *work;
    yk_tally tally[YK__SETS];
    float *p;                   /* [YK__EVAL_BATCH][outputs] */
    double period_loss;         /* sum of the training loss since the last evaluation */
    double period_extra_weight; /* the sum of their weights, less their number (core/grad.h) */
    uint64_t period_examples, examples;
    bool finished;
    yk_phases *phases; /* NULL: not measured */
} yk__worker_state;

/* Writes checkpoints while training continues (saver.c). */
typedef struct {
    yk_checkpoint_arrays arrays; /* the copy */
    yk_arena memory;             /* of the copy, once there is one */
    bool refused;                /* there is no memory for a copy */
    yk__background thread;       /* writes the copy */
    yk_progress_state at;
    double waited; /* seconds that the workers waited for the copy */
    bool pending;  /* the copy is the best model so far, and not written yet */
    double began;  /* when the last write of a copy began */
} yk__saver;

/* --warm-start: the run that a run continues. */
typedef struct {
    char *path;           /* on the chief: the checkpoint to load; NULL: none */
    yk_model_shape shape; /* on the chief: of its model, or of the checkpoint that is resumed; dim 0: none */
    yk_net_options net; /* on the chief: of that model, or of the checkpoint from which --resume continues */
    bool found;         /* on the chief: there is such a checkpoint */
    uint64_t earlier;   /* on all ranks: steps before this run */
    uint64_t features;  /* on the chief: into which keys are hashed, if no schema says so; 0: not known */
} yk__warm_start;

/* The other processes of a job (cluster.c). */
typedef struct {
    yk_comm *comm;       /* NULL: one process */
    yk_startup *startup; /* until training begins; NULL: one process */
    int rank, ranks;
    bool joined;     /* this process joined a running job */
    char *join_text; /* what workers need to join (yk_comm_open); NULL: they cannot, or another rank has it */
    yk_exchange *exchange;
    yk_shared_memory memory; /* replicas on one host: exchanges gradients */
    yk_shards *shards;
    yk_chunks *chunks; /* of the data; NULL: none */
    yk_server *server;
    yk_assignment assignment;             /* server 0, data in memory */
    yk_streams streams;                   /* server 0, streamed data */
    yk_optim_range range[YK_MAX_TENSORS]; /* of the shard */
    yk_local *whole;                      /* a chief that is a server: a snapshot of all parameters */
    bool rank_lost;                       /* no collective operation is possible any more */
    cpu_set_t cores;                      /* of this process before it was bound to NUMA nodes (--bind) */
} yk__cluster;

typedef struct yk__trainer {
    const yk_config *config; /* the caller's, or `searched` */
    yk_config searched;      /* --lr auto: the same with the chosen rates; borrows its strings */
    const yk_plan *plan;     /* the plan of the result */
    const yk_train_caller *caller;
    atomic_bool canceled; /* by a callback of the caller, or by a signal to another rank */
    yk_result *result;

    /* what the plan is made from, besides the options */
    yk_model_description description;
    yk_topology topology;
    yk_data_facts facts; /* as far as they are known */

    /* data */
    yk_dataset train;
    yk__evaluated_set set[YK__SETS];
    yk_schema *schema;      /* from the run that this one continues, or from the chief; NULL: none */
    char *schema_text;      /* on the chief: as JSON, for checkpoints */
    yk_positions positions; /* of entries without field numbers, in both */
    yk_data_check data_check;
    yk_keymap keymap;
    const yk_keymap *remap; /* &keymap; NULL: keys are not remapped */

    /* parameters */
    yk_model *model;
    yk_local_group group[YK_MAX_GROUPS];  /* how each parameter group is trained */
    yk_optim_range range[YK__MAX_RANGES]; /* of the groups: biases that have their own rates */
    yk_local *local;                      /* the parameters of this process: all, or its shard; NULL: none */
    yk_store *store;                      /* for the workers of this process; NULL: it has none */

    /* workers */
    yk_feed *feed;
    yk_team *team;
    int local_workers; /* in this process; 1 on a server */
    yk_phases *phases; /* [local_workers + 1] the last one: of the thread that serves a shard beside them */
    int nworkers;      /* the workers of all processes, and evaluators that do not train */
    yk__worker_state *worker;    /* [nworkers] */
    yk__worker_state *evaluator; /* [nevaluators] the workers that evaluate, and count what was trained */
    int nevaluators;

    /* other processes, and state that only a few files use */
    yk__cluster cluster;
    yk_http *http; /* on the chief: listens from the beginning; NULL: none */
    yk_observer *observer;
    yk__saver saver;

    /* on the chief: the run directory */
    yk_lock *lock;        /* NULL: none */
    bool run_dir_claimed; /* it belongs to this run now */
    char *done_summary;   /* summary.json, if the run was done when it was resumed; else NULL */

    /* the run that this one continues */
    yk_progress_state resumed; /* the checkpoint; zero: none */
    yk__warm_start start;

    /* times (base/clock.h) */
    double training_started;
    double training_ended; /* a chief that is a server: end of the last step; else 0 */
    double ended;          /* the loop; 0: not yet */

    /* progress; workers other than worker 0 read it only after a barrier */
    uint64_t step, epoch;   /* at the last barrier */
    uint64_t late_examples; /* of the whole run */
    /* Examples that all workers trained on since this process started, as far as worker 0 or the chief knows. */
    uint64_t trained_examples;
    const yk_loss *loss;
    float *class_weight;                 /* [classes] --class-weight; NULL: none */
    double trained_weight, trained_loss; /* sums over these */

    /* evaluations and checkpoints */
    yk__schedule schedule;
    yk__due due;               /* at this barrier; decided by worker 0 */
    yk__divergence divergence; /* on the chief */
    yk__selection selection;

    /* asynchronous */
    atomic_bool barrier_due; /* every worker enters it after its current step */
    atomic_int finished;     /* workers without examples */
    atomic_flag checking;    /* a worker checks what is due */
} yk__trainer;

/* Whether to save and end. */
static inline bool yk__is_stopped(const yk__trainer *t)
{
    return __atomic_load_n(t->caller->stop, __ATOMIC_RELAXED) ||
           atomic_load_explicit(&t->canceled, memory_order_relaxed);
}

/* Whether a run continues with the optimizer's state of its initial model. */
static inline bool yk__continues(const yk_train_caller *caller)
{
    return caller->continues && caller->start && caller->start->optimizer;
}

/* Whether an evaluation reads the parameters. */
static inline bool yk__is_evaluated(const yk__trainer *t)
{
    return t->set[YK__TEST].used || t->set[YK__VALIDATION].used;
}

/* Whether the data is read again in each epoch. A server does not read the data, so it goes by the kind of cursor. */
static inline bool yk__is_streamed(const yk__trainer *t)
{
    return t->plan->trains ? !t->train.rows : t->plan->cursor_kind == YK_CURSOR_STREAM;
}

/* Examples per epoch; 0: not known yet. For a resumed stream, the number in the checkpoint. */
static inline uint64_t yk__epoch_examples(const yk__trainer *t)
{
    return t->train.examples ? t->train.examples : t->resumed.data_examples;
}

/* A stream has used `seen` examples in `epochs` whole epochs, including those before a resume. If files have grown since then,
 * the old number is kept, so that the epoch in metrics and progress output never goes back. */
static inline void yk__set_epoch_examples(yk__trainer *t, uint64_t seen, uint64_t epochs)
{
    const uint64_t before = t->resumed.data_examples, mean = epochs ? seen / epochs : 0;
    if (!t->train.examples)
        t->train.examples = before && before < mean ? before : mean;
}

/* The phases of the thread that serves a shard: a server has no workers. */
static inline yk_phases *yk__serving_phases(const yk__trainer *t)
{
    return t->plan->trains ? &t->phases[t->local_workers] : t->phases;
}

/* Examples that fit into a worker's workspace. */
static inline size_t yk__max_batch(const yk__trainer *t)
{
    const yk_rows *rows = t->train.rows; /* a batch has no more examples than an epoch */
    const uint64_t max = rows && rows->n < t->plan->batch ? rows->n : t->plan->batch;
    return max > YK__EVAL_BATCH ? (size_t)max : YK__EVAL_BATCH;
}

#endif
