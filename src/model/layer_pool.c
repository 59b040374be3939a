/* Pooling: the largest or the mean of each window of N x N pixels, windows STRIDE apart (overlapping where it is smaller). */
#include "model/net.h"

#include "model/layer_words.h"
#include <string.h>

static const char *parse(yk__layer *l, int n, char **word)
{
    if (n < 1 || n > 2 || !yk__word_number(word[0], 1, YK__MOST_WINDOW, &l->kernel_h))
        return "a pooling layer needs a window size and may have a stride, as in: maxpool 3 /2";
    l->kernel_w = l->stride = l->kernel_h;
    if (n == 2 && !yk__word_stride(word[1], YK__MOST_WINDOW, &l->stride))
        return "the stride of a pool is /N, as in: maxpool 3 /2";
    return NULL;
}

static yk_status shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    if (in->height < l->kernel_h || in->width < l->kernel_w)
        return yk_fail(YK_EUSAGE, "a window of %zux%zu does not fit what arrives there, %zu x %zu x %zu",
                       l->kernel_h, l->kernel_w, in->channels, in->height, in->width);
    *out = (yk__edge){.channels = in->channels,
                      .height = (in->height - l->kernel_h) / l->stride + 1,
                      .width = (in->width - l->kernel_w) / l->stride + 1};
    return YK_OK;
}

/* One channel of one block, forward or backward. */
static yk_pool pool_of(const yk__layer *l, const yk__run *r, size_t block, size_t channel)
{
    const yk__edge *in = &l->in_edge, *out = &l->out_edge;
    const yk__strides x = yk__strides_of(in, in->border), dx = yk__strides_of(in, in->grad_border),
                      y = yk__strides_of(out, out->border), dy = yk__strides_of(out, out->grad_border);
    return (yk_pool){
        .x = r->x[l->in] + block * x.block + channel * x.channel + x.origin,
        .y = r->x[l->out] + block * y.block + channel * y.channel + y.origin,
        .dy = r->training ? r->dx[l->out] + block * dy.block + channel * dy.channel + dy.origin : NULL,
        .out = r->training ? r->dx[l->in] + block * dx.block + channel * dx.channel + dx.origin : NULL,
        .height = in->height,
        .width = in->width,
        .out_height = out->height,
        .out_width = out->width,
        .size = l->kernel_h,
        .stride = l->stride,
        .x_row = x.row,
        .y_row = y.row,
        .dx_row = dx.row,
        .dy_row = dy.row};
}

static void forward_with(const yk__layer *l, const yk__run *r, void (*pool)(const yk_pool *))
{
    size_t begin, end;
    const size_t channels = l->in_edge.channels;
    yk__part(r, r->blocks * channels, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        yk_pool p = pool_of(l, r, i / channels, i % channels);
        p.out = (float *)p.y;
        pool(&p);
    }
}

static void backward_with(const yk__layer *l, const yk__run *r, void (*pool)(const yk_pool *))
{
    size_t begin, end;
    const size_t channels = l->in_edge.channels;
    if (l->first)
        return;
    yk__part(r, r->blocks * channels, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        yk_pool p = pool_of(l, r, i / channels, i % channels);
        pool(&p);
    }
}

static void max_forward(const yk__layer *l, const yk__run *r)
{
    forward_with(l, r, r->lanes->max_pool);
}

static void max_backward(const yk__layer *l, const yk__run *r)
{
    backward_with(l, r, r->lanes->max_pool_back);
}

static void average_forward(const yk__layer *l, const yk__run *r)
{
    forward_with(l, r, r->lanes->average_pool);
}

static void average_backward(const yk__layer *l, const yk__run *r)
{
    backward_with(l, r, r->lanes->average_pool_back);
}

const yk__layer_ops yk__maxpool_ops = {.name = "maxpool",
                                       .usage = "maxpool N [/STRIDE]",
                                       .parse = parse,
                                       .shape = shape,
                                       .forward = max_forward,
                                       .backward = max_backward,
                                       .backward_reads = YK__ALL_VALUES};
const yk__layer_ops yk__avgpool_ops = {.name = "avgpool",
                                       .usage = "avgpool N [/STRIDE]",
                                       .parse = parse,
                                       .shape = shape,
                                       .forward = average_forward,
                                       .backward = average_backward};
