/* Matrix products on blocks of images: the arithmetic of convolutions and dense layers, forward and backward.
 *
 * Activations are stored with 16 images side by side (a lane each), so that every operation on a pixel is one operation on
 * vectors, whatever the shape of the network:
 *
 *     float x[blocks][channels][height][width][16]
 *
 * A convolution is then a matrix product whose right factor is never built (no im2col): entry (k, p) of it is the vector
 * of 16 images at pixel p, moved by what term k (channel, row and column of the filter) says, and where that lies is the
 * sum of two offsets. Offsets are tables, made once per network; strides, padding and dense layers are other tables.
 *
 *     mul    C(m, p) = bias(m) + sum over k of A(m, k) * B(k, p)        or += without a bias;  vectors B, C; numbers A
 *     outer  D(m, k) += sum over p and lanes of Y(m, p) * X(k, p)       numbers D; vectors X, Y
 *     sum    S(m) += sum over p and lanes of Y(m, p)                    numbers S; vectors Y
 *
 * Results do not depend on how the work is cut into ranges. No allocation. Plain C versions: block_ref.c.
 */
#ifndef YK_KERN_BLOCK_H
#define YK_KERN_BLOCK_H

#include "kern/isa.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_LANES = 16 };

typedef struct {
    size_t k;
    const float *a; /* A(m, k) = a[m * a_m + a_k[k]] */
    int64_t a_m;
    const int32_t *a_k;
    const float *b; /* B(k, p) = b[b_p[p] + b_k[k] ...+ 16] */
    const int32_t *b_p, *b_k;
    float *c; /* C(m, p) = c[m * c_m + c_p[p] ...+ 16] */
    int64_t c_m;
    const int32_t *c_p;
    const float *bias; /* [m]; NULL: 0 */
    bool add;          /* to what is in C (then there is no bias) */
    bool far;          /* B is in memory, too large for a cache; its vectors lie side by side */
} yk_block_mul;

typedef struct {
    size_t p;
    const float *y; /* Y(m, p) = y[m * y_m + y_p[p] ...+ 16] */
    int64_t y_m;
    const int32_t *y_p;
    const float *x; /* X(k, p) = x[x_p[p] + x_k[k] ...+ 16] */
    const int32_t *x_p, *x_k;
    float *d; /* D(m, k) = d[m * d_m + k] */
    int64_t d_m;
} yk_block_outer;

typedef struct {
    void (*mul)(const yk_block_mul *w, size_t m_begin, size_t m_end, size_t p_begin, size_t p_end);
    void (*outer)(const yk_block_outer *w, size_t m_begin, size_t m_end, size_t k_begin, size_t k_end);
    void (*sum)(const yk_block_outer *w, size_t m_begin, size_t m_end, float *s); /* of w: p and y */
} yk_block_ops;

YK_ISA_FAMILY(yk_block_ops, yk_block) /* yk_block(): the fastest for this processor */
extern const yk_block_ops yk_block_ref;

#endif
