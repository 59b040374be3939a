/* Stale gradients have less of the direction of the mean input: for each kind of model and rows, and in descent with delays. */
#include "scratch.h"

#include "base/rng.h"
#include "model/model.h"
#include <math.h>

enum { DIM = 36, CLASSES = 3, ROWS = 512, BATCH = 16, N = 8 };

typedef struct {
    yk_rows rows;
    uint32_t pick[BATCH];
    yk_batch batch;
    float x[ROWS][DIM];
} examples;

/* Positive inputs, as pixels are. The label depends on the differences of two of them. */
static void make_examples(examples *e, yk_rows_kind kind)
{
    yk_rng r = yk_rng_seed(5, 0);
    memset(e, 0, sizeof *e);
    yk_rows_init(&e->rows, kind, kind == YK_ROWS_SPARSE ? 0 : DIM);
    for (size_t i = 0; i < ROWS; i++) {
        uint32_t *index = NULL;
        float *value = NULL, *f32 = NULL;
        uint8_t *u8 = NULL;
        assert_int_equal(kind == YK_ROWS_SPARSE ? yk_rows_sparse(&e->rows, DIM, &index, &value)
                         : kind == YK_ROWS_F32  ? yk_rows_dense_f32(&e->rows, &f32)
                                                : yk_rows_dense_u8(&e->rows, &u8),
                         YK_OK);
        for (uint32_t d = 0; d < DIM; d++) {
            const uint8_t byte = (uint8_t)(100 + yk_rng_below(&r, 156));
            e->x[i][d] = (float)byte / 255.0f;
            if (kind == YK_ROWS_U8)
                u8[d] = byte;
            else if (kind == YK_ROWS_F32)
                f32[d] = e->x[i][d];
            else
                index[d] = d, value[d] = e->x[i][d];
        }
        assert_int_equal(yk_rows_commit(&e->rows, DIM, e->x[i][0] > e->x[i][1]), YK_OK);
    }
    for (uint32_t i = 0; i < BATCH; i++)
        e->pick[i] = i;
    e->batch = (yk_batch){&e->rows, e->pick, BATCH, 0};
}

static void make_model(const char *name, yk_rows_kind kind, yk_model **model, yk_workspace **work)
{
    const yk_model_shape shape = {.kind = kind,
                                  .dim = DIM,
                                  .classes = strcmp(name, "logreg") == 0 ? 2 : CLASSES,
                                  .bias = true,
                                  .channels = kind == YK_ROWS_U8,
                                  .height = kind == YK_ROWS_U8 ? 6 : 0,
                                  .width = kind == YK_ROWS_U8 ? 6 : 0};
    assert_int_equal(yk_model_create(name, &shape, model), YK_OK);
    assert_int_equal(yk_workspace_create(*model, BATCH, work), YK_OK);
}

static void gradient(const yk_model *m, yk_workspace *w, float *params, int in_flight, const yk_batch *b,
                     float *out)
{
    yk_grad g;
    yk_view v = {.w = params, .in_flight = in_flight};
    m->ops->grad(m, w, &v, b, &g);
    memcpy(out, g.group[0].dense, m->nparams * sizeof *out);
}

/* The first tensor of the model, [outputs][taps * DIM / taps], is reduced in the direction of the mean input of the batch. */
static void check(const char *name, yk_rows_kind kind, size_t taps)
{
    static examples e;
    make_examples(&e, kind);
    yk_model *m;
    yk_workspace *w;
    make_model(name, kind, &m, &w);
    float *params = calloc(m->nparams, sizeof *params), *fresh = calloc(m->nparams, sizeof *params),
          *stale = calloc(m->nparams, sizeof *params), *a = calloc(m->nparams, sizeof *params),
          *b = calloc(m->nparams, sizeof *params);
    assert_true(params && fresh && stale && a && b);
    if (m->ops->init)
        m->ops->init(m, 0, params, 1);
    gradient(m, w, params, 1, &e.batch, fresh);
    gradient(m, w, params, N, &e.batch, stale);
    yk_model_export(m, 0, fresh, a);
    yk_model_export(m, 0, stale, b);
    const size_t outputs = m->tensor[0].shape[0], inputs = m->tensor[0].size / outputs;
    double mean[DIM] = {0}, square = 0.0;
    for (size_t i = 0; i < BATCH; i++)
        for (size_t d = 0; d < DIM; d++) /* a filter: of all pixels */
            mean[taps > 1 ? 0 : d] += (double)e.x[i][d] / (taps > 1 ? DIM : 1) / BATCH;
    for (size_t k = 0; k < inputs; k++)
        square += mean[taps > 1 ? 0 : k] * mean[taps > 1 ? 0 : k];
    for (size_t o = 0; o < outputs; o++) {
        double along = 0.0;
        for (size_t k = 0; k < inputs; k++)
            along += (double)a[o * inputs + k] * mean[taps > 1 ? 0 : k];
        for (size_t k = 0; k < inputs; k++) {
            const double want = (double)a[o * inputs + k] -
                                (1.0 - 1.0 / (2 * N - 1)) * along / square * mean[taps > 1 ? 0 : k],
                         got = (double)b[o * inputs + k];
            if (fabs(want - got) > 1e-4 * (1.0 + fabs(along) / sqrt(square)))
                fail_msg("%s: output %zu, input %zu: %g, expected %g", name, o, k, got, want);
        }
    }
    yk_model_export(m, 1, fresh, a);
    yk_model_export(m, 1, stale, b);
    assert_memory_equal(a, b, m->tensor[1].size * sizeof *a); /* biases are as they were */
    free(params), free(fresh), free(stale), free(a), free(b);
    yk_workspace_free(m, w);
    yk_model_free(m);
    yk_rows_fini(&e.rows);
}

static void every_model_and_kind_of_rows(void **state)
{
    (void)state;
    check("logreg", YK_ROWS_F32, 1);
    check("logreg", YK_ROWS_U8, 1);
    check("softmax", YK_ROWS_F32, 1);
    check("softmax", YK_ROWS_U8, 1);
    check("softmax", YK_ROWS_SPARSE, 1);
    check("dense 5, relu, dense 3", YK_ROWS_F32, 1);
    check("dense 5, relu, dense 3", YK_ROWS_U8, 1);
    check("conv 4 3x3, relu, dense 3", YK_ROWS_U8, 9);
}

/* The square of a mean input may be 0 or subnormal, and its reciprocal infinite: the gradient stays finite. */
static void tiny_inputs(void **state)
{
    (void)state;
    static examples e;
    static const float scales[] = {1e-10f, 1e-18f, 1e-20f, 1e-21f, 1e-22f, 1e-30f, 1e-45f};
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        make_examples(&e, YK_ROWS_F32);
        for (size_t i = 0; i < (size_t)ROWS * DIM; i++)
            e.rows.f32[i] *= scales[k];
        yk_model *m;
        yk_workspace *w;
        make_model("logreg", YK_ROWS_F32, &m, &w);
        float params[DIM + 1] = {0}, g[DIM + 1];
        gradient(m, w, params, N, &e.batch, g);
        for (size_t i = 0; i < m->nparams; i++)
            if (!isfinite(g[i]))
                fail_msg("inputs of about %g: gradient %zu is %g", (double)scales[k], i, (double)g[i]);
        yk_workspace_free(m, w);
        yk_model_free(m);
        yk_rows_fini(&e.rows);
    }
}

/* Training loss after descent with gradients that are N - 1 steps old. */
static double descend(const char *name, yk_rows_kind kind, int in_flight)
{
    static examples e;
    make_examples(&e, kind);
    yk_model *m;
    yk_workspace *w;
    make_model(name, kind, &m, &w);
    float *params = calloc(m->nparams, sizeof *params), *old = calloc(N * m->nparams, sizeof *old);
    assert_true(params && old);
    if (m->ops->init)
        m->ops->init(m, 0, params, 1);
    yk_rng r = yk_rng_seed(3, 0);
    for (size_t t = 0; t < 1500; t++) {
        float *g = old + t % N * m->nparams;
        for (size_t i = 0; t >= N && i < m->nparams; i++)
            params[i] -= 0.5f / BATCH * g[i];
        for (size_t i = 0; i < BATCH; i++)
            e.pick[i] = yk_rng_below(&r, ROWS);
        gradient(m, w, params, in_flight, &e.batch, g);
    }
    double loss = 0.0;
    yk_view v = {.w = params};
    float p[BATCH * CLASSES];
    for (uint32_t at = 0; at < ROWS; at += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++)
            e.pick[i] = at + i;
        m->ops->predict(m, w, &v, &e.batch, p, &loss);
    }
    free(params), free(old);
    yk_workspace_free(m, w);
    yk_model_free(m);
    yk_rows_fini(&e.rows);
    return loss / ROWS;
}

static void stale_descent_converges(void **state)
{
    (void)state;
    const struct {
        const char *name;
        yk_rows_kind kind;
    } model[] = {{"logreg", YK_ROWS_F32}, {"softmax", YK_ROWS_U8}, {"dense 3", YK_ROWS_F32}};
    for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
        const double with = descend(model[i].name, model[i].kind, N),
                     without = descend(model[i].name, model[i].kind, 0);
        if (!(with < 0.3) || without < 2.0 * with)
            fail_msg("%s: loss %g; %g without the rule", model[i].name, with, without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_and_kind_of_rows),
        cmocka_unit_test(tiny_inputs),
        cmocka_unit_test(stale_descent_converges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
