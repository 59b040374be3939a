/* A run of several processes: who does what, and how they become one training.
 *
 *     role       ranks                 does                                          its store
 *     replica    all, --servers 0      trains on all parameters, all-reduce          store/replicas.h
 *     server     0 .. K-1              owns a shard of the parameters                store/server.h
 *     worker     K .. K+N-1            trains, pulls and pushes                      store/shards.h
 *     shard      all, --servers all    both of the last two                          both
 *
 * Workers run the loop of loop.c. A process that owns a shard serves it in chief.c.
 *
 * Rank 0 is the chief: it tests, saves, and writes the run directory; the others write nothing but their own resources.
 *
 *     yk__cluster_start     MPI, if a launcher started us; roles
 *     yk__cluster_shape     all agree on the shape of the data
 *     yk__cluster_agree     the same options, data, program and parameters? else an error that names rank and difference
 *     yk__cluster_finish    counters of all ranks to the chief, which checks that they are those of one training
 */
#ifndef YK_TRAIN_CLUSTER_H
#define YK_TRAIN_CLUSTER_H

#include "comm/comm.h"
#include "comm/memory.h"
#include "model/model.h"
#include "store/exchange.h"
#include "store/remote.h"
#include "store/server.h"
#include "train/train.h"

typedef enum { YK__ALONE, YK__REPLICA, YK__SERVER, YK__WORKER, YK__SHARD } yk__role;

static inline bool yk__serves(yk__role role)
{
    return role == YK__SERVER || role == YK__SHARD;
}

typedef struct {
    yk_comm *comm;       /* NULL: one process */
    yk_startup *startup; /* until training begins; NULL: one process */
    yk__role role;
    int rank, ranks;
    int servers;        /* processes that own a shard: the first ones, or all */
    int first, clients; /* processes that train: the first of them, how many */
    int first_worker;   /* of this process, among the workers of all */
    bool driven;        /* the main thread sends and receives for all others (store/remote.h) */
    bool joined;        /* it came later, and is alone in its own world */
    int *server_peer;
    yk_exchange *exchange;
    yk_memory memory; /* replicas on one machine: what they exchange */
    yk_remote *remote;
    yk_chunks *chunks; /* of the data; NULL: none */
    yk_server *server;
    yk_assignment assignment;
    yk_optim_range range[YK_MAX_TENSORS]; /* of the server's part */
    int cursor_kind;    /* of the data cursor: 1 in step, 2 freely, 3 of a stream (data/feed.h) */
    yk_local *whole;    /* the chief of servers: a snapshot of all parameters */
    bool lost_somebody; /* not all ranks are there any more: nothing can be done together */
    bool no_finalize;   /* MPI's farewell to all would not end */
} yk__cluster;

#endif
