/* Stale gradients of a layer y = W x + b: less of them in the direction of its mean input.
 *
 *     u = mean of x / |mean of x|        gradient of W -= (1 - 1 / (2 n - 1)) (gradient of W u) u^T
 *
 * n workers compute gradients at the same time: each gradient is about n - 1 steps old when it is applied. Gradient descent with
 * gradients that are d steps old is stable up to a rate of 2 sin(pi / (4 d + 2)) / curvature, which is at least 1 / (2 d + 1) of the
 * limit without a delay. Pixels and the outputs of relu are positive. So the curvature of the loss is by far the largest in the
 * direction of the mean input, and only there is one worker close to the limit. Divided by 2 n - 1 there, the rate of n workers is
 * stable if that of one is. In all other directions, in which most is learned, it stays the same. Standardized inputs have no
 * such direction, and lose nothing: the mean then points in a random direction, which changes all the time. docs/convergence.md
 * has the measurements.
 *
 * The mean is that of about the last 100 batches of a worker, with at most 16 examples of each.
 *
 * Example:
 *     yk__mean_input m = {.mean = floats, .inputs = dim};   // zeros; owned by the caller
 *     yk__mean_input_begin(&m, examples);                   // of a batch
 *     m.mean[i] += m.weight * x[i];                         // for each of them and each input i
 *     yk__mean_input_damp(&m, 1, n, gradient, outputs);
 */
#ifndef YK_MODEL_MEAN_INPUT_H
#define YK_MODEL_MEAN_INPUT_H

#include "core/rows.h"

typedef struct {
    float *mean; /* [inputs] borrowed */
    size_t inputs;
    float weight; /* of an example in the mean */
    int batches;
} yk__mean_input;

void yk__mean_input_begin(yk__mean_input *m, size_t examples);

/* A batch of rows, or some of them. */
void yk__mean_input_add_rows(yk__mean_input *m, const yk_batch *b);

/* The gradient has `taps` floats per input and output: [outputs][inputs][taps]. */
void yk__mean_input_damp(const yk__mean_input *m, size_t taps, int n, float *gradient, size_t outputs);

/* The same for a gradient [inputs][width]. `scratch` has `width` floats. */
void yk__mean_input_damp_rows(const yk__mean_input *m, int n, float *gradient, size_t width, float *scratch);

#endif
