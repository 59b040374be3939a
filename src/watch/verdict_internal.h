/* Private to the verdict: what verdict.c finds, and verdict_text.c puts into words. */
#ifndef YK_WATCH_VERDICT_INTERNAL_H
#define YK_WATCH_VERDICT_INTERNAL_H

#include "watch/verdict.h"
#include <math.h>

/* Figures derived from the evidence. */
typedef struct {
    const yk_evidence *e;
    double share[YK_PHASES];
    double waste[YK_VERDICT_KINDS]; /* share of the time lost to each kind */
    double step;                    /* seconds per step of a worker */
    double steps, rate;             /* steps per worker; examples per second of all workers */
    double cpu, cpu_host, others;   /* cores in use: by this run, by all programs, by other programs */
    double cores, host_cores, free; /* that this run may use; of the host; idle ones that this run may use */
    double waiting, threads;        /* threads of this run that are runnable but have no core; all of them */
    double delayed;                 /* share of the workers' time without a core */
    double oversubscribed;          /* share of the time lost because processes share too few cores */
    bool tiny;                      /* steps so short that synchronization dominates */
    int slowest;                    /* index of the straggler in `measured`; -1: none */
    double slowest_factor, slowest_last;
} yk__facts;

/* The reason for a verdict. With YK__WASTE, its kind is the reason. */
typedef enum {
    YK__TOO_SHORT,
    YK__SHORT_OF_MEMORY,
    YK__COMPETITION,
    YK__OVERSUBSCRIBED,
    YK__WASTE,
    YK__WORK,
    YK__NOTHING
} yk__cause;

/* Sets the text and the advice, from v->kind and v->share. */
void yk__verdict_describe(const yk__facts *f, yk__cause cause, yk_verdict *v);

static inline double yk__known(double x, double otherwise)
{
    return isfinite(x) ? x : otherwise;
}

/* Seconds per step in which a worker did not wait for the others. */
static inline double yk__busy_step(const yk_worker_evidence *w)
{
    const yk_phases_sample *l = &w->phases;
    const double busy =
        l->seconds - l->phase[YK_PHASE_WORKERS] - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT];
    return l->steps ? busy / (double)l->steps : 0.0;
}

#endif
