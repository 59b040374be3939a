#include "watch/verdict_internal.h"

#include <stdarg.h>
#include <stdio.h>

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

static void who(const yk_worker_evidence *w, int ranks, char out[48])
{
    if (ranks > 1 && w->worker < 0)
        snprintf(out, 48, "rank %d", w->rank);
    else if (ranks > 1)
        snprintf(out, 48, "worker %d of rank %d", w->worker, w->rank);
    else
        snprintf(out, 48, "worker %d", w->worker);
}

static void say_cpu(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const double *s = f->share;
    const double evaluating = s[YK_PHASE_EVAL];
    const double computing = s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] +
                             (e->ranks > 1 ? 0.0 : s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING]);
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

static void say_competition(const yk__facts *f, yk_verdict *v)
{
    say(v, "other programs use %.1f of %.3g cores and take %.0f %% of the workers' time from them", f->others,
        f->host_cores, 100.0 * v->share);
    advise(v, "stop the other programs or use another machine; what this run measured does not compare with "
              "others");
}

static void say_crowded(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    say(v,
        "%.0f %% of the time the workers waited for processes that had no core: %d processes share %.3g "
        "cores, of which "
        "%.1f are used by other programs",
        100.0 * v->share, e->ranks, f->host_cores, f->others);
    advise(v, "use fewer processes on this machine (one or two a core), or more machines");
}

static void say_input(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    say(v, "%.0f %% of the time the workers waited for data, %.0f %% they computed", 100.0 * v->share,
        100.0 * f->share[YK_PHASE_COMPUTE]);
    if (v->kind == YK_VERDICT_DISK)
        advise(v,
               "the disk is busy %.0f %% of the time: copy the data to a faster one, or keep it in memory "
               "(--stream never)",
               100.0 * yk__known(e->usage->disk_busy.mean, 0.0));
    else if (!e->streamed)
        advise(v, "the data is in memory: a larger --batch takes it in larger pieces");
    else if (f->free < 0.5)
        advise(v, "reading needs the cores that training needs: convert the data once (yoke data convert) to "
                  "a cache, which needs no decoding");
    else
        advise(v, "what brings the data is slow: keep it in memory (--stream never), convert it once to a "
                  "cache (yoke data convert), or copy it to a faster place");
}

static void say_saving(const yk__facts *f, yk_verdict *v)
{
    say(v, "saving checkpoints takes %.0f %% of the time", 100.0 * f->share[YK_PHASE_CHECKPOINT]);
    advise(v, "save less often (--checkpoint-every), or to a faster disk (--out)");
}

static void say_network(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char trip[24];
    if (v->kind == YK_VERDICT_BANDWIDTH) {
        say(v, "%.0f %% of the time goes into moving %.3g MB per step and worker over links of %.3g MB/s",
            100.0 * v->share, e->bytes_per_step * 1e-6, e->link_rate * 1e-6);
        advise(v, "a larger --batch sends less per example; --local-steps sends less often; a faster link "
                  "helps as much as it is faster");
    } else {
        duration(e->round_trip, trip);
        if (e->round_trips < 1.0)
            say(v,
                "%.0f %% of the time the workers waited for answers: a round trip of %s every %.0f steps of "
                "%.3g KB",
                100.0 * v->share, trip, 1.0 / e->round_trips, e->bytes_per_step * 1e-3);
        else
            say(v,
                "%.0f %% of the time the workers waited for answers: %.1f round trips of %s in each step of "
                "%.3g KB",
                100.0 * v->share, e->round_trips, trip, e->bytes_per_step * 1e-3);
        advise(v,
               e->synchronous
                   ? "a larger --batch, %s--local-steps, or --mode async make fewer or hidden trips"
                   : "a larger --batch or %s--local-steps make fewer trips",
               e->round_trips < 1.0 ? "more " : "");
    }
}

static void say_straggler(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char name[48], slow[24];
    const yk_worker_evidence *w = &e->measured[f->slowest];
    who(w, e->ranks, name);
    say(v,
        "%s needs %.1f times as long for a step as the others (%s), came last %.0f %% of the time, and the "
        "workers "
        "waited %.0f %% of theirs",
        name, f->slowest_factor, duration(yk__busy_step(w), slow), 100.0 * f->slowest_last, 100.0 * v->share);
    advise(v, "look what else runs where %s is; or do not wait for it: --mode async%s", name,
           e->ranks > 1 ? ", or --quorum" : "");
}

static void say_sync(const yk__facts *f, yk_verdict *v)
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

static void say_memory(const yk__facts *f, yk_verdict *v)
{
    const yk_usage *u = f->e->usage;
    say(v, "%.0f %% of the time somebody waited for memory; this run has %.3g of %.3g GB", 100.0 * v->share,
        u->memory.peak * 1e-9, u->memory_limit * 1e-9);
    advise(v, "use less (--stream always, a smaller --shuffle-mb or --batch), or a machine with more");
}

void yk__verdict_words(const yk__facts *f, yk__cause cause, yk_verdict *v)
{
    const double *s = f->share;
    if (cause == YK__TOO_SHORT)
        say(v, "the run was too short to tell (%.2g s, %.0f steps)", f->e->seconds, f->steps);
    else if (cause == YK__NOTHING)
        say(v, "nothing stands out: %.0f %% computing, %.0f %% waiting for data, %.0f %% for each other",
            100.0 * (s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] + s[YK_PHASE_EVAL]), 100.0 * s[YK_PHASE_INPUT],
            100.0 * s[YK_PHASE_WORKERS]);
    else if (cause == YK__SHORT_OF_MEMORY)
        say_memory(f, v);
    else if (cause == YK__CROWDED)
        say_crowded(f, v);
    else if (cause == YK__COMPETITION)
        say_competition(f, v);
    else if (cause == YK__WORK)
        say_cpu(f, v);
    else if (v->kind == YK_VERDICT_DISK && s[YK_PHASE_CHECKPOINT] >= s[YK_PHASE_INPUT])
        say_saving(f, v);
    else if (v->kind == YK_VERDICT_INPUT || v->kind == YK_VERDICT_DISK)
        say_input(f, v);
    else if (v->kind == YK_VERDICT_BANDWIDTH || v->kind == YK_VERDICT_LATENCY)
        say_network(f, v);
    else if (v->kind == YK_VERDICT_STRAGGLER)
        say_straggler(f, v);
    else
        say_sync(f, v);
}
