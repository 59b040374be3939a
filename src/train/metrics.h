/* Metrics of predictions: a table with one row per metric, and all of them for one evaluation.
 *
 * Example:
 *     const yk_metric_kind *auc = yk_metric_find("auc");           // --monitor auc
 *     double value;
 *     yk_status st = yk_metric_value(auc, &tally, &value);         // better: auc->sign * value is larger
 *
 *     yk_eval_metrics m;                                                // all, at the end of a run
 *     st = yk_eval_metrics_make(&tally, &m);
 *     char *text = yk_eval_metrics_json(&m, NULL, 9);
 *     yk_eval_metrics_fini(&m);
 *
 * They are derived from a tally (score.h), which workers and processes add up: the metrics of a merged tally are those of all
 * examples. The definitions are those of scikit-learn, and examples have weights. Classes are predicted as by yk_score_class().
 * Thread-safe.
 */
#ifndef YK_TRAIN_METRICS_H
#define YK_TRAIN_METRICS_H

#include "data/schema.h"
#include "train/score.h"

/* What is predicted: one of two classes, one of several, or a number. */
typedef enum { YK_TASK_BINARY = 1, YK_TASK_CLASSES = 2, YK_TASK_NUMBERS = 4 } yk_task;

typedef struct {
    const char *name;  /* "pr_auc", for options and JSON */
    const char *title; /* "PR-AUC" */
    int sign;          /* 1: higher is better; -1: lower */
    bool ranked;       /* two classes: predictions must be sorted */
    unsigned tasks;    /* bits of yk_task for which it is defined */
} yk_metric_kind;

enum { YK_METRICS = 17, YK_METRIC_NAME = 24 };

extern const yk_metric_kind yk_metric_kinds[YK_METRICS];

/* All names, for messages and help. */
#define YK_METRIC_NAMES                                                                                      \
    "loss, log_loss, normalized_entropy, accuracy, auc, pr_auc, brier, calibration_error, precision, "       \
    "recall, f1, macro_precision, macro_recall, macro_f1, r2, mae, rmse"

const yk_metric_kind *yk_metric_find(const char *name); /* NULL: there is none */

/* NaN: it is not defined for this task or for these examples. */
yk_status yk_metric_value(const yk_metric_kind *kind, const yk_tally *t, double *out);

typedef struct {
    double weight, precision, recall, f1; /* weight: of the examples of this class. NaN: it does not occur */
} yk_class_metrics;

typedef struct {
    yk_task task;
    uint64_t examples;
    double weight;            /* the sum of the weights; without weights: the examples */
    double majority_accuracy; /* of always predicting the most frequent class */
    double value[YK_METRICS]; /* as in the table. NaN: not defined */
    size_t classes;           /* 0: numbers */
    yk_class_metrics *of_class;
    double *
        confusion; /* [label][prediction] weights, in the same block; NULL: more classes than YK_MAX_CONFUSION */
    /* Predictions by probability (two classes: of class 1; several: of the predicted class): their weight, and the sums of the
     * probabilities and of the outcomes (class 1; or the prediction was right). */
    yk_calibration_bin bin[YK_CALIBRATION_BINS];
} yk_eval_metrics;

yk_status yk_eval_metrics_make(const yk_tally *t, yk_eval_metrics *out);
void yk_eval_metrics_fini(yk_eval_metrics *m);

/* A JSON object with this many digits; the caller frees it. names: of the classes; NULL: they have none. NULL: out of
 * memory, which is reported. */
char *yk_eval_metrics_json(const yk_eval_metrics *m, const yk__names *names, int digits);

#endif
