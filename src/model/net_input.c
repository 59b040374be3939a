/* Copies images to the input of a network, augmented and standardized (net_options.h).
 *
 * The augmentation of image i of a batch is a hash of the noise of the batch and i, so that it depends neither on the number of
 * threads nor on whether the run was resumed. The threads share the rows of the input.
 */
#include "model/net.h"

#include <math.h>
#include <string.h>

/* Pixel (y, x) of the input is pixel (y + up, x + left) of the image, mirrored if flipped. */
typedef struct {
    bool flip;
    int64_t up, left;
} augmentation;

static augmentation augmentation_of(const yk_net_options *o, const yk__pass *ctx, uint64_t noise,
                                    size_t image)
{
    augmentation c = {0};
    if (!ctx->training || (!o->flip && !o->crop))
        return c;
    yk_rng rng = yk_rng_seed(noise, image);
    c.flip = (yk_rng_u64(&rng) >> 63) && o->flip;
    if (o->crop) {
        const uint32_t shifts = 2 * (uint32_t)o->crop + 1;
        c.up = (int64_t)yk_rng_below(&rng, shifts) - (int64_t)o->crop;
        c.left = (int64_t)yk_rng_below(&rng, shifts) - (int64_t)o->crop;
    }
    return c;
}

/* The pixels begin .. end of a line of `size` that are inside the image after a shift. */
static void visible(int64_t size, int64_t shift, int64_t *begin, int64_t *end)
{
    *begin = shift < 0 ? -shift : 0;
    *end = shift > 0 ? size - shift : size;
    *begin = *begin < size ? *begin : size;
    *end = *end > *begin ? *end : *begin;
}

/* Mean and reciprocal deviation of an augmented image, in units of the input. */
static void measure(const yk__edge *e, const yk_rows *rows, size_t row, const augmentation *a,
                    float *mean_out, float *scale_out)
{
    const int64_t width = (int64_t)e->width, height = (int64_t)e->height;
    const double n = (double)rows->dim, unit = rows->kind == YK_ROWS_U8 ? (double)rows->scale : 1.0;
    int64_t top, bottom, left, right;
    double sum = 0.0, squares = 0.0;
    visible(height, a->up, &top, &bottom);
    visible(width, a->left, &left, &right);
    for (int64_t ch = 0; ch < (int64_t)e->channels; ch++)
        for (int64_t y = top; y < bottom; y++) {
            const size_t at = row * rows->dim + (size_t)((ch * height + y + a->up) * width + a->left + left);
            uint64_t s = 0, q = 0;
            for (size_t i = 0; rows->kind == YK_ROWS_U8 && i < (size_t)(right - left); i++) {
                s += rows->u8[at + i];
                q += (uint64_t)rows->u8[at + i] * rows->u8[at + i];
            }
            for (size_t i = 0; rows->kind != YK_ROWS_U8 && i < (size_t)(right - left); i++) {
                sum += (double)rows->f32[at + i];
                squares += (double)rows->f32[at + i] * (double)rows->f32[at + i];
            }
            sum += (double)s;
            squares += (double)q;
        }
    const double mean = sum / n, variance = squares / n - mean * mean;
    const double byte = rows->kind == YK_ROWS_U8 ? 1.0 : 1.0 / 255.0; /* floats are from 0 to 1 */
    const double deviation = fmax(sqrt(fmax(variance, 0.0)), byte / sqrt(n));
    *mean_out = (float)(mean * unit);
    *scale_out = (float)(1.0 / (deviation * unit));
}

/* Copies row y of channel ch of an augmented image to a lane; pixels outside the image are 0. */
static void copy_line(const yk__edge *e, const yk_rows *rows, size_t row, const augmentation *a, size_t ch,
                      size_t y, float *to)
{
    const int64_t width = (int64_t)e->width, line = (int64_t)y + a->up, step = a->flip ? -YK_LANES : YK_LANES;
    int64_t begin, end;
    visible(width, a->left, &begin, &end);
    if (line < 0 || line >= (int64_t)e->height)
        begin = end = width;
    to += a->flip ? (width - 1) * YK_LANES : 0;
    for (int64_t x = 0; x < begin; x++)
        to[x * step] = 0.0f;
    for (int64_t x = end; x < width; x++)
        to[x * step] = 0.0f;
    if (begin == end)
        return;
    const size_t at =
        row * rows->dim + (ch * e->height + (size_t)line) * e->width + (size_t)(begin + a->left);
    if (rows->kind == YK_ROWS_U8)
        for (int64_t x = begin; x < end; x++)
            to[x * step] = (float)rows->u8[at + (size_t)(x - begin)] * rows->scale;
    else
        for (int64_t x = begin; x < end; x++)
            to[x * step] = rows->f32[at + (size_t)(x - begin)];
}

/* One block of images. */
typedef struct {
    size_t n; /* images; the other lanes are 0 */
    const uint8_t *u8[YK_LANES];
    const float *f32[YK_LANES];
    size_t row[YK_LANES];
    augmentation augment[YK_LANES];
    float mean[YK_LANES], scale[YK_LANES]; /* with standardize image */
} images;

static void find_images(const yk__pass *ctx, const yk_batch *batch, size_t first, uint64_t noise, images *out)
{
    const yk_net_options *o = &ctx->net->model.shape.net;
    const yk_rows *rows = batch->rows;
    *out = (images){.n = batch->n - first < YK_LANES ? batch->n - first : YK_LANES};
    for (size_t lane = 0; lane < out->n; lane++) {
        out->row[lane] = batch->pick[first + lane];
        out->u8[lane] = rows->u8 ? rows->u8 + out->row[lane] * rows->dim : NULL;
        out->f32[lane] = rows->f32 ? rows->f32 + out->row[lane] * rows->dim : NULL;
        out->augment[lane] = augmentation_of(o, ctx, noise, first + lane);
        if (o->standardize == YK_STANDARDIZE_IMAGE)
            measure(&ctx->net->edge[0], rows, out->row[lane], &out->augment[lane], &out->mean[lane],
                    &out->scale[lane]);
    }
}

static void load_line(const yk__pass *ctx, const yk_batch *batch, const images *p, size_t ch, size_t y,
                      float *to)
{
    const yk_net_options *o = &ctx->net->model.shape.net;
    const yk__edge *e = &ctx->net->edge[0];
    const size_t at = (ch * e->height + y) * e->width;
    if (!ctx->training || (!o->flip && !o->crop)) {
        if (batch->rows->kind == YK_ROWS_U8)
            ctx->lanes->interleave_u8(p->u8, at, e->width, batch->rows->scale, to);
        else
            ctx->lanes->interleave_f32(p->f32, at, e->width, to);
    } else {
        if (p->n < YK_LANES)
            memset(to, 0, e->width * YK_LANES * sizeof *to);
        for (size_t lane = 0; lane < p->n; lane++)
            copy_line(e, batch->rows, p->row[lane], &p->augment[lane], ch, y, to + lane);
    }
    if (o->standardize == YK_STANDARDIZE_NONE)
        return;
    float mean[YK_LANES], scale[YK_LANES];
    for (size_t lane = 0; lane < YK_LANES; lane++) {
        const bool by_channel = o->standardize == YK_STANDARDIZE_CHANNEL;
        mean[lane] = by_channel ? o->mean[ch] : p->mean[lane];
        scale[lane] = lane >= p->n ? 0.0f : by_channel ? 1.0f / o->deviation[ch] : p->scale[lane];
    }
    for (size_t x = 0; x < e->width; x++)
        for (size_t lane = 0; lane < YK_LANES; lane++)
            to[x * YK_LANES + lane] = (to[x * YK_LANES + lane] - mean[lane]) * scale[lane];
}

void yk__load_images(const yk__pass *ctx, const yk_batch *batch, size_t first, uint64_t noise)
{
    const yk__edge *e = &ctx->net->edge[0];
    const yk__strides s = yk__strides_of(e, e->border);
    const size_t lines = e->channels * e->height;
    size_t begin, end;
    yk__thread_range(ctx, ctx->blocks * lines, 1, &begin, &end);
    images p;
    for (size_t i = begin; i < end; i++) {
        const size_t block = i / lines, ch = i % lines / e->height, y = i % e->height;
        if (i == begin || i % lines == 0)
            find_images(ctx, batch, first + block * YK_LANES, noise, &p);
        load_line(ctx, batch, &p, ch, y, ctx->x[0] + block * s.block + yk__offset(&s, ch, (int64_t)y, 0));
    }
}
