/* Training: from a configuration to a result and a run directory.
 *
 * Example:
 *     yk_result r;
 *     yk_status st = yk_train(&config, &(yk_train_caller){.stop = &stop, .started = yk_now()}, &r);
 *     if (!st)
 *         printf("%g\n", r.test.accuracy);
 *     yk_result_fini(&r);                      // even after a failure
 *
 * yk_train() starts its own threads and returns when they have ended. One call at a time in a process of a job; single
 * processes (yk_train_caller.single) may train several models in several threads.
 */
#ifndef YK_TRAIN_TRAIN_H
#define YK_TRAIN_TRAIN_H

#include "config/config.h"
#include "data/memory.h"
#include "model/model.h"
#include "observe/observe.h"
#include "store/local.h"
#include "train/metrics.h"
#include "train/plan.h"
#include "train/selection.h"
#include "train/trained.h"
#include <signal.h>
#include <yoke.h>

/* --dry-run: what would be trained. Weights and state exist once, gradients and activations once per worker. */
typedef struct {
    char list[256];   /* the layer list of a named model; "": not shown */
    const char *unit; /* "image" or "example" */
    int nlines;
    yk_layer_line line[YK_MAX_LINES];
    uint64_t params;
    double flops, flops_back; /* of one example */
    uint64_t batch, examples; /* examples: 0: not known */
    int workers;
    char optimizer[YK_OPTION_TEXT];
    size_t weight_bytes, gradient_bytes, state_bytes, activation_bytes;
} yk_description;

/* --profile: the time of worker 0 in the layers of a network, in descending order. The phases are in yk_result.observation. */
typedef struct {
    int nlines;
    yk_profile_line line[YK_MAX_PROFILE_LINES];
    double peak; /* peak FLOP/s of one thread; 0: not known */
} yk_profile;

/* --lr auto (lr_search.c): the loss of each candidate on examples that were held back, after each round. */
enum { YK_LR_CANDIDATES = 9, YK_LR_ROUNDS = 3 };

typedef struct {
    double seconds;              /* 0: --lr auto was not given */
    int rounds;                  /* 0: the run was too short, and the default was kept */
    int chosen;                  /* the candidate */
    double lr[YK_LR_CANDIDATES]; /* of the first group whose rate is searched */
    uint64_t steps[YK_LR_ROUNDS];
    double loss[YK_LR_ROUNDS]
               [YK_LR_CANDIDATES]; /* infinity: it diverged; NaN: it was not trained in this round */
} yk_lr_search;

/* A parameter group, as it was trained. */
typedef struct {
    yk_group shape;
    uint64_t params;      /* without padding */
    uint64_t values_sent; /* bytes of gradients, deltas and parameters in messages of all ranks */
} yk_group_result;

typedef struct {
    yk_plan plan;
    int ngroups; /* 0: not known. plan.group[] says how each is trained */
    yk_group_result group[YK_MAX_GROUPS];
    yk_traffic traffic[YK_PURPOSES]; /* of all ranks */
    double cpu_seconds;              /* the same */
    uint64_t late, late_examples;    /* gradients that were dropped; their examples, unless reassigned */
    uint64_t returned;               /* examples of lost workers that were reassigned */
    int lost, joined;                /* workers */
    yk_comm *comm;                   /* the caller stops it after its last message; NULL: one process */
    bool dispensable;                /* the job can continue without this process */
    bool clean, chief;               /* clean: MPI_Finalize can be called; chief: this process is the chief */
    uint64_t steps, epochs, examples; /* of the whole run, including before a resume */
    bool epochs_unknown;              /* asynchronous training ended before its stream did */
    uint64_t trained_here;            /* examples, by this process */
    uint64_t resumed_from;            /* step */
    uint64_t params;
    int numa_nodes;   /* of the chief's host, if processes are bound to them; else 0 */
    int threads_used; /* per worker: at most plan.threads */
    double lr;        /* of the first group; the optimizer's default if --lr was not given */
    yk_lr_search search;
    double seconds;       /* from the first step to the end, with evaluation and checkpoints */
    double train_seconds; /* without evaluation and checkpoints */
    double load_seconds, eval_seconds, checkpoint_seconds, first_step_seconds;
    double train_loss; /* mean over the examples since the last evaluation */
    bool tested;
    yk_score test, best; /* best: of a perfect model, for generated data */
    bool best_known;
    yk_eval_metrics metrics; /* of the test set, at the end; examples 0: none */
    char *metrics_json;      /* the same; NULL: none */
    /* With a validation set: `test` is that of the best model when the run has ended, and that of the last one before. */
    bool validated;
    yk_score validation; /* of the last model */
    yk_best selected;    /* step 0: none */
    yk_score last_test;
    uint64_t waited; /* evaluations without improvement, after which the run ended; 0: it ended otherwise */
    uint64_t bad_records;
    yk_staleness observed;
    bool interrupted;
    yk_status status;            /* YK_OK, or why the run failed */
    int exit_code;               /* 0: that of the status */
    char *error;                 /* message of the failure; NULL: none */
    bool without_chief;          /* not written by the chief: only progress and options are known */
    bool from_launcher;          /* written by the launcher: CPU time and memory are not known */
    int workers_connected;       /* from_launcher: the workers, if the job has connected; 0: not known */
    char *checkpoint, *run_dir;  /* NULL: none */
    yk_description *description; /* --dry-run; nothing else is set then. Else NULL */
    yk_profile *profile;         /* --profile; else NULL */
    yk_observation observation;
    yk_trained *trained; /* if caller->keep_model and training did not fail; else NULL */
} yk_result;

/* What a process of a job reports to its launcher. */
typedef enum {
    YK_STAGE_ALIVE,     /* once a second until training begins */
    YK_STAGE_CONNECTED, /* rank 0: all processes are connected */
    YK_STAGE_TRAINING,  /* rank 0: all are ready */
    YK_STAGE_SAVING,    /* rank 0: writing a checkpoint, which may take a long time */
    YK_STAGE_SAVED,
} yk_train_stage;

/* The calling program: its callbacks, and data in memory. Functions may be NULL. */
typedef struct {
    const volatile sig_atomic_t *stop; /* non-zero: save and end; a signal handler may set it */
    double started;                    /* start time of the program (base/clock.h) */
    /* A process of a job. */
    void (*stage)(yk_train_stage stage, int workers); /* called by any thread */
    void (*end_process)(yk_status status);            /* comm/startup.h */
    void (*ranked)(int rank); /* the rank is known; -1: a single process, or a worker that joined */
    /* A single process. */
    bool single;                                    /* even if an engine started this process */
    const yk_memory_data *data, *test, *validation; /* instead of the options of these names; NULL: none */
    const yk_trained *start;                        /* initial parameters; NULL: those of the model */
    bool keep_model;                                /* result->trained is set */
    bool keep_state;                                /* with the optimizer's state */
    /* Training continues with the optimizer's state of `start`, if it has one, in another order of the examples. */
    bool continues;
    void *context;
    bool (*progress)(void *context, const yoke_progress *p); /* called by worker 0; true: save and end */
    /* Called after each evaluation; true: save and end. */
    bool (*metrics)(void *context, const yoke_metrics *m);
} yk_train_caller;

/* YK_EINTERRUPTED: a signal arrived before the job began to train. */
yk_status yk_train(const yk_config *c, const yk_train_caller *caller, yk_result *out);
void yk_result_fini(yk_result *r);

#endif
