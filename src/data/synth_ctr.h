/* Clicks with known probabilities: sparse rows of `nnz` ones among `features` columns, and a label that is
 * drawn with a probability that is told along with it (yk_rows.truth), so that the best possible log-loss and
 * AUC are known.
 *
 *     synth:ctr?features=33762578&nnz=39&examples=1000000&test=100000&positives=0.25&seed=1
 *
 * Each of the nnz fields owns a range of the columns. Their sizes grow geometrically, from about three
 * categories to millions, and lie in no order; a row has exactly one category of each field:
 *
 *     columns | field 0 |f1|          field 2            |  field 3   | ...        row: one entry in each
 *
 * Within a field the categories follow a power law (field by field with another exponent). Category ranks
 * come in octaves: 1, 2, 4, 8 ... categories; the octave is drawn by a table, the rank in it evenly: Zipf's
 * law up to a step, by integer arithmetic alone. Which column holds which rank is scrambled, so that the
 * order of columns does not give it away.
 *
 * Every column has a planted weight, a hash of its number, roughly normal; weights of rare categories are
 * smaller, as nobody could learn them. The label is 1 with probability sigmoid(bias + gain * sum of weights).
 * When the source is opened, gain and bias are set on a sample, so that the logits spread alike and the share
 * of positives is as asked for, whatever the seed and the sizes.
 *
 *     yk_ctr *c = yk_ctr_create(&shape);                         NULL: out of memory
 *     bool click = yk_ctr_example(c, stream, index, &p);         index[shape.nnz], ascending; p: probability of a click
 *     yk_free(c);
 *
 * Examples may be drawn by any number of threads.
 */
#ifndef YK_DATA_SYNTH_CTR_H
#define YK_DATA_SYNTH_CTR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t features; /* nnz .. 2^32 - 1 */
    uint32_t nnz;
    double positives; /* share of label 1 */
    uint64_t seed;
} yk_ctr_shape;

typedef struct yk_ctr yk_ctr;

yk_ctr *yk_ctr_create(const yk_ctr_shape *shape);
bool yk_ctr_example(const yk_ctr *c, uint64_t stream, uint32_t *index_out, float *p_out);

#endif
