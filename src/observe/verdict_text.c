/* The text and the advice of a verdict. */
#include "observe/verdict_internal.h"

#include <stdio.h>

/* The text begins with the name of the kind. */
#define say(v, format, ...)                                                                                  \
    snprintf((v)->text, sizeof(v)->text, "%s: " format, yk_verdict_name((v)->kind), __VA_ARGS__)
#define advise(v, ...) snprintf((v)->advice, sizeof(v)->advice, __VA_ARGS__)

/* "1 core", "2.5 cores", with "%.3g core%s" */
static const char *plural(double n)
{
    return fabs(n - 1.0) < 0.005 ? "" : "s";
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

/* "worker 1", "rank 2 (host3)" */
static void worker_name(const yk_worker_evidence *w, const yk_evidence *e, char out[128])
{
    char at[80] = "";
    if (e->ranks > 1 && w->host)
        snprintf(at, sizeof at, " (%s)", w->host);
    if (e->ranks > 1 && w->worker < 0)
        snprintf(out, 128, "rank %d%s", w->rank, at);
    else if (e->ranks > 1)
        snprintf(out, 128, "worker %d of rank %d%s", w->worker, w->rank, at);
    else
        snprintf(out, 128, "worker %d", w->worker);
}

/* "--local-steps", or "a larger --local-steps" if it is already on. */
static const char *local_steps(const yk_evidence *e)
{
    return e->local_steps > 1 ? "a larger --local-steps" : "--local-steps";
}

/* Threads first: they do not change the result. More synchronous workers with the same batch make fewer updates. */
static void advise_idle_cores(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const int workers = e->workers + (int)(f->free + 0.2), threads = workers / e->workers;
    char fewer[96] = "";
    if (e->synchronous && e->ranks > 1)
        snprintf(fewer, sizeof fewer, ", with fewer updates per epoch unless --global-batch is used");
    else if (e->synchronous)
        snprintf(fewer, sizeof fewer,
                 ", with %.2g times fewer updates per epoch unless --global-batch is used",
                 (double)workers / e->workers);
    if (e->ranks > 1)
        advise(v, "%.1f cores of this host are idle: use %smore processes (--launch)%s", f->free,
               e->network ? "a larger --threads, which does not change the result, or " : "", fewer);
    else if (e->network && e->threads <= 1 && threads > 1)
        advise(v,
               "%.1f cores are idle: use --threads %d, which does not change the result, or --workers %d%s",
               f->free, threads, workers, fewer);
    else
        advise(v, "%.1f cores are idle: use --workers %d%s", f->free, workers, fewer);
}

static void describe_cpu(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const double *s = f->share;
    const double evaluating = s[YK_PHASE_EVAL];
    const double computing = s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] +
                             (e->ranks > 1 ? 0.0 : s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING]);
    if (evaluating > computing) {
        say(v, "evaluation takes %.0f %% of the time, training %.0f %%", 100.0 * evaluating,
            100.0 * computing);
        advise(v, "evaluate less often (--eval-every), or on fewer examples");
        return;
    }
    say(v, "computing takes %.0f %% of the workers' time; the run uses %.1f of %.3g core%s",
        100.0 * computing, f->cpu, f->cores, plural(f->cores));
    if (f->free >= 0.8)
        advise_idle_cores(f, v);
    else if (f->others >= 0.5 && f->cores - f->cpu >= 0.8)
        advise(v, "other programs use %.1f cores: stop them, or use another host", f->others);
    else
        advise(v, "all cores are busy: use more or faster cores (another host), or a smaller model");
}

static void describe_competition(const yk__facts *f, yk_verdict *v)
{
    say(v, "other programs use %.1f of %.3g core%s and take %.0f %% of the workers' time", f->others,
        f->host_cores, plural(f->host_cores), 100.0 * v->share);
    advise(v,
           "stop the other programs or use another host; do not compare the speed of this run with others");
}

static void describe_oversubscribed(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const double cores = f->shared_cores;
    char of[40] = "";
    if (f->threads < 1.5) {
        say(v, "this run is at the CPU limit of its cgroup, %.3g core%s", cores, plural(cores));
        advise(v, "raise the CPU limit of the container or the job");
        return;
    }
    if (e->ranks > 1)
        snprintf(of, sizeof of, " of %d processes", e->ranks);
    say(v, "%.0f threads%s share %.3g core%s%s; they wait for a core or for each other %.0f %% of the time",
        f->threads, of, cores, plural(cores), e->ranks > 1 && e->hosts > 1 ? " of a host" : "",
        100.0 * v->share);
    if (e->ranks > 1)
        advise(v, "use fewer processes on this host (workers plus servers at most %d), or more hosts",
               (int)cores);
    else if (e->threads > 1)
        advise(v, "use a smaller --workers or --threads: workers times threads at most %d", (int)cores);
    else
        advise(v, "use --workers %d", (int)fmax(cores, 1.0));
}

static void describe_input(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    say(v, "the workers spent %.0f %% of the time waiting for data and %.0f %% computing", 100.0 * v->share,
        100.0 * f->share[YK_PHASE_COMPUTE]);
    if (v->kind == YK_VERDICT_DISK)
        advise(v,
               "the disk is busy %.0f %% of the time: copy the data to a faster disk, or load it into memory "
               "(--stream never)",
               100.0 * yk__known(e->usage->disk_busy.mean, 0.0));
    else if (!e->streamed)
        advise(v, "the data is in memory: use a larger --batch");
    else if (f->free < 0.5 && f->cpu > 0.5)
        advise(v, "reading and training compete for the cores: convert the data to a cache (yoke data "
                  "convert), which needs no decoding");
    else
        advise(v, "reading the data is slow: load it into memory (--stream never), convert it to a cache "
                  "(yoke data convert), or copy it to a faster disk");
}

static void describe_checkpoints(const yk__facts *f, yk_verdict *v)
{
    say(v, "saving checkpoints takes %.0f %% of the time", 100.0 * f->share[YK_PHASE_CHECKPOINT]);
    if (f->e->saves == 1)
        advise(v, "only the last checkpoint was written: its share is smaller in a longer run, or with a "
                  "faster disk (--out)");
    else
        advise(v, "save less often (--checkpoint-every), or to a faster disk (--out)");
}

static void describe_bandwidth(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const yk__link *l = &f->link;
    char others[80] = "";
    if (l->slow) {
        snprintf(others, sizeof others, ", those of other hosts up to %.3g MB/s", l->others * 1e-6);
        advise(v, "check the link of host %s, or leave it out; or use a larger --batch or %s", l->host,
               local_steps(e));
    } else
        advise(v, "use a larger --batch (fewer bytes per example), %s (fewer transfers), or a faster link",
               local_steps(e));
    say(v,
        "the workers spent %.0f %% of the time transferring data (%.3g MB sent and received per step and "
        "worker); the link of host %s carried %.3g of %.3g MB/s%s",
        100.0 * v->share, f->bytes_per_step * 1e-6, l->host, l->link.carried * 1e-6, l->link.highest * 1e-6,
        others);
}

static void describe_latency(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char trip[24], trips[80];
    duration(e->round_trip, trip);
    if (e->round_trips < 1.0)
        snprintf(trips, sizeof trips, "one round trip of %s every %.0f steps,", trip, 1.0 / e->round_trips);
    else
        snprintf(trips, sizeof trips, "%.1f round trips of %s and", e->round_trips, trip);
    say(v, "the workers spent %.0f %% of the time waiting for replies: %s %.3g kB per step", 100.0 * v->share,
        trips, f->bytes_per_step * 1e-3);
    advise(v, e->synchronous ? "use a larger --batch, %s, or --mode async" : "use a larger --batch or %s",
           local_steps(e));
}

static void describe_server(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const yk_server_evidence *s = &e->server[f->server];
    char at[80] = "";
    if (s->host)
        snprintf(at, sizeof at, " (%s)", s->host);
    say(v,
        "the workers spent %.0f %% of the time waiting for parameter servers; rank %d%s handles messages "
        "%.0f %% of the time",
        100.0 * v->share, s->rank, at, 100.0 * fmin(s->busy, 1.0));
    advise(v, "use more --servers (now %d), a larger --batch (now %llu), or %s", e->nservers,
           (unsigned long long)e->batch, local_steps(e));
}

/* The end of the advice about a slow worker. */
static const char *do_not_wait(const yk_evidence *e)
{
    if (!e->synchronous)
        return "";
    return e->ranks > 1 && !e->quorum ? "; or do not wait for it: --mode async, or --quorum"
                                      : "; or do not wait for it: --mode async";
}

/* A process that was stopped, or had no core, for much of the time. */
static void describe_halted(const yk__facts *f, const char *name, bool stopped, double share, yk_verdict *v)
{
    const bool server = f->slowest < 0, waited = server || f->e->synchronous;
    say(v, "%s %s for %.0f %% of the time%s", name, stopped ? "was stopped" : "had no core", 100.0 * share,
        waited ? "; the others waited for it" : "");
    advise(v, "%s%s",
           stopped
               ? "check what stops it: a CPU limit (cgroup), a debugger, a job scheduler, or a suspended host"
               : "another program uses its core: stop that program, or let this process use other cores "
                 "(taskset, nice)",
           server ? "" : do_not_wait(f->e));
}

static void describe_straggler(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char name[128], slow[24];
    if (f->slowest < 0) {
        const yk_server_evidence *s = &e->server[f->stopped];
        const double starved = yk__starved(f, s->delayed);
        snprintf(name, sizeof name, "rank %d (%.64s), a parameter server,", s->rank,
                 s->host ? s->host : "unknown host");
        describe_halted(f, name, s->stopped >= starved, fmax(s->stopped, starved), v);
        return;
    }
    const yk_worker_evidence *w = &e->measured[f->slowest];
    worker_name(w, e, name);
    duration(yk__busy_step(w, e->ranks > 1), slow);
    if (f->slowest_halted > yk__often_halted) {
        describe_halted(f, name, w->stopped >= f->slowest_halted, f->slowest_halted, v);
        return;
    }
    if (e->synchronous)
        say(v,
            "%s takes %.1f times as long per step as the others (%s), and was last at %.0f %% of the "
            "barriers; the workers waited %.0f %% of the time",
            name, f->slowest_factor, slow, 100.0 * f->slowest_last, 100.0 * v->share);
    else
        say(v, "%s takes %.1f times as long per step as the others; %.0f %% of the throughput is lost", name,
            f->slowest_factor, 100.0 * v->share);
    advise(v, "check what slows down %s%s%s%s", f->several_hosts ? "the host of " : "", name,
           f->several_hosts ? "" : ", for example another program on its core", do_not_wait(e));
}

static void describe_exchange(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char step[24], threads[80] = ""; /* processes of one host exchange parameters through memory */
    say(v,
        "the processes spent %.0f %% of the time exchanging parameters and waiting for each other (a step "
        "takes %s)",
        100.0 * v->share, duration(f->step, step));
    if (e->hosts <= 1)
        snprintf(threads, sizeof threads, ", or threads instead of processes (--workers %d without --launch)",
                 e->workers);
    advise(v, "use a larger --batch (now %llu), or %s%s", (unsigned long long)e->batch, local_steps(e),
           threads);
}

static void describe_sync(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char step[24];
    if (e->ranks > 1 && f->messages > f->share[YK_PHASE_WORKERS]) {
        describe_exchange(f, v);
        return;
    }
    if (f->tiny)
        say(v, "the workers spent %.0f %% of the time synchronizing and %.0f %% computing (a step takes %s)",
            100.0 * v->share, 100.0 * f->share[YK_PHASE_COMPUTE], duration(f->step, step));
    else
        say(v, "the workers spent %.0f %% of the time waiting for each other at the end of each step (%s)",
            100.0 * v->share, duration(f->step, step));
    if (!e->synchronous)
        advise(v, "no single worker is slow: use a larger --staleness bound or a larger --batch (now %llu)",
               (unsigned long long)e->batch);
    else if (f->step < 1e-3)
        advise(v,
               "the steps are too short to synchronize after each one: use a larger --batch (now %llu), or "
               "--mode async",
               (unsigned long long)e->batch);
    else
        advise(v, "no single worker is slow: use --staleness 1 or --mode async, so that workers wait less");
}

static void describe_contention(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    say(v,
        "%d workers change the same parameters: applying and merging updates takes %.0f %% of the time, "
        "computing %.0f %%",
        e->workers, 100.0 * f->share[YK_PHASE_APPLY], 100.0 * f->share[YK_PHASE_COMPUTE]);
    advise(v, "use a larger --batch (now %llu), a larger --staleness bound if one is set, or fewer --workers",
           (unsigned long long)e->batch);
}

static void describe_memory(const yk__facts *f, yk_verdict *v)
{
    const yk_usage *u = f->e->usage;
    say(v, "processes were stalled by memory pressure %.0f %% of the time; this run uses %.3g of %.3g GB",
        100.0 * v->share, u->memory.peak * 1e-9, u->memory_limit * 1e-9);
    advise(v, "use less memory (--stream always, a smaller --shuffle-mb or --batch), or a host with more");
}

static void (*const describe_lost_time[YK_VERDICT_KINDS])(const yk__facts *, yk_verdict *) = {
    [YK_VERDICT_BANDWIDTH] = describe_bandwidth, [YK_VERDICT_LATENCY] = describe_latency,
    [YK_VERDICT_DISK] = describe_input,          [YK_VERDICT_INPUT] = describe_input,
    [YK_VERDICT_SYNC] = describe_sync,           [YK_VERDICT_STRAGGLER] = describe_straggler,
    [YK_VERDICT_SERVER] = describe_server,       [YK_VERDICT_CONTENTION] = describe_contention};

void yk__verdict_describe(const yk__facts *f, yk__cause cause, yk_verdict *v)
{
    const double *s = f->share;
    if (cause == YK__TOO_SHORT)
        say(v, "the run was too short (%.2g s, %.0f step%s)", f->e->seconds, f->steps, plural(f->steps));
    else if (cause == YK__NOTHING)
        say(v, "nothing stands out: %.0f %% computing, %.0f %% waiting for data, %.0f %% for each other",
            100.0 * (s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] + s[YK_PHASE_EVAL]), 100.0 * s[YK_PHASE_INPUT],
            100.0 * s[YK_PHASE_WORKERS]);
    else if (cause == YK__MEMORY_PRESSURE)
        describe_memory(f, v);
    else if (cause == YK__OVERSUBSCRIBED)
        describe_oversubscribed(f, v);
    else if (cause == YK__COMPETITION)
        describe_competition(f, v);
    else if (cause == YK__COMPUTING)
        describe_cpu(f, v);
    else if (v->kind == YK_VERDICT_DISK && s[YK_PHASE_CHECKPOINT] >= s[YK_PHASE_INPUT])
        describe_checkpoints(f, v);
    else
        describe_lost_time[v->kind](f, v);
}
