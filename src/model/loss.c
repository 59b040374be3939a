#include "model/loss.h"

#include "kern/linear.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static float sigmoid(float z)
{
    return 1.0f / (1.0f + expf(-z));
}

static float identity(float z)
{
    return z;
}

static float logistic(float z, float y, float *err_out)
{
    const float e = expf(-fabsf(z)), against = z * (1.0f - 2.0f * y);
    *err_out = (z >= 0.0f ? 1.0f : e) / (1.0f + e) - y;
    return (against > 0.0f ? against : 0.0f) + log1pf(e); /* NaN if z is */
}

static double logistic_batch(const float *z, const yk_batch *b, float *err)
{
    return yk_linear()->logistic(z, b, err);
}

static float squared(float z, float y, float *err_out)
{
    *err_out = 2.0f * (z - y);
    return (z - y) * (z - y);
}

static float hinge(float z, float y, float *err_out)
{
    const float sign = 2.0f * y - 1.0f, short_of = 1.0f - sign * z;
    *err_out = short_of > 0.0f ? -sign : 0.0f * z; /* NaN if z is */
    return short_of > 0.0f ? short_of : 0.0f * z;
}

static const yk_loss losses[] = {
    {.name = "logistic", .log_loss = true, .point = logistic, .link = sigmoid, .batch = logistic_batch},
    {.name = "softmax", .per_class = true, .log_loss = true},
    {.name = "squared", .numbers = true, .point = squared, .link = identity},
    {.name = "hinge", .point = hinge, .link = sigmoid},
};

yk_status yk_loss_find(const char *name, const yk_loss **out)
{
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (strcmp(losses[i].name, name) == 0) {
            *out = &losses[i];
            return YK_OK;
        }
    char known[200] = "";
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", losses[i].name);
    return yk_fail(YK_EUSAGE, "--loss %s: unknown loss; use one of: %s", name, known);
}

double yk_loss_batch(const yk_loss *l, const float *z, const yk_batch *b, float *err)
{
    const bool weighted = yk_batch_weighted(b);
    double sum = 0.0;
    if (!weighted && l->batch)
        return l->batch(z, b, err);
    for (size_t i = 0; i < b->n; i++) {
        const float loss = l->point(z[i], yk_rows_target(b->rows, b->pick[i]), &err[i]);
        const float w = weighted ? yk_batch_weight(b, i) : 1.0f;
        err[i] *= w;
        sum += (double)w * (double)loss;
    }
    return sum;
}

/* -log softmax(z)[y] of one lane */
static double lane_loss(const float *z, size_t classes, int32_t y)
{
    float max = z[0];
    double sum = 0.0;
    for (size_t c = 1; c < classes; c++)
        max = z[c * YK_LANES] > max ? z[c * YK_LANES] : max;
    for (size_t c = 0; c < classes; c++)
        sum += exp((double)z[c * YK_LANES] - (double)max);
    return log(sum) + ((double)max - (double)z[(size_t)y * YK_LANES]);
}

double yk_loss_lanes(float *logits, size_t classes, const yk_batch *b, size_t first, size_t n, float *p)
{
    const bool weighted = yk_batch_weighted(b);
    int32_t label[YK_LANES] = {0};
    float weight[YK_LANES] = {0};
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        label[i] = b->rows->label[b->pick[first + i]];
        if (weighted) {
            weight[i] = yk_batch_weight(b, first + i);
            sum += (double)weight[i] * lane_loss(logits + i, classes, label[i]);
        }
    }
    const double plain = yk_lanes()->softmax(logits, classes, label, n, p);
    if (!weighted)
        return plain;
    for (size_t c = 0; c < classes; c++)
        for (size_t i = 0; i < n; i++)
            logits[c * YK_LANES + i] *= weight[i];
    return sum;
}
