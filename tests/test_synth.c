/* data/synth*.c: the same bytes everywhere, random access to examples, and the documented distributions. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/exact.h"
#include "data/source.h"
#include "data/synth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t hash_bytes(const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t h = 0;
    for (size_t i = 0; i < size; i++)
        h = yk_mix64(h + p[i] + 1);
    return h;
}

static yk_source *open_well(const char *spec, yk_split split)
{
    yk_source *s;
    if (yk_source_open(spec, split, NULL, &s))
        fail_msg("%s", yk_error());
    return s;
}

static void read_all(const char *spec, yk_split split, yk_rows *rows)
{
    yk_source *s = open_well(spec, split);
    yk_rows_init(rows, s->kind, s->kind == YK_ROWS_SPARSE ? 0 : s->dim);
    for (size_t b = 0; b < s->nblocks; b++) {
        yk_reader *r;
        size_t got = 1;
        assert_int_equal(yk_source_read(s, b, &r), YK_OK);
        while (got)
            assert_int_equal(yk_reader_next(r, rows, 1000, &got), YK_OK);
        yk_reader_free(r);
    }
    assert_int_equal(rows->n, s->examples);
    yk_source_free(s);
}

/* Example number `i` alone, in `one`. */
static void make_one(const yk_source *s, uint64_t i, yk_rows *one)
{
    const yk_synth *synth = (const yk_synth *)s;
    yk_rows_clear(one);
    assert_int_equal(synth->make(synth, i, one), YK_OK);
}

/* ---- digits */

enum { PIXELS = 28 * 28 };

/* Recorded with gcc and clang on x86-64: every platform has to give these bytes. */
static void digits_golden(void **state)
{
    (void)state;
    uint64_t h = 0;
    yk_rows rows;
    read_all("synth:digits?examples=500", YK_SPLIT_TRAIN, &rows);
    for (size_t i = 0; i < 500; i++)
        h = yk_mix64(h + hash_bytes(rows.u8 + i * PIXELS, PIXELS) + (uint64_t)rows.label[i]);
    assert_int_equal(h, UINT64_C(0xdc8f8964dfeb8448));
    yk_rows_fini(&rows);
}

static void digits_random_access(void **state)
{
    (void)state;
    yk_rows rows, again, one;
    read_all("synth:digits?examples=2500&seed=9", YK_SPLIT_TRAIN, &rows);
    assert_int_equal(rows.n, 2500);
    yk_source *s = open_well("synth:digits?seed=9", YK_SPLIT_TRAIN);
    yk_rows_init(&one, s->kind, s->dim);
    for (uint64_t i = 2500; i-- > 0;) {
        make_one(s, i, &one);
        assert_int_equal(one.label[0], rows.label[i]);
        assert_memory_equal(one.u8, rows.u8 + i * PIXELS, PIXELS);
    }
    yk_rows_fini(&one);
    yk_source_free(s);
    read_all("synth:digits?examples=2500&seed=9", YK_SPLIT_TEST, &again);
    assert_int_equal(again.n, 2500);
    size_t same = 0;
    for (size_t i = 0; i < 2500; i++)
        same += !memcmp(rows.u8 + i * PIXELS, again.u8 + i * PIXELS, PIXELS);
    assert_int_equal(same, 0); /* the test split has other examples */
    yk_rows_fini(&again);
    read_all("synth:digits?examples=20&seed=10", YK_SPLIT_TRAIN, &again);
    assert_true(memcmp(rows.u8, again.u8, 20 * PIXELS) != 0);
    yk_rows_fini(&again);
    yk_rows_fini(&rows);
}

static void digits_shape(void **state)
{
    (void)state;
    yk_source *s = open_well("synth:digits", YK_SPLIT_TRAIN);
    assert_int_equal(s->examples, 60000);
    assert_int_equal(s->kind, YK_ROWS_U8);
    assert_int_equal(s->dim, 784);
    assert_int_equal(s->classes, 10);
    assert_int_equal(s->height * 100 + s->width * 10 + s->channels, 28 * 110 + 1);
    assert_true(s->has_test);
    yk_source_free(s);
    s = open_well("synth:digits", YK_SPLIT_TEST);
    assert_int_equal(s->examples, 10000);
    yk_source_free(s);
    s = open_well("synth:digits?examples=30&test=17", YK_SPLIT_TEST);
    assert_int_equal(s->examples, 17);
    yk_source_free(s);
    assert_int_equal(yk_source_open("synth:digits?exmples=3", YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    assert_int_equal(yk_source_open("synth:digits?examples=0", YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    assert_int_equal(yk_source_open("synth:letters", YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    assert_non_null(strstr(yk_error(), "synth:digits"));
}

/* Classes are about equally frequent; images have dark and light pixels; the mean images of classes differ. */
static void digits_are_learnable(void **state)
{
    (void)state;
    enum { N = 5000 };
    yk_rows rows;
    read_all("synth:digits?examples=5000", YK_SPLIT_TRAIN, &rows);
    size_t count[10] = {0};
    static double mean[10][PIXELS];
    memset(mean, 0, sizeof mean);
    double ink = 0.0;
    for (size_t i = 0; i < N; i++) {
        count[rows.label[i]]++;
        for (size_t k = 0; k < PIXELS; k++) {
            ink += rows.u8[i * PIXELS + k] > 127;
            mean[rows.label[i]][k] += rows.u8[i * PIXELS + k];
        }
    }
    for (int c = 0; c < 10; c++)
        assert_in_range(count[c], 420, 580);
    ink /= (double)N * PIXELS;
    assert_true(ink > 0.05 && ink < 0.25);
    /* the nearest mean is a weak classifier: far better than chance, but not perfect, which would be too easy */
    size_t right = 0;
    for (size_t i = 0; i < N; i++) {
        int best = -1;
        double min = INFINITY;
        for (int c = 0; c < 10; c++) {
            double d = 0.0;
            for (size_t k = 0; k < PIXELS; k++) {
                double e = rows.u8[i * PIXELS + k] - mean[c][k] / (double)count[c];
                d += e * e;
            }
            if (d < min) {
                min = d;
                best = c;
            }
        }
        right += best == rows.label[i];
    }
    assert_in_range(right, N * 60 / 100, N * 92 / 100);
    yk_rows_fini(&rows);
}

/* ---- clicks */

static void exact_exp_is_exp(void **state)
{
    (void)state;
    for (double x = -690.0; x < 690.0; x += 0.37)
        assert_true(fabs(yk__exact_exp(x) / exp(x) - 1.0) < 1e-14);
    assert_true(yk__exact_exp(0.0) == 1.0);
    assert_true(isfinite(yk__exact_exp(1e9)) && yk__exact_exp(-1e9) >= 0.0);
}

static void clicks_golden(void **state)
{
    (void)state;
    yk_rows rows;
    read_all("synth:ctr?examples=500", YK_SPLIT_TRAIN, &rows);
    uint64_t h = hash_bytes(rows.index, 500 * 39 * sizeof *rows.index);
    h = yk_mix64(h + hash_bytes(rows.label, 500 * sizeof *rows.label));
    h = yk_mix64(h + hash_bytes(rows.truth, 500 * sizeof *rows.truth));
    assert_int_equal(h, UINT64_C(0x8efd1aafc62312a1));
    yk_rows_fini(&rows);
}

static void clicks_random_access(void **state)
{
    (void)state;
    yk_rows rows, one;
    read_all("synth:ctr?examples=9000&features=5000&nnz=7&seed=4&positives=0.4", YK_SPLIT_TRAIN, &rows);
    yk_source *s = open_well("synth:ctr?features=5000&nnz=7&seed=4&positives=0.4", YK_SPLIT_TRAIN);
    yk_rows_init(&one, s->kind, 0);
    for (uint64_t i = 9000; i-- > 0;) {
        make_one(s, i, &one);
        assert_int_equal(one.label[0], rows.label[i]);
        assert_memory_equal(one.index, rows.index + 7 * i, 7 * sizeof *one.index);
        assert_true(one.truth[0] == rows.truth[i]);
    }
    yk_rows_fini(&one);
    yk_source_free(s);
    yk_rows_fini(&rows);
}

typedef struct {
    float p;
    int32_t label;
} guess;

static int by_p(const void *a, const void *b)
{
    float x = ((const guess *)a)->p, y = ((const guess *)b)->p;
    return x < y ? -1 : x > y;
}

/* The AUC of the true probabilities: the best possible. */
static double bayes_auc(const yk_rows *rows)
{
    guess *g = malloc(rows->n * sizeof *g);
    assert_non_null(g);
    for (size_t i = 0; i < rows->n; i++)
        g[i] = (guess){rows->truth[i], rows->label[i]};
    qsort(g, rows->n, sizeof *g, by_p);
    double below = 0.0, pairs = 0.0, positives = 0.0;
    for (size_t i = 0; i < rows->n; i++) {
        below += !g[i].label;
        pairs += g[i].label ? below : 0.0;
        positives += g[i].label;
    }
    free(g);
    return pairs / positives / below;
}

static void check_clicks(const char *spec, double positives)
{
    yk_rows rows;
    read_all(spec, YK_SPLIT_TRAIN, &rows);
    double mean = 0.0, expected_rate = 0.0, loss = 0.0;
    for (size_t i = 0; i < rows.n; i++) {
        double p = rows.truth[i];
        assert_true(p > 0.0 && p < 1.0);
        mean += rows.label[i];
        expected_rate += p;
        loss -= rows.label[i] ? log(p) : log(1.0 - p);
    }
    double n = (double)rows.n, auc = bayes_auc(&rows);
    mean /= n;
    expected_rate /= n;
    loss /= n;
    assert_true(fabs(mean - positives) < 0.02);
    assert_true(fabs(mean - expected_rate) < 0.012); /* labels follow the true probabilities */
    if (positives == 0.25) {
        assert_true(auc > 0.77 && auc < 0.83);
        assert_true(loss > 0.42 && loss < 0.48);
    }
    yk_rows_fini(&rows);
}

static void click_rate_is_as_requested(void **state)
{
    (void)state;
    check_clicks("synth:ctr?examples=40000", 0.25);
    check_clicks("synth:ctr?examples=40000&seed=77", 0.25);
    check_clicks("synth:ctr?examples=40000&features=100&nnz=5", 0.25);
    check_clicks("synth:ctr?examples=40000&features=20000&nnz=20&positives=0.05", 0.05);
}

/* Each field has its range of columns, the same in both splits. */
static void clicks_fields(void **state)
{
    (void)state;
    enum { N = 50000, NNZ = 39, FEATURES = 100000 };
    yk_rows rows;
    read_all("synth:ctr?examples=50000&features=100000", YK_SPLIT_TRAIN, &rows);
    assert_null(rows.value);
    uint32_t low[NNZ], high[NNZ];
    memset(low, 0xff, sizeof low);
    memset(high, 0, sizeof high);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(yk_rows_entries(&rows, i), NNZ);
        for (size_t f = 0; f < NNZ; f++) {
            uint32_t k = rows.index[i * NNZ + f];
            low[f] = k < low[f] ? k : low[f];
            high[f] = k > high[f] ? k : high[f];
        }
    }
    uint32_t narrowest = UINT32_MAX, widest = 0;
    for (size_t f = 0; f < NNZ; f++) {
        assert_true(f == 0 || high[f - 1] < low[f]);
        uint32_t wide = high[f] - low[f] + 1;
        narrowest = wide < narrowest ? wide : narrowest;
        widest = wide > widest ? wide : widest;
    }
    assert_true(high[NNZ - 1] < FEATURES);
    assert_in_range(narrowest, 2, 5);
    assert_in_range(widest, FEATURES / 10, FEATURES / 2);

    /* a power law: few columns have most of the entries, and many columns are rare */
    static uint32_t count[FEATURES];
    memset(count, 0, sizeof count);
    for (size_t i = 0; i < (size_t)N * NNZ; i++)
        count[rows.index[i]]++;
    uint64_t frequent = 0, columns = 0, once = 0, seen = 0;
    for (size_t k = 0; k < FEATURES; k++) {
        frequent += count[k] >= N / 100 ? count[k] : 0;
        columns += count[k] >= N / 100;
        once += count[k] == 1;
        seen += count[k] > 0;
    }
    assert_true(columns < 600 && frequent > (uint64_t)N * NNZ / 2);
    assert_true(once > seen / 10);
    /* and the frequent columns are not the first of their field */
    uint32_t first_is_top = 0;
    for (size_t f = 0; f < NNZ; f++) {
        uint32_t top = low[f];
        for (uint32_t k = low[f]; k <= high[f]; k++)
            top = count[k] > count[top] ? k : top;
        first_is_top += top == low[f];
    }
    assert_in_range(first_is_top, 0, 20);
    yk_rows_fini(&rows);
}

static void clicks_shapes(void **state)
{
    (void)state;
    static const char *const good[] = {
        "synth:ctr?features=1&nnz=1&examples=50",     "synth:ctr?features=39&examples=50",
        "synth:ctr?features=40&examples=50",          "synth:ctr?features=100&nnz=5&examples=50",
        "synth:ctr?features=117&examples=50",         "synth:ctr?features=118&examples=50",
        "synth:ctr?features=4294967295&examples=50",  "synth:ctr?features=4294967295&nnz=1&examples=50",
        "synth:ctr?features=10000&nnz=2&examples=50", "synth:ctr?features=100000&nnz=4096&examples=5",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        yk_rows rows;
        yk_source *s = open_well(good[i], YK_SPLIT_TRAIN);
        size_t dim = s->dim;
        yk_source_free(s);
        read_all(good[i], YK_SPLIT_TRAIN, &rows);
        for (size_t k = 0; k < rows.start[rows.n]; k++)
            assert_true(rows.index[k] < dim);
        for (size_t r = 0; r < rows.n; r++)
            for (uint64_t k = rows.start[r] + 1; k < rows.start[r + 1]; k++)
                assert_true(rows.index[k - 1] < rows.index[k]);
        yk_rows_fini(&rows);
    }
    yk_source *s;
    assert_int_equal(yk_source_open("synth:ctr?features=38", YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    assert_non_null(strstr(yk_error(), "too few"));
    assert_int_equal(yk_source_open("synth:ctr?nnz=0", YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    assert_int_equal(yk_source_open("synth:ctr?positives=2", YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    s = open_well("synth:ctr", YK_SPLIT_TRAIN);
    assert_int_equal(s->examples, 1000000);
    assert_int_equal(s->dim, 33762578);
    yk_source_free(s);
    s = open_well("synth:ctr", YK_SPLIT_TEST);
    assert_int_equal(s->examples, 100000);
    yk_source_free(s);
}

static double logit(float p)
{
    return log((double)p / (1.0 - (double)p));
}

static double deviation(const double *x, size_t n)
{
    double mean = 0.0, square = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / (double)n;
    return sqrt(square);
}

/* The rows do not depend on `interactions`, so the logits differ by the pairwise part. */
static void clicks_interactions(void **state)
{
    (void)state;
    enum { N = 20000 };
    static const double wanted[] = {0.25, 0.5, 1.0};
    static double linear[N], pairs[N];
    yk_rows plain, rows;
    read_all("synth:ctr?examples=20000&features=3000&interactions=0", YK_SPLIT_TRAIN, &plain);
    const double auc = bayes_auc(&plain);
    for (size_t k = 0; k < 3; k++) {
        char spec[128];
        snprintf(spec, sizeof spec, "synth:ctr?examples=20000&features=3000&interactions=%g", wanted[k]);
        read_all(spec, YK_SPLIT_TRAIN, &rows);
        assert_memory_equal(rows.index, plain.index, plain.start[N] * sizeof *plain.index);
        double positives = 0.0;
        for (size_t i = 0; i < N; i++) {
            linear[i] = logit(plain.truth[i]);
            pairs[i] = logit(rows.truth[i]) - linear[i];
            positives += rows.label[i] / (double)N;
        }
        const double ratio = deviation(pairs, N) / deviation(linear, N);
        assert_true(fabs(ratio / wanted[k] - 1.0) < 0.05);
        assert_true(fabs(positives - 0.25) < 0.02);
        assert_true(bayes_auc(&rows) > auc);
        yk_rows_fini(&rows);
    }
    yk_rows_fini(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_golden),        cmocka_unit_test(digits_random_access),
        cmocka_unit_test(digits_shape),         cmocka_unit_test(digits_are_learnable),
        cmocka_unit_test(exact_exp_is_exp),     cmocka_unit_test(clicks_golden),
        cmocka_unit_test(clicks_random_access), cmocka_unit_test(click_rate_is_as_requested),
        cmocka_unit_test(clicks_fields),        cmocka_unit_test(clicks_shapes),
        cmocka_unit_test(clicks_interactions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
