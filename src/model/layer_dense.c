/* Dense: y(o) = b(o) + sum over i of w(o, i) x(i), x flattened in the order channel, row, column (as PyTorch's Flatten).
 *
 * All three products run through block.h. Going forward lanes are images, as everywhere. Gradients are made with inputs in
 * the lanes, so that weights and their gradients are vectors and are gone through once: x and dy are turned round first
 * (xt, dxt: a row per image; dyt: images side by side).
 *
 *     dw(o, i)  = sum over images n of dy(o, n) xt(n, i)
 *     dxt(n, i) = sum over outputs o of dyt(o, n) w(o, i)          whole vectors; the last few inputs with images in the lanes
 *
 * Weights [out][in].
 */
#include "model/net.h"

#include "base/mem.h"
#include "model/layer_words.h"
#include <string.h>

enum { FAR = 1 << 18 }; /* more weights than a cache has room for */

typedef struct {
    size_t inputs, padded;            /* padded: to a whole vector */
    int32_t *in_k, *dx_k, *w_k;       /* [inputs] of x; of dx; 0, 1, 2 ... */
    int32_t *out_k, *wo_k;            /* [outputs] of dy; o * inputs */
    int32_t *x_p, *y_p, *dx_p, *dy_p; /* [blocks] */
    int32_t *n_dy, *n_xt;             /* [images] */
    int32_t *v_p;                     /* [padded / 16] */
    int32_t *dyt_k;                   /* [outputs] */
    size_t images;                    /* that fit */
    float *xt;                        /* [images][padded]; also dxt */
    float *dyt;                       /* [outputs][images] */
    float *tail;                      /* [outputs][16]: the last, partial vector of a row of dw */
} tables;

static const char *parse(yk__layer *l, int n, char **word)
{
    if (n != 1 || !yk__word_number(word[0], 1, YK__MOST_OUTPUTS, &l->count))
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

static void free_layer(yk__layer *l)
{
    tables *t = l->plan;
    if (!t)
        return;
    void *all[] = {t->in_k, t->w_k,  t->out_k, t->wo_k, t->x_p,   t->y_p, t->dx_p,
                   t->dy_p, t->n_dy, t->n_xt,  t->v_p,  t->dyt_k, t->dx_k};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        yk_free(all[i]);
    yk_free(t);
    l->plan = NULL;
}

static yk_status plan(yk__layer *l, size_t max_blocks)
{
    const yk__edge *in = &l->in_edge, *out = &l->out_edge;
    const yk__strides x = yk__strides_of(in, in->border), dx = yk__strides_of(in, in->grad_border),
                      y = yk__strides_of(out, out->border), dy = yk__strides_of(out, out->grad_border);
    const size_t images = max_blocks * YK_LANES, n = yk__edge_size(in);
    /* offsets are 32 bits wide */
    const size_t most = INT32_MAX / (max_blocks ? max_blocks : 1);
    if (x.block > most || dx.block > most || y.block > most || dy.block > most ||
        YK_ROUND_UP(n, YK_LANES) * YK_LANES > most)
        return yk_fail(
            YK_EUSAGE,
            "layer %d, %s: %zu inputs are too many for batches of this size: say a smaller --batch",
            l->number, l->text, n);
    tables *t = yk_alloc(1, sizeof *t, "a layer's tables");
    if (!t)
        return YK_ESYSTEM;
    l->plan = t;
    t->inputs = n;
    t->padded = YK_ROUND_UP(n, YK_LANES);
    struct {
        int32_t **to;
        size_t n;
    } want[] = {
        {&t->in_k, n},         {&t->w_k, n},          {&t->out_k, l->count},           {&t->wo_k, l->count},
        {&t->x_p, max_blocks}, {&t->y_p, max_blocks}, {&t->dx_p, max_blocks},          {&t->dy_p, max_blocks},
        {&t->n_dy, images},    {&t->n_xt, images},    {&t->v_p, t->padded / YK_LANES}, {&t->dyt_k, l->count},
        {&t->dx_k, n}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!(*want[i].to = yk_alloc(want[i].n, sizeof(int32_t), "a layer's tables")))
            return YK_ESYSTEM;
    t->images = images;
    t->xt = l->workspace;
    t->dyt = t->xt + images * t->padded;
    t->tail = t->dyt + images * l->count;
    for (size_t i = 0; i < n; i++) {
        const size_t plane = in->height * in->width;
        t->in_k[i] = yk__offset(&x, i / plane, (int64_t)(i % plane / in->width), (int64_t)(i % in->width));
        t->dx_k[i] = yk__offset(&dx, i / plane, (int64_t)(i % plane / in->width), (int64_t)(i % in->width));
        t->w_k[i] = (int32_t)i;
    }
    for (size_t o = 0; o < l->count; o++) {
        t->out_k[o] = yk__offset(&dy, o, 0, 0);
        t->wo_k[o] = (int32_t)(o * n);
        t->dyt_k[o] = (int32_t)(o * images);
    }
    for (size_t b = 0; b < max_blocks; b++) {
        t->x_p[b] = (int32_t)(b * x.block);
        t->y_p[b] = (int32_t)(b * y.block + y.origin);
        t->dx_p[b] = (int32_t)(b * dx.block);
        t->dy_p[b] = (int32_t)(b * dy.block);
    }
    for (size_t i = 0; i < images; i++) {
        t->n_dy[i] = (int32_t)(i / YK_LANES * dy.block + dy.origin + i % YK_LANES);
        t->n_xt[i] = (int32_t)(i * t->padded);
    }
    for (size_t v = 0; v < t->padded / YK_LANES; v++)
        t->v_p[v] = (int32_t)(v * YK_LANES);
    return YK_OK;
}

static void forward(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides y = yk__strides_of(&l->out_edge, l->out_edge.border);
    yk_block_mul w = {.k = t->inputs,
                      .a = r->params + l->weights_at,
                      .a_m = (int64_t)t->inputs,
                      .a_k = t->w_k,
                      .b = r->x[l->in],
                      .b_p = t->x_p,
                      .b_k = t->in_k,
                      .c = r->x[l->out],
                      .c_m = (int64_t)y.channel,
                      .c_p = t->y_p,
                      .bias = r->params + l->biases_at};
    size_t begin, end;
    yk__part(r, l->count, 6, &begin, &end);
    if (begin < end)
        r->block->mul(&w, begin, end, 0, r->blocks);
}

/* xt(n, i) from x, and dyt(o, n) from dy; this thread's inputs and outputs. */
static void turn(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    size_t begin, end;
    yk__part(r, t->inputs, YK_LANES, &begin, &end);
    for (size_t b = 0; b < r->blocks; b++) {
        const float *x = r->x[l->in] + t->x_p[b];
        float *to = t->xt + b * YK_LANES * t->padded;
        for (size_t i = begin; i < end; i++)
            for (size_t lane = 0; lane < YK_LANES; lane++)
                to[lane * t->padded + i] = x[t->in_k[i] + (int32_t)lane];
    }
    if (l->first)
        return;
    yk__part(r, l->count, 1, &begin, &end);
    for (size_t o = begin; o < end; o++)
        for (size_t b = 0; b < r->blocks; b++)
            memcpy(t->dyt + t->dyt_k[o] + b * YK_LANES, r->dx[l->out] + t->dy_p[b] + t->out_k[o],
                   YK_LANES * sizeof(float));
}

static void add_to(const yk__run *r, size_t parameter, float value)
{
    r->grad[parameter] = r->fresh ? value : r->grad[parameter] + value;
}

static void weight_gradient(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk__strides dy = yk__strides_of(&l->out_edge, l->out_edge.grad_border);
    const size_t whole = t->inputs / YK_LANES, rest = t->inputs % YK_LANES;
    yk_block_mul w = {.k = r->blocks * YK_LANES,
                      .a = r->dx[l->out],
                      .a_m = (int64_t)dy.channel,
                      .a_k = t->n_dy,
                      .b = t->xt,
                      .b_p = t->v_p,
                      .b_k = t->n_xt,
                      .c = r->grad + l->weights_at,
                      .c_m = (int64_t)t->inputs,
                      .c_p = t->v_p,
                      .add = !r->fresh};
    size_t begin, end;
    yk__part(r, l->count, 6, &begin, &end);
    if (begin >= end)
        return;
    r->block->mul(&w, begin, end, 0, whole);
    if (rest) {
        static const int32_t here[1] = {0};
        w.b_p = t->v_p + whole;
        w.c = t->tail;
        w.c_m = YK_LANES;
        w.c_p = here;
        w.add = false;
        r->block->mul(&w, begin, end, 0, 1);
        for (size_t o = begin; o < end; o++)
            for (size_t i = 0; i < rest; i++)
                add_to(r, l->weights_at + o * t->inputs + whole * YK_LANES + i, t->tail[o * YK_LANES + i]);
    }
    if (r->fresh)
        memset(r->grad + l->biases_at + begin, 0, (end - begin) * sizeof *r->grad);
    const yk_block_outer y = {
        .p = r->blocks, .y = r->dx[l->out] + dy.origin, .y_m = (int64_t)dy.channel, .y_p = t->dy_p};
    r->block->sum(&y, begin, end, r->grad + l->biases_at);
}

/* dxt of this thread's inputs, and from it dx. */
static void input_gradient(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    const yk_block_mul w = {.k = l->count,
                            .a = t->dyt,
                            .a_m = 1,
                            .a_k = t->dyt_k,
                            .b = r->params + l->weights_at,
                            .b_p = t->v_p,
                            .b_k = t->wo_k,
                            .c = t->xt,
                            .c_m = (int64_t)t->padded,
                            .c_p = t->v_p,
                            .far = l->weights > FAR};
    size_t begin, end;
    yk__part(r, t->inputs / YK_LANES, 4, &begin, &end);
    r->block->mul(&w, 0, r->blocks * YK_LANES, begin, end);
    for (size_t b = 0; b < r->blocks; b++) {
        const float *from = t->xt + b * YK_LANES * t->padded;
        float *dx = r->dx[l->in] + t->dx_p[b];
        for (size_t i = begin * YK_LANES; i < end * YK_LANES; i++)
            for (size_t lane = 0; lane < YK_LANES; lane++)
                dx[t->dx_k[i] + (int32_t)lane] = from[lane * t->padded + i];
    }
}

/* The inputs that are no whole vector. */
static void last_input_gradient(const yk__layer *l, const yk__run *r)
{
    const tables *t = l->plan;
    static const int32_t here[1] = {0};
    for (size_t i = t->inputs / YK_LANES * YK_LANES; i < t->inputs && r->thread == 0; i++)
        for (size_t b = 0; b < r->blocks; b++) {
            const yk_block_mul w = {.k = l->count,
                                    .a = r->params + l->weights_at + i,
                                    .a_k = t->wo_k,
                                    .b = r->dx[l->out] + t->dy_p[b],
                                    .b_p = here,
                                    .b_k = t->out_k,
                                    .c = r->dx[l->in] + t->dx_p[b] + t->dx_k[i],
                                    .c_p = here};
            r->block->mul(&w, 0, 1, 0, 1);
        }
}

enum { TURN, WEIGHTS, INPUTS, PARTS };

static void backward(const yk__layer *l, const yk__run *r)
{
    if (r->part == TURN)
        turn(l, r);
    else if (r->part == WEIGHTS)
        weight_gradient(l, r);
    else { /* xt becomes dxt */
        input_gradient(l, r);
        last_input_gradient(l, r);
    }
}

const yk__layer_ops yk__dense_ops = {.name = "dense",
                                     .usage = "dense OUTPUTS",
                                     .parse = parse,
                                     .shape = shape,
                                     .plan = plan,
                                     .forward = forward,
                                     .backward = backward,
                                     .free = free_layer,
                                     .parts = PARTS,
                                     .weight_rank = 2};
