/* data/synth_images.c: the same bytes everywhere, random access to images, and neither too easy nor too hard. */
#include "read_all.h"

#include "base/mem.h"
#include "base/rng.h"
#include "data/synth.h"

static void refuse(const char *spec, const char *part)
{
    yk_source *s = NULL;
    assert_error(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE, part);
}

static void check_shape(const yk_source *s, size_t size, size_t channels)
{
    assert_int_equal(s->kind, YK_ROWS_U8);
    assert_int_equal(s->height, size);
    assert_int_equal(s->width, size);
    assert_int_equal(s->channels, channels);
    assert_int_equal(s->dim, size * size * channels);
}

static uint64_t hash_bytes(const uint8_t *p, size_t n)
{
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++)
        h = yk_mix64(h + p[i] + 1);
    return h;
}

/* Recorded with gcc and clang on x86-64: every platform has to give these bytes. */
static void images_golden(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint64_t hash;
    } cases[] = {
        {"synth:images?size=32&channels=3&classes=10&seed=1", UINT64_C(0xa0f4dc2866bb60e)},
        {"synth:images?size=45&channels=1&classes=3&seed=2", UINT64_C(0x94703d34a1ce8f04)},
        {"synth:images?size=225&channels=3&classes=100&seed=3", UINT64_C(0x189ef1edd4aa02a3)},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        yk_source *s = open_well(cases[k].spec, YK_SPLIT_TRAIN);
        uint64_t h = 0;
        for (uint64_t i = 0; i < 50; i++) {
            yk_rows one; /* its first row is allocated exactly: nothing may be written beyond it */
            yk_rows_init(&one, s->kind, s->dim);
            assert_int_equal(((const yk_synth *)s)->make((const yk_synth *)s, i, &one), YK_OK);
            assert_in_range(one.label[0], 0, s->classes - 1);
            h = yk_mix64(h + hash_bytes(one.u8, s->dim) + (uint64_t)one.label[0]);
            yk_rows_fini(&one);
        }
        yk_source_free(s);
        assert_int_equal(h, cases[k].hash);
    }
}

static void images_as_a_source(void **state)
{
    (void)state;
    yk_source *s = open_well("synth:images", YK_SPLIT_TRAIN);
    check_shape(s, 32, 3);
    assert_int_equal(s->classes, 10);
    assert_int_equal(s->examples, 50000);
    assert_true(s->has_test);
    yk_source_free(s);
    s = open_well("synth:images?size=224&classes=1000&channels=1&examples=7&test=5", YK_SPLIT_TEST);
    check_shape(s, 224, 1);
    assert_int_equal(s->classes, 1000);
    assert_int_equal(s->examples, 5);
    yk_source_free(s);
    yk_rows rows, one;
    assert_int_equal(read_all("synth:images?examples=3000&seed=4&size=20", NULL, 99, &rows, NULL), YK_OK);
    assert_int_equal(rows.n, 3000);
    s = open_well("synth:images?seed=4&size=20", YK_SPLIT_TRAIN);
    yk_rows_init(&one, s->kind, s->dim);
    size_t count[10] = {0};
    for (size_t i = 3000; i-- > 0;) {
        yk_rows_clear(&one);
        assert_int_equal(((const yk_synth *)s)->make((const yk_synth *)s, i, &one), YK_OK);
        assert_int_equal(one.label[0], rows.label[i]);
        assert_memory_equal(one.u8, rows.u8 + i * 1200, 1200);
        count[rows.label[i]]++;
    }
    for (int c = 0; c < 10; c++)
        assert_in_range(count[c], 230, 370);
    yk_rows_fini(&one);
    yk_source_free(s);
    yk_rows_fini(&rows);
    refuse("synth:images?size=8", "size=8: must be between 16");
    refuse("synth:images?channels=2", "channels=2");
    refuse("synth:images?colours=2", "unknown option colours");
}

/* The mean images of the classes carry little information: objects move, and no class is brighter. */
static void images_are_learnable(void **state)
{
    (void)state;
    enum { N = 4000, HALF = 2000, DIM = 3072 };
    yk_rows rows;
    assert_int_equal(read_all("synth:images?examples=4000", NULL, 500, &rows, NULL), YK_OK);
    static double mean[10][DIM];
    size_t count[10] = {0}, right = 0;
    memset(mean, 0, sizeof mean);
    for (size_t i = 0; i < HALF; i++) {
        count[rows.label[i]]++;
        for (size_t k = 0; k < DIM; k++)
            mean[rows.label[i]][k] += rows.u8[i * DIM + k];
    }
    for (size_t i = HALF; i < N; i++) {
        int best = 0;
        double min = 1e300;
        for (int c = 0; c < 10; c++) {
            double d = 0.0;
            for (size_t k = 0; k < DIM; k++) {
                double e = rows.u8[i * DIM + k] - mean[c][k] / (double)count[c];
                d += e * e;
            }
            best = d < min ? c : best;
            min = d < min ? d : min;
        }
        right += best == rows.label[i];
    }
    print_message("the nearest mean is right for %zu of %d\n", right, N - HALF);
    assert_in_range(right, HALF * 25 / 100, HALF * 60 / 100);
    yk_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_golden),
        cmocka_unit_test(images_as_a_source),
        cmocka_unit_test(images_are_learnable),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
