/* A job of several processes: their roles, and the checks that they belong to the same training run.
 *
 *     role       ranks                 does                                          its store
 *     replica    all, --servers 0      trains on all parameters, all-reduce          store/local.h
 *     server     0 .. K-1              owns a shard of the parameters                store/server.h
 *     worker     K .. K+N-1            trains, pulls and pushes                      store/shards.h
 *     shard      all, --servers all    both of the last two                          both
 *
 * Workers run the loop of loop.c. A process that owns a shard serves it in chief.c.
 *
 * Rank 0 is the chief: it evaluates, saves, and writes the run directory; the other ranks write only their worker-N/.
 *
 *     yk__cluster_start     connects the processes, if an engine started this one; assigns roles
 *     yk__share_facts       all ranks get the same facts about the data
 *     yk__cluster_agree     checks that options, data, program and parameters are the same; an error names the rank and
 *                           the difference
 */
#ifndef YK_TRAIN_CLUSTER_H
#define YK_TRAIN_CLUSTER_H

#include "comm/comm.h"
#include "data/dataset.h"
#include "model/model.h"
#include "store/exchange.h"
#include "store/server.h"
#include "store/shards.h"
#include "train/train.h"
#include <sched.h>

typedef struct {
    yk_comm *comm;       /* NULL: one process */
    yk_startup *startup; /* until training begins; NULL: one process */
    int rank, ranks;
    bool joined;     /* this process joined a running job */
    char *join_text; /* what workers need to join (yk_comm_open); NULL: they cannot, or another rank has it */
    yk_exchange *exchange;
    yk_shared_memory memory; /* replicas on one host: exchanges gradients */
    yk_shards *shards;
    yk_chunks *chunks; /* of the data; NULL: none */
    yk_server *server;
    yk_assignment assignment;             /* server 0, data in memory */
    yk_streams streams;                   /* server 0, streamed data */
    yk_optim_range range[YK_MAX_TENSORS]; /* of the shard */
    yk_local *whole;                      /* a chief that is a server: a snapshot of all parameters */
    bool rank_lost;                       /* no collective operation is possible any more */
    cpu_set_t cores;                      /* of this process before it was bound to NUMA nodes (--bind) */
} yk__cluster;

#endif
