/* How good predictions are: loss, accuracy, AUC for two classes, and what always guessing the commonest class would get.
 *
 *     yk_tally t = {0};                                        // one per worker
 *     st = yk_tally_add(&t, p, outputs, &batch);               // probabilities [n][outputs]
 *     t.loss += ...;
 *     st = yk_score_make(tallies, workers, &score);            // all workers' together
 *     yk_tally_fini(&t);
 */
#ifndef YK_TRAIN_SCORE_H
#define YK_TRAIN_SCORE_H

#include "base/rows.h"

typedef struct {
    double loss; /* summed */
    uint64_t examples, correct;
    uint64_t *count; /* [classes] examples of each class */
    size_t classes;
    /* two classes only: what is needed for the AUC */
    float *p; /* probability of class 1 */
    uint8_t *label;
    size_t p_cap, label_cap;
} yk_tally;

typedef struct {
    uint64_t examples;
    double loss, accuracy, majority_accuracy;
    double auc; /* NaN unless both of two classes occur */
} yk_score;

yk_status yk_tally_add(yk_tally *t, const float *p, size_t outputs, const yk_batch *b);
void yk_tally_clear(yk_tally *t); /* keeps the memory */
void yk_tally_fini(yk_tally *t);

/* As bytes, for another process; free() them. */
yk_status yk_tally_pack(const yk_tally *t, char **out, size_t *bytes_out);
yk_status yk_tally_unpack(yk_tally *t, const char *from, size_t bytes); /* replaces what was there */

yk_status yk_score_make(const yk_tally *tallies, int n, yk_score *out);

/* Area under the ROC curve: the chance that a random example of class 1 is scored above one of class 0, ties counting
 * half; by sorting. `p` >= 0 and not NaN. NaN where one class is missing. */
yk_status yk_auc(const float *p, const uint8_t *label, size_t n, double *out);

/* The score of the probabilities that generated data was drawn with: no model can do better on average. */
yk_status yk_score_truth(const yk_rows *rows, yk_score *out);

#endif
