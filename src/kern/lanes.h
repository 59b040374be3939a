/* Everything of a convolutional network that is not a product (block.h), on vectors of 16 images.
 *
 * A plane is one channel of a block: height x width pixels, a pixel being 16 floats; rows of it lie `row` floats apart.
 * Plain C versions: lanes_ref.c. No allocation; a function touches nothing but what it is given.
 */
#ifndef YK_KERN_LANES_H
#define YK_KERN_LANES_H

#include "kern/block.h"
#include "kern/isa.h"
#include <stddef.h>
#include <stdint.h>

typedef enum { YK_RELU, YK_TANH, YK_SIGMOID } yk_activation;

/* One channel: x and its result y, with gradients of the loss by them. */
typedef struct {
    const float *x, *y, *dy;
    float *out;                   /* y going forward, dx going backward */
    size_t height, width;         /* of x */
    size_t out_height, out_width; /* of y */
    size_t size, stride;          /* of the window */
    size_t x_row, y_row;          /* floats between rows of x (and dx), and of y (and dy) */
    size_t dx_row, dy_row;
} yk_pool;

typedef struct {
    /* In place on n floats, n a multiple of 16. backward: dy becomes dx, from y. */
    void (*activate)(yk_activation kind, float *x, size_t n);
    void (*activate_back)(yk_activation kind, const float *y, float *dy, size_t n);

    /* In place: each float is dropped with chance `rate` or divided by 1 - rate, as a hash of (noise, its number) says. */
    void (*dropout)(float *x, size_t n, float rate, uint64_t noise, uint64_t first);

    void (*max_pool)(const yk_pool *p);
    void (*max_pool_back)(const yk_pool *p); /* of equal pixels the first in the window gets it */
    void (*average_pool)(const yk_pool *p);
    void (*average_pool_back)(const yk_pool *p);

    /* y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta, at n vectors; channels lie
     * `channel` floats apart. backward writes dx. */
    void (*normalise)(const float *x, float *y, size_t channels, size_t channel, size_t n, size_t size,
                      float alpha, float beta, float bias);
    void (*normalise_back)(const float *x, const float *y, const float *dy, float *dx, size_t channels,
                           size_t channel, size_t n, size_t size, float alpha, float beta, float bias);

    /* logits[classes][16] of one block become softmax - onehot for the first n lanes and 0 for the others; returns the
     * summed cross-entropies. p, if not NULL, gets the probabilities, [n][classes]. */
    double (*softmax)(float *logits, size_t classes, const int32_t *label, size_t n, float *p);

    /* Pixels first .. first + n of 16 rows of bytes, times scale, to x[n][16]; a NULL row gives zeros. */
    void (*spread_u8)(const uint8_t *const *row, size_t first, size_t n, float scale, float *x);
    void (*spread_f32)(const float *const *row, size_t first, size_t n, float *x);
} yk_lanes_ops;

YK_ISA_FAMILY(yk_lanes_ops, yk_lanes) /* yk_lanes(): the fastest for this processor */
extern const yk_lanes_ops yk_lanes_ref;

#endif
