/* Private to the verdict: verdict_facts.c derives figures from the evidence, verdict.c draws the conclusion and writes the
 * text. */
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

/* The worker for which all others wait, or which contributes less than they do. */
typedef struct {
    const yk_process_evidence *p; /* NULL: none */
    double factor;                /* how many times as long as those of the others its steps take */
    double on_core;               /* the same without the time in which it had no core */
    double step;                  /* seconds of its own work per step */
    double last;                  /* share of the barriers at which it was last */
    double halted; /* share of the time in which it was stopped or had no core; 0: as the others */
} yk__slow_worker;

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
    double waiting, threads;        /* threads of this run that are runnable but have no core; all of them */
    double delayed;                 /* share of the threads' time without a core */
    double oversubscribed;          /* share of the time lost because threads share too few cores */
    double shared_cores;            /* cores that they share */
    bool tiny;                      /* steps so short that synchronization dominates */
    bool several_hosts;             /* ranks on several hosts */
    double bytes_per_step;          /* of the worker that sends and receives most */
    yk__link link;
    yk__slow_worker slowest;
    /* servers; NULL: none */
    const yk_process_evidence *server;  /* the busiest one */
    const yk_process_evidence *stopped; /* it was stopped, or had no core, for much of the time */
    double stopped_share;               /* of the time */
} yk__facts;

void yk__verdict_facts(const yk_evidence *e, yk__facts *out);

#endif
