/* Kernels of models with one weight per feature: products of sparse rows with the weights, and adding rows to the weights. The
 * table of weights may be huge and shared by threads (yk_view). Models with several weights per feature: kern/matrix.h.
 *
 * Example:
 *     const yk_linear_ops *ops = yk_linear();
 *     ops->margins(&view, &batch, z);
 *     double loss = ops->logistic(z, &batch, err);   // err: the derivative of the loss with respect to z
 *     ops->add_rows(&view, &batch, step);            // step[i] = -lr * err[i]
 *
 * Any thread may call these functions at any time; add_rows and sgd_steps on a shared table are lock-free. They allocate
 * nothing. tests/linear_ref.c has the reference implementation.
 */
#ifndef YK_KERN_LINEAR_H
#define YK_KERN_LINEAR_H

#include "core/keys.h"
#include "core/rows.h"
#include "core/view.h"
#include "kern/isa.h"

typedef struct {
    /* z[i] = sum over row i of value * w[key]. */
    void (*margins)(const yk_view *v, const yk_batch *b, float *z);

    /* The same for all rows of a block, in order, which need not have been checked: reads them once. v->hot is 0. Returns
     * false, with z undefined, if an index is not below rows->dim, or if any z is infinite or NaN, which it is whenever a
     * value of its row is. */
    bool (*margins_unchecked)(const yk_view *v, const yk_rows *rows, float *z);

    /* w[key] += coef[i] * value, for every entry of every row i. */
    void (*add_rows)(const yk_view *v, const yk_batch *b, const float *coef);

    /* err[i] = sigmoid(z[i]) - label, times the weight of the example; returns the sum of the log-losses, times the weights. */
    double (*logistic)(const float *z, const yk_batch *b, float *err);

    /* One step of SGD per row, in order. Row i: z from the weights after row i - 1 (plus the bias, unless bias_key is
     * UINT32_MAX); loss[i] is its log-loss; w[key] -= lr * (sigmoid(z) - label) * value. The result does not depend on how
     * the rows are divided into batches. */
    void (*sgd_steps)(const yk_view *v, const yk_batch *b, uint32_t bias_key, float lr, float *loss);

    /* Adds a row to a merger of one float per key: the same bits as yk_merger_add_all(), but the n keys must
     * be distinct. Reserve space first. */
    void (*merge)(yk_merger *m, const uint32_t *key, const float *value, float scale, size_t n);
} yk_linear_ops;

YK_ISA_FAMILY(yk_linear_ops, yk_linear) /* yk_linear(): the fastest for this processor */

#endif
