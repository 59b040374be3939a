/* Copies with a bounded lifetime: how workers train keyed groups on shards asynchronously.
 *
 *     announce 0, announce 1 | pull 0  step step step step  announce 2  push 0 + keys 2 | pull 1 (is here already)  step ...
 *
 * A worker asks for the parameters of the next H batches at once, trains on a copy of just these, and sends back how the
 * copy has changed. H batches are the copy's lifetime. Two copies are under way, so that a worker does not wait while
 * there is no bound; a staleness bound K limits both together to K steps. One message per server carries thousands of keys
 * instead of those of one batch, each key once.
 *
 * N workers that all start from the same value of a hot key each move it most of the way to its optimum, and N such moves
 * added up would overshoot. So a worker sends a share of its move (the rule of optim/optim.h):
 *
 *     alpha = 1 / (1 + (M - 1) rho),  rho = m / (1 + m),  m = eta c |x|^1.5 (sum of the key's squared values) / batch
 *
 * M is the number of copies under way, N workers times `depth`. The sum leaves out one value: a key that occurred once may be in no other copy.
 *
 * A key that occurs in every example is averaged (alpha near 1/M), a rare one is added (alpha near 1). The sum is that of
 * the copy's own batches: nobody has to know the frequencies of keys beforehand. Sums of the optimizer (adagrad, ftrl) are
 * added in full, moving means by 1/M. For a dense group, 1/M of the delta is added.
 *
 * For data in memory, a copy holds one chunk (chunks.h), whose keys are found once. For a stream, they are found in
 * each batch.
 *
 * Where a key's decay is caught up on lazily (decay.c), its owner does that: copies do not decay.
 */
#ifndef YK_STORE_COPIES_H
#define YK_STORE_COPIES_H

#include "store/local.h"
#include "store/remote.h"

typedef struct {
    yk_remote *remote;    /* borrowed; with a lane for each worker */
    yk_phases *phases;    /* [workers], or NULL. Borrowed */
    int workers;          /* threads of this process */
    int all_workers;      /* N */
    uint64_t lifetime;    /* H, in batches */
    int depth;            /* copies under way */
    yk_chunks *chunks;    /* in memory: a copy is of a chunk; NULL: of any batches. Borrowed */
    yk_local_config copy; /* of all parameters; that of keyed groups is made as large as a copy needs */
} yk_copies_config;

yk_status yk_copies_create(const yk_copies_config *config, yk_store **out);

#endif
