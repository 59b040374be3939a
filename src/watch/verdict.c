#include "watch/verdict_internal.h"

#include <stdio.h>
#include <string.h>

static const double worth_saying =
    0.2; /* of the time: what is lost below that is not what holds a run back */
static const double least_seconds = 0.1; /* below, nothing can be said */
static const double large_step = 1e5; /* bytes: where nothing is known of the links, more than that is much */
static const double tiny_step = 5e-5; /* seconds */
static const double slow_factor = 1.25; /* times as long as the others: then it is the one they wait for */
static const double much_slower = 2.0;  /* than other programs make one of several workers */
enum { LEAST_STEPS = 4 };

const char *yk_verdict_name(yk_verdict_kind kind)
{
    static const char *const names[YK_VERDICT_KINDS] = {
        "none",           "cpu",    "network bandwidth", "network latency", "disk",
        "input pipeline", "memory", "synchronisation",   "straggler"};
    return names[kind];
}

/* ---- what the numbers say */

void yk_verdict_shares(const yk_worker_evidence *w, int n, double share_out[YK_PHASES])
{
    double total = 0.0;
    memset(share_out, 0, YK_PHASES * sizeof *share_out);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < YK_PHASES; k++) {
            share_out[k] += w[i].look.phase[k];
            total += w[i].look.phase[k];
        }
    for (int k = 0; total > 0.0 && k < YK_PHASES; k++)
        share_out[k] /= total;
}

/* Is there one for whom all others wait? */
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
        const yk_phases_sample *l = &e->measured[i].look;
        if (i == slow || !(l->seconds > 0.0))
            continue;
        others += yk__busy_step(&e->measured[i]) / (e->nmeasured - 1);
        waited += l->phase[YK_PHASE_WORKERS] / l->seconds / (e->nmeasured - 1);
    }
    const yk_phases_sample *l = &e->measured[slow].look;
    const double own = l->seconds > 0.0 ? l->phase[YK_PHASE_WORKERS] / l->seconds : 0.0;
    const double last = l->barriers ? (double)l->last / (double)l->barriers : 1.0;
    const double factor = others > 0.0 ? yk__busy_step(&e->measured[slow]) / others : 0.0;
    if (factor > slow_factor && waited - own > 0.1 && last > (e->nmeasured == 2 ? 0.7 : 0.5)) {
        f->slowest = slow;
        f->slowest_factor = factor;
        f->slowest_last = last;
    }
}

static void gather(const yk_evidence *e, yk__facts *f)
{
    const yk_usage none = {0}, *u = e->usage ? e->usage : &none;
    *f = (yk__facts){.e = e};
    yk_verdict_shares(e->measured, e->nmeasured, f->share);
    double seconds = 0.0, examples = 0.0;
    for (int i = 0; i < e->nmeasured; i++) {
        const yk_phases_sample *l = &e->measured[i].look;
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
    if (f->tiny) /* what it takes to get together: waiting, and reading what the others have written */
        f->waste[YK_VERDICT_SYNC] = waiting + s[YK_PHASE_APPLY] + s[YK_PHASE_OTHER];
    if (f->tiny &&
        !e->streamed) { /* nobody waits for data in memory: picking examples is a cost of each step, too */
        f->waste[YK_VERDICT_SYNC] += input;
        f->waste[YK_VERDICT_INPUT] = 0.0;
    }
    if (e->ranks > 1) {
        double under_way = s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING];
        const double transfer = e->link_rate > 0.0 ? e->bytes_per_step / e->link_rate : 0.0,
                     answers = e->round_trips * e->round_trip,
                     in_turn = f->slowest >= 0 ? 0.0 : waiting; /* else it is that one's fault */
        /* the bytes must explain a good part of the waiting; small messages that take long are latency */
        const bool full = yk__known(u->net_busy.mean, 0.0) > 0.7 ||
                          (transfer > answers && transfer > 0.3 * under_way * f->step) ||
                          (transfer + answers <= 0.0 && e->bytes_per_step > large_step);
        /* who waits for another's word waits for its gradient, too, which is before it in the line */
        if (full && transfer > 0.5 * (under_way + waiting) * f->step) {
            under_way += waiting;
            f->waste[YK_VERDICT_SYNC] = f->waste[YK_VERDICT_STRAGGLER] = 0.0;
        }
        const double explained = (transfer + answers) / fmax(f->step, 1e-9);
        if (full || transfer + answers <= 0.0 || explained > 0.25 * under_way)
            f->waste[full ? YK_VERDICT_BANDWIDTH : YK_VERDICT_LATENCY] = under_way;
        else if (f->host_cores > 0.0 && f->cpu_host > 0.85 * f->host_cores)
            f->crowded = under_way + in_turn; /* whoever should answer has no core */
        else
            f->waste[YK_VERDICT_SYNC] = fmax(f->waste[YK_VERDICT_SYNC], under_way + in_turn);
    }
    const double stall = yk__known(u->memory_stall.mean, 0.0),
                 faults = yk__known(u->major_faults.mean, 0.0) * 1e-4;
    f->waste[YK_VERDICT_MEMORY] = fmin(fmax(stall, faults), 1.0); /* a page from a disk: 0.1 ms at best */
}

/* ---- estimates: rough, from how the time divides */

/* Examples per second with one more worker, as a multiple. */
static double with_one_more(const yk__facts *f, yk_verdict_kind kind)
{
    const yk_evidence *e = f->e;
    const double n = e->workers, threads = e->threads > 1 ? e->threads : 1;
    double room = e->ranks > 1 ? 1.0 : fmin(f->free / threads, 1.0); /* another rank brings its own cores */
    if (kind == YK_VERDICT_BANDWIDTH || kind == YK_VERDICT_DISK)
        room = 0.0; /* what is shared and full does not grow */
    double more = (n + room) / n;
    if (e->synchronous) {
        const double tiny = 3e-6; /* two barriers of two threads */
        const double wait = n > 1.0 ? f->share[YK_PHASE_WORKERS] / n : f->step > 0.0 ? tiny / f->step : 0.0;
        more /= 1.0 + wait;
    }
    return fmax(more, room > 0.0 ? 0.5 : 0.1);
}

static double with_twice_the_batch(const yk__facts *f)
{
    const double *s = f->share;
    double once = s[YK_PHASE_WORKERS] + s[YK_PHASE_OTHER]; /* per step, however many examples it has */
    if (f->e->ranks > 1)
        once += s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING];
    if (f->slowest >= 0)
        once -= s[YK_PHASE_WORKERS]; /* the slow one takes twice as long, too */
    return 2.0 / (2.0 - fmin(fmax(once, 0.0), 1.0));
}

/* Nobody waits: each worker goes at its own pace. */
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

static void number(yk_verdict *v, const char *name, double value)
{
    if (!isfinite(value) || v->nnumbers == YK_MAX_NUMBERS)
        return;
    v->number[v->nnumbers].name = name;
    v->number[v->nnumbers++].value = value;
}

static void numbers(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    number(v, "step_seconds", f->step);
    number(v, "examples_per_second", f->rate);
    number(v, "waiting_for_input", f->share[YK_PHASE_INPUT]);
    number(v, "computing", f->share[YK_PHASE_COMPUTE] + f->share[YK_PHASE_APPLY]);
    number(v, "waiting_for_workers", f->share[YK_PHASE_WORKERS]);
    if (e->usage) {
        number(v, "cores", f->cores);
        number(v, "cpu", f->cpu);
        number(v, "cpu_of_others", f->others);
        number(v, "without_a_core", f->delayed);
        number(v, "disk_busy", e->usage->disk_busy.mean);
        number(v, "network_busy", e->usage->net_busy.mean);
        number(v, "memory_stall", e->usage->memory_stall.mean);
    }
    if (e->ranks > 1) {
        number(v, "bytes_per_step", e->bytes_per_step);
        number(v, "link_bytes_per_second", e->link_rate);
        number(v, "round_trips_per_step", e->round_trips);
        number(v, "round_trip_seconds", e->round_trip);
    }
    if (f->slowest >= 0) {
        number(v, "slowest_worker",
               e->measured[f->slowest].worker < 0 ? e->measured[f->slowest].rank
                                                  : e->measured[f->slowest].worker);
        number(v, "slowest_factor", f->slowest_factor);
        number(v, "slowest_came_last", f->slowest_last);
    }
}

/* ---- the verdict */

/* Share of the workers' time that others' use of the processor takes from them. Who has no core waits for whoever has it,
 * and that may be another worker of ours: only what we would get if the others were not there is lost to them.
 *
 *     2 cores   | us | others |      ours wait for 1 core and would get it:        lost 1 of 2 cores
 *     2 cores   | us | us     | and 6 more of ours wait: alone we would not get more, and nothing is lost to others  */
static double taken_by_others(const yk__facts *f)
{
    if (!(f->waiting > 0.0)) /* the kernel does not tell */
        return f->others / f->host_cores;
    const double ours = f->e->ranks > 1 ? f->host_cores : f->cores; /* ranks may be pinned to a core each */
    const double lost = fmin(f->waiting, fmin(fmax(ours - f->cpu, 0.0), f->others)); /* cores */
    const double wanted = fmin((f->cpu + f->waiting) / f->threads, 1.0); /* share of the time they want one */
    return wanted * lost / fmax(f->cpu + lost, 1e-9);
}

/* Workers that want a core and get none, while others use the processor: how much they lose; 0: that is not what matters. */
static double competition(const yk__facts *f)
{
    const double full = f->host_cores > 0.0 ? f->cpu_host / f->host_cores : 0.0;
    if (f->others < 0.2 || full < 0.8)
        return 0.0;
    /* who waits for a message polls, and has nothing to lose while it does; who waits for another worker waits for one that
     * has no core, unless that one is always much slower than the rest, from whom the others take as much */
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
    return f->waste[most] >= worth_saying ? most : YK_VERDICT_NONE;
}

static yk__cause conclude(const yk__facts *f, yk_verdict *v)
{
    const double working = f->share[YK_PHASE_COMPUTE] + f->share[YK_PHASE_APPLY] + f->share[YK_PHASE_EVAL];
    v->kind = YK_VERDICT_NONE;
    if (f->e->seconds < least_seconds || f->steps < LEAST_STEPS)
        return YK__TOO_SHORT;
    if (f->waste[YK_VERDICT_MEMORY] >= worth_saying) {
        v->kind = YK_VERDICT_MEMORY;
        v->share = f->waste[YK_VERDICT_MEMORY];
        return YK__SHORT_OF_MEMORY;
    }
    if (competition(f) > 0.0) {
        v->kind = YK_VERDICT_CPU;
        v->share = competition(f);
        return YK__COMPETITION;
    }
    if (f->crowded >= worth_saying && f->crowded > f->waste[largest_waste(f)]) {
        v->kind = YK_VERDICT_CPU;
        v->share = f->crowded;
        return YK__CROWDED;
    }
    v->kind = largest_waste(f);
    v->share = f->waste[v->kind];
    if (v->kind != YK_VERDICT_NONE)
        return YK__WASTE;
    if (working < 0.5)
        return YK__NOTHING;
    v->kind = YK_VERDICT_CPU;
    v->share = working;
    if (f->e->ranks <= 1) /* all of it is work of this process */
        v->share += f->share[YK_PHASE_PARAMETERS] + f->share[YK_PHASE_SENDING];
    return YK__WORK;
}

void yk_verdict_find(const yk_evidence *e, yk_verdict *out)
{
    yk__facts f;
    *out = (yk_verdict){0};
    gather(e, &f);
    yk__verdict_words(&f, conclude(&f, out), out);
    if (out->kind == YK_VERDICT_NONE)
        snprintf(out->brief, sizeof out->brief, "%s", yk_verdict_name(out->kind));
    else
        snprintf(out->brief, sizeof out->brief, "%s %.0f %%", yk_verdict_name(out->kind), 100.0 * out->share);
    numbers(&f, out);
    if (e->seconds >= least_seconds && f.steps >= LEAST_STEPS)
        estimate(&f, out);
}
