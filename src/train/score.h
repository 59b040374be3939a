/* Scores of predictions: loss, accuracy, AUC for two classes, and the accuracy of always predicting the most frequent class.
 *
 * Example:
 *     yk_tally t = {0};                                            // one per worker
 *     yk_status st = yk_tally_add(&t, p, outputs, &batch);         // probabilities [n][outputs]
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

typedef struct {
    double loss; /* sum */
    uint64_t examples, correct;
    uint64_t *count; /* [classes] examples of each class */
    size_t classes;
    /* [examples] of two classes, for the AUC: bits of the probability of class 1, then the label. */
    uint32_t *ranks;
    size_t cap;
} yk_tally;

typedef struct {
    uint64_t examples;
    double loss, accuracy, majority_accuracy;
    /* Area under the ROC curve: the probability that a random example of class 1 gets a higher prediction than one of
     * class 0; ties count half. NaN unless there are two classes and both occur. */
    double auc;
} yk_score;

/* The class that is predicted by probabilities p[outputs]. */
size_t yk_score_class(const float *p, size_t outputs);

yk_status yk_tally_add(yk_tally *t, const float *p, size_t outputs, const yk_batch *b);
yk_status yk_tally_merge(yk_tally *t, const yk_tally *from); /* adds */
void yk_tally_clear(yk_tally *t);                            /* keeps the memory */
void yk_tally_fini(yk_tally *t);

/* As bytes, to send to another process. The caller frees them. */
yk_status yk_tally_pack(const yk_tally *t, char **out, size_t *bytes_out);
yk_status yk_tally_unpack(yk_tally *t, const char *from, size_t bytes); /* replaces the contents */

yk_status yk_score_make(const yk_tally *t, yk_score *out);

/* The score of the probabilities that the labels of generated data were drawn with: the best that a model can reach. */
yk_status yk_score_truth(const yk_rows *rows, yk_score *out);

#endif
