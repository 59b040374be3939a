/* Sums of dense gradients in memory that all ranks see.
 *
 *     of each rank     | place | sum (that of rank 0 is used) | gradient, unless it lies behind this anyway |
 *
 *     1  from here on my gradient is final                    final, while the rest is still computed
 *     2  my gradient is there, and what I say of it           arrived
 *     3  all have arrived, all chunks of the sum are made     summed
 *
 * The sum is made in chunks, the last parameters first, each by whoever takes it. Chunks that are final with all ranks are taken
 * by those who have arrived and wait for others, so that little is left to do when the last one comes.
 *
 * Nobody writes what another one may still read: gradients are read until 3, after which the next pass begins; what ranks say,
 * until they are at 3, which the next 2 waits for; the sum until its reader is at 1 or 2 again, and no chunk is taken before.
 */
#include "dist/exchange_inside.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SPIN = 200, YIELD = 20000, CHUNK = 1024 }; /* CHUNK: parameters */

/* What a rank says, and how far it is; it alone writes it, all but the last two. */
typedef struct {
    _Alignas(YK_ALIGN) atomic_uint_fast64_t arrived; /* in this round */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t summed;
    _Alignas(YK_ALIGN)
        atomic_uint_fast64_t final; /* the round; in the lower half the first parameter that is */
    atomic_size_t gradient;         /* where it is, from here; 0: it has no examples */
    yk__head head;
    /* in that of rank 0, written by all: */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t taken; /* the round; in the lower half its chunks */
    _Alignas(YK_ALIGN) atomic_uint_fast64_t made;  /* chunks, of all rounds */
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

/* Whether others see it where it is. */
static bool is_near(const yk_exchange *x, const float *dense)
{
    const char *own = x->near[x->rank], *at = (const char *)dense;
    return at >= own && at < own + x->near_bytes;
}

/* Where others find this gradient. */
static size_t put(yk_exchange *x, const yk_grad *g)
{
    char *own = x->near[x->rank];
    if (!g->examples)
        return 0;
    if (is_near(x, g->dense))
        return (size_t)((const char *)g->dense - own);
    memcpy(own + gradient_at(x->nparams), g->dense, x->nparams * sizeof(float));
    return gradient_at(x->nparams);
}

void yk__near_final(yk_exchange *x)
{
    place *own = place_of(x, x->rank);
    if (!is_near(x, x->dense))
        return;
    atomic_store_explicit(&own->gradient, (size_t)((const char *)x->dense - x->near[x->rank]),
                          memory_order_relaxed);
    atomic_store_explicit(&own->final, (x->near_round + 1) << 32 | x->final, memory_order_release);
}

static bool has(const yk_exchange *x, int rank, bool summed)
{
    const place *p = place_of(x, rank);
    return atomic_load_explicit(summed ? &p->summed : &p->arrived, memory_order_acquire) >= x->near_round;
}

static yk_status too_long(const yk_exchange *x, bool summed, double seconds)
{
    char who[256] = "";
    for (int r = 0; r < x->size && strlen(who) < sizeof who - 16; r++)
        if (r != x->rank && !has(x, r, summed))
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

/* ---- the sum ---- */

static size_t chunks_of(const yk_exchange *x)
{
    return (x->nparams + CHUNK - 1) / CHUNK;
}

/* Chunk 0 is that of the last parameters. */
static size_t chunk_begin(const yk_exchange *x, size_t chunk)
{
    const size_t behind = (chunk + 1) * CHUNK;
    return behind < x->nparams ? x->nparams - behind : 0;
}

/* No rank will change its gradient from this parameter on in this round. */
static bool is_final(const yk_exchange *x, size_t from)
{
    for (int r = 0; r < x->size; r++) {
        const uint64_t said = atomic_load_explicit(&place_of(x, r)->final, memory_order_acquire);
        if (!has(x, r, false) && (said >> 32 != (uint32_t)x->near_round || (uint32_t)said > from))
            return false;
    }
    return true;
}

static const float *gradient_of(const yk_exchange *x, int rank, size_t at)
{
    static const float none[CHUNK];
    const size_t where = atomic_load_explicit(&place_of(x, rank)->gradient, memory_order_relaxed);
    return where ? (const float *)(const void *)(x->near[rank] + where) + at : none;
}

/* 0 + g0 + g1 + ... in rank order. */
static void add_up(const yk_exchange *x, size_t chunk)
{
    const size_t at = chunk_begin(x, chunk), n = x->nparams - chunk * CHUNK - at;
    float *restrict sum = (float *)(void *)(x->near[0] + sum_at()) + at;
    const float *first = gradient_of(x, 0, at), *second = gradient_of(x, 1, at); /* there are two at least */
    for (size_t k = 0; k < n; k++)
        sum[k] = 0.0f + first[k] + second[k];
    for (int r = 2; r < x->size; r++) {
        const float *g = gradient_of(x, r, at);
        for (size_t k = 0; k < n; k++)
            sum[k] += g[k];
    }
}

/* Takes the next chunk, if there is one that can be made. */
static bool make_chunk(const yk_exchange *x)
{
    place *all = place_of(x, 0);
    uint64_t taken = atomic_load_explicit(&all->taken, memory_order_relaxed);
    const uint64_t round = x->near_round << 32;
    const size_t chunk = taken >> 32 == round >> 32 ? (uint32_t)taken : 0;
    if (chunk == chunks_of(x) || !is_final(x, chunk_begin(x, chunk)))
        return false;
    if (!atomic_compare_exchange_strong(&all->taken, &taken, round | (chunk + 1)))
        return true; /* another one was faster: look again */
    add_up(x, chunk);
    atomic_fetch_add_explicit(&all->made, 1, memory_order_release);
    return true;
}

static bool all_made(const yk_exchange *x)
{
    return atomic_load_explicit(&place_of(x, 0)->made, memory_order_acquire) == x->near_round * chunks_of(x);
}

/* ---- waiting ---- */

/* All have ended the last round. Long ago: each of them has made a pass since. */
static yk_status wait_ended(const yk_exchange *x, double seconds)
{
    const double began = yk_now();
    unsigned idle = 0;
    for (int r = 0; r < x->size; r++)
        while (!has(x, r, true)) {
            pause_a_moment(x, ++idle);
            if (idle % 256 == 0 && yk_now() - began > seconds)
                return too_long(x, true, seconds);
        }
    return YK_OK;
}

/* Something to do while gradients are missing; *helped: seconds that were spent on another rank's. */
static bool be_useful(yk_exchange *x, double *helped, double *added)
{
    const uint64_t then = yk_now_ns();
    if (make_chunk(x)) {
        while (make_chunk(x))
            ;
        *added += (double)(yk_now_ns() - then) * 1e-9;
        return true;
    }
    if (!x->meanwhile || !x->meanwhile(x->meanwhile_context))
        return false;
    const uint64_t took = yk_now_ns() - then;
    *helped += (double)took * 1e-9;
    if (x->track)
        yk_trace_slice(x->track, "helps another rank", then, took);
    return true;
}

/* All of them have come. One after the other: the last one that it waits for is the last that came. */
static yk_status wait_arrived(yk_exchange *x, double seconds, yk_round *out)
{
    const double began = yk_now();
    double added = 0.0;
    unsigned idle = 0;
    for (int r = 0; r < x->size; r++)
        while (!has(x, r, false)) {
            out->last = r;
            if (be_useful(x, &out->busy, &added))
                continue;
            pause_a_moment(x, ++idle);
            if (idle % 256 == 0 && yk_now() - began > seconds)
                return too_long(x, false, seconds);
        }
    out->last_wait = yk_now() - began - out->busy - added;
    return YK_OK;
}

/* The rest of the sum, and what others have taken of it. */
static yk_status finish_sum(const yk_exchange *x, double seconds)
{
    while (make_chunk(x))
        ;
    const double began = yk_now();
    for (unsigned idle = 1; !all_made(x); idle++) {
        pause_a_moment(x, idle);
        if (idle % 256 == 0 && yk_now() - began > seconds)
            return too_long(x, true, seconds);
    }
    return YK_OK;
}

static size_t piece_begin(const yk_exchange *x, int rank)
{
    const size_t lines = (x->nparams + 15) / 16, at = lines * (size_t)rank / (size_t)x->size * 16;
    return at < x->nparams ? at : x->nparams;
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
    yk_status st = wait_ended(x, seconds);
    if (st)
        return st;
    own->head = *mine;
    atomic_store_explicit(&own->gradient, put(x, g), memory_order_relaxed);
    atomic_store_explicit(&own->arrived, ++x->near_round, memory_order_release);
    if ((st = wait_arrived(x, seconds, out)))
        return st;
    for (int r = 0; r < x->size; r++)
        x->head[r] = place_of(x, r)->head;
    if ((st = finish_sum(x, seconds)))
        return st;
    atomic_store_explicit(&own->summed, x->near_round, memory_order_release);
    count(x);
    x->final = x->nparams;
    g->dense = (float *)(void *)(x->near[0] + sum_at());
    return YK_OK;
}
