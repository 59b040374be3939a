/* Selection of the best model by validation data (--validation, --monitor), and early stopping (--patience).
 *
 * Example:
 *     yk__selection s = {0};
 *     yk_score validation = {.examples = 100, .loss = 0.3}, test = {0};
 *     yk_tally tally = {.examples = 100, .weight = 100.0, .loss = 30.0};    // of the validation set
 *     yk_status st = yk__selection_init(&s, &(yk_config){.patience = 5}, 2);
 *     if (!st)
 *         st = yk__select(&s, &tally, 800, false, &validation, &test);           // the chief, after each evaluation
 *     bool save = !st && s.best.improved;                                // the parameters that were evaluated
 *     bool stop = !st && yk__selection_is_over(&s);
 *     yk__selection_fini(&s);
 *
 * The best model has the best monitored value of all evaluations; of equal values, the earliest. The model before the first step
 * is not selected; a warning says if it was better. An evaluation is an improvement if its value is better than `mark` by more than --min-delta; it is then the new
 * mark, so improvements that are smaller than --min-delta add up. Patience counts the evaluations since the last improvement. With
 * --lr-schedule plateau, the learning rate is reduced after --lr-patience evaluations without improvement or reduction.
 *
 * The state is part of a checkpoint, so a resumed run selects and stops as if it had not been interrupted: an evaluation that is
 * made only because the run ends can select a model, but does not count for patience and plateaus. Test data is never compared:
 * the test scores are only those of the same evaluation.
 *
 * Where it is called: evaluate.c, by worker 0 at a barrier or by the thread that evaluates a snapshot. The parameters that were
 * evaluated are then saved: those at the barrier, or those of the snapshot (barrier.c, chief.c).
 */
#ifndef YK_TRAIN_SELECTION_H
#define YK_TRAIN_SELECTION_H

#include "config/config.h"
#include "train/metrics.h"

/* The state: the same in all replicas. Checkpoints have the first part. */
typedef struct {
    uint64_t step;                /* of the best model; 0: none yet */
    uint64_t waited;              /* evaluations since the last improvement */
    double mark;                  /* the monitored value at that improvement */
    double best;                  /* the monitored value of the best model */
    char monitor[YK_METRIC_NAME]; /* the name of that value */
    /* --lr-schedule plateau: evaluations since then, or since the last reduction of the learning rate; reductions so far */
    uint64_t lr_waited, reductions;
    yk_score validation, test; /* of the best model; test: 0 examples if there is no test set */
    /* of the last evaluation */
    double value;
    bool improved;
} yk_best;

typedef struct {
    const yk_metric_kind *monitor; /* NULL: there is no validation set */
    const char *validation;        /* the option, for messages */
    double min_delta;
    uint64_t patience;    /* 0: never stop */
    uint64_t lr_patience; /* 0: learning rates do not depend on the value */
    yk_best best;
    double start;      /* the monitored value before the first step; NaN: not known */
    uint64_t resumed;  /* a step that was evaluated before it was saved, so `best` includes it; 0: none */
    yk_tally tested;   /* of the test set and the best model; 0 examples: not known */
    float *parameters; /* of the best model, for a caller without a run directory; else NULL */
} yk__selection;

/* YK_EUSAGE: --monitor is not known. */
yk_status yk__monitor_find(const yk_config *c, const yk_metric_kind **out);
/* classes: 0: labels are numbers. YK_EUSAGE: the value is not defined for them. */
yk_status yk__selection_init(yk__selection *s, const yk_config *c, uint32_t classes);
/* The value is that of `tally`, of the validation set. extra: as in yk__due (schedule.h). YK_EDATA: there are no validation examples, or
 * it is not defined for them. */
yk_status yk__select(yk__selection *s, const yk_tally *tally, uint64_t step, bool extra,
                     const yk_score *validation, const yk_score *test);

void yk__selection_fini(yk__selection *s);

static inline bool yk__selection_is_over(const yk__selection *s)
{
    return s->patience && s->best.waited >= s->patience;
}

#endif
