/* For benchmarks: what watching costs, within one run, so that both sides have the same memory, cores and hour.
 *
 * YK_WATCH_TURNS=SECONDS:FILE watches a run of one worker in turns: of each two turns in one, drawn by lot, with all that is
 * measured and written, in the other with nothing of it. FILE gets a line for each turn:
 *
 *     1 0.500013 181230          watched or not, seconds, examples
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>

struct yk__turns {
    yk_file *file;
    double seconds, began;
    uint64_t examples, turn;
    bool unwatched;      /* in this turn */
    unsigned until_look; /* steps: the clock is looked at once in a while */
};

enum { LOOK_EVERY = 16 };

yk_status yk__turns_begin(yk__trainer *t)
{
    const char *text = getenv("YK_WATCH_TURNS");
    double seconds = 0.0;
    if (!text)
        return YK_OK;
    const char *colon = yk_decimal(text, &seconds);
    if (!colon || *colon != ':' || !(seconds > 0.0))
        return yk_fail(YK_EUSAGE, "YK_WATCH_TURNS=%s: must be SECONDS:FILE, as in 0.5:turns.txt", text);
    if (t->cluster.role != YK__ALONE || t->plan->workers > 1 || !t->plan->lockstep)
        return yk_fail(YK_EUSAGE, "YK_WATCH_TURNS is for one worker in one process");
    if (!(t->turns = calloc(1, sizeof *t->turns)))
        return yk_fail_memory(sizeof *t->turns, "turns");
    *t->turns = (yk__turns){.seconds = seconds, .began = yk_now()};
    return yk_file_create(colon + 1, &t->turns->file);
}

/* The first of two turns is watched, or the second. */
static bool watched(uint64_t turn)
{
    return (yk_mix64(turn / 2) ^ turn) & 1;
}

static void watch(yk__trainer *t, bool on)
{
    yk_phases *p = &t->phases[0];
    if (on == !t->turns->unwatched)
        return;
    t->turns->unwatched = !on;
    yk_observer_pause(t->observer, !on);
    if (on)
        yk_phases_begin(p, 1);
    else
        yk_phases_end(p);
    t->worker[0].phases = on ? p : NULL;
}

void yk__turns_step(yk__trainer *t, uint64_t examples)
{
    yk__turns *s = t->turns;
    s->examples += examples;
    if (s->until_look-- > 0)
        return;
    s->until_look = LOOK_EVERY;
    const double now = yk_now();
    if (now - s->began < s->seconds)
        return;
    if (s->turn) /* the first one warms up */
        yk_file_print(s->file, "%d %.6f %llu\n", !s->unwatched, now - s->began,
                      (unsigned long long)s->examples);
    watch(t, watched(++s->turn));
    s->examples = 0;
    s->began = yk_now();
}

yk_status yk__turns_end(yk__trainer *t, yk_status so_far)
{
    if (!t->turns)
        return so_far;
    yk_status st = yk_file_close(t->turns->file, so_far);
    free(t->turns);
    t->turns = NULL;
    return st;
}
