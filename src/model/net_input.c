/* Images that are changed on their way in: standardised, flipped, moved (net_options.h). The plain way, bytes to floats, is
 * take_input() of net.c.
 *
 * What happens to image number i of a batch is a hash of (the batch's noise, i): a resumed run changes it the same way, however
 * many threads there are. First the mean and deviation of each image are measured, where that is asked for; then the lines of
 * the input are shared out as usual.
 */
#include "model/net.h"

#include <math.h>
#include <string.h>

/* Which pixel of the image pixel (y, x) of the input is: (y + up, x + left), x from the other side when flipped. */
typedef struct {
    bool flip;
    int64_t up, left;
} change;

static change change_of(const yk_net_options *o, const yk__run *r, uint64_t noise, size_t image)
{
    change c = {0};
    if (!r->training || (!o->flip && !o->crop))
        return c;
    yk_rng rng = yk_rng_seed(noise, image);
    c.flip = (yk_rng_u64(&rng) >> 63) && o->flip;
    if (o->crop) {
        const uint32_t places = 2 * (uint32_t)o->crop + 1;
        c.up = (int64_t)yk_rng_below(&rng, places) - (int64_t)o->crop;
        c.left = (int64_t)yk_rng_below(&rng, places) - (int64_t)o->crop;
    }
    return c;
}

bool yk__input_changes(const yk__net *net, bool training)
{
    const yk_net_options *o = &net->model.shape.net;
    return o->standardize != YK_STANDARDIZE_NONE || (training && (o->flip || o->crop));
}

/* The pixels begin .. end of a line of `size` that lie inside after a move by `by`. */
static void inside(int64_t size, int64_t by, int64_t *begin, int64_t *end)
{
    *begin = by < 0 ? -by : 0;
    *end = by > 0 ? size - by : size;
    *begin = *begin < size ? *begin : size;
    *end = *end > *begin ? *end : *begin;
}

/* Mean and deviation of an image as changed, in units of the input. */
static void measure(const yk__edge *e, const yk_rows *rows, size_t row, const change *c, float *mean_out,
                    float *scale_out)
{
    const int64_t width = (int64_t)e->width, height = (int64_t)e->height;
    const double n = (double)rows->dim, unit = rows->kind == YK_ROWS_U8 ? (double)rows->scale : 1.0;
    int64_t top, bottom, left, right;
    double sum = 0.0, squares = 0.0;
    inside(height, c->up, &top, &bottom);
    inside(width, c->left, &left, &right);
    for (int64_t ch = 0; ch < (int64_t)e->channels; ch++)
        for (int64_t y = top; y < bottom; y++) {
            const size_t at = row * rows->dim + (size_t)((ch * height + y + c->up) * width + c->left + left);
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
    const double deviation = fmax(sqrt(fmax(variance, 0.0)), 1.0 / sqrt(n));
    *mean_out = (float)(mean * unit);
    *scale_out = (float)(1.0 / (deviation * unit));
}

/* Line y of channel ch of one image as changed, into a lane; what lies outside of the image is 0. */
static void take_line(const yk__edge *e, const yk_rows *rows, size_t row, const change *c, size_t ch,
                      size_t y, float *to)
{
    const int64_t width = (int64_t)e->width, line = (int64_t)y + c->up, step = c->flip ? -YK_LANES : YK_LANES;
    int64_t begin, end;
    inside(width, c->left, &begin, &end);
    if (line < 0 || line >= (int64_t)e->height)
        begin = end = width;
    to += c->flip ? (width - 1) * YK_LANES : 0;
    for (int64_t x = 0; x < begin; x++)
        to[x * step] = 0.0f;
    for (int64_t x = end; x < width; x++)
        to[x * step] = 0.0f;
    if (begin == end)
        return;
    const size_t at =
        row * rows->dim + (ch * e->height + (size_t)line) * e->width + (size_t)(begin + c->left);
    if (rows->kind == YK_ROWS_U8)
        for (int64_t x = begin; x < end; x++)
            to[x * step] = (float)rows->u8[at + (size_t)(x - begin)] * rows->scale;
    else
        for (int64_t x = begin; x < end; x++)
            to[x * step] = rows->f32[at + (size_t)(x - begin)];
}

/* What one block of images needs on all of its lines. */
typedef struct {
    size_t n; /* images; the lanes beyond are 0 */
    const uint8_t *u8[YK_LANES];
    const float *f32[YK_LANES];
    size_t row[YK_LANES];
    change how[YK_LANES];
    float mean[YK_LANES], scale[YK_LANES]; /* of the images */
} pictures;

static void look_at(const yk__run *r, const yk_batch *batch, size_t first, uint64_t noise,
                    const float (*of_image)[2], pictures *out)
{
    const yk_rows *rows = batch->rows;
    *out = (pictures){.n = batch->n - first < YK_LANES ? batch->n - first : YK_LANES};
    for (size_t lane = 0; lane < out->n; lane++) {
        out->row[lane] = batch->pick[first + lane];
        out->u8[lane] = rows->u8 ? rows->u8 + out->row[lane] * rows->dim : NULL;
        out->f32[lane] = rows->f32 ? rows->f32 + out->row[lane] * rows->dim : NULL;
        out->how[lane] = change_of(&r->net->model.shape.net, r, noise, first + lane);
        out->mean[lane] = of_image ? of_image[lane][0] : 0.0f;
        out->scale[lane] = of_image ? of_image[lane][1] : 1.0f;
    }
}

static void take_lines(const yk__run *r, const yk_batch *batch, const pictures *p, size_t ch, size_t y,
                       float *to)
{
    const yk_net_options *o = &r->net->model.shape.net;
    const yk__edge *e = &r->net->edge[0];
    const size_t at = (ch * e->height + y) * e->width;
    if (!r->training || (!o->flip && !o->crop)) {
        if (batch->rows->kind == YK_ROWS_U8)
            r->lanes->spread_u8(p->u8, at, e->width, batch->rows->scale, to);
        else
            r->lanes->spread_f32(p->f32, at, e->width, to);
    } else {
        if (p->n < YK_LANES)
            memset(to, 0, e->width * YK_LANES * sizeof *to);
        for (size_t lane = 0; lane < p->n; lane++)
            take_line(e, batch->rows, p->row[lane], &p->how[lane], ch, y, to + lane);
    }
    if (o->standardize == YK_STANDARDIZE_NONE)
        return;
    float mean[YK_LANES], scale[YK_LANES];
    for (size_t lane = 0; lane < YK_LANES; lane++) {
        const bool of_channel = o->standardize == YK_STANDARDIZE_CHANNEL;
        mean[lane] = of_channel ? o->mean[ch] : p->mean[lane];
        scale[lane] = lane >= p->n ? 0.0f : of_channel ? 1.0f / o->deviation[ch] : p->scale[lane];
    }
    for (size_t x = 0; x < e->width; x++)
        for (size_t lane = 0; lane < YK_LANES; lane++)
            to[x * YK_LANES + lane] = (to[x * YK_LANES + lane] - mean[lane]) * scale[lane];
}

void yk__input_take(const yk__run *r, const yk_batch *batch, size_t first, uint64_t noise,
                    float (*of_image)[2])
{
    const yk_net_options *o = &r->net->model.shape.net;
    const yk__edge *e = &r->net->edge[0];
    const yk__strides s = yk__strides_of(e, e->border);
    const size_t lines = e->channels * e->height;
    const bool each = o->standardize == YK_STANDARDIZE_IMAGE;
    size_t begin, end;
    if (each) {
        yk__part(r, r->blocks * YK_LANES, 1, &begin, &end);
        for (size_t i = begin; i < end && first + i < batch->n; i++) {
            const change c = change_of(o, r, noise, first + i);
            measure(e, batch->rows, batch->pick[first + i], &c, &of_image[i][0], &of_image[i][1]);
        }
        yk__meet(r);
    }
    yk__part(r, r->blocks * lines, 1, &begin, &end);
    pictures p;
    for (size_t i = begin; i < end; i++) {
        const size_t block = i / lines, ch = i % lines / e->height, y = i % e->height;
        if (i == begin || i % lines == 0)
            look_at(r, batch, first + block * YK_LANES, noise, each ? of_image + block * YK_LANES : NULL, &p);
        take_lines(r, batch, &p, ch, y, r->x[0] + block * s.block + yk__offset(&s, ch, (int64_t)y, 0));
    }
}
