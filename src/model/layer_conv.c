/* Convolution: y(o, p) = b(o) + sum over i, r, c of w(o, i, r, c) x(i, s p + (r, c) - pad).
 *
 * Forward it is a product of the filters with the input, moved (block.h). The gradient by the input is the same product the
 * other way round: dx(i, q) collects w(o, i, r, c) dy(o, (q + pad - (r, c)) / s) wherever that divides; with a stride s there
 * are s x s kinds of pixels q ("phases"), each with its own list of terms. The gradient by a filter is a sum over pixels.
 * Weights [out][in][kernel_h][kernel_w], as in PyTorch.
 */
#include "model/net.h"

#include "base/mem.h"
#include "model/layer_words.h"
#include <string.h>

typedef struct {
    size_t terms, pixels;
    int32_t *a_k, *b_k; /* [terms] */
    int32_t *b_p, *c_p; /* [pixels] */
} phase;

typedef struct {
    phase forward;
    size_t nphases;
    phase *back;
    int32_t *y_p; /* [output pixels] in the gradient of the output */
} tables;

static const char *parse(yk__layer *l, int n, char **word)
{
    if (n < 2 || !yk__word_number(word[0], strlen(word[0]), 1, YK__MOST_OUTPUTS, &l->count))
        return "conv needs the number of filters and their size, as in: conv 6 5x5";
    if (!yk__word_size(word[1], YK__MOST_KERNEL, &l->kernel_h, &l->kernel_w))
        return "the size of a filter is HEIGHTxWIDTH, as in 5x5, 64 at most";
    l->stride = 1;
    l->padding = YK__VALID;
    for (int i = 2; i < n; i++) {
        if (yk__word_stride(word[i], YK__MOST_STRIDE, &l->stride)) {
            continue;
        } else if (strcmp(word[i], "same") == 0) {
            l->padding = YK__SAME;
        } else if (strcmp(word[i], "valid") == 0) {
            l->padding = YK__VALID;
        } else if (strcmp(word[i], "pad") == 0 && i + 1 < n &&
                   yk__word_number(word[i + 1], strlen(word[i + 1]), 0, YK__MOST_PAD, &l->pad)) {
            l->padding = YK__PADDED;
            i++;
        } else {
            return "after the filters come /STRIDE (1 to 64), same, valid or pad N (0 to 255)";
        }
    }
    return NULL;
}

static yk_status shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    if (l->padding == YK__SAME) {
        if (l->kernel_h != l->kernel_w || l->kernel_h % 2 == 0)
            return yk_fail(YK_EUSAGE, "'same' needs square filters of odd size; %zux%zu is not: say pad N",
                           l->kernel_h, l->kernel_w);
        l->pad = l->kernel_h / 2;
    }
    if (in->height + 2 * l->pad < l->kernel_h || in->width + 2 * l->pad < l->kernel_w)
        return yk_fail(YK_EUSAGE, "filters of %zux%zu do not fit what arrives there, %zu x %zu x %zu",
                       l->kernel_h, l->kernel_w, in->channels, in->height, in->width);
    *out = (yk__edge){.channels = l->count,
                      .height = (in->height + 2 * l->pad - l->kernel_h) / l->stride + 1,
                      .width = (in->width + 2 * l->pad - l->kernel_w) / l->stride + 1};
    in->border = l->pad > in->border ? l->pad : in->border;
    const size_t most = l->kernel_h > l->kernel_w ? l->kernel_h : l->kernel_w;
    const size_t reach = most - 1 > l->pad ? most - 1 - l->pad : 0;
    out->grad_border = (reach + l->stride - 1) / l->stride + (l->stride > 1);
    const size_t taps = l->kernel_h * l->kernel_w;
    l->weights = l->count * in->channels * taps;
    l->biases = l->count;
    l->fan_in = in->channels * taps;
    l->fan_out = l->count * taps;
    l->flops = 2.0 * (double)l->weights * (double)(out->height * out->width);
    if (l->weights >= INT32_MAX)
        return yk_fail(YK_EUSAGE,
                       "%zu filters of %zux%zu for what arrives there, %zu x %zu x %zu, would have %zu "
                       "weights; at most %d",
                       l->count, l->kernel_h, l->kernel_w, in->channels, in->height, in->width, l->weights,
                       INT32_MAX);
    return YK_OK;
}

static int32_t *table(size_t n)
{
    return yk_alloc(n ? n : 1, sizeof(int32_t), "a layer's tables");
}

static void free_phase(phase *p)
{
    yk_free(p->a_k);
    yk_free(p->b_k);
    yk_free(p->b_p);
    yk_free(p->c_p);
}

static void free_layer(yk__layer *l)
{
    tables *t = l->plan;
    if (!t)
        return;
    free_phase(&t->forward);
    for (size_t i = 0; t->back && i < t->nphases; i++)
        free_phase(&t->back[i]);
    yk_free(t->back);
    yk_free(t->y_p);
    yk_free(t);
    l->plan = NULL;
}

static yk_status make_phase(phase *p, size_t terms, size_t pixels)
{
    *p = (phase){terms, pixels, table(terms), table(terms), table(pixels), table(pixels)};
    return p->a_k && p->b_k && p->b_p && p->c_p ? YK_OK : YK_ESYSTEM;
}

static yk_status plan_forward(const yk__layer *l, tables *t)
{
    const yk__edge *in = &l->in_edge, *out = &l->out_edge;
    const yk__strides x = yk__strides_of(in, in->border), y = yk__strides_of(out, out->border),
                      dy = yk__strides_of(out, out->grad_border);
    const size_t taps = l->kernel_h * l->kernel_w;
    phase *f = &t->forward;
    yk_status st = make_phase(f, in->channels * taps, out->height * out->width);
    if (st || !(t->y_p = table(f->pixels)))
        return YK_ESYSTEM;
    for (size_t k = 0; k < f->terms; k++) {
        f->a_k[k] = (int32_t)k;
        f->b_k[k] =
            (int32_t)(k / taps * x.channel + k % taps / l->kernel_w * x.row + k % l->kernel_w * YK_LANES);
    }
    for (size_t p = 0; p < f->pixels; p++) {
        const int64_t py = (int64_t)(p / out->width), px = (int64_t)(p % out->width);
        f->b_p[p] = yk__offset(&x, 0, py * (int64_t)l->stride - (int64_t)l->pad,
                               px * (int64_t)l->stride - (int64_t)l->pad);
        f->c_p[p] = yk__offset(&y, 0, py, px);
        t->y_p[p] = yk__offset(&dy, 0, py, px);
    }
    return YK_OK;
}

/* Filter rows (or columns) that reach input pixels q = r mod s, one after the other. */
static bool reaches(size_t r, size_t pad, size_t tap, size_t stride)
{
    return (r + pad + stride * 64 - tap) % stride == 0;
}

static yk_status plan_phase(const yk__layer *l, size_t ry, size_t rx, phase *p)
{
    const yk__edge *in = &l->in_edge, *out = &l->out_edge;
    const yk__strides dx = yk__strides_of(in, in->grad_border), dy = yk__strides_of(out, out->grad_border);
    const size_t s = l->stride, taps = l->kernel_h * l->kernel_w;
    size_t per_channel = 0, terms = 0, pixels = 0;
    for (size_t a = 0; a < taps; a++)
        per_channel += reaches(ry, l->pad, a / l->kernel_w, s) && reaches(rx, l->pad, a % l->kernel_w, s);
    const size_t rows = in->height > ry ? (in->height - ry + s - 1) / s : 0,
                 columns = in->width > rx ? (in->width - rx + s - 1) / s : 0;
    yk_status st = make_phase(p, per_channel * out->channels, rows * columns);
    if (st)
        return st;
    for (size_t o = 0; o < out->channels; o++)
        for (size_t a = 0; a < taps; a++) {
            const size_t r = a / l->kernel_w, c = a % l->kernel_w;
            if (!reaches(ry, l->pad, r, s) || !reaches(rx, l->pad, c, s))
                continue;
            p->a_k[terms] = (int32_t)(o * in->channels * taps + a);
            const int64_t up = ((int64_t)(ry + l->pad) - (int64_t)r) / (int64_t)s; /* divides */
            const int64_t left = ((int64_t)(rx + l->pad) - (int64_t)c) / (int64_t)s;
            p->b_k[terms++] = (int32_t)((int64_t)(o * dy.channel) + up * (int64_t)dy.row + left * YK_LANES);
        }
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < columns; x++) {
            p->b_p[pixels] = yk__offset(&dy, 0, (int64_t)y, (int64_t)x);
            p->c_p[pixels++] = yk__offset(&dx, 0, (int64_t)(y * s + ry), (int64_t)(x * s + rx));
        }
    return YK_OK;
}

static yk_status plan(yk__layer *l, size_t max_blocks)
{
    (void)max_blocks;
    /* offsets within a block are 32 bits wide */
    const yk__edge *edge[] = {&l->in_edge, &l->out_edge};
    for (int i = 0; i < 2; i++)
        if (yk__strides_of(edge[i], edge[i]->border).block > INT32_MAX ||
            yk__strides_of(edge[i], edge[i]->grad_border).block > INT32_MAX)
            return yk_fail(YK_EUSAGE, "layer %d, %s: %zu x %zu x %zu numbers per image are too many",
                           l->number, l->text, edge[i]->channels, edge[i]->height, edge[i]->width);
    tables *t = yk_alloc(1, sizeof *t, "a layer's tables");
    if (!t)
        return YK_ESYSTEM;
    l->plan = t;
    yk_status st = plan_forward(l, t);
    t->nphases = l->stride * l->stride;
    if (st || !(t->back = yk_alloc(t->nphases, sizeof *t->back, "a layer's tables")))
        return YK_ESYSTEM;
    for (size_t i = 0; !st && !l->first && i < t->nphases; i++)
        st = plan_phase(l, i / l->stride, i % l->stride, &t->back[i]);
    return st;
}

/* Runs a product over all blocks, this thread's part of (block, pixel). */
static void products(const yk__run *r, yk_block_mul *w, size_t m, size_t pixels, size_t b_block,
                     size_t c_block)
{
    size_t begin, end;
    const float *b = w->b;
    float *c = w->c;
    yk__part(r, r->blocks * pixels, 4, &begin, &end);
    for (size_t at = begin; at < end;) {
        const size_t block = at / pixels, stop = (block + 1) * pixels < end ? (block + 1) * pixels : end;
        w->b = b + block * b_block;
        w->c = c + block * c_block;
        r->block->mul(w, 0, m, at - block * pixels, stop - block * pixels);
        at = stop;
    }
}

static void forward(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides x = yk__strides_of(&l->in_edge, l->in_edge.border),
                      y = yk__strides_of(&l->out_edge, l->out_edge.border);
    yk_block_mul w = {.k = t->forward.terms,
                      .a = r->params + l->weights_at,
                      .a_m = (int64_t)t->forward.terms,
                      .a_k = t->forward.a_k,
                      .b = r->x[l->in],
                      .b_p = t->forward.b_p,
                      .b_k = t->forward.b_k,
                      .c = r->x[l->out],
                      .c_m = (int64_t)y.channel,
                      .c_p = t->forward.c_p,
                      .bias = r->params + l->biases_at};
    products(r, &w, l->count, t->forward.pixels, x.block, y.block);
}

static void weight_gradient(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides x = yk__strides_of(&l->in_edge, l->in_edge.border),
                      dy = yk__strides_of(&l->out_edge, l->out_edge.grad_border);
    /* By filters, as the layer after this one had channels: what it left is in the cache of who needs it. */
    const size_t terms = t->forward.terms;
    size_t begin, end;
    yk__part(r, l->count, l->count < 8 * (size_t)r->threads ? 1 : 4, &begin, &end);
    if (r->fresh)
        memset(r->grad + l->weights_at + begin * terms, 0, (end - begin) * terms * sizeof *r->grad);
    for (size_t b = 0; b < r->blocks; b++) {
        yk_block_outer w = {.p = t->forward.pixels,
                            .y = r->dx[l->out] + b * dy.block,
                            .y_m = (int64_t)dy.channel,
                            .y_p = t->y_p,
                            .x = r->x[l->in] + b * x.block,
                            .x_p = t->forward.b_p,
                            .x_k = t->forward.b_k,
                            .d = r->grad + l->weights_at,
                            .d_m = (int64_t)terms};
        r->block->outer(&w, begin, end, 0, terms);
    }
    yk__part(r, l->count, 1, &begin, &end);
    for (size_t o = begin; o < end; o++) {
        float lane[YK_LANES] = {0}, sum = 0.0f;
        for (size_t b = 0; b < r->blocks; b++)
            for (size_t p = 0; p < t->forward.pixels; p++) {
                const float *v = r->dx[l->out] + b * dy.block + o * dy.channel + t->y_p[p];
                for (int i = 0; i < YK_LANES; i++)
                    lane[i] += v[i];
            }
        for (int i = 0; i < YK_LANES; i++)
            sum += lane[i];
        r->grad[l->biases_at + o] = r->fresh ? sum : r->grad[l->biases_at + o] + sum;
    }
}

static void input_gradient(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides dx = yk__strides_of(&l->in_edge, l->in_edge.grad_border),
                      dy = yk__strides_of(&l->out_edge, l->out_edge.grad_border);
    for (size_t i = 0; i < t->nphases; i++) {
        const phase *p = &t->back[i];
        yk_block_mul w = {.k = p->terms,
                          .a = r->params + l->weights_at,
                          .a_m = (int64_t)(l->kernel_h * l->kernel_w),
                          .a_k = p->a_k,
                          .b = r->dx[l->out],
                          .b_p = p->b_p,
                          .b_k = p->b_k,
                          .c = r->dx[l->in],
                          .c_m = (int64_t)dx.channel,
                          .c_p = p->c_p};
        if (p->pixels)
            products(r, &w, l->in_edge.channels, p->pixels, dy.block, dx.block);
    }
}

enum { WEIGHTS, INPUTS, PARTS };

static void backward(const yk__layer *l, const yk__run *r)
{
    if (r->part == WEIGHTS)
        weight_gradient(l, r);
    else
        input_gradient(l, r);
}

const yk__layer_ops yk__conv_ops = {"conv",   "conv FILTERS HxW [/STRIDE] [same | valid | pad N]",
                                    parse,    shape,
                                    plan,     forward,
                                    backward, free_layer,
                                    PARTS};
