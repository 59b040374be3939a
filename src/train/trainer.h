/* Internals of a run: the state that train.c sets up and that the other files of this directory share. */
#ifndef YK_TRAIN_TRAINER_H
#define YK_TRAIN_TRAINER_H

#include "base/lock.h"
#include "base/mem.h"
#include "base/team.h"
#include "data/feed.h"
#include "model/model.h"
#include "observe/observe.h"
#include "store/local.h"
#include "store/store.h"
#include "train/checkpoint.h"
#include "train/cluster.h"
#include "train/saver.h"
#include "train/train.h"
#include "watch/phase.h"
#include <stdatomic.h>

/* Predictions of a worker on its share of the training data (accuracy.c). */
typedef struct {
    uint64_t examples, correct;
} yk__correct;

typedef struct {
    uint64_t steps;
    uint64_t next;      /* the step of the next sample */
    uint64_t rotate_at; /* the step at which recent samples become old */
    yk__correct old, recent;
} yk__accuracy;

/* The state of one worker. */
typedef struct {
    _Alignas(YK_ALIGN) yk_workspace *work;
    yk_tally tally;
    float *p;           /* [YK__EVAL_BATCH][outputs] */
    double period_loss; /* sum of the training loss since the last evaluation */
    uint64_t period_examples, examples;
    yk__accuracy accuracy;
    bool finished;
    yk_phases *phases; /* NULL: not measured */
} yk__worker_state;

enum { YK__MAX_RANGES = YK_MAX_TENSORS / 2, YK__EVAL_BATCH = 64 };

typedef struct yk__alternation yk__alternation;

/* What to do at a barrier, or with a snapshot. */
typedef struct {
    bool eval, save;
} yk__due;

typedef struct yk__trainer {
    const yk_config *config;
    const yk_plan *plan; /* the plan of the result */
    const yk_train_caller *caller;
    atomic_bool canceled; /* by a callback of the caller */
    yk_result *result;
    yk_dataset train, test;
    bool tested; /* there is a test set */
    yk_data_check data_check;
    yk_keymap keymap;
    const yk_keymap *remap; /* &keymap; NULL: keys are not remapped */
    yk_model *model;
    yk_local *local; /* the parameters of this process: all, or its shard; NULL: none */
    yk_store *store; /* for the workers of this process; NULL: it has none */
    yk_feed *feed;
    yk_team *team;
    int local_workers; /* in this process; 1 on a server */
    yk_phases *phases; /* [local_workers + 1] the last one: of the thread that serves a shard beside them */
    yk_observer *observer;
    yk__alternation *alternation; /* YK_WATCH_TURNS or YK_SAVE_TURNS, for benchmarks; else NULL */
    bool run_dir_claimed;         /* on the chief: the run directory belongs to this run now */
    yk_lock *lock;                /* on the chief: of the run directory; NULL: none */
    yk__worker_state *worker;     /* [workers of all processes + 1] */
    yk__worker_state *evaluator;  /* [nevaluators] the workers that evaluate, and count what was trained */
    int nevaluators;
    uint64_t eval_every, checkpoint_every;
    yk_local_group group[YK_MAX_GROUPS];  /* how each parameter group is trained */
    yk_optim_range range[YK__MAX_RANGES]; /* of the groups: biases that have their own rates */
    uint64_t unit;     /* examples that are always trained together (data/feed.h); 0: any */
    float mean_square; /* of an input of dense data, after --standardize */

    /* warm_start.c */
    struct {
        char *path;             /* on the chief: the checkpoint to load; NULL: none */
        yk_model_shape shape;   /* on the chief: of its model, or of the checkpoint that is resumed */
        size_t dim;             /* the same; 0: none */
        uint64_t step, earlier; /* step of the checkpoint; on all ranks: steps before this run */
    } start;

    /* baseline.c */
    struct {
        atomic_bool pause;
        atomic_int paused;
        int tries;              /* number of tries that are left */
        double at;              /* of the next one */
        _Atomic double seconds; /* per example; 0: not known */
    } baseline;

    /* times (base/clock.h) */
    double process_started, training_started;
    double training_ended; /* the chief of servers: end of the last step; 0 on other ranks */
    double ended;          /* the loop; 0: not yet */
    double saved_at;       /* the last checkpoint */
    double save_cost;      /* seconds of training that a checkpoint costs; estimated before the first one */
    atomic_bool saving;    /* a thread is writing a checkpoint, and will then add to save_cost */

    yk_progress_state resumed; /* the checkpoint that was resumed; zero: none */
    char *done_summary;        /* summary.json, if the run was done when it was resumed; else NULL */

    /* barriers */
    atomic_bool barrier_due;          /* asynchronous: every worker enters it after its current step */
    atomic_int finished;              /* asynchronous: workers without examples */
    atomic_uint_fast64_t first_steps; /* asynchronous: steps of this process until all workers have begun */
    yk__due due;                      /* decided by worker 0 */
    bool end;                         /* also decided by worker 0 */
    atomic_flag checking;             /* asynchronous: a worker checks what is due */
    atomic_uint_fast64_t quota; /* asynchronous: steps until something is due, minus those given to workers */
    uint64_t step, epoch;       /* at the last barrier */
    uint64_t late_examples;     /* of the whole run */
    /* Examples that all workers trained on since this process started, as far as worker 0 or the chief knows. */
    uint64_t trained_examples;
    double trained_loss;                                 /* the sum over these */
    uint64_t next_eval, next_save, last_eval, last_save; /* steps */
    bool saves_by_time;                                  /* no --checkpoint-every */
    bool copies;     /* decided by worker 0 at a barrier: all copy the parameters for a checkpoint */
    yk__saver saver; /* of a process that has all parameters */

    yk__cluster cluster;
} yk__trainer;

/* warm_start.c */
yk_status yk__warm_start_find(yk__trainer *t);  /* before yk__cluster_shape() */
yk_status yk__warm_start_check(yk__trainer *t); /* after it: whether the data fits */
yk_status yk__warm_start_load(yk__trainer *t, yk_local *store);

/* data_setup.c */
yk_status yk__load_data(yk__trainer *t);
yk_status yk__fields_of(const yk__trainer *t, uint32_t *out); /* error: those of the test data differ */
/* The columns of the model: --features, or those of the data. */
yk_status yk__columns_of(const yk__trainer *t, size_t *out);
/* Remaps sparse keys by descending frequency: frequent keys share cache lines, and get copies in asynchronous training. */
yk_status yk__sort_keys(yk__trainer *t);
float yk__mean_square(yk_dataset *d); /* of an input of dense data; 1 for sparse data */
yk_status yk__make_feed(yk__trainer *t);

/* loop.c */
yk_status yk__train_worker(void *trainer, int me);

/* accuracy.c: of a worker on its share of the training data */
bool yk__accuracy_due(yk__worker_state *w); /* whether to sample this step; called once in each step */
void yk__accuracy_sample(const yk__trainer *t, yk__worker_state *w, const yk_view *view,
                         const yk_batch *batch);
void yk__accuracy_add(yk__worker_state *w, uint64_t examples, uint64_t correct);

/* schedule.c */
void yk__schedule_init(yk__trainer *t);
/* Whether the run has completed all requested steps or epochs. Called at the start and after each step. Asynchronous workers,
 * and workers with a quorum, also end when no examples are left. */
bool yk__is_done(const yk__trainer *t, uint64_t step, uint64_t epoch);
bool yk__save_is_overdue(const yk__trainer *t);
yk__due yk__due_sync(const yk__trainer *t, uint64_t done, bool epoch_over, bool end, bool save_now);
bool yk__is_due_async(yk__trainer *t, uint64_t done); /* whether anything is due */
yk__due yk__due_async(yk__trainer *t, uint64_t done); /* what is due; schedules the next */
uint64_t yk__until_due(void *trainer, uint64_t done); /* steps until something is due */

/* barrier.c: called by all workers of processes that have all parameters; performs the actions in t->due */
yk_status yk__barrier(yk__trainer *t, int me);
uint64_t yk__parameter_hash(yk__trainer *t);

/* evaluate.c */
extern const double yk__max_loss;
yk_status yk__diverged(const yk__trainer *t, const char *what, double value, uint64_t step);
/* Evaluates one share of the test set on parameters that do not change, v: [groups]. The result is w->tally. */
yk_status yk__evaluate(yk__trainer *t, yk__worker_state *w, int share, int of, const yk_view *v);
yk_progress_state yk__progress_now(const yk__trainer *t); /* without `late` and the cursor */
void yk__start_period(yk__trainer *t);                    /* resets the sums of the training loss */
/* The chief, after all evaluators have evaluated the parameters of `at`: computes the scores, and reports them unless this step
 * was reported before. */
yk_status yk__finish_evaluation(yk__trainer *t, const yk_progress_state *at, bool repeated);
yk_status yk__save(yk__trainer *t, yk_local *parameters, const yk_progress_state *p); /* quiesced ones */
yk_status yk__write_checkpoint(yk__trainer *t, const yk_checkpoint_arrays *arrays,
                               const yk_progress_state *p); /* leaves the arrays reordered (checkpoint.h) */

/* Whether to save and end. */
static inline bool yk__is_stopped(const yk__trainer *t)
{
    return __atomic_load_n(t->caller->stop, __ATOMIC_RELAXED) ||
           atomic_load_explicit(&t->canceled, memory_order_relaxed);
}

static inline uint64_t yk__min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The phases of the thread that serves a shard: a server has no workers. */
static inline yk_phases *yk__serving_phases(const yk__trainer *t)
{
    return t->cluster.role == YK__SERVER ? t->phases : &t->phases[t->local_workers];
}

/* Examples that fit into a worker's workspace. */
static inline size_t yk__max_batch(const yk__trainer *t)
{
    const yk_rows *rows = t->train.rows; /* a batch has no more examples than an epoch */
    const uint64_t max = rows && rows->n < t->plan->batch ? rows->n : t->plan->batch;
    return max > YK__EVAL_BATCH ? (size_t)max : YK__EVAL_BATCH;
}

/* alternate.c */
yk_status yk__alternate_begin(yk__trainer *t);
void yk__alternate_step(yk__trainer *t, uint64_t examples); /* worker 0, after each step */
bool yk__alternate_saves(yk__trainer *t);                   /* worker 0: whether to save now */
yk_status yk__alternate_end(yk__trainer *t, yk_status so_far);

/* stagger.c: the number of steps after which the next worker begins; 0: all begin at once. */
uint64_t yk__stagger_steps(const yk__trainer *t);
/* Whether worker `worker` of this process may take its first step; waits a little if not. */
bool yk__may_begin(yk__trainer *t, int worker);
/* After a step. UINT32_MAX: the worker has no examples, at least for now, so the others need not wait for it. */
void yk__count_first_steps(yk__trainer *t, uint64_t steps);

/* baseline.c: how fast worker 0 computes while the others pause. init is called before the first step; pause by other workers,
 * between two steps, while baseline.pause is set; measure by worker 0, often (it does nothing until a measurement is due) */
void yk__baseline_init(yk__trainer *t);
void yk__baseline_pause(yk__trainer *t);
void yk__baseline_measure(yk__trainer *t, yk__worker_state *w);

/* trial.c: after `trained` seconds of training, tries some changes */
void yk__try_changes(const yk__trainer *t, double trained, yk_trials *out);

/* train.c: the workers of a single process, with their own parameters, feed and store */
yk_status yk__create_workers(yk__trainer *t);
void yk__free_workers(yk__trainer *t); /* also those that were created only in part */

/* chief.c: for a process that owns a shard, or sends for its threads; returns when the job is over */
yk_status yk__serve(yk__trainer *t);

/* cluster.c */
yk_status yk__cluster_start(yk__trainer *t);
enum { YK__LONGEST_COPY = 4 }; /* a multiple of the lifetime in the plan */
/* Whether --steps limits the batches that are leased: a step is one batch. */
static inline bool yk__leases_steps(const yk_plan *p)
{
    return !p->synchronous && (!p->local_steps || p->workers_per_process == 1);
}
yk_status yk__cluster_ready(yk__trainer *t); /* called by all ranks when training begins */
void yk__report_stage(const yk__trainer *t, yk_train_stage stage); /* to the launcher, by rank 0 of a job */
yk_status yk__cluster_stores(yk__trainer *t, const yk_local_config *whole); /* all parameters, one worker */
yk_status yk__cluster_store(yk__trainer *t, const yk_local_config *whole); /* the one that workers train on */
void yk__cluster_free(yk__trainer *t);

/* cluster_data.c, cluster_agree.c */
void yk__set_partition(yk__trainer *t);                   /* which process reads which part of the data */
void yk__cluster_set_unit(yk__trainer *t, uint64_t unit); /* of the order of examples; 0: the default */
yk_status yk__cluster_shape(yk__trainer *t);
yk_status yk__cluster_agree(yk__trainer *t);

/* resume.c: called by all ranks */
yk_status yk__resume(yk__trainer *t);

/* end_run.c: from the end of the loop, or a failure `st`, to the summary. Returns `st`, or a failure of its own. */
yk_status yk__end_run(yk__trainer *t, yk_status st);

/* net_setup.c */
yk_status yk__net_options_of(const yk_config *c, yk_net_options *out);
/* For --standardize channel: measures the channels. */
yk_status yk__net_channels(yk__trainer *t, yk_net_options *o);
yk_status yk__set_bias_rates(yk__trainer *t);  /* --bias-lr, --bias-decay */
yk_status yk__set_decay_steps(yk__trainer *t); /* --lr-decay-epochs */

/* describe.c */
void yk__print_plan(const yk__trainer *t);
yk_status yk__describe(yk__trainer *t);
yk_status yk__profile_collect(yk__trainer *t);

/* observe_setup.c: connects the trainer to its observer (observe/observe.h) */
yk_status yk__observe(yk__trainer *t); /* called by all ranks: creates and opens it */
yk_status yk__report_evaluation(yk__trainer *t, const yk_progress_state *at);
void yk__add_warnings(yk__trainer *t); /* at the end */

#endif
