/* Inside of an exchange: exchange.c sums with messages, exchange_pairs.c those of keyed groups, exchange_near.c in memory. */
#ifndef YK_STORE_EXCHANGE_INTERNAL_H
#define YK_STORE_EXCHANGE_INTERNAL_H

#include "base/wait.h"
#include "store/exchange.h"

enum { YK__SLOTS = 8 }; /* buckets under way */

/* What a rank says of itself in a round. */
typedef struct {
    uint64_t examples, steps, pairs[YK_MAX_GROUPS]; /* pairs: keys of each group */
    double loss;
    uint32_t word, round;
} yk__head;

/* A bucket between this rank and one other. */
typedef struct {
    yk_op gather_in, gather_out; /* its share of my piece; my share of its piece */
    yk_op spread_in, spread_out; /* the sum of its piece; the sum of mine */
    bool asked;                  /* for spread_in, which lands where gather_out is sent from */
    float *in;                   /* its share of my piece */
} yk__lane;

typedef struct {
    bool used, summed;
    size_t begin, end; /* parameters */
    int tag;
    yk__lane *lane; /* [size], the own one unused */
} yk__slot;

struct yk_exchange {
    yk_comm *comm;
    int rank, size;
    int ngroups, dense_group; /* dense_group: -1: none */
    yk_group group[YK_MAX_GROUPS];
    bool keyed;     /* there are keyed groups */
    size_t nparams; /* of the dense group */
    size_t bucket;
    yk__slot slot[YK__SLOTS];
    size_t begun, ended; /* buckets of this round; they go from the last parameters to the first */
    size_t final;        /* parameters from here on are */
    float *dense;        /* of the round under way */
    float *zeros;        /* stands in for a dense gradient of no examples; NULL: no dense group */
    uint32_t round;
    yk_trace_track *track; /* NULL: no timeline */

    yk__head *head;            /* [size] */
    yk_op *head_in, *head_out; /* [size] */
    yk_op *pairs_in, *pairs_out;
    yk_merger own[YK_MAX_GROUPS], sum[YK_MAX_GROUPS];
    char **in; /* [size] received pairs: keys, then values */
    size_t *in_cap;
    char *out;
    size_t out_cap;

    char *const *near; /* [size] memory that all see; NULL: messages */
    uint64_t near_round;
    yk_wait_kind near_wait;
};

yk_status yk__nobody_moves(const yk_exchange *x, const char *who, double seconds);
void yk__add_heads(const yk_exchange *x, yk_round *out);

/* exchange_pairs.c */
size_t yk__pairs_bytes(const yk_exchange *x, const yk__head *h);
yk_status yk__pairs_send_all(yk_exchange *x, const void *data, size_t bytes);
yk_status yk__pairs_take(yk_exchange *x, int r, size_t bytes);
yk_status yk__pairs_merge(yk_exchange *x, const yk_grad *g, yk__head *head); /* this rank's, each key once */
yk_status yk__pairs_send(yk_exchange *x);
yk_status yk__pairs_add(yk_exchange *x);

/* exchange_near.c: a round of dense gradients. */
yk_status yk__near_sum(yk_exchange *x, yk_grad *g, const yk__head *mine, double seconds, yk_round *out);

#endif
