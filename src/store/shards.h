/* Shards: parameter servers own the parameters. They are dedicated processes, or every process owns a part. This is the client
 * side: the connection of a process that trains to the servers (messages.h), and the store of its workers.
 *
 * Example:
 *     yk_shards *s;
 *     yk_store *store;
 *     yk_status st = yk_shards_create(&config, &s);
 *     if (!st)
 *         st = yk_shards_store(s, &whole, NULL, 0, &store); // when the workers and their data are known
 *     // then as in store.h
 *     yk_shards_free(s);                              // also the store
 *
 * The store sends the gradient of each step, or takes up to H steps on a copy of the parameters (local_copy.h), which is then merged:
 *
 *     lockstep       announce 0 | pull 0  grad 0  announce 1  push 0 + keys 1  clock: all have pushed 0 | pull 1 ...
 *     asynchronous   announce 0 | pull 0  grad 0  announce 1  push 0  clock: waits for nobody | pull 1 ...
 *     with keys      announce 0, 1 | pull 0  grad 0  push 0 + keys 1  announce 2  clock: finds keys 2 | pull 1 ...
 *     copies         announce 0 | pull 0  step step step step  announce 1  push delta 0 + keys 1 | pull 1  step step ...
 *     prefetched     announce 0, announce 1 | pull 0  step step  announce 2  push delta 0 + keys 2 | pull 1 (has arrived)  step ...
 *
 * The keys of a batch are remapped to indices into the distinct keys of a request. The answer is a small table of just these
 * parameters, which fits into a cache.
 *
 * In rounds, with local SGD, and if the model has a dense group, the threads of a process work together, in one channel. They find the
 * keys of a request together, sum their gradients in thread order, and each thread sends the sum to some of the servers; or they train
 * synchronously on one copy. So less is sent, and fewer gradients are in flight. Otherwise, each thread has its own channel.
 *
 * Local SGD: a round is shorter than H steps if an evaluation, a checkpoint or the end is due. In lockstep, all processes have the
 * same rounds, whose first step all know without a message. A process without batches takes part with zero examples, until no
 * process has any. Otherwise, learning rates and decay follow the servers' step count, and a process counts its own steps from there.
 *
 * Linear models in asynchronous mode (docs/convergence.md): each thread trains on its own copy of the keys of its next H batches, at
 * first of fewer (`copy_lifetime` of the plan). By default, two copies are in flight, so that a worker does not wait unless there
 * is a staleness bound. A bound K limits all copies of a worker in flight to K steps together. A worker sends the share of its delta that
 * optim/optim.h defines; T is the number of copies in flight, and the sum of squares is over the batches of the copy, so that the
 * frequencies of keys need not be known in advance. For data in memory, a copy holds one chunk (chunks.h), whose keys are found
 * once; a copy of fewer batches has only their keys. Lazy decay (local_decay.c) is applied by the servers: these copies do not decay.
 *
 * The servers' answers say when to stop and, in lockstep, when an epoch is over: after a round in which no worker had examples.
 * With a quorum, gradients are summed in rounds, but workers lease their examples and do not wait for each other. clock() reports
 * `pending` for all steps on a copy but the last. Each worker calls the store on its own thread.
 *
 * yk_shards_pump() sends and receives messages. A process with one thread calls it while it waits. If there are several, or
 * if the process is also a server, `has_progress_thread` is set: one thread calls yk_shards_pump() continuously, and the others
 * only queue messages and wait. Every wait has a deadline, and its error names the server.
 */
#ifndef YK_STORE_SHARDS_H
#define YK_STORE_SHARDS_H

#include "comm/comm.h"
#include "data/assignment.h"
#include "store/chunks.h"
#include "store/local.h"
#include <signal.h>

typedef struct yk_shards yk_shards;

typedef struct {
    yk_comm *comm; /* borrowed, like all pointers here */
    const yk_plan
        *plan;   /* placement, optimizers and staleness bounds of the groups; threads, channels, timeouts */
    bool joined; /* this process joined the job: server k is peer 1 + k; otherwise rank k */
    yk_group group[YK_MAX_GROUPS];
    uint32_t bias_key;                  /* the key of the bias of keyed groups; UINT32_MAX: none */
    yk_phases *phases;                  /* [threads] NULL: not measured */
    const volatile sig_atomic_t *stop;  /* non-zero: asks rank 0 to end the job; NULL: never */
    const volatile sig_atomic_t *leave; /* non-zero: a worker that joined must leave; NULL: never */
} yk_shards_config;

yk_status yk_shards_create(const yk_shards_config *config, yk_shards **out);
void yk_shards_free(yk_shards *s); /* NULL is fine */

/* A worker that joins a running job calls this first. identity: a digest of program, options, data and model. */
yk_status yk_shards_join(yk_shards *s, uint64_t identity);

/* Creates the store of the workers. whole: as for a store of all parameters (without copies), or for a copy, with keyed groups as
 * large as a copy needs; its team has all threads. chunks: of data in memory: each scaled copy holds one chunk; NULL: a copy holds
 * any batches. first_step: where local SGD begins; more than 0 if the run was resumed. */
yk_status yk_shards_store(yk_shards *s, const yk_local_config *whole, yk_chunks *chunks, uint64_t first_step,
                          yk_store **out);

/* The next lease of examples for a thread, from server 0, requested in advance. Empty: there are no examples, or none for
 * now. chunk_rows: data/assignment.h. */
yk_status yk_shards_lease(yk_shards *s, int thread, yk_lease *out, uint64_t *chunk_rows_out);
/* The same for streamed data. *number: the stream that the thread returns (-1: none), then the one to continue with (-1: none,
 * or none for now). last: the returned stream's cursor after its last batch. cursor: where it continues. */
yk_status yk_shards_stream(yk_shards *s, int thread, const uint64_t last[YK_CURSOR_SIZE], int *number,
                           uint64_t cursor[YK_CURSOR_SIZE]);
bool yk_shards_orphans(const yk_shards *s); /* whether there are streams without a worker */
/* Whether this process was declared lost, so that the lease went to others. */
bool yk_shards_revoked(const yk_shards *s, int thread);

/* Sends and receives messages. Called by the progress thread, or by the only thread. */
yk_status yk_shards_pump(yk_shards *s, bool *busy_out);
/* Called by the same thread: sends heartbeats that are due, and checks those of the servers. */
yk_status yk_shards_alive(yk_shards *s);
void yk_shards_fail(yk_shards *s); /* waiting threads return YK_ESTOP */

#endif
