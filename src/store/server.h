/* A server: a rank that owns a part of the parameters, with their optimizer state, and answers clients, the processes that
 * train.
 *
 *     yk_server_config c = {.comm = comm, .servers = K, .first_client = K, .clients = N, .table = table, ...};
 *     st = yk_server_create(&c, &s);
 *     st = yk_server_run(s);            // until all clients have left (server 0), or server 0 says that it is over
 *
 * Ranks 0 .. K-1 are servers and K .. K+N-1 clients, or every rank is both; workers that join later get the next numbers. Server 0
 * also leases examples (assignment.h) and is told what happens (yk_server_hooks): it is the chief.
 *
 * In synchronous mode a round ends when all workers have sent their gradients. They are added in worker order and
 * applied once; that is one step. With a quorum, the first `quorum` gradients are enough (fewer if fewer workers have
 * examples left): server 0 decides which ones, and late gradients are counted and dropped. In asynchronous mode a
 * gradient is applied when it arrives, and the staleness bound decides how long the answer waits for the slowest
 * worker. With local steps, workers apply their gradients to copies, and the server adds or applies the deltas of these
 * copies (delta.h). Steps are then those of the workers; a round counts as many as the worker with the most.
 * messages.h describes the messages.
 *
 * It never waits for one peer. A worker that misses its timeout is declared lost. Without survives_loss that is an
 * error that names its rank; otherwise its leases go to others, and it is back with its next message. Workers may join while it runs
 * (yk_server_open): a thread accepts them, and the serving thread takes them on.
 */
#ifndef YK_STORE_SERVER_H
#define YK_STORE_SERVER_H

#include "comm/comm.h"
#include "store/assignment.h"
#include "store/local.h"

typedef struct yk_server yk_server;

/* Called on server 0 by yk_server_run(), on its thread. */
typedef struct {
    void *context;
    /* An update was made (in step: a round, applied once); `examples` of it, their summed loss. Answers to workers wait
     * until it has returned. */
    yk_status (*updated)(void *context, uint64_t steps, uint64_t examples, double loss);
    yk_status (*epoch_over)(void *context); /* in step: a round in which nobody had examples */
    /* These two are called on all servers that have them: some fifty times a second; and in each turn, for a process that
     * trains as well. *busy_out: there was something to do. */
    yk_status (*now_and_then)(void *context);
    yk_status (*turn)(void *context, bool *busy_out);
    bool (*stop)(void *context); /* shall all end? */
    bool (*hold)(void *context); /* in step: shall answers wait? (something must be finished first) */
} yk_server_hooks;

typedef struct {
    yk_comm *comm;
    int servers;
    int first_client, clients; /* their ranks: those behind the servers, or the same */
    int threads, lanes;        /* of each client (messages.h) */
    int ngroups;
    yk_group group[YK_MAX_GROUPS]; /* of all servers together */
    yk_local *table;               /* this server's part: a store for one worker; borrowed */
    bool at_once
        [YK_MAX_GROUPS];  /* lockstep: groups that are not synchronous are updated as gradients arrive */
    uint64_t staleness;   /* as in local.h */
    int quorum;           /* 0: all */
    bool synchronous;     /* one update per round; else one per gradient */
    uint64_t local_steps; /* that a client makes by itself, at most; 0: it sends each gradient */
    bool scaled;          /* what they have changed is added in full: it is scaled already (copies.h) */
    bool survives_loss;   /* of a client */
    double
        timeout; /* seconds without a message after which a client is lost (longer where its steps are long) */
    double first_timeout;      /* the same until its second message */
    yk_assignment *assignment; /* server 0, not in step; borrowed */
    yk_server_hooks hooks;     /* server 0 */
} yk_server_config;

/* What became of a worker. */
typedef struct {
    int peer;
    bool joined, lost;
    uint64_t steps, examples, late;
    uint64_t last; /* rounds in which it came last */
    double waited; /* seconds that others waited for it then */
} yk_server_worker;

typedef struct {
    uint64_t steps, updates; /* rounds (in step) or updates; since this process began */
    uint64_t late;           /* gradients that came too late for their round and were thrown away */
    uint64_t late_examples; /* their examples, unless assigned to others: they count as used in their epoch */
    uint64_t returned;      /* examples of lost workers that were dealt again */
    int workers, lost, joined;
    bool stopped; /* the workers were told to stop */
    yk_staleness staleness;
} yk_server_state;

yk_status yk_server_create(const yk_server_config *config, yk_server **out);
void yk_server_free(yk_server *s);                               /* NULL is fine */
void yk_server_hook(yk_server *s, const yk_server_hooks *hooks); /* server 0, before run */
yk_status yk_server_run(yk_server *s);
/* Server 0, once nothing more is wanted of the others: lets them return from yk_server_run(). */
yk_status yk_server_end(yk_server *s);

void yk_server_state_of(const yk_server *s, yk_server_state *out);
int yk_server_workers(const yk_server *s, yk_server_worker *out, int most); /* returns how many */

/* The cursor of a stream, as data/feed.h writes it: 3 | window_bytes / (2 N) | five numbers for each of N workers. In synchronous
 * mode all workers are in `epoch`, because the cursor of a worker after its last batch does not show whether that epoch
 * is over. In asynchronous mode `epoch` is 0. */
void yk_server_cursors(const yk_server *s, uint64_t *out, size_t window_bytes, uint64_t epoch);

/* The number of epochs of a stream that all workers have finished. */
uint64_t yk_server_cursors_epoch(const yk_server *s);

void yk_server_cursors_set(
    yk_server *s, const uint64_t *cursors); /* the numbers of the workers, as above without the head */

/* The part of a group that a server has; of a dense group it begins at *begin_out. */
yk_group yk_server_piece(const yk_group *g, int server, int servers, size_t *begin_out);

/* Others may join from now on, as long as what they say of themselves is `identity`. Not in step. */
yk_status yk_server_open(yk_server *s, uint64_t identity);

/* Server 0: a snapshot of all parameters and their state, of all servers. Another thread may put it into `whole`, a store
 * for all parameters with one worker, until the next snapshot is taken. */
yk_status yk_server_snapshot(yk_server *s, yk_local *whole);
void yk_server_assemble(const yk_server *s, yk_local *whole);
/* Server 0 gives the others their parts of `whole`; they receive them. Before the first step. */
yk_status yk_server_scatter(yk_server *s, yk_local *whole);

#endif
