/* Pooling: the maximum or the mean of each window of N x N pixels. Windows are STRIDE apart, and overlap if that is less than N. */
#include "model/net.h"

#include "model/layer_args.h"

static const char *parse(yk__layer *l, int n, char **arg)
{
    if (n < 1 || n > 2 || !yk__arg_count(arg[0], 1, YK__MAX_WINDOW, &l->kernel_h))
        return "a pooling layer needs a window size, and optionally a stride, as in: maxpool 3 /2";
    l->kernel_w = l->stride = l->kernel_h;
    if (n == 2 && !yk__arg_stride(arg[1], YK__MAX_WINDOW, &l->stride))
        return "the stride of a pooling layer must be /N, as in: maxpool 3 /2";
    return NULL;
}

static yk_status shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    if (in->height < l->kernel_h || in->width < l->kernel_w)
        return yk_fail(YK_EUSAGE, "a window of %zux%zu is larger than its input of %zu x %zu x %zu",
                       l->kernel_h, l->kernel_w, in->channels, in->height, in->width);
    *out = (yk__edge){.channels = in->channels,
                      .height = (in->height - l->kernel_h) / l->stride + 1,
                      .width = (in->width - l->kernel_w) / l->stride + 1};
    return YK_OK;
}

/* Each pixel is in exactly one window. */
static bool tiled(const yk__layer *l)
{
    return l->kernel_h == l->stride && l->in_edge.height == l->out_edge.height * l->stride;
}

/* This thread's rows of windows. Backward, if these overlap or leave a remainder: whole channels. */
static void run(const yk__layer *l, const yk__pass *ctx, bool back)
{
    const yk__edge *in = &l->in_edge, *out = &l->out_edge;
    const size_t lines = back && !tiled(l) ? 1 : out->height, all = lines * in->channels;
    size_t begin, end;
    yk__thread_range(ctx, ctx->blocks * all, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t block = i / all, channel = i % in->channels;
        const int64_t line = (int64_t)(i % all / in->channels), first = line * (int64_t)l->stride;
        float *y = ctx->x[l->out] + block * l->y.block + yk__offset(&l->y, channel, line, 0),
              *dx = ctx->dx[l->in] + block * l->dx.block + yk__offset(&l->dx, channel, first, 0);
        const yk_pool p = {.average = l->ops->average,
                           .x = ctx->x[l->in] + block * l->x.block + yk__offset(&l->x, channel, first, 0),
                           .y = y,
                           .dy = ctx->dx[l->out] + block * l->dy.block + yk__offset(&l->dy, channel, line, 0),
                           .out = back ? dx : y,
                           .height = lines == 1 ? in->height : l->stride,
                           .width = in->width,
                           .out_height = out->height / lines,
                           .out_width = out->width,
                           .size = l->kernel_h,
                           .stride = l->stride,
                           .x_row = l->x.row,
                           .y_row = l->y.row,
                           .dx_row = l->dx.row,
                           .dy_row = l->dy.row};
        (back ? ctx->lanes->pool_back : ctx->lanes->pool)(&p);
    }
}

static void torch(const yk__layer *l, yk_text *to)
{
    yk_text_print(to, "%zu, stride=%zu", l->kernel_h, l->stride);
}

const yk__layer_ops yk__maxpool_ops = {.name = "maxpool",
                                       .module = "MaxPool2d",
                                       .parse = parse,
                                       .shape = shape,
                                       .torch = torch,
                                       .run = run,
                                       .backward_reads = YK__ALL_VALUES};
const yk__layer_ops yk__avgpool_ops = {.name = "avgpool",
                                       .module = "AvgPool2d",
                                       .parse = parse,
                                       .shape = shape,
                                       .torch = torch,
                                       .run = run,
                                       .average = true};
