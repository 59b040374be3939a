/* Reference implementation of networks, in doubles, one image at a time.
 *
 *     plain_net net;
 *     plain_net_make(&net, "conv 6 5x5 same, relu, maxpool 2, dense 10", 1, 28, 28);
 *     double loss = plain_net_loss(&net, params, x, label, p);    // params: all tensors, as in PyTorch
 *     plain_net_free(&net);
 *
 * Independent of the implementation: no blocks, no borders, no tables. Without dropout, which depends on the random numbers of the
 * implementation.
 */
#ifndef YK_TESTS_PLAIN_NET_H
#define YK_TESTS_PLAIN_NET_H

#include "scratch.h"

#include <math.h>
#include <stdbool.h>

enum { PLAIN_LAYERS = 24 };

typedef struct {
    char kind[16];
    size_t in[3], out[3]; /* channels, height, width */
    size_t height, width, stride, pad, size;
    double alpha, beta, bias;
    size_t params_at;
} plain_layer;

typedef struct {
    int n;
    plain_layer layer[PLAIN_LAYERS];
    size_t nparams, max; /* max: the largest number of values between two layers */
    double *a, *b;
} plain_net;

static inline void plain_conv_shape(plain_layer *l, const char *text)
{
    char arg[3][16] = {"", "", ""};
    int n = sscanf(text, "%*s %zu %zux%zu %15s %15s %15s", &l->out[0], &l->height, &l->width, arg[0], arg[1],
                   arg[2]);
    assert_true(n >= 3);
    l->stride = 1;
    for (int i = 0; i < 3; i++) {
        if (arg[i][0] == '/')
            l->stride = strtoul(arg[i] + 1, NULL, 10);
        if (strcmp(arg[i], "same") == 0)
            l->pad = l->height / 2;
        if (strcmp(arg[i], "pad") == 0)
            l->pad = strtoul(arg[i + 1], NULL, 10);
    }
}

/* Sets all fields of a layer from its text and l->in. */
static inline void plain_layer_make(plain_layer *l, const char *text, size_t *nparams)
{
    assert_int_equal(sscanf(text, "%15s", l->kind), 1);
    memcpy(l->out, l->in, sizeof l->out);
    const size_t inputs = l->in[0] * l->in[1] * l->in[2];
    l->params_at = *nparams;
    if (strcmp(l->kind, "conv") == 0) {
        plain_conv_shape(l, text);
        *nparams += l->out[0] * (l->in[0] * l->height * l->width + 1);
    } else if (strcmp(l->kind, "dense") == 0) {
        assert_int_equal(sscanf(text, "%*s %zu", &l->out[0]), 1);
        l->out[1] = l->out[2] = 1;
        *nparams += l->out[0] * (inputs + 1);
        return;
    } else if (strstr(l->kind, "pool")) {
        char slash;
        assert_true(sscanf(text, "%*s %zu %c%zu", &l->height, &slash, &l->stride) != 2);
        l->width = l->height;
        l->stride = l->stride ? l->stride : l->height;
    } else {
        l->size = 5, l->alpha = 1e-4, l->beta = 0.75, l->bias = 1;
        if (strcmp(l->kind, "lrn") == 0)
            sscanf(text, "%*s %zu %lf %lf %lf", &l->size, &l->alpha, &l->beta, &l->bias);
        return;
    }
    l->out[1] = (l->in[1] + 2 * l->pad - l->height) / l->stride + 1;
    l->out[2] = (l->in[2] + 2 * l->pad - l->width) / l->stride + 1;
}

static inline void plain_net_make(plain_net *net, const char *list, size_t channels, size_t height,
                                  size_t width)
{
    size_t at[3] = {channels, height, width};
    char *copy = strdup(list), *rest = NULL;
    assert_non_null(copy);
    *net = (plain_net){.max = channels * height * width};
    for (char *text = strtok_r(copy, ",", &rest); text; text = strtok_r(NULL, ",", &rest)) {
        assert_true(net->n < PLAIN_LAYERS);
        plain_layer *l = &net->layer[net->n++];
        memcpy(l->in, at, sizeof at);
        plain_layer_make(l, text, &net->nparams);
        memcpy(at, l->out, sizeof at);
        if (at[0] * at[1] * at[2] > net->max)
            net->max = at[0] * at[1] * at[2];
    }
    free(copy);
    net->a = calloc(net->max, sizeof *net->a);
    net->b = calloc(net->max, sizeof *net->b);
    assert_true(net->a && net->b);
}

static inline void plain_net_free(plain_net *net)
{
    free(net->a);
    free(net->b);
}

static inline double plain_conv(const plain_layer *l, const double *params, const double *x, size_t o,
                                size_t py, size_t px)
{
    const double *w = params + o * l->in[0] * l->height * l->width;
    double sum = params[l->out[0] * l->in[0] * l->height * l->width + o];
    for (size_t c = 0; c < l->in[0]; c++)
        for (size_t r = 0; r < l->height; r++)
            for (size_t s = 0; s < l->width; s++, w++) {
                const size_t y = py * l->stride + r, z = px * l->stride + s; /* plus the padding */
                if (y >= l->pad && y < l->in[1] + l->pad && z >= l->pad && z < l->in[2] + l->pad)
                    sum += *w * x[(c * l->in[1] + y - l->pad) * l->in[2] + z - l->pad];
            }
    return sum;
}

static inline double plain_pool(const plain_layer *l, const double *x, size_t c, size_t py, size_t px)
{
    double max = -HUGE_VAL, sum = 0;
    for (size_t r = 0; r < l->height; r++)
        for (size_t s = 0; s < l->width; s++) {
            const double v = x[(c * l->in[1] + py * l->stride + r) * l->in[2] + px * l->stride + s];
            max = fmax(max, v);
            sum += v;
        }
    return l->kind[0] == 'm' ? max : sum / (double)(l->height * l->width);
}

static inline double plain_normalized(const plain_layer *l, const double *x, size_t i)
{
    const long plane = (long)(l->in[1] * l->in[2]), c = (long)i / plane, size = (long)l->size;
    double sum = 0;
    for (long j = c - size / 2; j <= c + (size - 1) / 2; j++)
        if (j >= 0 && j < (long)l->in[0])
            sum += x[j * plane + (long)i % plane] * x[j * plane + (long)i % plane];
    return x[i] / pow(l->bias + l->alpha * sum / (double)size, l->beta);
}

static inline double plain_activation(const char *kind, double x)
{
    if (strcmp(kind, "relu") == 0)
        return fmax(0, x);
    if (strcmp(kind, "tanh") == 0)
        return tanh(x);
    if (strcmp(kind, "sigmoid") == 0)
        return 1 / (1 + exp(-x));
    assert_string_equal(kind, "flatten");
    return x;
}

static inline void plain_forward(const plain_layer *l, const double *params, const double *x, double *y)
{
    const size_t outputs = l->out[0] * l->out[1] * l->out[2], inputs = l->in[0] * l->in[1] * l->in[2];
    const size_t plane = l->out[1] * l->out[2], width = l->out[2];
    const bool conv = strcmp(l->kind, "conv") == 0, dense = strcmp(l->kind, "dense") == 0,
               pool = strstr(l->kind, "pool") != NULL, lrn = strcmp(l->kind, "lrn") == 0;
    for (size_t i = 0; i < outputs; i++) {
        if (conv) {
            y[i] = plain_conv(l, params, x, i / plane, i % plane / width, i % width);
        } else if (dense) {
            double sum = params[outputs * inputs + i];
            for (size_t j = 0; j < inputs; j++)
                sum += params[i * inputs + j] * x[j];
            y[i] = sum;
        } else {
            y[i] = pool  ? plain_pool(l, x, i / plane, i % plane / width, i % width)
                   : lrn ? plain_normalized(l, x, i)
                         : plain_activation(l->kind, x[i]);
        }
    }
}

/* The cross-entropy of one image; p, if not NULL, receives the probabilities. */
static inline double plain_net_loss(plain_net *net, const double *params, const double *x, int32_t label,
                                    double *p)
{
    double *from = net->a, *to = net->b, max = -HUGE_VAL, sum = 0;
    const size_t *in = net->layer[0].in, *out = net->layer[net->n - 1].out,
                 classes = out[0] * out[1] * out[2];
    memcpy(from, x, in[0] * in[1] * in[2] * sizeof *x);
    for (int i = 0; i < net->n; i++) {
        plain_forward(&net->layer[i], params + net->layer[i].params_at, from, to);
        double *t = from;
        from = to;
        to = t;
    }
    for (size_t c = 0; c < classes; c++)
        max = fmax(max, from[c]);
    for (size_t c = 0; c < classes; c++)
        sum += exp(from[c] - max);
    for (size_t c = 0; p && c < classes; c++)
        p[c] = exp(from[c] - max) / sum;
    return log(sum) + max - from[label];
}

#endif
