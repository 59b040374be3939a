/* Reference implementation of matrix.h in plain C. */
#include "references.h"

#include <math.h>

static void pack(const yk_batch *b, yk_rows *packed)
{
    const yk_rows *rows = b->rows;
    size_t n = 0;
    packed->start[0] = 0;
    for (size_t i = 0; i < b->n; i++) {
        for (size_t d = 0; d < rows->dim; d++) {
            size_t at = b->pick[i] * rows->dim + d;
            float x = rows->kind == YK_ROWS_U8 ? (float)rows->u8[at] * rows->scale : rows->f32[at];
            if (x == 0.0f)
                continue;
            packed->index[n] = (uint32_t)d;
            packed->value[n++] = x;
        }
        packed->start[i + 1] = n;
        packed->label[i] = rows->label[b->pick[i]];
    }
    packed->n = b->n;
}

static void rows_matrix(const float *W, const float *bias, size_t ld, const yk_batch *b, float *logits)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++)
        for (size_t c = 0; c < ld; c++) {
            double sum = (double)bias[c];
            for (uint64_t e = rows->start[b->pick[i]]; e < rows->start[b->pick[i] + 1]; e++)
                sum += (double)yk_rows_value(rows, e) * (double)W[rows->index[e] * ld + c];
            logits[i * ld + c] = (float)sum;
        }
}

static void add_outer(float *G, size_t ld, const yk_batch *b, const float *delta)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++)
        for (uint64_t e = rows->start[b->pick[i]]; e < rows->start[b->pick[i] + 1]; e++)
            for (size_t c = 0; c < ld; c++)
                G[rows->index[e] * ld + c] +=
                    (float)((double)yk_rows_value(rows, e) * (double)delta[i * ld + c]);
}

static double softmax(float *logits, size_t classes, size_t ld, const yk_batch *b, float *p)
{
    double loss = 0.0;
    for (size_t i = 0; i < b->n; i++) {
        float *row = logits + i * ld;
        int y = b->rows->label[b->pick[i]];
        double max = row[0], sum = 0.0;
        for (size_t c = 1; c < classes; c++)
            max = row[c] > max ? row[c] : max;
        for (size_t c = 0; c < classes; c++)
            sum += exp((double)row[c] - max);
        const double weight = (double)yk_batch_weight(b, i);
        loss += weight * (log(sum) + max - (double)row[y]);
        for (size_t c = 0; c < ld; c++) {
            const double probability = c < classes ? exp((double)row[c] - max) / sum : 0.0;
            if (p && c < classes)
                p[i * classes + c] = (float)probability;
            row[c] = c < classes ? (float)(weight * (probability - ((int)c == y))) : 0.0f;
        }
    }
    return loss;
}

const yk_matrix_ops yk_matrix_ref = {pack, rows_matrix, add_outer, softmax};
