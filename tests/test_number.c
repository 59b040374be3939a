/* Numbers in text: which are valid, and the error messages for others. */
#include "base/number.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_digits(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_string_equal(yk_digits("5x3", 64, &n), "x3");
    assert_int_equal(n, 5);
    assert_string_equal(yk_digits("18446744073709551615", UINT64_MAX, &n), "");
    assert_true(n == UINT64_MAX);
    assert_non_null(yk_digits("64", 64, &n));
    static const char *const refused[] = {"", "x", "-1", "+1", " 1", "65", "100"};
    n = 7;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_null(yk_digits(refused[i], 64, &n));
    assert_null(yk_digits("18446744073709551616", UINT64_MAX, &n));
    assert_null(yk_digits("5", 3, &n));
    assert_int_equal(n, 7);
}

static void test_digits_after_a_prefix(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_string_equal(yk_digits_after("step-", "step-20/", 99, &n), "/");
    assert_int_equal(n, 20);
    assert_null(yk_digits_after("step-", "ste", 99, &n));
    assert_null(yk_digits_after("step-", "step-x", 99, &n));
    assert_null(yk_digits_after("step-", "step-100", 99, &n));
    assert_int_equal(n, 20);
}

static void test_words(void **state)
{
    (void)state;
    static const char line[] = " cpu \t 12 max -3  4k\n5\n";
    uint64_t n = 7;
    assert_string_equal(yk_word(line, 0), line + 1);
    assert_string_equal(yk_word(line, 4), "4k\n5\n");
    assert_null(yk_word(line, 5)); /* not the next line */
    assert_null(yk_word("", 0));
    assert_null(yk_word("\n1", 0));
    assert_null(yk_word(" ", 0));
    assert_null(yk_word(NULL, 0));
    assert_string_equal(yk_word_digits(line, 1, &n), " max -3  4k\n5\n");
    assert_int_equal(n, 12);
    assert_string_equal(yk_word_digits(line, 4, &n), "k\n5\n");
    assert_int_equal(n, 4);
    for (int i = 0; i < 6; i++)
        if (i != 1 && i != 4)
            assert_null(yk_word_digits(line, i, &n));
    assert_null(yk_word_digits(NULL, 0, &n));
    assert_int_equal(n, 4);
}

static void test_shortest(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
        int bits; /* 0: those of a double */
    } all[] = {{0.05, "0.05"},
               {0.0, "0"},
               {-2.5, "-2.5"},
               {10.0, "10"},
               {1e6, "1000000"},
               {-1234567890123456.0, "-1234567890123456"},
               {1e16, "1e+16"},
               {0.001, "0.001"},
               {1e-5, "1e-05"},
               {1e-300, "1e-300"},
               {1.0 / 3.0, "0.3333333333333333"},
               {0.1 + 0.2, "0.30000000000000004"},
               {0.1f, "0.1", FLT_MANT_DIG},
               {16777216.0f, "16777216", FLT_MANT_DIG},
               {3.4028234663852886e38, "3.4028235e+38", FLT_MANT_DIG},
               {0.0999755859375, "0.1", 11}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[32];
        double x;
        const int bits = all[i].bits ? all[i].bits : DBL_MANT_DIG;
        yk_number_shortest(all[i].x, bits, text, sizeof text);
        assert_string_equal(text, all[i].text);
        assert_non_null(yk_decimal(text, &x));
        assert_true(x == all[i].x || (bits < DBL_MANT_DIG && fabs(x - all[i].x) <= ldexp(x, -bits)));
    }
}

static void test_decimal(void **state)
{
    (void)state;
    double x = 7;
    assert_string_equal(yk_decimal("-1.5e2/3", &x), "/3");
    assert_true(x == -150.0);
    assert_string_equal(yk_decimal(".5,", &x), ",");
    static const char *const refused[] = {"",     " 1",  "nan", "inf", "-inf",  "0x10",
                                          "-0X1", "abc", "-",   ".",   "1e999", "--1"};
    x = 7;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_null(yk_decimal(refused[i], &x));
    assert_true(x == 7);
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t n;
    } good[] = {{"4096", 4096},  {"1e6", 1000000}, {"100k", 100000},
                {"2M", 2000000}, {"1.5K", 1500},   {"-1", -1}};
    int64_t n;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(yk_number_int(good[i].text, -1, 9e15, &n), YK_OK);
        assert_true(n == good[i].n);
    }
    static const char *const bad[] = {"", "1x", "1.5", "k", "2kk", "ten", "nan", "1 ", " 1", "0x10"};
    n = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(yk_number_int(bad[i], 0, 100, &n), YK_EUSAGE);
        assert_string_equal(yk_error(), "not a whole number; must be between 0 and 100");
    }
    assert_int_equal(yk_number_int("0", 1, 64, &n), YK_EUSAGE);
    assert_string_equal(yk_error(), "must be between 1 and 64");
    assert_int_equal(n, 7);
}

static void test_u64(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_int_equal(yk_number_u64("18446744073709551615", 0, UINT64_MAX, &n), YK_OK);
    assert_true(n == UINT64_MAX);
    assert_int_equal(yk_number_u64("2m", 0, UINT64_MAX, &n), YK_OK);
    assert_int_equal(n, 2000000);
    static const char *const refused[] = {"-1", "1e300", "18446744073709551616", "1x", "", "0.5"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(yk_number_u64(refused[i], 0, UINT64_MAX, &n), YK_EUSAGE);
    assert_int_equal(yk_number_u64("1001", 1, 1000, &n), YK_EUSAGE);
    assert_string_equal(yk_error(), "must be between 1 and 1000");
    assert_int_equal(n, 2000000);
}

static void test_real(void **state)
{
    (void)state;
    double x = 7;
    assert_int_equal(yk_number_real("0.5", 0, HUGE_VAL, &x), YK_OK);
    assert_true(x == 0.5);
    assert_int_equal(yk_number_real("1e308m", 0, HUGE_VAL, &x), YK_EUSAGE);
    assert_string_equal(yk_error(), "not a number; must be 0 or more");
    assert_int_equal(yk_number_real("nan", -HUGE_VAL, HUGE_VAL, &x), YK_EUSAGE);
    assert_string_equal(yk_error(), "not a number");
    assert_int_equal(yk_number_real("-1", 0, HUGE_VAL, &x), YK_EUSAGE);
    assert_string_equal(yk_error(), "must be 0 or more");
    assert_int_equal(yk_number_real("0", 1, 9e15, &x), YK_EUSAGE);
    assert_string_equal(yk_error(), "must be 1 or more");
    assert_int_equal(yk_number_real("2", 0, 1, &x), YK_EUSAGE);
    assert_string_equal(yk_error(), "must be between 0 and 1");
    assert_true(x == 0.5);
}

static void test_environment(void **state)
{
    (void)state;
    setenv("YK_TEST_NUMBER", "2.5", 1);
    assert_true(yk_env_number("YK_TEST_NUMBER", 1) == 2.5);
    setenv("YK_TEST_NUMBER", "2x", 1);
    assert_true(yk_env_number("YK_TEST_NUMBER", 1) == 1);
    unsetenv("YK_TEST_NUMBER");
    assert_true(yk_env_number("YK_TEST_NUMBER", 1) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits),     cmocka_unit_test(test_digits_after_a_prefix),
        cmocka_unit_test(test_words),      cmocka_unit_test(test_shortest),
        cmocka_unit_test(test_decimal),    cmocka_unit_test(test_integers),
        cmocka_unit_test(test_u64),        cmocka_unit_test(test_real),
        cmocka_unit_test(test_environment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
