/* Matrix products on blocks of 16 images: the arithmetic of convolutions and dense layers, forward and backward.
 *
 * Activations are stored with 16 images side by side, one per lane, so that every operation on a pixel is one operation on
 * vectors, whatever the shape of the network:
 *
 *     float x[blocks][channels][height][width][16]
 *
 * A convolution is a matrix product whose right factor is never materialized (no im2col): entry (k, p) is the vector of 16
 * images at pixel p, shifted by the filter tap and channel of term k. Its address is the sum of two offsets, one of p and one
 * of k. The offset tables are built once per network. Strides, padding and dense layers only need different tables.
 *
 *     mul    C(m, p) = bias(m) + sum over k of A(m, k) * B(k, p)        or +=, without a bias;  A: scalars; B, C: vectors
 *     outer  D(m, k) += sum over p and lanes of Y(m, p) * X(k, p)       D: scalars; X, Y: vectors
 *     sum    S(m) += sum over p and lanes of Y(m, p)                    S: scalars; Y: vectors
 *
 * Example:
 *     const yk_block_ops *ops = yk_block();
 *     yk_block_mul w = {.k = terms, .a = weights, .a_m = terms, .a_k = a_k, .b = x, .b_p = b_p, .b_k = b_k,
 *                       .c = y, .c_m = channel, .c_p = c_p, .bias = bias};
 *     ops->mul(&w, 0, filters, 0, pixels);   // a thread may compute any range of filters and pixels
 *
 * The result does not depend on how the work is divided into ranges. Functions allocate nothing and may be called by any
 * thread. tests/block_ref.c has the reference implementation.
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
    bool add;          /* adds to C; `bias` is not used */
    bool uncached;     /* B is too large for the cache; its vectors are contiguous */
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

/* `outer` adds to D once per piece of about YK_BLOCK_PIECE pixels. Piece i begins at pixel yk_block_piece(p, i). Calls with one
 * piece each compute the same sums as one call with all pieces. */
enum { YK_BLOCK_PIECE = 96 };

static inline size_t yk_block_pieces(size_t p)
{
    return p > YK_BLOCK_PIECE ? (p + YK_BLOCK_PIECE / 2) / YK_BLOCK_PIECE : 1;
}

static inline size_t yk_block_piece(size_t p, size_t i)
{
    return p * i / yk_block_pieces(p);
}

typedef struct {
    void (*mul)(const yk_block_mul *w, size_t m_begin, size_t m_end, size_t p_begin, size_t p_end);
    void (*outer)(const yk_block_outer *w, size_t m_begin, size_t m_end, size_t k_begin, size_t k_end);
    void (*sum)(const yk_block_outer *w, size_t m_begin, size_t m_end, float *s); /* uses p and y of w */
} yk_block_ops;

YK_ISA_FAMILY(yk_block_ops, yk_block) /* yk_block(): the fastest for this processor */

#endif
