/* Reference implementation of pixels.h in plain C. */
#include "references.h"

#include <string.h>

static size_t offset_of(size_t i, size_t classes)
{
    return i / YK_SPAN * classes * YK_SPAN + i % YK_SPAN;
}

static void transpose(const float *W, size_t dim, size_t ld, size_t classes, float *transposed)
{
    for (size_t c = 0; c < classes; c++)
        for (size_t d = 0; d < YK_PIXELS_PADDED(dim); d++)
            transposed[c * YK_PIXELS_PADDED(dim) + d] = d < dim ? W[d * ld + c] : 0.0f;
}

/* Records the span that begins at d, unless it is black. */
static void record_span(const yk_rows *rows, size_t row, size_t d, size_t offset, yk_spans *spans)
{
    const size_t s = d / YK_SPAN, at = spans->end[s];
    uint8_t bytes[YK_SPAN] = {0};
    int some = 0;
    for (size_t k = 0; k < YK_SPAN && d + k < rows->dim; k++)
        some |= bytes[k] = rows->u8[row * rows->dim + d + k];
    if (!some)
        return;
    memcpy(spans->bytes + at * YK_SPAN, bytes, YK_SPAN);
    spans->offset[at] = (uint32_t)offset;
    spans->end[s]++;
}

static void logits(const float *transposed, const float *bias, size_t classes, const yk_batch *b,
                   yk_spans *spans, float *Z)
{
    const yk_rows *rows = b->rows;
    const size_t padded = YK_PIXELS_PADDED(rows->dim);
    for (size_t s = 0; s < YK_PIXELS_SPANS(rows->dim); s++)
        spans->end[s] = (uint32_t)(s * spans->max);
    for (size_t i = 0; i < b->n; i++) {
        for (size_t d = 0; d < rows->dim; d += YK_SPAN)
            record_span(rows, b->pick[i], d, offset_of(i, classes), spans);
        for (size_t c = 0; c < classes; c++) {
            double sum = 0.0;
            for (size_t d = 0; d < rows->dim; d++)
                sum += (double)rows->u8[b->pick[i] * rows->dim + d] * (double)transposed[c * padded + d];
            Z[offset_of(i, classes) + c * YK_SPAN] = (float)((double)bias[c] + sum * (double)rows->scale);
        }
    }
}

static void outer(const float *D, size_t classes, const yk_rows *rows, const yk_spans *spans, size_t ld,
                  float *G)
{
    for (size_t d = 0; d < rows->dim; d++)
        for (size_t c = 0; c < classes; c++) {
            double sum = 0.0;
            for (size_t e = d / YK_SPAN * spans->max; e < spans->end[d / YK_SPAN]; e++)
                sum += (double)spans->bytes[e * YK_SPAN + d % YK_SPAN] *
                       (double)D[spans->offset[e] + c * YK_SPAN];
            G[d * ld + c] = (float)(sum * (double)rows->scale);
        }
}

const yk_pixels_ops yk_pixels_ref = {transpose, logits, outer};
