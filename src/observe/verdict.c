#include "observe/verdict_internal.h"

#include <stdio.h>

static const double min_seconds = 0.1; /* shorter runs have no verdict */
static const double much_slower = 2.0; /* competition for cores alone slows down no single worker this much */
enum { MIN_STEPS = 4 };

const char *yk_verdict_name(yk_verdict_kind kind)
{
    static const char *const names[YK_VERDICT_KINDS] = {
        "none",           "cpu",    "network bandwidth", "network latency", "disk",
        "input pipeline", "memory", "synchronisation",   "straggler",       "parameter server",
        "contention"};
    return names[kind];
}

/* ---- numbers */

/* Lists the known ones. */
static void list_numbers(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const yk_usage *u = e->usage;
    const yk_worker_evidence *slow = f->slowest >= 0 ? &e->measured[f->slowest] : NULL;
    const yk_server_evidence *server = f->server >= 0 ? &e->server[f->server] : NULL;
    const double nan = (double)NAN;
    const struct yk_verdict_number list[] = {
        {"step_seconds", f->step},
        {"examples_per_second", f->rate},
        {"waiting_for_input", f->share[YK_PHASE_INPUT]},
        {"computing", f->share[YK_PHASE_COMPUTE] + f->share[YK_PHASE_APPLY]},
        {"waiting_for_workers", f->share[YK_PHASE_WORKERS]},
        {"waiting_for_messages", e->ranks > 1 ? f->messages : nan},
        {"cores", u ? f->cores : nan},
        {"threads", u ? f->threads : nan},
        {"cpu", u ? f->cpu : nan},
        {"cpu_of_others", u ? f->others : nan},
        {"without_a_core", u ? f->delayed : nan},
        {"disk_busy", u ? u->disk_busy.mean : nan},
        {"memory_stall", u ? u->memory_stall.mean : nan},
        {"bytes_per_step", e->ranks > 1 && f->bytes_per_step > 0.0 ? f->bytes_per_step : nan},
        {"link_bytes_per_second", f->link.host ? f->link.link.highest : nan},
        {"link_bytes_carried_per_second", f->link.host ? f->link.link.carried : nan},
        {"round_trips_per_step", f->several_hosts ? e->round_trips : nan},
        {"round_trip_seconds", f->several_hosts ? e->round_trip : nan},
        {"server_busy", server ? server->busy : nan},
        {"slowest_worker", slow ? (slow->worker < 0 ? slow->rank : slow->worker) : nan},
        {"slowest_factor", slow ? f->slowest_factor : nan},
        {"slowest_came_last", slow ? f->slowest_last : nan},
        {"slowest_stopped", slow ? slow->stopped : nan}};
    _Static_assert(sizeof list / sizeof *list <= YK_MAX_NUMBERS, "YK_MAX_NUMBERS");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (isfinite(list[i].value))
            v->number[v->nnumbers++] = list[i];
}

/* ---- the verdict */

/* Share of the workers' time that other programs take from them. A worker without a core may also wait for another worker of
 * this run. Only the cores that this run would get without the other programs are lost to them.
 *
 *     2 cores   | this run | others   |    1 thread of this run waits for a core:                        lost: 1 of 2 cores
 *     2 cores   | this run | this run |    6 more threads of this run wait, and would get no more cores: nothing is lost */
static double taken_by_others(const yk__facts *f)
{
    if (!(f->waiting > 0.0)) /* the kernel does not report it */
        return f->others / f->host_cores;
    const double lost = fmin(f->waiting, fmin(fmax(f->run_cores - f->cpu, 0.0), f->others)); /* cores */
    /* share of the time that threads need one, or wait at a barrier for a thread that has none because of other programs */
    const double barriers = f->others > f->cpu ? f->share[YK_PHASE_WORKERS] : 0.0,
                 wanted = fmin((f->cpu + f->waiting) / f->threads + barriers, 1.0);
    return wanted * lost / fmax(f->cpu + lost, 1e-9);
}

/* The share of the time that runnable workers lose because other programs use the cores; 0: more is lost to something else. */
static double competition(const yk__facts *f)
{
    const double full = f->host_cores > 0.0 ? f->cpu_host / f->host_cores : 0.0;
    if (f->others < fmax(0.2, 0.05 * f->host_cores) || full < 0.8)
        return 0.0;
    const bool slower = f->slowest >= 0 && (f->slowest_on_core > much_slower || f->slowest_halted > 0.0);
    if (f->several_hosts && slower) /* a host that is slower than the others is named */
        return 0.0;
    /* A worker that polls for a message loses nothing without a core. A worker that waits for another one waits for a worker
     * without a core, unless that is a straggler: other programs slow all workers down alike. */
    double polling =
        f->waste[YK_VERDICT_BANDWIDTH] + f->waste[YK_VERDICT_LATENCY] + f->waste[YK_VERDICT_SERVER];
    if ((f->slowest >= 0 && f->slowest_on_core > much_slower) || f->stopped >= 0)
        polling += f->waste[YK_VERDICT_STRAGGLER];
    const double lost = taken_by_others(f) * fmax(1.0 - polling, 0.0);
    const double elsewhere = fmax(fmax(polling, f->waste[YK_VERDICT_INPUT]), f->waste[YK_VERDICT_DISK]);
    return lost >= 0.1 && lost >= elsewhere ? lost : 0.0;
}

static yk_verdict_kind largest_waste(const yk__facts *f)
{
    yk_verdict_kind max = YK_VERDICT_NONE;
    for (int k = YK_VERDICT_NONE + 1; k < YK_VERDICT_KINDS; k++)
        if (k != YK_VERDICT_MEMORY && f->waste[k] > f->waste[max])
            max = (yk_verdict_kind)k;
    const double min = max == YK_VERDICT_STRAGGLER && !f->e->synchronous ? 0.1 : yk__significant;
    return f->waste[max] >= min ? max : YK_VERDICT_NONE;
}

/* Whether too few cores explain the lost time better than `other` does. With too few cores, workers wait for each other and
 * for messages as well. */
static bool is_oversubscribed(const yk__facts *f, yk_verdict_kind other)
{
    const double lost = f->waste[other];
    if (f->oversubscribed < yk__significant)
        return false;
    if (other == YK_VERDICT_INPUT || other == YK_VERDICT_DISK)
        return f->oversubscribed > lost;
    if (other == YK_VERDICT_STRAGGLER)
        return f->stopped < 0 && f->slowest_factor < much_slower;
    if (other == YK_VERDICT_SERVER) /* it has a core of its own, and is busy all the time */
        return lost < 0.5 || f->e->server[f->server].cpu < 0.6;
    return other != YK_VERDICT_BANDWIDTH && other != YK_VERDICT_LATENCY;
}

static yk__cause set(yk_verdict *v, yk_verdict_kind kind, double share, yk__cause cause)
{
    v->kind = kind;
    v->share = share;
    return cause;
}

static yk__cause conclude(const yk__facts *f, yk_verdict *v)
{
    const double *s = f->share, working = s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] + s[YK_PHASE_EVAL],
                 taken = competition(f);
    const yk_verdict_kind max = largest_waste(f);
    if (f->e->seconds < min_seconds || f->steps < MIN_STEPS)
        return set(v, YK_VERDICT_NONE, 0.0, YK__TOO_SHORT);
    if (f->waste[YK_VERDICT_MEMORY] >= yk__significant)
        return set(v, YK_VERDICT_MEMORY, f->waste[YK_VERDICT_MEMORY], YK__MEMORY_PRESSURE);
    if (taken > 0.0)
        return set(v, YK_VERDICT_CPU, taken, YK__COMPETITION);
    if (is_oversubscribed(f, max))
        return set(v, YK_VERDICT_CPU, f->oversubscribed, YK__OVERSUBSCRIBED);
    if (max != YK_VERDICT_NONE)
        return set(v, max, f->waste[max], YK__LOST_TIME);
    if (working < 0.5)
        return set(v, YK_VERDICT_NONE, 0.0, YK__NOTHING);
    /* in one process, parameters and sending are its work as well */
    const double also = f->e->ranks <= 1 ? s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING] : 0.0;
    return set(v, YK_VERDICT_CPU, working + also, YK__COMPUTING);
}

/* The host that is to blame. */
static const char *host_of(const yk__facts *f, yk_verdict_kind kind)
{
    const yk_evidence *e = f->e;
    if (kind == YK_VERDICT_BANDWIDTH)
        return f->link.slow ? f->link.host : NULL;
    if (kind == YK_VERDICT_SERVER && f->server >= 0)
        return e->server[f->server].host;
    if (kind != YK_VERDICT_STRAGGLER)
        return NULL;
    return f->slowest >= 0 ? e->measured[f->slowest].host : e->server[f->stopped].host;
}

void yk_verdict_find(const yk_evidence *e, yk_verdict *out)
{
    yk__facts f;
    *out = (yk_verdict){0};
    yk__verdict_facts(e, &f);
    const yk__cause cause = conclude(&f, out);
    const char *host = host_of(&f, out->kind);
    snprintf(out->host, sizeof out->host, "%s", host ? host : "");
    yk__verdict_describe(&f, cause, out);
    list_numbers(&f, out);
}
