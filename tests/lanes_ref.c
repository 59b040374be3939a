/* Reference implementation of lanes.h in plain C. */
#include "references.h"

#include <math.h>

static void activate(yk_activation kind, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kind == YK_RELU   ? (x[i] < 0.0f ? 0.0f : x[i]) /* NaN stays NaN */
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

/* Index of a value in a plane. */
static size_t at(size_t row, size_t y, size_t x, size_t lane)
{
    return y * row + x * YK_LANES + lane;
}

static void max_pool(const yk_pool *p)
{
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (size_t l = 0; l < YK_LANES; l++) {
                float max = -HUGE_VALF;
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++) {
                        float v = p->x[at(p->x_row, y * p->stride + a, x * p->stride + b, l)];
                        max = v > max || isnan(v) ? v : max; /* NaN stays NaN */
                    }
                p->out[at(p->y_row, y, x, l)] = max;
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
                float max = p->y[at(p->y_row, y, x, l)], grad = p->dy[at(p->dy_row, y, x, l)];
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++)
                        if (p->x[at(p->x_row, y * p->stride + a, x * p->stride + b, l)] == max) {
                            p->out[at(p->dx_row, y * p->stride + a, x * p->stride + b, l)] += grad;
                            grad = 0.0f;
                        }
            }
}

static void average_pool(const yk_pool *p)
{
    const float scale = 1.0f / (float)(p->size * p->size);
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (size_t l = 0; l < YK_LANES; l++) {
                float sum = 0.0f;
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++)
                        sum += p->x[at(p->x_row, y * p->stride + a, x * p->stride + b, l)];
                p->out[at(p->y_row, y, x, l)] = sum * scale;
            }
}

static void average_pool_back(const yk_pool *p)
{
    const float scale = 1.0f / (float)(p->size * p->size);
    clear(p);
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (size_t l = 0; l < YK_LANES; l++)
                for (size_t a = 0; a < p->size; a++)
                    for (size_t b = 0; b < p->size; b++)
                        p->out[at(p->dx_row, y * p->stride + a, x * p->stride + b, l)] +=
                            p->dy[at(p->dy_row, y, x, l)] * scale;
}

static void pool(const yk_pool *p)
{
    (p->average ? average_pool : max_pool)(p);
}

static void pool_back(const yk_pool *p)
{
    (p->average ? average_pool_back : max_pool_back)(p);
}

/* The channels in the window of channel c. */
static void window(size_t c, size_t channels, size_t size, size_t *begin, size_t *end)
{
    *begin = c >= size / 2 ? c - size / 2 : 0;
    *end = c + (size + 1) / 2 < channels ? c + (size + 1) / 2 : channels;
}

static double scale_at(const yk_lrn *p, size_t c, size_t i)
{
    size_t begin, end;
    double sum = 0.0;
    window(c, p->channels, p->size, &begin, &end);
    for (size_t j = begin; j < end; j++)
        sum += (double)p->x[j * p->channel + i] * (double)p->x[j * p->channel + i];
    return (double)p->bias + (double)p->alpha / (double)p->size * sum;
}

static void normalize(const yk_lrn *p)
{
    for (size_t c = 0; c < p->channels; c++)
        for (size_t i = 0; i < p->n * YK_LANES; i++)
            p->out[c * p->channel + i] =
                (float)((double)p->x[c * p->channel + i] * pow(scale_at(p, c, i), -(double)p->beta));
}

static void normalize_back(const yk_lrn *p)
{
    const double factor = 2.0 * (double)p->alpha * (double)p->beta / (double)p->size;
    for (size_t c = 0; c < p->channels; c++)
        for (size_t i = 0; i < p->n * YK_LANES; i++) {
            const size_t at = c * p->channel + i;
            double sum = 0.0;
            for (size_t j = 0; j < p->channels; j++) {
                size_t begin, end;
                window(j, p->channels, p->size, &begin, &end);
                if (c >= begin && c < end)
                    sum += (double)p->dy[j * p->channel + i] * (double)p->y[j * p->channel + i] /
                           scale_at(p, j, i);
            }
            p->out[at] = (float)((double)p->dy[at] * pow(scale_at(p, c, i), -(double)p->beta) -
                                 factor * (double)p->x[at] * sum);
        }
}

static double softmax(float *logits, size_t classes, const yk_batch *b, size_t first, size_t n, float *p)
{
    double loss = 0.0;
    for (size_t l = 0; l < YK_LANES; l++) {
        const size_t label = l < n ? (size_t)b->rows->label[b->pick[first + l]] : 0;
        const double weight = l < n ? (double)yk_batch_weight(b, first + l) : 0.0;
        double max = (double)logits[l], sum = 0.0;
        for (size_t c = 1; c < classes; c++)
            max = (double)logits[c * YK_LANES + l] > max ? (double)logits[c * YK_LANES + l] : max;
        for (size_t c = 0; c < classes; c++)
            sum += exp((double)logits[c * YK_LANES + l] - max);
        if (l < n)
            loss += weight * (log(sum) + max - (double)logits[label * YK_LANES + l]);
        for (size_t c = 0; c < classes; c++) {
            double probability = exp((double)logits[c * YK_LANES + l] - max) / sum;
            if (p && l < n)
                p[l * classes + c] = (float)probability;
            logits[c * YK_LANES + l] = l < n ? (float)(weight * (probability - (label == c))) : 0.0f;
        }
    }
    return loss;
}

static void interleave_u8(const uint8_t *const *row, size_t first, size_t n, float scale, float *x)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < YK_LANES; l++)
            x[i * YK_LANES + l] = row[l] ? (float)row[l][first + i] * scale : 0.0f;
}

static void interleave_f32(const float *const *row, size_t first, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < YK_LANES; l++)
            x[i * YK_LANES + l] = row[l] ? row[l][first + i] : 0.0f;
}

const yk_lanes_ops yk_lanes_ref = {activate,  activate_back,  dropout, pool,          pool_back,
                                   normalize, normalize_back, softmax, interleave_u8, interleave_f32};
