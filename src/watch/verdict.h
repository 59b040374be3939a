/* What held a run back, in words: from measured phases and resources to one sentence, an advice and estimates.
 *
 *     yk_evidence e = {.workers = 2, .synchronous = true, .batch = 64, .measured = w, .nmeasured = 2, .usage = &usage, ...};
 *     yk_verdict v;
 *     yk_verdict_find(&e, &v);
 *     printf("%s; %s\n", v.text, v.advice);        // "synchronisation: 41 % of the time ..."; "try --batch 256 ..."
 *
 * A pure function: the same evidence gives the same verdict, during a run as after it. It asks in this order, and the first
 * yes is the answer:
 *
 *     too little seen?                         none
 *     waiting for memory to come from disk?    memory
 *     workers without a core, others busy?     cpu (others compete), unless more is lost in waiting for data or messages, or
 *                                              for a worker that is much slower than the rest
 *     the largest of what is not work, from 20 % of the time on:
 *         waiting for input                    disk where a disk has no rest, else input pipeline
 *         waiting for parameters, sending      network bandwidth or network latency, whichever explains more of it
 *         waiting for other workers            straggler where it is always the same one, else synchronisation
 *         saving                               disk
 *     computing for more than half?            cpu
 *     else                                     none
 *
 * The text begins with the name of the kind. What is not known in the evidence is 0 or NaN.
 */
#ifndef YK_WATCH_VERDICT_H
#define YK_WATCH_VERDICT_H

#include "watch/phase.h"
#include "watch/resources.h"

typedef enum {
    YK_VERDICT_NONE,
    YK_VERDICT_CPU,
    YK_VERDICT_BANDWIDTH,
    YK_VERDICT_LATENCY,
    YK_VERDICT_DISK,
    YK_VERDICT_INPUT,
    YK_VERDICT_MEMORY,
    YK_VERDICT_SYNC,
    YK_VERDICT_STRAGGLER,
    YK_VERDICT_KINDS
} yk_verdict_kind;

/* One worker, of this process or of another rank. */
typedef struct {
    int rank, worker; /* worker: within its rank; negative: the rank is the worker */
    yk_phases_sample look;
} yk_worker_evidence;

typedef struct {
    bool synchronous;   /* synchronous */
    bool network;       /* a network: its workers can have --threads */
    bool streamed;      /* the data is read anew in each epoch */
    int workers, ranks; /* all workers; processes (0 and 1: one) */
    int threads;        /* of one worker */
    uint64_t batch;     /* per worker */
    int host_workers;   /* of them, those on the host of `usage`; 0: all */
    double seconds;
    const yk_worker_evidence *measured; /* [nmeasured] borrowed */
    int nmeasured;
    const yk_usage *usage; /* of the host that is worst off; borrowed, NULL: not measured */
    /* several ranks only: */
    double bytes_per_step; /* of a worker, both ways together */
    double link_rate;      /* bytes per second of a worker's link, measured or known */
    double round_trips;    /* of a worker's step: how often it must wait for an answer */
    double round_trip;     /* seconds of one */
} yk_evidence;

enum { YK_MAX_NUMBERS = 20, YK_MAX_ESTIMATES = 3 };

typedef struct {
    yk_verdict_kind kind;
    double share; /* of the workers' time that it costs */
    char text[400], advice[400];
    char brief[64]; /* "input pipeline 83 %" */
    int nnumbers;
    struct {
        const char *name;
        double value;
    } number[YK_MAX_NUMBERS];
    int nestimates;
    struct {
        const char *change;
        double speedup; /* in examples per second */
    } estimate[YK_MAX_ESTIMATES];
} yk_verdict;

const char *yk_verdict_name(yk_verdict_kind kind);
void yk_verdict_find(const yk_evidence *e, yk_verdict *out);

/* Mean shares of the workers' time, which add up to 1; all 0 where nothing was measured. */
void yk_verdict_shares(const yk_worker_evidence *w, int n, double share_out[YK_PHASES]);

#endif
