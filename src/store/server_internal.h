/* The internals of a server: server.c has its loop, server_handle.c handles messages and answers, server_round.c
 * applies gradients and deltas, server_parts.c has what servers send each other. */
#ifndef YK_STORE_SERVER_INTERNAL_H
#define YK_STORE_SERVER_INTERNAL_H

#include "base/arena.h"
#include "base/mem.h"
#include "comm/transport.h"
#include "store/local_copy.h"
#include "store/messages.h"
#include "store/server.h"
#include <stdatomic.h>

#ifdef YK_FUZZING
enum { YK__MAX_WORKERS = 16 };
#else
enum { YK__MAX_WORKERS = 1024 };
#endif

/* A pull of a channel of a client, until it is answered and its gradient has arrived. */
typedef struct {
    bool unanswered;     /* the answer has not been sent yet */
    bool of_push, wants; /* it was sent with a push; it requests values */
    uint32_t number, n;
    uint32_t *key; /* of keyed groups: rows on this server */
    size_t key_cap;
    uint32_t *at; /* [n] the index of each key in the sums of the round */
    size_t at_cap;
    bool placed;                     /* `at` is set */
    uint64_t updates_then, own_then; /* when it was answered, for the staleness of the gradient */
    yk_stale_mark mark;              /* the same: a sample of the parameters */
    char *out;
    size_t out_cap;
    yk_op op;
} yk__pull;

/* The keys of a server that evaluations read. */
typedef struct {
    uint32_t *key;
    uint32_t n;
} yk__key_list;

/* A thread of a client. */
typedef struct {
    bool idle, left;         /* idle: it waits for examples; left: its channel has left */
    uint64_t pushes, rounds; /* of a channel: steps, and messages with gradients */
    uint64_t clock;          /* steps of each of its threads */
    yk__down lease;
    yk_op lease_op;
} yk__client_thread;

typedef struct {
    int peer;
    bool active, left, joined; /* neither active nor left: lost */
    double last_message, longest, alive_at, pushed_at;
    double gradient_waited; /* seconds that its last gradient waited for those of others */
    uint64_t incarnation, messages, pushes, examples, came_last;
    uint64_t skipped; /* steps of the others while it was not active: no worker waits for it to catch up */
    yk__client_thread *thread; /* [threads] */

    yk_inbox in; /* its message: header, shares, values, keys */
    bool pushed; /* the gradient in `in` waits for those of others */
    bool counts; /* and is part of the round */

    yk__pull *pull;  /* [channels * YK__MAX_OUTSTANDING], by number */
    uint32_t newest; /* the number of the last one */
    yk__down alive;
    yk_op alive_op;
} yk__client;

/* A message from server 0 to the other servers. */
typedef struct {
    yk__up up;
    uint32_t peer[YK__MAX_WORKERS];
} yk__control;

/* When gradients or deltas are applied (server.h). */
typedef struct {
    /* A gradient has arrived. again: its examples were leased to others in the meantime. */
    yk_status (*push)(yk_server *s, yk__client *c, bool again);
    bool (*may_answer)(const yk_server *s, const yk__client *c, const yk__pull *p);
    yk_status (*close)(yk_server *s);   /* ends the round if it is complete; NULL: there are no rounds */
    yk_status (*prepare)(yk_server *s); /* while workers compute; NULL: there is nothing to prepare */
    bool decides;                       /* server 0 decides which gradients a round uses */
} yk__rounds;

/* The squares of the sums of a round on one server. */
typedef struct {
    double sum;
    yk_op in, out; /* out: sends this server's own to that one */
} yk__squares;

struct yk_server {
    yk_server_config config;
    const yk_plan *plan;
    yk_arena memory; /* of the arrays that do not grow */
    const yk__rounds *rounds;
    yk_server_hooks hooks;
    bool immediate[YK_MAX_GROUPS]; /* groups that are updated when a gradient arrives, not with the round */
    uint64_t copy_steps;           /* maximum number of steps on a copy; 0: clients send every gradient */
    int me;
    bool chief, over, stopping;
    bool paused;    /* by the hook: answers wait, or, without rounds, messages are not received */
    double over_at; /* when server 0 ended the job */
    /* The last message from server 0, if this server waits for one; of server 0: its last heartbeat. */
    double control_at;
    uint64_t idle;        /* when it began to wait for messages; 0: it is not waiting (base/clock.h) */
    yk__layout layout;    /* of values in messages */
    uint64_t rows;        /* keys on this server; the same in all groups that it owns */
    bool stale;           /* gradients are applied while others are computed (local_stale.c) */
    int npulls;           /* of each client */
    yk_thread_pool *pool; /* the serving threads; NULL: one */
    yk__client *client;
    int nclients, active;
    uint64_t round;
    yk_server_state state; /* some of it: yk_server_state_of() */
    /* The sums of a round. */
    yk_merger keys;            /* of keyed groups, each once */
    size_t capacity;           /* in keys */
    float *sum[YK_MAX_GROUPS]; /* [arrays][capacity][width], or dense: [arrays][floats] */
    size_t sum_cap[YK_MAX_GROUPS];
    int placed; /* pulls whose keys have sums */
    /* --clip-norm: the sums of a round wait until the squares of those of all servers are known. */
    bool awaits_squares;
    double squares_at;    /* since when */
    yk__squares *squares; /* [servers] NULL: not needed */
    yk__up totals;        /* of the last round */
    int round_workers;    /* with examples */
    yk__client *last;     /* that has pushed in this round; NULL: none */
    double before_last;   /* when the one before it pushed; 0: it was the first */
    float clip;           /* the factor; 0: not known */
    bool open;            /* workers with this `identity` may join */
    uint64_t identity;
    bool settled[YK_MAX_JOINED]; /* that worker is a client, or is lost */
    /* A snapshot: the arrays of this server; on server 0 of all servers, one after another. */
    uint32_t *parts;
    size_t parts_cap, parts_op_cap;
    yk_op *parts_op; /* of server 0: it receives them */
    uint64_t parts_steps;
    bool parts_some;    /* it has only what an evaluation reads */
    yk__key_list *read; /* [servers] the keys that evaluations read, on server 0, or here; NULL: all */
    yk__up snapshot;    /* the request of server 0; kind 0: none */
    double snapshot_at; /* when it was requested */
    yk__control control;
    bool decided; /* rounds->decides, on servers other than 0: `control` has the workers of the round */
};

static inline const yk__up *yk__header_of(const yk__client *c)
{
    return (const yk__up *)(const void *)c->in.data;
}

static inline const yk__share *yk__shares_of(const yk__client *c)
{
    return (const yk__share *)(const void *)(c->in.data + sizeof(yk__up));
}

/* The values of a message. */
static inline float *yk__values_of(const yk__client *c)
{
    return (float *)(void *)(c->in.data + sizeof(yk__up) + yk__header_of(c)->nshares * sizeof(yk__share));
}

static inline yk__pull *yk__pull_of(const yk_server *s, const yk__client *c, uint32_t number)
{
    return &c->pull[number % (uint32_t)s->npulls];
}

enum { YK__MIN_PARALLEL = 1 << 13 }; /* floats: with fewer, a thread is done before the others begin */

/* The threads for work on this many floats. */
static inline yk_thread_pool *yk__pool_for(const yk_server *s, size_t floats)
{
    return floats >= YK__MIN_PARALLEL ? s->pool : NULL;
}

/* A part of the keys of a group in a message or in a sum: part `me` of `all`. */
static inline yk_copy_keys yk__part_of_group(const yk_server *s, int group, const uint32_t *key, size_t n,
                                             size_t stride, int me, int all)
{
    const bool keyed = s->layout.group[group].keyed;
    const size_t each = s->layout.group[group].each;
    yk_copy_keys k = {keyed ? key : NULL, 0, keyed && each ? n : each, 0};
    k.stride = keyed ? stride : k.end;
    yk_part_of_range(&k.begin, &k.end, 16, me, all);
    return k;
}

/* The number of a worker in the assignment of examples or streams. */
static inline int yk__leaseholder(const yk_server *s, const yk__client *c, uint32_t thread)
{
    return (c->peer - s->plan->first_client) * s->plan->workers_per_process + (int)thread;
}

/* Server 0: whether examples are left, or leased to workers that may return them. */
static inline bool yk__has_examples(const yk_server *s)
{
    return s->config.streams ? !yk_streams_done(s->config.streams)
                             : s->config.assignment && !yk_assignment_done(s->config.assignment);
}

/* Whether the client waits for an answer. */
static inline bool yk__awaits_answer(const yk_server *s, const yk__client *c)
{
    for (int p = 0; p < s->npulls; p++)
        if (c->pull[p].unanswered)
            return true;
    return false;
}

/* Whether all threads of the client are idle. */
static inline bool yk__is_idle(const yk_server *s, const yk__client *c)
{
    for (int i = 0; i < s->plan->workers_per_process; i++)
        if (!c->thread[i].idle)
            return false;
    return true;
}

/* server.c */
bool yk__all_have_left(const yk_server *s);
yk_status yk__client_add(yk_server *s, int peer, yk__client **out);
void yk__stop_if_asked(yk_server *s); /* server 0: the job ends if the hook says so */

/* server_handle.c */
yk_status yk__handle_message(yk_server *s, yk__client *c);
yk_status yk__accept_join(yk_server *s); /* a worker that has connected, if any */
/* Returns its leases, and adds the number of their examples to *examples. */
yk_status yk__return_leases(yk_server *s, yk__client *c, uint64_t *examples);
void yk__count_shares(yk_server *s, yk__client *c); /* marks the examples of its message as used */
yk_status yk__answer_all(yk_server *s, double now); /* now: 0 if the clock was not read */
uint64_t yk__slowest(const yk_server *s); /* steps of the slowest active channel; UINT64_MAX: there is none */

/* server_round.c */
const yk__rounds *yk__rounds_of(const yk_plan *plan);

/* server_parts.c */
yk_status yk__control_round(yk_server *s); /* server 0: the round uses the gradients that have arrived */
/* A message of server 0, if there is one, unless the round that it decided is not complete yet. */
yk_status yk__control_receive(yk_server *s, bool *found);
yk_status yk__snapshot_send(yk_server *s); /* sends all parameters to server 0, if that is due */

#endif
