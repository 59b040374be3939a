/* Kernels of softmax regression on sparse rows: products with a matrix W[dim][ld] that has `classes` weights per feature.
 * ld is `classes` rounded up to a multiple of YK_CLASS_PAD; the padding stays zero. Dense rows are packed into sparse ones
 * first, since only a fifth of the pixels of MNIST are non-zero.
 *
 * Example:
 *     const yk_matrix_ops *ops = yk_matrix();
 *     ops->rows_matrix(W, bias, ld, &batch, logits);
 *     double loss = ops->softmax(logits, classes, ld, &batch, NULL);   // logits become their gradient
 *     ops->add_outer(G, ld, &batch, logits);
 *
 * Functions allocate nothing and may be called by any thread. tests/matrix_ref.c has the reference implementation.
 */
#ifndef YK_KERN_MATRIX_H
#define YK_KERN_MATRIX_H

#include "core/rows.h"
#include "kern/isa.h"

#define YK_CLASS_PAD 4

typedef struct {
    /* Writes the non-zeros of a batch of dense rows, with their labels, to rows 0 .. b->n - 1 of `packed`. The caller allocates
     * its arrays for b->n rows and b->n * dim + 16 entries. */
    void (*pack)(const yk_batch *b, yk_rows *packed);

    /* logits[i][0..ld) = bias[0..ld) + sum over row i of x * W[column][0..ld). */
    void (*rows_matrix)(const float *W, const float *bias, size_t ld, const yk_batch *b, float *logits);

    /* G[column][0..ld) += x * delta[i][0..ld) for every entry x of every row i. */
    void (*add_outer)(float *G, size_t ld, const yk_batch *b, const float *delta);

    /* In place: logits[i][c] becomes softmax(logits[i])[c] - (c == label), times the weight of the example; the padding 0. Returns
     * the sum of the cross-entropies, times the weights. p, if not NULL, receives the probabilities, [n][classes]. */
    double (*softmax)(float *logits, size_t classes, size_t ld, const yk_batch *b, float *p);
} yk_matrix_ops;

YK_ISA_FAMILY(yk_matrix_ops, yk_matrix) /* yk_matrix(): the fastest for this processor */

#endif
