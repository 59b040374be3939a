/* The linear models: gradients against finite differences of a loss in doubles, probabilities, tensors, errors. */
#include "scratch.h"

#include "base/rng.h"
#include "model/model.h"
#include <math.h>
#include <stdbool.h>

/* A refused allocation must return NULL, as it does without a sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static yk_rng random_state;

static double uniform(double low, double high)
{
    return low + (high - low) * yk_rng_unit(&random_state);
}

enum { DIM = 21, MAX_CLASSES = 9, ROWS = 30, BATCH = 17 };

/* ---- data, and the same data as a matrix of doubles */

typedef struct {
    yk_rows rows;
    double x[ROWS][DIM];
    uint32_t pick[BATCH];
    yk_batch batch;
} examples;

/* The labels are also targets, if the loss is for numbers. */
static bool weighted, numbers;
static const float class_weight[MAX_CLASSES] = {1, 0.5f, 3, 1, 2, 0, 1, 1, 4};

static void make_examples(examples *e, yk_rows_kind kind, bool values, uint32_t classes)
{
    memset(e, 0, sizeof *e);
    yk_rows_init(&e->rows, kind, kind == YK_ROWS_SPARSE ? 0 : DIM);
    for (size_t i = 0; i < ROWS; i++) {
        uint32_t *index = NULL;
        float *value = NULL, *f32 = NULL;
        uint8_t *u8 = NULL;
        size_t n = 0;
        assert_int_equal(kind == YK_ROWS_SPARSE ? yk_rows_sparse(&e->rows, DIM, &index, &value)
                         : kind == YK_ROWS_F32  ? yk_rows_dense_f32(&e->rows, &f32)
                                                : yk_rows_dense_u8(&e->rows, &u8),
                         YK_OK);
        for (uint32_t d = 0; d < DIM; d++) {
            bool there = yk_rng_below(&random_state, 3) == 0;
            float x = there ? values ? (float)uniform(-2, 2) : 1.0f : 0.0f;
            if (kind == YK_ROWS_U8) {
                u8[d] = there ? (uint8_t)(1 + yk_rng_below(&random_state, 255)) : 0;
                x = (float)u8[d] / 255.0f;
            } else if (kind == YK_ROWS_F32) {
                f32[d] = x;
            } else if (there) {
                index[n] = d;
                value[n++] = x;
            }
            e->x[i][d] = (double)x;
        }
        assert_int_equal(yk_rows_commit(&e->rows, n, (int32_t)yk_rng_below(&random_state, classes)), YK_OK);
        if (weighted)
            assert_int_equal(yk_rows_set_weight(&e->rows, (float)(int)uniform(0, 4)), YK_OK);
        if (numbers)
            assert_int_equal(yk_rows_set_target(&e->rows, (float)uniform(-3, 3)), YK_OK);
    }
    for (size_t i = 0; i < BATCH; i++)
        e->pick[i] = yk_rng_below(&random_state, ROWS); /* some twice */
    e->batch = (yk_batch){&e->rows, e->pick, BATCH, 0};
    e->batch.class_weight = weighted && !numbers ? class_weight : NULL;
}

/* ---- the models in doubles, from tensors as in PyTorch: weight [outputs][DIM], bias [outputs] */

typedef struct {
    double weight[MAX_CLASSES * DIM], bias[MAX_CLASSES];
} tensors;

/* The predictions of an example, and its loss. */
static double reference(const yk_model *m, const tensors *t, const double *x, int32_t label, double target,
                        double *p)
{
    double z[MAX_CLASSES], max = -INFINITY, sum = 0;
    for (size_t c = 0; c < m->outputs; c++) {
        z[c] = m->shape.bias ? t->bias[c] : 0;
        for (size_t d = 0; d < DIM; d++)
            z[c] += t->weight[c * DIM + d] * x[d];
        max = fmax(max, z[c]);
    }
    if (m->loss->numbers) {
        p[0] = z[0];
        return (z[0] - target) * (z[0] - target);
    }
    if (m->outputs == 1) {
        p[0] = 1 / (1 + exp(-z[0]));
        if (!m->loss->log_loss) /* hinge */
            return fmax(0, 1 - (label ? z[0] : -z[0]));
        double against = label ? -z[0] : z[0];
        return against > 0 ? against + log1p(exp(-against)) : log1p(exp(against));
    }
    for (size_t c = 0; c < m->outputs; c++)
        sum += exp(z[c] - max);
    for (size_t c = 0; c < m->outputs; c++)
        p[c] = exp(z[c] - max) / sum;
    return log(sum) + max - z[label];
}

static double reference_loss(const yk_model *m, const tensors *t, const examples *e)
{
    double loss = 0, p[MAX_CLASSES];
    for (size_t i = 0; i < e->batch.n; i++)
        loss += (double)yk_batch_weight(&e->batch, i) *
                reference(m, t, e->x[e->pick[i]], e->rows.label[e->pick[i]],
                          (double)yk_rows_target(&e->rows, e->pick[i]), p);
    return loss;
}

/* ---- a model with random weights */

typedef struct {
    yk_model *model;
    yk_workspace *work;
    float *params; /* flat */
    tensors t;
} trained;

/* Only the model knows the layout of the parameters. */
static tensors exported(const yk_model *m, const float *flat)
{
    float out[MAX_CLASSES * DIM];
    tensors t = {0};
    for (int k = 0; k < m->ntensors; k++) {
        double *to = k ? t.bias : t.weight;
        yk_model_export(m, k, flat, out);
        for (size_t i = 0; i < m->tensor[k].size; i++)
            to[i] = (double)out[i];
    }
    return t;
}

static void make_model(trained *m, const char *name, const char *loss, yk_rows_kind kind, uint32_t classes,
                       bool bias, double scale)
{
    yk_model_shape shape = {.kind = kind, .dim = DIM, .classes = classes, .bias = bias};
    float in[MAX_CLASSES * DIM];
    if (loss)
        assert_int_equal(yk_loss_find(loss, &shape.loss), YK_OK);
    assert_int_equal(yk_model_create(name, &shape, &m->model), YK_OK);
    assert_int_equal(yk_workspace_create(m->model, BATCH, &m->work), YK_OK);
    assert_int_equal(m->model->ntensors, 1 + bias);
    m->params = calloc(m->model->nparams, sizeof *m->params);
    assert_non_null(m->params);
    for (int k = 0; k < m->model->ntensors; k++) {
        for (size_t i = 0; i < m->model->tensor[k].size; i++)
            in[i] = (float)uniform(-scale, scale);
        yk_model_import(m->model, k, in, m->params);
    }
    m->t = exported(m->model, m->params);
}

static void free_model(trained *m)
{
    yk_workspace_free(m->model, m->work);
    yk_model_free(m->model);
    free(m->params);
}

/* Every combination of model, loss, kind of data, values, classes, bias and weights. */
static void each_case(void (*check)(const trained *m, const examples *e), double scale)
{
    static const struct {
        const char *model, *loss;
        bool bias;
    } models[] = {{"softmax", NULL, true}, {"softmax", NULL, false},  {"logreg", NULL, true},
                  {"logreg", NULL, false}, {"linear", "hinge", true}, {"linear", "logistic", false},
                  {"linear", NULL, true}};
    for (int kind = YK_ROWS_U8; kind <= YK_ROWS_SPARSE; kind++)
        for (int values = 0; values < 4; values++)
            for (uint32_t classes = 2; classes <= MAX_CLASSES; classes++)
                for (int i = 0; i < (classes == 2 ? 7 : 2); i++) {
                    trained m;
                    examples e;
                    weighted = values & 2;
                    numbers = i == 6;
                    make_examples(&e, (yk_rows_kind)kind, values & 1, classes);
                    make_model(&m, models[i].model, models[i].loss, (yk_rows_kind)kind, classes,
                               models[i].bias, scale);
                    check(&m, &e);
                    free_model(&m);
                    yk_rows_fini(&e.rows);
                }
    weighted = numbers = false;
}

/* ---- gradients */

/* The gradient as a dense vector, whatever its representation. */
static void flat_gradient(const yk_grad *g, size_t n, float *out)
{
    memset(out, 0, n * sizeof *out);
    if (g->group[0].dense) {
        memcpy(out, g->group[0].dense, n * sizeof *out);
        return;
    }
    yk_merger pairs = {0};
    assert_int_equal(yk_merger_reserve(&pairs, 1), YK_OK);
    assert_int_equal(yk_grad_merge(&g->group[0], &pairs, yk_merger_add_all), YK_OK);
    for (size_t i = 0; i < pairs.n; i++) {
        assert_true(pairs.key[i] < n);
        out[pairs.key[i]] = pairs.value[i];
    }
    yk_merger_fini(&pairs);
}

static void assert_derivative(const trained *m, const examples *e, double *parameter, const tensors *t,
                              double got)
{
    const double at = *parameter, h = 1e-4;
    *parameter = at + h;
    double above = reference_loss(m->model, t, e);
    *parameter = at - h;
    double below = reference_loss(m->model, t, e);
    *parameter = at;
    double expected = (above - below) / (2 * h);
    if (!(fabs(got - expected) <= 1e-3 * fabs(expected) + 3e-6))
        fail_msg("%s: parameter %td has the derivative %.9g, not %.9g", m->model->ops->name,
                 parameter - (double *)t, got, expected);
}

static void check_gradient(const trained *m, const examples *e)
{
    const yk_model *model = m->model;
    yk_view view = {.w = m->params};
    yk_grad g;
    float *flat = malloc(model->nparams * sizeof *flat);
    assert_non_null(flat);
    for (int again = 0; again < 2; again++) { /* independent of the previous batch */
        model->ops->grad(model, m->work, &view, &e->batch, &g);
        assert_int_equal(g.examples, BATCH);
        assert_true((g.group[0].dense == NULL) == model->sparse);
        double loss = reference_loss(model, &m->t, e);
        assert_true(fabs(g.loss - loss) < 1e-5 * (1 + loss));
        flat_gradient(&g, model->nparams, flat);
        tensors t = m->t, d = exported(model, flat);
        double all = 0, shown = 0;
        for (size_t i = 0; i < model->tensor[0].size; i++) {
            assert_derivative(m, e, &t.weight[i], &t, d.weight[i]);
            shown += fabs(d.weight[i]);
        }
        for (size_t i = 0; model->shape.bias && i < model->tensor[1].size; i++) {
            assert_derivative(m, e, &t.bias[i], &t, d.bias[i]);
            shown += fabs(d.bias[i]);
        }
        for (size_t i = 0; i < model->nparams; i++)
            all += fabs((double)flat[i]);
        assert_true(fabs(all - shown) < 1e-9 * (1 + shown)); /* padding has no gradient */
    }
    yk_batch none = e->batch;
    none.n = 0;
    model->ops->grad(model, m->work, &view, &none, &g);
    flat_gradient(&g, model->nparams, flat);
    assert_true(g.examples == 0 && g.loss == 0);
    for (size_t i = 0; i < model->nparams; i++)
        assert_true(flat[i] == 0.0f);
    free(flat);
}

static void gradients_are_derivatives(void **state)
{
    (void)state;
    random_state = yk_rng_seed(1, 0);
    each_case(check_gradient, 0.5);
}

/* A worker with copies of hot weights uses those. */
static void copies_of_hot_weights_are_used(void **state)
{
    (void)state;
    enum { HOT = 8, SIZE = DIM + 1 };
    random_state = yk_rng_seed(2, 0);
    examples e;
    trained m;
    make_examples(&e, YK_ROWS_SPARSE, true, 2);
    make_model(&m, "logreg", NULL, YK_ROWS_SPARSE, 2, true, 0.5);
    float block[HOT + SIZE], p[BATCH], q[BATCH];
    memcpy(block, m.params, HOT * sizeof *block);
    memcpy(block + HOT, m.params, SIZE * sizeof *block);
    for (int i = 0; i < HOT; i++)
        block[HOT + i] = 99.0f; /* the shared values must not be used */
    yk_view plain = {.w = m.params}, view = {.w = block + HOT, .hot = HOT, .shift = -HOT};
    double loss = 0, same = 0;
    m.model->ops->predict(m.model, m.work, &plain, &e.batch, p, &loss);
    m.model->ops->predict(m.model, m.work, &view, &e.batch, q, &same);
    assert_true(loss == same);
    assert_memory_equal(p, q, sizeof p);
    free_model(&m);
    yk_rows_fini(&e.rows);
}

/* ---- probabilities */

/* Relative error below 2e-5 however small they are, also for the label (logits of size 100 have an error of 1e-5). */
static void check_predictions(const trained *m, const examples *e)
{
    const yk_model *model = m->model;
    const yk_view view = {.w = m->params};
    float p[BATCH * MAX_CLASSES + 1];
    double loss = 7, expected = reference_loss(model, &m->t, e), right[MAX_CLASSES];
    p[BATCH * model->outputs] = -77.0f;
    model->ops->predict(model, m->work, &view, &e->batch, p, &loss);
    assert_true(p[BATCH * model->outputs] == -77.0f);
    assert_true(fabs(loss - 7 - expected) < 1e-5 * (1 + expected)); /* predict() adds to the loss */
    for (size_t i = 0; i < BATCH; i++) {
        double sum = 0;
        reference(model, &m->t, e->x[e->pick[i]], e->rows.label[e->pick[i]], 0, right);
        for (size_t c = 0; c < model->outputs; c++) {
            double got = (double)p[i * model->outputs + c];
            sum += got;
            if (!(fabs(got - right[c]) <= 2e-5 * fabs(right[c]) + (model->loss->numbers ? 1e-4 : 1e-37)))
                fail_msg("%s: the probability of %zu, label %d, is %.9g, not %.9g", model->ops->name, c,
                         e->rows.label[e->pick[i]], got, right[c]);
        }
        assert_true(model->outputs == 1 || fabs(sum - 1) < 1e-6);
    }
}

static void probabilities_are_right(void **state)
{
    (void)state;
    random_state = yk_rng_seed(3, 0);
    each_case(check_predictions, 0.5);
    each_case(check_predictions, 10);
}

/* ---- tensors */

static void check_tensors(const trained *m, const examples *e)
{
    const yk_model *model = m->model;
    (void)e;
    assert_string_equal(model->tensor[0].name, "0.weight");
    assert_int_equal(model->tensor[0].rank, 2);
    assert_int_equal(model->tensor[0].shape[0], model->outputs);
    assert_int_equal(model->tensor[0].shape[1], DIM);
    assert_int_equal(model->tensor[0].size, model->outputs * DIM);
    if (model->shape.bias) {
        assert_string_equal(model->tensor[1].name, "0.bias");
        assert_int_equal(model->tensor[1].rank, 1);
        assert_int_equal(model->tensor[1].shape[0], model->outputs);
        assert_int_equal(model->tensor[1].size, model->outputs);
    }
    float *back = calloc(model->nparams, sizeof *back);
    assert_non_null(back);
    for (int k = 0; k < model->ntensors; k++) {
        float tensor[MAX_CLASSES * DIM + 1];
        tensor[model->tensor[k].size] = -77.0f;
        yk_model_export(model, k, m->params, tensor);
        assert_true(tensor[model->tensor[k].size] == -77.0f);
        yk_model_import(model, k, tensor, back);
        if (!model->tensor[k].transposed)
            assert_memory_equal(m->params + model->tensor[k].offset, tensor,
                                model->tensor[k].size * sizeof *tensor);
    }
    assert_memory_equal(back, m->params, model->nparams * sizeof *back);
    free(back);
}

static void tensors_are_exported_and_imported(void **state)
{
    (void)state;
    random_state = yk_rng_seed(4, 0);
    each_case(check_tensors, 1);
}

/* ---- errors */

static void impossible_shapes_are_errors(void **state)
{
    (void)state;
    yk_model *m = NULL;
    yk_model_shape shape = {.kind = YK_ROWS_SPARSE, .dim = 100, .classes = 3, .bias = true};
    assert_error(yk_model_create("logreg", &shape, &m), YK_EDATA, "--model softmax");
    assert_error(yk_model_create("perceptron", &shape, &m), YK_EUSAGE, "softmax, logreg");
    shape.classes = 1;
    assert_error(yk_model_create("softmax", &shape, &m), YK_EDATA, "two classes");
    shape.classes = 10;
    shape.dim = 33762578;
    assert_error(yk_model_create("softmax", &shape, &m), YK_EUSAGE, "--model logreg");
    shape.classes = 2;
    shape.dim = INT32_MAX;
    assert_error(yk_model_create("logreg", &shape, &m), YK_EUSAGE, "too many");
    assert_null(m);
    shape.classes = 1; /* data with a single class is accepted */
    shape.dim = 10;
    assert_int_equal(yk_model_create("logreg", &shape, &m), YK_OK);
    yk_workspace_free(m, NULL);
    yk_model_free(m);
    yk_model_free(NULL);
}

/* A batch that does not fit into memory (a petabyte) is an error, and what was allocated is freed once. */
static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    yk_model *m;
    yk_workspace *work = NULL;
    const yk_model_shape dense = {.kind = YK_ROWS_F32, .dim = (size_t)1 << 30, .classes = 2, .bias = true};
    assert_int_equal(yk_model_create("logreg", &dense, &m), YK_OK);
    assert_error(yk_workspace_create(m, (size_t)1 << 18, &work), YK_ESYSTEM, "out of memory");
    assert_null(work);
    yk_model_free(m);
    const yk_model_shape wide = {.kind = YK_ROWS_F32, .dim = (size_t)1 << 25, .classes = 4, .bias = true};
    assert_int_equal(yk_model_create("softmax", &wide, &m), YK_OK);
    assert_error(yk_workspace_create(m, (size_t)1 << 22, &work), YK_ESYSTEM, "out of memory");
    assert_null(work);
    yk_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_derivatives),    cmocka_unit_test(copies_of_hot_weights_are_used),
        cmocka_unit_test(probabilities_are_right),      cmocka_unit_test(tensors_are_exported_and_imported),
        cmocka_unit_test(impossible_shapes_are_errors), cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
