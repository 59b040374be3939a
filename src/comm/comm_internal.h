/* What the files of comm/ share: the communicator itself. */
#ifndef YK_COMM_COMM_INTERNAL_H
#define YK_COMM_COMM_INTERNAL_H

#include "comm/comm.h"
#include "comm/transport.h"

/* Tags up to 7 belong to this folder and store/exchange.c (2, 3), 8 to 12 to store/messages.h, 13 to 15 to train/, 16 and
 * above to buckets. */
enum { YK__TAG_COLLECTIVE = 1, YK__TAG_HEARTBEAT = 4 };

/* How to reach a process of the job other than by messages. Plain data: it is sent as bytes. */
typedef struct {
    int64_t pid;
    uint64_t machine; /* the same for processes that see each other's pids */
    uint64_t network; /* the same for processes with the same network; 0: the user wants messages */
} yk__neighbour;

struct yk_comm {
    const yk_transport_ops *ops;
    void *self; /* of the transport */
    int rank, size;
    int njoined;
    yk_threads allows;
    bool processes; /* each rank is a process of its own */
    yk_traffic traffic[YK_PURPOSES];
    char library[96];
    yk__neighbour *neighbour; /* [size] */
    yk_startup *startup;      /* borrowed; NULL: training has begun */
    /* heartbeats of the start-up (heartbeat.c) */
    double limit;     /* heartbeat timeout in seconds; 0: none are sent */
    double beat_at;   /* when the last ones were sent */
    double *heard;    /* [size] when the latest one from this peer arrived */
    yk_op *beat_op;   /* [size] */
    int lasts;        /* peers whose last one has arrived */
    uint64_t word[2]; /* what is sent: a heartbeat, the last one */
};

int yk__from_environment(const char *name); /* a number, or 0 */
yk_status yk__transport_error(const yk_comm *c, int code, const char *what, int peer);

/* heartbeat.c */
yk_status yk__heartbeats_begin(yk_comm *c, yk_startup *startup);
/* Sends heartbeats that are due and receives those that have arrived. */
yk_status yk__heartbeat(yk_comm *c, double now);
/* When the last heartbeat of a peer arrived, or `began`, when the wait for it began, if that is later. */
double yk__last_heartbeat(const yk_comm *c, int peer, double began);

/* peers.c */
yk_status yk__meet_neighbours(yk_comm *c);
yk_status yk__find_dead(const yk_comm *c, const yk_op *op, int n, bool stopped_too, const char *what);

#endif
