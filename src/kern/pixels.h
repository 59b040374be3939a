/* Rows of bytes, pictures, against a matrix with a few outputs: softmax regression on batches that are not small.
 *
 *     logits  Z(i, c) = bias(c) + sum over d of x(i, d) W(d, c)          one example after the other against all of W
 *     outer   G(d, c) = sum over i of x(i, d) D(i, c)                    16 columns d at a time against all examples
 *
 * linear.h has the same for the non-zeros of a row, one at a time. That wins for few examples; with many, the sums here stay
 * in registers: lanes are columns, so that a vector of pixels feeds all classes, and W is turned round once per batch. Of a
 * picture only the spans (16 pixels) that are not black take part; logits() writes down which they are, with their bytes,
 * and outer() reads that list from beginning to end instead of going through all pictures once more.
 *
 *     W, G           [dim][ld]                  as softmax.c has them
 *     turned         [classes][padded]          padded: YK_PIXELS_PADDED(dim); zeros behind dim
 *     Z, D           [blocks][classes][16]      16 examples side by side, as lanes.h has them: its softmax() goes between
 *
 * Plain C versions: pixels_ref.c. No allocation.
 */
#ifndef YK_KERN_PIXELS_H
#define YK_KERN_PIXELS_H

#include "base/rows.h"
#include "kern/isa.h"

enum { YK_SPAN = 16 };
#define YK_PIXELS_SPANS(dim)  (((dim) + YK_SPAN - 1) / YK_SPAN)
#define YK_PIXELS_PADDED(dim) (YK_PIXELS_SPANS(dim) * YK_SPAN)

/* The spans of a batch that are not black. Memory of the caller's, for batches of at most `most`. */
typedef struct {
    size_t most;
    uint8_t *bytes;  /* [spans][most][16] */
    uint32_t *place; /* [spans][most] where the example is in Z and D */
    uint32_t *end;   /* [spans] how far the list of each span goes; it begins at span * most */
} yk_spans;

typedef struct {
    void (*turn)(const float *W, size_t dim, size_t ld, size_t classes, float *turned);
    void (*logits)(const float *turned, const float *bias, size_t classes, const yk_batch *b, yk_spans *spans,
                   float *Z);
    void (*outer)(const float *D, size_t classes, const yk_rows *rows, const yk_spans *spans, size_t ld,
                  float *G);
} yk_pixels_ops;

YK_ISA_FAMILY(yk_pixels_ops, yk_pixels) /* yk_pixels(): the fastest for this processor */
extern const yk_pixels_ops yk_pixels_ref;

#endif
