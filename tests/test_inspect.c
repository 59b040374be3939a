/* Inspection of data: key counts against a plain table, histograms against plain bins, and whole inspections of sets whose
 * figures are known. */
#include "read_all.h"

#include "base/rng.h"
#include "data/export.h"
#include "data/inspect.h"
#include "format/cache.h"
#include <math.h>

/* ---- keys */

#define KEYS 3000

static int falling(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static uint64_t count_of(const yk_keycount *k, uint32_t key)
{
    const uint32_t *page = k->page[key >> 16];
    return page ? page[key & 0xffff] : 0;
}

/* Keys are distributed over the whole 32-bit range; small ones are much more frequent. */
static void keys_are_counted_exactly(void **state)
{
    (void)state;
    static uint64_t plain[KEYS], sorted[KEYS];
    const uint64_t cut[] = {1, 10, 100, 1000, 2999, KEYS, 1000000};
    yk_keycount k;
    yk_key_ranking r;
    yk_rng rng = yk_rng_seed(1, 1);
    assert_int_equal(yk_keycount_init(&k), YK_OK);
    assert_int_equal(yk_keycount_rank(&k, cut, 7, &r), YK_OK);
    assert_int_equal(r.distinct, 0);
    assert_int_equal(r.nleaders, 0);
    assert_int_equal(r.sum[6], 0);
    for (int i = 0; i < 2000000; i++) {
        uint32_t n = yk_rng_below(&rng, 1 + yk_rng_below(&rng, 1 + yk_rng_below(&rng, KEYS)));
        plain[n]++;
        assert_int_equal(yk_keycount_add(&k, UINT32_MAX - n * 1431655u), YK_OK);
    }
    assert_true(plain[0] > 1000 && plain[KEYS - 1] < 255);
    uint64_t distinct = 0, sum = 0;
    for (size_t n = 0; n < KEYS; n++) {
        distinct += plain[n] > 0;
        assert_int_equal(count_of(&k, UINT32_MAX - (uint32_t)n * 1431655u), plain[n]);
    }
    assert_int_equal(count_of(&k, 5), 0);
    assert_int_equal(k.total, 2000000);
    assert_int_equal(yk_keycount_rank(&k, cut, 7, &r), YK_OK);
    assert_int_equal(r.distinct, distinct);
    assert_int_equal(r.nleaders, YK_KEYCOUNT_LEADERS);
    memcpy(sorted, plain, sizeof sorted);
    qsort(sorted, KEYS, sizeof *sorted, falling);
    for (size_t i = 0; i < r.nleaders; i++) {
        assert_int_equal(r.leader[i].count, sorted[i]);
        assert_int_equal(plain[(UINT32_MAX - r.leader[i].key) / 1431655u], sorted[i]);
    }
    for (size_t c = 0, n = 0; c < 7; c++) {
        for (; n < cut[c] && n < KEYS; n++)
            sum += sorted[n];
        assert_int_equal(r.sum[c], sum);
    }
    assert_int_equal(sum, 2000000);
    yk_keycount_fini(&k);
}

/* Counts of 255 and 256, and equal counts in the order of their keys. */
static void counts_around_the_limit_of_small_ones(void **state)
{
    (void)state;
    const uint64_t cut[] = {1, 2, 3};
    yk_keycount k;
    yk_key_ranking r;
    assert_int_equal(yk_keycount_init(&k), YK_OK);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(yk_keycount_add(&k, 70000), YK_OK);
        if (i < 255)
            assert_int_equal(yk_keycount_add(&k, 9), YK_OK);
        if (i < 254)
            assert_int_equal(yk_keycount_add(&k, 0) | yk_keycount_add(&k, UINT32_MAX), YK_OK);
    }
    assert_int_equal(count_of(&k, 70000), 256);
    assert_int_equal(count_of(&k, 9), 255);
    assert_int_equal(yk_keycount_rank(&k, cut, 3, &r), YK_OK);
    assert_int_equal(r.distinct, 4);
    assert_int_equal(r.nleaders, 4);
    assert_int_equal(r.leader[0].key, 70000);
    assert_int_equal(r.leader[1].key, 9);
    assert_int_equal(r.leader[2].key, 0);
    assert_int_equal(r.leader[3].key, UINT32_MAX);
    assert_int_equal(r.sum[0], 256);
    assert_int_equal(r.sum[1], 511);
    assert_int_equal(r.sum[2], 765);
    yk_keycount_fini(&k);
}

static void a_count_stops_at_its_maximum(void **state)
{
    (void)state;
    yk_keycount k;
    assert_int_equal(yk_keycount_init(&k), YK_OK);
    assert_int_equal(yk_keycount_add(&k, 5), YK_OK);
    k.page[0][5] = UINT32_MAX - 1;
    for (int i = 0; i < 2; i++)
        assert_int_equal(yk_keycount_add(&k, 5), YK_OK);
    assert_int_equal(count_of(&k, 5), UINT32_MAX);
    yk_keycount_fini(&k);
}

/* ---- histograms */

/* Whatever the range, the bars count every value once, within their bounds. */
static void check_bars(const double *x, size_t n, double width, size_t max, bool tail)
{
    yk_distribution s;
    yk_bar bar[32];
    assert_int_equal(yk_distribution_init(&s, width), YK_OK);
    assert_int_equal(yk_distribution_bars(&s, max, bar), 0);
    for (size_t i = 0; i < n; i++)
        yk_distribution_add(&s, x[i]);
    size_t bars = yk_distribution_bars(&s, max, bar);
    assert_true(bars >= 1 && bars <= max);
    assert_int_equal(isinf(bar[bars - 1].to) != 0, tail);
    uint64_t sum = 0;
    for (size_t b = 0; b < bars; b++) {
        uint64_t inside = 0;
        for (size_t i = 0; i < n; i++)
            inside += x[i] >= bar[b].from && x[i] < bar[b].to;
        assert_int_equal(bar[b].n, inside);
        assert_true(b == 0 || bar[b].from == bar[b - 1].to);
        sum += inside;
    }
    assert_int_equal(sum, n);
    assert_true(bar[0].n > 0 && bar[bars - 1].n > 0);
    yk_distribution_fini(&s);
}

static void histograms_count_every_value(void **state)
{
    (void)state;
    static double x[5000];
    yk_rng rng = yk_rng_seed(2, 2);
    for (size_t i = 0; i < 5000; i++)
        x[i] = 24 + yk_rng_below(&rng, 16);
    check_bars(x, 5000, 1.0, 16, false); /* one bar per number */
    check_bars(x, 5000, 1.0, 7, false);
    x[77] = 1e6; /* an outlier: the other values are still distinguished */
    check_bars(x, 5000, 1.0, 16, true);
    check_bars(x, 5000, 1.0, 2, true);
    for (size_t i = 0; i < 5000; i++)
        x[i] = yk_rng_normal(&rng) * 1e4 - 5e3; /* outside the initial range, on both sides */
    check_bars(x, 5000, 0x1p-8, 16, false);
    for (size_t i = 0; i < 5000; i++)
        x[i] = yk_rng_normal(&rng);
    x[0] = -1e30;
    check_bars(x, 5000, 0x1p-8, 16, false);
    x[0] = 0;
    check_bars(x, 1, 1.0, 16, false);
}

static void histograms_have_quantiles(void **state)
{
    (void)state;
    yk_distribution s;
    assert_int_equal(yk_distribution_init(&s, 1.0), YK_OK);
    for (int i = 1; i <= 1000; i++)
        yk_distribution_add(&s, i);
    assert_true(yk_distribution_quantile(&s, 0.0) == 1.0);
    assert_true(yk_distribution_quantile(&s, 0.5) == 500.0);
    assert_true(yk_distribution_quantile(&s, 1.0) == 1000.0);
    assert_true(s.min == 1.0 && s.max == 1000.0 && s.sum == 500500.0 && s.n == 1000);
    yk_distribution_fini(&s);
}

/* ---- inspections */

static yk_status inspect(const char *spec, const yk_source_options *o, size_t first, yk_inspection *out)
{
    static yk_source *open[2]; /* those of the last two inspections */
    static int turn;
    yk_source **s = &open[turn ^= 1];
    yk_source_free(*s);
    *s = NULL;
    yk_status st = yk_source_open(spec, YK_SPLIT_TRAIN, o, s);
    return st ? st : yk_inspect(*s, YK_SPLIT_TRAIN, first, out);
}

static void sparse_text_is_counted(void **state)
{
    (void)state;
    const char text[] = "1 1:1 5:0.5 9:-2\n0 5:1\n0\n-3 1:1\n2 5:3 1000000:0\n0 5:1\n";
    const char *path = new_path(".libsvm");
    yk_source_options skip = {.skip_bad = 1};
    yk_inspection i;
    put(path, text, sizeof text - 1);
    assert_error(inspect(path, NULL, 3, &i), YK_EDATA, "record 4");
    assert_int_equal(inspect(path, &skip, 2, &i), YK_OK);
    assert_string_equal(i.source->ops->name, "libsvm");
    assert_int_equal(i.source->files.n, 1);
    assert_int_equal(i.source->files.bytes, sizeof text - 1);
    assert_int_equal(i.examples, 5);
    assert_int_equal(i.bad, 1);
    assert_int_equal(i.classes, 3);
    assert_int_equal(i.class_count[0], 3);
    assert_int_equal(i.class_count[1], 1);
    assert_int_equal(i.class_count[2], 1);
    assert_int_equal(i.majority, 0);
    assert_int_equal(i.columns, 1000000);
    assert_int_equal(i.entries, 7);
    assert_int_equal(i.empty, 1);
    assert_int_equal(i.index_min, 0); /* libsvm indices begin at 1 */
    assert_int_equal(i.index_max, 999999);
    assert_int_equal(i.ranking.distinct, 4);
    assert_int_equal(i.ranking.leader[0].key, 4);
    assert_int_equal(i.ranking.leader[0].count, 4);
    assert_int_equal(i.ranking.sum[0], 7);
    assert_false(i.ones);
    assert_true(i.min == -2.0 && i.max == 3.0);
    assert_true(fabs(i.mean - 4.5 / 7.0) < 1e-12);
    assert_true(fabs(i.deviation - sqrt(16.25 / 7.0 - i.mean * i.mean)) < 1e-12);
    assert_int_equal(i.zeros, 1);
    assert_true(i.histogram.min == 0.0 && i.histogram.max == 3.0);
    assert_int_equal(i.first.n, 2);
    assert_int_equal(i.first.label[0], 1);
    assert_int_equal(yk_rows_entries(&i.first, 0), 3);
    assert_true(i.first.value[2] == -2.0f && i.first.value[3] == 1.0f);
    yk_inspection_fini(&i);
}

/* Rows whose values are all 1 give the same result whether or not the reader stores them. */
static void values_of_one_are_detected(void **state)
{
    (void)state;
    yk_inspection i;
    const char *path = new_path(".libsvm");
    put(path, "0 1:1 2:1\n1 2:1\n", 16);
    assert_int_equal(inspect(path, NULL, 0, &i), YK_OK);
    assert_true(i.ones && i.min == 1.0 && i.max == 1.0 && i.mean == 1.0 && i.deviation == 0.0);
    assert_int_equal(i.first.n, 0);
    yk_inspection_fini(&i);
    char spec[300]; /* the formats below cannot be detected by content */
    snprintf(spec, sizeof spec, "libsvm:%s", path);
    put(path, "0\n0\n", 4);
    assert_int_equal(inspect(spec, NULL, 9, &i), YK_OK);
    assert_int_equal(i.empty, 2);
    assert_int_equal(i.first.n, 2);
    assert_int_equal(i.ranking.distinct, 0);
    assert_false(i.ones);
    assert_int_equal(i.class_count[0], 2);
    assert_int_equal(i.class_count[1], 0);
    yk_inspection_fini(&i);
    put(path, "# nothing but this\n", 19);
    assert_error(inspect(spec, NULL, 9, &i), YK_EDATA, ": no examples");
}

/* Generated clicks have the requested figures, also after a conversion to a cache. */
static void clicks_and_their_cache(void **state)
{
    (void)state;
    const char *spec = "synth:ctr?features=5000&nnz=12&examples=9000&seed=3", *path = new_path(".cache");
    yk_inspection a, b;
    yk_source *s;
    yk_export_stats stats;
    assert_int_equal(inspect(spec, NULL, 4, &a), YK_OK);
    assert_string_equal(a.source->ops->name, "synth");
    assert_int_equal(a.source->files.n, 0);
    assert_int_equal(a.examples, 9000);
    assert_int_equal(a.entries, 9000 * 12);
    assert_int_equal(a.columns, 5000);
    assert_true(a.source->has_test && a.has_truth && a.ones && !a.verified);
    assert_true(a.histogram.min == 12.0 && a.histogram.max == 12.0);
    assert_int_equal(a.class_count[0] + a.class_count[1], 9000);
    assert_true(a.ranking.sum[0] < a.ranking.sum[1] && a.ranking.sum[3] == a.entries);
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_int_equal(yk_export(s, "cache", path, &stats), YK_OK);
    yk_source_free(s);
    assert_int_equal(inspect(path, NULL, 4, &b), YK_OK);
    assert_string_equal(b.source->ops->name, "cache");
    assert_true(b.verified && b.has_truth && b.ones && !b.source->has_test);
    assert_int_equal(b.source->files.n, 1);
    assert_int_equal(b.source->files.bytes, stats.bytes);
    assert_int_equal(b.columns, 5000);
    assert_memory_equal(a.class_count, b.class_count, 2 * sizeof *a.class_count);
    assert_int_equal(a.ranking.distinct, b.ranking.distinct);
    assert_memory_equal(a.ranking.sum, b.ranking.sum, sizeof a.ranking.sum);
    for (size_t n = 0; n < YK_KEYCOUNT_LEADERS; n++) {
        assert_int_equal(a.ranking.leader[n].key, b.ranking.leader[n].key);
        assert_int_equal(a.ranking.leader[n].count, b.ranking.leader[n].count);
    }
    assert_memory_equal(a.first.index, b.first.index, 4 * 12 * sizeof *a.first.index);
    yk_inspection_fini(&b);
    patch(path, stats.bytes - 3, 0x10);
    assert_error(inspect(path, NULL, 4, &b), YK_EDATA, "checksum");
    yk_inspection_fini(&a);
}

static void images_are_measured(void **state)
{
    (void)state;
    uint8_t images[16 + 3 * 4] = {0, 0, 8, 3, 0,  0,  0,  3,  0,   0, 0, 2,
                                  0, 0, 0, 2, /* three images of 2 x 2 */
                                  0, 0, 0, 4, 10, 10, 10, 10, 255, 0, 0, 1};
    const uint8_t labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 2};
    put(in_directory("train-images-idx3-ubyte"), images, sizeof images);
    put(in_directory("train-labels-idx1-ubyte"), labels, sizeof labels);
    yk_inspection i;
    char spec[300];
    snprintf(spec, sizeof spec, "idx:%s", directory);
    assert_int_equal(inspect(spec, NULL, 3, &i), YK_OK);
    assert_string_equal(i.source->ops->name, "idx");
    assert_int_equal(i.source->files.n, 2);
    assert_int_equal(i.source->files.bytes, sizeof images + sizeof labels);
    assert_int_equal(i.examples, 3);
    assert_int_equal(i.classes, 3);
    assert_int_equal(i.majority, 2);
    assert_int_equal(i.class_count[2], 2);
    assert_int_equal(i.source->height, 2);
    assert_int_equal(i.source->width, 2);
    assert_true(i.min == 0.0 && i.max == 255.0);
    assert_true(i.mean == 25.0);
    assert_true(fabs(i.deviation - sqrt((16.0 + 400.0 + 65025.0 + 1.0) / 12.0 - 625.0)) < 1e-9);
    assert_int_equal(i.zeros, 5);
    assert_true(i.histogram.min == 1.0 && i.histogram.max == 64.0);
    assert_true(!i.source->has_test && !i.ones);
    assert_int_equal(i.first.u8[8], 255);
    assert_true(i.scale == 1.0f / 255.0f);
    yk_inspection_fini(&i);
}

static void floats_are_measured(void **state)
{
    (void)state;
    const char *path = new_path(".cache");
    yk_cache_shape shape = {
        .header = {.kind = YK_ROWS_F32, .n = 2, .dim = 3, .entries = 6, .classes = 2, .scale = 1}};
    yk_cache_writer *w;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_F32, 3);
    for (int r = 0; r < 2; r++) {
        float *x;
        assert_int_equal(yk_rows_dense_f32(&rows, &x), YK_OK);
        x[0] = -1e6f, x[1] = 0.0f, x[2] = r ? 1e6f : 4.0f;
        assert_int_equal(yk_rows_commit(&rows, 0, r), YK_OK);
    }
    assert_int_equal(yk_cache_create(path, &shape, &w), YK_OK);
    assert_int_equal(yk_cache_close(w, yk_cache_add(w, &rows)), YK_OK);
    yk_rows_fini(&rows);
    yk_inspection i;
    assert_int_equal(inspect(path, NULL, 1, &i), YK_OK);
    assert_int_equal(i.source->kind, YK_ROWS_F32);
    assert_true(i.min == -1e6 && i.max == 1e6);
    assert_int_equal(i.zeros, 2);
    assert_true(i.histogram.min < -3e5 && i.histogram.max == 0.0);
    yk_bar bar[8];
    size_t bars = yk_distribution_bars(&i.histogram, 8, bar);
    assert_int_equal(bar[0].n, 1);
    assert_int_equal(bar[bars - 1].n, 1);
    yk_inspection_fini(&i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_counted_exactly),
        cmocka_unit_test(counts_around_the_limit_of_small_ones),
        cmocka_unit_test(a_count_stops_at_its_maximum),
        cmocka_unit_test(histograms_count_every_value),
        cmocka_unit_test(histograms_have_quantiles),
        cmocka_unit_test(sparse_text_is_counted),
        cmocka_unit_test(values_of_one_are_detected),
        cmocka_unit_test(clicks_and_their_cache),
        cmocka_unit_test(images_are_measured),
        cmocka_unit_test(floats_are_measured),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
