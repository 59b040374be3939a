/* The phases of a worker: they add up to the wall time, whether steps are long or tiny, and each has the right share. Time is
 * simulated, except where another thread reads: on a busy machine, any moment may take longer than it should. */
#include "scratch.h"

#include "base/clock.h"
#include "watch/phase.h"
#include <math.h>
#include <pthread.h>
#include <time.h>

/* Each reading of the simulated clock takes 30 ns. */
static uint64_t simulated_ns = 1000000000;

static uint64_t read_simulated(void *self)
{
    (void)self;
    return simulated_ns += 30;
}

static int use_simulated_clock(void **state)
{
    static const yk_clock simulated = {.now_ns = read_simulated};
    (void)state;
    yk_clock_set(&simulated);
    return 0;
}

static int use_real_clock(void **state)
{
    (void)state;
    yk_clock_set(NULL);
    return 0;
}

static void spend(double seconds)
{
    simulated_ns += (uint64_t)(seconds * 1e9);
}

static void spin(double seconds)
{
    const uint64_t until = yk_now_ns() + (uint64_t)(seconds * 1e9);
    while (yk_now_ns() < until) {
    }
}

static yk_phases *make(void)
{
    yk_phases *p = yk_alloc(1, sizeof *p, "a test");
    assert_non_null(p);
    return p;
}

/* Within 2 % plus 0.1 ms. */
static void assert_adds_up(const yk_phases_sample *sample, double wall)
{
    double sum = 0.0;
    for (int i = 0; i < YK_PHASES; i++) {
        assert_true(sample->phase[i] >= 0.0);
        sum += sample->phase[i];
    }
    if (fabs(sum - wall) > 0.02 * wall + 1e-4 || fabs(sample->seconds - sum) > 1e-9)
        fail_msg("the phases add up to %g s, the wall time was %g s", sum, wall);
}

static void assert_share(const yk_phases_sample *sample, yk_phase phase, double min, double max)
{
    const double share = sample->phase[phase] / sample->seconds;
    if (!(share >= min && share <= max))
        fail_msg("%s has %.3f of the time, not %.3f to %.3f", yk_phase_name(phase), share, min, max);
}

static void names_are_in_order(void **state)
{
    (void)state;
    assert_string_equal(yk_phase_name(YK_PHASE_INPUT), "input");
    assert_string_equal(yk_phase_name(YK_PHASE_WORKERS), "workers");
    assert_string_equal(yk_phase_name(YK_PHASE_OTHER), "other");
    assert_int_equal(YK_WORKER_PHASES, 9);
}

static void long_steps_are_all_timed(void **state)
{
    (void)state;
    yk_phases *p = make();
    yk_phases_sample sample;
    const double begin = yk_now();
    yk_phases_begin(p, 1);
    for (int i = 0; i < 40; i++) {
        yk_phases_step(p);
        spend(0.001);
        yk_phase_to(p, YK_PHASE_COMPUTE);
        spend(0.003);
        yk_phase_to(p, YK_PHASE_WORKERS);
        spend(0.001);
        yk_phase_to(p, YK_PHASE_OTHER);
        yk_phases_done(p, 1, 64, 64.0, 0.0);
        yk_phases_barrier(p, i % 4 == 0);
    }
    yk_phases_step(p);
    yk_phases_end(p);
    const double wall = yk_now() - begin;
    yk_phases_read(p, &sample);
    assert_adds_up(&sample, wall);
    assert_share(&sample, YK_PHASE_INPUT, 0.199, 0.201);
    assert_share(&sample, YK_PHASE_COMPUTE, 0.599, 0.601);
    assert_share(&sample, YK_PHASE_WORKERS, 0.199, 0.201);
    assert_int_equal(sample.timed, 40);
    assert_int_equal(sample.steps, 40);
    assert_int_equal(sample.examples, 40 * 64);
    assert_int_equal(sample.barriers, 40);
    assert_int_equal(sample.last, 10);
    assert_true(sample.step_mean >= 0.005);
    yk_free(p);
}

/* Steps of a few microseconds: only some are timed, but the sum is right and the shares hold for all. */
static void tiny_steps_are_sampled(void **state)
{
    (void)state;
    enum { STEPS = 60000 };
    yk_phases *p = make();
    yk_phases_sample sample;
    const double begin = yk_now();
    yk_phases_begin(p, 1);
    for (int i = 0; i < STEPS; i++) {
        yk_phases_step(p);
        spend(1e-6);
        yk_phase_to(p, YK_PHASE_COMPUTE);
        spend(4e-6);
        yk_phase_to(p, YK_PHASE_APPLY);
        spend(1e-6);
        yk_phases_done(p, 1, 10, 10.0, 0.0);
    }
    yk_phases_end(p);
    const double wall = yk_now() - begin;
    yk_phases_read(p, &sample);
    assert_adds_up(&sample, wall);
    assert_share(&sample, YK_PHASE_INPUT, 0.15, 0.18); /* 1 of 6 us */
    assert_share(&sample, YK_PHASE_COMPUTE, 0.64, 0.68);
    assert_share(&sample, YK_PHASE_APPLY, 0.15, 0.18);
    assert_true(sample.timed > 20 && sample.timed < STEPS / 4);
    assert_int_equal(sample.examples, 10 * STEPS);
    yk_free(p);
}

/* A rare, long event among tiny steps is counted in full and does not affect the estimate for other steps. */
static void rare_events_are_counted_separately(void **state)
{
    (void)state;
    yk_phases *p = make();
    yk_phases_sample sample;
    const double begin = yk_now();
    double tested = 0.0, waited = 0.0;
    yk_phases_begin(p, 1);
    for (int i = 0; i < 40000; i++) {
        yk_phases_step(p);
        if (i % 10000 == 5000) { /* the feed has to wait, whether or not the step is timed */
            const uint64_t from = yk_now_ns();
            spend(0.03);
            const uint64_t took = yk_now_ns() - from;
            yk_phase_waited(p, YK_PHASE_INPUT, took);
            waited += (double)took * 1e-9;
        }
        yk_phase_to(p, YK_PHASE_COMPUTE);
        spend(4e-6);
        if (i % 10000 == 9999) {
            const double from = yk_now();
            yk_phases_detail(p);
            yk_phase_to(p, YK_PHASE_EVAL);
            spend(0.02);
            yk_phase_to(p, YK_PHASE_OTHER);
            tested += yk_now() - from;
        }
    }
    yk_phases_end(p);
    const double wall = yk_now() - begin;
    yk_phases_read(p, &sample);
    assert_adds_up(&sample, wall);
    assert_true(fabs(sample.phase[YK_PHASE_EVAL] - tested) < 1e-5);
    assert_true(sample.phase[YK_PHASE_INPUT] >= 0.99 * waited);
    assert_true(sample.phase[YK_PHASE_INPUT] < waited + 0.05 * (wall - waited - tested));
    yk_free(p);
}

/* A worker that waits for parameters learns afterwards how long it waited for other workers; in timed and untimed steps. */
static void part_of_a_wait_is_for_other_workers(void **state)
{
    (void)state;
    for (int long_steps = 0; long_steps < 2; long_steps++) {
        yk_phases *p = make();
        yk_phases_sample sample;
        double others = 0.0;
        yk_phases_begin(p, 1);
        const double begin = yk_now();
        for (int i = 0; i < (long_steps ? 20 : 20000); i++) {
            yk_phases_step(p);
            yk_phase_to(p, YK_PHASE_PARAMETERS);
            if (long_steps || i % 1000 == 0) {
                spend(0.01);
                yk_phase_waited(p, YK_PHASE_WORKERS, 8000000);
                others += 0.008;
            }
            yk_phase_to(p, YK_PHASE_COMPUTE);
            spend(2e-6);
        }
        yk_phases_end(p);
        yk_phases_read(p, &sample);
        assert_adds_up(&sample, yk_now() - begin);
        assert_true(fabs(sample.phase[YK_PHASE_WORKERS] - others) < 0.02 * others);
        assert_true(!long_steps || sample.phase[YK_PHASE_PARAMETERS] >= 0.2 * others);
        yk_free(p);
    }
}

static void null_is_ignored(void **state)
{
    (void)state;
    yk_phases_begin(NULL, 1);
    yk_phases_step(NULL);
    yk_phase_to(NULL, YK_PHASE_COMPUTE);
    yk_phases_detail(NULL);
    yk_phase_waited(NULL, YK_PHASE_INPUT, 5);
    yk_phases_done(NULL, 1, 1, 1.0, 0.0);
    yk_phases_barrier(NULL, true);
    yk_phases_end(NULL);
    yk_phases *p = make(); /* without a begin, it is empty */
    yk_phases_sample sample;
    yk_phases_read(p, &sample);
    assert_true(sample.seconds == 0.0 && sample.steps == 0);
    yk_free(p);
}

typedef struct {
    yk_phases *p;
    atomic_bool stop;
    double before_begin, after_begin; /* clock readings around yk_phases_begin() */
    int reads, bad;
} reader;

static void *read_on(void *arg)
{
    reader *r = arg;
    while (!atomic_load(&r->stop)) {
        yk_phases_sample sample;
        const double before = yk_now() - r->after_begin;
        yk_phases_read(r->p, &sample);
        const double after = yk_now() - r->before_begin;
        r->reads++;
        r->bad += sample.seconds < before - 1e-6 || sample.seconds > after + 1e-6;
        yk_sleep_ns(500000);
    }
    return NULL;
}

static void another_thread_reads(void **state)
{
    (void)state;
    yk_phases *p = make();
    reader r = {.p = p};
    pthread_t thread;
    r.before_begin = yk_now();
    yk_phases_begin(p, 1);
    r.after_begin = yk_now();
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    while (yk_now() - r.after_begin < 0.3) {
        yk_phases_step(p);
        yk_phase_to(p, YK_PHASE_COMPUTE);
        spin(5e-6);
        yk_phase_to(p, YK_PHASE_APPLY);
        spin(1e-6);
        yk_phases_done(p, 1, 1, 1.0, 0.0);
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    yk_phases_end(p);
    assert_true(r.reads > 10);
    assert_int_equal(r.bad, 0);
    yk_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_in_order),
        cmocka_unit_test(long_steps_are_all_timed),
        cmocka_unit_test(tiny_steps_are_sampled),
        cmocka_unit_test(rare_events_are_counted_separately),
        cmocka_unit_test(part_of_a_wait_is_for_other_workers),
        cmocka_unit_test(null_is_ignored),
        cmocka_unit_test_setup_teardown(another_thread_reads, use_real_clock, use_simulated_clock),
    };
    return cmocka_run_group_tests(tests, use_simulated_clock, use_real_clock);
}
