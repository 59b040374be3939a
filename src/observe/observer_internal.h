/* The parts of src/observe. Who calls what:
 *
 *     observer.c     life of an observer, its sampling thread, numbers that worker 0 leaves
 *     link.c         before the first step: where the run directory is, how far away the chief
 *     telemetry.c    ranks to the chief, during training; gather.c: at the end
 *     metrics.c      metrics.jsonl, the progress line
 *     tensorboard.c  TensorBoard, a folder per worker
 *     live.c         documents of the live page
 *     timeline.c     the trace
 *     evidence.c     measurements of all processes to one verdict
 *     observation.c  what was observed as a part of summary.json
 *     warnings.c     warnings about conclusions
 *     lines.c        files of JSON lines
 */
#ifndef YK_OBSERVE_OBSERVER_INTERNAL_H
#define YK_OBSERVE_OBSERVER_INTERNAL_H

#include "base/sync.h"
#include "observe/observe.h"
#include "observe/telemetry.h"
#include "watch/http.h"
#include "watch/trace.h"
#include <stdatomic.h>

typedef struct yk__metrics yk__metrics;
typedef struct yk__tensorboard yk__tensorboard;

/* Worker 0's numbers of the moment; NaN: not known. */
typedef struct {
    double loss, rate, step_rate, epoch, seconds_left, lr;
} yk__progress;

enum { YK__POINTS = 400, YK__TESTS = 200 };

typedef enum {
    YK__AT_SECONDS,
    YK__AT_STEP,
    YK__AT_LOSS,
    YK__AT_RATE,
    YK__AT_CPU,
    YK__AT_CPU_HOST,
    YK__AT_RSS,
    YK__AT_NET_IN,
    YK__AT_NET_OUT,
    YK__AT_DISK_READ,
    YK__AT_DISK_WRITTEN,
    YK__COLUMNS
} yk__column;

typedef struct {
    double seconds, step, loss, accuracy;
} yk__test_point;

/* What the live page shows. Bounded: when it is full, every other point is dropped. */
typedef struct {
    int npoints, ntests;
    uint64_t seen, every; /* samples; which of them are kept */
    double point[YK__POINTS][YK__COLUMNS];
    yk__test_point test[YK__TESTS];
    yk_sample sample;
    yk_usage usage;
    yk_verdict verdict;
    bool judged;
} yk__history;

struct yk_observer {
    yk_observer_config c;
    bool alone;             /* one process */
    bool started;           /* yk_observer_start() was called */
    bool unchanged;         /* the files of the run stay as they are */
    uint64_t steps;         /* of the run, when it ended */
    double began;           /* training */
    double first_step;      /* when the first step was over; 0: not yet */
    double earlier_seconds; /* of the run, before this process was there */
    char *shared_dir;       /* the chief's run directory; NULL: none, or not reachable from here */
    int number;             /* of this process's folder there: its rank, or a free one if it joined */
    yk_process self;        /* this process; complete after stop */
    int64_t clock_offset;   /* ns to add to this process's clock to get the chief's */
    uint64_t clock_zero;    /* the chief's clock at the start; 0: not known */
    yk__metrics *metrics;   /* on the chief */
    yk__tensorboard *tensorboard;
    yk_resources *resources;
    yk_trace *trace;
    yk_trace_track *counters;
    yk_http *http;
    uint64_t began_ns;
    bool paused;

    /* left by worker 0 */
    atomic_uint_fast64_t step, examples, sent, received;
    _Atomic double loss, rate, step_rate, epoch, seconds_left, lr, accuracy, test_loss; /* NaN: not known */

    yk__telemetry_state telemetry;

    yk_mutex lock; /* of the rest, and of telemetry.peer */
    yk__history history;
    double judged_at, written_at, sent_at; /* the sampling thread's */
};

/* observer.c */
const char *yk__observer_role(const yk_observer *o);
bool yk__observer_verdict(yk_observer *o, yk_verdict *out); /* so far; false: none, or the lock is taken */
bool yk__observer_sample(yk_observer *o, yk_sample *out);   /* the newest; likewise */
void yk__observer_progress(yk_observer *o, uint64_t step, uint64_t examples, const yk__progress *p);
void yk__observer_test(yk_observer *o, const yk_evaluation *e);
void yk__observer_phases(const yk_observer *o,
                         yk_phases_sample *out); /* of all workers: means of seconds, sums of counts */
void yk__observer_self(yk_observer *o, yk_process *out); /* the thread that trains: this process so far */
double yk__observer_seconds(const yk_observer *o);       /* of the run, with those before a resume */

/* link.c: collective */
yk_status yk__link_open(yk_observer *o);

/* gather.c: `self` as a report */
void yk__report_make(const yk_observer *o, const yk_process *self, yk_rank_report *out);

/* metrics.c, on the chief */
yk_status yk__metrics_open(yk_observer *o);
yk_status yk__metrics_close(yk_observer *o);

/* tensorboard.c; all called by one thread */
yk_status yk__tensorboard_open(yk_observer *o, const char *run_dir); /* NULL: does nothing */
void yk__tensorboard_progress(yk_observer *o, uint64_t step, const yk__progress *p);
yk_status yk__tensorboard_evaluated(yk_observer *o, const yk_evaluation *e);
yk_status yk__tensorboard_close(yk_observer *o, yk_status so_far);

/* live.c */
char *yk__live_document(void *observer, yk_http_document which);

/* timeline.c */
yk_status yk__timeline_start(yk_observer *o);
void yk__timeline_sample(yk_observer *o, const yk_sample *s);
/* Collective unless `alone`. */
yk_status yk__timeline_save(yk_observer *o, bool alone);

/* evidence.c: a verdict during training, from this process and the telemetry so far; false: of nobody yet */
bool yk__judge_so_far(yk_observer *o, yk_usage *usage_out, yk_verdict *out);
/* What all processes of the run on the host of process i use together, and how many workers they have. A process that was there
 * for a part of the time counts for that part. */
void yk__usage_of_host(const yk_process *p, int n, int i, yk_usage *out, int *workers_out);

#endif
