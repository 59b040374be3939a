#include "core/grad.h"

#include <math.h>

yk_status yk_grad_merge(const yk_group_grad *g, yk_merger *m, yk_merger_add_fn add)
{
    const yk_rows *rows = g->rows.rows;
    size_t max = 1;
    for (size_t i = 0; i < g->rows.n; i++)
        max += yk_rows_entries(rows, g->rows.pick[i]);
    yk_status st = yk_merger_reserve(m, max);
    if (st)
        return st;
    float bias = 0.0f;
    for (size_t i = 0; i < g->rows.n; i++) {
        const uint64_t begin = rows->start[g->rows.pick[i]], end = rows->start[g->rows.pick[i] + 1];
        bias += g->err[i];
        add(m, rows->index + begin, rows->value ? rows->value + begin : NULL, g->err[i], end - begin);
    }
    if (g->bias && g->rows.n)
        yk_merger_add(m, g->bias_key, bias);
    return YK_OK;
}

void yk_grad_add(const yk_group_grad *g, float *sum)
{
    const yk_rows *rows = g->rows.rows;
    for (size_t i = 0; i < g->rows.n; i++) {
        const uint64_t begin = rows->start[g->rows.pick[i]], end = rows->start[g->rows.pick[i] + 1];
        const uint32_t *key = rows->index;
        const float *value = rows->value, err = g->err[i];
        for (uint64_t e = begin; e < end; e++)
            sum[key[e]] += value ? err * value[e] : err;
        if (g->bias)
            sum[g->bias_key] += err;
    }
}

double yk_squares(const float *x, size_t n)
{
    enum { LANES = 8 }; /* a fixed order of additions, which the compiler can vectorize */
    double sum[LANES] = {0.0}, all = 0.0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sum[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < n; i++)
        sum[i % LANES] += (double)x[i] * (double)x[i];
    for (size_t k = 0; k < LANES; k++)
        all += sum[k];
    return all;
}

float yk_clip_factor(double squares, double weights, double max)
{
    const double norm = weights > 0.0 ? sqrt(squares) / weights : 0.0, factor = max / (norm + 1e-6);
    return factor >= 1.0 ? 1.0f : (float)factor; /* NaN if the norm is */
}
