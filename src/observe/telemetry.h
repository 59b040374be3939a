/* Telemetry: what the processes of a job send to the chief about themselves during training, so that there is one verdict on
 * all of them.
 *
 *     rank 2   step step [send] step step step ... step [send] step ...   leave | last message | report
 *                            \                              \                        \
 *     rank 0   serving ....... [receive] ................... [receive] ......... receives the last message of all
 *                                 \ verdict, progress line, live page, metrics
 *
 * A message is a yk__telemetry: phases, steps, examples, bytes by purpose, resources, the newest sample; about 3 KB with a tag
 * of its own, once a second, for YK_FOR_CONTROL. The sampling thread decides when; otherwise it costs a step the load of an
 * atomic. Nobody waits: a rank whose last message is still under way skips one, and the chief takes what has come. All
 * ranks send: servers and replicas, too, and workers that joined, whose last message replaces the report. The last
 * message of a lost rank is kept and marked.
 *
 * The thread that may use MPI calls these, except yk__telemetry_copy().
 */
#ifndef YK_OBSERVE_TELEMETRY_H
#define YK_OBSERVE_TELEMETRY_H

#include "observe/observe.h"
#include <stdatomic.h>

typedef struct {
    uint32_t magic;
    int number; /* worker-N is its folder in the run directory; -1: it has none there */
    bool last;
    yk_rank_report report; /* the bytes of the last message are counted in it */
    yk_sample sample;      /* the newest; seconds are 0: none yet */
} yk__telemetry;

/* A rank that sends to the chief. */
typedef struct {
    int peer;
    bool over; /* no more messages: the last one came, or the rank is unreachable */
    bool receiving, fresh;
    yk_worker_status status; /* as the servers know it */
    yk_op op;
    yk__telemetry in;
    /* under the observer's lock */
    bool known;
    yk__telemetry newest;
} yk__peer;

typedef struct {
    atomic_bool due; /* set by the sampling thread: time to send or to receive */
    bool mute;       /* the chief is unreachable */
    yk__telemetry out;
    yk_op op;
    yk__peer **peer; /* [npeers] on the chief: the others; owned */
    int npeers;
    size_t cap;
} yk__telemetry_state;

yk_status yk__telemetry_start(yk_observer *o); /* on the chief: lists the ranks */
void yk__telemetry_free(yk_observer *o);

void yk__telemetry_send(yk_observer *o);
void yk__telemetry_receive(yk_observer *o);

/* At the end. A rank that is not heard of in time is left out; that is not an error. */
void yk__telemetry_send_last(yk_observer *o);
void yk__telemetry_receive_last(yk_observer *o);

/* The newest telemetry of every other process, from any thread: a copy, to be freed; NULL with *n_out 0: nothing. */
yk__telemetry *yk__telemetry_copy(yk_observer *o, int *n_out);

yk__peer *yk__telemetry_peer(const yk_observer *o, int peer); /* NULL: unknown */

/* Synchronous, with servers: in how many steps this rank came last, which only the servers know. */
void yk__telemetry_blame(const yk_observer *o, int peer, yk_phases_sample *look);

#endif
