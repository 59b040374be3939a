/* Inside of a server: server.c serves, server_answer.c answers, server_round.c makes of what workers send new
 * parameters, server_control.c sends messages from server 0 to the others, server_join.c lets workers join,
 * server_parts.c hands parameters over as a whole. */
#ifndef YK_STORE_SERVER_INSIDE_H
#define YK_STORE_SERVER_INSIDE_H

#include "base/mem.h"
#include "store/changes.h"
#include "store/messages.h"
#include "store/server.h"

enum { YK__MOST_WORKERS = 1024 };

/* What a worker asked for, until it is answered and its gradient has come. */
typedef struct {
    bool owed; /* the answer is still to be sent */
    bool of_push;
    uint32_t number, n;
    uint32_t *key; /* sparse: numbers of this server's parameters */
    size_t key_cap;
    uint64_t updates_then, own_then; /* when it was answered: for the staleness of the gradient */
    char *out;
    size_t out_cap;
    yk_op op;
} yk__pull;

typedef struct {
    int peer;
    bool here, bye, joined, lost, idle;               /* idle: waits for examples */
    double heard, longest, alive_at, pushed_at, kept; /* kept: seconds that its gradient waited for others' */
    uint64_t life, messages, pushes, examples, late, came_last;
    uint64_t skipped; /* steps that the others made without it: nobody waits until it has made those, too */
    double waited;
    uint64_t place[YK__PLACE];

    char *in; /* the message that is being received, or was: head, then values, then keys */
    size_t in_cap;
    yk_op in_op;
    bool receiving, pushed; /* in step: the gradient in `in` waits for the others */
    bool counts;            /* and is part of the round; with a quorum server 0 decides */

    yk__pull pull[YK__OUTSTANDING];
    yk__down alive, dealt;
    yk_op alive_op, deal_op;
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
    double over_at; /* when server 0 said so */
    size_t piece;
    int arrays; /* that travel: with local steps the optimizer's state does */
    const float *w;
    yk__client *client;
    int nclients, here;
    uint64_t round, updates, late, late_examples, returned;
    uint64_t round_examples; /* of the last round */
    double round_loss;
    float *sum;      /* in step, dense: [arrays][piece] */
    yk_changes sums; /* in step, sparse */
    yk_staleness staleness;
    double stale_sum;
    struct yk__door *door; /* NULL: nobody may join */
    bool snapshot_wanted;  /* by server 0 */
    uint64_t snapshot_round;
    yk__control control;
    bool decided; /* with a quorum, not on server 0: `control` says which workers' gradients the round uses */
};

/* What came behind the head of a message. */
static inline float *yk__values_of(const yk__client *c)
{
    return (float *)(void *)(c->in + sizeof(yk__up));
}

/* server_answer.c; now: 0 where nobody has looked at the clock */
yk_status yk__answer_all(yk_server *s, double now);
uint64_t yk__slowest(const yk_server *s); /* steps of the slowest worker that is there; UINT64_MAX: none is */

/* One that comes, or comes back, begins where the slowest is. */
static inline void yk__skip_missed(yk_server *s, yk__client *c)
{
    const uint64_t least = yk__slowest(s);
    if (least != UINT64_MAX && least > c->skipped + c->pushes)
        c->skipped = least - c->pushes;
}

/* server_round.c */
yk_status yk__take_push(yk_server *s, yk__client *c, const yk__up *up); /* not in step */
yk_status yk__close_round_if_all(yk_server *s);

/* server_control.c */
yk_status yk__control_end(yk_server *s);
yk_status yk__control_round(yk_server *s); /* with a quorum: the round uses the gradients that have arrived */
yk_status yk__control_take(yk_server *s, size_t bytes); /* a message from server 0 has arrived */

/* server_join.c */
yk_status yk__let_in(yk_server *s);                                 /* one that waits at the door, if any */
yk_status yk__greet(yk_server *s, yk__client *c, const yk__up *up); /* its first word */

/* server_parts.c */
yk_status yk__snapshot_out(yk_server *s); /* all that this server has, to server 0, if it is time */

#endif
