/* The feed of data in memory: every example exactly once per epoch, in an order that follows from the seed alone, whatever
 * the number of workers, and from any cursor that was saved. */
#include "feeding.h"

static const size_t sizes[] = {1, 2, 3, 7, 64, 100, 1000, 2049};
static const size_t batches[] = {1, 3, 64, 128};

/* Global batch s of N workers with batch b is batch s of one worker with batch N b, as a set; every example is assigned. */
static void synchronous_equals_serial(void **state)
{
    (void)state;
    for
        EACH(i, sizes)
        for
            EACH(j, worker_counts)
            for
                EACH(k, batches)
                {
                    const size_t n = sizes[i], joint = (size_t)worker_counts[j] * batches[k];
                    yk_dataset d = in_memory(n);
                    d.rows = &d.loaded;
                    yk_feed_plan plan = {
                        .workers = worker_counts[j], .batch = batches[k], .seed = 7, .epochs = 2};
                    yk_feed_plan serial = {.workers = 1, .batch = joint, .seed = 7, .epochs = 2};
                    rounds a = begin_rounds(&d, plan), b = begin_rounds(&d, serial);
                    first.n = second.n = 0;
                    while (a.epoch < 2) {
                        size_t from = first.n;
                        assert_int_equal(one_round(&a, &first), one_round(&b, &second));
                        assert_memory_equal(first.id + from, second.id + from,
                                            (first.n - from) * sizeof *first.id);
                        if (first.n == n && first.n > from)
                            assert_each_times(&first, 0, n, 1);
                    }
                    assert_int_equal(b.epoch, 2);
                    assert_each_times(&first, 0, n, 2);
                    assert_true(a.largest == (n < joint ? n : joint));
                    if (n >= 64)
                        assert_memory_not_equal(first.id, first.id + n, n * sizeof *first.id);
                    yk_feed_free(a.feed);
                    yk_feed_free(b.feed);
                    yk_dataset_fini(&d);
                }
}

/* yk_feed_next() returns the same batches, whether one by one or several at a time. */
static void several_batches_at_once_are_the_same(void **state)
{
    (void)state;
    static const size_t asked[] = {2, 5, 64, 3000};
    for
        EACH(i, sizes)
        for
            EACH(k, batches)
        for (int how = 0; how < 3; how++) { /* synchronous with one and with two workers, asynchronous */
            const size_t n = sizes[i];
            yk_dataset d = in_memory(n);
            d.rows = &d.loaded;
            yk_feed_plan plan = {.workers = how == 1 ? 2 : 1,
                                 .batch = batches[k],
                                 .seed = 3,
                                 .epochs = 1,
                                 .steps = UINT64_MAX,
                                 .rounds = how < 2};
            yk_feed *one, *few;
            assert_int_equal(yk_feed_create(&d, &plan, &one), YK_OK);
            assert_int_equal(yk_feed_create(&d, &plan, &few), YK_OK);
            for (int w = 0; w < plan.workers; w++) {
                yk_batch b;
                first.n = second.n = 0;
                do {
                    assert_int_equal(yk_feed_next(one, w, 1, &b), YK_OK);
                    log_batch(&first, &b);
                } while (b.n);
                for (size_t turn = 0; turn == 0 || b.n; turn++) {
                    const size_t max = asked[turn % (sizeof asked / sizeof *asked)];
                    assert_int_equal(yk_feed_next(few, w, max, &b), YK_OK);
                    assert_true(b.n <= max * plan.batch);
                    log_batch(&second, &b);
                }
                assert_same(&first, &second);
            }
            assert_true(plan.workers == 2 || first.n == n);
            yk_feed_free(one);
            yk_feed_free(few);
            yk_dataset_fini(&d);
        }
}

/* The limit on steps holds, however many are requested at once. */
static void several_batches_at_once_keep_the_limit(void **state)
{
    (void)state;
    yk_dataset d = in_memory(1000);
    d.rows = &d.loaded;
    for (uint64_t steps = 1; steps < 700; steps += 111) {
        yk_feed_plan plan = {.workers = 2, .batch = 1, .seed = 3, .epochs = UINT64_MAX, .steps = steps};
        yk_feed *f;
        yk_batch b;
        assert_int_equal(yk_feed_create(&d, &plan, &f), YK_OK);
        uint64_t made = 0, idle = 0;
        for (int w = 0; idle < 2; w ^= 1) {
            assert_int_equal(yk_feed_next(f, w, 64, &b), YK_OK);
            made += b.n;
            idle = b.n ? 0 : idle + 1;
        }
        assert_int_equal(made, steps);
        yk_feed_free(f);
    }
    yk_dataset_fini(&d);
}

static void order_depends_on_the_seed_only(void **state)
{
    (void)state;
    yk_dataset d = in_memory(1000);
    d.rows = &d.loaded;
    yk_feed_plan plan = {.workers = 3, .batch = 10, .seed = 1, .epochs = 3};
    for (uint64_t seed = 1; seed <= 2; seed++) {
        first.n = second.n = 0;
        rounds a = begin_rounds(&d, plan);
        plan.seed = seed;
        rounds b = begin_rounds(&d, plan);
        finish_rounds(&a, &first);
        finish_rounds(&b, &second);
        if (seed == 1)
            assert_same(&first, &second);
        else
            assert_memory_not_equal(first.id, second.id, first.n * sizeof *first.id);
    }
    yk_dataset_fini(&d);
}

static void synchronous_feed_resumes(void **state)
{
    (void)state;
    for
        EACH(i, sizes)
        {
            yk_dataset d = in_memory(sizes[i]);
            d.rows = &d.loaded;
            yk_feed_plan plan = {.workers = 3, .batch = 7, .seed = 5, .epochs = 3};
            check_synchronous_resume(&d, plan, 3, 7);
            check_synchronous_resume(&d, plan, 1, 21);
            check_synchronous_resume(&d, plan, 4, 11); /* other batches, the same order */
            yk_dataset_fini(&d);
        }
}

static void asynchronous_feed_resumes(void **state)
{
    (void)state;
    for
        EACH(i, sizes)
        for
            EACH(j, worker_counts)
        for (size_t stop = 0; stop < 60; stop += 7) {
            yk_dataset d = in_memory(sizes[i]);
            d.rows = &d.loaded;
            yk_feed_plan plan = {
                .workers = worker_counts[j], .batch = 5, .seed = 3, .epochs = 2, .steps = UINT64_MAX};
            yk_feed *f, *g;
            first.n = 0;
            assert_int_equal(yk_feed_create(&d, &plan, &f), YK_OK);
            draw_batches(f, plan.workers, stop, stop, &first, NULL);
            plan.workers = 1 + (plan.workers + 2) % MAX_WORKERS;
            assert_int_equal(yk_feed_create(&d, &plan, &g), YK_OK);
            assert_int_equal(carry_over(f, g, stop), YK_OK);
            draw_batches(g, plan.workers, 3, stop + 1, &first, NULL);
            assert_int_equal(yk_feed_create(&d, &plan, &f),
                             YK_OK); /* and once more, with partly used leases */
            assert_int_equal(carry_over(g, f, stop + 3), YK_OK);
            draw_batches(f, plan.workers, SIZE_MAX, stop + 2, &first, NULL);
            assert_each_times(&first, 0, sizes[i], 2);
            yk_feed_free(f);
            yk_dataset_fini(&d);
        }
}

/* A synchronous run can be resumed asynchronously, also at the end of an epoch. */
static void synchronous_feed_resumes_asynchronously(void **state)
{
    (void)state;
    yk_dataset d = in_memory(30);
    d.rows = &d.loaded;
    yk_feed_plan plan = {.workers = 3, .batch = 5, .seed = 3, .epochs = 3, .steps = UINT64_MAX};
    for (size_t stop = 0; stop <= 8; stop++) {
        rounds a = begin_rounds(&d, plan);
        first.n = 0;
        for (size_t i = 0; i < stop; i++)
            one_round(&a, &first);
        yk_feed *f;
        assert_int_equal(yk_feed_create(&d, &plan, &f), YK_OK);
        assert_int_equal(carry_over(a.feed, f, 0), YK_OK);
        draw_batches(f, 3, SIZE_MAX, stop, &first, NULL);
        assert_each_times(&first, 0, 30, 3);
        a = begin_rounds(&d, plan);
        assert_error(carry_over(f, a.feed, 0), YK_EUSAGE, "--mode async");
        yk_feed_free(a.feed);
    }
    yk_dataset_fini(&d);
}

static void threads_use_each_example_once(void **state)
{
    (void)state;
    yk_dataset d = in_memory(5003);
    d.rows = &d.loaded;
    yk_feed_plan plan = {.workers = 4, .batch = 3, .seed = 3, .epochs = 4, .steps = UINT64_MAX};
    acquire_on_threads(&d, plan);
    assert_each_times(&first, 0, 5003, 4);
    plan.epochs = UINT64_MAX;
    for
        EACH(i, sizes)
        {
            plan.steps = sizes[i];
            assert_int_equal(acquire_on_threads(&d, plan), sizes[i]);
        }
    yk_dataset_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_batches_at_once_are_the_same),
        cmocka_unit_test(several_batches_at_once_keep_the_limit),
        cmocka_unit_test(synchronous_equals_serial),
        cmocka_unit_test(order_depends_on_the_seed_only),
        cmocka_unit_test(synchronous_feed_resumes),
        cmocka_unit_test(asynchronous_feed_resumes),
        cmocka_unit_test(synchronous_feed_resumes_asynchronously),
        cmocka_unit_test(threads_use_each_example_once),
    };
    return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
