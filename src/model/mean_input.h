/* Damps stale gradients of a layer y = W x + b, but only in the direction u of the layer's mean input. With G the gradient of the
 * loss with respect to W, and n asynchronous workers:
 *
 *     u = mean of x / |mean of x|        G -= (1 - 1 / (2 n - 1)) G u u^T
 *
 * This divides the learning rate by 2 n - 1 in the direction u, and changes no other direction.
 *
 * Why 2 n - 1: n workers compute gradients at the same time, so a gradient is about n - 1 steps old when it is applied. Gradient
 * descent with gradients that are d steps old is stable up to a learning rate of 2 sin(pi / (4 d + 2)) / curvature. This is at least
 * 1 / (2 d + 1) of the limit without staleness. So if one worker is stable, n workers are.
 *
 * Why only u: pixels and the outputs of relu are positive, so the curvature of the loss is by far the largest in the direction of
 * the mean input, and only there is one worker close to the limit. Most is learned in the other directions. The mean of
 * standardized inputs is close to zero and points in a random direction that keeps changing, so damping it costs nothing.
 *
 * The mean covers about the last 100 batches of a worker, with at most 16 examples of each. docs/convergence.md has measurements.
 *
 * Example:
 *     yk__mean_input m = {.mean = floats, .inputs = dim};   // zeros; owned by the caller
 *     yk__mean_input_begin(&m, examples);                   // the number of examples that are added for this batch
 *     m.mean[i] += m.weight * x[i];                         // for each of these examples, and each input i
 *     yk__mean_input_damp(&m, 1, n, gradient, outputs);
 */
#ifndef YK_MODEL_MEAN_INPUT_H
#define YK_MODEL_MEAN_INPUT_H

#include "core/rows.h"

typedef struct {
    float *mean; /* [inputs] borrowed */
    size_t inputs;
    float weight; /* of an example in the mean */
    int batches;  /* that the mean covers */
} yk__mean_input;

void yk__mean_input_begin(yk__mean_input *m, size_t examples);

/* Begins a batch, and adds its first rows. */
void yk__mean_input_add_rows(yk__mean_input *m, const yk_batch *b);

/* The gradient is [outputs][inputs][taps]. `taps` is the size of a filter of a convolution, 1 for other layers; n is the number of
 * workers. */
void yk__mean_input_damp(const yk__mean_input *m, size_t taps, int n, float *gradient, size_t outputs);

/* The same for a gradient [inputs][width]. `scratch` has `width` floats. */
void yk__mean_input_damp_rows(const yk__mean_input *m, int n, float *gradient, size_t width, float *scratch);

#endif
