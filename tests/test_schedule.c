/* When a run evaluates, saves, reports its progress and ends (train/schedule.h), with a simulated clock. */
#include "train/schedule.h"

#include "base/clock.h"
#include "scratch.h"
#include "train/divergence.h"
#include <math.h>

static uint64_t clock_ns;

static uint64_t now_ns(void *self)
{
    (void)self;
    return clock_ns;
}

static const yk_clock simulated = {.now_ns = now_ns};

static int set_clock(void **state)
{
    (void)state;
    clock_ns = 1000000000u;
    yk_clock_set(&simulated);
    return 0;
}

/* A run in rounds unless it is changed. */
typedef struct {
    yk_plan plan;
    yk__schedule schedule;
    uint64_t step, epoch, epoch_examples;
} run;

static run *make_run(uint64_t steps, uint64_t epochs)
{
    static run r;
    r = (run){.plan = {.lockstep = true,
                       .workers = 1,
                       .batch = 1,
                       .gradients_per_step = 1,
                       .steps = steps ? steps : UINT64_MAX,
                       .epochs = epochs ? epochs : UINT64_MAX},
              .schedule = {.evaluates = true}};
    return &r;
}

static void init(run *r)
{
    yk__schedule *s = &r->schedule;
    yk__schedule_init(s, &r->plan, r->step, r->epoch_examples);
    s->saved_at = s->began = s->point_at = s->line_at = yk_now();
}

/* Appends "STEP:" and what is due: e(valuation), s(ave), . (the end) */
static void act(run *r, char *trace, size_t size, uint64_t step, yk__due due)
{
    const size_t n = strlen(trace);
    if (due.eval || due.save || due.end)
        snprintf(trace + n, size - n, "%s%d:%s%s%s", n ? " " : "", (int)step, due.eval ? "e" : "",
                 due.save ? "s" : "", due.end ? "." : "");
    if (due.eval)
        yk__evaluated(&r->schedule, step);
    if (due.save)
        yk__saved(&r->schedule, step);
}

/* Trains in rounds with epochs of `per_epoch` steps, each of `seconds`; a signal arrives during step `stop_at`. */
static const char *trace_of(run *r, uint64_t per_epoch, double seconds, uint64_t stop_at)
{
    static char trace[400];
    yk__schedule *s = &r->schedule;
    uint64_t step = r->step, epoch = r->epoch;
    unsigned round = 0;
    trace[0] = '\0';
    init(r);
    yk__due due = yk__due_first(s, step, epoch);
    act(r, trace, sizeof trace, step, due);
    while (!due.end) {
        const bool over = step == (epoch + 1) * per_epoch, save = yk__save_is_overdue(s, round++);
        step += !over;
        epoch += over;
        clock_ns += over ? 0 : (uint64_t)(1e9 * seconds);
        due = yk__due_sync(s, step, epoch, over, stop_at && step >= stop_at, save);
        act(r, trace, sizeof trace, step, due);
    }
    return trace;
}

static void evaluates_after_each_epoch(void **state)
{
    (void)state;
    assert_string_equal(trace_of(make_run(0, 3), 4, 0.0, 0), "0:e 4:e 8:e 12:es.");
    assert_string_equal(trace_of(make_run(10, 0), 4, 0.0, 0), "0:e 4:e 8:e 10:es.");
    assert_string_equal(trace_of(make_run(8, 0), 4, 0.0, 0), "0:e 4:e 8:es.");
    run *r = make_run(0, 2);
    r->schedule.evaluates = false; /* the training loss is still reported */
    assert_string_equal(trace_of(r, 4, 0.0, 0), "4:e 8:es.");
}

static void evaluates_and_saves_every_few_steps(void **state)
{
    (void)state;
    run *r = make_run(0, 2);
    r->plan.eval_every = 3;
    r->plan.checkpoint_every = 4;
    assert_string_equal(trace_of(r, 4, 0.0, 0), "0:e 3:e 4:s 6:e 8:s 8:e.");
    r = make_run(12, 0); /* both are done at the last step, once */
    r->plan.eval_every = 3;
    r->plan.checkpoint_every = 4;
    assert_string_equal(trace_of(r, 5, 0.0, 0), "0:e 3:e 4:s 6:e 8:s 9:e 12:es.");
    assert_int_equal(yk__until_due(&r->schedule, 0), 3);
    assert_int_equal(yk__until_due(&r->schedule, 6), 2);
    assert_int_equal(yk__until_due(&r->schedule, 11), 1);
    r = make_run(7, 0);
    init(r);
    assert_int_equal(yk__until_due(&r->schedule, 2), 5);
}

/* Checkpoints are at least 10 s apart and take at most 1 % of the time; the clock is read every 16 rounds. */
static void saves_by_time(void **state)
{
    (void)state;
    run *r = make_run(64, 0);
    r->schedule.saves = true;
    assert_string_equal(trace_of(r, 1000, 1.0, 0), "0:e 17:s 33:s 49:s 64:es.");
    r = make_run(64, 0);
    r->schedule.saves = true;
    assert_string_equal(trace_of(r, 1000, 0.5, 0), "0:e 33:s 64:es.");
    yk__schedule *s = &r->schedule;
    clock_ns += 11000000000u;
    assert_true(yk__save_is_overdue(s, 0));
    assert_false(yk__save_is_overdue(s, 1));
    yk__save_begins(s);
    assert_false(yk__save_is_overdue(s, 0));
    yk__save_ended(s, 0.2);
    assert_false(yk__save_is_overdue(s, 0));
    clock_ns += 10000000000u;
    assert_true(yk__save_is_overdue(s, 0));
    r = make_run(64, 0); /* --checkpoint-every */
    r->schedule.saves = true;
    r->plan.checkpoint_every = 1000;
    assert_string_equal(trace_of(r, 1000, 1.0, 0), "0:e 64:es.");
}

/* A signal ends the run after a step, not at the end of an epoch. Checkpoints by time are also written only after a step. */
static void a_signal_ends_the_run(void **state)
{
    (void)state;
    run *r = make_run(0, 3);
    assert_string_equal(trace_of(r, 4, 0.0, 6), "0:e 4:e 6:es.");
    assert_false(yk__is_complete(&r->schedule, 6, 1));
    yk__due over = yk__due_sync(&r->schedule, 8, 2, true, true, true);
    assert_true(over.eval && !over.save && !over.end);
    yk__evaluated(&r->schedule, 8);
    over = yk__due_sync(&r->schedule, 8, 2, true, false, false);
    assert_false(over.eval || over.save || over.end);
}

static run *resume(uint64_t step, uint64_t epoch)
{
    run *r = make_run(0, 3);
    r->step = step;
    yk__saved(&r->schedule, step);
    yk__evaluated(&r->schedule, UINT64_MAX);
    r->epoch = epoch;
    return r;
}

static void a_resumed_run_continues(void **state)
{
    (void)state;
    assert_string_equal(trace_of(resume(6, 1), 4, 0.0, 0), "8:e 12:es.");
    assert_string_equal(trace_of(resume(8, 1), 4, 0.0, 0), "8:e 12:es."); /* before the end of its epoch */
    assert_string_equal(trace_of(resume(12, 2), 4, 0.0, 0), "12:e.");
    assert_string_equal(trace_of(resume(12, 3), 4, 0.0, 0), "12:e."); /* after the last step */
    const yk__schedule *s = &resume(12, 3)->schedule;
    const yk__due again = yk__due_last(s, 12, (yk__due){.save = true});
    assert_true(again.eval && again.save && again.end);
}

/* Three workers share the steps until something is due, and none is skipped. */
static void asynchronous_workers_share_a_quota(void **state)
{
    (void)state;
    char trace[400] = "";
    run *r = make_run(100, 0);
    yk__schedule *s = &r->schedule;
    uint64_t step = 0;
    r->plan = (yk_plan){.workers = 3, .batch = 1, .eval_every = 30, .checkpoint_every = 40, .steps = 100};
    r->plan.epochs = 2;
    init(r);
    while (step < 100) {
        const uint64_t n = yk__acquire_quota(s), left = 100 - step;
        step += n < left ? n : left;
        assert_int_equal(yk__is_due_async(s, step), !n || step % 30 == 0 || step % 40 == 0);
        if (!n)
            act(r, trace, sizeof trace, step, yk__due_async(s, step, false));
    }
    act(r, trace, sizeof trace, step, yk__due_async(s, step, true));
    assert_string_equal(trace, "30:e 40:s 60:e 80:s 90:e 100:es.");
    assert_true(yk__is_done(s, 100, 0));
    assert_true(yk__is_complete(s, 50, 2));
    r->plan.skipped_eval = 90;
    r->step = 60;
    init(r);
    assert_true(yk__is_due_async(s, 80));
    assert_false(yk__due_async(s, 93, false).eval); /* the end follows */
    assert_true(yk__due_async(s, 120, false).eval); /* it did not */
    r->plan.skipped_eval = r->step = 0;
    assert_false(yk__is_done(s, 50, 2)); /* it ends when no examples are left */

    r->plan.checkpoint_every = 0;
    r->schedule.saves = true;
    init(r);
    assert_false(yk__is_due_async(s, 7));
    clock_ns += 11000000000u;
    assert_true(yk__is_due_async(s, 7));
    assert_true(yk__due_async(s, 8, false).save);
    s->save.last = 8;
    assert_true(yk__is_due_async(s, 8));
    assert_false(yk__due_async(s, 8, false).save);
    s->saved_at = yk_now();
    assert_false(yk__is_due_async(s, 9));
}

/* Counts the points and lines of a run whose steps take `seconds`. */
static yk__schedule *report(run *r, uint64_t steps, double seconds, int *points_out, int *lines_out)
{
    yk__schedule *s = &r->schedule;
    *points_out = *lines_out = 0;
    init(r);
    s->reports = true;
    for (uint64_t i = 1; i <= steps; i++) {
        clock_ns += (uint64_t)(1e9 * seconds);
        const yk__report due = yk__report_due(s, i, 0, true);
        *points_out += due.point;
        *lines_out += due.line;
    }
    return s;
}

static void reports_progress(void **state)
{
    (void)state;
    int points, lines;
    const yk__schedule *s = report(make_run(100000, 0), 100000, 1e-5, &points, &lines); /* a second */
    assert_int_equal(points, 400);
    assert_in_range(lines, 4, 5);
    assert_true(s->first_step > s->began && s->first_step < s->began + 2e-5);
    assert_int_equal(yk__check_after(s, 1), 249);
    assert_int_equal(yk__check_after(s, 0), 250);
    report(make_run(100000, 0), 100000, 1e-2, &points, &lines); /* 1,000 seconds */
    assert_in_range(points, 1900, 2000);
    assert_in_range(lines, 4500, 5000);
    report(make_run(1000000, 0), 500, 1e-2, &points, &lines); /* the beginning of a long run */
    assert_in_range(points, 8, 10);
    report(make_run(100, 0), 100, 10.0, &points, &lines);
    assert_int_equal(points, 100);
    assert_int_equal(lines, 100);
    run *r = make_run(100000, 0);
    r->plan.log_every = 1000;
    report(r, 100000, 1e-2, &points, &lines);
    assert_int_equal(points, 100);
    report(make_run(0, 3), 100000, 1e-5, &points, &lines); /* the length is not known */
    assert_in_range(points, 400, 1000);
    r = make_run(0, INT64_MAX);
    r->epoch_examples = 1000000;
    report(r, 100, 1e-5, &points, &lines);
    assert_int_equal(points, 0);
    r->schedule.reports = false; /* another rank */
    assert_false(yk__report_due(&r->schedule, 1000000, 0, true).point);
    assert_int_equal(yk__check_after(&r->schedule, 1), 1023);
}

/* ---- divergence.h */

/* Trains with the loss low before step `rises`, and high from there to step `falls`. Returns the step at which the run counts as
 * diverged; 0: never. *asked_out: how often the rule was asked. */
static uint64_t diverges(double run_steps, uint64_t last, uint64_t batch, uint64_t rises, uint64_t falls,
                         double high, unsigned *asked_out)
{
    yk__divergence d = {.untrained = 1.0};
    double sum = 0.0, mean;
    *asked_out = 0;
    for (uint64_t step = 1; step <= last; step++) {
        sum += (double)batch * (step >= rises && step < falls ? high : 0.5);
        if (step < d.next)
            continue;
        ++*asked_out;
        if (yk__divergence_found(&d, run_steps,
                                 (yk__loss_mark){step, step * batch, (double)(step * batch), sum}, &mean)) {
            assert_true(mean > 1.5 && mean <= high + 1e-9);
            return step;
        }
    }
    return 0;
}

static void a_loss_above_that_of_an_untrained_model_is_divergence(void **state)
{
    (void)state;
    unsigned asked;
    const uint64_t never = UINT64_MAX;
    /* high from the beginning: after 10 % of the run, and at least 200 steps */
    assert_in_range(diverges(10000, 10000, 64, 0, never, 1.6, &asked), 1000, 1100);
    assert_in_range(diverges(1000, 1000, 64, 0, never, 1.6, &asked), 200, 210);
    assert_int_equal(diverges(199, 199, 64, 0, never, 9.0, &asked), 0);
    /* high for the whole window, at any time; not for a part of it, unless it is much too high */
    assert_in_range(diverges(10000, 10000, 64, 5000, never, 1.6, &asked), 5400, 5700);
    assert_in_range(diverges(10000, 10000, 64, 9400, never, 1.6, &asked), 9800, 10000);
    assert_int_equal(diverges(10000, 10000, 64, 5000, 5300, 1.6, &asked), 0);
    assert_true(diverges(10000, 10000, 64, 5000, 5300, 9.0, &asked) > 5000);
    /* a run that recovers in the first 10 %, or is only a little worse than an untrained model */
    assert_int_equal(diverges(10000, 10000, 64, 0, 450, 100.0, &asked), 0);
    assert_int_equal(diverges(10000, 10000, 64, 0, never, 1.49, &asked), 0);
    assert_in_range(asked, 90, 102);
    /* the mean of single examples: over at least 200 */
    assert_int_equal(diverges(1000, 1000, 1, 500, 580, 2.0, &asked), 0);
    assert_in_range(diverges(1000, 1000, 1, 500, never, 2.0, &asked), 600, 740);
    /* the length is not known: the steps so far */
    assert_in_range(diverges(HUGE_VAL, 10000, 64, 0, never, 1.6, &asked), 200, 210);
    assert_in_range(diverges(HUGE_VAL, 10000, 64, 5000, never, 1.6, &asked), 5200, 5400);
    assert_int_equal(diverges(HUGE_VAL, 100000, 64, never, never, 1.6, &asked), 0);
    assert_true(asked < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(evaluates_after_each_epoch, set_clock),
        cmocka_unit_test_setup(evaluates_and_saves_every_few_steps, set_clock),
        cmocka_unit_test_setup(saves_by_time, set_clock),
        cmocka_unit_test_setup(a_signal_ends_the_run, set_clock),
        cmocka_unit_test_setup(a_resumed_run_continues, set_clock),
        cmocka_unit_test_setup(asynchronous_workers_share_a_quota, set_clock),
        cmocka_unit_test_setup(reports_progress, set_clock),
        cmocka_unit_test(a_loss_above_that_of_an_untrained_model_is_divergence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
