/* Local response normalisation across channels (Krizhevsky et al. 2012), with PyTorch's convention for alpha:
 * y = x / (bias + alpha / size * sum of x^2 over size neighbouring channels)^beta. */
#include "model/net.h"

#include "model/layer_words.h"
#include <string.h>

static const char *parse(yk__layer *l, int n, char **word)
{
    l->count = 5;
    l->alpha = 1e-4f;
    l->beta = 0.75f;
    l->bias = 1.0f;
    if (n > 4 || (n > 0 && !yk__word_number(word[0], 1, YK__MOST_WINDOW, &l->count)) ||
        (n > 1 && !yk__word_real(word[1], &l->alpha)) || (n > 2 && !yk__word_real(word[2], &l->beta)) ||
        (n > 3 && !yk__word_real(word[3], &l->bias)) || l->alpha < 0.0f || !(l->bias > 0.0f))
        return "lrn may have SIZE ALPHA BETA BIAS, as in: lrn 5 1e-4 0.75 1";
    return NULL;
}

static yk_status shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    (void)l;
    *out = (yk__edge){.channels = in->channels, .height = in->height, .width = in->width};
    return YK_OK;
}

/* All four arrays have the same border (net.c sees to it), so that one offset serves all. */
static void forward(const yk__layer *l, const yk__run *r)
{
    const yk__edge *in = &l->in_edge;
    const yk__strides s = yk__strides_of(in, in->border);
    size_t begin, end;
    yk__part(r, r->blocks * in->height, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t at = i / in->height * s.block + (size_t)yk__offset(&s, 0, (int64_t)(i % in->height), 0);
        r->lanes->normalise(r->x[l->in] + at, r->x[l->out] + at, in->channels, s.channel, in->width, l->count,
                            l->alpha, l->beta, l->bias);
    }
}

static void backward(const yk__layer *l, const yk__run *r)
{
    const yk__edge *in = &l->in_edge;
    const yk__strides s = yk__strides_of(in, in->border);
    size_t begin, end;
    if (l->first)
        return;
    yk__part(r, r->blocks * in->height, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t at = i / in->height * s.block + (size_t)yk__offset(&s, 0, (int64_t)(i % in->height), 0);
        r->lanes->normalise_back(r->x[l->in] + at, r->x[l->out] + at, r->dx[l->out] + at, r->dx[l->in] + at,
                                 in->channels, s.channel, in->width, l->count, l->alpha, l->beta, l->bias);
    }
}

const yk__layer_ops yk__lrn_ops = {.name = "lrn",
                                   .usage = "lrn [SIZE [ALPHA [BETA [BIAS]]]]",
                                   .parse = parse,
                                   .shape = shape,
                                   .forward = forward,
                                   .backward = backward,
                                   .backward_reads = YK__ALL_VALUES,
                                   .equal_borders = true,
                                   .output_border = true};
