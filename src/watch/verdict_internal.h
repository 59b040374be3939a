/* Inside of the verdict: what verdict.c has found out, and verdict_words.c says. */
#ifndef YK_WATCH_VERDICT_INTERNAL_H
#define YK_WATCH_VERDICT_INTERNAL_H

#include "watch/verdict.h"
#include <math.h>

/* What the numbers say, before anything is concluded. */
typedef struct {
    const yk_evidence *e;
    double share[YK_PHASES];
    double waste[YK_VERDICT_KINDS]; /* shares that would be lost to each kind */
    double step;                    /* seconds of a worker's step */
    double steps, rate;             /* of a worker, in all; examples per second of all */
    double cpu, cpu_host, others;   /* cores: ours, all, others' */
    double cores, host_cores, free; /* that we may use; there are; are idle and ours */
    double waiting, threads;        /* threads of ours that are ready and have no core; of workers, in all */
    double delayed;                 /* share of the workers' time in which they had no core */
    double crowded;                 /* share that is lost because processes share too few cores */
    bool tiny;                      /* steps that consist of getting together */
    int slowest;                    /* measured, -1: none stands out */
    double slowest_factor, slowest_last;
} yk__facts;

/* Why the verdict is what it is; with YK__WASTE its kind says the rest. */
typedef enum {
    YK__TOO_SHORT,
    YK__SHORT_OF_MEMORY,
    YK__COMPETITION,
    YK__CROWDED,
    YK__WASTE,
    YK__WORK,
    YK__NOTHING
} yk__cause;

/* v->kind and v->share are known: the text and the advice. */
void yk__verdict_words(const yk__facts *f, yk__cause cause, yk_verdict *v);

static inline double yk__known(double x, double otherwise)
{
    return isfinite(x) ? x : otherwise;
}

/* Seconds of a step in which a worker did not wait for the others. */
static inline double yk__busy_step(const yk_worker_evidence *w)
{
    const yk_phases_sample *l = &w->look;
    const double busy =
        l->seconds - l->phase[YK_PHASE_WORKERS] - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT];
    return l->steps ? busy / (double)l->steps : 0.0;
}

#endif
