/* Messages between the processes of a job, by MPI or another transport (transport.h).
 *
 *     if (yk_comm_expected() > 0)                        // a launcher started us
 *         st = yk_comm_start(YK_COMM_SINGLE, NULL, &c);
 *     yk_op op;
 *     st = yk_comm_send(c, 1, YK_TAG_STEP, YK_FOR_PUSH, buf, n, &op);    // never blocks; buf stays ours until done
 *     st = yk_comm_wait(c, &op, 1, 8.0, "the gradient"); // polls, yields the core, has a deadline, names who is missing
 *     st = yk_comm_barrier(c, 60.0, "the start");
 *     yk_comm_stop(c, true);
 *
 * Nothing here blocks inside MPI: a wait is Test and yk_wait_turn() until it is done or the deadline has passed. That
 * gives progress, fairness where there are more processes than cores, and the detection of hangs, all at once.
 *
 * A *peer* is a process: 0 .. size - 1 are those of the job; those that join a running job later are numbered from size on
 * (yk_comm_adopt). Bytes and messages are counted by purpose when they are handed over and when they have arrived.
 *
 * One thread of a rank calls these, except for yk_comm_accept() (YK_COMM_ACCEPTS), which has a thread of its own. Errors
 * of MPI are YK_ELOST with the rank.
 */
#ifndef YK_COMM_COMM_H
#define YK_COMM_COMM_H

#include "base/status.h"
#include "comm/startup.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk_comm yk_comm;

typedef enum { YK_FOR_PULL, YK_FOR_PUSH, YK_FOR_REDUCE, YK_FOR_CONTROL, YK_PURPOSES } yk_purpose;
extern const char *const yk_purpose_name[YK_PURPOSES];

typedef struct {
    uint64_t sent, received; /* bytes */
    uint64_t messages_sent, messages_received;
} yk_traffic;

typedef enum { YK_COMM_SINGLE, YK_COMM_ACCEPTS } yk_comm_kind;

/* A message under way. Plain memory of the caller; not to be moved until it is done. */
typedef struct {
    uint64_t request; /* of the transport */
    int peer;
    yk_purpose purpose;
    bool active, incoming;
    size_t bytes; /* incoming: as received, once done */
} yk_op;

enum { YK_ANY = -1 };

/* How many processes the launcher's environment speaks of; 0: no launcher started us. */
int yk_comm_expected(void);
int yk_comm_expected_rank(void); /* 0 without one, too */

/* It is an error if the MPI world has one process but the environment says more: the launcher belongs to a different MPI.
 *
 * With a `startup` (borrowed; may be NULL), and until yk_comm_ready(), processes send heartbeats to each other. A wait
 * then ends when its peer has sent no heartbeat for the limit, no matter how long the wait takes, or when a signal
 * arrived (YK_EINTERRUPTED). */
yk_status yk_comm_start(yk_comm_kind kind, yk_startup *startup, yk_comm **out);

/* Called by all processes when training begins. From then on, waits have the deadlines that they are given. */
yk_status yk_comm_ready(yk_comm *c);

/* Not `clean`: somebody is gone, and a farewell to all would not end. */
void yk_comm_stop(yk_comm *c, bool clean); /* NULL is fine */

/* Ends all processes of the job. If it returns, the caller must exit. */
void yk_comm_abort(yk_comm *c, int status);

int yk_comm_rank(const yk_comm *c);
int yk_comm_size(const yk_comm *c);
int yk_comm_local_size(const yk_comm *c);            /* processes on this machine; NULL: 1 */
const char *yk_comm_library(const yk_comm *c);       /* "Open MPI v4.1.4 ..." */
const yk_traffic *yk_comm_traffic(const yk_comm *c); /* [YK_PURPOSES] */

yk_status yk_comm_send(yk_comm *c, int peer, int tag, yk_purpose why, const void *buf, size_t bytes,
                       yk_op *op);
yk_status yk_comm_recv(yk_comm *c, int peer, int tag, yk_purpose why, void *buf, size_t cap, yk_op *op);

/* So many bytes, of a message or of so many, were for another purpose than it was booked under. */
void yk_comm_recount(yk_comm *c, bool incoming, yk_purpose from, yk_purpose to, size_t bytes,
                     unsigned messages);

/* What went another way than as messages: through memory (memory.h). As many each way. */
void yk_comm_count(yk_comm *c, yk_purpose why, size_t bytes_in, size_t bytes_out, unsigned messages);

/* Whether it is done; an op that was never started is. */
yk_status yk_comm_test(yk_comm *c, yk_op *op, bool *done_out);

/* Whether a message waits to be received, from `peer` or anybody of the job, and how long it is. */
yk_status yk_comm_probe(yk_comm *c, int peer, int tag, bool *found_out, int *peer_out, size_t *bytes_out);

/* Whether all processes of the job are on this machine, and MPI was not told to use a network all the same. */
bool yk_comm_together(const yk_comm *c);
int64_t yk_comm_pid(const yk_comm *c, int peer); /* of the job, on its machine */

/* Of the processes on this machine: 'X' it is dead, 'T' it was stopped by a signal, else it lives; 0: not known. */
char yk_comm_state(const yk_comm *c, int peer);
bool yk_comm_dead(const yk_comm *c, int peer);

/* To the text of a YK_ELOST, which says whom this process missed, adds who else is dead or stopped: "no worker is left
 * (rank 1 is gone)". They may all have waited for that one. */
yk_status yk_comm_explain(const yk_comm *c, yk_status st);

/* All of them; `what` is for the error: "waited 8 s for WHAT from rank 2". */
yk_status yk_comm_wait(yk_comm *c, yk_op *op, int n, double seconds, const char *what);

/* ---- all processes of the job ---- */

yk_status yk_comm_barrier(yk_comm *c, double seconds, const char *what);

/* `all` [size][bytes] on rank 0 (elsewhere NULL). */
yk_status yk_comm_gather(yk_comm *c, const void *mine, size_t bytes, void *all, double seconds,
                         const char *what);

/* The same where everybody has another length: on rank 0 yk_comm_pieces of them, to be freed with yk_comm_pieces_free(). */
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

/* From `root` to `count` ranks from `first` on, of which it is one; only these call it. */
yk_status yk_comm_broadcast_range(yk_comm *c, int root, int first, int count, void *buf, size_t bytes,
                                  double seconds, const char *what);

/* ---- joining a running job: by name, through the name server that the launcher started ---- */

/* Opens a port and makes its name known. */
yk_status yk_comm_open(yk_comm *c, const char *name, char **port_out); /* caller frees */
/* Blocks until somebody comes; for a thread of its own. The handle is given to the serving thread, which adopts it. */
yk_status yk_comm_accept(yk_comm *c, const char *port, void **handle_out);
yk_status yk_comm_adopt(yk_comm *c, void *handle, int *peer_out);
yk_status yk_comm_connect(yk_comm *c, const char *name, int *peer_out);

#endif
