/* How a worker spends its time: each moment belongs to one phase, and the phases add up to the wall time.
 *
 * Example:
 *     yk_phases *p = yk_alloc(workers, sizeof *p, "the phases"); // zeroed; one per worker
 *     yk_phases_begin(p, workers);                               // starts the clock
 *     for (int i = 0; i < steps; i++) {
 *         yk_phases_step(p); // begins a step, in the phase "input" (p->first)
 *         yk_phase_to(p, YK_PHASE_COMPUTE);
 *         yk_phase_to(p, YK_PHASE_APPLY);
 *     }
 *     yk_phases_detail(p); // before something rare and long: time it in detail
 *     yk_phase_to(p, YK_PHASE_EVAL);
 *     yk_phases_end(p);
 *
 * Reading the clock takes about 30 ns, a step of a small model a few thousand ns. Reading it seven times in each step would
 * cost too much. So steps are timed in detail as often as a budget of 0.1 % of the time allows: all of them if they are long,
 * one in k if they are short. k is drawn at random around the right mean, so that periodic effects do not bias the result. The
 * time between timed steps is measured as a whole and divided in the same proportions as recent timed steps:
 *
 *     | step | step   step   step   step | step | step   step ...
 *     | i c a|                           | i c a|
 *      timed    one reading of the clock   timed
 *
 * Long waits (for a reader of data, at a barrier after spinning) are always timed by the code that waits and reported with
 * yk_phase_waited(). They are counted exactly and are not part of those proportions.
 *
 * A yk_phases belongs to one worker. Its thread makes all of the calls above, which do nothing for NULL. Any other thread may
 * call yk_phases_read() at any time and gets consistent numbers (a sequence lock; all fields are atomic).
 */
#ifndef YK_WATCH_PHASE_H
#define YK_WATCH_PHASE_H

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include <stdatomic.h>

/* In the order in which they are always listed and drawn: the phases of workers, then those that only parameter servers have. Each
 * has a name in files, and words for reports. */
#define YK_PHASE_LIST(X)                                                                                     \
    X(INPUT, "input", "waiting for input") /* for the feed */                                                \
    X(COMPUTE, "compute", "computing")     /* gradients */                                                   \
    X(PARAMETERS, "parameters", "waiting for parameters")                                                    \
    X(SENDING, "sending", "sending") /* gradients */                                                         \
    X(WORKERS, "workers", "waiting for other workers")                                                       \
    X(APPLY, "apply", "applying updates") /* and merging */                                                  \
    X(EVAL, "eval", "evaluating")                                                                            \
    X(CHECKPOINT, "checkpoint", "saving checkpoints")                                                        \
    X(OTHER, "other", "other")                           /* the loop itself, progress, logs */               \
    X(WAITING, "waiting", "server: waiting")             /* for messages */                                  \
    X(RECEIVING, "receiving", "server: receiving")       /* a message from a worker */                       \
    X(LOOKUP, "lookup", "server: looking up parameters") /* into a reply; then APPLY and SENDING */

typedef enum {
#define YK_PHASE_ENUM(phase, name, words) YK_PHASE_##phase,
    YK_PHASE_LIST(YK_PHASE_ENUM)
#undef YK_PHASE_ENUM
        YK_PHASES
} yk_phase;

enum { YK_WORKER_PHASES = YK_PHASE_OTHER + 1 };

enum { YK__PHASE_MANY = -1, YK__PHASE_ENDED = -2 }; /* in steps that are not timed; after the end */

struct yk_trace_track;

typedef struct {
    /* private to the worker */
    _Alignas(YK_ALIGN) bool detail; /* this step is timed */
    bool running, stepping, rare;   /* stepping: a step has begun; rare: it includes a rare event */
    int phase;                      /* the current one, in detail */
    int64_t left;                   /* steps until the next decision */
    double budget;
    yk_rng random;
    uint64_t step_at;                              /* when the timed step began */
    double profile[YK_PHASES], profile_sum;        /* of timed steps; older ones decay */
    double step[YK_PHASES], step_blocked, step_ns; /* of this step; the usual duration of a step */
    yk_phase first;               /* of a step; set before begin: INPUT, unless this is a server */
    struct yk_trace_track *track; /* borrowed, set before begin; NULL: no timeline (watch/trace.h) */

    /* read by other threads */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t sequence; /* odd while the worker writes */
    atomic_uint_fast64_t began, mark;                 /* mark: time is accounted for up to here */
    atomic_uint_fast64_t blocked;                     /* ns since `mark` that are already accounted for */
    atomic_int open; /* the current phase, or YK__PHASE_MANY, YK__PHASE_ENDED */
    atomic_uint_fast64_t ns[YK_PHASES];
    atomic_uint_fast64_t steps, examples;
    _Atomic double loss, weight;          /* sums over the examples */
    atomic_uint_fast64_t timed, timed_ns; /* steps in detail */
    _Atomic double timed_squares;         /* sum of ns^2 */
    atomic_uint_fast64_t barriers, last;  /* barriers, and how often this worker came last */
} yk_phases;

/* The values at one moment. */
typedef struct {
    double seconds; /* wall time since begin: the sum of all phases */
    double phase[YK_PHASES];
    uint64_t steps, examples;
    double loss, weight;              /* sums over the examples */
    uint64_t timed;                   /* timed steps */
    double step_mean, step_deviation; /* seconds, of the timed steps */
    uint64_t barriers, last;
} yk_phases_sample;

const char *yk_phase_name(yk_phase phase);
extern const char *const yk_phase_words[YK_PHASES]; /* for reports: "waiting for input" */
bool yk_phase_applies(yk_phase phase, bool server); /* whether workers, or servers, have this phase */
/* "phases": each as a share of `of`. */
void yk_phases_json(yk_json *j, const double *phase, double of, bool server);

/* The number of workers matters because at a barrier all workers wait for the one that is timed. */
void yk_phases_begin(yk_phases *p, int workers);
void yk_phases_end(yk_phases *p);

/* From any thread: the sample of one worker; that of all workers, with means of seconds and sums of counts. */
void yk_phases_read(const yk_phases *p, yk_phases_sample *out);
void yk_phases_read_all(const yk_phases *p, int workers, yk_phases_sample *out);

void yk__phases_decide(yk_phases *p);
void yk__phase_switch(yk_phases *p, yk_phase to);
void yk__phase_waited(yk_phases *p, yk_phase phase, uint64_t ns);

/* The phases of one worker; `all` may be NULL. */
static inline yk_phases *yk_phases_of(yk_phases *all, int worker)
{
    return all ? &all[worker] : NULL;
}

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

/* Times everything up to the next step in detail: before something that is not part of a usual step. */
void yk_phases_detail(yk_phases *p);

/* The worker was blocked for `ns` until now, as measured by the caller: counts as `phase`, even if another phase is open. */
static inline void yk_phase_waited(yk_phases *p, yk_phase phase, uint64_t ns)
{
    if (p && ns)
        yk__phase_waited(p, phase, ns);
}

/* Moves `ns` of a phase that has just ended to another one. Does nothing in untimed steps. */
void yk_phase_move(yk_phases *p, yk_phase from, yk_phase to, uint64_t ns);

/* There is only one writer, so a load and a store are enough. */
static inline void yk__phases_add(atomic_uint_fast64_t *to, uint64_t n)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void yk__phases_add_real(_Atomic double *to, double x)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + x, memory_order_relaxed);
}

/* Adds what was done since the last call; weight_sum, loss: sums over the examples. */
static inline void yk_phases_done(yk_phases *p, uint64_t steps, uint64_t examples, double weight_sum,
                                  double loss)
{
    if (!p)
        return;
    yk__phases_add(&p->steps, steps);
    yk__phases_add(&p->examples, examples);
    yk__phases_add_real(&p->weight, weight_sum);
    yk__phases_add_real(&p->loss, loss);
}

/* Counts a barrier, and whether this worker arrived last. */
static inline void yk_phases_barrier(yk_phases *p, bool last)
{
    if (!p)
        return;
    yk__phases_add(&p->barriers, 1);
    yk__phases_add(&p->last, last);
}

#endif
