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
#include <stdio.h>
#include <string.h>

/* The header and progress of a rank; only that rank writes it. */
typedef struct {
    _Alignas(YK_ALIGN) atomic_uint_fast64_t stage; /* 2 round - 1: it has arrived; 2 round: it has summed */
    _Alignas(YK_ALIGN) yk__header head;
    bool has_examples; /* otherwise its gradient is zero, and not written */
} shared_state;

static shared_state *state_of(const yk_exchange *x, int rank)
{
    return (shared_state *)(void *)x->shared[rank];
}

static size_t sum_at(void)
{
    return YK_ROUND_UP(sizeof(shared_state), YK_ALIGN);
}

static size_t gradient_at(size_t nparams)
{
    return sum_at() + YK_ROUND_UP(nparams * sizeof(float), YK_ALIGN);
}

static float *sum_of(const yk_exchange *x)
{
    return (float *)(void *)(x->shared[0] + sum_at());
}

static float *gradient_of(const yk_exchange *x, int rank)
{
    return (float *)(void *)(x->shared[rank] + gradient_at(x->nparams));
}

size_t yk_exchange_shared_memory_bytes(size_t nparams)
{
    return gradient_at(nparams) + YK_ROUND_UP(nparams * sizeof(float), YK_ALIGN);
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
            if (!yk_wait_poll(&w))
                return yk__timed_out(x);
        }
    return YK_OK;
}

/* ---- the sum ---- */

static size_t piece_begin(const yk_exchange *x, int rank)
{
    const size_t lines = (x->nparams + 15) / 16, at = lines * (size_t)rank / (size_t)x->size * 16;
    return at < x->nparams ? at : x->nparams;
}

/* 0 + g0 + g1 + ... in rank order; block by block, so that the sum stays in the cache. */
static void sum_pieces(const yk_exchange *x)
{
    enum { BLOCK = 1024 };
    const size_t end = piece_begin(x, x->rank + 1);
    for (size_t at = piece_begin(x, x->rank); at < end; at += BLOCK) {
        const size_t n = end - at < BLOCK ? end - at : BLOCK;
        float *restrict sum = sum_of(x) + at;
        memset(sum, 0, n * sizeof *sum);
        for (int r = 0; r < x->size; r++) {
            const float *g = gradient_of(x, r) + at;
            for (size_t k = 0; state_of(x, r)->has_examples && k < n; k++)
                sum[k] += g[k];
        }
    }
}

/* Counts the bytes that messages would have: headers, gradients of pieces, sums. */
static void count(yk_exchange *x)
{
    const size_t others = (size_t)x->size - 1;
    const size_t mine = piece_begin(x, x->rank + 1) - piece_begin(x, x->rank), theirs = x->nparams - mine;
    const size_t values = (theirs + others * mine) * sizeof(float),
                 each = others * sizeof(yk__header) + values;
    yk_comm_count_values(x->comm, 0, values);
    yk_comm_count_shared(x->comm, YK_PURPOSE_REDUCE, each, each, 3 * (unsigned)others);
}

yk_status yk__shared_sum(yk_exchange *x, yk_grad *g, const yk__header *mine, yk_round *out)
{
    shared_state *own = state_of(x, x->rank);
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
    for (int r = 0; r < x->size; r++)
        x->head[r] = state_of(x, r)->head;
    sum_pieces(x);
    if ((st = wait_all(x, &last)))
        return st;
    count(x);
    x->final = x->nparams;
    g->group[0].dense = sum_of(x);
    return YK_OK;
}
