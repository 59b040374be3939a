/* Figures derived from the evidence: shares of the time, which worker is slow, and the causes of lost time. */
#include "observe/verdict_internal.h"

#include <string.h>

static const double tiny_step = 5e-5;       /* seconds */
static const double slow_factor = 1.25;     /* a straggler is slower than the others by this factor */
static const double certainly_slow = 2.0;   /* even if it is not the last one at most barriers */
static const double slow_link_factor = 0.4; /* of the rate of the other links */
static const double full_link = 0.6;        /* of its highest rate, during transfers */

static double known(double x, double otherwise)
{
    return isfinite(x) ? x : otherwise;
}

void yk_verdict_shares(const yk_process_evidence *w, int n, double share_out[YK_PHASES])
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

static void find_rates(const yk_evidence *e, yk__facts *f)
{
    const yk_usage *u = e->usage;
    double seconds = 0.0, examples = 0.0;
    for (int i = 0; i < e->nmeasured; i++) {
        const yk_phases_sample *l = &e->measured[i].phases;
        f->steps += (double)l->steps / e->nmeasured;
        f->bytes_per_step = fmax(f->bytes_per_step, e->measured[i].bytes_per_step);
        seconds += (l->seconds - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT]) / e->nmeasured;
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
    f->run_cores = e->ranks > 1 ? f->host_cores : f->cores;
    f->threads = fmax(e->host_threads ? e->host_threads : e->workers * fmax(e->threads, 1.0), 1.0);
    f->waiting = known(u->delayed.mean, 0.0);
    f->delayed = fmin(f->waiting / f->threads, 1.0);
}

/* ---- who is slow */

/* In a short run, a worker may be slow by chance: the scheduler may not have moved it to an idle core yet. */
static bool is_brief(const yk__facts *f)
{
    return f->e->seconds < 0.5;
}

/* The share of the time in which a process had no core. On a full host, all processes compete: then, this says nothing about
 * one of them. */
static double starved(const yk__facts *f, const yk_process_evidence *p)
{
    const int processes = f->e->ranks - f->e->nservers;
    const double threads = processes > 0 ? fmax((double)f->e->workers / processes, 1.0) : 1.0;
    const bool full = f->cpu_host >= 0.85 * f->host_cores && !f->several_hosts;
    return full || is_brief(f) ? 0.0 : fmin(known(p->delayed, 0.0) / threads, 1.0);
}

/* The share of the time in which a process was stopped, or had no core. */
static double halted(const yk__facts *f, const yk_process_evidence *p)
{
    return fmax(p->stopped, starved(f, p));
}

/* Seconds of messages. */
static double transferred(const yk_process_evidence *w)
{
    return w->phases.phase[YK_PHASE_PARAMETERS] + w->phases.phase[YK_PHASE_SENDING];
}

/* Seconds in which a worker waited for others: for workers, and with `messages` for those. */
static double waited(const yk_process_evidence *w, bool messages)
{
    return w->phases.phase[YK_PHASE_WORKERS] + (messages ? transferred(w) : 0.0);
}

/* Seconds of its own work per step. */
static double busy_step(const yk_process_evidence *w, const yk_evidence *e)
{
    const yk_phases_sample *l = &w->phases;
    const double busy =
        l->seconds - waited(w, e->ranks > 1) - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT];
    return l->steps ? fmax(busy, 0.0) / (double)l->steps : 0.0;
}

/* The share of a worker's time in which it waited for others. A message waits for other workers only if a step does. */
static double waiting_share(const yk_process_evidence *w, const yk_evidence *e)
{
    return w->phases.seconds > 0.0 ? waited(w, e->ranks > 1 && e->waits) / w->phases.seconds : 0.0;
}

/* The share of the barriers at which it was the last one. */
static double last_share(const yk_phases_sample *l)
{
    return l->barriers ? (double)l->last / (double)l->barriers : 1.0;
}

/* Means over the workers other than `w` (NULL: over all). stopped: the largest, because one of several halted workers is not to
 * blame. */
typedef struct {
    double step, waiting, stopped, rate;
} others;

static others others_of(const yk__facts *f, const yk_process_evidence *w)
{
    const yk_evidence *e = f->e;
    others o = {0};
    const double n = w ? e->nmeasured - 1 : e->nmeasured;
    for (const yk_process_evidence *k = e->measured; k < e->measured + e->nmeasured; k++) {
        if (k == w || !(k->phases.seconds > 0.0))
            continue;
        o.step += busy_step(k, e) / n;
        o.waiting += waiting_share(k, e) / n;
        o.stopped = fmax(o.stopped, halted(f, k));
        o.rate += (double)k->phases.steps / k->phases.seconds / n;
    }
    return o;
}

static void set_slowest(yk__facts *f, const yk_process_evidence *w, double factor)
{
    /* includes time without a core */
    const double busy = busy_step(w, f->e) * (double)w->phases.steps, more = halted(f, w);
    const double without_a_core = fmin(known(w->delayed, 0.0), 1.0) * w->phases.seconds;
    f->slowest = (yk__slow_worker){
        .p = w,
        .factor = factor,
        .on_core = fmax(factor * (busy > 0.0 ? fmax(1.0 - without_a_core / busy, 0.0) : 1.0),
                        1.0 / fmax(1.0 - known(w->stopped, 0.0), 0.01)),
        .step = busy_step(w, f->e),
        .last = last_share(&w->phases),
        .halted = more - others_of(f, w).stopped > yk__often_halted ? more : 0.0};
}

/* All others wait for this worker: its own work takes longer, and it waits less than they do. Returns the time of its steps relative to
 * that of the others; 0: it is not slower. */
static double slower(const yk__facts *f, const yk_process_evidence *w)
{
    const others o = others_of(f, w);
    const double last = last_share(&w->phases), factor = o.step > 0.0 ? busy_step(w, f->e) / o.step : 0.0;
    const bool slow = factor > (is_brief(f) ? certainly_slow : slow_factor) &&
                      o.waiting - waiting_share(w, f->e) > 0.1 &&
                      (last > (f->e->nmeasured == 2 ? 0.7 : 0.5) || factor > certainly_slow);
    return slow ? factor : 0.0;
}

/* It was halted so often that the job made progress only in between. Returns the slowdown that this explains; 0: it was not. A worker
 * that waits longer than the others only polls for messages, so it loses nothing without a core. */
static double stopped(const yk__facts *f, const yk_process_evidence *w)
{
    const others o = others_of(f, w);
    const double share = halted(f, w);
    return share - o.stopped > yk__often_halted && waiting_share(w, f->e) - o.waiting < 0.1
               ? 1.0 / fmax(1.0 - share, 0.01)
               : 0.0;
}

/* Asynchronous workers do not wait for it, but it contributes less. Returns the mean rate of the others relative to its
 * own. *lost_out: the share of the job's speed that is lost. */
static double behind(const yk__facts *f, const yk_process_evidence *w, double *lost_out)
{
    const yk_phases_sample *l = &w->phases;
    const double rate = l->seconds > 0.0 ? (double)l->steps / l->seconds : 0.0, mean = others_of(f, w).rate;
    *lost_out = mean > 0.0 ? fmax(1.0 - rate / mean, 0.0) / f->e->nmeasured : 0.0;
    return rate > 0.0 ? mean / rate : 0.0;
}

static void find_slowest(yk__facts *f)
{
    const yk_evidence *e = f->e;
    const yk_process_evidence *end = e->measured + e->nmeasured;
    double factor;
    /* a limit for all processes of a container stops the workers as well */
    for (const yk_process_evidence *s = e->server; s < e->server + e->nservers; s++)
        if (halted(f, s) - others_of(f, NULL).stopped > yk__often_halted) {
            f->stopped = s;
            f->stopped_share = halted(f, s);
        }
    for (const yk_process_evidence *w = e->measured; e->nmeasured > 1 && w < end; w++)
        if ((factor = stopped(f, w)) > f->slowest.factor)
            set_slowest(f, w, factor);
    for (const yk_process_evidence *w = e->measured; !f->slowest.p && w < end; w++)
        if ((factor = slower(f, w)) > 0.0)
            set_slowest(f, w, factor);
}

/* ---- links between hosts */

/* Process i at the end of a link: a worker, or a server after them. */
static const yk_process_evidence *end_of(const yk_evidence *e, int i)
{
    return i < e->nmeasured ? &e->measured[i] : &e->server[i - e->nmeasured];
}

/* Nominal speeds of virtual links mean nothing, so a link is compared with itself. If its process is without a core for most of
 * the time that transfers take (as measured by the processes, or on the link), or another host for all of it, they wait for cores
 * rather than for bytes. */
static void find_link(yk__facts *f)
{
    const yk_evidence *e = f->e;
    const int n = e->nmeasured + e->nservers;
    for (int i = 0; i < n; i++) {
        const yk_process_evidence *a = end_of(e, i);
        const yk_link_evidence *l = &a->link;
        double elsewhere = 0.0, without = 2.0 * starved(f, a), transfers = f->messages;
        if (!(l->highest > 0.0))
            continue;
        for (int k = 0; k < n; k++) {
            const yk_process_evidence *b = end_of(e, k);
            if (a->host && b->host && strcmp(a->host, b->host)) {
                elsewhere = fmax(elsewhere, b->link.highest);
                without = fmax(without, starved(f, b));
            }
        }
        if (i < e->nmeasured && a->phases.seconds > 0.0)
            transfers = fmax(transferred(a) / a->phases.seconds, transfers);
        const double share = fmin(l->carried / l->highest, 1.0),
                     needed = l->sampled > 0.0 ? fmin(l->carried / l->sampled, 1.0) : share;
        const bool full = share >= full_link * transfers && fmax(transfers, needed) > without;
        if (full > f->link.full || (full == f->link.full && needed > f->link.needed))
            f->link = (yk__link){
                a->host, *l, share, needed, elsewhere, full, l->highest < slow_link_factor * elsewhere};
    }
}

/* ---- what the lost time is due to */

/* Whether a server handles messages for so much of the time that it explains the waiting. A server without a core is not
 * busy, though it takes a long time. */
static bool server_explains(yk__facts *f)
{
    const yk_evidence *e = f->e;
    double max = 0.0;
    for (const yk_process_evidence *s = e->server; s < e->server + e->nservers; s++) {
        const double busy = s->cpu > 0.0 ? fmin(s->busy, 1.15 * s->cpu) : s->busy;
        if (busy > max) {
            max = busy;
            f->server = s;
        }
    }
    return max >= 0.5 && max >= 0.6 * f->messages;
}

/* The time for messages: of the network, of a busy server, or of the other processes. */
static void divide_messages(yk__facts *f)
{
    const yk_evidence *e = f->e;
    const double waiting = f->share[YK_PHASE_WORKERS],
                 answers = f->several_hosts ? e->round_trips * e->round_trip / fmax(f->step, 1e-9) : 0.0;
    double messages = f->messages;
    if (f->link.full && f->link.share > 0.5 * (messages + waiting)) {
        /* a worker that waits for another one also waits until that one has sent its gradient */
        f->waste[YK_VERDICT_SYNC] = f->waste[YK_VERDICT_STRAGGLER] = 0.0;
        f->waste[YK_VERDICT_BANDWIDTH] = messages + waiting;
    } else if (f->link.full)
        f->waste[YK_VERDICT_BANDWIDTH] = messages;
    else if (server_explains(f))
        f->waste[YK_VERDICT_SERVER] = messages;
    else if (answers > fmax(0.4 * messages, f->link.share) && answers > f->delayed)
        f->waste[YK_VERDICT_LATENCY] = messages;
    else if (f->slowest.p) /* messages of a slow worker come late */
        f->waste[YK_VERDICT_STRAGGLER] = fmax(f->waste[YK_VERDICT_STRAGGLER], messages + waiting);
    else
        f->waste[YK_VERDICT_SYNC] = fmax(f->waste[YK_VERDICT_SYNC], messages + waiting);
}

/* More threads of this run than cores, and no idle core: each of them waits for a core, or for another one that does. */
static double oversubscription(yk__facts *f)
{
    const double cores = f->run_cores;
    f->shared_cores = cores;
    if (f->e->ranks > 1 && f->threads > f->cores + 0.5 && f->delayed > 0.25 && f->cpu_host < 0.85 * cores) {
        f->shared_cores = f->cores; /* all ranks are pinned to the same few of them */
        return f->delayed;
    }
    /* threads that wait for each other run in turns, and may leave cores idle at the barriers in between */
    const bool turns = f->e->waits && f->e->ranks <= 1 && f->share[YK_PHASE_WORKERS] >= yk__significant;
    if (!(cores > 0.0) || f->threads < cores + 0.5 || (f->cpu_host < 0.85 * cores && !turns))
        return 0.0;
    const double lost = 1.0 - cores / f->threads;
    const bool full = f->cpu > 0.85 * cores; /* this run alone uses them all */
    return !full && f->waiting > 0.0 ? fmin(lost, fmax(f->delayed, f->messages + f->share[YK_PHASE_WORKERS]))
                                     : lost;
}

static void divide_waiting(yk__facts *f)
{
    const yk_evidence *e = f->e;
    const double *s = f->share, waiting = s[YK_PHASE_WORKERS], input = s[YK_PHASE_INPUT];
    f->waste[f->slowest.p ? YK_VERDICT_STRAGGLER : YK_VERDICT_SYNC] = waiting;
    f->tiny = e->waits && e->workers > 1 && f->step < tiny_step && s[YK_PHASE_COMPUTE] < 0.4;
    /* the cost of synchronization: waiting, and reading what the others wrote */
    if (f->tiny && !f->slowest.p)
        f->waste[YK_VERDICT_SYNC] = waiting + s[YK_PHASE_APPLY] + s[YK_PHASE_OTHER];
    if (f->tiny && !f->slowest.p && !e->streamed) { /* choosing examples is a cost of each step as well */
        f->waste[YK_VERDICT_SYNC] += input;
        f->waste[YK_VERDICT_INPUT] = 0.0;
    }
}

/* Losses of asynchronous workers, which do not wait. */
static void find_slower_work(yk__facts *f)
{
    const yk_evidence *e = f->e;
    double lost;
    for (int i = 0; !f->slowest.p && i < e->nmeasured; i++) {
        const double factor = behind(f, &e->measured[i], &lost);
        if (factor > 1.6 && lost > f->waste[YK_VERDICT_STRAGGLER] && lost > 0.1) {
            set_slowest(f, &e->measured[i], factor);
            f->waste[YK_VERDICT_STRAGGLER] = lost;
        }
    }
    /* applying an update takes about as long as computing it, unless other workers change the same parameters */
    if (e->workers > 1 && e->ranks <= 1 && f->delayed < 0.1)
        f->waste[YK_VERDICT_CONTENTION] = fmax(f->share[YK_PHASE_APPLY] - f->share[YK_PHASE_COMPUTE], 0.0);
}

void yk__verdict_facts(const yk_evidence *e, yk__facts *f)
{
    const yk_usage *u = e->usage;
    *f = (yk__facts){.e = e, .several_hosts = e->ranks > 1 && e->hosts > 1};
    yk_verdict_shares(e->measured, e->nmeasured, f->share);
    find_rates(e, f);
    find_slowest(f);
    const double *s = f->share;
    const bool disk = known(u->disk_busy.mean, 0.0) > 0.7 && e->streamed;
    /* else it is work: rows are read from memory */
    if (e->streamed || s[YK_PHASE_INPUT] > s[YK_PHASE_COMPUTE])
        f->waste[disk ? YK_VERDICT_DISK : YK_VERDICT_INPUT] = s[YK_PHASE_INPUT];
    f->waste[YK_VERDICT_DISK] = fmax(f->waste[YK_VERDICT_DISK], s[YK_PHASE_CHECKPOINT]);
    f->messages = e->ranks > 1 ? s[YK_PHASE_PARAMETERS] + s[YK_PHASE_SENDING] : 0.0;
    if (f->several_hosts)
        find_link(f);
    divide_waiting(f);
    if (e->ranks > 1)
        divide_messages(f);
    if (!e->waits)
        find_slower_work(f);
    /* what a process loses while it is halted, all that wait for it lose */
    if (f->slowest.halted > yk__often_halted)
        f->waste[YK_VERDICT_STRAGGLER] =
            fmax(f->waste[YK_VERDICT_STRAGGLER], f->slowest.halted / (e->waits ? 1 : e->nmeasured));
    if (f->stopped) {
        f->waste[YK_VERDICT_STRAGGLER] = fmax(f->stopped_share, f->messages);
        f->waste[YK_VERDICT_SYNC] = f->waste[YK_VERDICT_SERVER] = 0.0;
    }
    f->oversubscribed = oversubscription(f);
    /* reading a page from disk takes at least 0.1 ms */
    const double stall = known(u->memory_stall.mean, 0.0), faults = known(u->major_faults.mean, 0.0) * 1e-4;
    f->waste[YK_VERDICT_MEMORY] = fmin(fmax(stall, faults), 1.0);
}
