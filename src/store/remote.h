/* The client side of parameter servers: the requests of a process's threads, as messages (messages.h). shards.h is
 * the store on top of it.
 *
 * Example:
 *     yk_remote *r;
 *     yk_remote_answer answer;
 *     yk_status st = yk_remote_create(&config, &r);
 *     st = yk_remote_add(r, channel, thread, &batch, NULL, false, cursor); // adds its keys to the next request
 *     st = yk_remote_pull(r, channel);                         // sends the request, without a push
 *     st = yk_remote_await(r, channel, &answer);               // the answer to the oldest outstanding request
 *     batch = yk_remote_batch(&answer, 0, 0);                  // the batch that was added, with remapped keys
 *     compute(&batch, &answer, &gradient);
 *     st = yk_remote_push(r, channel, &gradient);              // together with the next request
 *     yk_remote_free(r);
 *
 * The keys of a batch are remapped to indices into the distinct keys of the request. The answer is a small table of just these
 * parameters, which fits into a cache.
 *
 * A channel belongs to one thread at a time, or the threads of a channel find the keys of a request and send it together:
 *
 *     st = yk_remote_add(r, channel, thread, ...);                  // each thread
 *     for (stage = 0; stage < YK_REMOTE_STAGES; stage++) {          // a barrier of these threads between two stages
 *         st = yk_remote_find_keys(r, channel, stage, me, threads); // now, or later, when it is sent
 *     ...
 *     st = yk_remote_begin_push(r, channel);                        // the first thread; then a barrier
 *     st = yk_remote_push_part(r, channel, &gradient, me, threads); // each thread: the messages to some servers
 *
 * yk_remote_pump() sends and receives messages. With one thread, it is called while that thread waits. If there are several, or
 * if the process is also a server, `has_progress_thread` is set: one thread calls yk_remote_pump() continuously, and the others
 * only queue messages and wait. Every wait has a deadline, and its error names the server.
 */
#ifndef YK_STORE_REMOTE_H
#define YK_STORE_REMOTE_H

#include "comm/comm.h"
#include "core/grad.h"
#include "data/assignment.h"
#include "store/chunks.h"
#include "store/store.h"
#include "watch/phase.h"
#include <signal.h>

typedef struct yk_remote yk_remote;

typedef struct {
    yk_comm *comm;
    int servers;
    const int *peer; /* [servers] NULL: ranks 0 .. servers - 1. Borrowed */
    int ngroups;
    yk_group group[YK_MAX_GROUPS];
    /* Number of arrays that are sent: 1, or with local SGD also the optimizer's state. */
    int arrays[YK_MAX_GROUPS];
    int channels, threads; /* of this process; channels: 1, or one per thread */
    bool rounds;           /* every push is answered, also one without examples: all take part in rounds */
    bool has_progress_thread;
    uint32_t bias_key;      /* the key of the bias of keyed groups; UINT32_MAX: none */
    double timeout;         /* heartbeat timeout: seconds without a message after which a server is lost */
    double heartbeat_every; /* seconds between heartbeats to servers */
    yk_wait_kind wait;      /* for messages */
    yk_phases *phases;      /* [threads] borrowed; NULL: not measured */
    const volatile sig_atomic_t *stop;  /* non-zero: asks rank 0 to end the job; NULL: never */
    const volatile sig_atomic_t *leave; /* non-zero: a worker that joined must leave; NULL: never */
} yk_remote_config;

/* The state of the servers, sent with an answer. */
typedef struct {
    uint64_t round, steps; /* completed rounds; global steps so far */
    uint64_t examples;     /* of the last round; 0: the epoch is over */
    double loss;
    int workers;              /* that train now, in the whole job */
    uint64_t gradient_waited; /* ns that the last gradient waited at server 0 for those of others */
    uint32_t reductions;      /* of the learning rate (local.h) */
    bool stop;
} yk_remote_status;

typedef struct {
    const void *request;
    const yk_chunk *chunk; /* the keys of the request; NULL: no keyed groups */
    size_t keys, batches;
    float *value[YK_MAX_GROUPS]; /* [arrays][keys or floats]; the client may modify them until its push */
    yk_remote_status status;
} yk_remote_answer;

typedef struct {
    uint64_t steps, examples;
    double extra_weight, loss;         /* as in a gradient (core/grad.h) */
    const float *value[YK_MAX_GROUPS]; /* as in the answer; not read if there are no examples */
    uint64_t round;
    uint32_t reductions;
    const uint64_t *share; /* [threads of the channel] examples of each */
} yk_remote_pushed;

yk_status yk_remote_create(const yk_remote_config *config, yk_remote **out);
void yk_remote_free(yk_remote *r); /* NULL is fine */
bool yk_remote_rounds(const yk_remote *r);

/* A worker that joins a running job calls this first. identity: a digest of program, options, data and model. */
yk_status yk_remote_join(yk_remote *r, uint64_t identity);

/* Adds a batch to the next request. `chunk`: the chunk of its rows (chunks.h), the same for all batches of a request; NULL: its
 * rows contain keys, not indices into a chunk. whole: the request is for all keys of the chunk. Otherwise it is only for the
 * keys of its batches, and sparse batches are copied. */
yk_status yk_remote_add(yk_remote *r, int channel, int thread, const yk_batch *batch, const yk_chunk *chunk,
                        bool whole, const uint64_t cursor[YK_CURSOR_SIZE]);
/* Without keyed groups: counts one more batch of this thread in the current gradient of the channel. */
void yk_remote_count_batch(yk_remote *r, int channel, int thread, const uint64_t cursor[YK_CURSOR_SIZE]);
size_t yk_remote_added(const yk_remote *r, int channel);
size_t yk_remote_added_by(const yk_remote *r, int channel, int thread);
yk_status yk_remote_pull(yk_remote *r, int channel);
int yk_remote_outstanding(const yk_remote *r, int channel); /* requests that were not awaited yet */
yk_status yk_remote_await(yk_remote *r, int channel, yk_remote_answer *out);
/* The batches that a thread added, in order. number: of the thread in its channel. */
size_t yk_remote_batches(const yk_remote_answer *a, int number);
yk_batch yk_remote_batch(const yk_remote_answer *a, int number, size_t i);
yk_status yk_remote_push(yk_remote *r, int channel, const yk_remote_pushed *p);

/* The same, divided among the `all` threads of a channel: thread `me` does its part. */
enum { YK_REMOTE_STAGES = 3 };
yk_status yk_remote_find_keys(yk_remote *r, int channel, int stage, int me, int all);
yk_status yk_remote_begin_push(yk_remote *r, int channel);
yk_status yk_remote_push_part(yk_remote *r, int channel, const yk_remote_pushed *p, int me, int all);

/* The next lease of examples for a thread, from server 0, requested in advance. Empty: there are no examples, or none for
 * now. chunk_rows: data/assignment.h. */
yk_status yk_remote_lease(yk_remote *r, int thread, yk_lease *out, uint64_t *chunk_rows_out);
/* The same for streamed data. *number: the stream that the thread returns (-1: none), then the one to continue with (-1: none,
 * or none for now). last: the returned stream's cursor after its last batch. cursor: where it continues. */
yk_status yk_remote_stream(yk_remote *r, int thread, const uint64_t last[YK_CURSOR_SIZE], int *number,
                           uint64_t cursor[YK_CURSOR_SIZE]);
bool yk_remote_orphans(const yk_remote *r); /* whether there are streams without a worker */
/* Whether this process was declared lost, so that the lease went to others. */
bool yk_remote_revoked(const yk_remote *r, int thread);
/* Ends a step of threads first .. end - 1: whether to stop. If they had no examples, sets `pending` if they have some for the
 * next step, or, after a short sleep, if there may be some later: they are idle then; else `over`. */
void yk_remote_end_step(yk_remote *r, int first, int end, bool stop, yk_step_result *out);

/* Sends and receives messages. Called by the thread that drives, or by the only thread. */
yk_status yk_remote_pump(yk_remote *r, bool *busy_out);
/* The same thread: sends heartbeats that are due, and checks those of the servers. */
yk_status yk_remote_alive(yk_remote *r);
/* Both, if there is only one thread: call it during long computations. */
yk_status yk_remote_progress(yk_remote *r);
void yk_remote_fail(yk_remote *r); /* waiting threads return YK_ESTOP */

/* Awaits outstanding answers, then sends a leave message: this channel sends nothing more, and its unused examples go to
 * others. */
yk_status yk_remote_leave(yk_remote *r, int channel);

#endif
