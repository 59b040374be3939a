/* Scores of predictions: loss, accuracy, AUC for two classes, and the accuracy of always predicting the most frequent class.
 * metrics.h has the others, which are computed from the same tally.
 *
 * Example:
 *     yk_tally t = {0};                                            // one per worker
 *     yk_status st = yk_tally_add(&t, p, outputs, &batch, NULL);   // probabilities [n][outputs]
 *     t.loss += loss;
 *     if (!st)
 *         st = yk_tally_merge(&all, &t);                           // of all workers
 *     if (!st)
 *         st = yk_score_make(&all, &score);
 *     yk_tally_fini(&t);
 *
 * A tally belongs to one thread at a time.
 */
#ifndef YK_TRAIN_SCORE_H
#define YK_TRAIN_SCORE_H

#include "core/rows.h"
#include <math.h>

enum { YK_CALIBRATION_BINS = 15, YK_MAX_CONFUSION = 100 };

/* Predictions whose probability is in one of YK_CALIBRATION_BINS equal parts of (0, 1]. */
typedef struct {
    double weight, probability, outcome; /* sums */
} yk_calibration_bin;

/* Adds a prediction: its probability, its weight, and the weight again if the outcome happened. */
static inline void yk__bin_add(yk_calibration_bin *bins, double p, double w, double outcome)
{
    const double k = ceil(p * YK_CALIBRATION_BINS) - 1.0; /* or NaN */
    const size_t last = YK_CALIBRATION_BINS - 1;
    yk_calibration_bin *b = &bins[k > 0.0 ? k < (double)last ? (size_t)k : last : 0];
    b->weight += w;
    b->probability += w * p;
    b->outcome += outcome;
}

/* Sums are weighted; examples without weights have the weight 1. */
typedef struct {
    double loss; /* sum */
    uint64_t examples;
    double weight;   /* sum */
    bool other_loss; /* the loss is not the log loss */
    bool weighted;   /* some examples had weights */
    /* Classes. */
    size_t classes; /* 0: numbers, or no examples yet */
    double *
        count; /* [classes] of this class, [classes] predicted as it, [classes] both; then the confusion matrix
                       [label][prediction], if there are at most YK_MAX_CONFUSION classes */
    /* [examples] of two classes, from which their metrics are computed: bits of the probability of class 1, then the label. */
    uint32_t *ranks;
    float *weights; /* [examples] of two classes, if weighted; else NULL */
    size_t cap, weights_cap;
    /* Several classes. */
    double brier; /* sum */
    yk_calibration_bin bin[YK_CALIBRATION_BINS];
    /* Numbers. */
    double mean, squares; /* of the labels: their mean, the sum of the squared differences from it */
    double squared_error, absolute_error; /* sums */
} yk_tally;

typedef struct {
    uint64_t examples;
    double weight;                            /* sum */
    double loss, accuracy, majority_accuracy; /* accuracies: NaN for numbers */
    /* Area under the ROC curve: the probability that a random example of class 1 gets a higher prediction than one of
     * class 0; ties count half. NaN unless there are two classes and both occur. */
    double auc;
} yk_score;

extern const yk_score yk_score_unknown; /* all numbers are NaN */

/* The class that is predicted by probabilities p[outputs]. */
size_t yk_score_class(const float *p, size_t outputs);

/* weight: [b->n], positive; NULL: 1. */
yk_status yk_tally_add(yk_tally *t, const float *p, size_t outputs, const yk_batch *b, const float *weight);
/* Predictions of numbers. */
void yk_tally_add_numbers(yk_tally *t, const float *predicted, const float *label, const float *weight,
                          size_t n);
yk_status yk_tally_merge(yk_tally *t, const yk_tally *from); /* adds */
void yk_tally_clear(yk_tally *t);                            /* keeps the memory */
void yk_tally_fini(yk_tally *t);

/* As bytes, to send to another process. The caller frees them. */
yk_status yk_tally_pack(const yk_tally *t, char **out, size_t *bytes_out);
yk_status yk_tally_unpack(yk_tally *t, const char *from, size_t bytes); /* replaces the contents */

yk_status yk_score_make(const yk_tally *t, yk_score *out); /* metrics.c */

/* The score of the probabilities that the labels of generated data were drawn with: the best that a model can reach. */
yk_status yk_score_truth(const yk_rows *rows, yk_score *out);

#endif
