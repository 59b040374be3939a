/* The bottleneck of a run: turns measured phases and resources into one sentence and advice.
 *
 * Example:
 *     yk_evidence e = {.workers = 2, .waits = true, .batch = 64, .measured = w, .nmeasured = 2, .usage = &usage};
 *     yk_verdict v;
 *     yk_verdict_find(&e, &v);
 *     printf("%s; %s\n", v.text, v.advice); // "synchronization: the workers ..."; "use a larger --batch ..."
 *
 * A pure function that any thread may call: the same evidence gives the same verdict, during a run and after it, and in the
 * tests, which replay recorded evidence. It checks these conditions in order; the first that holds gives
 * the verdict:
 *
 *     too few measurements                          none
 *     much time waiting for memory                  memory
 *     workers without a core:
 *         other programs use the cores              cpu (competition), unless more time is lost waiting for data, messages
 *                                                   or a much slower worker
 *         this run has more threads than cores      cpu (oversubscribed), unless data, the network, a server or a much
 *                                                   slower worker explains it
 *     the largest of these, if at least 20 % of the time (a slow asynchronous worker: 10 %):
 *         waiting for input                         disk if a disk is always busy, else input pipeline; data in memory:
 *                                                   only if reading it takes longer than computing
 *         waiting for parameters, sending           network bandwidth, if a link then runs at 60 % or more of the highest
 *                                                   rate seen on it, and one of its ends is without a core for less
 *                                                   time than transfers take; parameter server,
 *                                                   if one handles messages for most of that time; network
 *                                                   latency, if round trips explain it; else synchronization.
 *                                                   On one host, there is no network
 *         waiting for other workers                 straggler if it is always the same one, else synchronization
 *         checkpoints                               disk
 *         asynchronous: one worker is much slower   straggler
 *         asynchronous: applying takes longer       contention
 *         than computing
 *     more than half of the time computing          cpu
 *     otherwise                                     none
 *
 * The text begins with the name of the kind. Unknown values in the evidence are 0 or NaN.
 */
#ifndef YK_OBSERVE_VERDICT_H
#define YK_OBSERVE_VERDICT_H

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
    YK_VERDICT_SERVER,
    YK_VERDICT_CONTENTION,
    YK_VERDICT_KINDS
} yk_verdict_kind;

/* The link between a host and the network: bytes per second. 0: not known. */
typedef struct {
    double carried; /* in the busier direction, of all programs, while the process trained */
    double sampled; /* highest sample of that: what the link can sustain */
    /* that was seen on it in the run: in a sample, or by a probe, which may be a short burst */
    double highest;
} yk_link_evidence;

/* The measurements of a worker (a thread of this process, or a rank) or of a parameter server. */
typedef struct {
    int rank, worker; /* worker: within its rank; negative: the rank as a whole */
    const char *host; /* borrowed; NULL: not known */
    yk_phases_sample phases;
    double busy;           /* of a server: share of the time in which it handled messages */
    double cpu;            /* cores that its process used */
    double stopped;        /* share of the time in which its process was stopped */
    double delayed;        /* threads of its process that were runnable but had no core */
    double bytes_per_step; /* sent and received */
    yk_link_evidence link;
} yk_process_evidence;

typedef struct {
    bool waits;               /* a step waits for the gradients of all workers */
    const char *do_not_wait;  /* options with which it does not wait for a slow one: "--mode async" */
    const char *send_less;    /* options with which workers send less: "a larger --local-steps" */
    bool network;             /* the model is not linear: its workers can use --threads */
    bool streamed;            /* the data is read again in each epoch */
    int workers, ranks;       /* in total; ranks: 0 or 1: one process */
    int hosts;                /* with ranks; 0 or 1: one */
    int threads;              /* per worker */
    unsigned long long batch; /* per worker */
    int host_threads;         /* of this run on the host of `usage`; 0: all */
    int saves;                /* checkpoints that were written; 0: not known */
    double seconds;
    const yk_process_evidence *measured; /* [nmeasured] the workers; borrowed, like the next two */
    int nmeasured;
    const yk_process_evidence *server; /* [nservers] */
    int nservers;
    const yk_usage *usage; /* of the busiest host */
    /* several ranks only: */
    double round_trips; /* per step of a worker */
    double round_trip;  /* seconds */
} yk_evidence;

enum { YK_MAX_NUMBERS = 28 };

typedef struct {
    yk_verdict_kind kind;
    double share; /* of the workers' time that is lost */
    char text[400], advice[400];
    char host[64]; /* the host that is slow, or has the slow link or worker; "": none */
    int nnumbers;
    struct yk_verdict_number {
        const char *name;
        double value;
    } number[YK_MAX_NUMBERS];
} yk_verdict;

const char *yk_verdict_name(yk_verdict_kind kind);
void yk_verdict_find(const yk_evidence *e, yk_verdict *out);

/* Mean shares of the workers' time, which add up to 1; all 0: nothing was measured. */
void yk_verdict_shares(const yk_process_evidence *w, int n, double share_out[YK_PHASES]);

#endif
