/* Inside of a server: server.c serves, server_take.c takes messages, server_answer.c answers, server_round.c makes of what workers send new
 * parameters, server_control.c sends messages from server 0 to the others, server_join.c lets workers join,
 * server_parts.c hands parameters over as a whole. */
#ifndef YK_STORE_SERVER_INTERNAL_H
#define YK_STORE_SERVER_INTERNAL_H

#include "base/mem.h"
#include "store/delta.h"
#include "store/messages.h"
#include "store/server.h"

enum { YK__MOST_WORKERS = 1024 };

/* What a lane of a client asked for, until it is answered and its gradient has come. */
typedef struct {
    bool owed;           /* the answer is still to be sent */
    bool of_push, wants; /* wants: values */
    uint32_t number, n;
    uint32_t *key; /* of keyed groups: numbers on this server */
    size_t key_cap;
    uint64_t updates_then, own_then; /* when it was answered: for the staleness of the gradient */
    char *out;
    size_t out_cap;
    yk_op op;
} yk__pull;

/* A thread of a client. */
typedef struct {
    bool idle, left;         /* idle: waits for examples; left: of a lane */
    uint64_t pushes, rounds; /* of a lane: steps, and the messages that brought them */
    uint64_t cursor[YK_CURSOR];
    yk__down lease;
    yk_op lease_op;
} yk__client_thread;

typedef struct {
    int peer;
    bool here, bye, joined, lost;
    double heard, longest, alive_at, pushed_at, kept; /* kept: seconds that its gradient waited for others' */
    uint64_t incarnation, messages, pushes, examples, late, came_last;
    uint64_t skipped; /* steps that the others made without it: nobody waits until it has made those, too */
    double waited;
    yk__client_thread *thread; /* [threads] */

    char *in; /* the message that is being received, or was: head, shares, values, keys */
    size_t in_cap;
    yk_op in_op;
    bool receiving, pushed; /* lockstep: the gradient in `in` waits for the others */
    bool counts;            /* and is part of the round; with a quorum server 0 decides */

    yk__pull *pull; /* [lanes * YK__OUTSTANDING] by number */
    yk__down alive;
    yk_op alive_op;
} yk__client;

/* From server 0 to the others. */
typedef struct {
    yk__up up;
    uint32_t peer[YK__MOST_WORKERS];
} yk__control;

struct yk_server {
    yk_server_config config;
    int me;
    bool chief, over, stopping;
    double over_at;    /* when server 0 said so */
    yk__layout layout; /* of values in messages */
    int npulls;        /* of a client */
    yk__client *client;
    int nclients, here;
    uint64_t round, updates, late, late_examples, returned;
    uint64_t round_examples; /* of the last round */
    double round_loss;
    float *sum;         /* lockstep, the dense group: [arrays][floats] */
    yk_delta_sums sums; /* lockstep, keyed groups */
    yk_staleness staleness;
    double stale_sum;
    struct yk__listener *listener; /* NULL: nobody may join */
    uint32_t *parts;               /* server 0: a snapshot, the arrays of one server after the other */
    uint64_t parts_steps;
    bool snapshot_wanted; /* by server 0 */
    bool snapshot_last;   /* when all clients have left */
    uint64_t snapshot_round;
    double snapshot_at; /* when server 0 said so */
    yk__control control;
    bool decided; /* with a quorum, not on server 0: `control` says which workers' gradients the round uses */
};

static inline const yk__up *yk__head_of(const yk__client *c)
{
    return (const yk__up *)(const void *)c->in;
}

static inline const yk__share *yk__shares_of(const yk__client *c)
{
    return (const yk__share *)(const void *)(c->in + sizeof(yk__up));
}

/* What came behind the shares of a message. */
static inline float *yk__values_of(const yk__client *c)
{
    return (float *)(void *)(c->in + sizeof(yk__up) + yk__head_of(c)->nshares * sizeof(yk__share));
}

static inline yk__pull *yk__pull_of(const yk_server *s, const yk__client *c, uint32_t number)
{
    return &c->pull[number % (uint32_t)s->npulls];
}

/* A worker's name for the assignment. */
static inline int yk__leaseholder(const yk_server *s, const yk__client *c, uint32_t thread)
{
    return c->peer * s->config.threads + (int)thread;
}

/* Whether any of its threads has something to do. */
static inline bool yk__is_idle(const yk_server *s, const yk__client *c)
{
    for (int i = 0; i < s->config.threads; i++)
        if (!c->thread[i].idle)
            return false;
    return true;
}

/* server.c */
extern const double yk__leave_seconds; /* how long a server waits for goodbyes that server 0 has heard */
bool yk__all_have_left(const yk_server *s);
yk_status yk__client_add(yk_server *s, int peer, yk__client **out);

/* server_take.c */
yk_status yk__take_message(yk_server *s, yk__client *c);
yk_status yk__return_leases(yk_server *s, yk__client *c, uint64_t *examples); /* adds their number */
void yk__count_shares(yk_server *s, yk__client *c); /* the examples of its message are used */

/* server_answer.c; now: 0 where nobody has looked at the clock */
yk_status yk__answer_all(yk_server *s, double now);
uint64_t yk__slowest(const yk_server *s); /* steps of the slowest lane that is there; UINT64_MAX: none is */

/* One that comes, or comes back, begins where the slowest is. */
static inline void yk__skip_missed(yk_server *s, yk__client *c)
{
    const uint64_t least = yk__slowest(s), own = c->thread[0].pushes;
    if (least != UINT64_MAX && least > c->skipped + own)
        c->skipped = least - own;
}

/* server_round.c */
yk_status yk__take_push(yk_server *s, yk__client *c, const yk__up *up); /* not in step */
yk_status yk__apply_at_once(yk_server *s, yk__client *c); /* lockstep: groups that are not synchronous */
yk_status yk__close_round_if_all(yk_server *s);

/* server_control.c */
yk_status yk__control_end(yk_server *s);
yk_status yk__control_round(yk_server *s); /* with a quorum: the round uses the gradients that have arrived */
yk_status yk__control_take(yk_server *s, size_t bytes); /* a message from server 0 has arrived */

/* server_join.c */
yk_status yk__accept_join(yk_server *s); /* one that waits at the door, if any */
yk_status yk__take_hello(yk_server *s, yk__client *c, const yk__up *up); /* its first word */

/* server_parts.c */
yk_status yk__snapshot_out(yk_server *s); /* all that this server has, to server 0, if it is time */

#endif
