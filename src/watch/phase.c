#include "watch/phase.h"

#include "base/clock.h"
#include "base/wait.h"
#include "watch/trace.h"
#include <math.h>
#include <string.h>

static const double budget = 0.001;    /* share of the time to spend on timing */
static const double decay = 0.9;       /* of the profile, per timed step */
static const double per_switch = 8e-9; /* seconds of a switch, without the clock */

#define WORDS(phase, name, words) words,
const char *const yk_phase_words[YK_PHASES] = {YK_PHASE_LIST(WORDS)};

const char *yk_phase_name(yk_phase phase)
{
#define NAME(phase, name, words) name,
    static const char *const names[] = {YK_PHASE_LIST(NAME)};
    return phase >= 0 && phase < YK_PHASES ? names[phase] : "none";
}

bool yk_phase_applies(yk_phase p, bool server)
{
    const int phase = (int)p;
    if (!server)
        return phase < YK_WORKER_PHASES;
    return phase >= YK_WORKER_PHASES || phase == YK_PHASE_APPLY || phase == YK_PHASE_SENDING ||
           phase == YK_PHASE_CHECKPOINT || phase == YK_PHASE_OTHER;
}

void yk_phases_json(yk_json *j, const double *phase, double of, bool server)
{
    yk_json_object(j, "phases");
    for (int k = 0; k < YK_PHASES; k++)
        if (yk_phase_applies((yk_phase)k, server))
            yk_json_real(j, yk_phase_name((yk_phase)k), of > 0.0 ? phase[k] / of : 0.0);
    yk_json_end(j);
}

/* ---- the sequence lock */

static void write_begin(yk_phases *p)
{
    atomic_store_explicit(&p->sequence, atomic_load_explicit(&p->sequence, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

static void write_end(yk_phases *p)
{
    atomic_store_explicit(&p->sequence, atomic_load_explicit(&p->sequence, memory_order_relaxed) + 1,
                          memory_order_release);
}

static void set(atomic_uint_fast64_t *to, uint64_t n)
{
    atomic_store_explicit(to, n, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* ---- the cost of reading the clock: 20 ns, or a microsecond if it is a system call */

static double clock_seconds(void)
{
    enum { READS = 64, TRIES = 8 };
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        const uint64_t from = yk_now_ns();
        uint64_t to = from;
        for (int k = 0; k < READS; k++)
            to = yk_now_ns();
        best = to - from < best ? to - from : best;
    }
    return (double)best * 1e-9 / READS;
}

void yk_phases_begin(yk_phases *p, int workers)
{
    if (!p)
        return;
    if (!(p->budget > 0.0)) /* it may begin again after an end */
        p->budget = budget / (workers > 1 ? workers : 1) / (clock_seconds() + per_switch);
    p->random = yk_rng_seed(yk_now_ns(), 0); /* not from an address: simulated runs are reproducible */
    p->running = p->detail = true;
    p->phase = YK_PHASE_OTHER;
    p->step_at = yk_now_ns();
    write_begin(p);
    set(&p->began, p->step_at);
    set(&p->mark, p->step_at);
    atomic_store_explicit(&p->open, YK_PHASE_OTHER, memory_order_relaxed);
    write_end(p);
}

/* ---- accounting */

/* Divides ns in the proportions of the timed steps, without losing a nanosecond. */
static void divide(yk_phases *p, uint64_t ns)
{
    uint64_t given = 0;
    int max = YK_PHASE_OTHER;
    for (int i = 0; i < YK_PHASES; i++) {
        const uint64_t part =
            p->profile_sum > 0.0 ? (uint64_t)((double)ns * (p->profile[i] / p->profile_sum)) : 0;
        const uint64_t max_left = ns - given, take = part < max_left ? part : max_left;
        yk__phases_add(&p->ns[i], take);
        given += take;
        if (p->profile[i] > p->profile[max])
            max = i;
    }
    yk__phases_add(&p->ns[max], ns - given);
}

/* Accounts for the time until `now`: that of the open phase, or of a sequence of untimed steps. From here on, `to` is timed in
 * detail. */
static void turn_to(yk_phases *p, yk_phase to, uint64_t now)
{
    const uint64_t from = get(&p->mark), blocked = get(&p->blocked);
    const uint64_t took = now > from + blocked ? now - from : blocked;
    write_begin(p);
    if (p->detail)
        yk__phases_add(&p->ns[p->phase], took);
    else
        divide(p, took - blocked);
    set(&p->blocked, 0);
    set(&p->mark, from + took);
    atomic_store_explicit(&p->open, to, memory_order_relaxed);
    write_end(p);
    if (p->track && took)
        yk_trace_slice(p->track,
                       p->detail ? yk_phase_name((yk_phase)p->phase) : "steps not timed individually", from,
                       took);
    if (p->detail)
        p->step[p->phase] += (double)took;
    else
        p->step_at = from + took;
    p->detail = true;
    p->phase = to;
}

/* ---- in detail */

void yk__phase_switch(yk_phases *p, yk_phase to)
{
    if (to != (yk_phase)p->phase)
        turn_to(p, to, yk_now_ns());
}

/* Blocked time is counted exactly: in detail it is already in its phase, otherwise it is not part of the time to divide. */
void yk__phase_waited(yk_phases *p, yk_phase phase, uint64_t ns)
{
    if (p->detail) {
        const yk_phase open = (yk_phase)p->phase;
        if (phase != open) { /* split the open phase */
            turn_to(p, open, yk_now_ns());
            yk_phase_move(p, open, phase, ns);
        }
        p->step[phase] -= (double)ns; /* closing the phase adds all of its time */
        p->step_blocked += (double)ns;
        return;
    }
    write_begin(p);
    yk__phases_add(&p->ns[phase], ns);
    yk__phases_add(&p->blocked, ns);
    write_end(p);
}

void yk_phase_move(yk_phases *p, yk_phase from, yk_phase to, uint64_t ns)
{
    if (!p || !p->detail)
        return;
    const uint64_t have = p->step[from] > 0.0 ? (uint64_t)p->step[from] : 0, n = ns < have ? ns : have;
    p->step[from] -= (double)n;
    p->step[to] += (double)n;
    write_begin(p);
    set(&p->ns[from], get(&p->ns[from]) - n);
    yk__phases_add(&p->ns[to], n);
    write_end(p);
}

/* Adds a timed step to the profile. */
static void add_to_profile(yk_phases *p, uint64_t now)
{
    const uint64_t took = now > p->step_at ? now - p->step_at : 0;
    double sum = 0.0;
    for (int i = 0; i < YK_PHASES; i++) {
        const double part = p->step[i] > 0.0 ? p->step[i] : 0.0;
        p->profile[i] = p->profile[i] * decay + part;
        sum += p->profile[i];
    }
    p->profile_sum = sum;
    const double usual = (double)took > p->step_blocked ? (double)took - p->step_blocked : 0.0;
    /* a step that was interrupted may at most double the estimate */
    const double max = p->step_ns > 0.0 ? 2.0 * p->step_ns : usual;
    p->step_ns = p->step_ns > 0.0 ? 0.75 * p->step_ns + 0.25 * fmin(usual, max) : usual;
    write_begin(p);
    yk__phases_add(&p->timed, 1);
    yk__phases_add(&p->timed_ns, took);
    atomic_store_explicit(&p->timed_squares,
                          atomic_load_explicit(&p->timed_squares, memory_order_relaxed) +
                              (double)took * (double)took,
                          memory_order_relaxed);
    write_end(p);
}

/* The number of steps from one timed step to the next. */
static int64_t timing_interval(yk_phases *p)
{
    enum { READS_PER_STEP = 7, FIRST = 4, MAX = 1 << 20 };
    if (get(&p->timed) < FIRST || (p->track && yk_trace_wants_all(p->track)))
        return 1;
    const double mean = READS_PER_STEP / (p->budget * p->step_ns * 1e-9);
    if (!(mean > 1.0))
        return 1;
    if (mean > MAX)
        return MAX;
    return 1 + (int64_t)(mean / 2.0) + (int64_t)yk_rng_below(&p->random, (uint32_t)mean + 1);
}

void yk__phases_decide(yk_phases *p)
{
    p->left = 0;
    if (!p->running)
        return;
    const uint64_t now = yk_now_ns();
    const bool detail = p->detail;
    turn_to(p, p->first, now);
    if (!detail)
        return;
    if (p->stepping && !p->rare) {
        add_to_profile(p, now);
        p->left = timing_interval(p) - 1;
    }
    memset(p->step, 0, sizeof p->step);
    p->step_blocked = 0.0;
    p->stepping = true;
    p->rare = false;
    p->step_at = now;
    if (p->left > 0) {
        p->detail = false;
        atomic_store_explicit(&p->open, YK__PHASE_MANY, memory_order_relaxed);
    }
}

void yk_phases_detail(yk_phases *p)
{
    if (!p || !p->running)
        return;
    if (!p->detail)
        turn_to(p, YK_PHASE_OTHER, yk_now_ns());
    p->rare = true;
    p->left = 0;
}

void yk_phases_end(yk_phases *p)
{
    if (!p || !p->running)
        return;
    turn_to(p, YK_PHASE_OTHER, yk_now_ns());
    p->running = p->detail = false;
    atomic_store_explicit(&p->open, YK__PHASE_ENDED, memory_order_relaxed);
}

/* ---- reading by any thread */

/* Adds the time since `mark`, which is not accounted for yet. */
static void add_rest(yk_phases_sample *out, int open, double rest)
{
    if (open >= 0) {
        out->phase[open] += rest;
        return;
    }
    double usual[YK_PHASES], sum = 0.0;
    for (int i = 0; i < YK_PHASES; i++) {
        usual[i] = i == YK_PHASE_EVAL || i == YK_PHASE_CHECKPOINT ? 0.0 : out->phase[i];
        sum += usual[i];
    }
    for (int i = 0; sum > 0.0 && i < YK_PHASES; i++)
        out->phase[i] += rest * usual[i] / sum;
}

void yk_phases_read(const yk_phases *p, yk_phases_sample *out)
{
    uint64_t sequence, began, mark, blocked, timed_ns;
    double squares;
    int open;
    yk_wait w = yk_wait_begin(YK_WAIT_OVERSUBSCRIBED, HUGE_VAL);
    do {
        *out = (yk_phases_sample){0};
        while ((sequence = atomic_load_explicit(&p->sequence, memory_order_acquire)) & 1)
            yk_wait_poll(&w); /* the worker may have lost its core while writing */
        began = get(&p->began);
        mark = get(&p->mark);
        blocked = get(&p->blocked);
        open = atomic_load_explicit(&p->open, memory_order_relaxed);
        for (int i = 0; i < YK_PHASES; i++)
            out->phase[i] = (double)get(&p->ns[i]) * 1e-9;
        out->timed = get(&p->timed);
        timed_ns = get(&p->timed_ns);
        squares = atomic_load_explicit(&p->timed_squares, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
    } while (atomic_load_explicit(&p->sequence, memory_order_relaxed) != sequence);
    out->steps = get(&p->steps);
    out->examples = get(&p->examples);
    out->loss = atomic_load_explicit(&p->loss, memory_order_relaxed);
    out->weight = atomic_load_explicit(&p->weight, memory_order_relaxed);
    out->barriers = get(&p->barriers);
    out->last = get(&p->last);
    if (out->timed) {
        const double n = (double)out->timed, mean = (double)timed_ns / n, spread = squares / n - mean * mean;
        out->step_mean = mean * 1e-9;
        out->step_deviation = spread > 0.0 ? sqrt(spread) * 1e-9 : 0.0;
    }
    const uint64_t now = yk_now_ns();
    if (began && open != YK__PHASE_ENDED && now > mark + blocked)
        add_rest(out, open, (double)(now - mark - blocked) * 1e-9);
    for (int i = 0; i < YK_PHASES; i++)
        out->seconds += out->phase[i];
}

void yk_phases_read_all(const yk_phases *p, int workers, yk_phases_sample *out)
{
    *out = (yk_phases_sample){0};
    for (int i = 0; i < workers; i++) {
        yk_phases_sample one;
        yk_phases_read(&p[i], &one);
        for (int k = 0; k < YK_PHASES; k++)
            out->phase[k] += one.phase[k] / workers;
        out->seconds += one.seconds / workers;
        out->steps += one.steps;
        out->examples += one.examples;
        out->loss += one.loss;
        out->weight += one.weight;
        out->timed += one.timed;
        out->step_mean += one.step_mean / workers;
        out->step_deviation += one.step_deviation / workers;
        out->barriers += one.barriers;
        out->last += one.last;
    }
}
