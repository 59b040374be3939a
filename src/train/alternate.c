/* For benchmarks: measures what observation costs within one run, so that both sides have the same memory, cores and time.
 *
 * YK_WATCH_TURNS=SECONDS:FILE divides a run with one worker into intervals of SECONDS. Of each two intervals, a random one is
 * observed, with everything that is measured and written, and the other is not. FILE gets a line for each interval:
 *
 *     1 0.500013 181230          observed or not, seconds, examples
 */
#include "train/trainer.h"

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
    bool paused;         /* not observed */
    unsigned until_read; /* steps until the clock is read again */
};

enum { READ_EVERY = 16 };

yk_status yk__alternate_begin(yk__trainer *t)
{
    const char *text = getenv("YK_WATCH_TURNS");
    double seconds = 0.0;
    if (!text)
        return YK_OK;
    const char *colon = yk_decimal(text, &seconds);
    if (!colon || *colon != ':' || !(seconds > 0.0))
        return yk_fail(YK_EUSAGE, "YK_WATCH_TURNS=%s: must be SECONDS:FILE, as in 0.5:turns.txt", text);
    if (t->cluster.role != YK__SINGLE || t->plan->workers > 1 || !t->plan->lockstep)
        return yk_fail(YK_EUSAGE, "YK_WATCH_TURNS is for one worker in one process");
    if (!(t->alternation = calloc(1, sizeof *t->alternation)))
        return yk_fail_memory(sizeof *t->alternation, "the intervals of YK_WATCH_TURNS");
    *t->alternation = (yk__alternation){.seconds = seconds, .began = yk_now()};
    return yk_file_create(colon + 1, &t->alternation->file);
}

/* Either the first or the second of two intervals. */
static bool is_observed(uint64_t interval)
{
    return (yk_mix64(interval / 2) ^ interval) & 1;
}

static void observe(yk__trainer *t, bool on)
{
    yk_phases *p = &t->phases[0];
    if (on == !t->alternation->paused)
        return;
    t->alternation->paused = !on;
    yk_observer_pause(t->observer, !on);
    if (on)
        yk_phases_begin(p, 1);
    else
        yk_phases_end(p);
    t->worker[0].phases = on ? p : NULL;
}

void yk__alternate_step(yk__trainer *t, uint64_t examples)
{
    yk__alternation *a = t->alternation;
    a->examples += examples;
    if (a->until_read-- > 0)
        return;
    a->until_read = READ_EVERY;
    const double now = yk_now();
    if (now - a->began < a->seconds)
        return;
    if (a->interval) /* the first one warms up */
        yk_file_print(a->file, "%d %.6f %llu\n", !a->paused, now - a->began, (unsigned long long)a->examples);
    observe(t, is_observed(++a->interval));
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
