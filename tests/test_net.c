/* Networks: losses, probabilities and every value of every gradient against a reference network in doubles; threads, batch
 * sizes and kinds of rows; dropout. */
#include "plain_net.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"

static yk_rng random_state;

static double uniform(double low, double high)
{
    return low + (high - low) * yk_rng_unit(&random_state);
}

/* ---- a network and some images */

enum { MAX_BATCH = 100, CLASSES = 3 };

typedef struct {
    size_t channels, height, width;
} input;

typedef struct {
    yk_model *model;
    yk_workspace *work;
    yk_rows rows;
    uint32_t pick[MAX_BATCH];
    float *params;
    yk_batch batch;
    yk_grad grad;
} fixture;

static yk_status create(const char *list, input in, yk_rows_kind kind, int threads, yk_model **out)
{
    const yk_model_shape shape = {.kind = kind,
                                  .dim = in.channels * in.height * in.width,
                                  .classes = CLASSES,
                                  .bias = true,
                                  .channels = in.channels,
                                  .height = in.height,
                                  .width = in.width,
                                  .threads = threads};
    return yk_model_create(list, &shape, out);
}

static void make(fixture *f, const char *list, input in, size_t batch, yk_rows_kind kind, int threads)
{
    const size_t dim = in.channels * in.height * in.width, n = batch + 3;
    *f = (fixture){0};
    if (create(list, in, kind, threads, &f->model))
        fail_msg("%s: %s", list, yk_error());
    assert_int_equal(yk_workspace_create(f->model, batch, &f->work), YK_OK);
    random_state = yk_rng_seed(7, 1); /* the same for every number of threads */
    f->params = calloc(f->model->nparams, sizeof *f->params);
    assert_non_null(f->params);
    for (size_t i = 0; i < f->model->nparams; i++)
        f->params[i] = (float)uniform(-0.7, 0.7);
    yk_rows_init(&f->rows, kind, dim);
    for (size_t i = 0; i < n; i++) {
        float *f32 = NULL;
        uint8_t *u8 = NULL;
        assert_int_equal(
            kind == YK_ROWS_F32 ? yk_rows_dense_f32(&f->rows, &f32) : yk_rows_dense_u8(&f->rows, &u8), YK_OK);
        for (size_t d = 0; d < dim; d++)
            if (kind == YK_ROWS_F32)
                f32[d] = (float)uniform(-1, 1);
            else
                u8[d] = (uint8_t)yk_rng_below(&random_state, 256);
        assert_int_equal(yk_rows_commit(&f->rows, 0, (int32_t)yk_rng_below(&random_state, CLASSES)), YK_OK);
    }
    for (size_t i = 0; i < batch; i++)
        f->pick[i] = yk_rng_below(&random_state, (uint32_t)n); /* some twice */
    f->batch = (yk_batch){&f->rows, f->pick, batch, 0};
}

static double loss_of(fixture *f)
{
    const yk_view view = {.w = f->params};
    f->model->ops->grad(f->model, f->work, &view, &f->batch, &f->grad);
    assert_int_equal(f->grad.examples, f->batch.n);
    assert_non_null(f->grad.group[0].dense);
    return f->grad.loss;
}

static void unmake(fixture *f)
{
    yk_workspace_free(f->model, f->work);
    yk_model_free(f->model);
    yk_rows_fini(&f->rows);
    free(f->params);
}

static double *pixels_of(const fixture *f, size_t i, double *x)
{
    const size_t dim = f->rows.dim;
    for (size_t d = 0; d < dim; d++)
        x[d] = f->rows.kind == YK_ROWS_F32
                   ? (double)f->rows.f32[f->pick[i] * dim + d]
                   : (double)((float)f->rows.u8[f->pick[i] * dim + d] * f->rows.scale);
    return x;
}

/* ---- gradients in all parameters */

static double plain_loss(plain_net *net, const fixture *f, const double *params)
{
    double loss = 0, *x = calloc(f->rows.dim, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < f->batch.n; i++)
        loss += plain_net_loss(net, params, pixels_of(f, i, x), f->rows.label[f->pick[i]], NULL);
    free(x);
    return loss;
}

static void check_probabilities(fixture *f, plain_net *net, const double *params, const char *list)
{
    double loss = 1000, truth = 1000, x[512], right[CLASSES];
    float p[MAX_BATCH * CLASSES];
    const yk_view view = {.w = f->params};
    assert_true(f->rows.dim <= 512);
    f->model->ops->predict(f->model, f->work, &view, &f->batch, p, &loss); /* adds to the loss */
    for (size_t i = 0; i < f->batch.n; i++) {
        truth += plain_net_loss(net, params, pixels_of(f, i, x), f->rows.label[f->pick[i]], right);
        for (int c = 0; c < CLASSES; c++)
            if (!(fabs((double)p[i * CLASSES + (size_t)c] - right[c]) < 1e-5))
                fail_msg("%s: image %zu has class %d with probability %.9g, not %.9g", list, i, c, right[c],
                         (double)p[i * CLASSES + (size_t)c]);
    }
    assert_true(fabs(loss - truth) < 1e-5 * (double)f->batch.n);
}

/* The reference loss is in doubles: a step of 1e-5 rarely crosses a kink of relu or maxpool, and gives six digits. */
static void check_gradient(const char *list, input in, size_t batch, yk_rows_kind kind, int threads)
{
    fixture f;
    plain_net net;
    make(&f, list, in, batch, kind, threads);
    plain_net_make(&net, list, in.channels, in.height, in.width);
    assert_int_equal(net.nparams, f.model->nparams);
    double *params = calloc(net.nparams, sizeof *params), largest = 0;
    assert_non_null(params);
    for (size_t i = 0; i < net.nparams; i++)
        params[i] = (double)f.params[i];
    const double loss = loss_of(&f), truth = plain_loss(&net, &f, params), h = 1e-5;
    if (!(fabs(loss - truth) < 1e-5 * (double)batch))
        fail_msg("%s, batch %zu: the loss is %.9g, not %.9g", list, batch, truth, loss);
    for (size_t i = 0; i < net.nparams; i++)
        largest = fmax(largest, fabs((double)f.grad.group[0].dense[i]));
    for (size_t i = 0; i < net.nparams; i += SANITIZED ? 7 : 1) { /* a sanitizer needs only the calls */
        const double was = params[i];
        params[i] = was + h;
        const double up = plain_loss(&net, &f, params);
        params[i] = was - h;
        const double right = (up - plain_loss(&net, &f, params)) / (2 * h),
                     got = (double)f.grad.group[0].dense[i];
        params[i] = was;
        if (!(fabs(got - right) <= 1e-4 * fabs(right) + 3e-5 * (1.0 + largest)))
            fail_msg("%s, batch %zu, threads %d: gradient %zu of %zu is %.7g, not %.7g", list, batch, threads,
                     i, net.nparams, right, got);
    }
    check_probabilities(&f, &net, params, list);
    free(params);
    plain_net_free(&net);
    unmake(&f);
}

static const input small = {2, 7, 6}, plane = {1, 9, 9}, one = {3, 1, 1};

static void gradients_of_convolutions(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "conv 3 3x3, tanh, conv 2 3x3 valid, tanh, dense 3",
        "conv 3 3x3 same, tanh, conv 2 5x5 same, tanh, dense 3",
        "conv 2 3x3 pad 1, tanh, conv 3 3x3 pad 2, tanh, dense 3",
        "conv 2 3x3 pad 3, tanh, conv 2 2x2 pad 5, tanh, dense 3", /* padding wider than the filter */
        "conv 3 3x3 /2, tanh, conv 2 2x2, tanh, dense 3",
        "conv 2 1x1, tanh, conv 3 3x3 /2 same, tanh, dense 3",
        "conv 2 1x1, tanh, conv 3 3x3 /2 pad 2, tanh, dense 3",
        "conv 2 1x1, tanh, conv 3 3x3 /3 pad 1, tanh, dense 3",
        "conv 2 1x1, tanh, conv 2 2x2 /3, tanh, dense 3", /* pixels that no filter reads */
        "conv 2 1x1, tanh, conv 2 4x4 /3 pad 3, tanh, dense 3",
        "conv 2 1x1 /4, tanh, conv 2 1x1 /2, tanh, dense 3",
        "conv 2 1x1, tanh, conv 2 2x2 /9, tanh, dense 3",
        "conv 2 3x1, tanh, conv 2 1x4, tanh, conv 2 2x3 /2 pad 1, tanh, dense 3",
        "conv 2 5x2 pad 2, tanh, conv 2 2x5 pad 2 /2, tanh, dense 3",
        "conv 7 3x3, tanh, conv 5 3x3, tanh, dense 3",
        "conv 2 7x6, tanh, dense 3",       /* as large as the image */
        "conv 4 3x3, conv 2 3x3, dense 3", /* no layer in between */
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        check_gradient(lists[i], small, 3, i % 2 ? YK_ROWS_F32 : YK_ROWS_U8, 1);
    check_gradient("conv 2 11x11 /4 pad 2, tanh, conv 2 3x3 same, tanh, dense 3", (input){1, 19, 19}, 2,
                   YK_ROWS_F32, 1);
}

static void gradients_of_pools(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "conv 2 2x2, tanh, maxpool 2, dense 3",
        "conv 2 2x2, tanh, maxpool 3 /2, dense 3",
        "conv 2 1x1, tanh, maxpool 2 /3, dense 3",
        "conv 2 3x3 same, tanh, maxpool 2 /1, conv 2 3x3 same, tanh, maxpool 2, dense 3", /* borders on both sides */
        "conv 2 3x3 same, tanh, avgpool 2, dense 3",
        "conv 2 2x2, tanh, avgpool 3 /2, conv 2 2x2, tanh, dense 3",
        "conv 2 2x2, tanh, avgpool 3 /1, dense 3",
        "maxpool 2, conv 2 3x3, tanh, dense 3", /* first layer: a pool */
        "avgpool 2 /1, tanh, conv 2 3x3 pad 1, tanh, dense 3",
        "conv 3 9x9 pad 4, maxpool 9", /* no dense layer */
        "conv 3 1x1, avgpool 9",
        "conv 2 2x2, tanh, maxpool 2, avgpool 2, dense 3",
        "conv 2 2x2, tanh, maxpool 1, maxpool 2 /1, dense 3",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        check_gradient(lists[i], plane, 4, i % 2 ? YK_ROWS_F32 : YK_ROWS_U8, 1);
}

/* Layers that work in place overwrite the output of the previous layer, whose gradient must not need it. */
static void gradients_of_activations(void **state)
{
    (void)state;
    static const char *const between[] = {"relu",
                                          "tanh",
                                          "sigmoid",
                                          "flatten",
                                          "relu, tanh",
                                          "tanh, relu",
                                          "relu, sigmoid",
                                          "sigmoid, relu",
                                          "tanh, tanh",
                                          "tanh, sigmoid",
                                          "sigmoid, tanh",
                                          "relu, relu",
                                          "relu, flatten, tanh, sigmoid"};
    static const char *const before[] = {"conv 2 3x3 same",
                                         "conv 2 3x3, maxpool 2",
                                         "conv 2 3x3, maxpool 3 /2",
                                         "conv 2 3x3, avgpool 2",
                                         "conv 3 3x3, lrn 3 2.0 0.75 1",
                                         "dense 4",
                                         "conv 2 3x3, maxpool 2, relu",
                                         "conv 2 3x3, lrn 3 2.0 0.75 1, relu"};
    static const char *const after[] = {"dense 3", "conv 3 1x1, avgpool 1, dense 3",
                                        "lrn 3 1.0 0.75 1, dense 3"};
    char list[256];
    for (size_t b = 0; b < sizeof before / sizeof *before; b++)
        for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
            snprintf(list, sizeof list, "%s, %s, %s", before[b], between[i], after[(b + i) % 3]);
            check_gradient(list, (input){1, 6, 6}, 2, YK_ROWS_F32, 1);
        }
}

static void gradients_of_other_networks(void **state)
{
    (void)state;
    check_gradient("dense 3", small, 6, YK_ROWS_U8, 1);
    check_gradient("dense 3", one, 6, YK_ROWS_F32, 1);
    check_gradient("relu, dense 5, tanh, dense 3", small, 6, YK_ROWS_F32, 1); /* first layer: an activation */
    check_gradient("dense 17, tanh, dense 16, relu, dense 33, sigmoid, dense 3", one, 6, YK_ROWS_F32, 1);
    check_gradient("conv 3 3x3 same, tanh, dense 5, tanh, dense 3", small, 6, YK_ROWS_F32,
                   1); /* a border before dense */
    check_gradient("conv 3 3x3 same, tanh, flatten, dense 5, tanh, flatten, dense 3", small, 6, YK_ROWS_F32,
                   1);
    check_gradient("dense 6, tanh, conv 2 1x1 pad 1, tanh, dense 3", small, 6, YK_ROWS_F32,
                   1); /* conv of 6 x 1 x 1 */
    check_gradient("lrn 3 1.5 0.75 1, conv 3 3x3 same, lrn, tanh, dense 3", small, 6, YK_ROWS_F32, 1);
    check_gradient("conv 4 3x3 same, lrn 3 1.5 0.75 2, conv 3 5x5 same, lrn 5 2.5 0.5 1, dense 3", small, 6,
                   YK_ROWS_F32, 1);
    check_gradient("conv 4 3x3 same, lrn 2 1.5 0.75, maxpool 2, lrn 4 1.5, conv 2 3x3 pad 1, dense 3", small,
                   6, YK_ROWS_U8, 1);
    check_gradient("conv 4 3x3 same, lrn, lrn 3 2 1 1, dense 3", small, 6, YK_ROWS_F32, 1);
    check_gradient("conv 3 7x6", small, 6, YK_ROWS_F32,
                   1); /* last layer: a convolution with one pixel per class */
    check_gradient("conv 2 3x3, tanh, conv 3 5x4, tanh", small, 6, YK_ROWS_F32, 1);
    check_gradient("conv 1 7x4, tanh", small, 6, YK_ROWS_F32, 1); /* three pixels */
    check_gradient("conv 3 3x3 same, relu, maxpool 2, conv 4 3x3, relu, maxpool 2, dense 9, relu, dense 6, "
                   "relu, dense 3",
                   (input){1, 8, 8}, 3, YK_ROWS_U8, 1); /* like lenet5 */
}

/* ---- batches, threads, chunks */

static const char *const mixed =
    "conv 3 3x3 same, relu, maxpool 2, conv 7 2x2 /2 pad 1, tanh, lrn 3 1 0.75 1, dense 21, "
    "relu, dense 3";

static void gradients_of_all_batches(void **state)
{
    (void)state;
    static const size_t batches[] = {1, 7, 15, 16, 17, 32, 40};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        check_gradient("conv 2 3x3 same, tanh, avgpool 2, conv 2 2x2, tanh, dense 3", small, batches[i],
                       i % 2 ? YK_ROWS_F32 : YK_ROWS_U8, 1 + (int)(i % 3));
    check_gradient(mixed, small, 17, YK_ROWS_U8, 3);
}

/* Bitwise: with fewer and with more threads than blocks, and with several chunks. */
static void threads_do_not_change_results(void **state)
{
    (void)state;
    static const char *const lists[] = {
        mixed, "dense 3", "conv 1 1x1, dense 3",
        "conv 5 3x3 pad 2, maxpool 3 /2, dropout 0.4, dense 18, sigmoid, dropout, dense 3",
        /* large enough for several chunks per batch */
        "conv 16 3x3 same, relu, conv 8 3x3 same, relu, avgpool 7, dense 3", "lenet5",
        "dense 2800, relu, dense 3" /* enough parameters to be divided by layers */};
    static const input wide = {1, 28, 28};
    static const size_t batches[] = {1, 100};
    static const int threads[] = {2, 3, 6};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; i < (k == 6 ? 3 : 6); i += 1 + SANITIZED) {
            const size_t batch = k == 6 ? 17 : batches[i / 3];
            fixture alone, f;
            make(&alone, lists[k], k >= 4 ? wide : small, batch, YK_ROWS_U8, 1);
            make(&f, lists[k], k >= 4 ? wide : small, batch, YK_ROWS_U8, threads[i % 3]);
            const double loss = loss_of(&alone);
            assert_true(isfinite(loss) && loss == loss_of(&alone));
            for (int again = 0; again < 2; again++) {
                if (loss_of(&f) != loss)
                    fail_msg("%s, batch %zu, %d threads: loss", lists[k], batch, threads[i % 3]);
                for (size_t p = 0; p < f.model->nparams; p++)
                    if (f.grad.group[0].dense[p] != alone.grad.group[0].dense[p])
                        fail_msg("%s, batch %zu, %d threads: gradient %zu is %.9g, not %.9g", lists[k], batch,
                                 threads[i % 3], p, (double)f.grad.group[0].dense[p],
                                 (double)alone.grad.group[0].dense[p]);
            }
            unmake(&f);
            unmake(&alone);
        }
}

/* The gradient of a batch is the sum of those of its halves, and does not depend on the order. */
static void gradients_are_sums(void **state)
{
    (void)state;
    fixture f;
    make(&f, mixed, small, 40, YK_ROWS_F32, 1);
    const size_t n = f.model->nparams;
    const double whole = loss_of(&f);
    float *all = malloc(n * sizeof *all);
    double parts = 0, *sum = calloc(n, sizeof *sum);
    assert_true(all && sum);
    memcpy(all, f.grad.group[0].dense, n * sizeof *all);
    for (size_t at = 0; at < 40; at += at ? 27 : 13) {
        f.batch = (yk_batch){&f.rows, f.pick + at, at ? 27 : 13, 0};
        parts += loss_of(&f);
        for (size_t i = 0; i < n; i++)
            sum[i] += (double)f.grad.group[0].dense[i];
    }
    assert_true(fabs(parts - whole) < 1e-4);
    for (size_t i = 0; i < n; i++)
        assert_true(fabs(sum[i] - (double)all[i]) < 1e-4);
    free(all);
    free(sum);
    unmake(&f);
}

/* Dropout is a function of the batch, so that finite differences hold for it. The loss is in single precision: steps are longer,
 * and one of several must match (some cross a kink of maxpool). */
static void gradients_with_dropout(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "conv 3 3x3 same, tanh, dropout 0.3, dense 6, dropout 0.5, tanh, dense 3",
        "conv 3 3x3, maxpool 2, dropout 0.5, dense 5, relu, dropout 0.5, dense 3", /* as in alexnet */
        "conv 3 3x3, lrn 3 2 0.75 1, dropout 0.5, dense 3",
        "conv 3 3x3, sigmoid, dropout 0.5, conv 2 2x2, tanh, dropout 0.2, dense 3",
        "dropout 0.2, conv 3 3x3, avgpool 2, dropout 0.5, dense 3",
        "dense 8, dropout 0.4, dropout 0.4, dense 3",
    };
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        fixture f;
        make(&f, lists[k], small, 5, YK_ROWS_F32, 1 + (int)k % 2);
        const size_t n = f.model->nparams;
        const double loss = loss_of(&f);
        float *grad = malloc(n * sizeof *grad);
        double square = 0;
        assert_non_null(grad);
        memcpy(grad, f.grad.group[0].dense, n * sizeof *grad);
        for (size_t i = 0; i < n; i++) {
            static const float steps[] = {3e-3f, 1e-3f, 1e-2f, 4e-4f};
            const float was = f.params[i];
            double right = 0, got = (double)grad[i];
            bool good = false;
            square += got * got;
            for (size_t s = 0; !good && s < sizeof steps / sizeof *steps; s++) {
                f.params[i] = was + steps[s];
                const double above = loss_of(&f), up = (double)f.params[i];
                f.params[i] = was - steps[s];
                right = (above - loss_of(&f)) / (up - (double)f.params[i]);
                good = fabs(got - right) <= 1e-2 * fabs(right) + 5e-3;
            }
            f.params[i] = was;
            if (!good)
                fail_msg("%s: gradient %zu of %zu is %.7g, not %.7g", lists[k], i, n, right, got);
        }
        assert_true(square > 1);
        f.pick[0] =
            (f.pick[0] + 1) % (uint32_t)f.rows.n; /* another batch drops others; predict() drops none */
        assert_true(loss_of(&f) != loss);
        double tested = 0, retested = 0;
        float p[MAX_BATCH * CLASSES];
        const yk_view view = {.w = f.params};
        f.model->ops->predict(f.model, f.work, &view, &f.batch, p, &tested);
        f.model->ops->predict(f.model, f.work, &view, &(yk_batch){&f.rows, f.pick, 4, 0}, p, &retested);
        assert_true(retested > 0 && retested < tested);
        free(grad);
        unmake(&f);
    }
}

/* A pass does not depend on the previous one, also in lanes without an image. */
static void passes_are_independent(void **state)
{
    (void)state;
    fixture f, fresh;
    make(&f, mixed, small, 40, YK_ROWS_F32, 2);
    loss_of(&f);
    f.params[0] = NAN; /* everything becomes NaN */
    assert_true(isnan(loss_of(&f)));
    make(&fresh, mixed, small, 40, YK_ROWS_F32, 2);
    f.params[0] = fresh.params[0];
    f.batch.n = fresh.batch.n = 5;
    assert_true(loss_of(&f) == loss_of(&fresh));
    assert_memory_equal(f.grad.group[0].dense, fresh.grad.group[0].dense,
                        f.model->nparams * sizeof *f.params);
    unmake(&f);
    unmake(&fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_convolutions), cmocka_unit_test(gradients_of_pools),
        cmocka_unit_test(gradients_of_activations),  cmocka_unit_test(gradients_of_other_networks),
        cmocka_unit_test(gradients_of_all_batches),  cmocka_unit_test(threads_do_not_change_results),
        cmocka_unit_test(gradients_are_sums),        cmocka_unit_test(gradients_with_dropout),
        cmocka_unit_test(passes_are_independent),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
