/* What the files of the simulator share: sim.c runs the tasks, sim_messages.c carries their messages. */
#ifndef YK_TESTS_SIM_INTERNAL_H
#define YK_TESTS_SIM_INTERNAL_H

#include "base/rng.h"
#include "base/sync.h"
#include "comm/transport.h"
#include "sim.h"
#include <semaphore.h>

typedef struct yk__sim yk__sim;
typedef struct yk__sim_request yk__sim_request;
typedef struct yk__sim_message yk__sim_message;

/* A simulated process. */
typedef struct {
    yk__sim *sim;
    int number;
    bool ended, killed;    /* killed: its tasks end when they would run next */
    uint64_t paused_until; /* its tasks run no earlier */
    yk__sim_message *inbox;
    yk__sim_request *requests, *posted;
    yk_sim_rank *result;
    bool listens; /* for workers that join */
    int peers;    /* of the transport of workers that join: peer i is rank peer[i] */
    int peer[YK_SIM_MAX_RANKS];
} yk__rank;

/* A thread of a rank. */
typedef struct yk__task {
    struct yk__task *next; /* of all ranks, in the order in which they were started */
    yk__rank *rank;
    unsigned number;
    pthread_t thread;
    sem_t go;           /* posted when it is its turn */
    yk_thread *started; /* NULL: the rank's main thread */
    uint64_t now;       /* its time in ns */
    uint64_t at;        /* unless it runs: when it runs next; UINT64_MAX: when it is woken */
    const void *on;     /* what it waits for; NULL: only for that time */
    uint64_t pause;     /* how long its next yield lasts */
    bool yields, ended, joined;
    yk_clock clock;
} yk__task;

struct yk__sim {
    yk_sim_config config;
    yk_status (*rank_main)(void *context, int rank);
    void *context;
    sem_t all_ended;
    yk__task *first, **end;
    unsigned tasks;
    int all; /* ranks, and workers that join */
    yk_rng rng;
    bool aborted, stuck;
    int next_event;
    yk_sim_result *result;
    yk__rank rank[YK_SIM_MAX_RANKS];
};

extern _Thread_local yk__task *yk__this_task;

/* sim.c */
void yk__sim_trace(const yk__sim *s, uint64_t now, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void yk__sim_abort(yk__rank *r);
void yk__sim_shorten_yields(yk__rank *r, uint64_t until, bool restart); /* there is something to do then */

/* sim_messages.c */
extern const yk_transport_ops yk__sim_transport;                                   /* self: the rank */
uint64_t yk__sim_next_arrival(const yk__rank *r, uint64_t after, uint64_t before); /* or `before` */
void yk__sim_drop_messages(yk__rank *r);                                           /* the rank has ended */

#endif
