/* Layers that work number by number, in place where they may (net_parse.c decides): relu, tanh, sigmoid, dropout; and
 * flatten, which does nothing in a list, since dense layers take any shape, and takes the border off at the end of one. */
#include "model/net.h"

#include "model/layer_words.h"
#include <string.h>

static const char *no_words(yk__layer *l, int n, char **word)
{
    (void)l, (void)word;
    return n ? "nothing may follow this layer's name" : NULL;
}

static yk_status same_shape(yk__layer *l, yk__edge *in, yk__edge *out)
{
    (void)l;
    *out = (yk__edge){.channels = in->channels, .height = in->height, .width = in->width};
    return YK_OK;
}

/* Changes a row of n numbers, of which `first` is the place of the first; y is the layer's result, for going back. */
typedef void (*row_function)(const yk__layer *l, const yk__run *r, const float *y, float *row, size_t n,
                             uint64_t first);

/* Calls with every row that is this thread's, of y going forward and of dx going back; where the layer has an edge of its own,
 * after bringing x or dy there. The border is left alone. */
static void each_row(const yk__layer *l, const yk__run *r, bool back, row_function work)
{
    const yk__edge *e = &l->in_edge, *o = &l->out_edge;
    const yk__strides y = yk__strides_of(o, o->border), to = back ? yk__strides_of(e, e->grad_border) : y,
                      from = back ? yk__strides_of(o, o->grad_border) : yk__strides_of(e, e->border);
    const float *source = back ? r->dx[l->out] : r->x[l->in];
    float *target = back ? r->dx[l->in] : r->x[l->out];
    const size_t rows = e->channels * e->height, n = e->width * YK_LANES;
    size_t begin, end;
    yk__part(r, r->blocks * rows, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const size_t block = i / rows, c = i % rows / e->height;
        const int64_t line = (int64_t)(i % e->height);
        float *row = target + block * to.block + yk__offset(&to, c, line, 0);
        if (l->in != l->out)
            memcpy(row, source + block * from.block + yk__offset(&from, c, line, 0), n * sizeof *row);
        work(l, r, r->x[l->out] + block * y.block + yk__offset(&y, c, line, 0), row, n, i * n);
    }
}

static void activate_row(const yk__layer *l, const yk__run *r, const float *y, float *row, size_t n,
                         uint64_t first)
{
    (void)y, (void)first;
    r->lanes->activate(l->activation, row, n);
}

static void activate_row_back(const yk__layer *l, const yk__run *r, const float *y, float *row, size_t n,
                              uint64_t first)
{
    (void)first;
    r->lanes->activate_back(l->activation, y, row, n);
}

static void forward(const yk__layer *l, const yk__run *r)
{
    each_row(l, r, false, activate_row);
}

static void backward(const yk__layer *l, const yk__run *r)
{
    if (!l->first)
        each_row(l, r, true, activate_row_back);
}

static const char *parse_relu(yk__layer *l, int n, char **word)
{
    l->activation = YK_RELU;
    return no_words(l, n, word);
}

static const char *parse_tanh(yk__layer *l, int n, char **word)
{
    l->activation = YK_TANH;
    return no_words(l, n, word);
}

static const char *parse_sigmoid(yk__layer *l, int n, char **word)
{
    l->activation = YK_SIGMOID;
    return no_words(l, n, word);
}

static const char *parse_dropout(yk__layer *l, int n, char **word)
{
    l->rate = 0.5f;
    if (n > 1 || (n == 1 && (!yk__word_real(word[0], &l->rate) || !(l->rate >= 0.0f && l->rate < 1.0f))))
        return "dropout may have the share of what is dropped, 0 to 1, as in: dropout 0.5";
    return NULL;
}

/* The same numbers are dropped going back: what is dropped is a hash of the number's place, so nothing is stored. */
static void drop_row(const yk__layer *l, const yk__run *r, const float *y, float *row, size_t n,
                     uint64_t first)
{
    (void)y;
    r->lanes->dropout(row, n, l->rate, yk_mix64(r->noise + (uint64_t)l->number), first);
}

static void keep_row(const yk__layer *l, const yk__run *r, const float *y, float *row, size_t n,
                     uint64_t first)
{
    (void)l, (void)r, (void)y, (void)row, (void)n, (void)first;
}

static void drop(const yk__layer *l, const yk__run *r)
{
    if (r->training || l->in != l->out)
        each_row(l, r, false, r->training ? drop_row : keep_row);
}

static void drop_back(const yk__layer *l, const yk__run *r)
{
    if (!l->first)
        each_row(l, r, true, drop_row);
}

static void flatten(const yk__layer *l, const yk__run *r)
{
    if (l->in != l->out)
        each_row(l, r, false, keep_row);
}

static void flatten_back(const yk__layer *l, const yk__run *r)
{
    if (l->in != l->out && !l->first)
        each_row(l, r, true, keep_row);
}

/* Where relu outputs 0 the gradient is 0, so overwriting the value loses nothing. tanh keeps the sign, which is what
 * relu reads; so does dropout where the gradient is not 0. */
const yk__layer_ops yk__relu_ops = {.name = "relu",
                                    .usage = "relu",
                                    .parse = parse_relu,
                                    .shape = same_shape,
                                    .forward = forward,
                                    .backward = backward,
                                    .backward_reads = YK__SIGNS,
                                    .elementwise = true,
                                    .preserves = YK__ALL_VALUES};
const yk__layer_ops yk__tanh_ops = {.name = "tanh",
                                    .usage = "tanh",
                                    .parse = parse_tanh,
                                    .shape = same_shape,
                                    .forward = forward,
                                    .backward = backward,
                                    .backward_reads = YK__ALL_VALUES,
                                    .elementwise = true,
                                    .preserves = YK__SIGNS};
const yk__layer_ops yk__sigmoid_ops = {.name = "sigmoid",
                                       .usage = "sigmoid",
                                       .parse = parse_sigmoid,
                                       .shape = same_shape,
                                       .forward = forward,
                                       .backward = backward,
                                       .backward_reads = YK__ALL_VALUES,
                                       .elementwise = true,
                                       .preserves = YK__NO_VALUES};
const yk__layer_ops yk__dropout_ops = {.name = "dropout",
                                       .usage = "dropout [RATE]",
                                       .parse = parse_dropout,
                                       .shape = same_shape,
                                       .forward = drop,
                                       .backward = drop_back,
                                       .elementwise = true,
                                       .preserves = YK__SIGNS};
const yk__layer_ops yk__flatten_ops = {.name = "flatten",
                                       .usage = "flatten",
                                       .parse = no_words,
                                       .shape = same_shape,
                                       .forward = flatten,
                                       .backward = flatten_back,
                                       .elementwise = true,
                                       .preserves = YK__ALL_VALUES,
                                       .flat_output = true};
