/* Rough estimates of the speedup, in examples per second, that some changes would bring. An estimate that the measurements do
 * not support is left out: on a host that is busy with other programs, the times say little about this run. */
#include "watch/verdict_internal.h"

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void add(yk_verdict *v, const char *change, double speedup)
{
    if (!isfinite(speedup))
        return;
    v->estimate[v->nestimates].change = change;
    v->estimate[v->nestimates++].speedup = speedup;
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

/* How many times as fast the run could be with all cores of its hosts. */
static double most(const yk__facts *f)
{
    const double cores = f->e->ranks > 1 ? f->host_cores : f->cores;
    const double hosts = f->e->hosts > 1 ? f->e->hosts : 1;
    const double used = f->e->workers * (f->e->threads > 1 ? f->e->threads : 1) * working(f);
    return cores > 0.0 && used > 0.0 ? fmax(cores * hosts / used, 1.0) : 1.0;
}

static double with_one_more(const yk__facts *f, yk_verdict_kind kind)
{
    const yk_evidence *e = f->e;
    const double n = e->workers, threads = e->threads > 1 ? e->threads : 1;
    const double cores = e->ranks > 1 ? f->host_cores : f->cores;
    double capacity = least(fmax(cores - f->threads, 0.0) / threads, 1.0);
    if (f->apart)
        capacity = 1.0; /* on one more host */
    if (kind == YK_VERDICT_BANDWIDTH || kind == YK_VERDICT_DISK || kind == YK_VERDICT_SERVER)
        capacity = 0.0; /* the bottleneck is shared by all workers */
    if (kind == YK_VERDICT_CONTENTION)
        capacity *= 0.2;
    double more = (n + capacity) / n;
    if (e->synchronous) {
        const double tiny = 3e-6; /* two barriers of two threads */
        const double wait = n > 1.0         ? (f->share[YK_PHASE_WORKERS] + f->messages) / n
                            : f->step > 0.0 ? tiny / f->step
                                            : 0.0;
        more /= 1.0 + wait;
    }
    return fmax(more, 0.5);
}

static double with_twice_the_batch(const yk__facts *f)
{
    const double *s = f->share;
    double once = s[YK_PHASE_WORKERS] + s[YK_PHASE_OTHER]; /* per step, independent of the batch */
    if (f->e->ranks > 1)
        once += f->messages;
    if (f->slowest >= 0)
        once -= s[YK_PHASE_WORKERS]; /* the straggler takes twice as long as well */
    return 2.0 / (2.0 - least(fmax(once, 0.0), 1.0));
}

/* No worker waits for another one. */
static double with_async(const yk__facts *f)
{
    const yk_evidence *e = f->e;
    double together = 0.0;
    for (int i = 0; i < e->nmeasured; i++) {
        const double busy = yk__busy_step(&e->measured[i], false);
        together += busy > 0.0 ? 1.0 / busy : 0.0;
    }
    return e->nmeasured ? least(fmax(together * f->step / e->nmeasured, 1.0), most(f)) : (double)NAN;
}

void yk__verdict_estimate(const yk__facts *f, yk__cause cause, yk_verdict *v)
{
    const yk_evidence *e = f->e;
    if (cause == YK__COMPETITION || cause == YK__SHORT_OF_MEMORY)
        return;
    add(v, "one more worker", cause == YK__OVERSUBSCRIBED ? 1.0 : with_one_more(f, v->kind));
    if (cause == YK__OVERSUBSCRIBED) /* most of the waiting is for a core */
        return;
    add(v, "twice the batch", with_twice_the_batch(f));
    if (e->synchronous && e->workers > 1)
        add(v, "asynchronous", with_async(f));
}
