#include "format/resample.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

typedef float f32x4 __attribute__((vector_size(16)));

/* ---- the source pixels of each output pixel, and their weights */

/* n output pixels cover `extent` of the `size` source pixels, from `begin` on. */
static yk_status plan_axis(yk__axis *a, size_t n, size_t size, double begin, double extent)
{
    double scale = extent / (double)n, support = scale < 1.0 ? 1.0 : scale;
    size_t max = 2 * (size_t)support + 3;
    if (YK_RESERVE(a->taps, a->taps_cap, n, "resizing images") ||
        YK_RESERVE(a->weight, a->weight_cap, n * max, "resizing images"))
        return YK_ESYSTEM;
    a->n = n;
    for (size_t i = 0, at = 0; i < n; i++) {
        double center = begin + ((double)i + 0.5) * scale, sum = 0.0;
        double low = center - support, high = center + support;
        size_t first = low > 0.0 ? (size_t)low : 0, last = (size_t)high + 1, count = 0;
        first = first < size ? first : size - 1;
        last = last < size ? last : size;
        float *weight = a->weight + at;
        for (size_t k = first; k < last && count < max; k++) {
            double d = ((double)k + 0.5 - center) / support;
            double w = 1.0 - (d < 0.0 ? -d : d);
            if (w <= 0.0 && count == 0 && k + 1 < last) {
                first = k + 1; /* weight 0 at the edge of the triangle */
                continue;
            }
            weight[count++] = (float)(w > 0.0 ? w : 0.0);
            sum += w > 0.0 ? w : 0.0;
        }
        if (sum <= 0.0) { /* outside of the image: uses the nearest pixel */
            weight[0] = 1.0f;
            sum = 1.0;
            count = 1;
        }
        while (count > 1 && weight[count - 1] == 0.0f)
            count--;
        for (size_t k = 0; k < count; k++)
            weight[k] = (float)((double)weight[k] / sum);
        a->taps[i] = (struct yk__taps){(uint32_t)first, (uint32_t)count, at};
        at += count;
    }
    return YK_OK;
}

yk_status yk_resampler_begin(yk_resampler *r, yk_frame frame, uint8_t *planes)
{
    const yk_frame *f = &r->frame;
    r->frame = frame;
    r->planes = planes;
    r->lanes = f->in.channels == 1 ? 1 : 4;
    r->source_row = r->box_row = 0;
    r->same_size = f->box_w == f->in.width && f->box_h == f->in.height &&
                   f->region_width == (double)f->in.width && f->region_height == (double)f->in.height;
    yk_status st = plan_axis(&r->x, f->box_w, f->in.width, f->left, f->region_width);
    if (!st)
        st = plan_axis(&r->y, f->box_h, f->in.height, f->top, f->region_height);
    if (st)
        return st;
    r->ring = 1; /* the largest number of output rows that are incomplete at the same time */
    for (size_t i = 0, done = 0; i < r->y.n; i++) {
        while (r->y.taps[done].first + r->y.taps[done].count <= r->y.taps[i].first)
            done++;
        r->ring = i - done + 1 > r->ring ? i - done + 1 : r->ring;
    }
    size_t line = f->box_w * r->lanes;
    if (YK_RESERVE(r->line, r->line_cap, line, "resizing images") ||
        YK_RESERVE(r->wide, r->wide_cap, f->in.width * r->lanes, "resizing images") ||
        YK_RESERVE(r->sums, r->sums_cap, r->ring * line, "resizing images"))
        return YK_ESYSTEM;
    memset(r->sums, 0, r->ring * line * sizeof *r->sums);
    if (f->box_w != f->out.width || f->box_h != f->out.height)
        memset(planes, 0, f->out.width * f->out.height * f->out.channels);
    return YK_OK;
}

void yk_resampler_fini(yk_resampler *r)
{
    free(r->x.taps);
    free(r->x.weight);
    free(r->y.taps);
    free(r->y.weight);
    free(r->wide);
    free(r->line);
    free(r->sums);
    *r = (yk_resampler){0};
}

/* ---- resampling */

static void resample_gray(const yk__axis *a, const float *from, float *out)
{
    for (size_t i = 0; i < a->n; i++) {
        const float *w = a->weight + a->taps[i].at, *p = from + a->taps[i].first;
        float sum = 0.0f;
        for (uint32_t k = 0; k < a->taps[i].count; k++)
            sum += w[k] * p[k];
        out[i] = sum;
    }
}

static void resample_color(const yk__axis *a, const float *from, float *out)
{
    for (size_t i = 0; i < a->n; i++) {
        const float *w = a->weight + a->taps[i].at, *p = from + 4 * (size_t)a->taps[i].first;
        f32x4 sum = {0}, v;
        for (uint32_t k = 0; k < a->taps[i].count; k++, p += 4) {
            memcpy(&v, p, sizeof v);
            sum += v * (f32x4){w[k], w[k], w[k], w[k]};
        }
        memcpy(out + 4 * i, &sum, sizeof sum);
    }
}

/* The weights add up to 1 except for rounding, so v is below 255.5. */
static inline uint8_t to_byte(float v)
{
    return (uint8_t)(int)(v + 0.5f);
}

/* [n][4] floats to three planes, in two steps: compilers vectorize the deinterleaving of bytes. */
static void split_colors(const float *restrict from, size_t n, uint8_t *restrict out, size_t plane)
{
    enum { CHUNK = 64 };
    uint8_t mixed[4 * CHUNK];
    for (size_t x = 0; x < n; x += CHUNK) {
        size_t m = n - x < CHUNK ? n - x : CHUNK;
        for (size_t i = 0; i < 4 * m; i++)
            mixed[i] = to_byte(from[4 * x + i]);
        for (size_t c = 0; c < 3; c++)
            for (size_t i = 0; i < m; i++)
                out[c * plane + x + i] = mixed[4 * i + c];
    }
}

/* Stores a complete row of the box, [box_w][lanes], into the planes. */
static void put_row(const yk_resampler *r, const float *row, size_t box_row)
{
    const yk_frame *f = &r->frame;
    size_t plane = f->out.width * f->out.height;
    uint8_t *out = r->planes + (f->box_y + box_row) * f->out.width + f->box_x;
    if (r->lanes == 1) {
        for (size_t x = 0; x < f->box_w; x++)
            out[x] = to_byte(row[x]);
        for (size_t c = 1; c < f->out.channels; c++)
            memcpy(out + c * plane, out, f->box_w);
    } else if (f->out.channels == 1) {
        for (size_t x = 0; x < f->box_w; x++) /* the weights of ITU-R BT.601, as in JPEG */
            out[x] = to_byte(0.299f * row[4 * x] + 0.587f * row[4 * x + 1] + 0.114f * row[4 * x + 2]);
    } else {
        split_colors(row, f->box_w, out, plane);
    }
}

void yk_resampler_row(yk_resampler *r, const uint8_t *row)
{
    size_t at = r->source_row++, line = r->frame.box_w * r->lanes;
    const struct yk__taps *taps = r->y.taps;
    if (r->box_row == r->y.n || at < taps[r->box_row].first)
        return;                     /* above or below the region */
    float *restrict wide = r->wide; /* converts bytes to floats once, not once per tap */
    for (size_t i = 0; i < r->frame.in.width * r->lanes; i++)
        wide[i] = (float)row[i];
    if (r->same_size) {
        put_row(r, r->wide, r->box_row++);
        return;
    }
    if (r->lanes == 1)
        resample_gray(&r->x, r->wide, r->line);
    else
        resample_color(&r->x, r->wide, r->line);
    for (size_t i = r->box_row; i < r->y.n && taps[i].first <= at; i++) {
        if (at >= taps[i].first + taps[i].count)
            continue; /* complete, but one before it is not */
        float w = r->y.weight[taps[i].at + (at - taps[i].first)];
        float *restrict sum = r->sums + i % r->ring * line;
        const float *restrict from = r->line;
        for (size_t k = 0; k < line; k++)
            sum[k] += w * from[k];
    }
    while (r->box_row < r->y.n && at + 1 >= taps[r->box_row].first + taps[r->box_row].count) {
        float *sum = r->sums + r->box_row % r->ring * line;
        put_row(r, sum, r->box_row++);
        memset(sum, 0, line * sizeof *sum);
    }
}
