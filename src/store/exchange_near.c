/* Sums of dense gradients in memory that all ranks see.
 *
 *     of each rank     | shared state | sum (that of rank 0 is used) | gradient |
 *
 *     1  my gradient and its head are there arrived = round
 *     2  all have arrived: I add up my piece     summed = round
 *     3  all have summed: the sum is complete
 *
 * No rank writes what another may still read. Gradients and heads are read until 2 and written again after 3. The sum
 * is read after 3, and written again when all ranks have arrived in the next round, after they have used it.
 */
#include "store/exchange_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The head and progress of a rank; only that rank writes it. */
typedef struct {
    _Alignas(YK_ALIGN) atomic_uint_fast64_t arrived; /* in this round */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t summed;
    yk__head head;
    bool has_examples; /* else its gradient is zero, and not written */
} shared_state;

static shared_state *state_of(const yk_exchange *x, int rank)
{
    return (shared_state *)(void *)x->near[rank];
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
    return (float *)(void *)(x->near[0] + sum_at());
}

static float *gradient_of(const yk_exchange *x, int rank)
{
    return (float *)(void *)(x->near[rank] + gradient_at(x->nparams));
}

size_t yk_exchange_near_bytes(size_t nparams)
{
    return gradient_at(nparams) + YK_ROUND_UP(nparams * sizeof(float), YK_ALIGN);
}

void yk_exchange_near(yk_exchange *x, char *const *at)
{
    x->near = at;
    x->near_wait = yk_comm_local_size(x->comm) <= yk_cores() ? YK_WAIT_MEMORY : YK_WAIT_RANKS;
}

/* ---- waiting ---- */

static bool has(const yk_exchange *x, int rank, bool summed)
{
    const shared_state *s = state_of(x, rank);
    return atomic_load_explicit(summed ? &s->summed : &s->arrived, memory_order_acquire) >= x->near_round;
}

static yk_status too_long(const yk_exchange *x, bool summed, double seconds)
{
    char who[256] = "";
    for (int r = 0; r < x->size && strlen(who) < sizeof who - 16; r++)
        if (r != x->rank && !has(x, r, summed))
            snprintf(who + strlen(who), sizeof who - strlen(who), "%s%d", *who ? ", " : "", r);
    return yk__nobody_moves(x, who, seconds);
}

/* Waits until all ranks have arrived, or summed. *last_out: the last rank that this one waited for; -1: none, this one
 * was last. */
static yk_status wait_all(const yk_exchange *x, bool summed, double seconds, int *last_out)
{
    yk_wait w = yk_wait_begin(x->near_wait, seconds);
    *last_out = -1;
    for (int r = 0; r < x->size; r++)
        while (!has(x, r, summed)) {
            *last_out = r;
            if (!yk_wait_turn(&w))
                return too_long(x, summed, seconds);
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
static void add_up(const yk_exchange *x)
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

/* As many bytes as messages would have: heads, my share of others' pieces, sums. */
static void count(yk_exchange *x)
{
    const size_t others = (size_t)x->size - 1;
    const size_t mine = piece_begin(x, x->rank + 1) - piece_begin(x, x->rank), theirs = x->nparams - mine;
    const size_t each = others * sizeof(yk__head) + (theirs + others * mine) * sizeof(float);
    yk_comm_count(x->comm, YK_FOR_REDUCE, each, each, 3 * (unsigned)others);
}

yk_status yk__near_sum(yk_exchange *x, yk_grad *g, const yk__head *mine, double seconds, yk_round *out)
{
    shared_state *own = state_of(x, x->rank);
    int last;
    own->head = *mine;
    own->has_examples = g->examples > 0;
    if (g->examples)
        memcpy(gradient_of(x, x->rank), g->group[x->dense_group].dense, x->nparams * sizeof(float));
    const double began = yk_now();
    atomic_store_explicit(&own->arrived, ++x->near_round, memory_order_release);
    yk_status st = wait_all(x, false, seconds, &out->last);
    if (st)
        return st;
    out->last_wait = yk_now() - began;
    for (int r = 0; r < x->size; r++)
        x->head[r] = state_of(x, r)->head;
    add_up(x);
    atomic_store_explicit(&own->summed, x->near_round, memory_order_release);
    if ((st = wait_all(x, true, seconds, &last)))
        return st;
    count(x);
    x->final = x->nparams;
    g->group[x->dense_group].dense = sum_of(x);
    return YK_OK;
}
