#include "watch/verdict_internal.h"

#include <stdio.h>
#include <string.h>

static const double significant = 0.2;   /* share of the time: smaller losses are not the bottleneck */
static const double least_seconds = 0.1; /* shorter runs have no verdict */
static const double large_step = 1e5; /* bytes per step that suggest bandwidth if the link rate is unknown */
static const double tiny_step = 5e-5; /* seconds */
static const double slow_factor = 1.25; /* a straggler is slower than the others by this factor */
static const double much_slower = 2.0;  /* more than competition makes one of several workers slower */
enum { LEAST_STEPS = 4 };

const char *yk_verdict_name(yk_verdict_kind kind)
{
    static const char *const names[YK_VERDICT_KINDS] = {
        "none",           "cpu",    "network bandwidth", "network latency", "disk",
        "input pipeline", "memory", "synchronisation",   "straggler"};
    return names[kind];
}

/* ---- facts */

void yk_verdict_shares(const yk_worker_evidence *w, int n, double share_out[YK_PHASES])
{
    double total = 0.0;
    memset(share_out, 0, YK_PHASES * sizeof *share_out);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < YK_PHASES; k++) {
            share_out[k] += w[i].phases.phase[k];
            total += w[i].phases.phase[k];
        }
    for (int k = 0; total > 0.0 && k < YK_PHASES; k++)
        share_out[k] /= total;
}

/* Finds the worker for which all others wait. */
static void find_slowest(yk__facts *f)
{
    const yk_evidence *e = f->e;
    f->slowest = -1;
    if (e->nmeasured < 2)
        return;
    int slow = 0;
    double others = 0.0, waited = 0.0;
    for (int i = 1; i < e->nmeasured; i++)
        if (yk__busy_step(&e->measured[i]) > yk__busy_step(&e->measured[slow]))
            slow = i;
    for (int i = 0; i < e->nmeasured; i++) {
        const yk_phases_sample *l = &e->measured[i].phases;
        if (i == slow || !(l->seconds > 0.0))
            continue;
        others += yk__busy_step(&e->measured[i]) / (e->nmeasured - 1);
        waited += l->phase[YK_PHASE_WORKERS] / l->seconds / (e->nmeasured - 1);
    }
    const yk_phases_sample *l = &e->measured[slow].phases;
    const double own = l->seconds > 0.0 ? l->phase[YK_PHASE_WORKERS] / l->seconds : 0.0;
    const double last = l->barriers ? (double)l->last / (double)l->barriers : 1.0;
    const double factor = others > 0.0 ? yk__busy_step(&e->measured[slow]) / others : 0.0;
    if (factor > slow_factor && waited - own > 0.1 && last > (e->nmeasured == 2 ? 0.7 : 0.5)) {
        f->slowest = slow;
        f->slowest_factor = factor;
        f->slowest_last = last;
    }
}

static void find_facts(const yk_evidence *e, yk__facts *f)
{
    const yk_usage none = {0}, *u = e->usage ? e->usage : &none;
    *f = (yk__facts){.e = e};
    yk_verdict_shares(e->measured, e->nmeasured, f->share);
    double seconds = 0.0, examples = 0.0;
    for (int i = 0; i < e->nmeasured; i++) {
        const yk_phases_sample *l = &e->measured[i].phases;
        f->steps += (double)l->steps / e->nmeasured;
        seconds += (l->seconds - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT]) / e->nmeasured;
        examples += (double)l->examples;
    }
    f->step = f->steps > 0.0 ? seconds / f->steps : 0.0;
    f->rate = seconds > 0.0 ? examples / seconds : 0.0;
    f->cores = yk__known(u->cores, 0.0);
    f->host_cores = yk__known(u->host_cores, f->cores);
    f->cpu = yk__known(u->cpu.mean, 0.0);
    f->cpu_host = fmax(yk__known(u->cpu_host.mean, f->cpu), f->cpu);
    f->others = f->cpu_host - f->cpu;
    f->free = fmax(0.0, fmin(f->cores - f->cpu, f->host_cores - f->cpu_host));
    f->threads = (double)(e->host_workers ? e->host_workers : e->workers) * (e->threads > 1 ? e->threads : 1);
    f->threads = fmax(f->threads, 1.0);
    f->waiting = yk__known(u->delayed.mean, 0.0);
    f->delayed = fmin(f->waiting / f->threads, 1.0);
    find_slowest(f);

    const double *s = f->share;
    const double input = s[YK_PHASE_INPUT], waiting = s[YK_PHASE_WORKERS];
    f->waste[yk__known(u->disk_busy.mean, 0.0) > 0.7 && e->streamed ? YK_VERDICT_DISK : YK_VERDICT_INPUT] =
        input;
    f->waste[YK_VERDICT_DISK] = fmax(f->waste[YK_VERDICT_DISK], s[YK_PHASE_CHECKPOINT]);
    f->waste[f->slowest >= 0 ? YK_VERDICT_STRAGGLER : YK_VERDICT_SYNC] = waiting;
    f->tiny = e->synchronous && e->workers > 1 && f->step < tiny_step && s[YK_PHASE_COMPUTE] < 0.4;
    if (f->tiny) /* the cost of synchronization: waiting, and reading what the others wrote */
        f->waste[YK_VERDICT_SYNC] = waiting + s[YK_PHASE_APPLY] + s[YK_PHASE_OTHER];
    if (f->tiny && !e->streamed) { /* data in memory: choosing examples is a cost of each step as well */
        f->waste[YK_VERDICT_SYNC] += input;
        f->waste[YK_VERDICT_INPUT] = 0.0;
    }
    if (e->ranks > 1) {
        double messages = s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING];
        const double transfer = e->link_rate > 0.0 ? e->bytes_per_step / e->link_rate : 0.0,
                     answers = e->round_trips * e->round_trip, no_straggler = f->slowest >= 0 ? 0.0 : waiting;
        /* bandwidth: the bytes explain much of the waiting; small messages that take long are latency */
        const bool full = yk__known(u->net_busy.mean, 0.0) > 0.7 ||
                          (transfer > answers && transfer > 0.3 * messages * f->step) ||
                          (transfer + answers <= 0.0 && e->bytes_per_step > large_step);
        /* a worker that waits for another one also waits for the gradient that it sends first */
        if (full && transfer > 0.5 * (messages + waiting) * f->step) {
            messages += waiting;
            f->waste[YK_VERDICT_SYNC] = f->waste[YK_VERDICT_STRAGGLER] = 0.0;
        }
        const double explained = (transfer + answers) / fmax(f->step, 1e-9);
        if (full || transfer + answers <= 0.0 || explained > 0.25 * messages)
            f->waste[full ? YK_VERDICT_BANDWIDTH : YK_VERDICT_LATENCY] = messages;
        else if (f->host_cores > 0.0 && f->cpu_host > 0.85 * f->host_cores)
            f->oversubscribed = messages + no_straggler; /* the process that should answer has no core */
        else
            f->waste[YK_VERDICT_SYNC] = fmax(f->waste[YK_VERDICT_SYNC], messages + no_straggler);
    }
    const double stall = yk__known(u->memory_stall.mean, 0.0),
                 faults = yk__known(u->major_faults.mean, 0.0) * 1e-4;
    f->waste[YK_VERDICT_MEMORY] =
        fmin(fmax(stall, faults), 1.0); /* reading a page from disk takes at least 0.1 ms */
}

/* ---- rough estimates from the shares of the time */

/* The speedup, in examples per second, with one more worker. */
static double with_one_more(const yk__facts *f, yk_verdict_kind kind)
{
    const yk_evidence *e = f->e;
    const double n = e->workers, threads = e->threads > 1 ? e->threads : 1;
    double capacity = e->ranks > 1 ? 1.0 : fmin(f->free / threads, 1.0); /* another rank has its own cores */
    if (kind == YK_VERDICT_BANDWIDTH || kind == YK_VERDICT_DISK)
        capacity = 0.0; /* the bottleneck is shared by all workers */
    double more = (n + capacity) / n;
    if (e->synchronous) {
        const double tiny = 3e-6; /* two barriers of two threads */
        const double wait = n > 1.0 ? f->share[YK_PHASE_WORKERS] / n : f->step > 0.0 ? tiny / f->step : 0.0;
        more /= 1.0 + wait;
    }
    return fmax(more, capacity > 0.0 ? 0.5 : 0.1);
}

static double with_twice_the_batch(const yk__facts *f)
{
    const double *s = f->share;
    double once = s[YK_PHASE_WORKERS] + s[YK_PHASE_OTHER]; /* per step, independent of the batch */
    if (f->e->ranks > 1)
        once += s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING];
    if (f->slowest >= 0)
        once -= s[YK_PHASE_WORKERS]; /* the straggler takes twice as long as well */
    return 2.0 / (2.0 - fmin(fmax(once, 0.0), 1.0));
}

/* No worker waits for another one. */
static double with_async(const yk__facts *f)
{
    const yk_evidence *e = f->e;
    double together = 0.0, slowest = 0.0;
    for (int i = 0; i < e->nmeasured; i++) {
        const double busy = yk__busy_step(&e->measured[i]);
        together += busy > 0.0 ? 1.0 / busy : 0.0;
        slowest = fmax(slowest, f->step);
    }
    return e->nmeasured && slowest > 0.0 ? fmax(together * slowest / e->nmeasured, 1.0) : 1.0;
}

static void estimate(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    v->estimate[v->nestimates].change = "one more worker";
    v->estimate[v->nestimates++].speedup = with_one_more(f, v->kind);
    v->estimate[v->nestimates].change = "twice the batch";
    v->estimate[v->nestimates++].speedup = with_twice_the_batch(f);
    if (e->synchronous && e->workers > 1) {
        v->estimate[v->nestimates].change = "asynchronous";
        v->estimate[v->nestimates++].speedup = with_async(f);
    }
}

/* ---- numbers */

/* Lists the known ones. */
static void numbers(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const yk_usage *u = e->usage;
    const yk_worker_evidence *slow = f->slowest >= 0 ? &e->measured[f->slowest] : NULL;
    const bool several = e->ranks > 1;
    const double nan = (double)NAN;
    const struct {
        const char *name;
        double value;
    } list[] = {{"step_seconds", f->step},
                {"examples_per_second", f->rate},
                {"waiting_for_input", f->share[YK_PHASE_INPUT]},
                {"computing", f->share[YK_PHASE_COMPUTE] + f->share[YK_PHASE_APPLY]},
                {"waiting_for_workers", f->share[YK_PHASE_WORKERS]},
                {"cores", u ? f->cores : nan},
                {"cpu", u ? f->cpu : nan},
                {"cpu_of_others", u ? f->others : nan},
                {"without_a_core", u ? f->delayed : nan},
                {"disk_busy", u ? u->disk_busy.mean : nan},
                {"network_busy", u ? u->net_busy.mean : nan},
                {"memory_stall", u ? u->memory_stall.mean : nan},
                {"bytes_per_step", several ? e->bytes_per_step : nan},
                {"link_bytes_per_second", several ? e->link_rate : nan},
                {"round_trips_per_step", several ? e->round_trips : nan},
                {"round_trip_seconds", several ? e->round_trip : nan},
                {"slowest_worker", slow ? (slow->worker < 0 ? slow->rank : slow->worker) : nan},
                {"slowest_factor", slow ? f->slowest_factor : nan},
                {"slowest_came_last", slow ? f->slowest_last : nan}};
    _Static_assert(sizeof list / sizeof *list <= YK_MAX_NUMBERS, "YK_MAX_NUMBERS");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (isfinite(list[i].value)) {
            v->number[v->nnumbers].name = list[i].name;
            v->number[v->nnumbers++].value = list[i].value;
        }
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
    const double ours = f->e->ranks > 1 ? f->host_cores : f->cores; /* ranks may be pinned to a core each */
    const double lost = fmin(f->waiting, fmin(fmax(ours - f->cpu, 0.0), f->others)); /* cores */
    const double wanted =
        fmin((f->cpu + f->waiting) / f->threads, 1.0); /* share of the time that threads need one */
    return wanted * lost / fmax(f->cpu + lost, 1e-9);
}

/* The share of the time that runnable workers lose because other programs use the cores; 0: something else is lost more. */
static double competition(const yk__facts *f)
{
    const double full = f->host_cores > 0.0 ? f->cpu_host / f->host_cores : 0.0;
    if (f->others < 0.2 || full < 0.8)
        return 0.0;
    /* A worker that polls for a message loses nothing without a core. A worker that waits for another one waits for a worker
     * without a core, unless that is a straggler: other programs slow all workers down alike. */
    double polling = f->waste[YK_VERDICT_BANDWIDTH] + f->waste[YK_VERDICT_LATENCY];
    if (f->slowest >= 0 && f->slowest_factor > much_slower)
        polling += f->waste[YK_VERDICT_STRAGGLER];
    const double lost = taken_by_others(f) * fmax(1.0 - polling, 0.0);
    const double elsewhere = fmax(fmax(polling, f->waste[YK_VERDICT_INPUT]), f->waste[YK_VERDICT_DISK]);
    return lost >= 0.1 && lost >= elsewhere ? lost : 0.0;
}

static yk_verdict_kind largest_waste(const yk__facts *f)
{
    yk_verdict_kind most = YK_VERDICT_NONE;
    for (int k = YK_VERDICT_NONE + 1; k < YK_VERDICT_KINDS; k++)
        if (k != YK_VERDICT_MEMORY && f->waste[k] > f->waste[most])
            most = (yk_verdict_kind)k;
    return f->waste[most] >= significant ? most : YK_VERDICT_NONE;
}

static yk__cause conclude(const yk__facts *f, yk_verdict *v)
{
    const double working = f->share[YK_PHASE_COMPUTE] + f->share[YK_PHASE_APPLY] + f->share[YK_PHASE_EVAL];
    v->kind = YK_VERDICT_NONE;
    if (f->e->seconds < least_seconds || f->steps < LEAST_STEPS)
        return YK__TOO_SHORT;
    if (f->waste[YK_VERDICT_MEMORY] >= significant) {
        v->kind = YK_VERDICT_MEMORY;
        v->share = f->waste[YK_VERDICT_MEMORY];
        return YK__SHORT_OF_MEMORY;
    }
    if (competition(f) > 0.0) {
        v->kind = YK_VERDICT_CPU;
        v->share = competition(f);
        return YK__COMPETITION;
    }
    if (f->oversubscribed >= significant && f->oversubscribed > f->waste[largest_waste(f)]) {
        v->kind = YK_VERDICT_CPU;
        v->share = f->oversubscribed;
        return YK__OVERSUBSCRIBED;
    }
    v->kind = largest_waste(f);
    v->share = f->waste[v->kind];
    if (v->kind != YK_VERDICT_NONE)
        return YK__WASTE;
    if (working < 0.5)
        return YK__NOTHING;
    v->kind = YK_VERDICT_CPU;
    v->share = working;
    if (f->e->ranks <= 1) /* it is work of this process as well */
        v->share += f->share[YK_PHASE_PARAMETERS] + f->share[YK_PHASE_SENDING];
    return YK__WORK;
}

void yk_verdict_find(const yk_evidence *e, yk_verdict *out)
{
    yk__facts f;
    *out = (yk_verdict){0};
    find_facts(e, &f);
    yk__verdict_describe(&f, conclude(&f, out), out);
    if (out->kind == YK_VERDICT_NONE)
        snprintf(out->brief, sizeof out->brief, "%s", yk_verdict_name(out->kind));
    else
        snprintf(out->brief, sizeof out->brief, "%s %.0f %%", yk_verdict_name(out->kind), 100.0 * out->share);
    numbers(&f, out);
    if (e->seconds >= least_seconds && f.steps >= LEAST_STEPS)
        estimate(&f, out);
}
