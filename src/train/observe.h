/* Inside of a run: who watches it. Ties src/watch to the trainer.
 *
 *     yk__observe_share(t)              every process: where the run directory is, and how far away the chief
 *     yk__observe_start(t)              before the workers start: phases, sampler, timeline, live page
 *     yk__observe_progress(t, ...)      worker 0, a few times a second
 *     yk__observe_eval(t)               worker 0, after a test
 *     yk__observe_traffic(t)            the thread that sends, each step; also tells the chief, or hears the others (tell.h)
 *     yk__observe_stop(t, st)           after they have ended: what this process saw of itself, in t->self
 *     yk__observe_conclude(t)           from what all processes saw to the verdict, and their timelines in one file
 *
 * Three kinds of threads meet here, and training never waits for the other two: worker 0 leaves numbers in atomics; the
 * sampling thread picks them up, keeps history and verdict under a lock; the server's thread copies those under the same
 * lock and writes documents from its copy (live.c). Worker 0 takes that lock after a test only, and tries, no more, when it
 * wants to know the verdict or the last sample.
 */
#ifndef YK_TRAIN_OBSERVE_H
#define YK_TRAIN_OBSERVE_H

#include "train/tell.h"
#include "train/trainer.h"
#include "watch/http.h"
#include "watch/trace.h"
#include <pthread.h>

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

/* What the page shows; bounded: when it is full, every other point goes. */
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

struct yk__observer {
    yk__trainer *t;
    yk_resources *resources;
    yk_trace *trace;
    yk_trace_track *counters;
    yk_http *http;
    uint64_t began_ns;

    /* left by worker 0 */
    atomic_uint_fast64_t step, examples, sent, received;
    _Atomic double loss, rate, step_rate, epoch, seconds_left, lr, accuracy, test_loss; /* NaN: not known */

    /* between the processes of a job (tell.h) */
    atomic_bool tell_due; /* set by the sampling thread: now and then it is time to tell, or to hear */
    bool mute;            /* nobody listens any more */
    yk__telling telling;
    yk_op tell_op;

    pthread_mutex_t lock; /* of the rest */
    yk__teller **teller;  /* [ntellers] on the chief: the others; owned */
    int ntellers;
    size_t teller_cap;
    yk__history history;
    double judged_at, written_at, told_at; /* the sampling thread's */
};

typedef struct yk__observer yk__observer;

/* conclude.c: a verdict while it goes on, of this process and those that have told us of themselves; false: of nobody yet */
bool yk__judge_so_far(yk__observer *o, yk_usage *usage_out, yk_verdict *out);

/* live.c: the documents of the live page */
char *yk__live_document(void *observer, yk_http_document which);

#endif
