/* Local response normalization across channels (Krizhevsky et al. 2012), with PyTorch's convention for alpha:
 * y = x / (bias + alpha / size * sum of x^2 over size neighboring channels)^beta. */
#include "model/net.h"

#include "model/layer_args.h"

static const char *parse(yk__layer *l, int n, char **arg)
{
    l->count = 5;
    l->alpha = 1e-4f;
    l->beta = 0.75f;
    l->bias = 1.0f;
    if (n > 4 || (n > 0 && !yk__arg_count(arg[0], 1, YK__MAX_WINDOW, &l->count)) ||
        (n > 1 && !yk__arg_float(arg[1], &l->alpha)) || (n > 2 && !yk__arg_float(arg[2], &l->beta)) ||
        (n > 3 && !yk__arg_float(arg[3], &l->bias)) || l->alpha < 0.0f || !(l->bias > 0.0f))
        return "lrn takes up to four arguments, SIZE ALPHA BETA BIAS, as in: lrn 5 1e-4 0.75 1";
    return NULL;
}

/* x, y, dx and dy have the same border (equal_borders), so that one offset serves all. */
static void run(const yk__layer *l, const yk__pass *ctx, bool back)
{
    const yk__edge *in = &l->in_edge;
    size_t begin, end;
    yk__thread_range(ctx, ctx->blocks * in->height, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t at =
            i / in->height * l->x.block + (size_t)yk__offset(&l->x, 0, (int64_t)(i % in->height), 0);
        const yk_lrn p = {.x = ctx->x[l->in] + at,
                          .y = ctx->x[l->out] + at,
                          .dy = ctx->dx[l->out] + at,
                          .out = (back ? ctx->dx[l->in] : ctx->x[l->out]) + at,
                          .channels = in->channels,
                          .channel = l->x.channel,
                          .n = in->width,
                          .size = l->count,
                          .alpha = l->alpha,
                          .beta = l->beta,
                          .bias = l->bias};
        (back ? ctx->lanes->normalize_back : ctx->lanes->normalize)(&p);
    }
}

static void torch(const yk__layer *l, yk_text *to)
{
    yk_text_print(to, "%zu, alpha=%.7g, beta=%.7g, k=%.7g", l->count, (double)l->alpha, (double)l->beta,
                  (double)l->bias);
}

const yk__layer_ops yk__lrn_ops = {.name = "lrn",
                                   .parse = parse,
                                   .shape = yk__same_shape,
                                   .module = "LocalResponseNorm",
                                   .torch = torch,
                                   .run = run,
                                   .backward_reads = YK__ALL_VALUES,
                                   .equal_borders = true,
                                   .output_border = true};
