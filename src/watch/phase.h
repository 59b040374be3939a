/* Where the time of a worker goes: each moment belongs to one phase, and the phases add up to the wall time.
 *
 *     yk_phases *p = yk_alloc(workers, sizeof *p, "the phases");       // zeroed; one of them each
 *     yk_phases_begin(p, workers);              // the clock starts
 *     each step:  yk_phases_step(p);            // ends the step before; the new one begins by waiting for input
 *                 yk_phase_to(p, YK_PHASE_COMPUTE);
 *                 yk_phase_to(p, YK_PHASE_APPLY);
 *     yk_phases_now(p);                         // before something rare and long: from here on in detail
 *     yk_phase_to(p, YK_PHASE_EVAL);
 *     yk_phases_end(p);
 *
 * Looking at the clock takes some 30 ns, a step of a small model a few thousand: to look seven times in each of them would cost
 * more than it tells. So steps are timed in detail as often as a budget of 0.1 % of the time allows: all of them where they
 * are long, one in k (k drawn at random around the right mean, so that nothing periodic hides) where they are tiny.
 * The time in between is known as a whole and is divided as the steps that were timed lately divide:
 *
 *     | step | step   step   step   step | step | step   step ...
 *     | i c a|                           | i c a|
 *      timed    one reading of the clock   timed
 *
 * What blocks for long (a feed that has to wait for its reader, a barrier beyond its short spin) is always timed, by
 * whoever waits, and reported with yk_phase_waited(): it is counted as it is and left out of those shares.
 *
 * A yk_phases belongs to one worker, whose thread makes all of the calls above; NULL is fine and does nothing. Any other
 * thread may call yk_phases_read() at any time and sees numbers of one moment (a sequence lock; all fields are atomic).
 */
#ifndef YK_WATCH_PHASE_H
#define YK_WATCH_PHASE_H

#include "base/json.h"
#include "base/mem.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order in which they are always listed. */
#define YK_PHASE_LIST(X)                                                                                     \
    X(INPUT, "input")           /* waiting for the feed */                                                   \
    X(COMPUTE, "compute")       /* gradients */                                                              \
    X(PARAMETERS, "parameters") /* waiting for parameters */                                                 \
    X(SENDING, "sending")       /* handing gradients over */                                                 \
    X(WORKERS, "workers")       /* waiting for other workers */                                              \
    X(APPLY, "apply")           /* the update rule, and merging */                                           \
    X(EVAL, "eval")                                                                                          \
    X(CHECKPOINT, "checkpoint")                                                                              \
    X(OTHER, "other") /* the loop itself, progress, logs */

typedef enum {
#define YK_PHASE_ENUM(name, text) YK_PHASE_##name,
    YK_PHASE_LIST(YK_PHASE_ENUM)
#undef YK_PHASE_ENUM
        YK_PHASES
} yk_phase;

enum { YK__PHASE_MANY = -1, YK__PHASE_ENDED = -2 }; /* steps that are not timed; nothing is open any more */

struct yk_trace_track;

typedef struct {
    /* the worker's own */
    _Alignas(YK_ALIGN) bool detail; /* this step is timed */
    bool running, stepping, rare;   /* stepping: a step was begun; rare: it held what no other step does */
    int phase;                      /* the one that is open, in detail */
    int64_t left;                   /* steps until the next decision */
    double budget;
    uint64_t random;
    uint64_t step_at;                              /* when the timed step began */
    double profile[YK_PHASES], profile_sum;        /* of timed steps, older ones fading */
    double step[YK_PHASES], step_blocked, step_ns; /* of this one; the usual length of one */
    struct yk_trace_track *track; /* NULL: no timeline (watch/trace.h). Borrowed, set before begin */

    /* what others read */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t turn; /* odd while the worker writes */
    atomic_uint_fast64_t began, mark;             /* mark: up to where time is accounted for */
    atomic_uint_fast64_t blocked;                 /* ns since `mark` that are accounted for already */
    atomic_int open;                              /* the phase since then; or: */
    atomic_uint_fast64_t ns[YK_PHASES];
    atomic_uint_fast64_t steps, examples;
    atomic_uint_fast64_t timed, timed_ns, slowest_ns; /* steps in detail */
    _Atomic double timed_squares;                     /* sum of ns^2 */
    atomic_uint_fast64_t barriers, last;              /* barriers, and how often this worker came last */
} yk_phases;

/* A moment's look at one. */
typedef struct {
    double seconds; /* wall time since begin: the sum of all phases */
    double phase[YK_PHASES];
    uint64_t steps, examples;
    uint64_t timed;                                 /* steps in detail */
    double step_mean, step_deviation, step_slowest; /* seconds, of those */
    uint64_t barriers, last;
} yk_phases_sample;

const char *yk_phase_name(yk_phase phase);
void yk_phases_json(yk_json *j, const double *phase, double of); /* "phases": each as a share of `of` */

void yk_phases_begin(yk_phases *p,
                     int workers); /* workers: how many share a step, and so pay for its timing */
void yk_phases_end(yk_phases *p);
void yk_phases_read(const yk_phases *p, yk_phases_sample *out); /* from any thread */

void yk__phases_decide(yk_phases *p);
void yk__phase_switch(yk_phases *p, yk_phase to);
void yk__phase_waited(yk_phases *p, yk_phase phase, uint64_t ns);

static inline void yk_phases_step(yk_phases *p)
{
    if (p && --p->left <= 0)
        yk__phases_decide(p);
}

static inline void yk_phase_to(yk_phases *p, yk_phase to)
{
    if (p && p->detail)
        yk__phase_switch(p, to);
}

/* From here to the next step in detail, whatever was decided: something comes that is no part of a usual step. */
void yk_phases_now(yk_phases *p);

/* So long was blocked within `phase`, as measured by the caller; until now, where another one is open. */
static inline void yk_phase_waited(yk_phases *p, yk_phase phase, uint64_t ns)
{
    if (p && ns)
        yk__phase_waited(p, phase, ns);
}

/* So many of the nanoseconds of a phase that has just ended were really the other's. Untimed steps are left as they are. */
void yk_phase_move(yk_phases *p, yk_phase from, yk_phase to, uint64_t ns);

/* What was done since the last call. */
static inline void yk_phases_done(yk_phases *p, uint64_t steps, uint64_t examples)
{
    if (!p)
        return;
    atomic_store_explicit(&p->steps, atomic_load_explicit(&p->steps, memory_order_relaxed) + steps,
                          memory_order_relaxed);
    atomic_store_explicit(&p->examples, atomic_load_explicit(&p->examples, memory_order_relaxed) + examples,
                          memory_order_relaxed);
}

/* A barrier where everybody waits for the last: was it this worker? */
static inline void yk_phases_met(yk_phases *p, bool last)
{
    if (!p)
        return;
    atomic_store_explicit(&p->barriers, atomic_load_explicit(&p->barriers, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (last)
        atomic_store_explicit(&p->last, atomic_load_explicit(&p->last, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

#endif
