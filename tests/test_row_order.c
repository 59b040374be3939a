/* A prediction depends only on its row: not on the label, the position of the row in the batch, the other rows, the alignment of
 * memory or the number of threads. Every kind of model, on every instruction set of this processor. */
#include "scratch.h"

#include "base/rng.h"
#include "kern/isa.h"
#include "model/model.h"
#include <stdbool.h>

enum { DIM = 8 * 9 * 3, ROWS = 75, MAX_OUTPUTS = 10, MAX_ENTRIES = 41, FIELDS = 4 };

static yk_rng random_state;

static float any(void)
{
    return (float)(2 * yk_rng_unit(&random_state) - 1);
}

/* Every third sparse row has one to four entries, like rows of a data set with few columns. */
static void make_rows(yk_rows *rows, yk_rows_kind kind, uint32_t classes)
{
    yk_rows_init(rows, kind, kind == YK_ROWS_SPARSE ? 0 : DIM);
    for (size_t r = 0; r < ROWS; r++) {
        uint32_t *index;
        uint16_t *field;
        float *value, *f32;
        uint8_t *u8;
        size_t n = r % 3 ? 1 + r % MAX_ENTRIES : 1 + r % 4;
        if (kind == YK_ROWS_SPARSE) {
            assert_int_equal(yk_rows_sparse(rows, n, &index, &value), YK_OK);
            assert_int_equal(yk_rows_fields(rows, n, &field), YK_OK);
            for (size_t e = 0; e < n; e++) {
                index[e] = (uint32_t)(e * (DIM / MAX_ENTRIES) + yk_rng_below(&random_state, 5));
                value[e] = any();
                field[e] = (uint16_t)(e * FIELDS / n);
            }
        } else if (kind == YK_ROWS_F32) {
            assert_int_equal(yk_rows_dense_f32(rows, &f32), YK_OK);
            for (size_t d = 0; d < DIM; d++)
                f32[d] = yk_rng_below(&random_state, 4) ? any() : 0.0f;
        } else {
            assert_int_equal(yk_rows_dense_u8(rows, &u8), YK_OK);
            for (size_t d = 0; d < DIM; d++)
                u8[d] = (uint8_t)(yk_rng_below(&random_state, 4) ? yk_rng_below(&random_state, 256) : 0);
        }
        assert_int_equal(yk_rows_commit(rows, n, (int32_t)yk_rng_below(&random_state, classes)), YK_OK);
    }
    if (kind == YK_ROWS_SPARSE)
        rows->dim = DIM;
}

typedef struct {
    const yk_model *model;
    const yk_rows *rows;
    yk_view view[YK_MAX_GROUPS];
    float expected[ROWS][MAX_OUTPUTS];
    const char *isa;
} problem;

static void assert_row(const problem *p, size_t r, const float *got, const char *how)
{
    if (memcmp(got, p->expected[r], p->model->outputs * sizeof *got) != 0)
        fail_msg("%s, %s: row %zu has the probability %.9g alone, %.9g %s", p->isa, p->model->ops->name, r,
                 (double)p->expected[r][0], (double)got[0], how);
}

/* Predicts the rows in a random order, in batches of at most `batch`. */
static void check_batches(const problem *p, const yk_rows *rows, size_t batch, const char *how)
{
    yk_workspace *work;
    uint32_t order[ROWS];
    float got[ROWS * MAX_OUTPUTS];
    assert_int_equal(yk_workspace_create(p->model, batch, &work), YK_OK);
    for (uint32_t i = 0; i < ROWS; i++)
        order[i] = i;
    for (uint32_t i = ROWS; i-- > 1;) {
        const uint32_t j = yk_rng_below(&random_state, i + 1), old = order[i];
        order[i] = order[j];
        order[j] = old;
    }
    for (size_t at = 0; at < ROWS; at += batch) {
        double loss = 0;
        const yk_batch b = {
            .rows = rows, .pick = order + at, .n = ROWS - at < batch ? ROWS - at : batch, .ahead = 0};
        p->model->ops->predict(p->model, work, p->view, &b, got, at % 2 ? &loss : NULL);
        for (size_t i = 0; i < b.n; i++)
            assert_row(p, order[at + i], got + i * p->model->outputs, how);
    }
    yk_workspace_free(p->model, work);
}

/* Copies n bytes to an address with this remainder modulo 64. */
static void *moved(const void *from, size_t n, size_t remainder, void **memory_out)
{
    char *at = from ? aligned_alloc(64, (n + 127) / 64 * 64) : NULL;
    *memory_out = at;
    assert_true(!from || at);
    return at ? memcpy(at + remainder, from, n) : NULL;
}

static void check_labels(const problem *p)
{
    yk_rows rows = *p->rows;
    int32_t zeros[ROWS] = {0};
    rows.label = zeros;
    check_batches(p, &rows, ROWS, "with another label");
}

static void check_alignment(const problem *p, size_t remainder)
{
    yk_rows rows = *p->rows;
    void *memory[4];
    const size_t entries = rows.kind == YK_ROWS_SPARSE ? rows.start[ROWS] : 0;
    rows.u8 = moved(rows.u8, ROWS * DIM, remainder / 4, &memory[0]);
    rows.f32 = moved(rows.f32, ROWS * DIM * sizeof *rows.f32, remainder, &memory[1]);
    rows.index = moved(rows.index, entries * sizeof *rows.index, remainder, &memory[2]);
    rows.value = moved(rows.value, entries * sizeof *rows.value, remainder, &memory[3]);
    check_batches(p, &rows, ROWS, "at another address");
    for (int i = 0; i < 4; i++)
        free(memory[i]);
}

static void check_model(const char *name, yk_rows_kind kind, uint32_t classes, const char *isa)
{
    problem p = {.isa = isa};
    const bool sparse = kind == YK_ROWS_SPARSE;
    yk_rows rows;
    yk_model *model;
    yk_workspace *work;
    float got[ROWS * MAX_OUTPUTS];
    make_rows(&rows, kind, classes);
    yk_model_shape shape = {.kind = kind, .dim = DIM, .classes = classes, .bias = true, .fields = FIELDS};
    if (!sparse)
        shape.channels = 3, shape.height = 8, shape.width = 9;
    if (yk_model_create(name, &shape, &model))
        fail_msg("%s: %s", name, yk_error());
    float *params = aligned_alloc(64, (model->nparams + 64) / 16 * 64);
    assert_non_null(params);
    for (int g = 0; g < model->ngroups; g++) {
        const size_t begin = yk_model_group_offset(model, g), end = yk_model_group_offset(model, g + 1);
        for (size_t i = begin; i < end; i++)
            params[i] = any();
        if (model->ops->init)
            model->ops->init(model, g, params + begin, 3);
        p.view[g].w = params + begin;
    }
    p.model = model;
    p.rows = &rows;
    assert_int_equal(yk_workspace_create(model, 1, &work), YK_OK);
    for (uint32_t i = 0; i < ROWS; i++)
        model->ops->predict(model, work, p.view, &(yk_batch){.rows = &rows, .pick = &i, .n = 1},
                            p.expected[i], NULL);
    yk_workspace_free(model, work);
    check_batches(&p, &rows, 5, "in a batch of 5");
    check_batches(&p, &rows, 32, "in a batch of 32");
    check_batches(&p, &rows, ROWS, "in one batch");
    check_labels(&p);
    for (size_t remainder = 4; remainder < 64; remainder += 28)
        check_alignment(&p, remainder);
    for (int threads = 2; threads <= 3; threads++) {
        model->shape.threads = threads;
        check_batches(&p, &rows, ROWS, "with several threads");
    }
    model->shape.threads = 1;
    if (model->ops->predict_unchecked) {
        assert_int_equal(yk_workspace_create(model, ROWS, &work), YK_OK);
        if (sparse && model->ops->predict_unchecked(model, work, p.view, &rows, got))
            for (size_t i = 0; i < ROWS; i++)
                assert_row(&p, i, got + i * model->outputs, "without checks");
        yk_workspace_free(model, work);
    }
    yk_model_free(model);
    free(params);
    yk_rows_fini(&rows);
}

static void predictions_depend_only_on_the_row(void **state)
{
    static const char *const networks[] = {
        "dense 33, relu, dense 10",
        "conv 5 3x3 same, tanh, maxpool 2, dense 10",
        "conv 6 3x2 /2, sigmoid, avgpool 2, dense 17, dropout 0.5, relu, dense 10",
        "conv 4 5x5 same, relu, lrn, maxpool 3 /2, flatten, dense 10",
    };
    (void)state;
    const yk_isa best = yk_isa_best();
    for (yk_isa isa = YK_ISA_BASE; isa <= best; isa++) {
        const char *name = yk_isa_name(isa);
        random_state = yk_rng_seed(1, 0);
        setenv("YK_ISA", name, 1);
        assert_int_equal(yk_isa_best(), isa);
        for (int kind = YK_ROWS_U8; kind <= YK_ROWS_SPARSE; kind++) {
            check_model("logreg", (yk_rows_kind)kind, 2, name);
            for (uint32_t classes = 2; classes <= MAX_OUTPUTS; classes += 4)
                check_model("softmax", (yk_rows_kind)kind, classes, name);
            for (size_t i = 0; kind != YK_ROWS_SPARSE && i < sizeof networks / sizeof *networks; i++)
                check_model(networks[i], (yk_rows_kind)kind, 10, name);
        }
        check_model("fm:4", YK_ROWS_SPARSE, 2, name);
        check_model("fm:16", YK_ROWS_SPARSE, 2, name);
        check_model("wide-deep:8", YK_ROWS_SPARSE, 2, name);
        check_model("deepfm:16", YK_ROWS_SPARSE, 2, name);
        unsetenv("YK_ISA");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(predictions_depend_only_on_the_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
