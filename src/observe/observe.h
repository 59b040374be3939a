/* Observation of a run: telemetry from the ranks to the chief, metrics.jsonl and the progress line, TensorBoard, the live
 * page, the trace, the verdict and the warnings.
 *
 * Example:
 *     yk_observer *o;
 *     yk_status st = yk_observer_create(&config, &o); // every process
 *     if (!st)
 *         st = yk_observer_open(o); // collective: run directory, link to the chief; files of the chief
 *     if (!st)
 *         st = yk_observer_start(o, yk_now()); // before the first step: sampling thread, trace, live page
 *     yk_observer_begin(o); // the chief: the first step begins
 *     for (uint64_t i = 0; !st && i < steps; i++) {
 *         yk_observer_progress(o, true, true); // the chief, now and then
 *         yk_observer_traffic(o);              // the thread that may use `comm`
 *     }
 *     if (!st)
 *         st = yk_observer_evaluated(o, &evaluation); // worker 0, after an evaluation
 *     st = yk_observer_stop(o, steps, false, st);     // after the loop: completes the measurements of this process
 *     if (!st)
 *         st = yk_observer_gather(o, &lost, &observation); // collective: sends the last telemetry to the chief
 *     if (!st)
 *         st = yk_observer_conclude(o, lost, &observation); // trace of all ranks; on the chief, the verdict
 *     if (!st)
 *         st = yk_observer_close(o, "done"); // last lines of metrics.jsonl and TensorBoard
 *     yk_observation_warn(&outcome, &observation);
 *     yk_observer_free(o);
 *
 * After a failure, yk_observer_conclude_failed() replaces gather and conclude; it does not communicate. Functions that are called after a failure also accept a NULL observer, and one that was not opened or started.
 *
 * Threads: training never waits for observation. The sampling thread keeps the history and the verdict under a lock, and the
 * thread of the live page copies them under the same lock. Worker 0 waits for the lock only after an evaluation, and before it
 * writes TensorBoard events, at most twice a second; for its progress it tries the lock, and skips the update if the lock is
 * taken.
 */
#ifndef YK_OBSERVE_OBSERVE_H
#define YK_OBSERVE_OBSERVE_H

#include "config/config.h"
#include "core/observed.h"
#include "core/plan.h"
#include "data/check.h"
#include "model/model.h"
#include "observe/observation.h"
#include "watch/http.h"
#include <yoke.h>

typedef struct yk_observer yk_observer;

/* The position of the run, including what was done before a resume. */
typedef struct {
    uint64_t step, examples;
    uint64_t late_examples;    /* of dropped gradients: not in `examples`, but part of their epoch */
    uint64_t epoch_examples;   /* examples of one epoch; 0: not known yet */
    uint64_t trained_examples; /* since this process started, and the sums of their weights and losses */
    double trained_weight, trained_loss;
} yk_run_position;

/* Epochs, including the fraction of the current one; NaN: not known. Examples of late gradients count. */
double yk_epochs_done(const yk_run_position *at);

/* Groups with learning rates of their own: the first keyed group (without one, the first dense group), the dense groups beside
 * it, and the second, third, ... keyed group. */
enum { YK_RATES = YK_MAX_GROUPS + 1 };

/* Progress since the last report. A number that is not known is NaN. */
typedef struct {
    yoke_progress now;     /* text: the progress line; NULL: it is not shown */
    double rate[YK_RATES]; /* learning rates; NaN: no such group, or the same rate as the first */
} yk_progress_report;

/* Everything is borrowed and must stay valid until the observer is freed. */
typedef struct {
    const yk_config *config;
    const yk_plan *plan;
    const yk_model *model;
    const yk_optim_config *optim[YK_RATES]; /* NULL: no such group */
    yk_comm *comm;                          /* NULL: one process */
    int rank, ranks;                        /* rank: 0 only for the chief */
    int chief;                              /* the peer number of the chief */
    bool joined;                            /* it joined a running job (config->join) */
    bool streamed;                          /* the data is read again in each epoch */
    int workers;                            /* of this process: threads that train; 1 for a server */
    yk_phases *phases;                      /* [workers] */
    yk_phases *serving;                     /* of the thread that serves a shard beside them; NULL: none */
    const char *run_dir;                    /* of the chief; NULL: nothing is written */
    yk_http *http; /* of the chief; stopped before the observer is freed; NULL: none */
    uint64_t resumed_from, earlier_examples; /* the step and the examples of the checkpoint; 0: no resume */
    double earlier_seconds;
    double best_loss, best_auc; /* the best that any model can reach on the test set; NaN: not known */

    /* Callbacks to the training loop. */
    void *context;
    /* Called by worker 0 a few times a second; may be NULL. */
    void (*progress)(void *context, const yoke_progress *p);
    void (*position)(void *context, yk_run_position *out); /* called by yk_observer_progress() */
    yk_workspace *(*work)(void *context, int worker); /* of a worker of this process; called by any thread */
    /* Of one worker of this process; worker 0: of all workers. Called by yk_observer_evaluated(). */
    void (*staleness)(void *context, int worker, yk_staleness *out);
    /* The workers of parameter servers, at most `max`; returns their number. Called by yk_observer_traffic() and
     * yk_observer_gather(). NULL: this process is not the chief of parameter servers. */
    int (*worker_status)(void *context, yk_worker_status *out, int max);
} yk_observer_config;

/* ---- beginning and end ---- */

yk_status yk_observer_create(const yk_observer_config *config, yk_observer **out);
yk_status yk_observer_open(yk_observer *o);
yk_status yk_observer_start(yk_observer *o, double began); /* began: when training began (base/clock.h) */
/* `steps`: of the run. `unchanged`: the run was already complete when it was resumed, so its files do not change. */
yk_status yk_observer_stop(yk_observer *o, uint64_t steps, bool unchanged, yk_status so_far);
/* state: as in yk_run_end. */
yk_status yk_observer_close(yk_observer *o, const char *state);
void yk_observer_free(yk_observer *o);

/* The run directory, if this process can write to it; else NULL. Valid after open. */
const char *yk_observer_run_dir(const yk_observer *o);

/* Whether metrics.jsonl already has the evaluation of the step that the run was resumed from, and its training loss. */
bool yk_observer_resumed_loss(const yk_observer *o, double *train_loss_out);

/* ---- during training ---- */

/* The first step begins now: the rates of the first point of the training curves are measured from here. */
void yk_observer_begin(yk_observer *o);

/* On the chief, one worker at a time, after a step of the run. point: writes a point of the training curves; line: updates the
 * progress line (only worker 0). The caller writes the last point before the last evaluation, which its rates do not include. */
void yk_observer_progress(yk_observer *o, bool point, bool line);

/* The thread that may use `comm`, after each step: counts bytes; about once a second sends telemetry, or receives it (chief). */
void yk_observer_traffic(yk_observer *o);

/* On the chief: a checkpoint was written. Any thread. */
void yk_observer_saved(yk_observer *o);

/* The names in metrics.jsonl of the numbers in yoke_metrics from `epoch` on, in their order; then NULL. */
extern const char *const yk_metric_names[];

/* An evaluation, also as a point of the curves. A number that is not known is NaN. */
typedef struct {
    yoke_metrics m;
    bool tested, validated; /* there is a test set; a validation set */
    const char *
        monitor; /* the title of --monitor, and its value on the validation set; NULL: not known, or the loss */
    double monitored;
    uint64_t steps, examples; /* over which the training loss is averaged; set by the observer */
} yk_evaluation;

/* On the chief: writes a line to stderr, and updates metrics.jsonl, TensorBoard (unless there are very many evaluations:
 * metrics.c) and the live page. */
yk_status yk_observer_evaluated(yk_observer *o, const yk_evaluation *e);

/* ---- the end ---- */

/* On the chief, before yk_observer_gather(): a heartbeat to the ranks that wait there, while it evaluates. */
yk_status yk_observer_alive(yk_observer *o);

/* On the chief: lists the processes of the job. A lost rank is represented by its last telemetry. `lost`: whether a rank is
 * lost; passed in by the chief, set on the other ranks. */
yk_status yk_observer_gather(yk_observer *o, bool *lost, yk_observation *out);

/* Adds the verdict. Communicates, unless `lost`. */
yk_status yk_observer_conclude(yk_observer *o, bool lost, yk_observation *out);
/* Without communication: from this process and the last telemetry of the others, if gather has not listed them. Does nothing
 * if the run was concluded before it failed. */
yk_status yk_observer_conclude_failed(yk_observer *o, yk_observation *out);

/* The points so far, at most a few hundred: if there are more, every other one is dropped. On the chief. */
const yk_evaluation *yk_observer_curve(const yk_observer *o, size_t *n_out);

/* The end of a run, for the live page. NaN: not known. */
typedef struct {
    const char *state, *error; /* "done", "stopped", "failed"; error: of a failed run, else NULL */
    const yk_verdict *verdict; /* NULL: none */
    uint64_t step, examples;
    double epoch, seconds, train_loss;
    double examples_per_second, steps_per_second; /* while training */
} yk_run_end;

/* On the chief: shows the end on the live page, and waits until an open page has fetched it, for about a minute, or
 * until *stop is not 0. Returns immediately if no page was open in the last minute. */
void yk_observer_show_end(yk_observer *o, const yk_run_end *end, const volatile sig_atomic_t *stop);

/* The result of training, for yk_observation_warn(). */
typedef struct {
    yk_evaluation last;
    const yk_evaluation *point; /* [points] borrowed; the last one is `last` */
    size_t points;
    double lr, default_lr;   /* of the optimizer; 0: not known */
    uint64_t steps, warm_up; /* of the run; until the warm-up of all groups is over */
    const char *lr_prefix;   /* for advice about --lr: "keyed=", "NAME="; "" or NULL: all groups. Borrowed */
    uint32_t classes;        /* 0: the loss is not a log loss of classes */
    uint64_t examples, test_examples; /* of the data; 0: not known */
    uint64_t global_batch;
    int workers;
    bool asynchronous;
    bool regularized; /* --l1 or --l2 */
    bool reweighted;  /* --class-weight: the training loss is not that of the classes' frequencies */
    bool adaptive;    /* the optimizer adapts the learning rate of each parameter */
    uint64_t bad_records;
    const char *
        selection; /* the title of --monitor, if the best model is worse than the one before the first step; else NULL */
    double start, best; /* its values for these */
    double r2;          /* regression: on the test set; 0 or NaN: not known */
    yk_data_check data; /* zeros: not checked */
} yk_outcome;

/* Warns about results that invite wrong conclusions: prints the warnings and adds them to `w`. */
void yk_observation_warn(const yk_outcome *outcome, yk_observation *w);

/* ---- the metrics of another process ---- */

/* The position and the bottleneck of a run in the last lines of its metrics.jsonl; zeros, and NaN for epochs: not known. */
typedef struct {
    uint64_t steps, examples;
    double epochs, seconds;
    yk_verdict verdict; /* kind, share and text only */
} yk_metrics_end;

void yk_metrics_read_end(const char *run_dir, yk_metrics_end *out);

#endif
