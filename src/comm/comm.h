/* Messages between the processes of a job, over the transport that its engine suggests (rendezvous.h): native or MPI.
 *
 * Example:
 *     yk_comm *c = NULL;
 *     yk_op op;
 *     // if yk_comm_expected().size > 0: an engine started this process
 *     yk_status st = yk_comm_start(NULL, NULL, 8.0, &c);
 *     if (!st)
 *         st = yk_comm_send(c, 1, tag, YK_PURPOSE_PUSH, gradient, bytes, &op); // does not block; keep the buffer until done
 *     if (!st)
 *         st = yk_comm_wait(c, &op, 1, 8.0, "the gradient"); // polls with a deadline; the error names the missing rank
 *     if (!st)
 *         st = yk_comm_barrier(c, 60.0, "the start");
 *     yk_comm_stop(c, st == YK_OK);
 *
 * Nothing blocks inside the transport. A wait calls the transport's test function and yk_wait_poll() until the operation is done or
 * its deadline has passed. This makes progress, is fair when there are more processes than cores, and detects hangs.
 *
 * A *peer* is a process. Peers 0 .. size - 1 are the ranks of the job. Workers that join a running job are numbered from
 * size on (yk_comm_joined). Bytes and messages are counted by purpose, when they are sent and when they have arrived.
 *
 * One thread of a process calls these functions. An error of the transport becomes a YK_ELOST that names the rank.
 */
#ifndef YK_COMM_COMM_H
#define YK_COMM_COMM_H

#include "base/status.h"
#include "comm/startup.h"
#include "core/group.h"

typedef struct yk_comm yk_comm;

typedef enum {
    YK_PURPOSE_PULL,
    YK_PURPOSE_PUSH,
    YK_PURPOSE_REDUCE,
    YK_PURPOSE_CONTROL,
    YK_PURPOSES
} yk_purpose;
extern const char *const yk_purpose_name[YK_PURPOSES];

typedef struct {
    uint64_t sent, received; /* bytes */
    uint64_t messages_sent, messages_received;
} yk_traffic;

/* What a process has sent and received so far. */
typedef struct {
    yk_traffic traffic[YK_PURPOSES];
    uint64_t values_sent
        [YK_MAX_GROUPS]; /* of these bytes, gradients, deltas and parameters: counted by the caller */
    uint64_t *sent_to;   /* [size] bytes of messages to each rank of the job */
} yk_comm_counts;

/* A message in flight. Owned by the caller, which must not move it until the operation is done. */
typedef struct {
    uint64_t request; /* the transport's handle */
    int peer;
    yk_purpose purpose;
    bool active, incoming;
    size_t bytes; /* incoming: the length, once it is done */
} yk_op;

enum { YK_ANY = -1 };

/* According to the environment. size 0: no engine started this process; 1: one process, or it is not known yet. */
typedef struct {
    int rank, size;
} yk_place;
yk_place yk_comm_expected(void);

/* Connects the processes of the job. Fails if the environment is wrong, or if the MPI world has one process but the
 * environment specifies more: then the launcher belongs to a different MPI. run_dir: where the processes of a Slurm job can
 * share a token; NULL: nowhere.
 *
 * With a `startup` (borrowed; may be NULL), and until yk_comm_ready(), processes send heartbeats to each other. Waits
 * then ignore their own deadlines: a wait fails when its peer misses the heartbeat timeout or has died, or when a signal
 * arrives (YK_EINTERRUPTED).
 *
 * timeout: a process on this host that is stopped by a signal for more than this many seconds is lost. Without a `startup`,
 * it is also the deadline for the first messages. */
yk_status yk_comm_start(const char *run_dir, yk_startup *startup, double timeout, yk_comm **out);

/* Called by all processes when training begins. From then on, the deadlines passed to waits apply. */
yk_status yk_comm_ready(yk_comm *c);

/* `clean` is false if a process is lost: then MPI_Finalize, which waits for all processes, is not called. NULL is fine.
 * The native transport waits for nobody. */
void yk_comm_stop(yk_comm *c, bool clean);

/* After an error, before the buffers of unfinished operations are freed: drops these operations. MPI cannot cancel them, but
 * the process makes no more progress on them. NULL is fine. */
void yk_comm_abandon(yk_comm *c);

/* After a signal that only this rank has received: asks rank 0, once, to save and end the job. Not counted as traffic. */
void yk_comm_ask_to_stop(yk_comm *c);
bool yk_comm_is_asked_to_stop(yk_comm *c); /* on rank 0 */

/* Ends all processes of the job. If it returns, the caller must exit. */
void yk_comm_abort(yk_comm *c, int status);

int yk_comm_rank(const yk_comm *c);
int yk_comm_size(const yk_comm *c);
int yk_comm_local_size(const yk_comm *c); /* processes on this host; NULL: 1 */
/* How many of ranks first .. first + count - 1 are on this host; 0 if ranks are not processes. */
int yk_comm_ranks_here(const yk_comm *c, int first, int count);
const char *yk_comm_library(const yk_comm *c); /* "Open MPI v4.1.4 ..." */
yk_comm_counts *yk_comm_counted(yk_comm *c);   /* the caller may update them */

yk_status yk_comm_send(yk_comm *c, int peer, int tag, yk_purpose why, const void *buf, size_t bytes,
                       yk_op *op);
yk_status yk_comm_recv(yk_comm *c, int peer, int tag, yk_purpose why, void *buf, size_t cap, yk_op *op);

/* Counts traffic of other functions, such as that through shared memory. */
void yk_comm_count(yk_comm *c, yk_purpose why, bool incoming, size_t bytes, size_t messages);
/* Moves bytes and messages that were counted under one purpose to another. */
void yk_comm_change_purpose(yk_comm *c, bool incoming, yk_purpose from, yk_purpose to, size_t bytes,
                            unsigned messages);

/* Whether the operation is done. An operation that was never started is done. */
yk_status yk_comm_test(yk_comm *c, yk_op *op, bool *done_out);

/* Whether a message from `peer` (YK_ANY: any rank of the job) can be received, and its length. */
yk_status yk_comm_probe(yk_comm *c, int peer, int tag, bool *found_out, int *peer_out, size_t *bytes_out);

/* Whether all processes of the job are on this host, and the user wants shared memory. */
bool yk_comm_on_one_host(const yk_comm *c);

/* The state of a process on this host: 'X' dead, 'T' stopped by a signal, else alive. 0: not known. */
char yk_comm_state(const yk_comm *c, int peer);
bool yk_comm_is_dead(const yk_comm *c, int peer);

/* Appends the ranks that are dead or stopped to the text of a YK_ELOST: "no worker is left (rank 1 is dead)". The rank
 * named in the error may only have waited for one of these. Also appends the hosts of ranks that are named, if they are others. */
yk_status yk_comm_explain(const yk_comm *c, yk_status st);

/* Waits for all `n` operations. `what` is for the error: "waited 8 s for WHAT". */
yk_status yk_comm_wait(yk_comm *c, yk_op *op, int n, double seconds, const char *what);

/* Sends or receives one message, and waits until it is done. */
yk_status yk_comm_send_wait(yk_comm *c, int peer, int tag, yk_purpose why, const void *buf, size_t bytes,
                            double seconds, const char *what);
yk_status yk_comm_recv_wait(yk_comm *c, int peer, int tag, yk_purpose why, void *buf, size_t bytes,
                            double seconds, const char *what);

/* Receives messages of any length from a peer, one at a time. Start with a zeroed struct; free(data) at the end. */
typedef struct {
    char *data;
    size_t cap;
    yk_op op; /* active: a message is being received; op.bytes: the length of the last one */
} yk_inbox;

/* Receives the next message, if there is one. *done_out: it is complete. */
yk_status yk_inbox_receive(yk_comm *c, yk_inbox *in, int peer, int tag, yk_purpose why, bool *done_out);

/* ---- all processes of the job ---- */

yk_status yk_comm_barrier(yk_comm *c, double seconds, const char *what);

/* `all` [size][bytes] on rank 0 (elsewhere NULL). */
yk_status yk_comm_gather(yk_comm *c, const void *mine, size_t bytes, void *all, double seconds,
                         const char *what);

/* The same with a different length on each rank. Rank 0 frees the pieces with yk_comm_pieces_free(). */
typedef struct {
    int n;
    char **data; /* [n] */
    size_t *bytes;
} yk_comm_pieces;

yk_status yk_comm_gatherv(yk_comm *c, const void *mine, size_t bytes, yk_comm_pieces *out, double seconds,
                          const char *what);
void yk_comm_pieces_free(yk_comm_pieces *p);

/* From rank 0 to all. */
yk_status yk_comm_broadcast(yk_comm *c, void *buf, size_t bytes, double seconds, const char *what);

/* Gathers `bytes` bytes from every rank in `all`, [size][bytes], on all ranks. */
yk_status yk_comm_all_gather(yk_comm *c, const void *mine, size_t bytes, void *all, double seconds,
                             const char *what);

/* From `root` to `count` ranks starting at `first`, which include the root. Only these ranks call it. */
yk_status yk_comm_broadcast_range(yk_comm *c, int root, int first, int count, void *buf, size_t bytes,
                                  double seconds, const char *what);

/* Memory shared by the ranks, if all are on one host: the bytes of rank r are at `at[r]`, zero at first. `at` is NULL, without an
 * error, where memory cannot be shared: the processes are on several hosts or in several containers, may not open each other's
 * files, or asked for different sizes. Use messages instead.
 *
 * The memory has no name in the file system: a rank opens that of the others through /proc. The kernel frees it when the
 * last process that maps it ends. */
typedef struct {
    char **at; /* [n] */
    int n;
    size_t bytes;
} yk_shared_memory;

yk_status yk_shared_memory_create(yk_comm *comm, size_t bytes, double seconds, yk_shared_memory *out);
void yk_shared_memory_free(yk_shared_memory *m); /* a zeroed one is fine */

/* ---- workers that join a running job, over a native transport of their own ---- */

/* All ranks: the first `servers` of them listen for workers; anywhere: also for those on other hosts. *text_out, on rank 0: what a worker
 * needs to join (yk_comm_join), a secret; the caller frees it. NULL: a server cannot listen, and has printed a warning. */
yk_status yk_comm_open(yk_comm *c, int servers, bool anywhere, double seconds, char **text_out);
/* Rank 0, after yk_comm_open(): the description (taken) that is sent to workers that ask for it. */
void yk_comm_describe(yk_comm *c, char *text);
yk_status yk_comm_ask(const char *address, const char *token, double timeout, char **text_out);
/* A server: how many workers have connected. They are peers from `size` on. Answers those that ask: call it regularly. A worker that
 * has joined: how many servers it is connected to. */
int yk_comm_joined(yk_comm *c);
/* Whether the transport has lost the peer, and all its messages were received; or another rank has ended the job: then
 * yk_comm_check() has the error. */
bool yk_comm_is_lost(const yk_comm *c, int peer);
bool yk_comm_is_receiving(
    const yk_comm *c); /* whether part of a frame, but not all of it, has arrived (native transport) */
yk_status yk_comm_check(const yk_comm *c);

/* In a worker that joins: server i is peer 1 + i. It is rank 0 of a job of its own. */
yk_status yk_comm_join(const char *text, yk_startup *startup, double timeout, yk_comm **out);

#endif
