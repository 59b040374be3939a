/* Convolution: y(o, p) = b(o) + sum over i, r, c of w(o, i, r, c) x(i, s p + (r, c) - pad).
 *
 * Forward it is a product of the filters with the input, moved (block.h). The gradient by the input is the same product the
 * other way round: dx(i, q) collects w(o, i, r, c) dy(o, (q + pad - (r, c)) / s) wherever that divides. Taps (r, c) that do
 * not reach a pixel, because of the stride or because they lie beyond the edge, are left out: pixels are computed in groups
 * that have the same terms (conv_groups.h). The gradient by a filter is a sum over pixels.
 * Weights [out][in][kernel_h][kernel_w], as in PyTorch.
 */
#include "model/net.h"

#include "base/mem.h"
#include "model/conv_groups.h"
#include "model/layer_words.h"
#include <string.h>

typedef struct {
    yk__conv_groups forward, back;
    /* for the gradient by the filters: terms of a filter, and pixels of its output */
    size_t terms, pixels;
    int32_t *x_k, *x_p; /* in the input */
    int32_t *y_p;       /* in the gradient of the output */
} tables;

static const char *parse(yk__layer *l, int n, char **word)
{
    if (n < 2 || !yk__word_number(word[0], 1, YK__MOST_OUTPUTS, &l->count))
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
                   yk__word_number(word[i + 1], 0, YK__MOST_PAD, &l->pad)) {
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

static void free_layer(yk__layer *l)
{
    tables *t = l->plan;
    if (!t)
        return;
    yk__conv_groups_free(&t->forward);
    yk__conv_groups_free(&t->back);
    yk_free(t->x_k);
    yk_free(t->x_p);
    yk_free(t->y_p);
    yk_free(t);
    l->plan = NULL;
}

static yk_status plan_filters(const yk__layer *l, tables *t)
{
    const yk__edge *in = &l->in_edge, *out = &l->out_edge;
    const yk__strides x = yk__strides_of(in, in->border), dy = yk__strides_of(out, out->grad_border);
    const size_t taps = l->kernel_h * l->kernel_w;
    t->terms = in->channels * taps;
    t->pixels = out->height * out->width;
    t->x_k = yk_alloc(t->terms, sizeof *t->x_k, "a layer's tables");
    t->x_p = yk_alloc(t->pixels, sizeof *t->x_p, "a layer's tables");
    t->y_p = yk_alloc(t->pixels, sizeof *t->y_p, "a layer's tables");
    if (!t->x_k || !t->x_p || !t->y_p)
        return YK_ESYSTEM;
    for (size_t k = 0; k < t->terms; k++)
        t->x_k[k] =
            (int32_t)(k / taps * x.channel + k % taps / l->kernel_w * x.row + k % l->kernel_w * YK_LANES);
    for (size_t p = 0; p < t->pixels; p++) {
        const int64_t py = (int64_t)(p / out->width), px = (int64_t)(p % out->width);
        t->x_p[p] = yk__offset(&x, 0, py * (int64_t)l->stride - (int64_t)l->pad,
                               px * (int64_t)l->stride - (int64_t)l->pad);
        t->y_p[p] = yk__offset(&dy, 0, py, px);
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
    yk_status st = plan_filters(l, t);
    if (!st)
        st = yk__conv_groups_make(l, false, &t->forward);
    return st || l->first ? st : yk__conv_groups_make(l, true, &t->back);
}

/* Runs a product over all blocks, this thread's part of the work. */
static void products(const yk__run *r, const yk__conv_groups *g, yk_block_mul *w, size_t m, size_t b_block,
                     size_t c_block)
{
    const float *b = w->b;
    float *c = w->c;
    size_t begin, end, at = 0;
    yk__part(r, r->blocks * g->work, 1, &begin, &end);
    for (size_t block = 0; block < r->blocks; block++)
        for (size_t i = 0; i < g->n; i++) {
            const yk__conv_group *of = &g->of[i];
            const size_t first = yk__conv_group_pixel(of, at, begin),
                         last = yk__conv_group_pixel(of, at, end);
            at += of->work;
            if (first == last)
                continue;
            w->k = of->terms;
            w->a_k = of->a_k;
            w->b = b + block * b_block;
            w->b_p = of->b_p;
            w->b_k = of->b_k;
            w->c = c + block * c_block;
            w->c_p = of->c_p;
            r->block->mul(w, 0, m, first, last);
        }
}

static void forward(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides x = yk__strides_of(&l->in_edge, l->in_edge.border),
                      y = yk__strides_of(&l->out_edge, l->out_edge.border);
    yk_block_mul w = {.a = r->params + l->weights_at,
                      .a_m = (int64_t)t->terms,
                      .b = r->x[l->in],
                      .c = r->x[l->out],
                      .c_m = (int64_t)y.channel,
                      .bias = r->params + l->biases_at};
    products(r, &t->forward, &w, l->count, x.block, y.block);
}

static void weight_gradient(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides x = yk__strides_of(&l->in_edge, l->in_edge.border),
                      dy = yk__strides_of(&l->out_edge, l->out_edge.grad_border);
    /* By filters, as the layer after this one had channels: what it left is in the cache of who needs it. */
    const size_t terms = t->terms;
    size_t begin, end;
    yk__part(r, l->count, l->count < 8 * (size_t)r->threads ? 1 : 4, &begin, &end);
    if (r->fresh) {
        memset(r->grad + l->weights_at + begin * terms, 0, (end - begin) * terms * sizeof *r->grad);
        memset(r->grad + l->biases_at + begin, 0, (end - begin) * sizeof *r->grad);
    }
    for (size_t b = 0; b < r->blocks; b++) {
        yk_block_outer w = {.p = t->pixels,
                            .y = r->dx[l->out] + b * dy.block,
                            .y_m = (int64_t)dy.channel,
                            .y_p = t->y_p,
                            .x = r->x[l->in] + b * x.block,
                            .x_p = t->x_p,
                            .x_k = t->x_k,
                            .d = r->grad + l->weights_at,
                            .d_m = (int64_t)terms};
        r->block->outer(&w, begin, end, 0, terms);
        r->block->sum(&w, begin, end, r->grad + l->biases_at);
    }
}

static void input_gradient(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides dx = yk__strides_of(&l->in_edge, l->in_edge.grad_border),
                      dy = yk__strides_of(&l->out_edge, l->out_edge.grad_border);
    yk_block_mul w = {.a = r->params + l->weights_at,
                      .a_m = (int64_t)(l->kernel_h * l->kernel_w),
                      .b = r->dx[l->out],
                      .c = r->dx[l->in],
                      .c_m = (int64_t)dx.channel};
    products(r, &t->back, &w, l->in_edge.channels, dy.block, dx.block);
}

enum { WEIGHTS, INPUTS, PARTS };

static void backward(const yk__layer *l, const yk__run *r)
{
    if (r->part == WEIGHTS)
        weight_gradient(l, r);
    else
        input_gradient(l, r);
}

const yk__layer_ops yk__conv_ops = {.name = "conv",
                                    .usage = "conv FILTERS HxW [/STRIDE] [same | valid | pad N]",
                                    .parse = parse,
                                    .shape = shape,
                                    .plan = plan,
                                    .forward = forward,
                                    .backward = backward,
                                    .free = free_layer,
                                    .parts = PARTS,
                                    .output_border = true,
                                    .weight_rank = 4};
