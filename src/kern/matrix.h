/* Kernels of softmax: products of sparse rows with a matrix W[dim][ld] that has one row of `classes` weights per column.
 * ld >= classes is a multiple of YK_CLASS_PAD; the padding stays zero. Dense rows are packed into sparse ones first, since
 * only a fifth of MNIST's pixels is not zero.
 *
 * Every function exists as plain C in matrix_ref.c, and the tests compare the fast versions with it. No allocation.
 */
#ifndef YK_KERN_MATRIX_H
#define YK_KERN_MATRIX_H

#include "base/rows.h"
#include "kern/isa.h"

#define YK_CLASS_PAD 4

typedef struct {
    /* The non-zeros of a batch of dense rows, with their labels: rows 0 .. b->n of `packed`, whose arrays have room for
     * b->n rows and b->n * dim + 16 entries. */
    void (*pack)(const yk_batch *b, yk_rows *packed);

    /* logits[i][0..ld) = bias[0..ld) + sum over row i of x * W[column][0..ld). */
    void (*rows_matrix)(const float *W, const float *bias, size_t ld, const yk_batch *b, float *logits);

    /* G[column][0..ld) += x * delta[i][0..ld) for every entry x of every row i. */
    void (*add_outer)(float *G, size_t ld, const yk_batch *b, const float *delta);

    /* In place: logits[i][c] becomes softmax(logits[i])[c] - (c == label), padding 0; returns the sum of the
     * cross-entropies. */
    double (*softmax)(float *logits, size_t classes, size_t ld, const yk_batch *b);
} yk_matrix_ops;

YK_ISA_FAMILY(yk_matrix_ops, yk_matrix) /* yk_matrix(): the fastest for this processor */
extern const yk_matrix_ops yk_matrix_ref;

#endif
