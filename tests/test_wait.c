/* Waiting: turns, deadlines, and restarts. */
#include "base/clock.h"
#include "base/wait.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_deadline_passes(void **state)
{
    (void)state;
    for (yk_wait_kind kind = YK_WAIT_THREADS; kind <= YK_WAIT_MEMORY; kind++) {
        yk_wait w = yk_wait_begin(kind, 0.02);
        const double began = yk_now();
        while (yk_wait_poll(&w))
            assert_true(yk_now() - began < 10.0);
        assert_true(yk_now() - began >= 0.02);
        assert_true(yk_wait_expired(&w));
        yk_wait_restart(&w); /* starts again */
        assert_false(yk_wait_expired(&w));
        assert_true(yk_wait_poll(&w));
        assert_int_equal(w.polls, 1);
    }
}

static void it_spins_and_then_sleeps(void **state)
{
    (void)state;
    yk_wait w = yk_wait_begin(YK_WAIT_THREADS, HUGE_VAL);
    unsigned turns = 0;
    for (; yk_wait_spin(&w); turns++)
        assert_true((turns < w.spins) == (w.began == 0));
    assert_int_equal(turns, w.spins + w.yields);
    assert_false(yk_wait_expired(&w));
    for (int i = 0; i < 300; i++)
        assert_true(yk_wait_poll(&w)); /* no deadline */
}

static void slow_yields_end_early(void **state)
{
    (void)state;
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    int turns = 0;
    for (; yk_wait_spin(&w); turns++)
        yk_sleep(0.005); /* as if another program had used the core */
    assert_true(turns <= 3);
}

static void every_poll_sleeps(void **state)
{
    (void)state;
    yk_wait w = yk_wait_every(0.002, 0.02);
    const double began = yk_now();
    int polls = 1;
    for (; yk_wait_poll(&w); polls++)
        assert_true(yk_wait_is_check_due(&w));
    assert_true(yk_now() - began >= 0.02);
    assert_true(polls >= 1 && polls <= 11);
    yk_wait_restart(&w);
    assert_true(yk_wait_poll(&w) || yk_now() - began > 0.04);
}

static void crowds_poll_rarely(void **state)
{
    (void)state;
    yk_wait_set_share(2.0 / 256.0);
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    while (yk_wait_spin(&w))
        ;
    const double began = yk_now();
    for (int i = 0; i < 10; i++)
        yk_wait_poll(&w);
    assert_true(yk_now() - began >= 0.1); /* 256 times 50 us each */
    yk_wait_set_share(1.0);
}

static void sleeps_are_long_enough(void **state)
{
    (void)state;
    const double began = yk_now();
    yk_sleep(0.01);
    assert_true(yk_now() - began >= 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_passes),     cmocka_unit_test(it_spins_and_then_sleeps),
        cmocka_unit_test(slow_yields_end_early), cmocka_unit_test(every_poll_sleeps),
        cmocka_unit_test(crowds_poll_rarely),    cmocka_unit_test(sleeps_are_long_enough)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
