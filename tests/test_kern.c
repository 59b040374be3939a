/* The kernels of the linear models, for every instruction set of this processor, against the reference. */
#include "references.h"
#include "scratch.h"

#include "base/rng.h"
#include "kern/linear.h"
#include "kern/matrix.h"
#include <math.h>

static yk_rng random_state;

static float uniform(float low, float high)
{
    return low + (high - low) * (float)yk_rng_unit(&random_state);
}

#define EACH_ISA(isa) for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)
#define OPS(isa)      YK_ISA_AT(yk_linear, isa)
#define MATRIX(isa)   YK_ISA_AT(yk_matrix, isa)

static void assert_close(double got, double expected, double bound, const char *what, yk_isa isa, size_t i)
{
    if (!(fabs(got - expected) <= bound))
        fail_msg("%s, %s, number %zu: %.9g is not %.9g (to %.2g)", what, yk_isa_name(isa), i, got, expected,
                 bound);
}

/* ---- rows and batches */

enum { DIM = 700, ROWS = 110 };

/* Rows with about as many entries as vectors have lanes. Small keys are frequent; the last two do not occur. */
static void make_rows(yk_rows *rows, bool values)
{
    static const size_t entries[] = {0, 1, 39, 15, 16, 17, 3, 200, 32, 7, 64};
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    for (int i = 0; i < ROWS; i++) {
        uint32_t *index;
        float *value;
        size_t want = entries[(size_t)i % (sizeof entries / sizeof *entries)], n = 0;
        bool taken[DIM] = {false};
        assert_int_equal(yk_rows_sparse(rows, want, &index, &value), YK_OK);
        while (n < want) {
            uint32_t k = yk_rng_below(&random_state, yk_rng_below(&random_state, 3) ? DIM - 2 : 60);
            if (taken[k])
                continue;
            taken[k] = true;
            index[n] = k;
            if (values) {
                value[n] = uniform(0.25f, 2.0f);
                value[n] *= yk_rng_below(&random_state, 2) ? 1.0f : -1.0f;
            }
            n++;
        }
        assert_int_equal(yk_rows_commit(rows, n, (int32_t)yk_rng_below(&random_state, 2)), YK_OK);
        assert_int_equal(yk_rows_entries(rows, rows->n - 1), want);
    }
    assert_true((rows->value != NULL) == values);
}

/* A batch of n random rows, some more than once, followed by `ahead` announced ones. */
static yk_batch some_batch(const yk_rows *rows, uint32_t *pick, size_t n, size_t ahead)
{
    for (size_t i = 0; i < n + ahead; i++)
        pick[i] = yk_rng_below(&random_state, (uint32_t)rows->n);
    return (yk_batch){rows, pick, n, ahead};
}

/* The sum of the absolute values of a row's terms: rounding errors are proportional to it. */
static double row_magnitude(const yk_batch *b, size_t i, const yk_view *v)
{
    double sum = 1e-6;
    for (uint64_t e = b->rows->start[b->pick[i]]; e < b->rows->start[b->pick[i] + 1]; e++)
        sum += fabs((double)v->w[yk_view_at(v, b->rows->index[e])] *
                    (b->rows->value ? (double)b->rows->value[e] : 1.0));
    return sum;
}

/* ---- one weight per column */

/* The weights: a shared table and a copy of its first part, before or after it. Allocated exactly, so that a sanitizer
 * detects any access outside. */
typedef struct {
    float *block;
    size_t size;
    yk_view view;
} table;

static table make_table(uint32_t hot, bool copy_first)
{
    table t = {.size = DIM + hot};
    t.block = malloc(t.size * sizeof *t.block);
    assert_non_null(t.block);
    for (size_t i = 0; i < t.size; i++)
        t.block[i] = uniform(-1, 1);
    t.view = (yk_view){
        .w = copy_first ? t.block + hot : t.block, .hot = hot, .shift = copy_first ? -(int32_t)hot : DIM};
    return t;
}

/* less than 4e-7 of the magnitude: a few roundings of 6e-8, although 200 numbers are added */
static void margins_and_sums(yk_isa isa, const yk_rows *rows, uint32_t hot, bool copy_first, size_t n,
                             size_t ahead)
{
    uint32_t pick[80 + 40];
    float z[81], right[81], coef[80];
    table t = make_table(hot, copy_first),
          u = {.size = t.size, .block = malloc(t.size * sizeof *t.block), .view = t.view};
    assert_non_null(u.block);
    memcpy(u.block, t.block, t.size * sizeof *t.block);
    u.view.w = u.block + (t.view.w - t.block);
    yk_batch b = some_batch(rows, pick, n, ahead);
    for (size_t i = 0; i < n; i++)
        coef[i] = uniform(0.1f, 1.0f);
    z[n] = -77.0f;
    OPS(isa)->margins(&t.view, &b, z);
    yk_linear_ref.margins(&t.view, &b, right);
    for (size_t i = 0; i < n; i++)
        assert_close((double)z[i], (double)right[i], 4e-7 * row_magnitude(&b, i, &t.view), "margins", isa, i);
    assert_true(z[n] == -77.0f);
    OPS(isa)->add_rows(&t.view, &b, coef);
    yk_linear_ref.add_rows(&u.view, &b, coef);
    for (size_t i = 0; i < t.size; i++) /* at most 70 values below 2; a missing entry is at least 0.025 */
        assert_close((double)t.block[i], (double)u.block[i], 2e-5, "add_rows", isa, i);
    free(t.block);
    free(u.block);
}

static void sparse_rows_times_weights(void **state)
{
    (void)state;
    random_state = yk_rng_seed(1, 0);
    for (int values = 0; values < 2; values++) {
        yk_rows rows;
        make_rows(&rows, values);
        EACH_ISA(isa)
        {
            for (size_t n = 0; n <= 70; n++) {
                margins_and_sums(isa, &rows, 0, false, n, 0);
                margins_and_sums(isa, &rows, 48, true, n, n % 41);
                margins_and_sums(isa, &rows, 1 + (uint32_t)n * 9, false, n, 40);
            }
            margins_and_sums(isa, &rows, DIM, true, 70, 3); /* all keys have copies */
        }
        yk_rows_fini(&rows);
    }
}

/* Whether margins_unchecked() accepts the rows. If it does, its results are those of margins(). */
static bool accepts(yk_isa isa, const yk_rows *rows, const yk_view *v)
{
    uint32_t pick[ROWS];
    float z[ROWS], same[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        pick[i] = i;
    if (!OPS(isa)->margins_unchecked(v, rows, z))
        return false;
    OPS(isa)->margins(v, &(yk_batch){.rows = rows, .pick = pick, .n = rows->n}, same);
    assert_memory_equal(z, same, rows->n * sizeof *z);
    return true;
}

static void margins_check_the_rows(void **state)
{
    (void)state;
    random_state = yk_rng_seed(2, 0);
    yk_rows rows;
    make_rows(&rows, true);
    rows.dim = DIM;
    table t = make_table(0, false);
    EACH_ISA(isa)
    {
        for (rows.n = 0; rows.n < ROWS; rows.n++)
            assert_true(accepts(isa, &rows, &t.view));
        for (size_t r = 0; r < ROWS; r++) {
            if (rows.start[r] == rows.start[r + 1])
                continue;
            const uint64_t first = rows.start[r], last = rows.start[r + 1] - 1;
            const uint32_t index = rows.index[last];
            const float value = rows.value[first];
            rows.n = r + 1;
            rows.index[last] = r % 2 ? DIM : UINT32_MAX;
            assert_false(accepts(isa, &rows, &t.view));
            assert_false(yk_linear_ref.margins_unchecked(&t.view, &rows, (float[ROWS]){0}));
            rows.index[last] = index;
            rows.value[first] = r % 2 ? NAN : INFINITY;
            assert_false(accepts(isa, &rows, &t.view));
            rows.n = r;
            assert_true(accepts(isa, &rows, &t.view));
            rows.value[first] = value;
        }
    }
    free(t.block);
    yk_rows_fini(&rows);
}

/* ---- many steps of one row */

enum { BIAS_KEY = 5 };

/* Against the reference, and bit-identical to the same rows in several batches. */
static void steps_of_rows(yk_isa isa, const yk_rows *rows, uint32_t hot, bool copy_first, uint32_t bias,
                          size_t n, size_t ahead)
{
    uint32_t pick[80 + 40];
    float loss[81], cut_loss[80], right[80];
    table t = make_table(hot, copy_first);
    const size_t bytes = t.size * sizeof *t.block;
    float *block[2] = {malloc(bytes), malloc(bytes)}; /* for the reference, and for the smaller batches */
    yk_view view[2] = {t.view, t.view};
    for (int k = 0; k < 2; k++) {
        assert_non_null(block[k]);
        memcpy(block[k], t.block, bytes);
        view[k].w = block[k] + (t.view.w - t.block);
    }
    yk_batch b = some_batch(rows, pick, n, ahead);
    loss[n] = -77.0f;
    OPS(isa)->sgd_steps(&t.view, &b, bias, 0.01f, loss);
    assert_true(loss[n] == -77.0f);
    yk_linear_ref.sgd_steps(&view[0], &b, bias, 0.01f, right);
    for (size_t i = 0; i < n; i++)
        assert_close((double)loss[i], (double)right[i], 1e-4, "loss of a step", isa, i);
    for (size_t i = 0; i < t.size; i++)
        assert_close((double)t.block[i], (double)block[0][i], 2e-5, "sgd_steps", isa, i);
    for (size_t at = 0, size; at < n; at += size) {
        size = at == 0 ? (n + 2) / 3 : n - at < 7 ? n - at : 7;
        yk_batch piece = {rows, pick + at, size, n - at - size + ahead};
        OPS(isa)->sgd_steps(&view[1], &piece, bias, 0.01f, cut_loss + at);
    }
    assert_memory_equal(loss, cut_loss, n * sizeof *loss);
    assert_memory_equal(t.block, block[1], bytes);
    free(t.block);
    free(block[0]);
    free(block[1]);
}

static void sgd_steps_match_the_reference(void **state)
{
    (void)state;
    random_state = yk_rng_seed(6, 0);
    for (int values = 0; values < 2; values++) {
        yk_rows rows;
        make_rows(&rows, values);
        /* the bias must not be a key of a row: moves the keys from there on */
        for (uint64_t e = 0; e < rows.start[rows.n]; e++)
            rows.index[e] += rows.index[e] >= BIAS_KEY;
        EACH_ISA(isa)
        {
            for (size_t n = 0; n <= 70; n++) {
                steps_of_rows(isa, &rows, 0, false, UINT32_MAX, n, 0);
                steps_of_rows(isa, &rows, 48, true, BIAS_KEY, n, n % 41);
                steps_of_rows(isa, &rows, 1 + (uint32_t)n * 9, false, DIM - 1, n, 40);
            }
        }
        yk_rows_fini(&rows);
    }
}

/* ---- the logistic loss */

/* Bounds: 2e-7 for the error, or a relative 1e-6 if the label is 0; 3e-7 of 1 + |z| for the loss. */
static void assert_logistic(yk_isa isa, const float *z, const yk_batch *b)
{
    float err[81], right[81];
    double sum = 0;
    err[b->n] = -77.0f;
    double loss = OPS(isa)->logistic(z, b, err);
    double expected = yk_linear_ref.logistic(z, b, right);
    for (size_t i = 0; i < b->n; i++) {
        assert_close((double)err[i], (double)right[i], 2e-7, "logistic", isa, i);
        if (b->rows->label[b->pick[i]] == 0 && z[i] > -80.0f)
            assert_close((double)err[i], (double)right[i], 1e-6 * (double)right[i], "logistic of 0", isa, i);
        sum += 1 + fabs((double)z[i]);
    }
    assert_close(loss, expected, 3e-7 * sum, "logistic loss", isa, b->n);
    assert_true(err[b->n] == -77.0f);
}

static void logistic_matches_the_reference(void **state)
{
    (void)state;
    random_state = yk_rng_seed(2, 0);
    yk_rows rows;
    uint32_t pick[80];
    float weight[ROWS];
    make_rows(&rows, false);
    for (size_t i = 0; i < ROWS; i++)
        weight[i] = uniform(0.1f, 1.0f);
    EACH_ISA(isa)
    {
        for (size_t n = 0; n <= 70; n++)
            for (int scale = 0; scale < 3; scale++) {
                float z[80];
                rows.weight = scale == 1 ? weight : NULL;
                yk_batch b = some_batch(&rows, pick, n, 0);
                for (size_t i = 0; i < n; i++)
                    z[i] = uniform(-1, 1) * (scale == 0 ? 1.0f : scale == 1 ? 10.0f : 120.0f);
                assert_logistic(isa, z, &b);
            }
        static const float odd[] = {0.0f,    -0.0f,  1e-30f, -1e-30f, 1e-7f,   16.6f,   -16.6f,
                                    40.0f,   -40.0f, 87.3f,  -87.3f,  88.8f,   -88.8f,  103.9f,
                                    -103.9f, 104.1f, 1e4f,   -1e4f,   3.4e38f, -3.4e38f};
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
            for (uint32_t r = 0; r < ROWS; r++)
                assert_logistic(isa, &odd[k], &(yk_batch){&rows, &r, 1, 0});
    }
    yk_rows_fini(&rows);
}

static void logistic_handles_infinity_and_nan(void **state)
{
    (void)state;
    random_state = yk_rng_seed(3, 0);
    yk_rows rows;
    make_rows(&rows, false);
    uint32_t yes = 0, no = 0;
    while (rows.label[yes] != 1)
        yes++;
    while (rows.label[no] != 0)
        no++;
    const uint32_t pick[] = {yes, no, yes, no, no};
    EACH_ISA(isa)
    {
        const yk_linear_ops *both[] = {OPS(isa), &yk_linear_ref};
        for (int k = 0; k < 2; k++) {
            float err[5];
            /* correct with certainty: loss 0. Wrong with certainty: loss infinite, error 1 */
            double loss =
                both[k]->logistic((float[]){INFINITY, -INFINITY}, &(yk_batch){&rows, pick, 2, 0}, err);
            assert_true(fabs(loss) < 1e-6 && fabsf(err[0]) < 1e-6f && fabsf(err[1]) < 1e-6f);
            loss = both[k]->logistic((float[]){-INFINITY, INFINITY}, &(yk_batch){&rows, pick, 2, 0}, err);
            assert_true(isinf(loss) && loss > 0 && err[0] == -1.0f && err[1] == 1.0f);
            for (size_t bad = 0; bad < 5; bad++) { /* one NaN affects the loss and its own error only */
                float z[5] = {1, 2, -3, 0.5f, -1};
                z[bad] = NAN;
                assert_true(isnan(both[k]->logistic(z, &(yk_batch){&rows, pick, 5, 0}, err)));
                for (size_t i = 0; i < 5; i++)
                    assert_true(i == bad ? isnan(err[i]) : fabsf(err[i]) < 1.0f);
            }
        }
    }
    yk_rows_fini(&rows);
}

/* ---- packing of dense rows */

static yk_rows room_for(size_t n, size_t entries)
{
    yk_rows p;
    yk_rows_init(&p, YK_ROWS_SPARSE, 0);
    p.start = calloc(n + 1, sizeof *p.start);
    p.label = calloc(n + 1, sizeof *p.label);
    p.index = malloc(entries * sizeof *p.index);
    p.value = malloc(entries * sizeof *p.value);
    assert_true(p.start && p.label && p.index && p.value);
    return p;
}

static void pack_all(yk_isa isa, const yk_rows *rows, size_t n, size_t ahead)
{
    uint32_t pick[80];
    yk_batch b = some_batch(rows, pick, n, ahead);
    yk_rows got = room_for(n, n * rows->dim + 16), right = room_for(n, n * rows->dim + 16);
    MATRIX(isa)->pack(&b, &got);
    yk_matrix_ref.pack(&b, &right);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.start, right.start, (n + 1) * sizeof *got.start);
    assert_memory_equal(got.label, right.label, n * sizeof *got.label);
    assert_memory_equal(got.index, right.index, right.start[n] * sizeof *got.index);
    assert_memory_equal(got.value, right.value, right.start[n] * sizeof *got.value);
    yk_rows_fini(&got);
    yk_rows_fini(&right);
}

static void dense_rows_are_packed(void **state)
{
    (void)state;
    random_state = yk_rng_seed(4, 0);
    static const size_t dims[] = {1, 7, 8, 15, 16, 17, 33, 784};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (int kind = 0; kind < 2; kind++) {
            yk_rows rows;
            yk_rows_init(&rows, kind ? YK_ROWS_F32 : YK_ROWS_U8, dims[d]);
            for (int i = 0; i < 20; i++) { /* from empty rows to full ones */
                uint8_t *u8 = NULL;
                float *f32 = NULL;
                assert_int_equal(kind ? yk_rows_dense_f32(&rows, &f32) : yk_rows_dense_u8(&rows, &u8), YK_OK);
                for (size_t k = 0; k < dims[d]; k++) {
                    bool zero = (int)yk_rng_below(&random_state, 19) >= i;
                    if (kind)
                        f32[k] = zero ? (k % 2 ? 0.0f : -0.0f) : uniform(-3, 3);
                    else
                        u8[k] = zero ? 0 : (uint8_t)(1 + yk_rng_below(&random_state, 255));
                }
                assert_int_equal(yk_rows_commit(&rows, 0, i % 10), YK_OK);
            }
            EACH_ISA(isa)
            for (size_t n = 0; n <= 20; n++)
                pack_all(isa, &rows, n, n % 3);
            yk_rows_fini(&rows);
        }
}

/* ---- a few weights per column */

static void matrix_products(yk_isa isa, const yk_rows *rows, size_t ld, size_t pad, size_t n)
{
    uint32_t pick[80];
    yk_batch b = some_batch(rows, pick, n, n % 4);
    const size_t size = rows->dim * ld, classes = ld - pad;
    float *W = malloc(size * sizeof *W), *G = malloc(size * sizeof *G), *right = malloc(size * sizeof *right);
    float *logits = malloc((n * ld + 1) * sizeof *logits), *expected = malloc((n * ld + 1) * sizeof *logits);
    float *bias = malloc(ld * sizeof *bias);
    assert_true(W && G && right && logits && expected && bias);
    for (size_t i = 0; i < size; i++) {
        W[i] = i % ld < classes ? uniform(-1, 1) : 0.0f;
        G[i] = right[i] = i % ld < classes ? uniform(-1, 1) : 0.0f;
    }
    for (size_t c = 0; c < ld; c++)
        bias[c] = c < classes ? uniform(-1, 1) : 0.0f;
    logits[n * ld] = -77.0f;
    MATRIX(isa)->rows_matrix(W, bias, ld, &b, logits);
    yk_matrix_ref.rows_matrix(W, bias, ld, &b, expected);
    for (size_t i = 0; i < n * ld; i++) {
        double entries = (double)yk_rows_entries(rows, pick[i / ld]); /* each at most 2 */
        assert_close((double)logits[i], (double)expected[i], 3e-7 * (1 + entries), "rows_matrix", isa, i);
        assert_true(i % ld < classes || logits[i] == 0.0f);
    }
    assert_true(logits[n * ld] == -77.0f);
    for (size_t i = 0; i < n * ld; i++)
        logits[i] = i % ld < classes ? uniform(-1, 1) : 0.0f;
    MATRIX(isa)->add_outer(G, ld, &b, logits);
    yk_matrix_ref.add_outer(right, ld, &b, logits);
    for (size_t i = 0; i < size; i++) {
        assert_close((double)G[i], (double)right[i], 2e-5, "add_outer", isa, i);
        assert_true(i % ld < classes || G[i] == 0.0f);
    }
    free(W);
    free(G);
    free(right);
    free(logits);
    free(expected);
    free(bias);
}

static void sparse_rows_times_matrix(void **state)
{
    (void)state;
    random_state = yk_rng_seed(5, 0);
    for (int values = 0; values < 2; values++) {
        yk_rows rows;
        make_rows(&rows, values);
        EACH_ISA(isa)
        for (size_t ld = 4; ld <= 40; ld += YK_CLASS_PAD)
            for (size_t n = 0; n <= 70; n = n < 5 ? n + 1 : n + 13)
                matrix_products(isa, &rows, ld, (n + ld / 4) % 4, n);
        yk_rows_fini(&rows);
    }
}

/* ---- the softmax */

/* Bounds: 4e-7 for probabilities, 1e-6 of 1 + loss for the loss of an example. */
static void assert_softmax(yk_isa isa, const float *logits, size_t classes, size_t ld, const yk_batch *b)
{
    static float got[80 * 40 + 1], right[80 * 40], p[80 * 40], probability[80 * 40];
    memcpy(got, logits, b->n * ld * sizeof *got);
    memcpy(right, logits, b->n * ld * sizeof *right);
    got[b->n * ld] = -77.0f;
    double loss = MATRIX(isa)->softmax(got, classes, ld, b, p),
           expected = yk_matrix_ref.softmax(right, classes, ld, b, probability);
    for (size_t i = 0; i < b->n * classes; i++)
        assert_close((double)p[i], (double)probability[i], 4e-7, "softmax", isa, i);
    for (size_t i = 0; i < b->n * ld; i++) {
        assert_close((double)got[i], (double)right[i], 4e-7, "softmax", isa, i);
        assert_true(i % ld < classes || got[i] == 0.0f);
    }
    assert_close(loss, expected, 1e-6 * ((double)b->n + fabs(expected)), "softmax loss", isa, b->n);
    assert_true(got[b->n * ld] == -77.0f);
}

static void class_labels(yk_rows *rows, size_t classes)
{
    for (size_t i = 0; i < rows->n; i++)
        rows->label[i] = (int32_t)yk_rng_below(&random_state, (uint32_t)classes);
}

static void softmax_matches_the_reference(void **state)
{
    (void)state;
    random_state = yk_rng_seed(6, 0);
    static float logits[80 * 40];
    uint32_t pick[80];
    yk_rows rows;
    float weight[ROWS];
    make_rows(&rows, false);
    for (size_t i = 0; i < ROWS; i++)
        weight[i] = uniform(0.1f, 1.0f);
    EACH_ISA(isa)
    for (size_t ld = 4; ld <= 40; ld += YK_CLASS_PAD)
        for (size_t classes = ld - 3 < 2 ? 2 : ld - 3; classes <= ld; classes++)
            for (size_t n = 0; n <= 70; n = n < 5 ? n + 1 : n + 13) {
                static const float scales[] = {0.1f, 5.0f, 90.0f, 1e4f};
                float scale = scales[(n + classes) % 4];
                class_labels(&rows, classes);
                rows.weight = n % 2 ? weight : NULL;
                yk_batch b = some_batch(&rows, pick, n, 0);
                for (size_t i = 0; i < n * ld; i++) /* the padding may hold anything */
                    logits[i] = i % ld < classes ? uniform(-scale, scale) : i % 2 ? 0.0f : 1e6f;
                assert_softmax(isa, logits, classes, ld, &b);
            }
    rows.weight = NULL;
    yk_rows_fini(&rows);
}

static void softmax_at_the_extremes(void **state)
{
    (void)state;
    random_state = yk_rng_seed(7, 0);
    yk_rows rows;
    make_rows(&rows, false);
    EACH_ISA(isa)
    for (int32_t y = 0; y < 3; y++) {
        const uint32_t pick[] = {1, 2};
        const yk_batch one = {&rows, pick, 1, 0}, two = {&rows, pick, 2, 0};
        rows.label[1] = rows.label[2] = y;
        assert_softmax(isa, (float[]){1e4f, -1e4f, 0, 0}, 3, 4, &one);
        assert_softmax(isa, (float[]){-1e4f, -1e4f, -1e4f, 0}, 3, 4, &one);
        assert_softmax(isa, (float[]){1e4f, 1e4f, 1e4f, 0}, 3, 4, &one);
        assert_softmax(isa, (float[]){0, 1e30f, -1e30f, 0}, 3, 4, &one);
        const yk_matrix_ops *both[] = {MATRIX(isa), &yk_matrix_ref};
        for (int k = 0; k < 2; k++) {
            float away[4] = {0.5f, -INFINITY, 0.5f, 0}; /* a class of probability 0 */
            double loss = both[k]->softmax(away, 3, 4, &one, NULL);
            assert_true(y == 1 ? isinf(loss) && loss > 0 : fabs(loss - log(2)) < 1e-6);
            assert_true(fabsf(away[1] + (y == 1)) < 1e-6f && away[3] == 0.0f);
            for (int bad = 0; bad < 3; bad++)
                for (int kind = 0; kind < 2; kind++) { /* the other example is not affected */
                    float logits[8] = {1, 2, 3, 0, 1, 2, 3, 0};
                    logits[bad] = kind ? INFINITY : NAN;
                    assert_true(isnan(both[k]->softmax(logits, 3, 4, &two, NULL)));
                    for (int c = 4; c < 8; c++)
                        assert_true(fabsf(logits[c]) < 1.0f);
                }
        }
    }
    yk_rows_fini(&rows);
}

/* ---- instruction sets */

static void the_environment_selects_an_instruction_set(void **state)
{
    (void)state;
    const yk_isa best = yk_isa_best();
    const char *had = getenv("YK_ISA");
    char kept[32] = "";
    if (had)
        snprintf(kept, sizeof kept, "%s", had);
    setenv("YK_ISA", "base", 1);
    assert_int_equal(yk_isa_best(), YK_ISA_BASE);
    assert_ptr_equal(yk_linear(), OPS(YK_ISA_BASE));
    setenv("YK_ISA", yk_isa_name(best), 1);
    assert_int_equal(yk_isa_best(), best);
    setenv("YK_ISA", "none such", 1);
    assert_true(yk_isa_best() >= best);
    unsetenv("YK_ISA");
    if (had)
        setenv("YK_ISA", kept, 1);
    assert_ptr_equal(yk_linear(), OPS(best));
    assert_string_equal(yk_isa_name(YK_ISA_BASE), "base");
}

/* ---- merging */

/* Many keys at once give the same bits and the same order as one by one, however full the table is. */
static void merged_rows_match_the_reference(void **state)
{
    (void)state;
    enum { KEYS = 1000 };
    random_state = yk_rng_seed(9, 0);
    yk_merger one = {0}, many = {0};
    assert_int_equal(yk_merger_reserve(&one, 4 * KEYS), YK_OK);
    assert_int_equal(yk_merger_reserve(&many, 600), YK_OK);
    assert_int_equal(many.cap, 1024); /* just enough for all keys */
    EACH_ISA(isa)
    for (int round = 0; round < 300; round++) {
        const uint32_t step = 1 + yk_rng_below(&random_state, UINT32_MAX / KEYS);
        yk_merger_clear(&one);
        yk_merger_clear(&many);
        for (int row = 0; row < 20; row++) {
            uint32_t key[KEYS], n = yk_rng_below(&random_state, row % 2 ? 200 : 20);
            const uint32_t first = yk_rng_below(&random_state, KEYS);
            float value[KEYS], scale = uniform(-1, 1);
            for (uint32_t i = 0; i < n; i++) {
                key[i] = (first + i * 7) % KEYS * step; /* 7 and 1000 have no common factor: each once */
                value[i] = uniform(-1, 1);
            }
            yk_linear_ref.merge(&one, key, row % 3 ? value : NULL, scale, n);
            OPS(isa)->merge(&many, key, row % 3 ? value : NULL, scale, n);
        }
        assert_int_equal(one.n, many.n);
        assert_memory_equal(one.key, many.key, one.n * sizeof *one.key);
        assert_memory_equal(one.value, many.value, one.n * sizeof *one.value);
    }
    yk_merger_fini(&one);
    yk_merger_fini(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_rows_times_weights),
        cmocka_unit_test(margins_check_the_rows),
        cmocka_unit_test(sgd_steps_match_the_reference),
        cmocka_unit_test(logistic_matches_the_reference),
        cmocka_unit_test(logistic_handles_infinity_and_nan),
        cmocka_unit_test(merged_rows_match_the_reference),
        cmocka_unit_test(dense_rows_are_packed),
        cmocka_unit_test(sparse_rows_times_matrix),
        cmocka_unit_test(softmax_matches_the_reference),
        cmocka_unit_test(softmax_at_the_extremes),
        cmocka_unit_test(the_environment_selects_an_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
