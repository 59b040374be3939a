/* The bottleneck of a run: turns measured phases and resources into one sentence, advice and estimates.
 *
 * Example:
 *     yk_evidence e = {.workers = 2, .synchronous = true, .batch = 64, .measured = w, .nmeasured = 2, .usage = &usage};
 *     yk_verdict v;
 *     yk_verdict_find(&e, &v);
 *     printf("%s; %s\n", v.text, v.advice); // "synchronisation: 41 % of the time ..."; "try --batch 256 ..."
 *
 * A pure function that any thread may call: the same evidence gives the same verdict, during a run and after it. It checks
 * these conditions in order; the first that holds gives the verdict:
 *
 *     too few measurements                          none
 *     much time waiting for memory                  memory
 *     workers without a core, other programs busy   cpu (competition), unless more time is lost waiting for data, messages
 *                                                   or a much slower worker
 *     the largest of these, if at least 20 % of the time:
 *         waiting for input                         disk if a disk is always busy, else input pipeline
 *         waiting for parameters, sending           network bandwidth or network latency, whichever explains more of it
 *         waiting for other workers                 straggler if it is always the same one, else synchronisation
 *         checkpoints                               disk
 *     more than half of the time computing          cpu
 *     otherwise                                     none
 *
 * The text begins with the name of the kind. Unknown values in the evidence are 0 or NaN.
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

/* The measurements of one worker: a thread of this process, or a rank. */
typedef struct {
    int rank, worker; /* worker: within its rank; negative: the rank as a whole */
    yk_phases_sample phases;
} yk_worker_evidence;

typedef struct {
    bool synchronous;
    bool network;       /* the model is a network: its workers can use --threads */
    bool streamed;      /* the data is read again in each epoch */
    int workers, ranks; /* in total; ranks: 0 or 1: one process */
    int threads;        /* per worker */
    uint64_t batch;     /* per worker */
    int host_workers;   /* workers on the host of `usage`; 0: all */
    double seconds;
    const yk_worker_evidence *measured; /* [nmeasured] borrowed */
    int nmeasured;
    const yk_usage *usage; /* of the busiest host; borrowed, NULL: not measured */
    /* several ranks only: */
    double bytes_per_step; /* sent and received by a worker */
    double link_rate;      /* of a worker, in bytes per second */
    double round_trips;    /* per step of a worker */
    double round_trip;     /* seconds */
} yk_evidence;

enum { YK_MAX_NUMBERS = 20, YK_MAX_ESTIMATES = 3 };

typedef struct {
    yk_verdict_kind kind;
    double share; /* of the workers' time that is lost */
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

/* Mean shares of the workers' time, which add up to 1; all 0: nothing was measured. */
void yk_verdict_shares(const yk_worker_evidence *w, int n, double share_out[YK_PHASES]);

#endif
