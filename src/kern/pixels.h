/* Kernels of softmax regression on batches of many images, stored as rows of bytes.
 *
 *     logits  Z(i, c) = bias(c) + sum over d of x(i, d) W(d, c)          one example at a time, with all of W
 *     outer   G(d, c) = sum over i of x(i, d) D(i, c)                    16 features d at a time, with all examples
 *
 * matrix.h computes the same from the non-zeros of a row, one at a time, which is faster for few examples. These kernels are
 * faster for many: a lane is a feature, so a vector of pixels is multiplied by the weights of all classes while the sums stay
 * in registers. This needs the transposed weights, computed once per batch. Spans of 16 pixels that are all black are skipped:
 * logits() records the others in a list with their bytes, and outer() reads that list sequentially instead of the images.
 *
 *     W, G           [dim][ld]                  as in model/softmax.c
 *     transposed     [classes][padded]          padded: YK_PIXELS_PADDED(dim); zeros from dim on
 *     Z, D           [blocks][classes][16]      16 examples side by side, as in lanes.h, whose softmax() computes D from Z
 *
 * Example:
 *     const yk_pixels_ops *ops = yk_pixels();
 *     ops->transpose(W, rows.dim, ld, classes, transposed);
 *     ops->logits(transposed, bias, classes, &batch, &spans, Z);
 *     double loss = yk_lanes()->softmax(Z, classes, &batch, 0, 16, NULL); // Z becomes D; one call per block of 16 examples
 *     ops->outer(Z, classes, &rows, &spans, ld, G);
 *
 * Functions allocate nothing and may be called by any thread. tests/pixels_ref.c has the reference implementation.
 */
#ifndef YK_KERN_PIXELS_H
#define YK_KERN_PIXELS_H

#include "core/rows.h"
#include "kern/isa.h"

enum { YK_SPAN = 16 };
#define YK_PIXELS_SPANS(dim)  (((dim) + YK_SPAN - 1) / YK_SPAN)
#define YK_PIXELS_PADDED(dim) (YK_PIXELS_SPANS(dim) * YK_SPAN)

/* The spans of a batch that are not black. The caller allocates the arrays, for batches of at most `max` examples. */
typedef struct {
    size_t max;
    uint8_t *bytes;   /* [spans][max][16] */
    uint32_t *offset; /* [spans][max] of the example in Z and D */
    uint32_t *end;    /* [spans] end of the list of each span, which begins at span * max */
} yk_spans;

typedef struct {
    void (*transpose)(const float *W, size_t dim, size_t ld, size_t classes, float *transposed);
    void (*logits)(const float *transposed, const float *bias, size_t classes, const yk_batch *b,
                   yk_spans *spans, float *Z);
    void (*outer)(const float *D, size_t classes, const yk_rows *rows, const yk_spans *spans, size_t ld,
                  float *G);
} yk_pixels_ops;

YK_ISA_FAMILY(yk_pixels_ops, yk_pixels) /* yk_pixels(): the fastest for this processor */

#endif
