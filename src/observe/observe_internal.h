/* The observer, private to src/observe, and its parts:
 *
 *     observer.c     create, start, stop and free; the sampling thread; the progress of worker 0
 *     link.c         before the first step: the run directory; latency and bandwidth to the chief
 *     telemetry.c    statistics from the ranks to the chief, during training and at the end
 *     metrics.c      metrics.jsonl, the progress line, the curve of evaluations
 *     tensorboard.c  TensorBoard, the run, and a directory per worker
 *     live.c         the documents of the live page
 *     timeline.c     the trace
 *     evidence.c     one verdict from the measurements of all processes
 *     observation.c  the results as a part of summary.json
 *     warnings.c     warnings about conclusions, their names and texts
 *     lines.c        files of JSON lines
 */
#ifndef YK_OBSERVE_OBSERVE_INTERNAL_H
#define YK_OBSERVE_OBSERVE_INTERNAL_H

#include "base/sync.h"
#include "format/events.h"
#include "observe/observe.h"
#include "watch/trace.h"

typedef struct yk__metrics yk__metrics;
typedef struct yk__tensorboard yk__tensorboard;

/* Limits: points on the live page; evaluations, there and for warnings. */
enum { YK__POINTS = 240, YK__MAX_CURVE = 512 };

/* A point of the curves of the live page and of the timeline. live.c lists its columns in the same order. For other processes than
 * the chief, only those of `process` are known. */
typedef struct {
    double seconds, cpu, rss, sent, received;
} yk__process_point;

typedef struct {
    yk__process_point process;
    double step, loss, examples_per_second, cpu_host;
    double sent, received; /* of all processes */
    double net_in, net_out, disk_read, disk_written;
    double at; /* ns of base/clock.h */
} yk__point;

/* A process over time. Bounded: when it is full, every other point is dropped. */
typedef struct {
    int n;
    double every; /* seconds between points, at least */
    yk__point point[YK__POINTS];
} yk__curve;

/* What the live page shows, and the timeline. */
typedef struct {
    yk_progress_report progress;
    yk_evaluation tested; /* the last one; NaN: none yet */
    yk_run_end end;       /* its state is NULL during the run */
    char error[256];      /* of a run that failed */
    yk__curve process;
    int ncurve;
    yk_evaluation curve[YK__MAX_CURVE]; /* evaluations, added by worker 0 */
    yk_sample sample;
    yk_usage usage;
    yk_verdict verdict;
    bool judged;
} yk__history;

/* ---- telemetry ---- */

typedef struct {
    uint32_t magic;
    bool last;
    /* rank: N of its directory worker-N in the run directory; -1: none. Bytes: include the last message. */
    yk_process process;
} yk__telemetry;

/* A rank that sends to the chief. */
typedef struct {
    int peer;
    bool over; /* no more messages: the last one was received, or the rank is unreachable */
    bool receiving, fresh;
    yk_worker_status status; /* from the servers */
    yk_op op;
    yk__telemetry in;
    /* protected by the observer's lock */
    bool known;
    yk__telemetry newest;
    yk__curve curve;
} yk__peer;

typedef struct {
    atomic_bool due;  /* set by the sampling thread: time to send or to receive */
    bool unreachable; /* the chief is unreachable */
    yk__telemetry out;
    yk_op op;
    yk__peer **peer; /* [npeers] on the chief: the other ranks; owned */
    bool ending;     /* the end of the job: a lost rank stays lost */
    int npeers;
    size_t cap;
} yk__telemetry_state;

/* ---- the observer ---- */

struct yk_observer {
    yk_observer_config c;
    bool single_process; /* the run has one process */
    bool started;        /* yk_observer_start() was called */
    bool unchanged;      /* the files of the run do not change */
    uint64_t steps;      /* of the run, when it ended */
    const char *state;   /* "done", "stopped", "failed"; NULL: it has not ended */
    double began;        /* when training began */
    char *shared_dir;    /* the chief's run directory; NULL: none, or not reachable from here */
    bool first_of_host;  /* the lowest rank with these network interfaces: it writes their traffic */
    int *host_of;        /* [ranks] the number of the host of each rank; NULL: not known */
    /* What is known of this process before the first step: its role, and measurements of its links. Its rank is N of its
     * directory worker-N: a free number if it joined. Constant after open. */
    yk_process base;
    yk_process self;      /* this process; complete after stop */
    int64_t clock_offset; /* ns to add to this process's clock to get the chief's */
    uint64_t clock_zero;  /* the chief's clock at the start; 0: not known */
    yk__metrics *metrics; /* on the chief */
    yk__tensorboard *tensorboard;
    yk_resources *resources;
    yk_trace *trace;
    yk_trace_track *counters; /* NULL until the end */
    _Atomic double page_seen; /* when the live page last fetched the state (base/clock.h); 0: never */
    atomic_bool end_seen;     /* it has fetched the final state */
    atomic_int saves;         /* checkpoints that were written */
    uint64_t began_ns;

    atomic_uint_fast64_t sent, received; /* bytes so far, written by the thread that may use `comm` */

    yk__telemetry_state telemetry;
    yk_op *state_op; /* on the chief: the last heartbeat to each rank; NULL: none yet */

    uint64_t curve_steps, curve_examples; /* of the run, at the last evaluation */

    yk_mutex lock; /* protects the rest, and telemetry.peer */
    yk__history history;
    double judged_at, written_at, sent_at; /* used by the sampling thread */
};

/* observer.c */
void yk__thin(void *points, size_t width, int *n); /* drops every other point of a full array */
void yk__curve_add(yk__curve *c, const yk_sample *s, yk__point p); /* sets p.process */
bool yk__observer_verdict(yk_observer *o, yk_verdict *out);        /* so far; false: none, or locked */
yk_progress_report yk__progress_unknown(uint64_t step);
/* The state of this process so far. yk__self_so_far() has the part that any thread may read; yk__observer_self() has all of it,
 * and is called by the thread that trains. */
yk_process yk__self_so_far(const yk_observer *o, const yk_usage *usage);
void yk__observer_self(const yk_observer *o, yk_process *out);
yk_usage yk__observer_usage(const yk_observer *o); /* of this process so far; after stop, of the whole run */
double yk__observer_seconds(const yk_observer *o); /* of the run, including those before a resume */

/* link.c: collective */
yk_status yk__link_open(yk_observer *o);

/* telemetry.c; called by the thread that may use `comm`, unless noted */
yk_status yk__telemetry_start(yk_observer *o); /* on the chief: lists the ranks */
void yk__telemetry_free(yk_observer *o);
void yk__telemetry_send(yk_observer *o);
void yk__telemetry_receive(yk_observer *o);
/* `self`, then the other processes by their latest telemetry; any thread. The caller frees the list. NULL, and *n_out 0: out of
 * memory. */
yk_process *yk__processes(yk_observer *o, const yk_process *self, int *n_out);
/* The curve of another process than the chief by its number; any thread. */
void yk__telemetry_curve(yk_observer *o, int rank, yk__curve *out);
/* Bytes of all purposes; what this process of a job has sent and received. */
yk_bytes yk__bytes_total(yk_comm *c);
void yk__count_traffic(const yk_observer *o, yk_process *p);

/* metrics.c, on the chief. The numbers of an evaluation, named by yk_metric_names. */
enum { YK__TRAIN_LOSS = 2, YK__TEST_LOSS, YK__VALIDATION_LOSS = 7, YK__METRICS = 10 };
static inline const double *yk__metrics_of(const yk_evaluation *e)
{
    return &e->m.epoch;
}
extern const char *const yk__rate_names[YK_RATES];
yk_status yk__metrics_open(yk_observer *o);
yk_status yk__metrics_close(yk_observer *o);

/* tensorboard.c; all called by one thread */
yk_status yk__tensorboard_open(yk_observer *o, const char *run_dir); /* NULL: does nothing */
/* brief: the loss and the rates only, for points in quick succession */
void yk__tensorboard_progress(yk_observer *o, const yk_progress_report *p, bool brief);
/* late: written after the evaluation, and without the staleness, which has changed since then */
yk_status yk__tensorboard_evaluated(yk_observer *o, const yk_evaluation *e, bool late);
yk_status yk__tensorboard_close(yk_observer *o, yk_status so_far);

/* live.c */
yk_status yk__live_start(yk_observer *o);
char *yk__live_status(void *observer); /* the caller frees it */

/* timeline.c */
yk_status yk__timeline_start(yk_observer *o);
/* Collective unless `single_process`. */
yk_status yk__timeline_save(yk_observer *o, bool single_process);

/* evidence.c: the verdict during training, from this process and the telemetry so far; false: no worker was measured */
bool yk__verdict_so_far(yk_observer *o, yk_usage *usage_out, yk_verdict *out);
yk_status yk__list_processes(yk_observer *o, yk_observation *w); /* at the end */
/* The usage of all processes of the run on the host of process i. A process that ran for a part of the time counts for that
 * part. */
void yk__usage_of_host(const yk_process *p, int n, int i, yk_usage *out);

#endif
