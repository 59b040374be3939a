/* When asynchronous workers begin (train/stagger.c), and how long they wait. */
#include "train/loop.h"

#include "scratch.h"

enum { WORKERS = 3, STEPS = 8 };

static void a_worker_waits_to_begin(void **state)
{
    (void)state;
    static yk__trainer t;
    static yk__worker_state worker[WORKERS];
    volatile sig_atomic_t stop = 0;
    const yk_plan plan = {.team_timeout = 0.05, .workers_per_process = WORKERS};
    const yk_train_caller caller = {.stop = &stop};
    bool begun = true;
    t = (yk__trainer){.plan = &plan, .caller = &caller, .worker = worker};
    assert_int_equal(yk_team_create(WORKERS, &t.team), YK_OK);
    assert_int_equal(yk__wait_to_begin(&t, 0, &begun), YK_OK);
    assert_true(begun);

    assert_int_equal(yk__wait_to_begin(&t, 2, &begun), YK_ELOST);
    assert_string_equal(yk_error(), "worker 2 waited to begin, but no worker took a step for 0.05 s");
    assert_false(begun);
    t.barrier_due = true; /* it takes part, and waits again */
    assert_int_equal(yk__wait_to_begin(&t, 2, &begun), YK_OK);
    assert_false(begun);
    t.barrier_due = false;

    yk__count_first_steps(&t, STEPS);
    assert_int_equal(yk__wait_to_begin(&t, 1, &begun), YK_OK);
    assert_true(begun);
    assert_int_equal(yk__wait_to_begin(&t, 2, &begun), YK_ELOST);
    yk__count_first_steps(&t, STEPS);
    assert_int_equal(yk__wait_to_begin(&t, 2, &begun), YK_OK);
    assert_true(begun);

    t.first_steps = 0;
    stop = 1;
    assert_int_equal(yk__wait_to_begin(&t, 2, &begun), YK_OK);
    assert_true(begun);
    yk_team_free(t.team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_waits_to_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
