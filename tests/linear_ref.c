/* Reference implementation of linear.h in plain C. */
#include "references.h"

#include <math.h>

static void margins(const yk_view *v, const yk_batch *b, float *z)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        double sum = 0.0;
        for (uint64_t e = rows->start[b->pick[i]]; e < rows->start[b->pick[i] + 1]; e++)
            sum += (double)yk_rows_value(rows, e) * (double)v->w[yk_view_at(v, rows->index[e])];
        z[i] = (float)sum;
    }
}

static bool margins_unchecked(const yk_view *v, const yk_rows *rows, float *z)
{
    bool finite = true;
    for (uint64_t e = rows->start[0]; e < rows->start[rows->n]; e++)
        if (rows->index[e] >= rows->dim)
            return false;
    for (uint32_t i = 0; i < rows->n; i++) {
        margins(v, &(yk_batch){.rows = rows, .pick = &i, .n = 1}, &z[i]);
        finite &= isfinite(z[i]) != 0;
    }
    return finite;
}

static void add_rows(const yk_view *v, const yk_batch *b, const float *coef)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++)
        for (uint64_t e = rows->start[b->pick[i]]; e < rows->start[b->pick[i] + 1]; e++)
            v->w[yk_view_at(v, rows->index[e])] += (float)(coef[i] * (double)yk_rows_value(rows, e));
}

static double logistic(const float *z, const yk_batch *b, float *err)
{
    double loss = 0.0;
    for (size_t i = 0; i < b->n; i++) {
        int y = b->rows->label[b->pick[i]];
        const double weight = (double)yk_batch_weight(b, i);
        err[i] = (float)(weight * (1.0 / (1.0 + exp(-(double)z[i])) - y));
        double against = y ? -(double)z[i] : (double)z[i];
        loss += weight * (against > 0 ? against + log1p(exp(-against)) : log1p(exp(against)));
    }
    return loss;
}

static void sgd_steps(const yk_view *v, const yk_batch *b, uint32_t bias_key, float lr, float *loss)
{
    for (size_t i = 0; i < b->n; i++) {
        const yk_batch one = {b->rows, b->pick + i, 1, 0};
        float z, err;
        margins(v, &one, &z);
        if (bias_key != UINT32_MAX)
            z += v->w[yk_view_at(v, bias_key)];
        loss[i] = (float)logistic(&z, &one, &err);
        const float by = -lr * err;
        add_rows(v, &one, &by);
        if (bias_key != UINT32_MAX)
            v->w[yk_view_at(v, bias_key)] += by;
    }
}

static void merge(yk_merger *m, const uint32_t *key, const float *value, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        yk_merger_add(m, key[i], value ? scale * value[i] : scale);
}

const yk_linear_ops yk_linear_ref = {margins, margins_unchecked, add_rows, logistic, sgd_steps, merge};
