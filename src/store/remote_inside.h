/* Inside of a worker's way to the servers: remote.c sends, receives and waits, remote_batch.c renames sparse batches,
 * remote_deal.c greets, asks for examples, and says goodbye. */
#ifndef YK_STORE_REMOTE_INSIDE_H
#define YK_STORE_REMOTE_INSIDE_H

#include "base/keys.h"
#include "base/mem.h"
#include "kern/linear.h"
#include "store/messages.h"
#include "store/remote.h"

/* What was asked for, or will be: the parameters of a batch, or of several. */
typedef struct {
    int missing; /* servers that have not answered yet */
    uint32_t number;
    uint64_t asked_at; /* ns; for the timeline */
    yk_rows rows;      /* sparse: the batches with places instead of keys; arrays of ours */
    uint32_t *pick;    /* 0, 1, 2, ... */
    size_t *end;       /* [batches] where each ends in `pick` */
    size_t row_cap, label_cap, entry_cap, value_cap, pick_cap, end_cap;
    yk_batch dense;      /* as it came */
    size_t batches;      /* of it */
    size_t nkeys;        /* different keys; dense: 1, all of them */
    uint32_t *server_of; /* [nkeys] */
    size_t server_cap;
    size_t *count; /* [servers] keys of each */
    float *w;      /* [arrays][nkeys] or [arrays][nparams] */
    size_t w_cap;
} yk__asked;

/* What one server sends. */
typedef struct {
    int peer;
    char *in;
    size_t in_cap;
    yk_op in_op;
    bool receiving;
    double heard;
    uint32_t answers; /* that it has sent: one to each number that was asked for */
    char *out[YK__OUTSTANDING];
    size_t out_cap[YK__OUTSTANDING];
    yk_op out_op[YK__OUTSTANDING], alive_op;
} yk__line;

struct yk_remote {
    yk_remote_config config;
    size_t arrays; /* that travel: with local steps the optimizer's state does */
    const yk_linear_ops *kern;
    yk__line *line;
    yk__asked slot[YK__OUTSTANDING];
    uint32_t next_ask, next_pull, messages;
    yk__asked *current; /* that the worker computes with */
    yk__asked *open;    /* that batches are gathered for; NULL: none yet */
    yk_merger keys;     /* of `open` */
    float *grad;        /* sparse: [nkeys] */
    size_t grad_cap;
    yk_remote_news news;
    uint64_t place[YK__PLACE];
    uint64_t kept; /* ns that our last gradient waited at server 0 for those of others */
    yk__up ask_deal;
    yk_op deal_op;
    uint64_t life, dealt_life, push_life; /* ours; of the run that is here; of the next push */
    yk__up alive;
    double told;
    int greeted;
    bool deal_pending, deal_here, deal_later;
    yk_lease dealt;
};

/* remote.c: until all have answered; or (asked NULL) server 0 has dealt examples */
yk_status yk__remote_wait(yk_remote *r, const yk__asked *asked, const char *what);

/* remote_batch.c: what will be asked for; it begins empty, and a batch is copied if it is sparse */
yk__asked *yk__asked_open(yk_remote *r);
yk_status yk__asked_add(yk_remote *r, const yk_batch *b);
yk_status yk__asked_close(yk_remote *r, yk__asked **out); /* it has a number now */
void yk__asked_fini(yk_remote *r, yk__asked *a);

#endif
