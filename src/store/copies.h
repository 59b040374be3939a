/* Copies with a bounded lifetime: how workers train keyed groups on shards in asynchronous mode.
 *
 *     announce 0, announce 1 | pull 0  step step step step  announce 2  push 0 + keys 2 | pull 1 (has arrived)  step ...
 *
 * A worker requests the parameters of the next H batches at once, trains on a copy of just these, and sends back the delta of
 * the copy. H batches are the copy's lifetime. By default, two copies are in flight, so that a worker does not wait unless
 * there is a staleness bound; if the model has a network, only one. A bound K limits all copies of a worker in flight to K steps
 * together. One message per server carries thousands of keys instead of those of one batch, each key once. At first, copies are
 * shorter: all copies in flight together have at most 1/64 of the examples so far. The weights move fast then, and copies that are
 * old relative to the run slow it down (docs/convergence.md). While copies are shorter than their lifetime, a worker
 * has only one in flight if keys have vectors and there is no bound.
 *
 * N workers that start from the same value of a hot key each move it most of the way to its optimum. The sum of N such moves
 * would overshoot. So a worker sends a share alpha of its delta (the rule of optim/optim.h):
 *
 *     alpha = 1 / (1 + (M - 1) rho),  rho = m / (1 + m),  m = eta c |x|^1.5 (sum of the key's squared values) / batch
 *
 * M is the number of copies in flight: N workers times `depth`. The sum leaves out one value, because a key that occurred
 * once may be in no other copy. So a key that occurs in every example is averaged (alpha near 1/M), and a rare one is added
 * (alpha near 1). The sum is over the batches of the copy: the frequencies of keys need not be known in advance. Sums in the
 * optimizer's state (adagrad, ftrl) are scaled by alpha, too. Without a bound, copies have no velocities
 * (yk_optim_without_velocity). For a dense group, 1/M of the delta is added.
 *
 * For data in memory, a copy holds one chunk (chunks.h), whose keys are found once. A copy of fewer batches has only their
 * keys. For a stream, keys are found in each batch. Lazy decay (decay.c) is applied by the servers: copies do not decay.
 *
 * Each worker calls the store on its own thread.
 */
#ifndef YK_STORE_COPIES_H
#define YK_STORE_COPIES_H

#include "store/local.h"
#include "store/remote.h"

typedef struct {
    yk_remote *remote;    /* borrowed; with a channel for each worker */
    yk_phases *phases;    /* [workers], or NULL. Borrowed */
    int workers;          /* threads of this process */
    uint64_t lifetime;    /* H, in batches */
    int depth;            /* copies in flight */
    bool bounded;         /* there is a staleness bound */
    yk_chunks *chunks;    /* data in memory: a copy holds one chunk; NULL: any batches. Borrowed */
    yk_local_config copy; /* of all parameters; keyed groups are allocated as large as a copy needs */
} yk_copies_config;

yk_status yk_copies_create(const yk_copies_config *config, yk_store **out);

#endif
