/* Replicas: every rank has all parameters, and in each round the gradients of all ranks become their sum, on all ranks.
 *
 *     st = yk_exchange_create(comm, group, ngroups, &x);
 *     st = yk_exchange_ready(x, dense, begin, end);    // optional, while the backward pass still runs: these are final
 *     st = yk_exchange_sum(x, &grad, word, 1, seconds, &round);   // grad is now the sum over the ranks, in rank order
 *
 * Dense gradients are cut into buckets, and each bucket into one piece per rank. For a bucket of n floats and N ranks:
 *
 *     1  rank r sends piece p of its own gradient to rank p, for all p       (N - 1) n / N floats out, as many in
 *     2  rank p adds what it has of piece p: 0 + g0 + g1 + ... in rank order: the same bits every time
 *     3  rank p sends the sum to all                                         (N - 1) n / N floats out, as many in
 *
 * which is the least that any all-reduce can send. Buckets go from the last parameters to the first, as a backward pass
 * makes them, a few at a time; memory is that of these few. Messages make progress in yk_exchange_ready() and
 * yk_exchange_sum(): a network calls the former after each layer.
 *
 * The gradient of a keyed group is sent as keys with their values, each key once, to all; every rank adds all of them in
 * rank order.
 *
 * If all ranks are on one machine, small dense gradients are not sent. Each rank sums its piece of all gradients in
 * shared memory (yk_exchange_near), in the same order, with bitwise the same result. What it reads from other ranks is
 * counted as if it had been sent.
 *
 * A rank without examples takes part with zeros. One thread.
 */
#ifndef YK_STORE_EXCHANGE_H
#define YK_STORE_EXCHANGE_H

#include "base/grad.h"
#include "comm/comm.h"
#include "watch/trace.h"

typedef struct yk_exchange yk_exchange;

/* What all ranks together did in a round. */
typedef struct {
    uint64_t examples;
    double loss;
    uint32_t word;  /* the largest of all ranks' words */
    uint64_t steps; /* the largest of all ranks' `steps` */
    double
        last_wait; /* seconds from this rank's arrival until the last one's: how long it waited for others */
    int last;      /* the rank that came last, as far as this one can see; -1: this one itself */
} yk_round;

yk_status yk_exchange_create(yk_comm *comm, const yk_group *group, int ngroups, yk_exchange **out);
void yk_exchange_free(yk_exchange *x); /* NULL is fine */
int yk_exchange_ranks(const yk_exchange *x);

void yk_exchange_trace(yk_exchange *x,
                       yk_trace_track *track); /* sums appear there; borrowed, NULL: no more */

/* Without keyed groups: from now on dense sums use shared memory: `at` [size], yk_exchange_near_bytes() for each rank (comm/memory.h). It
 * must outlive x. */
size_t yk_exchange_near_bytes(size_t nparams);
void yk_exchange_near(yk_exchange *x, char *const *at);

yk_status yk_exchange_ready(yk_exchange *x, float *dense, size_t begin, size_t end);

/* The dense gradient is summed in place; of keyed groups g->group[].pairs are the sum afterwards. `steps`: see yk_round. */
yk_status yk_exchange_sum(yk_exchange *x, yk_grad *g, uint32_t word, uint64_t steps, double seconds,
                          yk_round *out);

/* Only what the ranks say of themselves; no gradients. */
yk_status yk_exchange_heads(yk_exchange *x, uint64_t examples, double loss, uint32_t word, uint64_t steps,
                            double seconds, yk_round *out);

/* Something of any length from everybody to everybody; data_out[r] is borrowed until the next call. */
yk_status yk_exchange_all(yk_exchange *x, const void *mine, size_t bytes, double seconds,
                          const char **data_out, size_t *bytes_out);

/* The mean over the ranks of any array, in place (for averaging weights); n as large as one likes. */
yk_status yk_exchange_mean(yk_exchange *x, float *array, size_t n, double seconds);

#endif
