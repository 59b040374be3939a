/* Private to the verdict: verdict_facts.c derives figures from the evidence, verdict.c draws the conclusion,
 * and verdict_text.c writes the text. */
#ifndef YK_OBSERVE_VERDICT_INTERNAL_H
#define YK_OBSERVE_VERDICT_INTERNAL_H

#include "observe/verdict.h"
#include <math.h>

/* Shares of the time. Smaller losses are not the bottleneck; a process that was stopped or had no core for longer is slow. */
static const double yk__significant = 0.2, yk__often_halted = 0.2;

/* The fullest link. */
typedef struct {
    const char *host;
    yk_link_evidence link;
    double share;  /* of the time that its bytes need at the highest rate */
    double needed; /* of the time that its bytes need at the highest sampled rate */
    double others; /* the highest rate of any other host */
    bool full;
    bool slow; /* much slower than the links of other hosts */
} yk__link;

/* Figures derived from the evidence. */
typedef struct {
    const yk_evidence *e;
    double share[YK_PHASES];
    double messages; /* share of the time for messages: parameters and sending; 0 in one process */
    double waste[YK_VERDICT_KINDS]; /* share of the time lost to each kind */
    double step;                    /* seconds per step of a worker */
    double steps, rate;             /* steps per worker; examples per second of all workers */
    double cpu, cpu_host, others;   /* cores in use: by this run, by all programs, by other programs */
    double cores, host_cores;       /* cores that this process may use; of the host */
    double run_cores;               /* cores that this run may use: each rank may be pinned to one core */
    double free;                    /* idle cores that this process may use */
    double worker_threads;          /* of each worker */
    double waiting, threads;        /* threads of this run that are runnable but have no core; all of them */
    double delayed;                 /* share of the threads' time without a core */
    double oversubscribed;          /* share of the time lost because threads share too few cores */
    double shared_cores;            /* cores that they share */
    bool tiny;                      /* steps so short that synchronization dominates */
    bool several_hosts;             /* ranks on several hosts */
    double bytes_per_step;          /* of the worker that sends and receives most */
    yk__link link;
    int slowest; /* index of the straggler in `measured`; -1: none */
    double slowest_factor, slowest_last;
    double slowest_on_core; /* the factor without the time in which it had no core */
    double slowest_halted;  /* share of the time in which it was stopped or had no core */
    int stopped; /* index of a server in `server` that was stopped, or had no core, for much of the time; -1: none */
    int server; /* index of the busiest server; -1: none */
} yk__facts;

/* The reason for a verdict. With YK__LOST_TIME, its kind is the reason. */
typedef enum {
    YK__TOO_SHORT,
    YK__MEMORY_PRESSURE,
    YK__COMPETITION,
    YK__OVERSUBSCRIBED,
    YK__LOST_TIME,
    YK__COMPUTING,
    YK__NOTHING
} yk__cause;

/* verdict_facts.c */
void yk__verdict_facts(const yk_evidence *e, yk__facts *out);

/* verdict_text.c: sets the text and the advice, from v->kind and v->share */
void yk__verdict_describe(const yk__facts *f, yk__cause cause, yk_verdict *v);

static inline double yk__known(double x, double otherwise)
{
    return isfinite(x) ? x : otherwise;
}

/* In a short run, a worker may be slow by chance: the scheduler may not have moved it to an idle core yet. */
static inline bool yk__brief(const yk__facts *f)
{
    return f->e->seconds < 0.5;
}

/* The share of the time in which a process had no core. On a full host, all processes compete: then, this says nothing about
 * one of them. */
static inline double yk__starved(const yk__facts *f, double delayed)
{
    const int processes = f->e->ranks - f->e->nservers;
    const double threads = processes > 0 ? fmax((double)f->e->workers / processes, 1.0) : 1.0;
    const bool full = f->cpu_host >= 0.85 * f->host_cores && !f->several_hosts;
    return full || yk__brief(f) ? 0.0 : fmin(yk__known(delayed, 0.0) / threads, 1.0);
}

/* Seconds in which a worker waited for others: for workers, and in a job for messages. */
static inline double yk__waited(const yk_worker_evidence *w, bool ranks)
{
    const double *p = w->phases.phase;
    return p[YK_PHASE_WORKERS] + (ranks ? p[YK_PHASE_PARAMETERS] + p[YK_PHASE_SENDING] : 0.0);
}

/* Seconds of its own work per step. */
static inline double yk__busy_step(const yk_worker_evidence *w, bool ranks)
{
    const yk_phases_sample *l = &w->phases;
    const double busy =
        l->seconds - yk__waited(w, ranks) - l->phase[YK_PHASE_EVAL] - l->phase[YK_PHASE_CHECKPOINT];
    return l->steps ? fmax(busy, 0.0) / (double)l->steps : 0.0;
}

#endif
