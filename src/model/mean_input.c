#include "model/mean_input.h"

#include <string.h>

void yk__mean_input_begin(yk__mean_input *m, size_t examples)
{
    enum { BATCHES = 100 };
    m->batches += m->batches < BATCHES;
    const float share = 1.0f / (float)m->batches;
    for (size_t i = 0; i < m->inputs; i++)
        m->mean[i] *= 1.0f - share;
    m->weight = share / (float)examples;
}

void yk__mean_input_add_rows(yk__mean_input *m, const yk_batch *b)
{
    enum { EXAMPLES = 16 };
    const size_t n = b->n < EXAMPLES ? b->n : EXAMPLES;
    yk__mean_input_begin(m, n);
    for (size_t k = 0; k < n; k++) {
        const yk_rows *rows = b->rows;
        const size_t row = b->pick[k], at = row * m->inputs;
        for (uint64_t e = rows->start ? rows->start[row] : 0; rows->start && e < rows->start[row + 1]; e++)
            m->mean[rows->index[e]] += m->weight * yk_rows_value(rows, e);
        for (size_t i = 0; !rows->start && i < m->inputs; i++)
            m->mean[i] += m->weight * (rows->kind == YK_ROWS_U8 ? rows->scale * (float)rows->u8[at + i]
                                                                : rows->f32[at + i]);
    }
}

/* (1 - 1 / (2 n - 1)) / |(the mean, repeated `taps` times)|^2; 0 if that could overflow: a mean that is almost 0 needs no damping */
static float factor(const yk__mean_input *m, size_t taps, int n)
{
    float square = 0.0f;
    for (size_t i = 0; i < m->inputs; i++)
        square += m->mean[i] * m->mean[i];
    return square > 1e-37f ? (1.0f - 1.0f / (float)(2 * n - 1)) / (square * (float)taps) : 0.0f;
}

/* The sum over i of mean[i] * (the sum of the `taps` floats of i). */
static float product(const yk__mean_input *m, const float *g, size_t taps)
{
    enum { SUMS = 16 }; /* independent, so that the compiler can use vectors */
    float sum[SUMS] = {0}, all = 0.0f;
    size_t i = 0;
    for (; taps == 1 && i + SUMS <= m->inputs; i += SUMS)
        for (size_t k = 0; k < SUMS; k++)
            sum[k] += m->mean[i + k] * g[i + k];
    for (; i < m->inputs; i++)
        for (size_t k = 0; k < taps; k++)
            all += m->mean[i] * g[i * taps + k];
    for (size_t k = 0; k < SUMS; k++)
        all += sum[k];
    return all;
}

void yk__mean_input_damp(const yk__mean_input *m, size_t taps, int n, float *gradient, size_t outputs)
{
    const float f = factor(m, taps, n);
    for (size_t o = 0; o < outputs; o++) {
        float *restrict g = gradient + o * m->inputs * taps;
        const float less = f * product(m, g, taps);
        for (size_t i = 0; taps == 1 && i < m->inputs; i++)
            g[i] -= less * m->mean[i];
        for (size_t i = 0; taps > 1 && i < m->inputs; i++)
            for (size_t k = 0; k < taps; k++)
                g[i * taps + k] -= less * m->mean[i];
    }
}

void yk__mean_input_damp_rows(const yk__mean_input *m, int n, float *gradient, size_t width, float *scratch)
{
    const float f = factor(m, 1, n);
    float *restrict less = scratch;
    memset(less, 0, width * sizeof *less);
    for (size_t i = 0; i < m->inputs; i++)
        for (size_t k = 0; k < width; k++)
            less[k] += m->mean[i] * gradient[i * width + k];
    for (size_t i = 0; i < m->inputs; i++)
        for (size_t k = 0; k < width; k++)
            gradient[i * width + k] -= f * m->mean[i] * less[k];
}
