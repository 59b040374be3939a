/* Sums of dense gradients in memory that all ranks see.
 *
 *     of each rank     | place | sum (that of rank 0 is used) | gradient, unless it lies behind this anyway |
 *
 *     1  my gradient is there, and what I say of it           arrived
 *     2  when all have arrived, I add up my piece             summed
 *     3  when all have summed, the sum is there
 *
 * Nobody writes what another one may still read: gradients are read until 3, after which the next pass begins; heads until 2; the
 * sum until its reader arrives in the next round, and before that nobody sums.
 */
#include "dist/exchange_inside.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SPIN = 200, YIELD = 20000 };

/* What a rank says, and how far it is; it alone writes it. */
typedef struct {
    _Alignas(YK_ALIGN) atomic_uint arrived;
    _Alignas(YK_ALIGN) atomic_uint summed;
    _Alignas(YK_ALIGN) yk__head head;
    size_t gradient; /* where it is, from here; 0: it has no examples */
} place;

static place *place_of(const yk_exchange *x, int rank)
{
    return (place *)(void *)x->near[rank];
}

static size_t sum_at(void)
{
    return YK_ROUND_UP(sizeof(place), YK_ALIGN);
}

static size_t gradient_at(size_t nparams)
{
    return sum_at() + YK_ROUND_UP(nparams * sizeof(float), YK_ALIGN);
}

size_t yk_exchange_near_bytes(size_t nparams)
{
    return gradient_at(nparams) + YK_ROUND_UP(nparams * sizeof(float), YK_ALIGN);
}

void yk_exchange_near(yk_exchange *x, char *const *at, size_t bytes_each)
{
    x->near = at;
    x->near_bytes = bytes_each;
    x->patient = yk_comm_local_size(x->comm) <= yk_cores();
}

void yk_exchange_meanwhile(yk_exchange *x, bool (*work)(void *context), void *context)
{
    x->meanwhile = work;
    x->meanwhile_context = context;
}

/* Where others find this gradient. */
static size_t put(yk_exchange *x, const yk_grad *g)
{
    char *own = x->near[x->rank];
    const char *dense = (const char *)g->dense;
    if (!g->examples)
        return 0;
    if (dense >= own && dense < own + x->near_bytes)
        return (size_t)(dense - own);
    memcpy(own + gradient_at(x->nparams), dense, x->nparams * sizeof(float));
    return gradient_at(x->nparams);
}

static bool has(const yk_exchange *x, int rank, bool summed)
{
    const place *p = place_of(x, rank);
    return (int)(atomic_load_explicit(summed ? &p->summed : &p->arrived, memory_order_acquire) -
                 x->near_round) >= 0;
}

static yk_status too_long(const yk_exchange *x, bool summed, double seconds)
{
    char who[256] = "";
    for (int r = 0; r < x->size && strlen(who) < sizeof who - 16; r++)
        if (!has(x, r, summed))
            snprintf(who + strlen(who), sizeof who - strlen(who), "%s%d", *who ? ", " : "", r);
    return yk__nobody_moves(x, who, seconds);
}

/* Where there is a core for each rank it is not worth while to sleep for less than a step. */
static void pause_a_moment(const yk_exchange *x, unsigned turn)
{
    if (turn < SPIN)
        yk_relax();
    else if (x->patient && turn < YIELD)
        sched_yield();
    else
        yk_comm_pause(&turn);
}

/* All of them have come so far. One after the other: the last one that it waits for is the last that came. */
static yk_status wait_all(yk_exchange *x, bool summed, double seconds, yk_round *out)
{
    const double began = yk_now();
    double busy = 0.0;
    unsigned idle = 0;
    for (int r = 0; r < x->size; r++)
        while (!has(x, r, summed)) {
            if (!summed)
                out->last = r;
            if (!summed && x->meanwhile) {
                const uint64_t then = yk_now_ns();
                if (x->meanwhile(x->meanwhile_context)) {
                    const uint64_t took = yk_now_ns() - then;
                    busy += (double)took * 1e-9;
                    if (x->track)
                        yk_trace_slice(x->track, "helps another rank", then, took);
                    continue;
                }
            }
            pause_a_moment(x, ++idle);
            if (idle % 256 == 0 && yk_now() - began > seconds)
                return too_long(x, summed, seconds);
        }
    if (!summed) {
        out->busy = busy;
        out->last_wait = yk_now() - began - busy;
    }
    return YK_OK;
}

static size_t piece_begin(const yk_exchange *x, int rank)
{
    const size_t lines = (x->nparams + 15) / 16, at = lines * (size_t)rank / (size_t)x->size * 16;
    return at < x->nparams ? at : x->nparams;
}

/* My piece of everybody's: 0 + g0 + g1 + ... in rank order. */
static void add_up(const yk_exchange *x)
{
    float *sum = (float *)(void *)(x->near[0] + sum_at());
    const size_t end = piece_begin(x, x->rank + 1);
    for (size_t at = piece_begin(x, x->rank); at < end; at += 256) {
        const size_t n = end - at < 256 ? end - at : 256;
        float part[256] = {0};
        for (int r = 0; r < x->size; r++) {
            const size_t where = place_of(x, r)->gradient;
            const float *g = (const float *)(const void *)(x->near[r] + where) + at;
            for (size_t k = 0; where && k < n; k++)
                part[k] += g[k];
        }
        memcpy(sum + at, part, n * sizeof *sum);
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
    place *own = place_of(x, x->rank);
    own->head = *mine;
    own->gradient = put(x, g);
    atomic_store_explicit(&own->arrived, ++x->near_round, memory_order_release);
    yk_status st = wait_all(x, false, seconds, out);
    if (st)
        return st;
    for (int r = 0; r < x->size; r++)
        x->head[r] = place_of(x, r)->head;
    add_up(x);
    atomic_store_explicit(&own->summed, x->near_round, memory_order_release);
    if ((st = wait_all(x, true, seconds, out)))
        return st;
    count(x);
    g->dense = (float *)(void *)(x->near[0] + sum_at());
    return YK_OK;
}
