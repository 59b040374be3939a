/* Functions that are called while a run trains: by the workers (loop.c), and by a chief that is a server (chief.c). */
#ifndef YK_TRAIN_LOOP_H
#define YK_TRAIN_LOOP_H

#include "train/trainer.h"

/* loop.c: the workers of this process, until the end of training */
yk_status yk__run_workers(void *trainer);

/* After a gradient. */
static inline void yk__add_weights(const yk_batch *batch, yk_grad *g)
{
    if (yk_batch_weighted(batch))
        g->extra_weight = yk_batch_total(batch) - (double)batch->n;
}

/* chief.c: the main thread of a process that owns a shard or has a progress thread; returns when the job is over */
yk_status yk__serve(yk__trainer *t);

/* barrier.c: called by all workers of a process that has all parameters; does what t->due says */
yk_status yk__barrier(yk__trainer *t, int me);
uint64_t yk__parameter_hash(yk__trainer *t);

/* evaluate.c */
double yk__max_loss(const yk__trainer *t);
/* The learning rate of the group where it is the largest multiple of its optimizer's default, for advice: "try --lr keyed=0.1". */
typedef struct {
    double lr, usual;               /* usual: the default */
    char prefix[YK_GROUP_NAME + 1]; /* of the value of --lr: "": all groups; "keyed=", "dense=" or "NAME=" */
} yk__largest_lr;
yk__largest_lr yk__largest_lr_of(const yk__trainer *t);
yk_status yk__diverged(const yk__trainer *t, const char *what, double value, uint64_t step);
/* Evaluates one share of the test set and of the validation set on parameters that do not change, v: [groups]. The results are
 * w->tally. */
yk_status yk__evaluate(const yk__trainer *t, yk__worker_state *w, int share, int of, const yk_view *v);
/* The test set on the best model, v, for t->selection.tested. */
yk_status yk__evaluate_best(yk__trainer *t, const yk_view *v);
yk_progress_state yk__progress_now(const yk__trainer *t); /* without `late` and the cursor */
void yk__start_period(yk__trainer *t);                    /* resets the sums of the training loss */
/* The chief, when all workers have evaluated the parameters of step `at`: computes the scores, and selects the best model. The
 * scores are then reported (yk__report_evaluation). extra: as in yk__due. */
yk_status yk__score_evaluation(yk__trainer *t, const yk_progress_state *at, bool extra);
/* All processes with all parameters, and the chief, once they know t->selection.best: whether the run ends. */
void yk__follow_evaluation(yk__trainer *t);
/* --lr-schedule plateau: the reductions in t->selection.best, in the stores of this process (local.h). */
void yk__set_reductions(yk__trainer *t, void (*set)(yk_local *s, uint32_t n));
/* Whether to save the model that was just evaluated, because it is the best one so far. */
bool yk__saves_best(const yk__trainer *t);

/* saver.c */
yk_status yk__save(yk__trainer *t, yk_local *parameters, const yk_progress_state *p); /* quiesced ones */
/* Called at a barrier. Copies the store of this process, and saves the copy while training continues. At the end of the run, or without
 * memory for a copy, saves the store itself while the workers wait. best: due only because it is the best model so far, so it may be written
 * later. Takes p->cursor. */
yk_status yk__save_async(yk__trainer *t, const yk_progress_state *p, bool best);
yk_status yk__save_pending(yk__trainer *t); /* writes such a copy, if it is time */
/* Writes such a copy, and waits for the thread that writes. Returns `so_far`, or else the error of the thread. */
yk_status yk__saver_finish(yk__trainer *t, yk_status so_far);
void yk__saver_fini(yk__saver *s);

/* Whether a checkpoint could not be written. Then yk__saver_finish() returns the error. */
static inline bool yk__saver_failed(const yk__saver *s)
{
    return s->thread.started && atomic_load(&s->thread.over) && s->thread.error.st;
}

/* observe_setup.c, cluster.c */
/* Rates are measured from here: called when training begins, and again after the evaluation before the first step. */
void yk__begin_progress(yk__trainer *t);
/* After a step. shows: updates the progress line, too (worker 0). Fails if the run has diverged. */
yk_status yk__report_progress(yk__trainer *t, uint64_t step, bool shows);
void yk__report_last(yk__trainer *t); /* on the chief, after the last step, before the last evaluation */
yk_status yk__report_evaluation(yk__trainer *t, const yk_progress_state *at);
void yk__report_stage(const yk__trainer *t, yk_train_stage stage); /* to the launcher, by rank 0 of a job */

#endif
