/* All-reduce for replicas: in each round, the dense gradients of all ranks are replaced by their sum, on all ranks.
 *
 * Example:
 *     yk_exchange *x;
 *     yk_round round;
 *     yk_status st = yk_exchange_create(comm, 1000000, 30.0, 60.0, &x);
 *     // in each step
 *     st = yk_exchange_ready(x, dense, begin, end); // optional, during the backward pass: these gradients are final
 *     st = yk_exchange_sum(x, &grad, YK_ACTION_CONTINUE, NULL, &round); // grad is now the sum, in rank order
 *     yk_exchange_end_round(x, &round, NULL);
 *     yk_exchange_free(x);
 *
 * Gradients are divided into buckets, and each bucket into one piece per rank. For a bucket of n floats and N ranks:
 *
 *     1  rank r sends piece p of its own gradient to rank p, for all p       (N - 1) n / N floats out, as many in
 *     2  rank p adds all copies of piece p: 0 + g0 + g1 + ... in rank order: the same bits every time
 *     3  rank p sends the sum to all ranks                                   (N - 1) n / N floats out, as many in
 *
 * which is the minimum for an all-reduce. Buckets are processed from the last parameters to the first, the order of a
 * backward pass, a few at a time, which limits the memory. Messages make progress in yk_exchange_ready() and
 * yk_exchange_sum(); a network calls the former after each layer.
 *
 * If all ranks are on one host, small gradients are not sent. Each rank sums its piece of all gradients in shared
 * memory (yk_exchange_use_shared_memory), in the same order, with the same bits. What it reads from other ranks is counted as
 * if it had been sent.
 *
 * A rank without examples takes part with zeros. One thread calls these functions.
 */
#ifndef YK_STORE_EXCHANGE_H
#define YK_STORE_EXCHANGE_H

#include "comm/comm.h"
#include "core/grad.h"
#include "store/store.h"
#include "watch/phase.h"
#include "watch/trace.h"

typedef struct yk_exchange yk_exchange;

/* The totals of a round, over all ranks. */
typedef struct {
    uint64_t examples;
    double extra_weight, loss; /* as in a gradient (core/grad.h) */
    uint32_t action;           /* the maximum over all ranks */
    uint64_t steps;            /* the maximum over all ranks */
    int trained;               /* ranks with examples */
    double last_wait;          /* seconds that this rank waited for the last one to arrive */
    int last;                  /* the rank that arrived last, as seen by this rank; -1: this rank itself */
} yk_round;

/* How many seconds to wait for other ranks: `timeout`, or several times the longest round if that is longer; first_timeout
 * in the first two rounds. */
yk_status yk_exchange_create(yk_comm *comm, size_t nparams, double timeout, double first_timeout,
                             yk_exchange **out);
void yk_exchange_free(yk_exchange *x); /* NULL is fine */

/* From now on, sums use shared memory: `at` [size], with yk_exchange_shared_memory_bytes() for each rank (comm/comm.h). It
 * must outlive x. */
size_t yk_exchange_shared_memory_bytes(size_t nparams);
void yk_exchange_use_shared_memory(yk_exchange *x, char *const *at, yk_wait_kind wait);

yk_status yk_exchange_ready(yk_exchange *x, float *dense, size_t begin, size_t end);

/* A step: afterwards, g is the sum. track: a timeline that records it, or NULL. */
yk_status yk_exchange_sum(yk_exchange *x, yk_grad *g, uint32_t action, yk_trace_track *track, yk_round *out);

/* The totals of a round without gradients. */
yk_status yk_exchange_headers(yk_exchange *x, const yk_step_result *own, yk_round *out);

/* Call it after yk_exchange_headers() if the round has examples. Replaces an array [nparams] with its mean over the ranks, weighted
 * by examples. */
yk_status yk_exchange_mean(yk_exchange *x, const yk_round *round, float *array);

/* A round of all ranks is over. Updates the phases of the thread that took part (NULL: not measured). */
void yk_exchange_end_round(yk_exchange *x, const yk_round *round, yk_phases *phases);

#endif
