/* A client's side of parameter servers: what the threads of a process ask of them, by messages (messages.h). shards.c makes
 * a store of it.
 *
 *     st = yk_remote_create(&config, &r);
 *     st = yk_remote_add(r, lane, thread, &batch, cursor, &i);   // its keys will be asked for; a sparse batch is copied
 *     st = yk_remote_ask(r, lane);                               // now, without a push
 *     st = yk_remote_await(r, lane, &answer);                    // the oldest answer that this lane asked for
 *     batch = yk_remote_batch(&answer, i);                       // the i-th batch that was added
 *     st = yk_remote_push(r, lane, &push);                       // together with what was added since
 *
 * The keys of a batch are remapped to indices into the distinct keys that were asked for (a bias has index 0). The
 * answer is a small table of just these parameters, which fits into a cache.
 *
 * A lane belongs to one thread at a time. Messages are sent and received in yk_remote_pump(). With one thread that is
 * called while it waits. With several, or where the process is a server as well, `driven` is set: one thread calls
 * yk_remote_pump() all the time, and the others only leave messages and wait. Every wait has a deadline and names the
 * server.
 */
#ifndef YK_STORE_REMOTE_H
#define YK_STORE_REMOTE_H

#include "base/grad.h"
#include "comm/comm.h"
#include "store/assignment.h"
#include "store/chunks.h"
#include "store/store.h"
#include "watch/phase.h"
#include <signal.h>

typedef struct yk_remote yk_remote;

typedef struct {
    yk_comm *comm;
    int servers;
    const int *peer; /* [servers] where they are; NULL: ranks 0 .. servers - 1. Borrowed */
    int ngroups;
    yk_group group[YK_MAX_GROUPS];
    int arrays[YK_MAX_GROUPS]; /* that travel: 1, or with local SGD the optimizer's state, too */
    int lanes, threads;        /* of this process; lanes: 1 or as many */
    int depth;                 /* answers that a lane may have under way */
    bool lockstep;             /* every push is answered */
    bool driven;
    uint32_t bias_key; /* of keyed groups: the key of the bias; UINT32_MAX: none */
    double timeout;    /* seconds without a word from a server after which it is lost */
    double alive;      /* seconds between heartbeats to servers */
    yk_phases *phases; /* [threads] borrowed; NULL: not measured */
    const volatile sig_atomic_t
        *leave; /* of a worker that joined: non-zero when it shall leave; NULL: never */
} yk_remote_config;

/* What the servers said with an answer. */
typedef struct {
    uint64_t round, steps; /* rounds that are over, or updates; steps so far, of all */
    uint64_t examples;     /* lockstep: of the last round; 0: the epoch is over */
    double loss;
    uint64_t kept; /* ns that our last gradient waited at server 0 for those of others */
    bool stop;
} yk_remote_news;

typedef struct {
    const void *asked;
    size_t keys, batches;
    const float *squares;        /* [keys] sum of the squared values of each key in these batches */
    double squares_sum;          /* of all */
    uint64_t entries;            /* values that these are of */
    float *value[YK_MAX_GROUPS]; /* [arrays][keys or floats]; the client's to change until its push */
    yk_remote_news news;
} yk_remote_answer;

typedef struct {
    uint64_t steps, examples;
    double loss;
    const float
        *value[YK_MAX_GROUPS]; /* as in the answer that it is for; not read where there are no examples */
    uint64_t round;
    const uint64_t *share; /* [threads of the lane] examples of each */
} yk_remote_pushed;

yk_status yk_remote_create(const yk_remote_config *config, yk_remote **out);
void yk_remote_free(yk_remote *r); /* NULL is fine */

/* Of one that joins a running job: what it is, before all else. */
yk_status yk_remote_hello(yk_remote *r, uint64_t identity);

yk_status yk_remote_add(yk_remote *r, int lane, int thread, const yk_batch *batch,
                        const uint64_t cursor[YK_CURSOR], size_t *index_out);
/* A batch whose keys are those of a chunk (chunks.h); all batches until the next request have the same one. */
yk_status yk_remote_add_chunk(yk_remote *r, int lane, int thread, const yk_chunk *chunk,
                              const yk_batch *batch, const uint64_t cursor[YK_CURSOR]);
void yk_remote_drop(yk_remote *r, int lane); /* what was added and not asked for yet */
/* Without keyed groups: one more batch of this thread is in what the lane computes with. */
void yk_remote_share(yk_remote *r, int lane, int thread, const uint64_t cursor[YK_CURSOR]);
size_t yk_remote_added(const yk_remote *r, int lane);
yk_status yk_remote_ask(yk_remote *r, int lane);
int yk_remote_under_way(const yk_remote *r, int lane); /* answers that were asked for and not awaited */
yk_status yk_remote_await(yk_remote *r, int lane, yk_remote_answer *out);
yk_batch yk_remote_batch(const yk_remote_answer *a, size_t i);
yk_status yk_remote_push(yk_remote *r, int lane, const yk_remote_pushed *p);

/* Leases of examples from server 0, by thread; asked for ahead. An empty one: there are none, or none for now. */
yk_status yk_remote_lease(yk_remote *r, int thread, yk_lease *out,
                          uint64_t *unit_out);          /* unit: assignment.h */
bool yk_remote_revoked(const yk_remote *r, int thread); /* we were declared lost: the lease went to others */
/* Threads first .. end - 1 have no examples: over, or none for now (after a short sleep). */
void yk_remote_rest(yk_remote *r, int first, int end, yk_step_result *out);
void yk_remote_idle(yk_remote *r, int thread,
                    bool idle); /* it has nothing under way; servers do not wait for it */

/* Sends and receives; for the thread that drives, or for long computations of the only one. */
yk_status yk_remote_pump(yk_remote *r, bool *busy_out);
yk_status
yk_remote_alive(yk_remote *r); /* the same thread: heartbeats, if it is time; are the servers alive? */
yk_status yk_remote_compute(yk_remote *r,
                            bool *busy_out); /* both, for the only thread, in a long computation */
void yk_remote_fail(yk_remote *r);           /* those that wait return YK_ESTOP */

/* Whether this worker was told to leave the job that it joined. */
bool yk_remote_leaves(const yk_remote *r);

/* A leave message: this lane sends nothing more, and its unused examples go to others. */
yk_status yk_remote_leave(yk_remote *r, int lane);

#endif
