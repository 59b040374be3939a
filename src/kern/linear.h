/* Kernels of models with one weight per column: margins of sparse rows, and adding rows to weights. The table of weights
 * may be huge and shared (yk_view). Models with several weights per column: kern/matrix.h.
 *
 * Every function exists as plain C in linear_ref.c, and the tests hold the fast ones against it. No allocation.
 */
#ifndef YK_KERN_LINEAR_H
#define YK_KERN_LINEAR_H

#include "base/rows.h"
#include "base/view.h"
#include "kern/isa.h"

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
} yk_linear_ops;

YK_ISA_FAMILY(yk_linear_ops, yk_linear) /* yk_linear(): the fastest for this processor */
extern const yk_linear_ops yk_linear_ref;

#endif
