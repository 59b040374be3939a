/* Sums of gradients in shared memory.
 *
 *     memory of each rank     | shared state | sum (only that of rank 0 is used) | gradient |
 *
 *     1  a rank writes its gradient and its header  stage = 2 round - 1
 *     2  all have arrived: it adds up its piece     stage = 2 round
 *     3  all have summed: the sum is complete
 *
 * No rank writes what another may still read. Gradients and headers are read until 2 and written again after 3. The sum
 * is read after 3, and written again when all ranks have arrived in the next round, after they have used it.
 */
#include "store/exchange_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/team.h"
#include <stdatomic.h>
#include <string.h>

/* The memory of a rank. */
typedef struct {
    _Alignas(YK_ALIGN) atomic_uint_fast64_t stage; /* 2 round - 1: it has arrived; 2 round: it has summed */
    _Alignas(YK_ALIGN) yk__header head;
    bool has_examples;               /* otherwise its gradient is zero, and not written */
    _Alignas(YK_ALIGN) float data[]; /* the sum, the gradient */
} shared_state;

static shared_state *state_of(const yk_exchange *x, int rank)
{
    return (shared_state *)(void *)x->shared[rank];
}

static float *gradient_of(const yk_exchange *x, int rank)
{
    return state_of(x, rank)->data + YK_ROUND_UP(x->nparams, 16);
}

size_t yk_exchange_shared_memory_bytes(size_t nparams)
{
    return sizeof(shared_state) + 2 * YK_ROUND_UP(nparams, 16) * sizeof(float);
}

void yk_exchange_use_shared_memory(yk_exchange *x, char *const *at)
{
    x->shared = at;
    x->shared_wait = yk_comm_sharing(x->comm) <= yk_cores() ? YK_WAIT_MEMORY : YK_WAIT_RANKS;
}

bool yk__shared_is_missing(const yk_exchange *x, int rank)
{
    return atomic_load_explicit(&state_of(x, rank)->stage, memory_order_acquire) < x->shared_stage;
}

/* This rank has arrived, or summed: waits until all have. *last_out: the last rank that this one waited for; -1: none,
 * this one was last. */
static yk_status wait_all(yk_exchange *x, int *last_out)
{
    yk_wait w = yk_wait_begin(x->shared_wait, x->limit);
    atomic_store_explicit(&state_of(x, x->rank)->stage, ++x->shared_stage, memory_order_release);
    *last_out = -1;
    for (int r = 0; r < x->size; r++)
        while (yk__shared_is_missing(x, r)) {
            *last_out = r;
            const yk_status st = yk__exchange_poll(x, &w);
            if (st)
                return st;
        }
    return YK_OK;
}

/* Counts the bytes that messages would have: headers, gradients of pieces, sums. mine: floats of this rank's piece. */
static void count(yk_exchange *x, size_t mine)
{
    const size_t others = (size_t)x->size - 1, values = (x->nparams - mine + others * mine) * sizeof(float),
                 each = others * sizeof(yk__header) + values;
    yk_comm_count_values(x->comm, 0, values);
    yk_comm_count_shared(x->comm, YK_PURPOSE_REDUCE, each, each, 3 * (unsigned)others);
}

yk_status yk__shared_sum(yk_exchange *x, yk_grad *g, const yk__header *mine, yk_round *out)
{
    const yk__slot all = {.end = x->nparams};
    const size_t begin = yk__piece_begin(x, &all, x->rank), n = yk__piece_begin(x, &all, x->rank + 1) - begin;
    shared_state *own = state_of(x, x->rank);
    float *sum = state_of(x, 0)->data;
    int last;
    own->head = *mine;
    own->has_examples = g->examples > 0;
    if (g->examples)
        memcpy(gradient_of(x, x->rank), g->group[0].dense, x->nparams * sizeof(float));
    const double began = yk_now();
    yk_status st = wait_all(x, &out->last);
    if (st)
        return st;
    out->last_wait = yk_now() - began;
    for (int r = 0; r < x->size; r++) {
        x->head[r] = state_of(x, r)->head;
        x->piece[r] = state_of(x, r)->has_examples ? gradient_of(x, r) + begin : NULL;
    }
    yk__sum_piece(x, n, sum + begin);
    if ((st = wait_all(x, &last)))
        return st;
    count(x, n);
    x->final = x->nparams;
    g->group[0].dense = sum;
    return YK_OK;
}
