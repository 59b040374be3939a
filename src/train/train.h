/* Training: from a configuration to a result, with everything that is kept on the way.
 *
 *     yk_result r;
 *     st = yk_train(&config, &(yk_train_host){.stop = &stop, .started = yk_now()}, &r);
 *     yk_result_fini(&r);
 */
#ifndef YK_TRAIN_TRAIN_H
#define YK_TRAIN_TRAIN_H

#include "config/config.h"
#include "config/plan.h"
#include "data/memory.h"
#include "model/model.h"
#include "observe/observe.h"
#include "store/local.h"
#include "train/score.h"
#include "train/trained.h"
#include <signal.h>

/* --dry-run: what would be trained. Bytes of weights and state are there once, the others once per worker. */
typedef struct {
    int nlines;
    yk_layer_line line[YK_MAX_LINES];
    uint64_t params;
    double flops, flops_back; /* of one example */
    uint64_t batch, examples; /* examples: 0 where it is not known */
    int workers;
    const char *optimizer;
    size_t weight_bytes, gradient_bytes, state_bytes, activation_bytes;
} yk_description;

/* --profile: where the time of worker 0 went, the longest first. */
typedef struct {
    int nlines;
    yk_profile_line line[YK_MAX_PROFILE_LINES];
    int threads;
    double peak; /* FLOP/s of one thread at best; 0: not known */
    double train_seconds;
} yk_profile;

typedef struct {
    yk_plan plan;
    yk_rank_report *report; /* [nreports], or NULL: the ranks, then workers that joined */
    int nreports;
    yk_traffic traffic[YK_PURPOSES]; /* of all ranks together */
    double cpu_seconds;              /* the same */
    uint64_t late, late_examples; /* gradients that were dropped; their examples, unless assigned to others */
    uint64_t returned;            /* examples of lost workers that were dealt again */
    int lost, joined;             /* workers */
    yk_comm *comm;                /* the caller stops it after its last message; NULL in one process */
    bool dispensable;             /* the job goes on without this process */
    bool clean, chief;            /* whether MPI_Finalize can be called; whether this process is the chief */
    uint64_t steps, epochs, examples; /* of the whole run, with what was done before a resume */
    uint64_t trained_here;            /* examples, by this process */
    uint64_t resumed_from;            /* step */
    uint64_t params;
    double lr;            /* as resolved */
    double seconds;       /* from the first step to the end, with evaluation and checkpoints */
    double train_seconds; /* without them */
    double load_seconds, eval_seconds, checkpoint_seconds, first_step_seconds;
    double train_loss; /* mean over the examples since the last evaluation */
    bool tested;
    yk_score test, best; /* best: of generated data, what a perfect model would get */
    bool best_known;
    uint64_t bad_records;
    yk_staleness observed;
    bool interrupted;
    yk_status status; /* how it ended */
    int exit_code;    /* 0: that of the status */
    char *error;      /* why, where that was not well; else NULL */
    bool secondhand;  /* told by a process that was no part of it: nothing is known of CPU and memory */
    char *checkpoint, *run_dir;  /* NULL: none */
    yk_description *description; /* --dry-run; then nothing else is known. NULL: not asked for */
    yk_profile *profile;         /* --profile */
    yk_observation watched;
    yk_trained *trained; /* if the host wants it, and training did not fail */
} yk_result;

/* What a process of a job tells its launcher. */
typedef enum {
    YK_STAGE_ALIVE,    /* once a second until training begins */
    YK_STAGE_BEGUN,    /* rank 0: the processes have found each other */
    YK_STAGE_TRAINING, /* rank 0: all are ready */
    YK_STAGE_SAVING,   /* rank 0: a checkpoint is being written, which may take long */
    YK_STAGE_SAVED,
} yk_train_stage;

/* An evaluation. A number that is not known is NaN. */
typedef struct {
    uint64_t step, examples;
    double epoch, seconds, train_loss;
    double test_loss, test_accuracy, test_auc, majority_accuracy;
} yk_metrics_report;

/* The program that runs the training, and what it passes in memory. Functions may be NULL. */
typedef struct {
    const volatile sig_atomic_t *stop; /* non-zero: save and end; a signal handler may set it */
    double started;                    /* when the program began (base/clock.h) */
    /* A process of a job. */
    void (*stage)(yk_train_stage stage, int workers); /* any thread calls it */
    void (*end_process)(yk_status status);            /* comm/startup.h */
    void (*ranked)(int rank);                         /* the rank is known now; -1: a worker that joined */
    /* A single process. */
    bool single;                       /* even if this process was started by an MPI launcher */
    const yk_memory_data *data, *test; /* instead of config->data and config->test; NULL: none */
    const yk_trained *start;           /* the initial parameters; NULL: as the model has them */
    bool keep_model;                   /* result->trained is set */
    void *context;
    bool (*progress)(void *context, const yk_progress_report *p); /* by worker 0; true: save and end */
    bool (*metrics)(void *context,
                    const yk_metrics_report *m); /* after each evaluation; true: save and end */
} yk_train_host;

/* YK_EINTERRUPTED: a signal came before a job had begun to train. */
yk_status yk_train(const yk_config *c, const yk_train_host *host, yk_result *out);
void yk_result_fini(yk_result *r);

#endif
