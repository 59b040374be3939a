/* Inside of a run: what train.c sets up and loop.c trains with. */
#ifndef YK_TRAIN_TRAINER_H
#define YK_TRAIN_TRAINER_H

#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "data/feed.h"
#include "model/model.h"
#include "observe/observe.h"
#include "store/local.h"
#include "store/store.h"
#include "train/checkpoint.h"
#include "train/cluster.h"
#include "train/train.h"
#include "watch/phase.h"
#include <stdatomic.h>

/* One worker's own things. */
typedef struct {
    _Alignas(YK_ALIGN) yk_work *work;
    yk_tally tally;
    float *p;           /* [YK__EVAL_BATCH][outputs] */
    double period_loss; /* training loss summed since the last evaluation */
    uint64_t period_examples, examples;
    bool finished;
    yk_phases *phases; /* where its time goes; NULL: nobody measures */
} yk__worker_state;

enum { YK__MOST_RANGES = YK_MAX_TENSORS / 2 };
enum { YK__EVAL_BATCH = 64, YK__SAVE_SECONDS = 600 };

typedef struct yk__turns yk__turns;
/* What is to be done at a barrier, or on a snapshot. */
typedef struct {
    bool eval, save;
} yk__due;

typedef struct yk__trainer {
    const yk_config *config;
    const yk_plan *plan; /* the result's */
    const yk_train_host *host;
    const volatile sig_atomic_t *stop; /* the host's */
    atomic_bool cancelled;             /* by a function of the host */
    yk_result *result;
    yk_dataset train, test;
    bool tested;
    yk_keymap keymap;
    const yk_keymap *names; /* &keymap, or NULL where keys keep their names */
    yk_model *model;
    yk_local *local; /* parameters of this process: all, or its shard; NULL: none */
    yk_store *store; /* that its workers train on; NULL: it has none */
    yk_feed *feed;
    yk_team *team;
    int here;          /* workers of this process; the others are elsewhere */
    yk_phases *phases; /* [here] */
    yk_observer *observer;
    yk__turns *turns; /* YK_WATCH_TURNS, for benchmarks; NULL: it is watched all the time */
    bool is_run;      /* on the chief: the run directory is this run's now */
    yk_lock *lock;    /* on the chief: of the run directory; NULL: none */
    int slow_worker; /* YK_SLOW_WORKER, for tests: this one takes slow_factor times as long, and sleeps; -1: none does */
    double slow_factor, slow_seconds;
    yk__worker_state *worker;    /* [workers of all processes, and one more] */
    yk__worker_state *evaluator; /* [nevaluators] those who evaluate, and sum up what was trained */
    int nevaluators;
    uint64_t eval_every, checkpoint_every;
    yk_optim_config optim;
    yk_optim_range range[YK__MOST_RANGES]; /* biases, where they have rates of their own */
    size_t nranges;
    uint64_t unit;         /* examples that are always trained together (data/feed.h); 0: any */
    float mean_square;     /* of an input of dense data */
    double peak;           /* --profile: FLOP/s of one thread at best */
    double started, began; /* the process; its first step */
    double trained;        /* the chief of servers: when the last step was over; 0: elsewhere */
    double earlier_seconds;
    uint64_t earlier_examples;
    uint64_t earlier_late, earlier_late_examples, late_examples; /* late_examples: of the whole run, so far */
    char *done_summary; /* summary.json of a run that was done when it was resumed; else NULL */

    /* how workers agree on a barrier */
    atomic_bool barrier_due; /* asynchronous: come as soon as you can */
    atomic_int finished;     /* asynchronous: workers without anything left to do */
    yk__due due;             /* decided by worker 0 */
    bool end;                /* the same */
    uint64_t step, epoch;    /* as of the last barrier */
    uint64_t next_eval, next_save;
    bool saves_by_time;
    double saved_at; /* when; without --checkpoint-every it is done every YK__SAVE_SECONDS */
    uint64_t last_eval, last_save;
    double lowest_loss; /* of all periods between evaluations */

    yk__cluster cluster;
    uint64_t used; /* the chief of servers, in lockstep: positions of the epoch when it was resumed */
} yk__trainer;

/* data_setup.c */
yk_status yk__load_data(yk__trainer *t);
yk_status yk__columns_of(const yk__trainer *t,
                         size_t *out); /* of the model: as given, or as many as the data has */
/* Sparse keys by falling frequency: the hottest share cache lines, and get copies in asynchronous training. */
yk_status yk__order_keys(yk__trainer *t);
float yk__mean_square(yk_dataset *d); /* of an input of dense data; sparse models know it key by key */

/* loop.c */
yk_status yk__train_worker(void *trainer, int me);
yk_status yk__lease(void *trainer, int worker, uint64_t *epoch, uint64_t *begin, uint64_t *end);

/* schedule.c */
void yk__schedule_make(yk__trainer *t);
/* Whether the run has made all requested steps or epochs. Asked at the start and after each step. Asynchronous workers,
 * and workers with a quorum, also end when no examples are left. */
bool yk__is_done(const yk__trainer *t, uint64_t step, uint64_t epoch);
bool yk__save_is_overdue(const yk__trainer *t);
yk__due yk__due_sync(const yk__trainer *t, uint64_t done, bool epoch_over, bool end,
                     bool save_now);                  /* lockstep: after this step */
bool yk__is_due_async(yk__trainer *t, uint64_t done); /* asynchronous: is anything due? */
yk__due yk__due_async(yk__trainer *t, uint64_t done); /* what is; from now on the next is awaited */
uint64_t yk__until_due(void *trainer, uint64_t done); /* steps that may be made before anything is due */

/* barrier.c: all workers of processes that have all parameters call it; does what t->due says */
yk_status yk__barrier(yk__trainer *t, int me);
uint64_t yk__parameter_hash(yk__trainer *t);

/* evaluate.c */
extern const double yk__most_loss;
yk_status yk__diverged(const yk__trainer *t, const char *what, double value, uint64_t step);
/* A share of the test set on frozen parameters, v: [groups]; into w->tally. */
yk_status yk__evaluate(yk__trainer *t, yk__worker_state *w, int share, int of, const yk_view *v);
yk_status yk__conclude(yk__trainer *t); /* the chief, after all evaluators have evaluated */
yk_status yk__save(yk__trainer *t, yk_local *parameters, const yk_progress_state *p); /* they are quiesced */

/* Whether to save and end. */
static inline bool yk__is_stopped(const yk__trainer *t)
{
    return __atomic_load_n(t->stop, __ATOMIC_RELAXED) ||
           atomic_load_explicit(&t->cancelled, memory_order_relaxed);
}

static inline uint64_t yk__least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Images or rows that a worker's memory has room for at a time. */
static inline size_t yk__most_batch(const yk__trainer *t)
{
    return t->plan->batch > YK__EVAL_BATCH ? (size_t)t->plan->batch : YK__EVAL_BATCH;
}

/* turns.c */
yk_status yk__turns_begin(yk__trainer *t);
void yk__turns_step(yk__trainer *t, uint64_t examples); /* worker 0, after each step */
yk_status yk__turns_end(yk__trainer *t, yk_status so_far);

/* chief.c: a process that owns a shard, or sends for its threads, until the job is over */
yk_status yk__serve(yk__trainer *t);

/* cluster.c */
yk_status yk__cluster_start(yk__trainer *t);
yk_status yk__cluster_ready(yk__trainer *t);                /* called by all ranks: training begins */
void yk__stage(const yk__trainer *t, yk_train_stage stage); /* rank 0 of a job tells its launcher */
void yk__cluster_party(yk__trainer *t);                     /* who reads which part of the data */
yk_status yk__cluster_shape(yk__trainer *t);
yk_status yk__cluster_agree(yk__trainer *t);
yk_status yk__cluster_stores(yk__trainer *t,
                             const yk_local_config *whole); /* for all parameters, one worker */
yk_status yk__cluster_store(yk__trainer *t, const yk_local_config *whole); /* that workers train on */
yk_status yk__cluster_restore(yk__trainer *t, yk_local *store, yk_progress_state *p);
void yk__cluster_free(yk__trainer *t);

/* cluster_end.c */
yk_status yk__cluster_finish(yk__trainer *t);
void yk__cluster_salvage(yk__trainer *t); /* of a job that failed: what is known, without asking anybody */

/* ending.c: from the end of the loops, or what failed, to the summary. Returns `st`, or what went wrong here. */
yk_status yk__end(yk__trainer *t, yk_status st);

/* net_setup.c */
yk_status yk__net_options_of(const yk_config *c, yk_net_options *out); /* as the options say */
yk_status yk__net_channels(yk__trainer *t, yk_net_options *o); /* --standardize channel: measures them */
yk_status yk__bias_groups(yk__trainer *t);                     /* --bias-lr, --bias-decay */
yk_status yk__decay_by_epochs(yk__trainer *t);                 /* --lr-decay-epochs */

/* describe.c */
void yk__introduce(const yk__trainer *t);
yk_status yk__describe(yk__trainer *t);
yk_status yk__profile_take(yk__trainer *t);

/* observe_setup.c: connects the trainer to its observer (observe/observe.h) */
yk_status yk__observe(yk__trainer *t);   /* all ranks: creates and opens it */
yk_status yk__evaluated(yk__trainer *t); /* tells it about an evaluation */
void yk__warn(yk__trainer *t);           /* at the end */

#endif
