/* Dense: y(o) = b(o) + sum over i of w(o, i) x(i), x flattened in the order channel, row, column (as by PyTorch's Flatten).
 *
 * All three products use block.h. Forward, the lanes are images, as everywhere. For the gradients the lanes are inputs, so that
 * weights and their gradients are vectors and are read once: x and dy are transposed first (xt, dxt: a row per image; dyt: images
 * side by side).
 *
 *     dw(o, i)  = sum over images n of dy(o, n) xt(n, i)
 *     dxt(n, i) = sum over outputs o of dyt(o, n) w(o, i)          whole vectors; for the last few inputs, the lanes are images
 *
 * Weights [out][in].
 */
#include "model/net.h"

#include "base/mem.h"
#include "model/layer_args.h"
#include <string.h>

enum { LARGE = 1 << 18 }; /* weights; more do not fit into a cache */

typedef struct {
    size_t inputs, padded;            /* padded: rounded up to whole vectors */
    int32_t *in_k, *dx_k;             /* [inputs] of x; of dx */
    int32_t *out_k, *wo_k;            /* [outputs] of dy; o * inputs */
    int32_t *x_p, *y_p, *dx_p, *dy_p; /* [blocks] */
    int32_t *n_xt;                    /* [images] */
    int32_t *dyt_k;                   /* [outputs] */
    int32_t *count;                   /* 0, 1, 2 ...: of w, and of images in dyt */
    int32_t *vector;                  /* 0, 16, 32 ...: of w, xt, dxt, and of blocks in dyt */
    size_t images;                    /* of a chunk or wave */
    float *xt;                        /* [images][padded]; also dxt */
    float *dyt;                       /* [outputs][images] */
    float *tail;                      /* [outputs][16]: the last, partial vector of a row of dw */
} tables;

static const char *parse(yk__layer *l, int n, char **arg)
{
    if (n != 1 || !yk__arg_count(arg[0], 1, YK__MAX_OUTPUTS, &l->count))
        return "dense needs the number of outputs, as in: dense 120";
    return NULL;
}

static yk_status shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    *out = (yk__edge){.channels = l->count, .height = 1, .width = 1};
    l->fan_in = yk__edge_size(in);
    l->fan_out = l->count;
    l->weights = l->count * l->fan_in;
    l->biases = l->count;
    l->flops = 2.0 * (double)l->weights;
    l->workspace_block = YK_LANES * (YK_ROUND_UP(l->fan_in, YK_LANES) + l->count);
    l->workspace_more = YK_LANES * l->count;
    if (l->weights >= INT32_MAX)
        return yk_fail(YK_EUSAGE, "dense %zu after %zu inputs would have %zu weights; at most %d", l->count,
                       l->fan_in, l->weights, INT32_MAX);
    return YK_OK;
}

/* from, from + step, ... */
static int32_t *multiples(yk_arena *memory, size_t n, size_t from, size_t step)
{
    int32_t *table = yk_arena_alloc(memory, n, sizeof *table, "a layer's tables");
    for (size_t i = 0; table && i < n; i++)
        table[i] = (int32_t)(from + i * step);
    return table;
}

/* The offsets of all values of an edge. */
static int32_t *values_of(yk_arena *memory, const yk__edge *e, const yk__strides *s)
{
    int32_t *table = multiples(memory, yk__edge_size(e), 0, 0), *at = table;
    for (size_t c = 0; table && c < e->channels; c++)
        for (size_t y = 0; y < e->height; y++)
            for (size_t x = 0; x < e->width; x++)
                *at++ = yk__offset(s, c, (int64_t)y, (int64_t)x);
    return table;
}

static yk_status prepare(yk__layer *l, size_t blocks, yk_arena *memory)
{
    const size_t n = l->fan_in, padded = YK_ROUND_UP(n, YK_LANES),
                 images = (l->wave ? l->wave : blocks) * YK_LANES, longest = n > images ? n : images;
    /* offsets are 32 bits wide */
    const size_t max = INT32_MAX / (blocks ? blocks : 1);
    if (l->x.block > max || l->dx.block > max || l->y.block > max || l->dy.block > max ||
        padded > INT32_MAX / images)
        return yk_fail(YK_EUSAGE,
                       "layer %d, %s: %zu inputs are too many for this batch size: use a smaller --batch",
                       l->number, l->text, n);
    tables *t = l->tables = yk_arena_alloc(memory, 1, sizeof *t, "a layer's tables");
    if (!t)
        return YK_ESYSTEM;
    *t = (tables){.inputs = n,
                  .padded = padded,
                  .in_k = values_of(memory, &l->in_edge, &l->x),
                  .dx_k = values_of(memory, &l->in_edge, &l->dx),
                  .out_k = multiples(memory, l->count, l->dy.origin, l->dy.channel),
                  .wo_k = multiples(memory, l->count, 0, n),
                  .x_p = multiples(memory, blocks, 0, l->x.block),
                  .y_p = multiples(memory, blocks, l->y.origin, l->y.block),
                  .dx_p = multiples(memory, blocks, 0, l->dx.block),
                  .dy_p = multiples(memory, blocks, 0, l->dy.block),
                  .n_xt = multiples(memory, images, 0, padded),
                  .dyt_k = multiples(memory, l->count, 0, images),
                  .count = multiples(memory, longest, 0, 1),
                  .vector = multiples(memory, longest / YK_LANES + 1, 0, YK_LANES),
                  .images = images,
                  .xt = l->workspace};
    t->dyt = t->xt + images * padded;
    t->tail = t->dyt + images * l->count;
    return YK_OK;
}

static void forward(const yk__layer *l, const yk__pass *ctx)
{
    const tables *t = l->tables;
    yk_block_mul w = {.k = t->inputs,
                      .a = ctx->params + l->weights_offset,
                      .a_m = (int64_t)t->inputs,
                      .a_k = t->count,
                      .b = ctx->x[l->in],
                      .b_p = t->x_p,
                      .b_k = t->in_k,
                      .c = ctx->x[l->out],
                      .c_m = (int64_t)l->y.channel,
                      .c_p = t->y_p,
                      .bias = ctx->params + l->biases_offset};
    size_t begin, end;
    yk__thread_range(ctx, l->count, 6, &begin, &end);
    if (begin < end)
        ctx->block->mul(&w, begin, end, 0, ctx->blocks);
}

static float *xt_of(const tables *t, size_t block)
{
    return t->xt + block * YK_LANES * t->padded;
}

/* xt from x, for inputs begin .. end. */
static void transpose_x(const yk__layer *l, const yk__pass *ctx, size_t begin, size_t end)
{
    const tables *t = l->tables;
    for (size_t b = 0; b < ctx->blocks; b++) {
        const float *x = ctx->x[l->in] + t->x_p[b];
        float *to = xt_of(t, ctx->in_wave + b);
        for (size_t i = begin; i < end; i++)
            for (size_t lane = 0; lane < YK_LANES; lane++)
                to[lane * t->padded + i] = x[t->in_k[i] + (int32_t)lane];
    }
}

/* xt from x and dyt from dy, for the inputs and outputs of this thread. */
static void transpose(const yk__layer *l, const yk__pass *ctx)
{
    const tables *t = l->tables;
    size_t begin, end;
    yk__thread_range(ctx, t->inputs, YK_LANES, &begin, &end);
    if (l->no_input_gradient || !l->wave) /* otherwise xt is written after dxt */
        transpose_x(l, ctx, begin, end);
    yk__thread_range(ctx, l->count, 1, &begin, &end);
    for (size_t o = begin; o < end; o++)
        for (size_t b = 0; b < ctx->blocks; b++)
            memcpy(t->dyt + t->dyt_k[o] + (ctx->in_wave + b) * YK_LANES,
                   ctx->dx[l->out] + t->dy_p[b] + t->out_k[o], YK_LANES * sizeof(float));
}

/* dw of `blocks` blocks from block `first`, for the inputs of whole vectors. */
static yk_block_mul gradient_of(const yk__layer *l, const yk__pass *ctx, size_t first, size_t blocks)
{
    const tables *t = l->tables;
    return (yk_block_mul){.k = blocks * YK_LANES,
                          .a = t->dyt + first * YK_LANES,
                          .a_m = (int64_t)t->images,
                          .a_k = t->count,
                          .b = xt_of(t, first),
                          .b_p = t->vector,
                          .b_k = t->n_xt,
                          .c = ctx->grad + l->weights_offset,
                          .c_m = (int64_t)t->inputs,
                          .c_p = t->vector,
                          .add = !ctx->first_chunk};
}

/* The gradient of the last inputs, which do not fill a vector, for outputs begin .. end. w: that of whole vectors. */
static void add_tail(const yk__layer *l, const yk__pass *ctx, yk_block_mul w, size_t begin, size_t end)
{
    const tables *t = l->tables;
    const size_t whole = t->inputs / YK_LANES, rest = t->inputs % YK_LANES;
    const bool add = w.add;
    w.b_p += whole;
    w.c = t->tail;
    w.c_m = YK_LANES;
    w.add = false;
    ctx->block->mul(&w, begin, end, 0, 1);
    for (size_t o = begin; o < end; o++)
        for (size_t i = 0; i < rest; i++) {
            float *g = ctx->grad + l->weights_offset + o * t->inputs + whole * YK_LANES + i;
            *g = add ? *g + t->tail[o * YK_LANES + i] : t->tail[o * YK_LANES + i];
        }
}

/* The last inputs, and the biases, for outputs begin .. end: sums of chunks. */
static void finish_rows(const yk__layer *l, const yk__pass *ctx, size_t begin, size_t end)
{
    const tables *t = l->tables;
    if (ctx->first_chunk)
        memset(ctx->grad + l->biases_offset + begin, 0, (end - begin) * sizeof *ctx->grad);
    for (size_t b = 0; b < ctx->blocks && begin < end; b += l->chunk) {
        const size_t blocks = ctx->blocks - b < l->chunk ? ctx->blocks - b : l->chunk;
        yk_block_mul w = gradient_of(l, ctx, b, blocks);
        w.add |= b > 0;
        if (t->inputs % YK_LANES)
            add_tail(l, ctx, w, begin, end);
        const yk_block_outer y = {.p = blocks, .y = w.a, .y_m = w.a_m, .y_p = t->vector};
        ctx->block->sum(&y, begin, end, ctx->grad + l->biases_offset);
    }
}

/* Whole vectors of inputs, in tiles of 6 outputs by 4 vectors. By blocks, each sum adds the images of the wave in order, as it
 * does chunk by chunk. */
static void finish_vectors(const yk__layer *l, const yk__pass *ctx)
{
    enum { OUTPUTS = 6, VECTORS = 4 };
    const yk_block_mul w = gradient_of(l, ctx, 0, ctx->blocks);
    const size_t whole = l->fan_in / YK_LANES, rows = (l->count + OUTPUTS - 1) / OUTPUTS,
                 columns = (whole + VECTORS - 1) / VECTORS;
    size_t begin, end;
    yk__thread_range(ctx, rows * columns, 1, &begin, &end);
    for (size_t next; begin < end; begin = next) { /* the tiles of one column */
        const size_t column = begin / rows, row = begin % rows;
        next = (column + 1) * rows < end ? (column + 1) * rows : end;
        const size_t o_end = (row + next - begin) * OUTPUTS, v_end = (column + 1) * VECTORS;
        ctx->block->mul(&w, row * OUTPUTS, o_end < l->count ? o_end : l->count, column * VECTORS,
                        v_end < whole ? v_end : whole);
    }
}

/* dw and db, of a chunk or of a wave. */
static void weight_gradient(const yk__layer *l, const yk__pass *ctx)
{
    size_t begin, end;
    finish_vectors(l, ctx);
    yk__thread_range(ctx, l->count, 6, &begin, &end);
    finish_rows(l, ctx, begin, end);
}

/* dxt, and from it dx, for the inputs of this thread. */
static void input_gradient(const yk__layer *l, const yk__pass *ctx)
{
    const tables *t = l->tables;
    const yk_block_mul w = {.k = l->count,
                            .a = t->dyt + ctx->in_wave * YK_LANES,
                            .a_m = 1,
                            .a_k = t->dyt_k,
                            .b = ctx->params + l->weights_offset,
                            .b_p = t->vector,
                            .b_k = t->wo_k,
                            .c = xt_of(t, ctx->in_wave),
                            .c_m = (int64_t)t->padded,
                            .c_p = t->vector,
                            .uncached = l->weights > LARGE};
    size_t begin, end;
    yk__thread_range(ctx, t->inputs / YK_LANES, 4, &begin, &end);
    ctx->block->mul(&w, 0, ctx->blocks * YK_LANES, begin, end);
    for (size_t b = 0; b < ctx->blocks; b++) {
        const float *from = xt_of(t, ctx->in_wave + b);
        float *dx = ctx->dx[l->in] + t->dx_p[b];
        for (size_t i = begin * YK_LANES; i < end * YK_LANES; i++)
            for (size_t lane = 0; lane < YK_LANES; lane++)
                dx[t->dx_k[i] + (int32_t)lane] = from[lane * t->padded + i];
    }
    if (l->wave)
        transpose_x(l, ctx, begin * YK_LANES, end * YK_LANES);
}

/* The same for the last inputs, which do not fill a vector. */
static void last_input_gradient(const yk__layer *l, const yk__pass *ctx)
{
    const tables *t = l->tables;
    static const int32_t here[1] = {0};
    for (size_t i = t->inputs / YK_LANES * YK_LANES; i < t->inputs && ctx->thread == 0; i++)
        for (size_t b = 0; b < ctx->blocks; b++) {
            const yk_block_mul w = {.k = l->count,
                                    .a = ctx->params + l->weights_offset + i,
                                    .a_k = t->wo_k,
                                    .b = ctx->dx[l->out] + t->dy_p[b],
                                    .b_p = here,
                                    .b_k = t->out_k,
                                    .c = ctx->dx[l->in] + t->dx_p[b] + t->dx_k[i],
                                    .c_p = here};
            ctx->block->mul(&w, 0, 1, 0, 1);
        }
    if (l->wave && ctx->thread == 0)
        transpose_x(l, ctx, t->inputs / YK_LANES * YK_LANES, t->inputs);
}

enum { TRANSPOSE, WEIGHTS, WEIGHT_PARTS };

static void run(const yk__layer *l, const yk__pass *ctx, bool back)
{
    if (!back)
        forward(l, ctx);
    else if (ctx->part == TRANSPOSE)
        transpose(l, ctx);
    else if (ctx->part == WEIGHTS && !l->wave)
        weight_gradient(l, ctx);
    else if (ctx->part != WEIGHTS) { /* dxt overwrites xt */
        input_gradient(l, ctx);
        last_input_gradient(l, ctx);
    }
}

static void torch(const yk__layer *l, yk_text *to)
{
    yk_text_print(to, "%zu, %zu", l->fan_in, l->count);
}

const yk__layer_ops yk__dense_ops = {.name = "dense",
                                     .parse = parse,
                                     .shape = shape,
                                     .prepare = prepare,
                                     .run = run,
                                     .finish = weight_gradient,
                                     .module = "Linear",
                                     .torch = torch,
                                     .weight_parts = WEIGHT_PARTS,
                                     .weight_rank = 2};
