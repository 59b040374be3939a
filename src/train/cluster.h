/* A run of several processes: who does what, and how they become one training.
 *
 *     role       ranks                 does                                          loop
 *     replica    all, --servers 0      trains on all parameters, all-reduce          replicas.c
 *     server     0 .. K-1              owns a part of the parameters                 chief.c (rank 0), server.c in store/
 *     worker     K .. K+N-1            trains, pulls and pushes                      worker.c, worker_apart.c
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

typedef enum { YK__ALONE, YK__REPLICA, YK__SERVER, YK__WORKER } yk__role;

typedef struct {
    yk_comm *comm;       /* NULL: one process */
    yk_startup *startup; /* until training begins; NULL: one process */
    yk__role role;
    int rank, ranks, servers;
    bool joined; /* it came later, and is alone in its own world */
    int *server_peer;
    yk_exchange *exchange;
    yk_memory memory; /* replicas on one machine: what they exchange */
    yk_remote *remote;
    yk_server *server;
    yk_dealer dealer;
    yk_optim_group group[YK_MAX_TENSORS]; /* of the server's part */
    yk_store_config copy;                 /* a worker with local steps: what its copy of the parameters is */
    int place_kind;         /* of a place in the data: 1 in step, 2 freely, 3 of a stream (data/feed.h) */
    yk_store *whole;        /* the chief of servers: a snapshot of all parameters */
    yk_rank_report *report; /* [ranks] on the chief, at the end */
    bool lost_somebody;     /* not all ranks are there any more: nothing can be done together */
    bool no_farewell;       /* MPI's farewell to all would not end */
} yk__cluster;

#endif
