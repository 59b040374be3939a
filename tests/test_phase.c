/* The phases of a worker: they add up to the wall time, whether steps are long or tiny, and each has the right share. */
#include "scratch.h"

#include "base/clock.h"
#include "watch/phase.h"
#include <math.h>
#include <pthread.h>
#include <time.h>

/* Returns the actual time, which is longer on a busy machine. */
static double spin(double seconds)
{
    const uint64_t begin = yk_now_ns(), until = begin + (uint64_t)(seconds * 1e9);
    uint64_t now = begin;
    while (now < until)
        now = yk_now_ns();
    return (double)(now - begin) * 1e-9;
}

static void nap(double seconds)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
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
    double input = 0.0, compute = 0.0, workers = 0.0;
    yk_phases_begin(p, 1);
    for (int i = 0; i < 40; i++) {
        yk_phases_step(p);
        input += spin(0.001);
        yk_phase_to(p, YK_PHASE_COMPUTE);
        compute += spin(0.003);
        yk_phase_to(p, YK_PHASE_WORKERS);
        workers += spin(0.001);
        yk_phase_to(p, YK_PHASE_OTHER);
        yk_phases_done(p, 1, 64, 0.0);
        yk_phases_barrier(p, i % 4 == 0);
    }
    yk_phases_step(p);
    yk_phases_end(p);
    const double wall = yk_now() - begin;
    yk_phases_read(p, &sample);
    assert_adds_up(&sample, wall);
    assert_share(&sample, YK_PHASE_INPUT, input / wall - 0.05, input / wall + 0.05);
    assert_share(&sample, YK_PHASE_COMPUTE, compute / wall - 0.05, compute / wall + 0.05);
    assert_share(&sample, YK_PHASE_WORKERS, workers / wall - 0.05, workers / wall + 0.05);
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
        spin(1e-6);
        yk_phase_to(p, YK_PHASE_COMPUTE);
        spin(4e-6);
        yk_phase_to(p, YK_PHASE_APPLY);
        spin(1e-6);
        yk_phases_done(p, 1, 10, 0.0);
    }
    yk_phases_end(p);
    const double wall = yk_now() - begin;
    yk_phases_read(p, &sample);
    assert_adds_up(&sample, wall);
    assert_share(&sample, YK_PHASE_INPUT, 0.08, 0.35);
    assert_share(&sample, YK_PHASE_COMPUTE, 0.45, 0.80);
    assert_share(&sample, YK_PHASE_APPLY, 0.08, 0.35);
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
            nap(0.03);
            const uint64_t took = yk_now_ns() - from;
            yk_phase_waited(p, YK_PHASE_INPUT, took);
            waited += (double)took * 1e-9;
        }
        yk_phase_to(p, YK_PHASE_COMPUTE);
        spin(4e-6);
        if (i % 10000 == 9999) {
            const double from = yk_now();
            yk_phases_detail(p);
            yk_phase_to(p, YK_PHASE_EVAL);
            nap(0.02);
            yk_phase_to(p, YK_PHASE_OTHER);
            tested += yk_now() - from;
        }
    }
    yk_phases_end(p);
    const double wall = yk_now() - begin;
    yk_phases_read(p, &sample);
    assert_adds_up(&sample, wall);
    /* a busy machine may suspend the thread between two clock readings */
    assert_true(fabs(sample.phase[YK_PHASE_EVAL] - tested) < 0.05 * tested + 0.02 * wall);
    assert_true(sample.phase[YK_PHASE_INPUT] >= 0.99 * waited);
    assert_true(sample.phase[YK_PHASE_INPUT] < waited + 0.8 * (wall - waited - tested));
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
                nap(0.01);
                yk_phase_waited(p, YK_PHASE_WORKERS, 8000000);
                others += 0.008;
            }
            yk_phase_to(p, YK_PHASE_COMPUTE);
            spin(2e-6);
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
    yk_phases_done(NULL, 1, 1, 0.0);
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
    double began;
    int reads, bad;
} reader;

static void *read_on(void *arg)
{
    reader *r = arg;
    while (!atomic_load(&r->stop)) {
        yk_phases_sample sample;
        const double before = yk_now() - r->began;
        yk_phases_read(r->p, &sample);
        const double after = yk_now() - r->began;
        r->reads++;
        /* the sample was taken between the two clock readings */
        r->bad += sample.seconds < before * 0.98 - 1e-3 || sample.seconds > after * 1.02 + 1e-3;
        nap(0.0005);
    }
    return NULL;
}

static void another_thread_reads(void **state)
{
    (void)state;
    yk_phases *p = make();
    reader r = {.p = p};
    pthread_t thread;
    r.began = yk_now();
    yk_phases_begin(p, 1);
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    while (yk_now() - r.began < 0.3) {
        yk_phases_step(p);
        yk_phase_to(p, YK_PHASE_COMPUTE);
        spin(5e-6);
        yk_phase_to(p, YK_PHASE_APPLY);
        spin(1e-6);
        yk_phases_done(p, 1, 1, 0.0);
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    yk_phases_end(p);
    assert_true(r.reads > 10);
    assert_true(r.bad <= r.reads / 50); /* the reader may be suspended between its clock readings */
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
        cmocka_unit_test(another_thread_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
