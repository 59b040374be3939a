/* For benchmarks: measures what observation or checkpoints cost within one run, so that both sides have the same memory, cores
 * and time. Each variable divides a run in one process into intervals of SECONDS. In each pair of intervals, a random one
 *
 *     YK_WATCH_TURNS=SECONDS:FILE    is observed, with everything that is measured and written, and the other is not
 *     YK_SAVE_TURNS=SECONDS:FILE     begins with a checkpoint, and the other does not
 *
 * FILE gets a line for each interval:
 *
 *     1 0.500013 181230          observed (saved) or not, seconds, examples
 */
#include "train/loop.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>

struct yk__alternation {
    yk_file *file;
    double seconds, began; /* began: this interval */
    uint64_t examples, interval;
    bool watch;          /* the intervals differ in observation, not in checkpoints */
    bool on;             /* this interval is observed, or begins with a checkpoint */
    unsigned until_read; /* steps until the clock is read again */
};

enum { READ_EVERY = 16 };

yk_status yk__alternate_begin(yk__trainer *t)
{
    const char *watch = getenv("YK_WATCH_TURNS"), *text = watch ? watch : getenv("YK_SAVE_TURNS"),
               *name = watch ? "YK_WATCH_TURNS" : "YK_SAVE_TURNS";
    double seconds = 0.0;
    if (!text)
        return YK_OK;
    const char *colon = yk_decimal(text, &seconds);
    if (!colon || *colon != ':' || !(seconds > 0.0))
        return yk_fail(YK_EUSAGE, "%s=%s: must be SECONDS:FILE, as in 0.5:turns.txt", name, text);
    if (t->plan->role != YK_ROLE_SINGLE || (watch && t->plan->workers > 1) || !t->plan->lockstep)
        return yk_fail(YK_EUSAGE, "%s is for %s in one process", name,
                       watch ? "one worker" : "synchronous workers");
    if (!watch && !t->schedule.saves_by_time)
        return yk_fail(YK_EUSAGE, "YK_SAVE_TURNS needs a run directory, and no --checkpoint-every");
    if (!(t->alternation = calloc(1, sizeof *t->alternation)))
        return yk_fail_memory(sizeof *t->alternation, "the intervals of a benchmark");
    *t->alternation =
        (struct yk__alternation){.seconds = seconds, .began = yk_now(), .watch = watch, .on = watch};
    t->schedule.saves_by_time = watch && t->schedule.saves_by_time;
    return yk_file_create(colon + 1, &t->alternation->file);
}

/* Either the first or the second of two intervals. */
static bool is_on(uint64_t interval)
{
    return (yk_mix64(interval / 2) ^ interval) & 1;
}

static void observe(yk__trainer *t, bool on)
{
    yk_phases *p = &t->phases[0];
    t->schedule.reports = on;
    yk_observer_pause(t->observer, !on);
    if (on)
        yk_phases_begin(p, 1);
    else
        yk_phases_end(p);
    t->worker[0].phases = on ? p : NULL;
}

void yk__alternate_step(yk__trainer *t, uint64_t examples)
{
    struct yk__alternation *a = t->alternation;
    a->examples += examples;
    if (a->until_read-- > 0)
        return;
    a->until_read = READ_EVERY;
    const double now = yk_now();
    if (now - a->began < a->seconds)
        return;
    if (a->interval) /* the first one warms up */
        yk_file_print(a->file, "%d %.6f %llu\n", a->on, now - a->began, (unsigned long long)a->examples);
    const bool on = is_on(++a->interval);
    if (a->watch && on != a->on)
        observe(t, on);
    t->schedule.save_now = !a->watch && on;
    a->on = on;
    a->examples = 0;
    a->began = yk_now();
}

yk_status yk__alternate_end(yk__trainer *t, yk_status so_far)
{
    if (!t->alternation)
        return so_far;
    yk_status st = yk_file_close(t->alternation->file, so_far);
    free(t->alternation);
    t->alternation = NULL;
    return st;
}
