/* Estimates of the speedup, in examples per second, that some changes would bring: from trials, if there were any, otherwise
 * from the times of the run. An estimate that the measurements do not support is left out: on a host that is busy with other
 * programs, they say little about this run. `./dev inject --estimates` compares estimates with measurements. */
#include "observe/verdict_internal.h"

static const double imbalance = 0.1; /* synchronous workers wait for the slowest of similar ones */
static const double barriers = 3e-6; /* seconds, of two threads */
static const double largest = 50.0;  /* more cannot be told from a disturbance */

/* The limit of a change: a worker adds at most its share, and a step with twice the examples does not take less time. A trial
 * that exceeds it was disturbed. */
static double limit(const yk_evidence *e, yk_change change)
{
    if (change == YK_CHANGE_WORKER && e->workers > 0)
        return (e->workers + 1.0) / e->workers;
    return change == YK_CHANGE_BATCH ? 2.0 : largest;
}

/* A trial is better than `estimate`, which is computed from the times of the run. */
static void add(yk_verdict *v, const yk_evidence *e, yk_change change, double estimate)
{
    static const char *const name[YK_CHANGES] = {"one more worker", "twice the batch", "asynchronous"};
    const double tried = e->trials.speedup[change], speedup = tried > 0.0 ? tried : estimate;
    if (!isfinite(speedup))
        return;
    v->estimate[v->nestimates].change = name[change];
    v->estimate[v->nestimates++].speedup = fmin(speedup, limit(e, change));
}

/* The share of a worker's time in which it uses a core. */
static double working(const yk__facts *f)
{
    const double *s = f->share;
    double waits = s[YK_PHASE_WORKERS] + f->messages + s[YK_PHASE_CHECKPOINT];
    if (f->e->streamed)
        waits += s[YK_PHASE_INPUT];
    return fmax(1.0 - waits, 0.0);
}

/* How many times as fast the run could be if all workers computed all the time. */
static double max_speedup(const yk__facts *f)
{
    const double hosts = f->e->hosts > 1 ? f->e->hosts : 1, used = f->threads * hosts * working(f);
    return f->run_cores > 0.0 && used > 0.0 ? fmax(f->run_cores * hosts / used, 1.0) : 1.0;
}

/* Threads of workers on the host: servers need a core for a part of the time only. */
static double threads_of_workers(const yk__facts *f)
{
    return fmax(f->threads - (f->several_hosts ? 0.0 : f->e->nservers), 1.0);
}

/* Synchronous threads on too few cores run in turns. */
static double estimate_time_sharing(const yk__facts *f)
{
    const double n = f->e->workers, before = ceil(threads_of_workers(f) / f->run_cores),
                 after = ceil((threads_of_workers(f) + f->worker_threads) / f->run_cores);
    return f->e->synchronous ? 0.9 * (n + 1.0) / n * before / after : 1.0;
}

static double estimate_one_more_worker(const yk__facts *f, yk_verdict_kind kind)
{
    const yk_evidence *e = f->e;
    const double *s = f->share;
    const double n = e->workers;
    if (kind == YK_VERDICT_BANDWIDTH || kind == YK_VERDICT_DISK || kind == YK_VERDICT_SERVER)
        return 1.0; /* the bottleneck is shared by all workers */
    if (!f->several_hosts && f->run_cores > 0.0 &&
        threads_of_workers(f) + f->worker_threads > f->run_cores + 0.5)
        return estimate_time_sharing(f);
    const double more = (n + 1.0) / n;
    if (kind == YK_VERDICT_CONTENTION)
        return 1.0 + 0.2 / n;
    if (!e->synchronous)
        return more;
    if (n > 1.0)
        return more / (1.0 + (s[YK_PHASE_WORKERS] + f->messages + (e->keyed ? s[YK_PHASE_APPLY] : 0.0)) / n);
    if (e->keyed) /* merging gradients of several workers takes longer than computing them, by an unknown factor */
        return (double)NAN;
    return more / (1.0 + imbalance + f->messages + (f->step > 0.0 ? barriers / f->step : 0.0));
}

static double estimate_twice_the_batch(const yk__facts *f)
{
    const double *s = f->share, longer = f->e->trials.longer;
    if (longer > 0.0 && f->slowest < 0) /* all else stays the same */
        return 2.0 * f->step / (f->step + longer);
    double once =
        s[YK_PHASE_WORKERS] + s[YK_PHASE_OTHER] + f->messages; /* per step, independent of the batch */
    if (f->tiny)
        once += 0.5 * s[YK_PHASE_APPLY];
    if (f->e->keyed && f->waste[YK_VERDICT_BANDWIDTH] > 0.0)
        once -= f->messages; /* a larger batch has more keys */
    if (f->slowest >= 0)
        once -= s[YK_PHASE_WORKERS]; /* the straggler takes twice as long as well */
    return 2.0 / (2.0 - fmin(fmax(once, 0.0), 1.0));
}

/* No worker waits for another one. Gradients of sparse models need not be merged, but how long that takes is not known. */
static double estimate_async(const yk__facts *f)
{
    const yk_evidence *e = f->e;
    double rate = 0.0;
    for (int i = 0; i < e->nmeasured; i++) {
        const double busy = yk__busy_step(&e->measured[i], false);
        rate += busy > 0.0 ? 1.0 / busy : 0.0;
    }
    if (!e->nmeasured || (e->keyed && e->ranks <= 1))
        return (double)NAN;
    if (f->waste[YK_VERDICT_BANDWIDTH] > yk__significant) /* as many bytes are sent */
        return 1.0;
    const double speedup = fmax(rate * f->step / e->nmeasured, 1.0);
    if (f->slowest >= 0)
        return fmin(speedup, largest);
    return fmin(speedup, max_speedup(f));
}

void yk__verdict_estimate(const yk__facts *f, yk__cause cause, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    const bool stopped = f->stopped >= 0 || f->slowest_halted > yk__often_halted;
    if (cause == YK__COMPETITION || cause == YK__MEMORY_PRESSURE || stopped)
        return;
    if (cause == YK__OVERSUBSCRIBED) { /* most of the waiting is for a core */
        add(v, e, YK_CHANGE_WORKER, fmin(estimate_time_sharing(f), 1.0));
        return;
    }
    add(v, e, YK_CHANGE_WORKER, estimate_one_more_worker(f, v->kind));
    add(v, e, YK_CHANGE_BATCH, estimate_twice_the_batch(f));
    if (e->synchronous && e->workers > 1)
        add(v, e, YK_CHANGE_ASYNC, estimate_async(f));
}
