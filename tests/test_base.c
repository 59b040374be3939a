/* Errors, memory, random numbers, permutations. */
#include "scratch.h"

#include "base/mem.h"
#include "base/perm.h"
#include "base/rng.h"
#include "base/text.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>

/* ---- status */

static void statuses_have_codes_and_messages(void **state)
{
    (void)state;
    assert_int_equal(YK_OK, 0);
    assert_int_equal(yk_status_exit(YK_OK), 0);
    assert_int_equal(yk_status_exit(YK_EDIVERGED), 1);
    assert_int_equal(yk_status_exit(YK_ELOST), 1);
    assert_int_equal(yk_status_exit(YK_EUSAGE), 2);
    assert_int_equal(yk_status_exit(YK_EDATA), 3);
    assert_int_equal(yk_status_exit(YK_ESYSTEM), 4);
    assert_int_equal(yk_status_exit(YK_ESTOP), 1);
    assert_string_equal(yk_status_text(YK_OK), "ok");
    assert_string_equal(yk_status_text(YK_EDATA), "bad data");
    assert_string_equal(yk_status_text(YK_ESTOP), "another worker stopped the run");
}

static void an_error_message_may_contain_the_previous_one(void **state)
{
    (void)state;
    assert_int_equal(yk_fail(YK_EDATA, "record %d is bad", 7), YK_EDATA);
    assert_string_equal(yk_error(), "record 7 is bad");
    assert_int_equal(yk_fail(YK_EUSAGE, "%s: %s", "a.bin", yk_error()), YK_EUSAGE);
    assert_string_equal(yk_error(), "a.bin: record 7 is bad");
    char longer[5000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    yk_fail(YK_EDATA, "%s", longer);
    assert_true(strlen(yk_error()) >= 2000 && strlen(yk_error()) < sizeof longer);
    assert_int_equal(yk_fail_memory(123456789012ull, "the weights"), YK_ESYSTEM);
    assert_message("123456789012 bytes for the weights");
}

static void *fail_elsewhere(void *arg)
{
    bool *had_none = arg;
    *had_none = yk_error()[0] == 0;
    yk_fail(YK_EDATA, "elsewhere");
    return NULL;
}

static void each_thread_has_its_own_error(void **state)
{
    (void)state;
    pthread_t t;
    bool had_none = false;
    yk_fail(YK_EDATA, "here");
    assert_int_equal(pthread_create(&t, NULL, fail_elsewhere, &had_none), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(had_none);
    assert_string_equal(yk_error(), "here");
}

/* ---- memory */

static void memory_is_aligned_and_zero(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4096, (2 << 20) - 65, (2 << 20) - 64, (2 << 20) - 63, 5 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int again = 0; again < 2;
             again++) { /* the second call may return memory that the first one has written to */
            unsigned char *p = yk_alloc(sizes[s], 1, "a test");
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % YK_ALIGN, 0);
            for (size_t i = 0; i < sizes[s]; i++)
                if (p[i])
                    fail_msg("byte %zu of %zu is %d", i, sizes[s], p[i]);
            memset(p, 0xa5, sizes[s]);
            yk_free(p);
        }
    yk_free(NULL);
    assert_null(yk_alloc(SIZE_MAX / 2, 3, "too many things"));
    assert_message("too many things");
    assert_null(yk_alloc(1, SIZE_MAX - 100, "one large thing"));
    assert_message("one large thing");
}

static void arrays_keep_their_contents_when_they_grow(void **state)
{
    (void)state;
    size_t cap = 0, changes = 0;
    uint32_t *p = NULL;
    for (uint32_t i = 0; i < 100000; i++) {
        size_t before = cap;
        assert_int_equal(YK_RESERVE(p, cap, i + 1, "numbers"), YK_OK);
        assert_true(cap > i && cap >= before);
        changes += cap != before;
        p[i] = i * 3;
    }
    assert_true(changes < 40); /* grows by half each time, not by one */
    for (uint32_t i = 0; i < 100000; i++)
        assert_int_equal(p[i], i * 3);
    size_t had = cap;
    assert_int_equal(YK_RESERVE(p, cap, SIZE_MAX / 2, "more than there is"), YK_ESYSTEM);
    assert_message("more than there is");
    assert_int_equal(cap, had);
    assert_int_equal(p[99999], 299997);
    free(p);
}

/* ---- random numbers */

static void random_numbers_are_the_same_everywhere(void **state)
{
    (void)state;
    yk_rng r = {0}; /* SplitMix64 with seed 0, as published */
    assert_true(yk_rng_u64(&r) == 0xe220a8397b1dcdafu);
    assert_true(yk_rng_u64(&r) == 0x6e789e6aa1b965f4u);
    assert_true(yk_rng_u64(&r) == 0x06c45d188009454fu);
    r = yk_rng_seed(1, 2);
    assert_true(yk_rng_u64(&r) == 0x34e561b7c1dc405du);
    assert_true(yk_rng_u64(&r) == 0xf1aed1abfdf1e96fu);
    assert_true(yk_rng_u64(&r) == 0x6c806d80fb052846u);
    static const uint32_t tens[] = {9, 8, 9, 0, 7, 1, 2, 6, 8, 6, 3, 7};
    static const uint32_t large[] = {2660556958u, 2965185554u, 2921177763u, 1446869316u};
    r = yk_rng_seed(7, 0);
    for (int i = 0; i < 12; i++)
        assert_int_equal(yk_rng_below(&r, 10), tens[i]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(yk_rng_below(&r, 3u << 30), large[i]);
    assert_true(yk_rng_unit(&r) == 0x1.3f9fb90379bb2p-1);
    assert_true(yk_rng_normal(&r) == 0x1.334dfb6000000p-4);
}

static void random_numbers_have_no_bias(void **state)
{
    (void)state;
    yk_rng r = yk_rng_seed(5, 0);
    int n = 120000, low[3] = {0}, digit[10] = {0};
    /* A plain remainder of 32 bits would give the lowest quarter of 3 * 2^30 twice as often as the rest. */
    for (int i = 0; i < n; i++) {
        low[yk_rng_below(&r, 3u << 30) >> 30]++;
        digit[yk_rng_below(&r, 10)]++;
    }
    for (int i = 0; i < 3; i++)
        assert_true(abs(low[i] - n / 3) < 6 * 163); /* six standard deviations */
    for (int i = 0; i < 10; i++)
        assert_true(abs(digit[i] - n / 10) < 6 * 104);
    assert_int_equal(yk_rng_below(&r, 1), 0);
    double sum = 0, squares = 0, units = 0;
    for (int i = 0; i < n; i++) {
        double x = yk_rng_normal(&r), u = yk_rng_unit(&r);
        assert_true(x >= -6 && x <= 6 && u >= 0 && u < 1);
        sum += x;
        squares += x * x;
        units += u;
    }
    assert_true(fabs(sum / n) < 0.018 && fabs(squares / n - 1) < 0.025 && fabs(units / n - 0.5) < 0.005);
    yk_rng a = yk_rng_seed(1, 0), b = yk_rng_seed(1, 1), c = yk_rng_seed(2, 0);
    uint64_t first = yk_rng_u64(&a);
    assert_true(first != yk_rng_u64(&b) && first != yk_rng_u64(&c));
}

/* ---- permutations */

static void a_permutation_has_each_number_once(void **state)
{
    (void)state;
    static uint16_t seen[5000];
    for (unsigned n = 1; n <= 5000; n++) {
        yk_perm p = yk_perm_make(n, n * 31);
        for (unsigned i = 0; i < n; i++) {
            uint64_t at = yk_perm_at(&p, i);
            if (at >= n || seen[at] == n)
                fail_msg("n = %u: element %u is %llu, which occurred before", n, i, (unsigned long long)at);
            seen[at] = (uint16_t)n;
            if (i < 100 && yk_perm_find(&p, at) != i)
                fail_msg("n = %u: %llu is element %u", n, (unsigned long long)at, i);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void large_permutations_do_not_repeat(void **state)
{
    (void)state;
    enum { MAX = 60000 };
    static uint64_t got[MAX];
    static const uint64_t sizes[] = {1000003,      0xfffffffeu,    0xffffffffu, 0x100000000u,
                                     0x100000001u, 1000000000039u, 1ull << 61,  (1ull << 62) - 1};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        yk_perm p = yk_perm_make(sizes[s], 9);
        for (uint64_t i = 0; i < MAX; i++) { /* the beginning, the end, and samples in between */
            uint64_t at = i < MAX / 3       ? i
                          : i < MAX / 3 * 2 ? sizes[s] - 1 - (i - MAX / 3)
                                            : MAX + (i - MAX / 3 * 2) * ((sizes[s] - 2 * MAX) / MAX);
            got[i] = yk_perm_at(&p, at);
            assert_true(got[i] < sizes[s]);
        }
        qsort(got, MAX, sizeof *got, by_size);
        for (size_t i = 1; i < MAX; i++)
            assert_true(got[i] != got[i - 1]);
        assert_true(got[MAX / 2] > sizes[s] / 8 * 3 && got[MAX / 2] < sizes[s] / 8 * 5);
    }
}

static void permutations_look_random(void **state)
{
    (void)state;
    enum { N = 10000 };
    static uint32_t steps[N];
    yk_perm p = yk_perm_make(N, 1), q = yk_perm_make(N, 2);
    double moved = 0;
    int same = 0, ups = 0, max = 0;
    memset(steps, 0, sizeof steps);
    for (int i = 0; i < N; i++) {
        int64_t at = (int64_t)yk_perm_at(&p, (uint64_t)i),
                next = (int64_t)yk_perm_at(&p, (uint64_t)(i + 1) % N);
        moved += fabs((double)(at - i));
        same += at == (int64_t)yk_perm_at(&q, (uint64_t)i);
        ups += next > at;
        int seen = (int)++steps[(next - at + N) % N];
        max = seen > max ? seen : max;
    }
    assert_true(fabs(moved / N / (N / 3.0) - 1) < 0.05);
    assert_true(same < 10);                 /* 1 is expected for two independent permutations */
    assert_true(abs(ups - N / 2) < 6 * 29); /* their standard deviation is sqrt(N / 12) */
    assert_true(max < 12);                  /* no step between neighbors is common */
    int count[10] = {0};
    for (uint64_t seed = 0; seed < 5000; seed++) {
        yk_perm small = yk_perm_make(10, seed);
        count[yk_perm_at(&small, 3)]++;
    }
    for (int i = 0; i < 10; i++)
        assert_true(abs(count[i] - 500) < 6 * 21);
}

/* Computed independently. If these change, a seed gives a different run, and a checkpoint a different position in it. */
static void permutations_are_the_same_everywhere(void **state)
{
    (void)state;
    static const uint64_t ten[] = {7, 4, 3, 6, 8, 1, 9, 0, 5, 2}, images[] = {11407, 11133, 7520, 13187},
                          huge[] = {1261389296, 3323944800, 1269241066};
    yk_perm p = yk_perm_make(10, 42);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(yk_perm_at(&p, i), ten[i]);
    p = yk_perm_make(60000, 1);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(yk_perm_at(&p, i), images[i]);
    p = yk_perm_make((1ull << 32) + 1, 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(yk_perm_at(&p, i), huge[i]);
}

static void csv_fields_are_quoted_and_escaped(void **state)
{
    (void)state;
    static const char *const same[] = {"",   "a=b", "-",   "-1",         "-2.5e-3",
                                       "+7", "1-2", "all", "a b\tc;'d'", "\xc3\xa9"};
    static const struct {
        const char *from, *to;
    } changed[] = {{"=1+1", "'=1+1"},
                   {"@sum", "'@sum"},
                   {"-a", "'-a"},
                   {"+cmd|x", "'+cmd|x"},
                   {"-1+2", "'-1+2"},
                   {"--1", "'--1"},
                   {"a,\"b\"", "\"a,\"\"b\"\"\""},
                   {"=a\nb", "\"'=a\nb\""},
                   {"a\rb\xff", "\"a\xef\xbf\xbd"
                                "b\xef\xbf\xbd\""}};
    yk_text t = {0};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        yk_text_csv(&t, same[i]);
        assert_string_equal(t.s, same[i]);
        yk_text_fini(&t);
    }
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        yk_text_csv(&t, changed[i].from);
        assert_string_equal(t.s, changed[i].to);
        yk_text_fini(&t);
    }
}

static void lists_are_cut(void **state)
{
    (void)state;
    for (int words = 1; words < 200; words *= 3) {
        yk_text t = {0};
        int written = 0;
        for (int i = 0; i < words; i++)
            if (yk_text_item(&t)) {
                yk_text_add(&t, "word");
                written++;
            }
        assert_int_equal(written, words < 51 ? words : 51);
        assert_memory_equal(t.s, "word, word", t.n < 10 ? t.n : 10);
        assert_string_equal(t.s + t.n - 4, words < 51 ? "word" : " ...");
        yk_text_fini(&t);
    }
}

/* Widths are those of a terminal: wide and combining characters, and bytes that are not UTF-8. */
static void columns_are_aligned(void **state)
{
    (void)state;
    yk_text rows = {0}, out = {0};
    yk_text_add(&rows, "a\t1\n\u5e74\u9f84\t2\n\U0001f600\t3\ne\u0301\u00e9\t4\n\xff\t5\n\uac00b\t6\n");
    yk_text_columns(&out, &rows, "<>");
    assert_string_equal(
        out.s, "a     1\n\u5e74\u9f84  2\n\U0001f600    3\ne\u0301\u00e9    4\n\xff     5\n\uac00b   6\n");
    yk_text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_cut),
        cmocka_unit_test(csv_fields_are_quoted_and_escaped),
        cmocka_unit_test(statuses_have_codes_and_messages),
        cmocka_unit_test(an_error_message_may_contain_the_previous_one),
        cmocka_unit_test(each_thread_has_its_own_error),
        cmocka_unit_test(memory_is_aligned_and_zero),
        cmocka_unit_test(arrays_keep_their_contents_when_they_grow),
        cmocka_unit_test(random_numbers_are_the_same_everywhere),
        cmocka_unit_test(random_numbers_have_no_bias),
        cmocka_unit_test(a_permutation_has_each_number_once),
        cmocka_unit_test(large_permutations_do_not_repeat),
        cmocka_unit_test(permutations_look_random),
        cmocka_unit_test(permutations_are_the_same_everywhere),
        cmocka_unit_test(columns_are_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
