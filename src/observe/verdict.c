#include "observe/verdict_internal.h"

#include <math.h>
#include <stdio.h>

static const double min_seconds = 0.1; /* shorter runs have no verdict */
static const double much_slower = 2.0; /* competition for cores alone slows down no single worker this much */
enum { MIN_STEPS = 4 };

const char *yk_verdict_name(yk_verdict_kind kind)
{
    static const char *const names[YK_VERDICT_KINDS] = {
        "none",           "cpu",    "network bandwidth", "network latency", "disk",
        "input pipeline", "memory", "synchronization",   "straggler",       "parameter server",
        "contention"};
    return names[kind];
}

/* ---- numbers */

/* Lists the known ones. */
static void list_numbers(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const yk_usage *u = e->usage;
    const yk_process_evidence *slow = f->slowest.p;
    const double nan = (double)NAN;
    const struct yk_verdict_number list[] = {
        {"step_seconds", f->step},
        {"examples_per_second", f->rate},
        {"waiting_for_input", f->share[YK_PHASE_INPUT]},
        {"computing", f->share[YK_PHASE_COMPUTE] + f->share[YK_PHASE_APPLY]},
        {"waiting_for_workers", f->share[YK_PHASE_WORKERS]},
        {"waiting_for_messages", e->ranks > 1 ? f->messages : nan},
        {"cores", f->cores},
        {"threads", f->threads},
        {"cpu", f->cpu},
        {"cpu_of_others", f->others},
        {"without_a_core", f->delayed},
        {"disk_busy", u->disk_busy.mean},
        {"memory_stall", u->memory_stall.mean},
        {"bytes_per_step", e->ranks > 1 && f->bytes_per_step > 0.0 ? f->bytes_per_step : nan},
        {"link_bytes_per_second", f->link.host ? f->link.link.highest : nan},
        {"link_bytes_carried_per_second", f->link.host ? f->link.link.carried : nan},
        {"round_trips_per_step", f->several_hosts ? e->round_trips : nan},
        {"round_trip_seconds", f->several_hosts ? e->round_trip : nan},
        {"server_busy", f->server ? f->server->busy : nan},
        {"slowest_worker", slow ? (slow->worker < 0 ? slow->rank : slow->worker) : nan},
        {"slowest_factor", slow ? f->slowest.factor : nan},
        {"slowest_came_last", slow ? f->slowest.last : nan},
        {"slowest_stopped", slow ? slow->stopped : nan}};
    _Static_assert(sizeof list / sizeof *list <= YK_MAX_NUMBERS, "YK_MAX_NUMBERS");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (isfinite(list[i].value))
            v->number[v->nnumbers++] = list[i];
}

/* ---- texts */

typedef void describer(const yk__facts *f, yk_verdict *v);

/* The text begins with the name of the kind. */
#define say(v, format, ...)                                                                                  \
    snprintf((v)->text, sizeof(v)->text, "%s: " format, yk_verdict_name((v)->kind), __VA_ARGS__)
#define advise(v, ...) snprintf((v)->advice, sizeof(v)->advice, __VA_ARGS__)

/* Names the host of what is slow; NULL: not known. */
static void blame(yk_verdict *v, const char *host)
{
    snprintf(v->host, sizeof v->host, "%s", host ? host : "");
}

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

/* "rank 2 (host3)"; in one process, "worker 1" */
static const char *name_of(const yk_process_evidence *p, const yk_evidence *e, char out[96])
{
    if (e->ranks > 1)
        snprintf(out, 96, p->host ? "rank %d (%s)" : "rank %d", p->rank, p->host);
    else
        snprintf(out, 96, "worker %d", p->worker);
    return out;
}

/* Threads first: they do not change the result. More workers that wait for each other make fewer updates with the same batch. */
static void advise_idle_cores(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const int workers = e->workers + (int)(f->free + 0.2), threads = workers / e->workers;
    char fewer[96] = "";
    if (e->waits && e->ranks > 1)
        snprintf(fewer, sizeof fewer, ", with fewer updates per epoch unless --global-batch is used");
    else if (e->waits)
        snprintf(fewer, sizeof fewer,
                 ", which divides the updates per epoch by %.2g unless --global-batch is used",
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
    char evaluation[40] = "";
    if (evaluating >= 0.01)
        snprintf(evaluation, sizeof evaluation, " and evaluation %.0f %%", 100.0 * evaluating);
    say(v, "computing takes %.0f %% of the workers' time%s; the run uses %.1f of %.3g core%s",
        100.0 * computing, evaluation, f->cpu, f->cores, plural(f->cores));
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

static void describe_checkpoints(const yk__facts *f, yk_verdict *v)
{
    say(v, "saving checkpoints takes %.0f %% of the time", 100.0 * f->share[YK_PHASE_CHECKPOINT]);
    advise(
        v, "%s or %s a faster disk (--out)",
        f->e->saves == 1
            ? "only the last checkpoint was written: its share is smaller in a longer run,"
            : "save less often (--checkpoint-every; with --validation, evaluate less often: --eval-every),",
        f->e->saves == 1 ? "with" : "to");
}

static void describe_input(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    if (v->kind == YK_VERDICT_DISK && f->share[YK_PHASE_CHECKPOINT] >= f->share[YK_PHASE_INPUT]) {
        describe_checkpoints(f, v);
        return;
    }
    say(v, "the workers spent %.0f %% of the time waiting for data and %.0f %% computing", 100.0 * v->share,
        100.0 * f->share[YK_PHASE_COMPUTE]);
    if (v->kind == YK_VERDICT_DISK)
        advise(v,
               "the disk is busy %.0f %% of the time: copy the data to a faster disk, or load it into memory "
               "(--stream never)",
               100.0 * e->usage->disk_busy.mean);
    else if (!e->streamed)
        advise(v, "the data is in memory: use a larger --batch");
    else if (f->free < 0.5 && f->cpu > 0.5)
        advise(v, "reading and training compete for the cores: convert the data to a cache (yoke data "
                  "convert), which needs no decoding");
    else
        advise(v, "reading the data is slow: load it into memory (--stream never), convert it to a cache "
                  "(yoke data convert), or copy it to a faster disk");
}

static void describe_bandwidth(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const yk__link *l = &f->link;
    char others[80] = "";
    if (l->slow) {
        blame(v, l->host);
        snprintf(others, sizeof others, ", those of other hosts up to %.3g MB/s", l->others * 1e-6);
        advise(v, "check the link of host %s, or leave it out; or use a larger --batch or %s", l->host,
               e->send_less);
    } else
        advise(v, "use a larger --batch (fewer bytes per example), %s (fewer transfers), or a faster link",
               e->send_less);
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
    advise(v, e->waits ? "use a larger --batch, %s, or --mode async" : "use a larger --batch or %s",
           e->send_less);
}

static void describe_server(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const yk_process_evidence *s = f->server;
    char name[96];
    blame(v, s->host);
    say(v,
        "the workers spent %.0f %% of the time waiting for parameter servers; %s handles messages %.0f %% of "
        "the time",
        100.0 * v->share, name_of(s, e, name), 100.0 * fmin(s->busy, 1.0));
    advise(v, "use more --servers (now %d), a larger --batch (now %llu), or %s", e->nservers, e->batch,
           e->send_less);
}

/* The end of the advice about a slow worker. */
static const char *do_not_wait(const yk_evidence *e, char out[96])
{
    snprintf(out, 96, "; or do not wait for it: %s", e->do_not_wait);
    return e->waits ? out : "";
}

/* A process that was stopped, or had no core, for a share of the time. */
static void describe_halted(const yk__facts *f, const yk_process_evidence *p, double share, yk_verdict *v)
{
    const bool server = p == f->stopped, stopped = p->stopped >= share;
    char name[96], end[96];
    blame(v, p->host);
    say(v, "%s%s %s for %.0f %% of the time%s", name_of(p, f->e, name), server ? ", a parameter server," : "",
        stopped ? "was stopped" : "had no core", 100.0 * share,
        server || f->e->waits ? "; the others waited for it" : "");
    advise(v, "%s%s",
           stopped
               ? "check what stops it: a CPU limit (cgroup), a debugger, a job scheduler, or a suspended host"
               : "another program uses its core: stop that program, or let this process use other cores "
                 "(taskset, nice)",
           server ? "" : do_not_wait(f->e, end));
}

static void describe_straggler(const yk__facts *f, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    char name[96], slow[24], last[64] = "", end[96];
    if (!f->slowest.p) {
        describe_halted(f, f->stopped, f->stopped_share, v);
        return;
    }
    if (f->slowest.halted > yk__often_halted) {
        describe_halted(f, f->slowest.p, f->slowest.halted, v);
        return;
    }
    blame(v, f->slowest.p->host);
    name_of(f->slowest.p, e, name);
    if (f->slowest.last >= 0.01) /* with a quorum, the others rarely wait for it */
        snprintf(last, sizeof last, ", and was last at %.0f %% of the barriers", 100.0 * f->slowest.last);
    if (e->waits)
        say(v,
            "%s takes %.1f times as long per step as the others (%s)%s; the workers waited %.0f %% of the "
            "time",
            name, f->slowest.factor, duration(f->slowest.step, slow), last, 100.0 * v->share);
    else
        say(v, "%s takes %.1f times as long per step as the others; %.0f %% of the throughput is lost", name,
            f->slowest.factor, 100.0 * v->share);
    advise(v, "check what slows down %s%s%s%s", f->several_hosts ? "the host of " : "", name,
           f->several_hosts ? "" : ", for example another program on its core", do_not_wait(e, end));
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
    advise(v, "use a larger --batch (now %llu), or %s%s", e->batch, e->send_less, threads);
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
    if (!e->waits)
        advise(v, "no single worker is slow: use a larger --staleness bound or a larger --batch (now %llu)",
               e->batch);
    else if (f->step < 1e-3)
        advise(v,
               "the steps are too short to synchronize after each one: use a larger --batch (now %llu), or "
               "--mode async",
               e->batch);
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
           e->batch);
}

static void describe_memory(const yk__facts *f, yk_verdict *v)
{
    const yk_usage *u = f->e->usage;
    say(v, "processes were stalled by memory pressure %.0f %% of the time; this run uses %.3g of %.3g GB",
        100.0 * v->share, u->memory.peak * 1e-9, u->memory_limit * 1e-9);
    advise(v, "use less memory (--stream always, a smaller --shuffle-mb or --batch), or a host with more");
}

static void describe_too_short(const yk__facts *f, yk_verdict *v)
{
    const double steps = ceil(f->steps); /* a mean: below 1 if only some workers took a step */
    say(v, "the run was too short (%.2g s, %.0f step%s)", f->e->seconds, steps, plural(steps));
}

static void describe_nothing(const yk__facts *f, yk_verdict *v)
{
    const double *s = f->share;
    say(v, "nothing stands out: %.0f %% computing, %.0f %% waiting for data, %.0f %% for each other",
        100.0 * (s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] + s[YK_PHASE_EVAL]), 100.0 * s[YK_PHASE_INPUT],
        100.0 * s[YK_PHASE_WORKERS]);
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
    const bool slower = f->slowest.on_core > much_slower || f->slowest.halted > 0.0;
    if (f->several_hosts && slower) /* a host that is slower than the others is named */
        return 0.0;
    /* A worker that polls for a message loses nothing without a core. A worker that waits for another one waits for a worker
     * without a core, unless that is a straggler: other programs slow all workers down alike. */
    double polling =
        f->waste[YK_VERDICT_BANDWIDTH] + f->waste[YK_VERDICT_LATENCY] + f->waste[YK_VERDICT_SERVER];
    if (f->slowest.on_core > much_slower || f->stopped)
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
    const double min = max == YK_VERDICT_STRAGGLER && !f->e->waits ? 0.1 : yk__significant;
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
        return !f->stopped && f->slowest.factor < much_slower;
    if (other == YK_VERDICT_SERVER) /* it has a core of its own, and is busy all the time */
        return lost < 0.5 || f->server->cpu < 0.6;
    return other != YK_VERDICT_BANDWIDTH && other != YK_VERDICT_LATENCY;
}

/* The first rule that holds gives the verdict. */
static describer *conclude(const yk__facts *f, yk_verdict *v)
{
    static describer *const lost_time[YK_VERDICT_KINDS] = {
        [YK_VERDICT_BANDWIDTH] = describe_bandwidth, [YK_VERDICT_LATENCY] = describe_latency,
        [YK_VERDICT_DISK] = describe_input,          [YK_VERDICT_INPUT] = describe_input,
        [YK_VERDICT_SYNC] = describe_sync,           [YK_VERDICT_STRAGGLER] = describe_straggler,
        [YK_VERDICT_SERVER] = describe_server,       [YK_VERDICT_CONTENTION] = describe_contention};
    const double *s = f->share, working = s[YK_PHASE_COMPUTE] + s[YK_PHASE_APPLY] + s[YK_PHASE_EVAL],
                 stalled = f->waste[YK_VERDICT_MEMORY], taken = competition(f);
    /* in one process, parameters and sending are its work as well */
    const double also = f->e->ranks <= 1 ? s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING] : 0.0;
    const yk_verdict_kind max = largest_waste(f);
    const struct {
        bool holds;
        yk_verdict_kind kind;
        double share;
        describer *describe;
    } rules[] = {
        {f->e->seconds < min_seconds || f->steps < MIN_STEPS, YK_VERDICT_NONE, 0.0, describe_too_short},
        {stalled >= yk__significant, YK_VERDICT_MEMORY, stalled, describe_memory},
        {taken > 0.0, YK_VERDICT_CPU, taken, describe_competition},
        {is_oversubscribed(f, max), YK_VERDICT_CPU, f->oversubscribed, describe_oversubscribed},
        {max != YK_VERDICT_NONE, max, f->waste[max], lost_time[max]},
        {working < 0.5, YK_VERDICT_NONE, 0.0, describe_nothing},
        {true, YK_VERDICT_CPU, working + also, describe_cpu}};
    int i = 0;
    while (!rules[i].holds)
        i++;
    v->kind = rules[i].kind;
    v->share = rules[i].share;
    return rules[i].describe;
}

void yk_verdict_find(const yk_evidence *e, yk_verdict *out)
{
    yk__facts f;
    *out = (yk_verdict){0};
    yk__verdict_facts(e, &f);
    conclude(&f, out)(&f, out);
    list_numbers(&f, out);
}
