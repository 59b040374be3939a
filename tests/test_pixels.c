/* The kernels for batches of many images, for every instruction set of this processor, against the reference; and softmax
 * regression with few images against the same with many, which uses other kernels. */
#include "references.h"
#include "scratch.h"

#include "base/rng.h"
#include "kern/pixels.h"
#include "model/model.h"
#include <math.h>

#define EACH_ISA(isa) for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)

static yk_rng random_state;

static float uniform(void)
{
    return (float)yk_rng_unit(&random_state) * 2.0f - 1.0f;
}

static void assert_near(double got, double expected, double bound, const char *what, yk_isa isa, size_t i)
{
    if (!(fabs(got - expected) <= bound))
        fail_msg("%s, %s, number %zu: %.9g is not %.9g (to %.2g)", what, yk_isa_name(isa), i, got, expected,
                 bound);
}

/* Images from all black to all bright, with black spans. Allocated exactly. */
static void make_pictures(yk_rows *rows, size_t dim, size_t n)
{
    yk_rows_init(rows, YK_ROWS_U8, dim);
    for (size_t i = 0; i < n; i++) {
        uint8_t *row;
        const uint32_t density = yk_rng_below(&random_state, 5);
        bool lit = false;
        assert_int_equal(yk_rows_dense_u8(rows, &row), YK_OK);
        for (size_t d = 0; d < dim; d++) {
            if (d % 8 == 0)
                lit = yk_rng_below(&random_state, 4) < density;
            row[d] = lit ? (uint8_t)yk_rng_below(&random_state, 256) : 0;
        }
        assert_int_equal(yk_rows_commit(rows, 0, (int32_t)yk_rng_below(&random_state, 3)), YK_OK);
    }
    uint8_t *exact = malloc(n * dim);
    assert_non_null(exact);
    memcpy(exact, rows->u8, n * dim);
    free(rows->u8);
    rows->u8 = exact;
}

typedef struct {
    float *transposed, *Z, *G;
    yk_spans spans;
} results;

static results results_for(size_t dim, size_t ld, size_t n)
{
    const size_t spans = YK_PIXELS_SPANS(dim);
    results r = {.transposed = malloc(ld * spans * YK_SPAN * sizeof(float)),
                 .Z = calloc((n + YK_SPAN) * ld, sizeof(float)),
                 .G = malloc(dim * ld * sizeof(float)),
                 .spans = {n, malloc(spans * n * YK_SPAN), malloc(spans * n * sizeof(uint32_t)),
                           malloc(spans * sizeof(uint32_t))}};
    assert_true(r.transposed && r.Z && r.G && r.spans.bytes && r.spans.offset && r.spans.end);
    for (size_t i = 0; i < dim * ld; i++)
        r.G[i] = -77.0f;
    return r;
}

static void results_free(results *r)
{
    free(r->transposed);
    free(r->Z);
    free(r->G);
    free(r->spans.bytes);
    free(r->spans.offset);
    free(r->spans.end);
}

static void products(yk_isa isa, const yk_rows *rows, size_t classes, size_t n)
{
    const size_t dim = rows->dim, ld = (classes + 3) / 4 * 4, padded = YK_PIXELS_PADDED(dim);
    uint32_t pick[64];
    for (size_t i = 0; i < n + 3; i++)
        pick[i] = yk_rng_below(&random_state, (uint32_t)rows->n);
    const yk_batch b = {.rows = rows, .pick = pick, .n = n, .ahead = 3};
    const yk_pixels_ops *ops = YK_ISA_AT(yk_pixels, isa);
    float *W = malloc(dim * ld * sizeof *W), *bias = malloc(ld * sizeof *bias);
    assert_true(W && bias);
    for (size_t i = 0; i < dim * ld; i++)
        W[i] = uniform();
    for (size_t c = 0; c < ld; c++)
        bias[c] = uniform();
    results got = results_for(dim, ld, n), right = results_for(dim, ld, n);

    ops->transpose(W, dim, ld, classes, got.transposed);
    yk_pixels_ref.transpose(W, dim, ld, classes, right.transposed);
    assert_memory_equal(got.transposed, right.transposed, classes * padded * sizeof(float));

    ops->logits(got.transposed, bias, classes, &b, &got.spans, got.Z);
    yk_pixels_ref.logits(right.transposed, bias, classes, &b, &right.spans, right.Z);
    for (size_t i = 0; i < (n + YK_SPAN) * ld; i++)
        assert_near((double)got.Z[i], (double)right.Z[i], 2e-7 * (double)(dim + 4), "logits", isa, i);
    for (size_t s = 0; s < YK_PIXELS_SPANS(dim); s++) {
        assert_int_equal(got.spans.end[s], right.spans.end[s]);
        for (size_t e = s * n; e < right.spans.end[s]; e++) {
            assert_int_equal(got.spans.offset[e], right.spans.offset[e]);
            assert_memory_equal(got.spans.bytes + e * YK_SPAN, right.spans.bytes + e * YK_SPAN, YK_SPAN);
        }
    }

    for (size_t i = 0; i < (n + YK_SPAN) * ld; i++)
        got.Z[i] = uniform();
    ops->outer(got.Z, classes, rows, &got.spans, ld, got.G);
    yk_pixels_ref.outer(got.Z, classes, rows, &right.spans, ld, right.G);
    for (size_t i = 0; i < dim * ld; i++) /* including values that must not change */
        assert_near((double)got.G[i], (double)right.G[i], 2e-7 * (double)(n + 4), "outer", isa, i);
    results_free(&got);
    results_free(&right);
    free(W);
    free(bias);
}

static void images_times_matrix(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 15, 16, 17, 63, 64, 100, 784, 1024, 1051};
    random_state = yk_rng_seed(11, 0);
    for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) {
        yk_rows rows;
        make_pictures(&rows, dims[k], 20);
        EACH_ISA(isa)
        for (size_t classes = 1; classes <= 26; classes += classes < 12 ? 1 : 7)
            for (size_t n = 1; n <= 40; n += 13)
                products(isa, &rows, classes, n);
        yk_rows_fini(&rows);
    }
}

/* The same images in one large batch and in many small ones: the same gradient up to rounding. */
static void large_and_small_batches_agree(void **state)
{
    (void)state;
    enum { N = 60, DIM = 50, CLASSES = 3 };
    random_state = yk_rng_seed(12, 0);
    yk_rows rows;
    make_pictures(&rows, DIM, N);
    yk_model *m;
    yk_workspace *work;
    assert_int_equal(
        yk_model_create(
            "softmax",
            &(yk_model_shape){
                .kind = YK_ROWS_U8, .dim = DIM, .classes = CLASSES, .height = 1, .width = DIM, .channels = 1},
            &m),
        YK_OK);
    assert_int_equal(yk_workspace_create(m, N, &work), YK_OK);
    float *w = calloc(m->nparams, sizeof *w);
    double *sum = calloc(m->nparams, sizeof *sum), loss = 0.0;
    assert_true(w && sum);
    for (size_t i = 0; i < m->nparams; i++)
        w[i] = i % 4 < CLASSES ? uniform() : 0.0f;
    uint32_t pick[N];
    for (uint32_t i = 0; i < N; i++)
        pick[i] = i;
    const yk_view view = {.w = w};
    yk_grad g;
    for (size_t i = 0; i < N; i += 5) {
        m->ops->grad(m, work, &view, &(yk_batch){&rows, pick + i, 5, 0, 0}, &g);
        for (size_t k = 0; k < m->nparams; k++)
            sum[k] += (double)g.group[0].dense[k];
        loss += g.loss;
    }
    m->ops->grad(m, work, &view, &(yk_batch){&rows, pick, N, 0, 0}, &g);
    assert_int_equal(g.examples, N);
    assert_near(g.loss, loss, 1e-5 * loss, "loss", yk_isa_best(), 0);
    for (size_t k = 0; k < m->nparams; k++)
        assert_near((double)g.group[0].dense[k], sum[k], 2e-5, "gradient", yk_isa_best(), k);
    yk_workspace_free(m, work);
    yk_model_free(m);
    free(w);
    free(sum);
    yk_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_times_matrix),
        cmocka_unit_test(large_and_small_batches_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
