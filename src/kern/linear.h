/* Kernels of the linear models: margins of rows, and adding rows to weights.
 *
 * logreg has one weight per column; its table may be huge and shared (yk_view). softmax has a matrix W[dim][ld] with one
 * row of `classes` weights per column, ld >= classes a multiple of YK_CLASS_PAD; the padding stays zero. All work on
 * sparse rows; dense ones are packed first, since a fifth of MNIST's pixels is all there is to do.
 *
 * Every function exists as plain C in linear_ref.c, and the tests hold the fast ones against it. No allocation.
 */
#ifndef YK_KERN_LINEAR_H
#define YK_KERN_LINEAR_H

#include "base/rows.h"
#include "base/view.h"
#include "kern/isa.h"

#define YK_CLASS_PAD 4

typedef struct {
    /* z[i] = sum over row i of value * w[key]; sparse rows. */
    void (*margins)(const yk_view *v, const yk_batch *b, float *z);

    /* w[key] += coef[i] * value, for every entry of every row i; sparse rows, any thread at any time. */
    void (*add_rows)(const yk_view *v, const yk_batch *b, const float *coef);

    /* err[i] = sigmoid(z[i]) - label; returns the sum of the log-losses. */
    double (*logistic)(const float *z, const yk_batch *b, float *err);

    /* Steps of stochastic gradient descent, a row each, one after the other: the margin of row i (and the bias, if
     * there is a key of one) on the weights that row i - 1 left, its log-loss into loss[i], and at once
     * w[key] -= lr * (sigmoid(z) - label) * value. The same bits however the rows are cut into batches. */
    void (*descend)(const yk_view *v, const yk_batch *b, uint32_t bias_key, float lr, float *loss);

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
} yk_linear_ops;

YK_ISA_DECLARE(yk_linear_ops, yk_linear);
extern const yk_linear_ops yk_linear_ref;

const yk_linear_ops *yk_linear(void); /* the fastest for this processor */

#endif
