/* Elementwise layers, in place where possible (net_parse.c decides): relu, tanh, sigmoid, dropout and flatten. Flatten only
 * removes the border of the last layer: dense layers accept any shape. */
#include "model/net.h"

#include "model/layer_args.h"
#include <string.h>

static const char *no_args(yk__layer *l, int n, char **arg)
{
    (void)l, (void)arg;
    return n ? "this layer has no arguments" : NULL;
}

/* Changes a row of n values in place: of y forward, of dx backward. y: the output of the layer; first: index of the first value in
 * the chunk. A hash of its index decides whether a value is dropped, so that backward drops the same values without a stored
 * mask. */
static void change_row(const yk__layer *l, const yk__pass *ctx, bool back, const float *y, float *row,
                       size_t n, uint64_t first)
{
    if (l->ops->elementwise == YK__DROPOUT)
        ctx->lanes->dropout(row, n, l->rate, yk_mix64(ctx->noise + (uint64_t)l->stream), first);
    else if (back)
        ctx->lanes->activate_back(l->ops->activation, y, row, n);
    else
        ctx->lanes->activate(l->ops->activation, row, n);
}

/* Changes each row of this thread. If the layer does not work in place, copies x or dy there first. Does not touch the
 * border. */
static void each_row(const yk__layer *l, const yk__pass *ctx, bool back)
{
    const yk__edge *e = &l->in_edge;
    const yk__strides *to = back ? &l->dx : &l->y, *from = back ? &l->dy : &l->x;
    const float *source = back ? ctx->dx[l->out] : ctx->x[l->in];
    float *target = back ? ctx->dx[l->in] : ctx->x[l->out];
    const size_t rows = e->channels * e->height, n = e->width * YK_LANES;
    const bool change =
        l->ops->elementwise == YK__ACTIVATION || (l->ops->elementwise == YK__DROPOUT && ctx->training);
    size_t begin, end;
    if (!change && l->in == l->out)
        return;
    yk__thread_range(ctx, ctx->blocks * rows, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t block = i / rows, c = i % e->channels;
        const int64_t line = (int64_t)(i % rows / e->channels);
        float *row = target + block * to->block + yk__offset(to, c, line, 0);
        if (l->in != l->out)
            memcpy(row, source + block * from->block + yk__offset(from, c, line, 0), n * sizeof *row);
        if (change)
            change_row(l, ctx, back, ctx->x[l->out] + block * l->y.block + yk__offset(&l->y, c, line, 0), row,
                       n, ((ctx->in_chunk + block) * rows + c * e->height + (size_t)line) * n);
    }
}

static const char *parse_dropout(yk__layer *l, int n, char **arg)
{
    l->rate = 0.5f;
    if (n > 1 || (n == 1 && (!yk__arg_float(arg[0], &l->rate) || !(l->rate >= 0.0f && l->rate < 1.0f))))
        return "the dropout rate must be at least 0 and below 1, as in: dropout 0.5";
    return NULL;
}

static void torch_dropout(const yk__layer *l, yk_text *to)
{
    yk_text_print(to, "%.7g", (double)l->rate);
}

#define ELEMENTWISE .shape = yk__same_shape, .run = each_row

/* name, module of PyTorch, function, what backward() reads, what working in place preserves */
#define ACTIVATION(NAME, MODULE, FUNCTION, READS, PRESERVES)                                                 \
    {                                                                                                        \
        ELEMENTWISE, .parse = no_args, .elementwise = YK__ACTIVATION, .name = NAME, .module = MODULE,        \
                     .activation = FUNCTION, .backward_reads = READS, .preserves = PRESERVES                 \
    }

/* Where relu outputs 0 the gradient is 0, so that overwriting the value loses nothing. tanh preserves the sign, which is what
 * relu reads; so does dropout where the gradient is not 0. */
const yk__layer_ops yk__relu_ops = ACTIVATION("relu", "ReLU", YK_RELU, YK__SIGNS, YK__ALL_VALUES),
                    yk__tanh_ops = ACTIVATION("tanh", "Tanh", YK_TANH, YK__ALL_VALUES, YK__SIGNS),
                    yk__sigmoid_ops =
                        ACTIVATION("sigmoid", "Sigmoid", YK_SIGMOID, YK__ALL_VALUES, YK__NO_VALUES);
const yk__layer_ops yk__dropout_ops = {ELEMENTWISE,
                                       .name = "dropout",
                                       .module = "Dropout",
                                       .torch = torch_dropout,
                                       .parse = parse_dropout,
                                       .elementwise = YK__DROPOUT,
                                       .preserves = YK__SIGNS};
const yk__layer_ops yk__flatten_ops = {
    ELEMENTWISE,        .name = "flatten",       .module = "Flatten",
    .parse = no_args,   .elementwise = YK__COPY, .preserves = YK__ALL_VALUES,
    .flat_output = true};
