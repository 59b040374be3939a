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

static double logistic(const float *z, const yk_batch *b, float *err)
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
    {.name = "logistic", .log_loss = true, .batch = logistic, .link = sigmoid},
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
    double sum = 0.0;
    if (l->batch)
        return l->batch(z, b, err);
    for (size_t i = 0; i < b->n; i++) {
        const float loss = l->point(z[i], yk_rows_target(b->rows, b->pick[i]), &err[i]);
        const float w = yk_batch_weight(b, i);
        err[i] *= w;
        sum += (double)w * (double)loss;
    }
    return sum;
}
