/* Binary logistic regression (logreg), and linear models with other losses of one output (linear; loss.h).
 *
 *     z_i = b + w . x_i;   loss = sum_i loss(z_i, y_i)
 *
 * Parameters: [dim] weights, then the bias, if any. For sparse rows the gradient is the rows of the batch, each with its
 * dloss/dz as a factor; for dense rows it is a dense vector. PyTorch: 0.weight [1][dim], 0.bias [1].
 */
#include "model/models.h"

#include "base/mem.h"
#include "kern/linear.h"
#include "model/mean_input.h"
#include "model/packed.h"
#include <string.h>

struct yk_workspace {
    yk_arena memory; /* must be first */
    const yk_linear_ops *kern;
    float *z, *err; /* [max_batch] */
    yk_batch rows;  /* the batch as sparse rows */
    yk__packed packed;
    float *grad; /* [nparams], dense data only */
    yk__mean_input mean;
};

static yk_status create(const char *text, const yk_model_shape *shape, yk_model **out)
{
    yk_status st = yk__model_check(text, shape);
    yk_model *m = st ? NULL : yk_alloc(1, sizeof *m, "the model");
    if (!m)
        return st ? st : YK_ESYSTEM;
    m->shape = *shape;
    m->shape.classes = 2;
    yk_model_add_group(m, (yk_group){.name = "linear",
                                     .keyed = shape->kind == YK_ROWS_SPARSE,
                                     .keys = shape->dim + shape->bias});
    m->bias_key = shape->bias ? (uint32_t)shape->dim : UINT32_MAX;
    m->outputs = 1;
    m->ntensors = 1 + shape->bias;
    m->tensor[0] = (yk_model_tensor){"0.weight", 2, {1, shape->dim}, shape->dim};
    m->tensor[1] = (yk_model_tensor){"0.bias", 1, {1}, 1, .offset = shape->dim, .bias = true};
    *out = m;
    return YK_OK;
}

static yk_status workspace_init(const yk_model *m, yk_workspace *w, size_t max_batch)
{
    w->kern = yk_linear();
    w->z = yk_arena_alloc(&w->memory, max_batch, sizeof *w->z, "the margins of a batch");
    w->err = yk_arena_alloc(&w->memory, max_batch, sizeof *w->err, "the errors of a batch");
    yk__packed_init(&w->packed, &w->memory, m->shape.kind, m->shape.dim, max_batch);
    if (m->sparse)
        return YK_OK;
    w->grad = yk_arena_alloc(&w->memory, m->nparams, sizeof *w->grad, "a gradient");
    w->mean.inputs = m->shape.dim;
    w->mean.mean = yk_arena_alloc(&w->memory, m->shape.dim, sizeof(float), "the mean input");
    return YK_OK;
}

/* w->z */
static YK_RACY void margins(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b)
{
    w->rows = yk__packed_batch(&w->packed, b);
    w->kern->margins(v, &w->rows, w->z);
    if (m->bias_key != UINT32_MAX) {
        float bias = v->w[yk_view_at(v, yk_model_bias(m, b))];
        for (size_t i = 0; i < b->n; i++)
            w->z[i] += bias;
    }
}

static void grad(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    margins(m, w, v, b);
    const double loss = yk_loss_batch(m->loss, w->z, b, w->err);
    *out = (yk_grad){.examples = b->n, .loss = loss};
    if (m->sparse) {
        out->group[0] = (yk_group_grad){.rows = w->rows,
                                        .err = w->err,
                                        .bias = m->bias_key != UINT32_MAX,
                                        .bias_key = yk_model_bias(m, b)};
        return;
    }
    memset(w->grad, 0, m->nparams * sizeof *w->grad);
    yk_view g = {.w = w->grad};
    w->kern->add_rows(&g, &w->rows, w->err);
    if (m->bias_key != UINT32_MAX)
        for (size_t i = 0; i < b->n; i++)
            w->grad[m->bias_key] += w->err[i];
    out->group[0].dense = w->grad;
    if (v->in_flight <= 1)
        return;
    yk__mean_input_add_rows(&w->mean, &w->rows);
    yk__mean_input_damp(&w->mean, 1, v->in_flight, w->grad, 1);
}

static void burst(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, float lr,
                  float *loss)
{
    w->kern->sgd_steps(v, b, m->bias_key, lr, loss);
}

static void predict(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, float *p,
                    double *loss)
{
    margins(m, w, v, b);
    if (loss)
        *loss += yk_loss_batch(m->loss, w->z, b, w->err);
    for (size_t i = 0; i < b->n; i++)
        p[i] = b->raw ? w->z[i] : m->loss->link(w->z[i]);
}

static bool predict_unchecked(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_rows *rows,
                              float *p)
{
    if (!w->kern->margins_unchecked(v, rows, w->z))
        return false;
    const float bias = m->bias_key != UINT32_MAX ? v->w[m->bias_key] : 0.0f;
    for (size_t i = 0; i < rows->n; i++)
        p[i] = m->loss->link(w->z[i] + bias);
    return true;
}

/* Of both models. */
#define COMMON                                                                                               \
    .input = YK_INPUT_BOTH, .linear = true, .create = create, .workspace_bytes = sizeof(yk_workspace),       \
    .workspace_init = workspace_init, .grad = grad, .predict = predict,                                      \
    .predict_unchecked = predict_unchecked

const yk_model_ops yk_logreg_ops = {COMMON, .name = "logreg", .loss = "logistic", .own_loss = true,
                                    .burst = burst};

const yk_model_ops yk_linear_model_ops = {COMMON, .name = "linear", .loss = "squared", .one_output = true};
