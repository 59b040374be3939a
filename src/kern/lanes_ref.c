/* The functions of lanes.h in plain C: what they mean. */
#include "kern/lanes.h"

#include <math.h>

static void activate(yk_activation kind, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kind == YK_RELU   ? (x[i] < 0.0f ? 0.0f : x[i]) /* a NaN stays one */
               : kind == YK_TANH ? (float)tanh((double)x[i])
                                 : (float)(1.0 / (1.0 + exp(-(double)x[i])));
}

static void activate_back(yk_activation kind, const float *y, float *dy, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dy[i] = kind == YK_RELU   ? (y[i] > 0.0f ? dy[i] : 0.0f)
                : kind == YK_TANH ? dy[i] * (1.0f - y[i] * y[i])
                                  : dy[i] * (y[i] * (1.0f - y[i]));
}

static void dropout(float *x, size_t n, float rate, uint64_t noise, uint64_t first)
{
    const uint32_t seed = (uint32_t)(noise ^ (noise >> 32)), limit = (uint32_t)((double)rate * 4294967295.0);
    for (size_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)(first + i) * 0x9e3779b1u ^ seed;
        h = (h ^ (h >> 16)) * 0x85ebca6bu;
        h = (h ^ (h >> 13)) * 0xc2b2ae35u;
        h ^= h >> 16;
        x[i] = h < limit ? 0.0f : x[i] * (1.0f / (1.0f - rate));
    }
}

static void max_pool(const yk_pool *p)
{
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (size_t l = 0; l < YK_LANES; l++) {
                float most = -HUGE_VALF;
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++) {
                        float v = p->x[(y * p->stride + a) * p->x_row + (x * p->stride + b) * YK_LANES + l];
                        most = v > most || isnan(v) ? v : most; /* a NaN stays one */
                    }
                p->out[y * p->y_row + x * YK_LANES + l] = most;
            }
}

/* dx = 0 */
static void clear(const yk_pool *p)
{
    for (size_t y = 0; y < p->height; y++)
        for (size_t i = 0; i < p->width * YK_LANES; i++)
            p->out[y * p->dx_row + i] = 0.0f;
}

static void max_pool_back(const yk_pool *p)
{
    clear(p);
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (size_t l = 0; l < YK_LANES; l++) {
                float most = p->y[y * p->y_row + x * YK_LANES + l],
                      give = p->dy[y * p->dy_row + x * YK_LANES + l];
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++)
                        if (p->x[(y * p->stride + a) * p->x_row + (x * p->stride + b) * YK_LANES + l] ==
                            most) {
                            p->out[(y * p->stride + a) * p->dx_row + (x * p->stride + b) * YK_LANES + l] +=
                                give;
                            give = 0.0f;
                        }
            }
}

static void average_pool(const yk_pool *p)
{
    const float share = 1.0f / (float)(p->size * p->size);
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (size_t l = 0; l < YK_LANES; l++) {
                float sum = 0.0f;
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++)
                        sum += p->x[(y * p->stride + a) * p->x_row + (x * p->stride + b) * YK_LANES + l];
                p->out[y * p->y_row + x * YK_LANES + l] = sum * share;
            }
}

static void average_pool_back(const yk_pool *p)
{
    const float share = 1.0f / (float)(p->size * p->size);
    clear(p);
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (size_t l = 0; l < YK_LANES; l++)
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++)
                        p->out[(y * p->stride + a) * p->dx_row + (x * p->stride + b) * YK_LANES + l] +=
                            p->dy[y * p->dy_row + x * YK_LANES + l] * share;
}

/* Of channel c: which channels its window covers. */
static void window(size_t c, size_t channels, size_t size, size_t *begin, size_t *end)
{
    *begin = c >= size / 2 ? c - size / 2 : 0;
    *end = c + (size + 1) / 2 < channels ? c + (size + 1) / 2 : channels;
}

static double scale_at(const float *x, size_t c, size_t channels, size_t channel, size_t i, size_t size,
                       float alpha, float bias)
{
    size_t begin, end;
    double sum = 0.0;
    window(c, channels, size, &begin, &end);
    for (size_t j = begin; j < end; j++)
        sum += (double)x[j * channel + i] * (double)x[j * channel + i];
    return (double)bias + (double)alpha / (double)size * sum;
}

static void normalise(const float *x, float *y, size_t channels, size_t channel, size_t n, size_t size,
                      float alpha, float beta, float bias)
{
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < n * YK_LANES; i++)
            y[c * channel + i] =
                (float)((double)x[c * channel + i] *
                        pow(scale_at(x, c, channels, channel, i, size, alpha, bias), -(double)beta));
}

static void normalise_back(const float *x, const float *y, const float *dy, float *dx, size_t channels,
                           size_t channel, size_t n, size_t size, float alpha, float beta, float bias)
{
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < n * YK_LANES; i++) {
            double sum = 0.0, own = scale_at(x, c, channels, channel, i, size, alpha, bias);
            for (size_t j = 0; j < channels; j++) {
                size_t begin, end;
                window(j, channels, size, &begin, &end);
                if (c >= begin && c < end)
                    sum += (double)dy[j * channel + i] * (double)y[j * channel + i] /
                           scale_at(x, j, channels, channel, i, size, alpha, bias);
            }
            dx[c * channel + i] =
                (float)((double)dy[c * channel + i] * pow(own, -(double)beta) -
                        2.0 * (double)alpha * (double)beta / (double)size * (double)x[c * channel + i] * sum);
        }
}

static double softmax(float *logits, size_t classes, const int32_t *label, size_t n, float *p)
{
    double loss = 0.0;
    for (size_t l = 0; l < YK_LANES; l++) {
        double most = (double)logits[l], sum = 0.0;
        for (size_t c = 1; c < classes; c++)
            most = (double)logits[c * YK_LANES + l] > most ? (double)logits[c * YK_LANES + l] : most;
        for (size_t c = 0; c < classes; c++)
            sum += exp((double)logits[c * YK_LANES + l] - most);
        if (l < n)
            loss += log(sum) + most - (double)logits[(size_t)label[l] * YK_LANES + l];
        for (size_t c = 0; c < classes; c++) {
            double share = exp((double)logits[c * YK_LANES + l] - most) / sum;
            if (p && l < n)
                p[l * classes + c] = (float)share;
            logits[c * YK_LANES + l] = l < n ? (float)(share - ((size_t)label[l] == c)) : 0.0f;
        }
    }
    return loss;
}

static void spread_u8(const uint8_t *const *row, size_t first, size_t n, float scale, float *x)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < YK_LANES; l++)
            x[i * YK_LANES + l] = row[l] ? (float)row[l][first + i] * scale : 0.0f;
}

static void spread_f32(const float *const *row, size_t first, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < YK_LANES; l++)
            x[i * YK_LANES + l] = row[l] ? row[l][first + i] : 0.0f;
}

const yk_lanes_ops yk_lanes_ref = {activate,       activate_back, dropout,           max_pool,
                                   max_pool_back,  average_pool,  average_pool_back, normalise,
                                   normalise_back, softmax,       spread_u8,         spread_f32};
