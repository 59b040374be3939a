#include "watch/verdict_internal.h"

#include <stdio.h>

/* The text begins with the name of the kind. */
#define say(v, format, ...)                                                                                  \
    snprintf((v)->text, sizeof(v)->text, "%s: " format, yk_verdict_name((v)->kind), __VA_ARGS__)
#define advise(v, ...) snprintf((v)->advice, sizeof(v)->advice, __VA_ARGS__)

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

static void worker_name(const yk_worker_evidence *w, int ranks, char out[48])
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
        say(v, "evaluation takes %.0f %% of the time, training %.0f %%", 100.0 * evaluating,
            100.0 * computing);
    else
        say(v, "computing takes %.0f %% of the workers' time; %.1f of %.3g cores are in use",
            100.0 * computing, f->cpu, f->cores);
    const int busy = e->workers * (e->threads > 1 ? e->threads : 1);
    if (evaluating > computing)
        advise(v, "evaluate less often (--eval-every), or on fewer examples");
    else if (e->ranks <= 1 && busy > f->cores && f->cores > 0.0 && f->delayed > 0.1)
        advise(v, "%d threads share %.3g cores: use fewer --workers%s", busy, f->cores,
               e->threads > 1 ? " or --threads" : "");
    else if (f->free >= 0.8 && e->network && e->workers == 1)
        advise(v, "%.1f cores are idle: use --threads %d or --workers %d", f->free,
               (e->threads > 1 ? e->threads : 1) + (int)(f->free + 0.2), e->workers + (int)(f->free + 0.2));
    else if (f->free >= 0.8)
        advise(v, "%.1f cores are idle: use --workers %d", f->free, e->workers + (int)(f->free + 0.2));
    else if (f->others >= 0.5 && f->cores - f->cpu >= 0.8)
        advise(v, "other programs use %.1f cores: stop them, or use another host", f->others);
    else
        advise(v, "all cores are busy: use more or faster cores (another host), or a smaller model");
}

static void say_competition(const yk__facts *f, yk_verdict *v)
{
    say(v, "other programs use %.1f of %.3g cores and take %.0f %% of the workers' time", f->others,
        f->host_cores, 100.0 * v->share);
    advise(v,
           "stop the other programs or use another host; do not compare the speed of this run with others");
}

static void say_oversubscribed(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    say(v,
        "%.0f %% of the time the workers waited for processes without a core: %d processes share %.3g cores, "
        "and other programs use %.1f of them",
        100.0 * v->share, e->ranks, f->host_cores, f->others);
    advise(v, "use fewer processes on this host (one or two per core), or more hosts");
}

static void say_input(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    say(v, "%.0f %% of the time the workers waited for data, %.0f %% they computed", 100.0 * v->share,
        100.0 * f->share[YK_PHASE_COMPUTE]);
    if (v->kind == YK_VERDICT_DISK)
        advise(v,
               "the disk is busy %.0f %% of the time: copy the data to a faster disk, or load it into memory "
               "(--stream never)",
               100.0 * yk__known(e->usage->disk_busy.mean, 0.0));
    else if (!e->streamed)
        advise(v, "the data is in memory: use a larger --batch");
    else if (f->free < 0.5)
        advise(v,
               "reading and training compete for the cores: convert the data to a cache (yoke data convert), "
               "which needs no decoding");
    else
        advise(v,
               "reading the data is slow: load it into memory (--stream never), convert it to a cache (yoke "
               "data convert), or copy it to a faster disk");
}

static void say_checkpoints(const yk__facts *f, yk_verdict *v)
{
    say(v, "saving checkpoints takes %.0f %% of the time", 100.0 * f->share[YK_PHASE_CHECKPOINT]);
    advise(v, "save less often (--checkpoint-every), or to a faster disk (--out)");
}

static void say_network(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char trip[24];
    if (v->kind == YK_VERDICT_BANDWIDTH) {
        say(v,
            "%.0f %% of the time the workers transferred %.3g MB per step and worker over links of %.3g MB/s",
            100.0 * v->share, e->bytes_per_step * 1e-6, e->link_rate * 1e-6);
        advise(v,
               "use a larger --batch (fewer bytes per example), --local-steps (fewer transfers), or a faster "
               "link");
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
               e->synchronous ? "use a larger --batch, %s--local-steps, or --mode async"
                              : "use a larger --batch or %s--local-steps",
               e->round_trips < 1.0 ? "more " : "");
    }
}

static void say_straggler(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char name[48], slow[24];
    const yk_worker_evidence *w = &e->measured[f->slowest];
    worker_name(w, e->ranks, name);
    say(v,
        "%s takes %.1f times as long for a step as the others (%s), and was last at %.0f %% of the barriers; "
        "the "
        "workers waited %.0f %% of the time",
        name, f->slowest_factor, duration(yk__busy_step(w), slow), 100.0 * f->slowest_last, 100.0 * v->share);
    advise(v, "check what else runs on the host of %s; or do not wait for it: --mode async%s", name,
           e->ranks > 1 ? ", or --quorum" : "");
}

static void say_sync(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char step[24];
    if (f->tiny)
        say(v, "synchronization takes %.0f %% of the time, computing %.0f %%, in steps of %s",
            100.0 * v->share, 100.0 * f->share[YK_PHASE_COMPUTE], duration(f->step, step));
    else
        say(v, "%.0f %% of the time the workers waited for each other, at the end of steps of %s",
            100.0 * v->share, duration(f->step, step));
    const bool crowded = e->ranks <= 1 && f->cores > 0.0 && e->workers > f->cores;
    if (crowded)
        advise(v, "%d workers share %.3g cores: use --workers %d", e->workers, f->cores, (int)f->cores);
    else if (f->step < 1e-3)
        advise(v,
               "the steps are too short for a barrier each: use a larger --batch (now %llu), or --mode async",
               (unsigned long long)e->batch);
    else
        advise(v, "no single worker is slow: use --staleness 1 or --mode async, so that they need not wait");
}

static void say_memory(const yk__facts *f, yk_verdict *v)
{
    const yk_usage *u = f->e->usage;
    say(v, "%.0f %% of the time processes waited for memory; this run uses %.3g of %.3g GB", 100.0 * v->share,
        u->memory.peak * 1e-9, u->memory_limit * 1e-9);
    advise(v, "use less memory (--stream always, a smaller --shuffle-mb or --batch), or a host with more");
}

void yk__verdict_describe(const yk__facts *f, yk__cause cause, yk_verdict *v)
{
    const double *s = f->share;
    if (cause == YK__TOO_SHORT)
        say(v, "the run was too short (%.2g s, %.0f steps)", f->e->seconds, f->steps);
    else if (cause == YK__NOTHING)
        say(v, "nothing stands out: %.0f %% computing, %.0f %% waiting for data, %.0f %% for each other",
            100.0 * (s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] + s[YK_PHASE_EVAL]), 100.0 * s[YK_PHASE_INPUT],
            100.0 * s[YK_PHASE_WORKERS]);
    else if (cause == YK__SHORT_OF_MEMORY)
        say_memory(f, v);
    else if (cause == YK__OVERSUBSCRIBED)
        say_oversubscribed(f, v);
    else if (cause == YK__COMPETITION)
        say_competition(f, v);
    else if (cause == YK__WORK)
        say_cpu(f, v);
    else if (v->kind == YK_VERDICT_DISK && s[YK_PHASE_CHECKPOINT] >= s[YK_PHASE_INPUT])
        say_checkpoints(f, v);
    else if (v->kind == YK_VERDICT_INPUT || v->kind == YK_VERDICT_DISK)
        say_input(f, v);
    else if (v->kind == YK_VERDICT_BANDWIDTH || v->kind == YK_VERDICT_LATENCY)
        say_network(f, v);
    else if (v->kind == YK_VERDICT_STRAGGLER)
        say_straggler(f, v);
    else
        say_sync(f, v);
}
