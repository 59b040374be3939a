#include "watch/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double worth_saying =
    0.2; /* of the time: what is lost below that is not what holds a run back */
static const double least_seconds = 0.1; /* below, nothing can be said */
static const double large_step = 1e5; /* bytes: where nothing is known of the links, more than that is much */
static const double tiny_step = 5e-5; /* seconds */
enum { LEAST_STEPS = 4 };

const char *yk_verdict_name(yk_verdict_kind kind)
{
    static const char *const names[YK_VERDICT_KINDS] = {
        "none",           "cpu",    "network bandwidth", "network latency", "disk",
        "input pipeline", "memory", "synchronisation",   "straggler"};
    return names[kind];
}

/* ---- what the numbers say, before anything is concluded */

typedef struct {
    const yk_evidence *e;
    double share[YK_PHASES];
    double waste[YK_VERDICT_KINDS]; /* shares that would be lost to each kind */
    double step;                    /* seconds of a worker's step */
    double steps, rate;             /* of a worker, in all; examples per second of all */
    double cpu, cpu_host, others;   /* cores: ours, all, others' */
    double cores, host_cores, free; /* that we may use; there are; are idle and ours */
    double delayed;                 /* share of the workers' time in which they had no core */
    bool tiny;                      /* steps that consist of getting together */
    int slowest;                    /* witness, -1: none stands out */
    double slowest_factor, slowest_last;
} facts;

void yk_verdict_shares(const yk_witness *w, int n, double share_out[YK_PHASES])
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

static double known(double x, double otherwise)
{
    return isfinite(x) ? x : otherwise;
}

/* Seconds of a step in which a worker did not wait for the others. */
static double busy_step(const yk_witness *w)
{
    const yk_phases_look *l = &w->look;
    const double busy =
        l->seconds - l->phase[YK_PHASE_WORKERS] - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT];
    return l->steps ? busy / (double)l->steps : 0.0;
}

/* Is there one for whom all others wait? */
static void find_slowest(facts *f)
{
    const yk_evidence *e = f->e;
    f->slowest = -1;
    if (e->nwitnesses < 2)
        return;
    int slow = 0;
    double others = 0.0, waited = 0.0;
    for (int i = 1; i < e->nwitnesses; i++)
        if (busy_step(&e->witness[i]) > busy_step(&e->witness[slow]))
            slow = i;
    for (int i = 0; i < e->nwitnesses; i++) {
        const yk_phases_look *l = &e->witness[i].look;
        if (i == slow || !(l->seconds > 0.0))
            continue;
        others += busy_step(&e->witness[i]) / (e->nwitnesses - 1);
        waited += l->phase[YK_PHASE_WORKERS] / l->seconds / (e->nwitnesses - 1);
    }
    const yk_phases_look *l = &e->witness[slow].look;
    const double own = l->seconds > 0.0 ? l->phase[YK_PHASE_WORKERS] / l->seconds : 0.0;
    const double last = l->meetings ? (double)l->last / (double)l->meetings : 1.0;
    const double factor = others > 0.0 ? busy_step(&e->witness[slow]) / others : 0.0;
    if (factor > 1.25 && waited - own > 0.1 && last > (e->nwitnesses == 2 ? 0.7 : 0.5)) {
        f->slowest = slow;
        f->slowest_factor = factor;
        f->slowest_last = last;
    }
}

static void gather(const yk_evidence *e, facts *f)
{
    const yk_usage none = {0}, *u = e->usage ? e->usage : &none;
    *f = (facts){.e = e};
    yk_verdict_shares(e->witness, e->nwitnesses, f->share);
    double seconds = 0.0, examples = 0.0;
    for (int i = 0; i < e->nwitnesses; i++) {
        const yk_phases_look *l = &e->witness[i].look;
        f->steps += (double)l->steps / e->nwitnesses;
        seconds += (l->seconds - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT]) / e->nwitnesses;
        examples += (double)l->examples;
    }
    f->step = f->steps > 0.0 ? seconds / f->steps : 0.0;
    f->rate = seconds > 0.0 ? examples / seconds : 0.0;
    f->cores = known(u->cores, 0.0);
    f->host_cores = known(u->host_cores, f->cores);
    f->cpu = known(u->cpu.mean, 0.0);
    f->cpu_host = fmax(known(u->cpu_host.mean, f->cpu), f->cpu);
    f->others = f->cpu_host - f->cpu;
    f->free = fmax(0.0, fmin(f->cores - f->cpu, f->host_cores - f->cpu_host));
    const double threads =
        (double)(e->host_workers ? e->host_workers : e->workers) * (e->threads > 1 ? e->threads : 1);
    f->delayed = fmin(known(u->delayed.mean, 0.0) / fmax(threads, 1.0), 1.0);
    find_slowest(f);

    const double *s = f->share;
    const double input = s[YK_PHASE_INPUT], waiting = s[YK_PHASE_WORKERS];
    f->waste[known(u->disk_busy.mean, 0.0) > 0.7 && e->streamed ? YK_VERDICT_DISK : YK_VERDICT_INPUT] = input;
    f->waste[YK_VERDICT_DISK] = fmax(f->waste[YK_VERDICT_DISK], s[YK_PHASE_CHECKPOINT]);
    f->waste[f->slowest >= 0 ? YK_VERDICT_STRAGGLER : YK_VERDICT_SYNC] = waiting;
    f->tiny = e->in_step && e->workers > 1 && f->step < tiny_step && s[YK_PHASE_COMPUTE] < 0.4;
    if (f->tiny) /* what it takes to get together: waiting, and reading what the others have written */
        f->waste[YK_VERDICT_SYNC] = waiting + s[YK_PHASE_APPLY] + s[YK_PHASE_OTHER];
    if (e->ranks > 1) {
        const double transfer = e->link_rate > 0.0 ? e->bytes_per_step / e->link_rate : 0.0,
                     answers = e->round_trips * e->round_trip;
        const bool full = known(u->net_busy.mean, 0.0) > 0.7 || transfer > answers ||
                          (transfer + answers <= 0.0 && e->bytes_per_step > large_step);
        f->waste[full ? YK_VERDICT_BANDWIDTH : YK_VERDICT_LATENCY] =
            s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING];
    }
    const double stall = known(u->memory_stall.mean, 0.0), faults = known(u->major_faults.mean, 0.0) * 1e-4;
    f->waste[YK_VERDICT_MEMORY] = fmin(fmax(stall, faults), 1.0); /* a page from a disk: 0.1 ms at best */
}

/* ---- estimates: rough, from how the time divides */

/* Examples per second with one more worker, as a multiple. */
static double with_one_more(const facts *f, yk_verdict_kind kind)
{
    const yk_evidence *e = f->e;
    const double n = e->workers, threads = e->threads > 1 ? e->threads : 1;
    double room = e->ranks > 1 ? 1.0 : fmin(f->free / threads, 1.0); /* another rank brings its own cores */
    if (kind == YK_VERDICT_BANDWIDTH || kind == YK_VERDICT_DISK)
        room = 0.0; /* what is shared and full does not grow */
    double more = (n + room) / n;
    if (e->in_step) {
        const double tiny = 3e-6; /* two meetings of two threads */
        const double wait = n > 1.0 ? f->share[YK_PHASE_WORKERS] / n : f->step > 0.0 ? tiny / f->step : 0.0;
        more /= 1.0 + wait;
    }
    return fmax(more, room > 0.0 ? 0.5 : 0.1);
}

static double with_twice_the_batch(const facts *f)
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
static double with_async(const facts *f)
{
    const yk_evidence *e = f->e;
    double together = 0.0, slowest = 0.0;
    for (int i = 0; i < e->nwitnesses; i++) {
        const double busy = busy_step(&e->witness[i]);
        together += busy > 0.0 ? 1.0 / busy : 0.0;
        slowest = fmax(slowest, f->step);
    }
    return e->nwitnesses && slowest > 0.0 ? fmax(together * slowest / e->nwitnesses, 1.0) : 1.0;
}

static void estimate(const facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    v->estimate[v->nestimates].change = "one more worker";
    v->estimate[v->nestimates++].speedup = with_one_more(f, v->kind);
    v->estimate[v->nestimates].change = "twice the batch";
    v->estimate[v->nestimates++].speedup = with_twice_the_batch(f);
    if (e->in_step && e->workers > 1) {
        v->estimate[v->nestimates].change = "asynchronous";
        v->estimate[v->nestimates++].speedup = with_async(f);
    }
}

/* ---- words */

static void say(yk_verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(yk_verdict *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = snprintf(v->text, sizeof v->text, "%s: ", yk_verdict_name(v->kind));
    vsnprintf(v->text + n, sizeof v->text - (size_t)n, format, args);
    va_end(args);
}

static void advise(yk_verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void advise(yk_verdict *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(v->advice, sizeof v->advice, format, args);
    va_end(args);
}

/* "12 us", "3.4 ms", "1.2 s" */
static const char *duration(double seconds, char out[24])
{
    if (seconds < 1e-3)
        snprintf(out, 24, "%.3g us", seconds * 1e6);
    else if (seconds < 1.0)
        snprintf(out, 24, "%.3g ms", seconds * 1e3);
    else
        snprintf(out, 24, "%.3g s", seconds);
    return out;
}

static void who(const yk_witness *w, int ranks, char out[48])
{
    if (ranks > 1 && w->worker < 0)
        snprintf(out, 48, "rank %d", w->rank);
    else if (ranks > 1)
        snprintf(out, 48, "worker %d of rank %d", w->worker, w->rank);
    else
        snprintf(out, 48, "worker %d", w->worker);
}

static void say_cpu(const facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const double *s = f->share;
    const double evaluating = s[YK_PHASE_EVAL];
    const double computing = s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] +
                             (e->ranks > 1 ? 0.0 : s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING]);
    v->share = computing + evaluating;
    if (evaluating > computing)
        say(v, "testing takes %.0f %% of the time, training %.0f %%", 100.0 * evaluating, 100.0 * computing);
    else
        say(v, "computing takes %.0f %% of the workers' time; %.1f of %.3g cores are in use",
            100.0 * computing, f->cpu, f->cores);
    const int busy = e->workers * (e->threads > 1 ? e->threads : 1);
    if (evaluating > computing)
        advise(v, "test less often (--eval-every), or on less data");
    else if (e->ranks <= 1 && busy > f->cores && f->cores > 0.0 && f->delayed > 0.1)
        advise(v, "%d threads share %.3g cores: use fewer --workers%s", busy, f->cores,
               e->threads > 1 ? " or --threads" : "");
    else if (f->free >= 0.8 && e->network && e->workers == 1)
        advise(v, "%.1f cores are idle: use --threads %d or --workers %d", f->free,
               (e->threads > 1 ? e->threads : 1) + (int)(f->free + 0.2), e->workers + (int)(f->free + 0.2));
    else if (f->free >= 0.8)
        advise(v, "%.1f cores are idle: use --workers %d", f->free, e->workers + (int)(f->free + 0.2));
    else if (f->others >= 0.5 && f->cores - f->cpu >= 0.8)
        advise(v, "the cores that it does not use are busy with other programs (%.1f of them)", f->others);
    else
        advise(v, "every core works: it takes more or faster ones (another machine), or a smaller model");
}

static void say_competition(const facts *f, yk_verdict *v)
{
    say(v, "other programs use %.1f of %.3g cores and take %.0f %% of the workers' time from them", f->others,
        f->host_cores, 100.0 * v->share);
    advise(v, "stop the other programs or use another machine; what this run measured does not compare with "
              "others");
}

static void say_input(const facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    say(v, "%.0f %% of the time the workers waited for data, %.0f %% they computed", 100.0 * v->share,
        100.0 * f->share[YK_PHASE_COMPUTE]);
    if (v->kind == YK_VERDICT_DISK)
        advise(v,
               "the disk is busy %.0f %% of the time: copy the data to a faster one, or keep it in memory "
               "(--stream never)",
               100.0 * known(e->usage->disk_busy.mean, 0.0));
    else if (!e->streamed)
        advise(v, "the data is in memory: a larger --batch takes it in larger pieces");
    else if (f->free < 0.5)
        advise(v, "reading needs the cores that training needs: convert the data once (yoke data convert) to "
                  "a cache, which needs no decoding");
    else
        advise(v, "what brings the data is slow: keep it in memory (--stream never), convert it once to a "
                  "cache (yoke data convert), or copy it to a faster place");
}

static void say_saving(const facts *f, yk_verdict *v)
{
    say(v, "saving checkpoints takes %.0f %% of the time", 100.0 * f->share[YK_PHASE_CHECKPOINT]);
    advise(v, "save less often (--checkpoint-every), or to a faster disk (--out)");
}

static void say_network(const facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char trip[24];
    if (v->kind == YK_VERDICT_BANDWIDTH) {
        say(v, "%.0f %% of the time goes into moving %.3g MB per step and worker over links of %.3g MB/s",
            100.0 * v->share, e->bytes_per_step * 1e-6, e->link_rate * 1e-6);
        advise(v, "a larger --batch sends less per example; --local-steps sends less often; a faster link "
                  "helps as much as it is faster");
    } else {
        say(v,
            "%.0f %% of the time the workers waited for answers: %.1f round trips of %s in each step of "
            "%.3g KB",
            100.0 * v->share, e->round_trips, duration(e->round_trip, trip), e->bytes_per_step * 1e-3);
        advise(v, "a larger --batch, --local-steps, or --mode async make fewer or hidden trips");
    }
}

static void say_straggler(const facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char name[48], slow[24];
    const yk_witness *w = &e->witness[f->slowest];
    who(w, e->ranks, name);
    say(v,
        "%s needs %.1f times as long for a step as the others (%s), came last %.0f %% of the time, and the "
        "workers "
        "waited %.0f %% of theirs",
        name, f->slowest_factor, duration(busy_step(w), slow), 100.0 * f->slowest_last, 100.0 * v->share);
    advise(v, "look what else runs where %s is; or do not wait for it: --mode async%s", name,
           e->ranks > 1 ? ", or --quorum" : "");
}

static void say_sync(const facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char step[24];
    if (f->tiny)
        say(v, "getting together takes %.0f %% of the time, computing %.0f %%, in steps of %s",
            100.0 * v->share, 100.0 * f->share[YK_PHASE_COMPUTE], duration(f->step, step));
    else
        say(v, "%.0f %% of the time the workers waited for each other, at the end of steps of %s",
            100.0 * v->share, duration(f->step, step));
    const bool crowded = e->ranks <= 1 && f->cores > 0.0 && e->workers > f->cores;
    if (crowded)
        advise(v, "%d workers share %.3g cores: use --workers %d", e->workers, f->cores, (int)f->cores);
    else if (f->step < 1e-3)
        advise(v, "such steps are too short to meet after each: a larger --batch (now %llu), or --mode async",
               (unsigned long long)e->batch);
    else
        advise(v, "workers take turns being late: --staleness 1 or --mode async lets them go on");
}

static void say_memory(const facts *f, yk_verdict *v)
{
    const yk_usage *u = f->e->usage;
    say(v, "%.0f %% of the time somebody waited for memory; this run has %.3g of %.3g GB", 100.0 * v->share,
        u->memory.peak * 1e-9, u->memory_limit * 1e-9);
    advise(v, "use less (--stream always, a smaller --shuffle-mb or --batch), or a machine with more");
}

/* ---- numbers */

static void number(yk_verdict *v, const char *name, double value)
{
    if (!isfinite(value) || v->nnumbers == YK_MAX_NUMBERS)
        return;
    v->number[v->nnumbers].name = name;
    v->number[v->nnumbers++].value = value;
}

static void numbers(const facts *f, yk_verdict *v)
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
               e->witness[f->slowest].worker < 0 ? e->witness[f->slowest].rank
                                                 : e->witness[f->slowest].worker);
        number(v, "slowest_factor", f->slowest_factor);
        number(v, "slowest_came_last", f->slowest_last);
    }
}

/* ---- the verdict */

/* Workers that want a core and get none, while others use the processor. */
static double competition(const facts *f)
{
    const double full = f->host_cores > 0.0 ? f->cpu_host / f->host_cores : 0.0;
    if (f->others < 0.2 || full < 0.8)
        return 0.0;
    return f->delayed > 0.0 ? f->delayed : f->others / f->host_cores;
}

static yk_verdict_kind largest_waste(const facts *f)
{
    yk_verdict_kind most = YK_VERDICT_NONE;
    for (int k = YK_VERDICT_NONE + 1; k < YK_VERDICT_KINDS; k++)
        if (k != YK_VERDICT_MEMORY && f->waste[k] > f->waste[most])
            most = (yk_verdict_kind)k;
    return f->waste[most] >= worth_saying ? most : YK_VERDICT_NONE;
}

static void conclude(const facts *f, yk_verdict *v)
{
    const double working = f->share[YK_PHASE_COMPUTE] + f->share[YK_PHASE_APPLY] + f->share[YK_PHASE_EVAL];
    v->kind = YK_VERDICT_NONE;
    if (f->e->seconds < least_seconds || f->steps < LEAST_STEPS) {
        say(v, "the run was too short to tell (%.2g s, %.0f steps)", f->e->seconds, f->steps);
        return;
    }
    if (f->waste[YK_VERDICT_MEMORY] >= worth_saying) {
        v->kind = YK_VERDICT_MEMORY;
        v->share = f->waste[YK_VERDICT_MEMORY];
        say_memory(f, v);
        return;
    }
    if (competition(f) >= 0.1) {
        v->kind = YK_VERDICT_CPU;
        v->share = competition(f);
        say_competition(f, v);
        return;
    }
    v->kind = largest_waste(f);
    v->share = f->waste[v->kind];
    if (v->kind == YK_VERDICT_DISK && f->share[YK_PHASE_CHECKPOINT] >= f->share[YK_PHASE_INPUT])
        say_saving(f, v);
    else if (v->kind == YK_VERDICT_INPUT || v->kind == YK_VERDICT_DISK)
        say_input(f, v);
    else if (v->kind == YK_VERDICT_BANDWIDTH || v->kind == YK_VERDICT_LATENCY)
        say_network(f, v);
    else if (v->kind == YK_VERDICT_STRAGGLER)
        say_straggler(f, v);
    else if (v->kind == YK_VERDICT_SYNC)
        say_sync(f, v);
    else if (working >= 0.5) {
        v->kind = YK_VERDICT_CPU;
        say_cpu(f, v);
    } else {
        say(v, "nothing stands out: %.0f %% computing, %.0f %% waiting for data, %.0f %% for each other",
            100.0 * working, 100.0 * f->share[YK_PHASE_INPUT], 100.0 * f->share[YK_PHASE_WORKERS]);
    }
}

void yk_verdict_find(const yk_evidence *e, yk_verdict *out)
{
    facts f;
    *out = (yk_verdict){0};
    gather(e, &f);
    conclude(&f, out);
    if (out->kind == YK_VERDICT_NONE)
        snprintf(out->brief, sizeof out->brief, "%s", yk_verdict_name(out->kind));
    else
        snprintf(out->brief, sizeof out->brief, "%s %.0f %%", yk_verdict_name(out->kind), 100.0 * out->share);
    numbers(&f, out);
    if (e->seconds >= least_seconds && f.steps >= LEAST_STEPS)
        estimate(&f, out);
}
