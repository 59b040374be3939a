/* Convolution: y(o, p) = b(o) + sum over i, r, c of w(o, i, r, c) x(i, s p + (r, c) - pad).
 *
 * Forward, this is a product of the filters with the shifted input (block.h). The gradient of the input is the transposed
 * product: dx(i, q) is the sum of w(o, i, r, c) dy(o, (q + pad - (r, c)) / s) where the division has no remainder. Taps (r, c)
 * that do not contribute to a pixel, because of the stride or because they are beyond the edge, are left out: pixels are
 * computed in groups with the same terms (conv_groups.h). The gradient of a filter is a sum over pixels.
 * Weights [out][in][kernel_h][kernel_w], as in PyTorch.
 */
#include "model/net.h"

#include "base/mem.h"
#include "model/conv_groups.h"
#include "model/layer_args.h"
#include <string.h>

typedef struct {
    yk__conv_groups forward, input_gradient, weight_gradient;
} tables;

static const char *parse(yk__layer *l, int n, char **arg)
{
    if (n < 2 || !yk__arg_count(arg[0], 1, YK__MAX_OUTPUTS, &l->count))
        return "conv needs the number of filters and their size, as in: conv 6 5x5";
    if (!yk__arg_size(arg[1], YK__MAX_KERNEL, &l->kernel_h, &l->kernel_w))
        return "the filter size must be HEIGHTxWIDTH, as in 5x5, at most 64";
    l->stride = 1;
    l->padding = YK__VALID;
    int strides = 0, paddings = 0;
    for (int i = 2; i < n; i++) {
        if (yk__arg_stride(arg[i], YK__MAX_STRIDE, &l->stride)) {
            strides++;
            continue;
        } else if (strcmp(arg[i], "same") == 0) {
            l->padding = YK__SAME;
        } else if (strcmp(arg[i], "valid") == 0) {
            l->padding = YK__VALID;
        } else if (strcmp(arg[i], "pad") == 0 && i + 1 < n &&
                   yk__arg_count(arg[i + 1], 0, YK__MAX_PAD, &l->pad)) {
            l->padding = YK__PADDED;
            i++;
        } else {
            return "expected /STRIDE (1 to 64), same, valid or pad N (0 to 255) after the size of the "
                   "filters";
        }
        paddings++;
    }
    return strides > 1 || paddings > 1
               ? "conv takes at most one stride, and at most one of same, valid and pad N"
               : NULL;
}

static yk_status shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    if (l->padding == YK__SAME) {
        if (l->kernel_h != l->kernel_w || l->kernel_h % 2 == 0)
            return yk_fail(YK_EUSAGE, "'same' needs square filters of odd size; for %zux%zu use pad N",
                           l->kernel_h, l->kernel_w);
        l->pad = l->kernel_h / 2;
    }
    if (in->height + 2 * l->pad < l->kernel_h || in->width + 2 * l->pad < l->kernel_w)
        return yk_fail(YK_EUSAGE, "filters of %zux%zu are larger than their input of %zu x %zu x %zu",
                       l->kernel_h, l->kernel_w, in->channels, in->height, in->width);
    *out = (yk__edge){.channels = l->count,
                      .height = (in->height + 2 * l->pad - l->kernel_h) / l->stride + 1,
                      .width = (in->width + 2 * l->pad - l->kernel_w) / l->stride + 1};
    in->border = l->pad > in->border ? l->pad : in->border;
    const size_t max = l->kernel_h > l->kernel_w ? l->kernel_h : l->kernel_w;
    const size_t reach = max - 1 > l->pad ? max - 1 - l->pad : 0;
    out->grad_border = (reach + l->stride - 1) / l->stride + (l->stride > 1);
    const size_t taps = l->kernel_h * l->kernel_w;
    l->weights = l->count * in->channels * taps;
    l->biases = l->count;
    l->fan_in = in->channels * taps;
    l->fan_out = l->count * taps;
    l->flops = 2.0 * (double)l->weights * (double)(out->height * out->width);
    l->workspace_wave = yk_block_pieces(out->height * out->width) * l->weights + l->biases;
    if (l->weights >= INT32_MAX)
        return yk_fail(
            YK_EUSAGE,
            "%zu filters of %zux%zu for an input of %zu x %zu x %zu would have %zu weights; at most %d",
            l->count, l->kernel_h, l->kernel_w, in->channels, in->height, in->width, l->weights, INT32_MAX);
    return YK_OK;
}

static yk_status prepare(yk__layer *l, size_t max_blocks, yk_arena *memory)
{
    (void)max_blocks;
    tables *t = l->tables = yk_arena_alloc(memory, 1, sizeof *t, "a layer's tables");
    if (!t)
        return YK_ESYSTEM;
    t->forward = yk__conv_groups_make(l, YK__CONV_FORWARD, memory);
    t->weight_gradient = yk__conv_groups_make(l, YK__CONV_WEIGHT_GRADIENT, memory);
    if (!l->no_input_gradient)
        t->input_gradient = yk__conv_groups_make(l, YK__CONV_INPUT_GRADIENT, memory);
    return YK_OK;
}

/* Computes this thread's share of a product over all blocks. */
static void products(const yk__pass *ctx, const yk__conv_groups *g, yk_block_mul *w, size_t m, size_t b_block,
                     size_t c_block)
{
    const float *b = w->b;
    float *c = w->c;
    size_t begin, end, at = 0;
    yk__thread_range(ctx, ctx->blocks * g->work, 1, &begin, &end);
    for (size_t block = 0; block < ctx->blocks; block++)
        for (size_t i = 0; i < g->n; i++) {
            const yk__conv_group *group = &g->group[i];
            const size_t first = yk__conv_group_pixel(group, at, begin),
                         last = yk__conv_group_pixel(group, at, end);
            at += group->work;
            if (first == last)
                continue;
            w->k = group->terms;
            w->a_k = group->a_k;
            w->b = b + block * b_block;
            w->b_p = group->b_p;
            w->b_k = group->b_k;
            w->c = c + block * c_block;
            w->c_p = group->c_p;
            ctx->block->mul(w, 0, m, first, last);
        }
}

static void forward(const yk__layer *l, const yk__pass *ctx)
{
    const tables *t = l->tables;
    yk_block_mul w = {.a = ctx->params + l->weights_offset,
                      .a_m = (int64_t)l->fan_in,
                      .b = ctx->x[l->in],
                      .c = ctx->x[l->out],
                      .c_m = (int64_t)l->y.channel,
                      .bias = ctx->params + l->biases_offset};
    products(ctx, &t->forward, &w, l->count, l->x.block, l->y.block);
}

/* The gradient of the weights for a block of the chunk, still without its sum d. */
static yk_block_outer outer_of(const yk__layer *l, const yk__pass *ctx, size_t block)
{
    const yk__conv_group *g = ((const tables *)l->tables)->weight_gradient.group;
    return (yk_block_outer){.p = g->pixels,
                            .y = ctx->dx[l->out] + block * l->dy.block,
                            .y_m = (int64_t)l->dy.channel,
                            .y_p = g->c_p,
                            .x = ctx->x[l->in] + block * l->x.block,
                            .x_p = g->b_p,
                            .x_k = g->b_k,
                            .d_m = (int64_t)g->terms};
}

static void weight_gradient(const yk__layer *l, const yk__pass *ctx)
{
    float *weights = ctx->grad + l->weights_offset, *biases = ctx->grad + l->biases_offset;
    /* Divided by filters, as the next layer divided its channels: dy is then in the cache of this thread. */
    size_t begin, end;
    yk__thread_range(ctx, l->count, l->count < 8 * (size_t)ctx->threads ? 1 : 4, &begin, &end);
    if (ctx->first_chunk) {
        memset(weights + begin * l->fan_in, 0, (end - begin) * l->fan_in * sizeof *weights);
        memset(biases + begin, 0, (end - begin) * sizeof *biases);
    }
    for (size_t b = 0; b < ctx->blocks; b++) {
        yk_block_outer w = outer_of(l, ctx, b);
        w.d = weights;
        ctx->block->outer(&w, begin, end, 0, l->fan_in);
        ctx->block->sum(&w, begin, end, biases);
    }
}

/* By blocks: the sums that weight_gradient() would add to the gradient, one after the other. Per block:
 * [pieces][weights], [biases]. */
static float *sums_of(const yk__layer *l, size_t block)
{
    return l->workspace + block * l->workspace_wave;
}

static void store_sums(const yk__layer *l, const yk__pass *ctx)
{
    const size_t pixels = l->out_edge.height * l->out_edge.width, pieces = yk_block_pieces(pixels);
    const bool by_piece = pieces >= (size_t)ctx->threads;
    size_t piece = 0, piece_end = pieces, begin, end;
    yk__thread_range(ctx, l->count, 1, &begin, &end);
    const size_t first = by_piece ? 0 : begin, last = by_piece ? l->count : end; /* filters */
    if (by_piece)
        yk__thread_range(ctx, pieces, 1, &piece, &piece_end);
    for (size_t b = 0; b < ctx->blocks; b++) {
        float *sums = sums_of(l, ctx->in_wave + b), *biases = sums + pieces * l->weights;
        const yk_block_outer all = outer_of(l, ctx, b);
        for (size_t i = piece; i < piece_end; i++) {
            const size_t p = yk_block_piece(pixels, i);
            yk_block_outer w = all;
            w.p = yk_block_piece(pixels, i + 1) - p;
            w.y_p += p;
            w.x_p += p;
            w.d = sums + i * l->weights;
            memset(w.d + first * l->fan_in, 0, (last - first) * l->fan_in * sizeof *w.d);
            ctx->block->outer(&w, first, last, 0, l->fan_in);
        }
        memset(biases + begin, 0, (end - begin) * sizeof *biases);
        ctx->block->sum(&all, begin, end, biases);
    }
}

/* Adds n sums, `stride` floats apart, to each of begin .. end of the gradient. */
static void add_sums(const yk__pass *ctx, const float *sums, size_t n, size_t stride, size_t begin,
                     size_t end, float *restrict grad)
{
    if (ctx->first_chunk && ctx->in_wave == 0)
        memset(grad + begin, 0, (end - begin) * sizeof *grad);
    for (size_t i = 0; i < n; i++)
        for (size_t k = begin; k < end; k++)
            grad[k] += sums[i * stride + k];
}

static void finish(const yk__layer *l, const yk__pass *ctx)
{
    const size_t pieces = yk_block_pieces(l->out_edge.height * l->out_edge.width);
    size_t begin, end, bias, bias_end;
    yk__thread_range(ctx, l->weights, 16, &begin, &end);
    yk__thread_range(ctx, l->biases, 16, &bias, &bias_end);
    for (yk__pass block = *ctx; block.in_wave < ctx->blocks; block.in_wave++) {
        const float *sums = sums_of(l, block.in_wave);
        add_sums(&block, sums, pieces, l->weights, begin, end, ctx->grad + l->weights_offset);
        add_sums(&block, sums + pieces * l->weights, 1, 0, bias, bias_end, ctx->grad + l->biases_offset);
    }
}

static void input_gradient(const yk__layer *l, const yk__pass *ctx)
{
    const tables *t = l->tables;
    yk_block_mul w = {.a = ctx->params + l->weights_offset,
                      .a_m = (int64_t)(l->kernel_h * l->kernel_w),
                      .b = ctx->dx[l->out],
                      .c = ctx->dx[l->in],
                      .c_m = (int64_t)l->dx.channel};
    products(ctx, &t->input_gradient, &w, l->in_edge.channels, l->dy.block, l->dx.block);
}

enum { WEIGHTS, WEIGHT_PARTS };

static void run(const yk__layer *l, const yk__pass *ctx, bool back)
{
    if (!back)
        forward(l, ctx);
    else if (ctx->part == WEIGHTS && l->wave)
        store_sums(l, ctx);
    else if (ctx->part == WEIGHTS)
        weight_gradient(l, ctx);
    else
        input_gradient(l, ctx);
}

static void torch(const yk__layer *l, yk_text *to)
{
    yk_text_print(to, "%zu, %zu, (%zu, %zu)", l->in_edge.channels, l->count, l->kernel_h, l->kernel_w);
    if (l->stride != 1)
        yk_text_print(to, ", stride=%zu", l->stride);
    if (l->pad)
        yk_text_print(to, ", padding=%zu", l->pad);
}

const yk__layer_ops yk__conv_ops = {.name = "conv",
                                    .parse = parse,
                                    .shape = shape,
                                    .prepare = prepare,
                                    .run = run,
                                    .finish = finish,
                                    .module = "Conv2d",
                                    .torch = torch,
                                    .weight_parts = WEIGHT_PARTS,
                                    .output_border = true,
                                    .weight_rank = 4};
