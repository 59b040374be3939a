/* The parts of a convolutional network that are not products (block.h), on vectors of 16 images: activations, dropout, pooling,
 * normalization, softmax, and conversion of images to this layout.
 *
 * A plane is one channel of a block: height x width pixels of 16 floats each.
 *
 * Example:
 *     const yk_lanes_ops *ops = yk_lanes();
 *     ops->interleave_u8(image, 0, pixels, 1.0f / 255.0f, x);      // 16 images to x[pixels][16]
 *     ops->activate(YK_RELU, x, pixels * YK_LANES);
 *     double loss = ops->softmax(logits, classes, &batch, 0, 16, NULL);
 *
 * Functions allocate nothing and may be called by any thread. tests/lanes_ref.c has the reference implementation.
 */
#ifndef YK_KERN_LANES_H
#define YK_KERN_LANES_H

#include "core/rows.h"
#include "kern/block.h"
#include "kern/isa.h"
#include <stddef.h>
#include <stdint.h>

typedef enum { YK_RELU, YK_TANH, YK_SIGMOID } yk_activation;

/* Pooling of one plane x to y; dx and dy are the gradients. */
typedef struct {
    bool average; /* else the maximum */
    const float *x, *y, *dy;
    float *out;                   /* forward: y; backward: dx */
    size_t height, width;         /* of x */
    size_t out_height, out_width; /* of y */
    size_t size, stride;          /* of the window */
    size_t x_row, y_row;          /* floats from one row of x, y, dx and dy to the next */
    size_t dx_row, dy_row;
} yk_pool;

/* Local response normalization of n neighboring pixels:
 * y = x / (bias + alpha / size * sum of x^2 over `size` neighboring channels)^beta. */
typedef struct {
    const float *x, *y, *dy;
    float *out;               /* forward: y; backward: dx */
    size_t channels, channel; /* their number; floats between two of them */
    size_t n, size;
    float alpha, beta, bias;
} yk_lrn;

typedef struct {
    /* In place on n floats, n a multiple of 16. activate_back computes dx from y and dy, in place of dy. */
    void (*activate)(yk_activation kind, float *x, size_t n);
    void (*activate_back)(yk_activation kind, const float *y, float *dy, size_t n);

    /* In place: sets a float to 0 with probability `rate`, and divides it by 1 - rate otherwise. The choice is a hash of
     * `noise` and the index of the float, first .. first + n - 1. */
    void (*dropout)(float *x, size_t n, float rate, uint64_t noise, uint64_t first);

    void (*pool)(const yk_pool *p);
    void (*pool_back)(const yk_pool *p); /* the first of equal maxima gets the gradient */

    void (*normalize)(const yk_lrn *p);
    void (*normalize_back)(const yk_lrn *p);

    /* In place: logits[classes][16] of examples first .. first + n - 1 of a batch become softmax - onehot, times the weight of
     * the example, and 0 in the other lanes. Returns the sum of the cross-entropies, times the weights. p, if not NULL, receives
     * the probabilities, [n][classes]. */
    double (*softmax)(float *logits, size_t classes, const yk_batch *b, size_t first, size_t n, float *p);

    /* Pixels first .. first + n - 1 of 16 images to x[n][16]; bytes are multiplied by `scale`. A NULL image gives zeros. */
    void (*interleave_u8)(const uint8_t *const *row, size_t first, size_t n, float scale, float *x);
    void (*interleave_f32)(const float *const *row, size_t first, size_t n, float *x);
} yk_lanes_ops;

YK_ISA_FAMILY(yk_lanes_ops, yk_lanes) /* yk_lanes(): the fastest for this processor */

#endif
