/* A server: a rank that owns a shard of the parameters, with their optimizer state, and answers clients, the processes that
 * train.
 *
 * Example:
 *     yk_server *s;
 *     yk_status st = yk_server_create(&config, &s);
 *     if (!st)
 *         st = yk_server_run(s); // until all clients have left (server 0), or until server 0 ends the job
 *     if (!st)
 *         st = yk_server_end(s); // server 0: the other servers return from yk_server_run()
 *     yk_server_free(s);
 *
 * Either ranks 0 .. K-1 are servers and K .. K+N-1 clients, or every rank is both. Workers that join later get the next
 * numbers. Server 0 is the chief: it also leases examples (data/assignment.h) and calls the hooks (yk_server_hooks).
 *
 * When gradients are applied (server_round.c):
 *     asynchronous   each when it arrives. The staleness bound decides how long the answer waits for the slowest worker
 *     synchronous    when those of all workers have arrived. They are added in worker order and applied once; that is one step
 *     with a quorum  the first ones are enough (fewer if fewer workers have examples left). Server 0 decides which ones; late ones are
 *                    counted and dropped
 * If clients train on copies, the server adds the deltas of these copies (local_copy.h). Steps are then those of the workers; a
 * round counts as many steps as the worker that took the most. messages.h describes the messages.
 *
 * A server never waits for a single peer. A worker that misses its heartbeat timeout is declared lost. Without survives_loss
 * that is an error that names its rank; otherwise its leases go to others, and it is active again with its next message.
 * Workers may join while the server runs (yk_server_open).
 *
 * One thread calls these functions, except where noted. It sends and receives; if there are several serving threads, all of
 * them look up and apply the parameters of a large message, each a part of them. That does not change the results.
 */
#ifndef YK_STORE_SERVER_H
#define YK_STORE_SERVER_H

#include "comm/comm.h"
#include "data/assignment.h"
#include "data/streams.h"
#include "store/local.h"

typedef struct yk_server yk_server;

/* Called on server 0 by yk_server_run(), in its thread. */
typedef struct {
    void *context;
    /* After an update that ended step `steps`: its examples, and the sums of their weights and losses. Answers to workers wait until
     * it returns. */
    yk_status (*updated)(void *context, uint64_t steps, uint64_t examples, double weight, double loss);
    yk_status (*epoch_over)(void *context); /* synchronous: no worker had examples in this round */
    /* Called on every server that sets them. on_tick: about fifty times a second. poll: in every iteration of the server's
     * loop, for a process that also trains; *busy_out: there was something to do. */
    yk_status (*on_tick)(void *context);
    yk_status (*poll)(void *context, bool *busy_out);
    bool (*stop)(void *context); /* whether the job should end */
    /* Whether training must wait, e.g. for an evaluation: answers wait, or, without rounds, gradients. */
    bool (*paused)(void *context);
} yk_server_hooks;

typedef struct {
    yk_comm *comm;
    const yk_plan *plan;           /* borrowed: the processes, their threads and timeouts, staleness bounds */
    yk_group group[YK_MAX_GROUPS]; /* of all servers together */
    yk_local *table;               /* this server's shard: a store with one worker; borrowed */
    yk_assignment *assignment;     /* server 0, data in memory that is leased; borrowed */
    yk_streams *streams;           /* server 0, streamed data; borrowed */
    yk_phases *phases;             /* of the serving thread; NULL: not measured */
} yk_server_config;

typedef struct {
    uint64_t steps, updates; /* global steps; updates since this process started */
    uint64_t late;           /* gradients that were too late for their round, and dropped */
    uint64_t late_examples;  /* their examples, unless leased to others: they count as used in their epoch */
    uint64_t returned;       /* examples of lost workers that were leased again */
    int workers, lost, joined;
    bool stopped; /* the workers were asked to stop */
    yk_staleness staleness;
} yk_server_state;

yk_status yk_server_create(const yk_server_config *config, yk_server **out);
void yk_server_free(yk_server *s); /* NULL is fine */
void yk_server_set_hooks(yk_server *s,
                         const yk_server_hooks *hooks); /* before run; by default there are none */
yk_status yk_server_run(yk_server *s);
/* Server 0, while it evaluates after the last update: a heartbeat to the other servers. */
yk_status yk_server_alive(yk_server *s);
/* Server 0: ends the other servers, which return from yk_server_run(). */
yk_status yk_server_end(yk_server *s);

void yk_server_state_of(const yk_server *s, yk_server_state *out);
int yk_server_workers(const yk_server *s, yk_worker_status *out, int max); /* returns how many */

/* From now on, workers with this identity may join, if `comm` is open for them (yk_comm_open), except in synchronous mode. */
void yk_server_open(yk_server *s, uint64_t identity);

/* Server 0: takes a snapshot of the parameters and their state on all servers. Until the next snapshot, another thread may
 * copy it into `whole`, a store of all parameters with one worker (yk_server_assemble). evaluates: only of the weights that an
 * evaluation reads, if that is known (yk_server_scatter). */
yk_status yk_server_snapshot(yk_server *s, yk_local *whole, bool evaluates);
void yk_server_assemble(const yk_server *s, yk_local *whole);
/* Before the first step: server 0 sends the other servers their parts of `whole`; they receive them. key [n]: the keys that
 * evaluations read, each once; NULL: all, or unknown. */
yk_status yk_server_scatter(yk_server *s, yk_local *whole, const uint32_t *key, size_t n);

#endif
