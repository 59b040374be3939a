/* Multinomial logistic (softmax) regression.
 *
 *     logits_i = b + W^T x_i;   loss = sum_i -log softmax(logits_i)[y_i];   dloss/dlogits_i = softmax(logits_i) - onehot(y_i)
 *
 * Parameters: [1 + dim][ld]: a row for the bias, then one per feature; ld is `classes` rounded up to 4. The padding is 0, and
 * so is its gradient; without a bias, its row is padding. The weights of PyTorch's nn.Linear are transposed: 0.weight
 * [classes][dim], 0.bias [classes].
 */
#include "model/models.h"

#include "base/mem.h"
#include "kern/matrix.h"
#include "kern/pixels.h"
#include "model/loss.h"
#include "model/mean_input.h"
#include "model/packed.h"
#include <string.h>

static size_t leading_dimension(const yk_model *m)
{
    return YK_ROUND_UP((size_t)m->shape.classes, YK_CLASS_PAD);
}

/* The batch size from which transposing the weights pays off (pixels.h). */
enum { MANY = 24 };

struct yk_workspace {
    yk_arena memory; /* must be first */
    const yk_matrix_ops *kern;
    const yk_pixels_ops *pixels;
    float *logits;     /* [max_batch][ld], or [blocks][classes][16] */
    float *grad;       /* [nparams] */
    float *transposed; /* weights, [classes][padded]; NULL: batches are small, or rows not bytes */
    yk__mean_input mean;
    yk_spans spans;
    yk__packed packed;
};

static yk_status create(const char *text, const yk_model_shape *shape, yk_model **out)
{
    (void)text;
    if (shape->classes < 2)
        return yk_fail(YK_EDATA, "softmax needs at least two classes; the data has %u", shape->classes);
    yk_model *m = yk_alloc(1, sizeof *m, "the model");
    if (!m)
        return YK_ESYSTEM;
    m->shape = *shape;
    yk_model_add_group(m, (yk_group){.name = "linear", .keys = (1 + shape->dim) * leading_dimension(m)});
    m->outputs = shape->classes;
    m->bias_key = UINT32_MAX;
    m->ntensors = 1 + shape->bias;
    m->tensor[0] = (yk_model_tensor){"0.weight",
                                     2,
                                     {shape->classes, shape->dim},
                                     shape->classes * shape->dim,
                                     .offset = leading_dimension(m),
                                     .transposed = leading_dimension(m)};
    m->tensor[1] = (yk_model_tensor){"0.bias", 1, {shape->classes}, shape->classes, .bias = true};
    if (m->nparams > (size_t)1 << 28) {
        yk_free(m);
        return yk_fail(
            YK_EUSAGE,
            "softmax over %zu columns and %u classes would have a dense gradient of %zu numbers; for sparse "
            "data with two classes use --model logreg",
            shape->dim, shape->classes, (1 + shape->dim) * (size_t)shape->classes);
    }
    *out = m;
    return YK_OK;
}

static yk_status workspace_init(const yk_model *m, yk_workspace *w, size_t max_batch)
{
    static const char pixels[] = "the pixels of a batch";
    const size_t dim = m->shape.dim, spans = YK_PIXELS_SPANS(dim), ld = leading_dimension(m);
    yk_arena *a = &w->memory;
    w->kern = yk_matrix();
    w->pixels = yk_pixels();
    w->logits =
        yk_arena_alloc(a, YK_ROUND_UP(max_batch, YK_LANES) * ld, sizeof *w->logits, "the logits of a batch");
    w->grad = yk_arena_alloc(a, m->nparams, sizeof *w->grad, "a gradient");
    w->mean =
        (yk__mean_input){.mean = yk_arena_alloc(a, dim, sizeof(float), "the mean input"), .inputs = dim};
    yk__packed_init(&w->packed, a, m->shape.kind, dim, max_batch);
    if (m->shape.kind != YK_ROWS_U8 || max_batch < MANY)
        return YK_OK;
    w->transposed =
        yk_arena_alloc(a, m->shape.classes * spans * YK_SPAN, sizeof(float), "the transposed weights");
    w->spans = (yk_spans){.max = max_batch,
                          .bytes = yk_arena_alloc(a, spans * max_batch, YK_SPAN, pixels),
                          .offset = yk_arena_alloc(a, spans * max_batch, sizeof *w->spans.offset, pixels),
                          .end = yk_arena_alloc(a, spans, sizeof *w->spans.end, pixels)};
    return YK_OK;
}

/* grad() of a large batch of images. */
static void grad_of_pixels(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b,
                           yk_grad *out)
{
    const size_t ld = leading_dimension(m), classes = m->shape.classes, block = classes * YK_LANES;
    double loss = 0.0;
    w->pixels->transpose(v->w + ld, m->shape.dim, ld, classes, w->transposed);
    w->pixels->logits(w->transposed, v->w, classes, b, &w->spans, w->logits);
    memset(w->grad, 0, ld * sizeof *w->grad);
    for (size_t i = 0; i < b->n; i += YK_LANES) {
        float *z = w->logits + i / YK_LANES * block;
        const size_t n = b->n - i < YK_LANES ? b->n - i : YK_LANES;
        loss += yk_lanes()->softmax(z, classes, b, i, n, NULL);
        for (size_t c = 0; m->shape.bias && c < classes; c++)
            for (size_t lane = 0; lane < n; lane++)
                w->grad[c] += z[c * YK_LANES + lane];
    }
    w->pixels->outer(w->logits, classes, b->rows, &w->spans, ld, w->grad + ld);
    *out = (yk_grad){.examples = b->n, .loss = loss, .group = {{.dense = w->grad}}};
}

static void grad(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    const size_t ld = leading_dimension(m);
    if (w->transposed && b->n >= MANY) {
        grad_of_pixels(m, w, v, b, out);
        return;
    }
    const yk_batch rows = yk__packed_batch(&w->packed, b);
    w->kern->rows_matrix(v->w + ld, v->w, ld, &rows, w->logits);
    const double loss = w->kern->softmax(w->logits, m->shape.classes, ld, b, NULL);
    memset(w->grad, 0, m->nparams * sizeof *w->grad);
    w->kern->add_outer(w->grad + ld, ld, &rows, w->logits);
    for (size_t i = 0; m->shape.bias && i < b->n; i++)
        for (size_t c = 0; c < ld; c++)
            w->grad[c] += w->logits[i * ld + c];
    *out = (yk_grad){.examples = b->n, .loss = loss, .group = {{.dense = w->grad}}};
}

static void stale_grad(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    grad(m, w, v, b, out);
    if (v->in_flight <= 1 || !b->n)
        return;
    yk__mean_input_add_rows(&w->mean, b);
    yk__mean_input_damp_rows(&w->mean, v->in_flight, w->grad + leading_dimension(m), leading_dimension(m),
                             w->logits);
}

static void predict(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss)
{
    const size_t ld = leading_dimension(m);
    const yk_batch rows = yk__packed_batch(&w->packed, b);
    w->kern->rows_matrix(v->w + ld, v->w, ld, &rows, w->logits);
    const double sum = w->kern->softmax(w->logits, m->shape.classes, ld, b, p);
    if (loss)
        *loss += sum;
}

const yk_model_ops yk_softmax_ops = {.name = "softmax",
                                     .linear = true,
                                     .loss = "softmax",
                                     .own_loss = true,
                                     .create = create,
                                     .workspace_bytes = sizeof(yk_workspace),
                                     .workspace_init = workspace_init,
                                     .grad = stale_grad,
                                     .predict = predict};
