/* Reference implementation of factors.h in plain C. */
#include "references.h"

#include <string.h>

static void interact(const yk_view *v, uint32_t width, const yk_batch *b, float *sum, float *z)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        double all = 0.0;
        for (uint32_t j = 0; j < width; j++) {
            double s = 0.0, squares = 0.0;
            for (uint64_t e = rows->start[b->pick[i]]; e < rows->start[b->pick[i] + 1]; e++) {
                const double x =
                    (double)yk_rows_value(rows, e) * (double)yk_view_wide(v, rows->index[e], width)[j];
                s += x;
                squares += x * x;
            }
            sum[i * width + j] = (float)s;
            all += s * s - squares;
        }
        z[i] += (float)(0.5 * all);
    }
}

/* The entries of row i; if the batch is a list, of number i. */
static void entries_of(const yk_batch *b, const uint32_t *at, size_t i, uint64_t *begin, uint64_t *end)
{
    *begin = at ? i : b->rows->start[b->pick[i]];
    *end = at ? i + 1 : b->rows->start[b->pick[i] + 1];
}

static void interact_grad(const yk_view *v, uint32_t width, const yk_batch *b, const uint32_t *at,
                          const float *sum, const float *err, const uint32_t *slot, float *grad)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        const size_t row = at ? at[i] : i;
        uint64_t e, end;
        for (entries_of(b, at, i, &e, &end); e < end; e++, slot++) {
            const double x = (double)yk_rows_value(rows, e);
            for (uint32_t j = 0; j < width; j++)
                grad[(size_t)*slot * width + j] +=
                    (float)((double)err[row] * x *
                            ((double)sum[row * width + j] -
                             x * (double)yk_view_wide(v, rows->index[e], width)[j]));
        }
    }
}

static void embed(const yk_view *v, uint32_t width, const yk_batch *b, size_t fields, float *out)
{
    const yk_rows *rows = b->rows;
    memset(out, 0, b->n * fields * width * sizeof *out);
    for (size_t i = 0; i < b->n; i++)
        for (uint64_t e = rows->start[b->pick[i]]; e < rows->start[b->pick[i] + 1]; e++) {
            float *to = out + (i * fields + (rows->field ? rows->field[e] : 0)) * width;
            for (uint32_t j = 0; j < width; j++)
                to[j] += (float)((double)yk_rows_value(rows, e) *
                                 (double)yk_view_wide(v, rows->index[e], width)[j]);
        }
}

static void embed_grad(uint32_t width, const yk_batch *b, const uint32_t *at, size_t first, size_t fields,
                       const float *d, const uint32_t *slot, float *grad)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        const float *row = d + (at ? at[i] - first : i) * fields * width;
        uint64_t e, end;
        for (entries_of(b, at, i, &e, &end); e < end; e++, slot++)
            for (uint32_t j = 0; j < width; j++)
                grad[(size_t)*slot * width + j] +=
                    (float)((double)yk_rows_value(rows, e) *
                            (double)row[(rows->field ? rows->field[e] : 0) * width + j]);
    }
}

const yk_factors_ops yk_factors_ref = {interact, interact_grad, embed, embed_grad};
