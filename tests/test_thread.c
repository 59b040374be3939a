/* The team of workers: barriers that separate, errors that release, stops. */
#include "scratch.h"

#include "base/clock.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <time.h>

enum { MOST = 24 };

typedef struct {
    yk_team *team;
    int n;
    int rounds;
    long cell
        [MOST]; /* plain memory: only the barrier orders the accesses, and ThreadSanitizer sees it if it does not */
    int bad; /* the worker that fails */
    int bad_round;
    atomic_int released, ran;
    pid_t main_thread;
} ring;

static void run_with(ring *r, int workers, yk_status (*work)(void *, int), yk_status expected)
{
    r->n = workers;
    assert_int_equal(yk_team_create(workers, &r->team), YK_OK);
    assert_int_equal(yk_team_run(r->team, work, r), expected);
    yk_team_free(r->team);
}

/* ---- running */

static yk_status say_who(void *context, int me)
{
    ring *r = context;
    r->cell[me]++;
    if (me == 0 && gettid() != r->main_thread)
        return yk_fail(YK_EDATA, "worker 0 is on a thread of its own");
    return YK_OK;
}

static void each_worker_runs_once(void **state)
{
    (void)state;
    for (int n = 1; n <= MOST; n++) {
        ring r = {.main_thread = gettid()};
        run_with(&r, n, say_who, YK_OK);
        for (int i = 0; i < MOST; i++)
            assert_int_equal(r.cell[i], i < n);
    }
    assert_true(yk_cores() >= 1);
    yk_team_free(NULL);
}

/* ---- barriers */

/* Writes its cell, waits, reads all cells, waits. Without a barrier some cell would be of another round. */
static yk_status write_and_read(void *context, int me)
{
    ring *r = context;
    long wrong = 0;
    for (int round = 1; round <= r->rounds; round++) {
        yk_status st;
        r->cell[me] = round * (me + 1);
        if ((st = yk_team_barrier(r->team, me)))
            return st;
        for (int i = 0; i < r->n; i++)
            wrong += r->cell[i] != (long)round * (i + 1);
        if ((st = yk_team_barrier(r->team, me)))
            return st;
    }
    if (wrong)
        return yk_fail(YK_EDATA, "worker %d saw %ld cells of another round", me, wrong);
    return YK_OK;
}

static void a_barrier_separates(void **state)
{
    (void)state;
    static const int workers[] = {1, 2, 3, 7,
                                  MOST}; /* spinning where there are cores enough, sleeping otherwise */
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        ring r = {.rounds = workers[i] < 4 ? 3000 : 300};
        run_with(&r, workers[i], write_and_read, YK_OK);
    }
}

static void a_team_runs_again_and_again(void **state)
{
    (void)state;
    ring r = {.n = 3, .rounds = 20};
    assert_int_equal(yk_team_create(3, &r.team), YK_OK);
    for (int i = 0; i < 50; i++)
        assert_int_equal(yk_team_run(r.team, write_and_read, &r), YK_OK);
    yk_team_free(r.team);
}

/* ---- errors */

static yk_status fail_once(void *context, int me)
{
    ring *r = context;
    for (int round = 0; round < 1000; round++) {
        if (me == r->bad && round == r->bad_round)
            return yk_fail(YK_EDATA, "worker %d found something in round %d", me, round);
        yk_status st = yk_team_barrier(r->team, me);
        if (st) {
            atomic_fetch_add(&r->released, 1);
            return st;
        }
    }
    return YK_OK;
}

static void an_error_releases_the_others(void **state)
{
    (void)state;
    static const int workers[] = {1, 2, 3, 9};
    double begin = yk_now();
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        for (int bad = 0; bad < workers[i]; bad++) {
            char text[80];
            ring r = {.bad = bad, .bad_round = bad * 7};
            run_with(&r, workers[i], fail_once, YK_EDATA);
            snprintf(text, sizeof text, "worker %d found something in round %d", bad, bad * 7);
            assert_string_equal(yk_error(), text); /* on this thread, whichever thread failed */
            assert_int_equal(r.released, workers[i] - 1);
        }
    assert_true(yk_now() - begin < 60); /* and at once, not when the patience of a barrier ends */
}

/* The stop travels faster than the error behind it: the other's YK_ESTOP comes first and must give way. */
static yk_status stop_then_fail(void *context, int me)
{
    ring *r = context;
    if (me == r->bad) {
        yk_team_stop(r->team);
        while (atomic_load(&r->released) < r->n - 1)
            usleep(100);
        usleep(20000); /* the others have returned by now, or nearly */
        return yk_fail(YK_EDIVERGED, "the loss is not a number");
    }
    yk_status st = yk_team_barrier(r->team, me);
    atomic_fetch_add(&r->released, 1);
    return st;
}

static void the_real_error_wins(void **state)
{
    (void)state;
    for (int bad = 0; bad < 4; bad++) {
        ring r = {.bad = bad};
        run_with(&r, 4, stop_then_fail, YK_EDIVERGED);
        assert_string_equal(yk_error(), "the loss is not a number");
    }
}

/* Two real errors: the first one stays. */
static yk_status fail_in_turn(void *context, int me)
{
    ring *r = context;
    if (me == 1) {
        while (!yk_team_stopped(r->team))
            usleep(100);
        return yk_fail(YK_EUSAGE, "the second");
    }
    return yk_fail(YK_EDATA, "the first");
}

static void the_first_error_wins(void **state)
{
    (void)state;
    ring r = {0};
    run_with(&r, 2, fail_in_turn, YK_EDATA);
    assert_string_equal(yk_error(), "the first");
}

/* ---- stops */

static yk_status wait_for_stop(void *context, int me)
{
    ring *r = context;
    if (me == r->n - 1) {
        usleep(2000);
        yk_team_stop(r->team);
        return YK_OK;
    }
    yk_status st = yk_team_barrier(r->team, me);
    return st == YK_ESTOP ? st : yk_fail(YK_EDATA, "the barrier let worker %d through", me);
}

static yk_status look_and_meet(void *context, int me)
{
    ring *r = context;
    if (yk_team_stopped(r->team))
        return yk_fail(YK_EDATA, "stopped before it began");
    return yk_team_barrier(r->team, me);
}

static void a_stop_releases_and_is_forgotten(void **state)
{
    (void)state;
    ring r = {.n = 3};
    assert_int_equal(yk_team_create(3, &r.team), YK_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(yk_team_run(r.team, wait_for_stop, &r), YK_ESTOP);
        assert_true(yk_team_stopped(r.team));
        assert_int_equal(yk_team_run(r.team, look_and_meet, &r), YK_OK); /* the next run starts afresh */
    }
    yk_team_free(r.team);
}

static yk_status stop_alone(void *context, int me)
{
    ring *r = context;
    yk_status st = yk_team_barrier(r->team, me);
    if (st)
        return st;
    yk_team_stop(r->team);
    return yk_team_barrier(r->team, me);
}

static yk_status pause_until_all_ran(void *context, int me)
{
    ring *r = context;
    yk_wait w = yk_team_wait(r->team);
    (void)me;
    atomic_fetch_add(&r->ran, 1);
    while (atomic_load(&r->ran) < r->n)
        if (!yk_wait_turn(&w))
            return yk_fail(YK_ELOST, "they did not run");
    return YK_OK;
}

static void one_worker_alone_can_stop(void **state)
{
    (void)state;
    ring r = {0};
    run_with(&r, 1, stop_alone, YK_ESTOP);
}

static void waiting_by_hand_lets_others_run(void **state)
{
    (void)state;
    ring r = {0};
    run_with(&r, MOST, pause_until_all_ran, YK_OK);
}

/* ---- the last worker at a barrier */

static yk_status come_late(void *context, int me)
{
    ring *r = context;
    enum { LATE = 2 };
    for (int round = 0; round < 3; round++) {
        if (me == LATE)
            nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
        yk_status st = yk_team_barrier(r->team, me);
        if (st)
            return st;
        r->cell[me] += yk_team_was_last(r->team, me) == (me == LATE);
        r->cell[MOST - 1 - me] += me == LATE || yk_team_waited(r->team, me) > 15000000;
    }
    return YK_OK;
}

static void the_last_one_is_known(void **state)
{
    (void)state;
    ring r = {.team = NULL};
    run_with(&r, 3, come_late, YK_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(r.cell[i] >= 2); /* on a busy host another worker may be last once */
        assert_true(r.cell[MOST - 1 - i] >= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_runs_once),
        cmocka_unit_test(a_barrier_separates),
        cmocka_unit_test(a_team_runs_again_and_again),
        cmocka_unit_test(an_error_releases_the_others),
        cmocka_unit_test(the_real_error_wins),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(a_stop_releases_and_is_forgotten),
        cmocka_unit_test(one_worker_alone_can_stop),
        cmocka_unit_test(waiting_by_hand_lets_others_run),
        cmocka_unit_test(the_last_one_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
