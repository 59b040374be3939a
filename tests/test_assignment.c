/* Example assignment: every position of an epoch is used once, even if workers are lost, return or are restored from a
 * checkpoint. */
#include "scratch.h"

#include "base/mem.h"
#include "base/rng.h"
#include "data/assignment.h"

enum { MAX = 5000, WORKERS = 5 };

/* The unused leases of a worker; used examples are counted by position. */
typedef struct {
    yk_lease leases[512];
    size_t n;
} worker_state;

typedef struct {
    yk_assignment d;
    worker_state worker_state[WORKERS];
    uint8_t used[8][MAX]; /* [epoch][position] */
    uint64_t steps;       /* number of used steps */
} job;

static job *start_job(uint64_t examples, uint64_t epochs, uint64_t steps, uint64_t batch, int workers)
{
    job *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_true(examples <= MAX && epochs <= 8);
    yk_assignment_init(&t->d, examples, epochs, steps, batch, workers, 0);
    return t;
}

static void end_job(job *t)
{
    yk_assignment_fini(&t->d);
    free(t);
}

static uint64_t unused(const worker_state *h)
{
    uint64_t n = 0;
    for (size_t i = 0; i < h->n; i++)
        n += h->leases[i].end - h->leases[i].begin;
    return n;
}

/* Leases more examples to a worker; false: none are left. */
static bool lease(job *t, int worker)
{
    yk_lease r;
    assert_int_equal(yk_assignment_lease(&t->d, worker, &r), YK_OK);
    if (r.begin == r.end)
        return false;
    assert_true(r.begin < r.end && r.end <= t->d.examples && r.epoch < t->d.epochs);
    worker_state *h = &t->worker_state[worker];
    assert_true(h->n < sizeof h->leases / sizeof *h->leases);
    h->leases[h->n++] = r;
    return true;
}

/* A step of a worker: the next batch of its oldest lease. */
static bool train(job *t, int worker)
{
    worker_state *h = &t->worker_state[worker];
    if (!h->n)
        return false;
    yk_lease *r = &h->leases[0];
    const uint64_t left = r->end - r->begin, n = left < t->d.batch ? left : t->d.batch;
    for (uint64_t i = 0; i < n; i++)
        t->used[r->epoch][r->begin++]++;
    t->steps++;
    yk_assignment_used(&t->d, worker, n);
    if (r->begin == r->end)
        memmove(r, r + 1, --h->n * sizeof *r);
    return true;
}

/* The worker is lost: its leases go to others. */
static void declare_lost(job *t, int worker)
{
    uint64_t back;
    assert_int_equal(yk_assignment_return(&t->d, worker, &back), YK_OK);
    assert_int_equal(back, unused(&t->worker_state[worker]));
    t->worker_state[worker].n = 0;
}

static void all_finish(job *t, int workers)
{
    for (bool busy = true; busy;) {
        busy = false;
        for (int w = 0; w < workers; w++)
            busy |= train(t, w) || lease(t, w);
    }
    assert_true(yk_assignment_done(&t->d));
}

static uint64_t count(const job *t, uint64_t epoch)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < t->d.examples; i++) {
        assert_in_range(t->used[epoch][i], 0, 1); /* never twice */
        n += t->used[epoch][i];
    }
    return n;
}

static void assert_each_once(const job *t)
{
    for (uint64_t e = 0; e < t->d.epochs; e++)
        assert_int_equal(count(t, e), t->d.examples);
}

/* Saves and restores, as a checkpoint does. */
static void save_and_restore(job *t, int workers, uint64_t steps_left)
{
    size_t n;
    uint64_t *cursor;
    assert_int_equal(yk_assignment_cursor(&t->d, &cursor, &n), YK_OK);
    assert_int_equal(cursor[0], 2);
    const uint64_t examples = t->d.examples, epochs = t->d.epochs, batch = t->d.batch;
    yk_assignment_fini(&t->d);
    yk_assignment_init(&t->d, examples, epochs, steps_left, batch, workers, 0);
    assert_int_equal(yk_assignment_cursor_restore(&t->d, cursor, n), YK_OK);
    memset(t->worker_state, 0, sizeof t->worker_state);
    yk_free(cursor);
}

static const uint64_t sizes[] = {1, 2, 3, 63, 64, 65, 997, 1000, 4999, 5000}, batches[] = {1, 7, 64, 6000};
#define EACH(i, array) (size_t i = 0; i < sizeof array / sizeof *array; i++)

static void every_position_once(void **state)
{
    (void)state;
    for
        EACH(i, sizes)
        for
            EACH(k, batches)
        for (int workers = 1; workers <= WORKERS; workers++) {
            job *t = start_job(sizes[i], 3, UINT64_MAX, batches[k], workers);
            all_finish(t, workers);
            assert_each_once(t);
            assert_false(lease(t, 0));
            end_job(t);
        }
}

/* No worker gets examples of the next epoch while some of this one are left. */
static void epochs_in_order(void **state)
{
    (void)state;
    job *t = start_job(1000, 4, UINT64_MAX, 10, 3);
    yk_lease last = {0}, r;
    for (uint64_t at = 0;; at = r.end % 1000) {
        assert_int_equal(yk_assignment_lease(&t->d, 1, &r), YK_OK);
        if (r.begin == r.end)
            break;
        assert_int_equal(r.begin, at);
        assert_int_equal(r.epoch, last.epoch + (last.end == 1000));
        last = r;
    }
    assert_int_equal(last.epoch, 3);
    assert_int_equal(last.end, 1000);
    end_job(t);
}

static void leases_are_whole_batches(void **state)
{
    (void)state;
    for
        EACH(i, sizes)
        for
            EACH(k, batches)
            {
                job *t = start_job(sizes[i], 1, UINT64_MAX, batches[k], 3);
                const uint64_t n = sizes[i], b = batches[k];
                all_finish(t, 3);
                assert_int_equal(t->steps, (n + b - 1) / b); /* at most one small batch */
                end_job(t);
            }
}

static void steps_are_exact(void **state)
{
    (void)state;
    for (uint64_t steps = 0; steps < 400; steps += steps < 20 ? 1 : 37)
        for
            EACH(k, batches)
            {
                job *t = start_job(1000, 8, steps, batches[k], 3);
                const uint64_t whole = (1000 + batches[k] - 1) / batches[k];
                all_finish(t, 3);
                assert_int_equal(t->steps, steps < 8 * whole ? steps : 8 * whole);
                assert_false(lease(t, 2));
                for (uint64_t e = 0; e < 8; e++)
                    count(t, e);
                end_job(t);
            }
}

/* Examples beyond the limit are unused: a run that continues with a higher limit gets them. */
static void more_steps_later(void **state)
{
    (void)state;
    for (uint64_t steps = 1; steps < 120; steps++) {
        job *t = start_job(1000, 1, steps, 10, 3);
        all_finish(t, 3);
        save_and_restore(t, 3, UINT64_MAX);
        all_finish(t, 3);
        assert_each_once(t);
        end_job(t);
    }
}

static void unused_examples_of_lost_workers_are_leased_again(void **state)
{
    (void)state;
    job *t = start_job(5000, 1, UINT64_MAX, 64, 3);
    assert_true(lease(t, 0));
    assert_true(lease(t, 1));
    assert_true(lease(t, 0)); /* one lease in advance, as workers do */
    assert_true(train(t, 0));
    const uint64_t whole = unused(&t->worker_state[0]);
    assert_int_equal(whole, 2 * t->d.longest - 64);
    declare_lost(t, 0);
    declare_lost(t, 2); /* it had no lease */
    uint64_t back;
    assert_int_equal(yk_assignment_return(&t->d, 0, &back), YK_OK); /* not twice */
    assert_int_equal(back, 0);
    yk_assignment_used(&t->d, 0, 64); /* a late message of a lost worker changes nothing */
    assert_int_equal(t->d.nheld, 1);
    assert_false(yk_assignment_done(&t->d));
    all_finish(t, 2);
    assert_each_once(t);
    end_job(t);
}

/* Also at the end, when other workers were told that no examples are left for now. */
static void the_last_lease_is_returned(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        job *t = start_job(1000, 1, limited ? 50 : UINT64_MAX, 10, 2);
        assert_true(lease(t, 0));
        assert_true(train(t, 0));
        for (bool busy = true; busy;)
            busy = lease(t, 1) || train(t, 1);
        assert_false(yk_assignment_done(&t->d)); /* the other worker has some */
        declare_lost(t, 0);
        assert_false(yk_assignment_done(&t->d));
        all_finish(t, 2);
        assert_int_equal(t->steps, limited ? 50 : 100);
        if (!limited)
            assert_each_once(t);
        end_job(t);
    }
}

static void invalid_cursors_are_refused(void **state)
{
    (void)state;
    yk_assignment d;
    yk_assignment_init(&d, 100, 2, UINT64_MAX, 10, 2, 0);
    static const uint64_t beyond[] = {2, 0, 101}, odd[] = {2, 0, 50, 1, 2}, of_a_stream[] = {3, 0, 50},
                          synchronous[] = {1, 0, 100};
    assert_int_equal(yk_assignment_cursor_restore(&d, beyond, 3), YK_EDATA);
    assert_message("does not fit this data set of 100 examples");
    assert_int_equal(yk_assignment_cursor_restore(&d, odd, 5), YK_EDATA);
    assert_int_equal(yk_assignment_cursor_restore(&d, of_a_stream, 3), YK_EDATA);
    assert_int_equal(yk_assignment_cursor_restore(&d, synchronous, 2), YK_EDATA);
    assert_int_equal(yk_assignment_cursor_restore(&d, synchronous, 0), YK_EDATA);
    /* the cursor of a synchronous run at the end of its first epoch: continues with the second */
    assert_int_equal(yk_assignment_cursor_restore(&d, synchronous, 3), YK_OK);
    yk_lease r;
    assert_int_equal(yk_assignment_lease(&d, 0, &r), YK_OK);
    assert_true(r.epoch == 1 && r.begin == 0);
    yk_assignment_fini(&d);
}

/* An event of a random worker; `left` steps are left. */
static void random_event(job *t, int workers, yk_rng *rng, uint64_t left)
{
    const int w = (int)yk_rng_below(rng, (uint32_t)workers);
    const uint32_t what = yk_rng_below(rng, 100);
    if (what < 40 && t->worker_state[w].n < 3)
        lease(t, w);
    else if (what < 92)
        train(t, w);
    else if (what < 98)
        declare_lost(t, w);
    else
        save_and_restore(t, workers, left);
}

/* All kinds of events, in random order. */
static void random_schedules(void **state)
{
    (void)state;
    yk_rng rng = yk_rng_seed(4, 0);
    for (int round = 0; round < 300; round++) {
        const int workers = 1 + (int)yk_rng_below(&rng, WORKERS);
        const uint64_t examples = 1 + yk_rng_below(&rng, MAX), batch = 1 + yk_rng_below(&rng, 130);
        job *t = start_job(examples, 1 + yk_rng_below(&rng, 3), UINT64_MAX, batch, workers);
        for (int i = 0; i < 400; i++)
            random_event(t, workers, &rng, UINT64_MAX);
        all_finish(t, workers);
        assert_each_once(t);
        end_job(t);
    }
}

/* The same under a limit: losses and checkpoints neither add steps nor take any away. */
static void random_schedules_with_a_limit(void **state)
{
    (void)state;
    yk_rng rng = yk_rng_seed(5, 0);
    for (int round = 0; round < 300; round++) {
        const int workers = 1 + (int)yk_rng_below(&rng, WORKERS);
        const uint64_t examples = 200 + yk_rng_below(&rng, MAX - 200), batch = 1 + yk_rng_below(&rng, 130);
        const uint64_t steps = 1 + yk_rng_below(&rng, (uint32_t)(8 * examples / batch));
        job *t = start_job(examples, 8, steps, batch, workers);
        for (int i = 0; i < 300; i++) {
            random_event(t, workers, &rng, steps - t->steps);
            assert_in_range(t->steps, 0, steps);
        }
        all_finish(t, workers);
        assert_int_equal(t->steps, steps);
        for (uint64_t e = 0; e < 8; e++)
            count(t, e);
        end_job(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_once),
        cmocka_unit_test(epochs_in_order),
        cmocka_unit_test(leases_are_whole_batches),
        cmocka_unit_test(steps_are_exact),
        cmocka_unit_test(more_steps_later),
        cmocka_unit_test(unused_examples_of_lost_workers_are_leased_again),
        cmocka_unit_test(the_last_lease_is_returned),
        cmocka_unit_test(invalid_cursors_are_refused),
        cmocka_unit_test(random_schedules),
        cmocka_unit_test(random_schedules_with_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
