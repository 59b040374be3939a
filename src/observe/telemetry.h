/* Telemetry: statistics that the processes of a job send to the chief during training, so that one verdict covers all of
 * them.
 *
 *     rank 2   step step [send] step step step ... step [send] step ...   leave | last message: its report (gather.c)
 *                            \                              \                        \
 *     rank 0   serving ....... [receive] ................... [receive] ......... receives the last messages
 *                                 \ verdict, progress line, live page, metrics
 *
 * A message has the state of a process (yk_process): phases, steps, examples, bytes by purpose, resources and the latest
 * sample; about 4 kB, with its own tag, once a second, counted as YK_PURPOSE_CONTROL. The sampling thread decides when to send; between messages, the
 * cost per step is one atomic load. No process waits: a rank whose last message is still in transit skips one, and the chief
 * receives the messages that have arrived. All ranks send: servers, replicas, and workers that joined. The latest message of a
 * lost rank is kept, and the rank is marked as lost.
 *
 * The thread that may use `comm` calls these functions; any thread may call yk__processes().
 */
#ifndef YK_OBSERVE_TELEMETRY_H
#define YK_OBSERVE_TELEMETRY_H

#include "observe/observe.h"

typedef struct {
    uint32_t magic;
    bool last;
    /* rank: N of its directory worker-N in the run directory; -1: none. Bytes: include the last message. */
    yk_process process;
} yk__telemetry;

/* The resources of a process over time, for the live page. live.c lists the columns of a point in the same order. Bounded: when
 * it is full, every other point is dropped. */
enum { YK__CURVE = 120 };

typedef struct {
    double seconds, cpu, rss, sent, received;
} yk__curve_point;

typedef struct {
    int n;
    double every; /* seconds between points */
    yk__curve_point point[YK__CURVE];
} yk__curve;

void yk__curve_sample(yk__curve *c, const yk_sample *s);

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
    bool ending;     /* the end of the job: see yk__telemetry_end() */
    int npeers;
    size_t cap;
} yk__telemetry_state;

yk_status yk__telemetry_start(yk_observer *o); /* on the chief: lists the ranks */
void yk__telemetry_free(yk_observer *o);

void yk__telemetry_send(yk_observer *o);
void yk__telemetry_receive(yk_observer *o);

/* Chief: finds out which ranks are lost. From now on, a lost rank stays lost: it is not told to send its last telemetry. */
void yk__telemetry_end(yk_observer *o);

/* At the end. If the last message of a rank does not arrive in time, the job fails, or the rank is lost if the job can succeed
 * without it. A worker that joined is then omitted. */
yk_status yk__telemetry_send_last(yk_observer *o, double timeout);
yk_status yk__telemetry_receive_last(yk_observer *o);
/* On the chief: waits for a message to or from a rank, unless the rank is lost and the job succeeds without it. */
yk_status yk__telemetry_wait(const yk_observer *o, int rank, yk_op *op, const char *what);

/* `self`, then the other processes by their latest telemetry; any thread. The caller frees the list. NULL, and *n_out 0: out of
 * memory. */
yk_process *yk__processes(yk_observer *o, const yk_process *self, int *n_out);

/* The curves of a process by its number; any thread. */
void yk__telemetry_curve(yk_observer *o, int rank, yk__curve *out);

/* Bytes per second of all processes: this one from its sample, the others from their latest telemetry. The caller holds the
 * lock. */
typedef struct {
    double sent, received;
} yk_bytes_rate;
yk_bytes_rate yk__telemetry_rate(const yk_observer *o, const yk_sample *own);

yk__peer *yk__telemetry_peer(const yk_observer *o, int peer); /* NULL: unknown */

/* Synchronous training with servers: sets the number of steps in which this rank was the last one, which only the servers
 * know. */
void yk__telemetry_count_last(const yk_observer *o, int peer, yk_phases_sample *phases);

#endif
