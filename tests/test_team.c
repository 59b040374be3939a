/* Teams of workers: barriers, errors that release waiting workers, stops. */
#include "scratch.h"

#include "base/clock.h"
#include "base/team.h"
#include <stdatomic.h>
#include <time.h>

enum { MAX = 24, ITEMS = 1000 };

typedef struct {
    yk_team *team;
    int n;
    int rounds;
    long cell
        [MAX]; /* plain memory: only the barrier orders accesses, and ThreadSanitizer detects it if it does not */
    int bad; /* the worker that fails */
    int bad_round;
    atomic_int released, ran;
    pid_t main_thread;
    int item[ITEMS]; /* plain memory, too */
} team_test;

static void run_with(team_test *r, int workers, yk_status (*work)(void *, int), yk_status expected)
{
    r->n = workers;
    assert_int_equal(yk_team_create(workers, &r->team), YK_OK);
    assert_int_equal(yk_team_run(r->team, work, r), expected);
    yk_team_free(r->team);
}

/* ---- running */

static yk_status say_who(void *context, int me)
{
    team_test *r = context;
    r->cell[me]++;
    if (me == 0 && gettid() != r->main_thread)
        return yk_fail(YK_EDATA, "worker 0 is not on the calling thread");
    return YK_OK;
}

static void each_worker_runs_once(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX; n++) {
        team_test r = {.main_thread = gettid()};
        run_with(&r, n, say_who, YK_OK);
        for (int i = 0; i < MAX; i++)
            assert_int_equal(r.cell[i], i < n);
    }
    assert_true(yk_cores() >= 1);
    assert_int_equal(yk_cores_per_process(0), yk_cores()); /* unknown */
    assert_int_equal(yk_cores_per_process(1), yk_cores());
    assert_int_equal(yk_cores_per_process(yk_cores() + 1), 1);
    yk_team_free(NULL);
}

/* ---- barriers */

/* Writes its cell, waits, reads all cells, waits. Without a barrier, some cell would have the value of another round. */
static yk_status write_and_read(void *context, int me)
{
    team_test *r = context;
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

static void barriers_order_memory_accesses(void **state)
{
    (void)state;
    static const int workers[] = {1, 2, 3, 7, MAX}; /* spins if there are enough cores, sleeps otherwise */
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        team_test r = {.rounds = workers[i] < 4 ? 3000 : 300};
        run_with(&r, workers[i], write_and_read, YK_OK);
    }
}

static void a_team_can_be_reused(void **state)
{
    (void)state;
    team_test r = {.n = 3, .rounds = 20};
    assert_int_equal(yk_team_create(3, &r.team), YK_OK);
    for (int i = 0; i < 50; i++)
        assert_int_equal(yk_team_run(r.team, write_and_read, &r), YK_OK);
    yk_team_free(r.team);
}

/* ---- a pool */

static void count_items(void *context, int me, int all)
{
    team_test *r = context;
    size_t begin = 0, end = ITEMS;
    yk_part_of_range(&begin, &end, 16, me, all);
    assert_true(begin % 16 == 0 && (end % 16 == 0 || end == ITEMS));
    for (size_t i = begin; i < end; i++)
        r->item[i]++;
}

static void each_part_of_a_pool_runs_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        team_test r = {0};
        yk_thread_pool *pool;
        assert_int_equal(yk_thread_pool_create(threads, &pool), YK_OK);
        for (int i = 0; i < 100; i++) {
            yk_thread_pool_run(pool, count_items, &r);
            if (i == 50)
                usleep(20000); /* the threads sleep by now */
        }
        yk_thread_pool_run(NULL, count_items, &r);
        for (int i = 0; i < ITEMS; i++)
            assert_int_equal(r.item[i], 101);
        yk_thread_pool_free(pool);
    }
    yk_thread_pool_free(NULL);
}

/* ---- errors */

static yk_status fail_once(void *context, int me)
{
    team_test *r = context;
    for (int round = 0; round < 1000; round++) {
        if (me == r->bad && round == r->bad_round)
            return yk_fail(YK_EDATA, "worker %d failed in round %d", me, round);
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
            team_test r = {.bad = bad, .bad_round = bad * 7};
            run_with(&r, workers[i], fail_once, YK_EDATA);
            snprintf(text, sizeof text, "worker %d failed in round %d", bad, bad * 7);
            assert_string_equal(yk_error(), text); /* also on this thread, whichever thread failed */
            assert_int_equal(r.released, workers[i] - 1);
        }
    assert_true(yk_now() - begin < 60); /* and at once, not after the timeout of a barrier */
}

/* Other workers return YK_ESTOP before the error arrives: the error must replace it. */
static yk_status stop_then_fail(void *context, int me)
{
    team_test *r = context;
    if (me == r->bad) {
        yk_team_stop(r->team);
        while (atomic_load(&r->released) < r->n - 1)
            usleep(100);
        usleep(20000); /* by now the others have returned, or almost */
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
        team_test r = {.bad = bad};
        run_with(&r, 4, stop_then_fail, YK_EDIVERGED);
        assert_string_equal(yk_error(), "the loss is not a number");
    }
}

/* Two real errors: the first one is kept. */
static yk_status fail_in_turn(void *context, int me)
{
    team_test *r = context;
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
    team_test r = {0};
    run_with(&r, 2, fail_in_turn, YK_EDATA);
    assert_string_equal(yk_error(), "the first");
}

/* ---- stops */

static yk_status wait_for_stop(void *context, int me)
{
    team_test *r = context;
    if (me == r->n - 1) {
        usleep(2000);
        yk_team_stop(r->team);
        return YK_OK;
    }
    yk_status st = yk_team_barrier(r->team, me);
    return st == YK_ESTOP ? st : yk_fail(YK_EDATA, "worker %d passed the barrier", me);
}

static yk_status check_and_wait(void *context, int me)
{
    team_test *r = context;
    if (yk_team_stopped(r->team))
        return yk_fail(YK_EDATA, "stopped before it began");
    return yk_team_barrier(r->team, me);
}

static void a_stop_releases_workers_and_is_reset(void **state)
{
    (void)state;
    team_test r = {.n = 3};
    assert_int_equal(yk_team_create(3, &r.team), YK_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(yk_team_run(r.team, wait_for_stop, &r), YK_ESTOP);
        assert_true(yk_team_stopped(r.team));
        assert_int_equal(yk_team_run(r.team, check_and_wait, &r), YK_OK); /* the next run is not stopped */
    }
    yk_team_free(r.team);
}

static yk_status stop_alone(void *context, int me)
{
    team_test *r = context;
    yk_status st = yk_team_barrier(r->team, me);
    if (st)
        return st;
    yk_team_stop(r->team);
    return yk_team_barrier(r->team, me);
}

static yk_status pause_until_all_ran(void *context, int me)
{
    team_test *r = context;
    yk_wait w = yk_team_wait(r->team);
    (void)me;
    atomic_fetch_add(&r->ran, 1);
    while (atomic_load(&r->ran) < r->n)
        if (!yk_wait_poll(&w))
            return yk_fail(YK_ELOST, "the others did not run");
    return YK_OK;
}

static void a_single_worker_can_stop(void **state)
{
    (void)state;
    team_test r = {0};
    run_with(&r, 1, stop_alone, YK_ESTOP);
}

static void explicit_waits_let_others_run(void **state)
{
    (void)state;
    team_test r = {0};
    run_with(&r, MAX, pause_until_all_ran, YK_OK);
}

static yk_status miss_the_barrier(void *context, int me)
{
    team_test *r = context;
    while (me && !atomic_load(&r->released))
        yk_yield();
    yk_status st = me ? YK_OK : yk_team_barrier(r->team, me);
    atomic_store(&r->released, 1);
    return st;
}

static void a_barrier_has_a_timeout(void **state)
{
    (void)state;
    team_test r = {.n = 2};
    assert_int_equal(yk_team_create(2, &r.team), YK_OK);
    yk_team_set_timeout(r.team, 0.05);
    assert_int_equal(yk_team_run(r.team, miss_the_barrier, &r), YK_ELOST);
    assert_string_equal(yk_error(), "no response from worker 1 within 0.05 s");
    yk_team_free(r.team);
}

/* ---- the last worker at a barrier */

static yk_status come_late(void *context, int me)
{
    team_test *r = context;
    enum { LATE = 2 };
    for (int round = 0; round < 3; round++) {
        if (me == LATE)
            nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
        yk_status st = yk_team_barrier(r->team, me);
        if (st)
            return st;
        r->cell[me] += yk_team_was_last(r->team, me) == (me == LATE);
        r->cell[MAX - 1 - me] += me == LATE || yk_team_waited(r->team, me) > 15000000;
    }
    return YK_OK;
}

static void the_last_worker_is_reported(void **state)
{
    (void)state;
    team_test r = {.team = NULL};
    run_with(&r, 3, come_late, YK_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(r.cell[i] >= 2); /* on a busy host another worker may be last once */
        assert_true(r.cell[MAX - 1 - i] >= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_runs_once),
        cmocka_unit_test(barriers_order_memory_accesses),
        cmocka_unit_test(a_team_can_be_reused),
        cmocka_unit_test(each_part_of_a_pool_runs_once),
        cmocka_unit_test(an_error_releases_the_others),
        cmocka_unit_test(the_real_error_wins),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(a_stop_releases_workers_and_is_reset),
        cmocka_unit_test(a_single_worker_can_stop),
        cmocka_unit_test(explicit_waits_let_others_run),
        cmocka_unit_test(a_barrier_has_a_timeout),
        cmocka_unit_test(the_last_worker_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
