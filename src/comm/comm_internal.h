/* The communicator, shared by the files of comm/. */
#ifndef YK_COMM_COMM_INTERNAL_H
#define YK_COMM_COMM_INTERNAL_H

#include "base/sync.h"
#include "comm/comm.h"
#include "comm/native.h"
#include "comm/transport.h"

/* Tags: comm/ and store/exchange.c (2, 3) use tags up to 6, store/messages.h 7 to 11, observe/ 12 to 15, and the buckets of
 * an exchange 16 and above. */
enum { YK__TAG_COLLECTIVE = 1, YK__TAG_HEARTBEAT = 4, YK__TAG_ASK = 5, YK__TAG_STOP = 6 };

/* How to reach a process of the job without messages. Plain data, sent as bytes. */
typedef struct {
    int64_t pid;
    uint64_t host;          /* yk__host_id() */
    uint64_t shares_memory; /* 0: the user wants messages */
    char name[64];          /* of the host; "": not known */
} yk__address;

/* The ranks of the job (none, if this process joined it), and peers from `size` on (join.c). */
enum { YK__RANKS, YK__JOINED };

struct yk_comm {
    yk_transport transport[2]; /* by YK__RANKS and YK__JOINED; ops NULL: no such peers */
    char *description;         /* of the job, sent to those that ask for it; NULL: none yet */
    yk_rendezvous job;
    bool asked; /* to end the job */
    int rank, size;
    double stopped_timeout; /* a process that is stopped for longer is lost */
    yk_comm_counts counts;
    yk_world world;       /* what the transport says */
    yk__address *address; /* [size] */
    yk_startup *startup;  /* borrowed; NULL: training has begun */
    /* heartbeats during start-up (startup.c) */
    double heartbeat_at; /* when the last ones were sent */
    struct {
        double at;        /* when the latest one from this peer arrived */
        uint64_t request; /* of the last one to this peer */
    } * heartbeat;        /* [size]; NULL: no heartbeats */
};

/* The transport that reaches a peer; *peer: its number there. */
static inline const yk_transport *yk__route(const yk_comm *c, int *peer)
{
    const int kind = *peer < c->size ? YK__RANKS : YK__JOINED;
    *peer -= kind == YK__JOINED ? c->size : 0;
    return &c->transport[kind];
}

/* The rank of a peer in its job: in a worker that joined, server i is peer size + i. */
static inline int yk__rank_of(const yk_comm *c, int peer)
{
    return c->transport[YK__RANKS].ops ? peer : peer - c->size;
}

/* Receives a message without contents, if there is one. kind: YK__RANKS or YK__JOINED. *peer_out: from whom; YK_ANY: there is none. */
yk_status yk__receive_empty(const yk_comm *c, int kind, int tag, int *peer_out);
yk_status yk__transport_error(const yk_comm *c, int code, const char *what, int peer);

struct yk_startup {
    yk_startup_config config;
    yk_thread thread;
    yk_mutex lock; /* held while the thread acts; changing the state waits for it */
    yk_cond changed;
    yk_startup_state state;
    double entered;
    yk_comm *comm; /* that sends heartbeats in the state BUSY; NULL: none */
    bool over;
};

/* startup.c. NULL is fine. */
void yk__startup_attach(yk_startup *s, yk_comm *comm);
/* heartbeats */
yk_status yk__heartbeats_begin(yk_comm *c, yk_startup *startup);
/* Sends heartbeats that are due and receives those that have arrived. */
yk_status yk__heartbeat(yk_comm *c, double now);
/* Whether a rank that exchanges heartbeats with this one has missed its timeout, counted from its last heartbeat or from `began`,
 * whichever is later. */
bool yk__missed_heartbeats(const yk_comm *c, int rank, double began, double now);

/* collective.c: maps `bytes` bytes of memory that process `pid` has open as `descriptor`. NULL: not possible. */
char *yk__memory_open(int64_t pid, int64_t descriptor, size_t bytes);

/* Identifies the host, and the namespaces of processes and of the network: processes with the same one can share memory, unless
 * a security policy forbids it, and see each other's ids. */
uint64_t yk__host_id(void);

#endif
