/* Functions that are called while a run trains: by the workers (loop.c), and by a chief that is a server (chief.c). */
#ifndef YK_TRAIN_LOOP_H
#define YK_TRAIN_LOOP_H

#include "train/trainer.h"

/* loop.c: the workers of this process, until the end of training */
yk_status yk__run_workers(void *trainer);

/* chief.c: for a process that owns a shard, or sends for its threads; returns when the job is over */
yk_status yk__serve(yk__trainer *t);

/* barrier.c: called by all workers of processes that have all parameters; performs the actions in t->due */
yk_status yk__barrier(yk__trainer *t, int me);
uint64_t yk__parameter_hash(yk__trainer *t);

/* evaluate.c */
extern const double yk__max_loss;
/* The learning rate that is the largest multiple of the default of its optimizer, for advice such as "try --lr keyed=0.1". */
typedef struct {
    double lr, usual;
    char prefix[YK_GROUP_NAME + 1]; /* of the value of --lr: "": all groups; "keyed=", "dense=" or "NAME=" */
} yk__largest_lr;
yk__largest_lr yk__largest_lr_of(const yk__trainer *t);
yk_status yk__diverged(const yk__trainer *t, const char *what, double value, uint64_t step);
/* Evaluates one share of the test set on parameters that do not change, v: [groups]. The result is w->tally. */
yk_status yk__evaluate(yk__trainer *t, yk__worker_state *w, int share, int of, const yk_view *v);
yk_progress_state yk__progress_now(const yk__trainer *t); /* without `late` and the cursor */
void yk__start_period(yk__trainer *t);                    /* resets the sums of the training loss */
/* The chief, after all evaluators have evaluated the parameters of `at`: computes the scores, and reports them unless this step
 * was reported before. */
yk_status yk__finish_evaluation(yk__trainer *t, const yk_progress_state *at, bool repeated);
yk_status yk__save(yk__trainer *t, yk_local *parameters, const yk_progress_state *p); /* quiesced ones */
yk__write yk__write_checkpoint; /* of a trainer; leaves the arrays reordered (checkpoint.h) */

/* observe_setup.c, cluster.c */
/* When training begins, and after the evaluation before the first step: rates are measured from here. */
void yk__begin_progress(yk__trainer *t);
/* After a step. shows: this is worker 0, which also updates the progress line. Fails if the run has diverged. */
yk_status yk__report_progress(yk__trainer *t, uint64_t step, bool shows);
void yk__report_last(yk__trainer *t); /* on the chief, after the last step, before the last evaluation */
yk_status yk__report_evaluation(yk__trainer *t, const yk_progress_state *at);
void yk__report_stage(const yk__trainer *t, yk_train_stage stage); /* to the launcher, by rank 0 of a job */

#endif
