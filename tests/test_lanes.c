/* The functions of lanes.h, for every instruction set of this processor, against the reference; and some of the reference
 * against the definition. */
#include "references.h"
#include "scratch.h"

#include "base/rng.h"
#include "kern/lanes.h"
#include <math.h>

static yk_rng random_state;

#define EACH_ISA(isa) for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)
#define OPS(isa)      YK_ISA_AT(yk_lanes, isa)
#define POISON        (-77.25f)

static size_t below(size_t n)
{
    return yk_rng_below(&random_state, (uint32_t)n);
}

static float uniform(double low, double high)
{
    return (float)(low + (high - low) * yk_rng_unit(&random_state));
}

/* Allocated exactly, so that a sanitizer detects any access outside. */
static float *filled(size_t n, float with)
{
    float *p = malloc((n ? n : 1) * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = with;
    return p;
}

static float *floats(size_t n, double low, double high)
{
    float *p = filled(n, 0);
    for (size_t i = 0; i < n; i++)
        p[i] = uniform(low, high);
    return p;
}

static float *copy_of(const float *from, size_t n)
{
    float *p = filled(n, 0);
    for (size_t i = 0; i < n; i++)
        p[i] = from[i];
    return p;
}

/* Almost equal, or both NaN. */
static void assert_near(float got, float right, double bound, const char *what, const char *isa, size_t i)
{
    if (isnan(right) ? isnan(got) : fabs((double)got - (double)right) <= bound || got == right)
        return;
    fail_msg("%s, %s, number %zu: %.9g is not %.9g (to %.2g)", what, isa, i, (double)got, (double)right,
             bound);
}

static void assert_all_near(const float *got, const float *right, size_t n, double bound, const char *what,
                            yk_isa isa)
{
    for (size_t i = 0; i < n; i++)
        assert_near(got[i], right[i], bound * fmax(1.0, fabs((double)right[i])), what, yk_isa_name(isa), i);
}

/* ---- activations */

static const char *const activation_names[] = {"relu", "tanh", "sigmoid"};

static void activations(void **state)
{
    (void)state;
    static const float odd[] = {0.0f,      -0.0f,     1e-30f,   -1e-30f, 1e-42f,  -1e-42f,   0.2f,
                                -0.2f,     0.19999f,  0.20001f, 88.0f,   -88.f,   89.0f,     -89.0f,
                                200.0f,    -200.0f,   1e30f,    -1e30f,  3.4e38f, -3.4e38f,  INFINITY,
                                -INFINITY, NAN,       -NAN,     1.0f,    -1.0f,   126.9999f, -126.999f,
                                127.001f,  -127.001f, 0.5f,     20.0f};
    enum { ODD = sizeof odd / sizeof *odd, N = 4096 + ODD };
    _Static_assert(N % YK_LANES == 0, "whole vectors");
    random_state = yk_rng_seed(1, 1);
    EACH_ISA(isa)
    for (int kind = YK_RELU; kind <= YK_SIGMOID; kind++) {
        float *x = filled(N, 0), *got, *right;
        memcpy(x, odd, sizeof odd);
        for (size_t i = ODD; i < N; i++)
            x[i] = i % 2 ? uniform(-12, 12) : uniform(-0.5, 0.5);
        got = copy_of(x, N), right = copy_of(x, N);
        OPS(isa)->activate((yk_activation)kind, got, N);
        yk_lanes_ref.activate((yk_activation)kind, right, N);
        for (size_t i = 0; i < N; i++) /* tanh is exact near 0: the error is relative */
            assert_near(got[i], right[i], kind == YK_RELU ? 0.0 : 2e-6 * fabs((double)right[i]) + 1e-38,
                        activation_names[kind], yk_isa_name(isa), i);
        for (size_t i = 0; i < ODD; i++)
            assert_true(isnan(got[i]) == isnan(odd[i]));
        /* backward: a NaN in dy propagates where the derivative is not 0 */
        float *dy = floats(N, -3, 3), *dgot, *dright;
        dy[40] = NAN;
        dgot = copy_of(dy, N), dright = copy_of(dy, N);
        OPS(isa)->activate_back((yk_activation)kind, right, dgot, N);
        yk_lanes_ref.activate_back((yk_activation)kind, right, dright, N);
        for (size_t i = 0; i < N; i++)
            if (!isinf(right[i]))
                assert_near(dgot[i], dright[i], 1e-6, activation_names[kind], yk_isa_name(isa), i);
        /* n = 0 changes nothing; values from n on are not changed */
        float one[2 * YK_LANES];
        for (int i = 0; i < 2 * YK_LANES; i++)
            one[i] = -1.0f;
        OPS(isa)->activate((yk_activation)kind, one, 0);
        OPS(isa)->activate((yk_activation)kind, one, YK_LANES);
        for (int i = YK_LANES; i < 2 * YK_LANES; i++)
            assert_true(one[i] == -1.0f && one[0] != -1.0f);
        free(x), free(got), free(right), free(dy), free(dgot), free(dright);
    }
}

/* Derivatives match finite differences. */
static void derivatives_match_differences(void **state)
{
    (void)state;
    for (int kind = YK_RELU; kind <= YK_SIGMOID; kind++)
        for (double x = -2.95; x < 3.0; x += 0.1) {
            float a = (float)(x - 0.01), b = (float)(x + 0.01), y = (float)x, d = 2.0f;
            yk_lanes_ref.activate((yk_activation)kind, &a, 1);
            yk_lanes_ref.activate((yk_activation)kind, &b, 1);
            yk_lanes_ref.activate((yk_activation)kind, &y, 1);
            yk_lanes_ref.activate_back((yk_activation)kind, &y, &d, 1);
            assert_near(d, (b - a) / 0.02f * 2.0f, 3e-4, activation_names[kind], "plain",
                        (size_t)((x + 3) * 10));
        }
}

/* ---- dropout */

static void dropout_matches_the_reference(void **state)
{
    (void)state;
    enum { N = 64 * YK_LANES };
    static const float rates[] = {0.0f, 0.1f, 0.5f, 0.9f, 0.999f};
    random_state = yk_rng_seed(2, 1);
    EACH_ISA(isa)
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        const uint64_t noise = yk_rng_u64(&random_state),
                       first = YK_LANES * (below(1000) + (k == 2 ? 0xffffff0u : 0));
        float *x = floats(N, -3, 3), *got = copy_of(x, N), *right = copy_of(x, N), *parts = copy_of(x, N);
        OPS(isa)->dropout(got, N, rates[k], noise, first);
        yk_lanes_ref.dropout(right, N, rates[k], noise, first);
        assert_memory_equal(got, right, N * sizeof *got);
        OPS(isa)->dropout(parts, N / 4, rates[k], noise, first); /* only the index of a value matters */
        OPS(isa)->dropout(parts + N / 4, N - N / 4, rates[k], noise, first + N / 4);
        assert_memory_equal(got, parts, N * sizeof *got);
        for (size_t i = 0; i < N; i++)
            assert_true(got[i] == 0.0f || fabsf(got[i] * (1.0f - rates[k]) - x[i]) < 1e-5f);
        if (k == 0)
            assert_memory_equal(got, x, N * sizeof *got);
        free(x), free(got), free(right), free(parts);
    }
}

/* The rate; and values with other neighbors, noise or indices are independent: within 5 standard deviations. */
static void dropout_has_its_rate(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    static const float rates[] = {0.05f, 0.5f, 0.8f};
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        const double rate = (double)rates[k], both = rate * rate;
        for (uint64_t noise = 0; noise < 4; noise++) {
            float *x = filled(N, 1), *other = filled(N, 1);
            size_t dropped = 0, pairs = 0, apart = 0, shared = 0;
            yk_lanes()->dropout(x, N, rates[k], yk_mix64(noise), 0);
            yk_lanes()->dropout(other, N, rates[k], yk_mix64(noise + 1), 0);
            for (size_t i = 0; i < N; i++) {
                dropped += x[i] == 0.0f;
                pairs += x[i] == 0.0f && x[(i + 1) % N] == 0.0f;
                apart += x[i] == 0.0f && x[(i + YK_LANES) % N] == 0.0f;
                shared += x[i] == 0.0f && other[i] == 0.0f;
            }
            assert_true(fabs((double)dropped - rate * N) < 5 * sqrt(N * rate * (1 - rate)));
            const double bound = 5 * sqrt(N * both * (1 - both)) * 1.7; /* pairs overlap */
            assert_true(fabs((double)pairs - both * N) < bound);
            assert_true(fabs((double)apart - both * N) < bound);
            assert_true(fabs((double)shared - both * N) < bound);
            free(x), free(other);
        }
    }
}

/* ---- pools */

typedef struct {
    yk_pool p;
    float *x, *y, *dy, *dx;
    size_t x_size, y_size, dy_size, dx_size;
} pooling;

/* Rows with gaps between them, of different sizes in each array, which must not be changed. */
static void make_pooling(pooling *t, size_t height, size_t width, size_t size, size_t stride, bool equal)
{
    const size_t oh = (height - size) / stride + 1, ow = (width - size) / stride + 1;
    const size_t x_row = (width + below(3)) * YK_LANES, y_row = (ow + below(3)) * YK_LANES,
                 dx_row = (width + below(3)) * YK_LANES, dy_row = (ow + below(3)) * YK_LANES;
    *t = (pooling){.x_size = (height - 1) * x_row + width * YK_LANES,
                   .y_size = (oh - 1) * y_row + ow * YK_LANES,
                   .dy_size = (oh - 1) * dy_row + ow * YK_LANES,
                   .dx_size = (height - 1) * dx_row + width * YK_LANES};
    t->x = floats(t->x_size, -1, 1);
    for (size_t i = 0; equal && i < t->x_size; i++) /* many equal pixels: the first gets the gradient */
        t->x[i] = (float)below(3);
    t->dy = floats(t->dy_size, -1, 1);
    t->dx = floats(t->dx_size, -1, 1);
    t->y = filled(t->y_size, POISON);
    t->p = (yk_pool){.x = t->x,
                     .y = t->y,
                     .dy = t->dy,
                     .height = height,
                     .width = width,
                     .out_height = oh,
                     .out_width = ow,
                     .size = size,
                     .stride = stride,
                     .x_row = x_row,
                     .y_row = y_row,
                     .dx_row = dx_row,
                     .dy_row = dy_row};
}

static void check_pooling(pooling *t, yk_isa isa, bool average)
{
    const char *what = average ? "average pool" : "max pool";
    float *right = copy_of(t->y, t->y_size), *got = copy_of(t->y, t->y_size);
    float *dright = copy_of(t->dx, t->dx_size), *dgot = copy_of(t->dx, t->dx_size);
    yk_pool p = t->p;
    p.average = average;
    p.out = right;
    yk_lanes_ref.pool(&p);
    p.out = got;
    OPS(isa)->pool(&p);
    if (average)
        assert_all_near(got, right, t->y_size, 1e-6, what, isa);
    else
        assert_memory_equal(got, right, t->y_size * sizeof *got);
    for (size_t i = 0; i < t->y_size; i++) /* gaps between rows are not changed */
        if (i % p.y_row >= p.out_width * YK_LANES)
            assert_true(got[i] == POISON);
        else
            assert_true(got[i] != POISON);
    p.y = right;
    p.out = dright;
    yk_lanes_ref.pool_back(&p);
    p.out = dgot;
    OPS(isa)->pool_back(&p);
    assert_all_near(dgot, dright, t->dx_size, 1e-6, what, isa);
    /* the sum of the gradients is preserved, lane by lane */
    for (size_t lane = 0; lane < YK_LANES; lane++) {
        double in = 0, out = 0;
        for (size_t i = lane; i < t->dy_size; i += YK_LANES)
            in += i % p.dy_row < p.out_width * YK_LANES ? (double)t->dy[i] : 0.0;
        for (size_t i = lane; i < t->dx_size; i += YK_LANES) {
            if (i % p.dx_row >= p.width * YK_LANES)
                assert_true(dgot[i] == t->dx[i]);
            else
                out += (double)dgot[i];
        }
        assert_true(fabs(in - out) < 1e-4);
    }
    free(right), free(got), free(dright), free(dgot);
}

static void pools(void **state)
{
    (void)state;
    random_state = yk_rng_seed(3, 1);
    EACH_ISA(isa)
    for (size_t size = 1; size <= 5; size++)
        for (size_t stride = 1; stride <= 4; stride++) /* overlapping, adjacent, and with gaps */
            for (int round = 0; round < 8; round++) {
                pooling t;
                make_pooling(&t, size + below(7), size + below(7), size, stride, round & 2);
                check_pooling(&t, isa, round & 1);
                free(t.x), free(t.y), free(t.dx), free(t.dy);
            }
}

/* NaN must propagate: a NaN loss stops training. */
static void pools_propagate_nan(void **state)
{
    (void)state;
    random_state = yk_rng_seed(9, 1);
    for (int isa = -1; isa <= (int)yk_isa_best(); isa++)
        for (size_t size = 2; size <= 3; size++)
            for (size_t at = 0; at < size * size; at++)
                for (int average = 0; average < 2; average++) {
                    pooling t;
                    const yk_lanes_ops *ops = isa < 0 ? &yk_lanes_ref : OPS((yk_isa)isa);
                    make_pooling(&t, size, size, size, size, false);
                    t.x[at / size * t.p.x_row + at % size * YK_LANES + 5] = NAN;
                    t.p.out = t.y;
                    t.p.average = average;
                    ops->pool(&t.p);
                    for (size_t lane = 0; lane < YK_LANES; lane++)
                        assert_int_equal(isnan(t.y[lane]) != 0, lane == 5);
                    free(t.x), free(t.y), free(t.dx), free(t.dy);
                }
}

/* ---- local response normalization */

typedef struct {
    size_t channels, n, size;
    float alpha, beta, bias;
} lrn;

static void normalization(void **state)
{
    (void)state;
    static const lrn cases[] = {{1, 1, 5, 1e-4f, 0.75f, 1}, {3, 2, 5, 0.5f, 0.75f, 1},
                                {7, 3, 5, 0.3f, 0.75f, 2},  {16, 2, 3, 1.0f, 0.5f, 1},
                                {9, 1, 4, 1.0f, 1.0f, 1},   {6, 4, 1, 2.0f, 0.75f, 0.5f},
                                {5, 1, 11, 1.0f, 0.75f, 1}, {8, 2, 2, 1.0f, 0.0f, 1},
                                {4, 1, 5, 0.0f, 0.75f, 3},  {96, 3, 5, 1e-4f, 0.75f, 2.f}};
    random_state = yk_rng_seed(4, 1);
    EACH_ISA(isa)
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const lrn *c = &cases[k];
        const size_t row = c->n * YK_LANES, channel = row + (k % 2) * YK_LANES,
                     all = (c->channels - 1) * channel + row;
        float *x = floats(all, -3, 3), *dy = floats(all, -1, 1);
        float *right = filled(all, POISON), *got = filled(all, POISON), *dright = filled(all, POISON),
              *dgot = filled(all, POISON);
        yk_lrn p = {.x = x,
                    .y = right,
                    .dy = dy,
                    .out = right,
                    .channels = c->channels,
                    .channel = channel,
                    .n = c->n,
                    .size = c->size,
                    .alpha = c->alpha,
                    .beta = c->beta,
                    .bias = c->bias};
        yk_lanes_ref.normalize(&p);
        p.out = got;
        OPS(isa)->normalize(&p);
        assert_all_near(got, right, all, 3e-6, "lrn", isa);
        p.out = dright;
        yk_lanes_ref.normalize_back(&p);
        p.out = dgot;
        OPS(isa)->normalize_back(&p);
        assert_all_near(dgot, dright, all, 1e-5, "lrn back", isa);
        for (size_t i = 0; i < all; i++)
            assert_int_equal(got[i] == POISON && dgot[i] == POISON, i % channel >= row);
        free(x), free(dy), free(right), free(got), free(dright), free(dgot);
    }
}

/* The reference: backward against finite differences of forward, and the formula itself. */
static void normalization_follows_the_formula(void **state)
{
    (void)state;
    enum { CHANNELS = 6, ALL = CHANNELS * YK_LANES };
    random_state = yk_rng_seed(5, 1);
    for (size_t size = 1; size <= 7; size++) {
        float *x = floats(ALL, -2, 2), *dy = floats(ALL, -1, 1), y[ALL], dx[ALL], up[ALL], down[ALL];
        yk_lrn p = {x, y, dy, y, CHANNELS, YK_LANES, 1, size, 0.8f, 0.75f, 1.5f};
        yk_lanes_ref.normalize(&p);
        p.out = dx;
        yk_lanes_ref.normalize_back(&p);
        for (size_t i = 0; i < ALL; i++) {
            const float h = 0.01f, was = x[i];
            double change = 0;
            x[i] = was + h;
            p.out = up;
            yk_lanes_ref.normalize(&p);
            x[i] = was - h;
            p.out = down;
            yk_lanes_ref.normalize(&p);
            x[i] = was;
            for (size_t j = 0; j < ALL; j++)
                change += (double)dy[j] * ((double)up[j] - (double)down[j]) / (2.0 * (double)h);
            assert_near(dx[i], (float)change, 2e-3, "lrn back", "plain", i);
        }
        free(x), free(dy);
    }
    float x[3 * YK_LANES] = {0}, y[3 * YK_LANES];
    x[0] = 1, x[YK_LANES] = 2, x[2 * YK_LANES] = 3;
    const yk_lrn p = {x, NULL, NULL, y, 3, YK_LANES, 1, 3, 0.6f, 0.5f, 1.0f};
    yk_lanes_ref.normalize(&p);
    assert_near(y[0], 1.0f / sqrtf(1.0f + 0.2f * 5.0f), 1e-6, "lrn", "plain", 0);
    assert_near(y[YK_LANES], 2.0f / sqrtf(1.0f + 0.2f * 14.0f), 1e-6, "lrn", "plain", 1);
    assert_near(y[2 * YK_LANES], 3.0f / sqrtf(1.0f + 0.2f * 13.0f), 1e-6, "lrn", "plain", 2);
}

/* ---- softmax */

static void softmax_of(size_t classes, size_t n, double range, yk_isa isa)
{
    const size_t all = classes * YK_LANES;
    float *z = floats(all, -range, range), *got = copy_of(z, all), *right = copy_of(z, all);
    float *pgot = filled(n * classes, POISON), *pright = filled(n * classes, POISON);
    int32_t label[YK_LANES + 1];
    float weight[YK_LANES + 1];
    uint32_t pick[YK_LANES + 1];
    for (size_t i = 0; i <= YK_LANES; i++) { /* labels from n on are not used */
        label[YK_LANES - i] = i && i <= n ? (int32_t)below(classes) : 0x7fffffff;
        weight[YK_LANES - i] = range > 50 ? uniform(0.1f, 3) : 1.0f;
        pick[i] = (uint32_t)(YK_LANES - i);
    }
    const yk_rows examples = {.label = label, .weight = range > 50 ? weight : NULL};
    const yk_batch b = {.rows = &examples, .pick = pick, .n = n + 1};
    const double loss = OPS(isa)->softmax(got, classes, &b, 1, n, pgot),
                 truth = yk_lanes_ref.softmax(right, classes, &b, 1, n, pright);
    if (!(fabs(loss - truth) <= 3e-6 * (1.0 + fabs(truth))))
        fail_msg("softmax, %s, %zu classes, %zu images: the loss %.9g is not %.9g", yk_isa_name(isa), classes,
                 n, loss, truth);
    assert_all_near(got, right, all, 2e-6, "softmax", isa);
    assert_all_near(pgot, pright, n * classes, 2e-6, "softmax's probabilities", isa);
    for (size_t i = 0; i < all; i++)
        if (i % YK_LANES >= n)
            assert_true(got[i] == 0.0f);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t c = 0; c < classes; c++) {
            sum += (double)pgot[i * classes + c];
            assert_near(got[c * YK_LANES + i],
                        weight[pick[i + 1]] * (pgot[i * classes + c] - (label[pick[i + 1]] == (int32_t)c)),
                        3e-7, "softmax", "", i);
        }
        assert_true(fabs(sum - 1.0) < 1e-5);
    }
    memcpy(got, z, all * sizeof *got); /* the same without probabilities */
    assert_true(OPS(isa)->softmax(got, classes, &b, 1, n, NULL) == loss);
    assert_all_near(got, right, all, 2e-6, "softmax", isa);
    free(z), free(got), free(right), free(pgot), free(pright);
}

static void softmax(void **state)
{
    (void)state;
    static const size_t classes[] = {1, 2, 3, 10, 17, 1000};
    random_state = yk_rng_seed(6, 1);
    EACH_ISA(isa)
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++)
        for (size_t n = 0; n <= YK_LANES; n++) {
            softmax_of(classes[k], n, 4, isa);
            softmax_of(classes[k], n, 100, isa);
        }
}

static void softmax_handles_nan(void **state)
{
    (void)state;
    int32_t label[YK_LANES] = {0};
    const uint32_t pick[YK_LANES] = {0};
    const yk_rows examples = {.label = label};
    const yk_batch b = {.rows = &examples, .pick = pick, .n = YK_LANES};
    EACH_ISA(isa)
    for (int plain = 0; plain < 2; plain++) {
        const yk_lanes_ops *ops = plain ? &yk_lanes_ref : OPS(isa);
        float z[3 * YK_LANES] = {0};
        z[YK_LANES] = NAN; /* class 1 of image 0 */
        assert_true(isnan(ops->softmax(z, 3, &b, 0, 1, NULL)));
        float big[2 * YK_LANES] = {0};
        big[0] = INFINITY;
        assert_false(isfinite(ops->softmax(big, 2, &b, 0, 1, NULL)));
        float far[2 * YK_LANES] = {0};
        far[YK_LANES] = 3e38f;
        assert_true(ops->softmax(far, 2, &b, 0, 1, NULL) >= 1e38);
        assert_true(fabsf(far[YK_LANES] - 1.0f) < 1e-6f && fabsf(far[0] + 1.0f) < 1e-6f);
        float idle[2 * YK_LANES] = {0};
        idle[3] = NAN; /* a lane without an image */
        assert_true(fabs(ops->softmax(idle, 2, &b, 0, 3, NULL) - 3 * log(2.0)) < 1e-5);
        assert_true(idle[3] == 0.0f && idle[YK_LANES + 3] == 0.0f);
    }
}

/* ---- interleaving of pixels */

static void interleaving(void **state)
{
    (void)state;
    enum { MAX = 70 };
    random_state = yk_rng_seed(7, 1);
    EACH_ISA(isa)
    for (size_t n = 0; n <= MAX; n += n < 36 ? 1 : 17) {
        const size_t first = below(5);
        uint8_t *u8[YK_LANES];
        float *f32[YK_LANES];
        for (size_t l = 0; l < YK_LANES; l++) { /* a third of the images is missing */
            const bool there = below(3) != 0;
            u8[l] = there ? malloc(first + n + !n) : NULL;
            f32[l] = there ? floats(first + n, -1, 1) : NULL;
            for (size_t i = 0; there && i < first + n; i++)
                u8[l][i] = (uint8_t)below(256);
        }
        float *got = filled((n + 1) * YK_LANES, POISON), *right = filled((n + 1) * YK_LANES, POISON);
        OPS(isa)->interleave_u8((const uint8_t *const *)u8, first, n, 1.0f / 255.0f, got);
        yk_lanes_ref.interleave_u8((const uint8_t *const *)u8, first, n, 1.0f / 255.0f, right);
        assert_memory_equal(got, right, (n + 1) * YK_LANES * sizeof *got);
        for (size_t i = 0; i < (n + 1) * YK_LANES; i++) {
            const uint8_t *row = u8[i % YK_LANES];
            const float truth = i >= n * YK_LANES ? POISON
                                : row             ? (float)row[first + i / YK_LANES] * (1.0f / 255.0f)
                                                  : 0.0f;
            assert_true(right[i] == truth);
        }
        OPS(isa)->interleave_f32((const float *const *)f32, first, n, got);
        yk_lanes_ref.interleave_f32((const float *const *)f32, first, n, right);
        assert_memory_equal(got, right, (n + 1) * YK_LANES * sizeof *got);
        for (size_t i = 0; i < n * YK_LANES; i++)
            assert_true(right[i] == (f32[i % YK_LANES] ? f32[i % YK_LANES][first + i / YK_LANES] : 0.0f));
        assert_true(right[n * YK_LANES] == POISON);
        for (size_t l = 0; l < YK_LANES; l++)
            free(u8[l]), free(f32[l]);
        free(got), free(right);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(derivatives_match_differences),
        cmocka_unit_test(dropout_matches_the_reference),
        cmocka_unit_test(dropout_has_its_rate),
        cmocka_unit_test(pools),
        cmocka_unit_test(pools_propagate_nan),
        cmocka_unit_test(normalization),
        cmocka_unit_test(normalization_follows_the_formula),
        cmocka_unit_test(softmax),
        cmocka_unit_test(softmax_handles_nan),
        cmocka_unit_test(interleaving),
    };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
