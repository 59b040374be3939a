/* The internals of an exchange: exchange.c sums gradients with messages, exchange_shared.c in shared memory. */
#ifndef YK_STORE_EXCHANGE_INTERNAL_H
#define YK_STORE_EXCHANGE_INTERNAL_H

#include "base/wait.h"
#include "store/exchange.h"

enum { YK__BUCKETS_IN_FLIGHT = 8 };

/* The header that a rank sends in each round. */
typedef struct {
    uint64_t examples, steps;
    double extra_weight, loss;
    uint32_t action, round;
} yk__header;

/* The messages of a bucket between this rank and another one. */
typedef struct {
    yk_op gather_in, gather_out;       /* its gradient of our piece; our gradient of its piece */
    yk_op broadcast_in, broadcast_out; /* the sum of its piece; the sum of ours */
    bool posted;                       /* broadcast_in was posted, into the buffer that gather_out sent */
    float *in;                         /* its gradient of our piece */
} yk__transfer;

typedef struct {
    bool used, summed;
    size_t begin, end; /* parameters */
    int tag;
    yk__transfer *transfer; /* [size] by rank; that of this rank is unused */
} yk__slot;

struct yk_exchange {
    yk_comm *comm;
    int rank, size;
    size_t nparams, bucket; /* floats */
    yk__slot slot[YK__BUCKETS_IN_FLIGHT];
    yk__transfer *transfers; /* of all slots */
    float *pieces;           /* their receive buffers */
    size_t begun, ended;     /* buckets of this round, from the last parameters to the first */
    size_t final;            /* the gradients of parameters from here on are final */
    float *dense;            /* the gradient of this round */
    float *zeros;            /* the gradient of a rank without examples */
    uint32_t round;
    double timeout, longest; /* seconds: of a round; of the longest round so far */
    double limit;            /* how long to wait in this round */
    double last_round_at;    /* when the last round ended */
    unsigned rounds;         /* that have ended */

    yk__header *head;              /* [size] */
    yk_op *header_in, *header_out; /* [size] */

    const float **piece; /* [size] what yk__sum_piece() adds; NULL: zeros */
    char *const *shared; /* [size] shared memory; NULL: messages */
    uint64_t shared_stage;
    yk_wait_kind shared_wait;
};

/* One iteration of a wait. Fails after the timeout, or if a rank that others wait for is lost. */
yk_status yk__exchange_poll(const yk_exchange *x, yk_wait *w);
size_t yk__piece_begin(const yk_exchange *x, const yk__slot *s, int rank); /* of the piece that a rank sums */
void yk__sum_piece(const yk_exchange *x, size_t n, float *out);            /* x->piece [n], in rank order */

/* exchange_shared.c */
bool yk__shared_is_missing(const yk_exchange *x, int rank);
yk_status yk__shared_sum(yk_exchange *x, yk_grad *g, const yk__header *mine, yk_round *out);

#endif
