#include "store/exchange.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/team.h"
#include "base/wait.h"
#include "core/plan.h"
#include "store/local_copy.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MIN = 16 << 10, MAX = 1 << 18 }; /* floats of a bucket; a piece of it fits into the L2 cache */
enum { TAG_ROUND = 2, TAG_BUCKET = 16 };
enum { IN_FLIGHT = 16 }; /* buckets */

/* The header that a rank sends in each round. */
typedef struct {
    uint64_t examples, steps;
    double extra_weight, loss;
    uint32_t action;
} header;

/* The messages of a bucket between this rank and another one: its gradient of our piece, and ours of its piece; then the sum of
 * its piece, and of ours. */
typedef struct {
    yk_op in, out;
    float *gradient; /* its gradient of our piece */
} transfer;

typedef struct {
    bool used, summed;
    size_t begin, end; /* parameters */
    int tag;
    transfer *transfer; /* [size] by rank; that of this rank is unused */
} slot;

struct yk_exchange {
    yk_comm *comm;
    yk_arena memory;
    int rank, size;
    size_t nparams, bucket; /* floats */
    slot slot[IN_FLIGHT];
    size_t begun, ended;     /* buckets of this round, from the last parameters to the first */
    size_t final;            /* the gradients of parameters from here on are final */
    float *dense;            /* the gradient of this round */
    float *zeros;            /* the gradient of a rank without examples */
    double timeout, longest; /* seconds: of a round; of the longest round so far */
    double limit;            /* how long to wait in this round */
    double last_round_at;    /* when the last round ended */
    unsigned rounds;         /* that have ended */

    header *head;                  /* [size] */
    yk_op *header_in, *header_out; /* [size] */

    const float **piece; /* [size] what sum_piece() adds; NULL: zeros */
    char *const *shared; /* [size] shared memory; NULL: messages */
    uint64_t shared_stage;
    yk_wait_kind shared_wait;
};

static size_t buckets_of(const yk_exchange *x)
{
    return (x->nparams + x->bucket - 1) / x->bucket;
}

yk_status yk_exchange_create(yk_comm *comm, size_t nparams, double timeout, double first_timeout,
                             yk_exchange **out)
{
    static const char what[] = "the exchange";
    yk_exchange *x = yk_alloc(1, sizeof *x, what);
    if (!x)
        return YK_ESYSTEM;
    const size_t size = (size_t)yk_comm_size(comm), quarter = YK_ROUND_UP(nparams / 4 + 1, 1024);
    *x = (yk_exchange){.comm = comm,
                       .rank = yk_comm_rank(comm),
                       .size = (int)size,
                       .nparams = nparams,
                       .bucket = quarter < MIN   ? MIN
                                 : quarter > MAX ? MAX
                                                 : quarter,
                       .final = nparams,
                       .timeout = timeout,
                       .limit = first_timeout};
    const size_t piece = x->bucket / size + 1, buckets = buckets_of(x) + 1,
                 slots = buckets < IN_FLIGHT ? buckets : IN_FLIGHT;
    x->head = yk_arena_alloc(&x->memory, size, sizeof *x->head, what);
    x->header_in = yk_arena_alloc(&x->memory, size, sizeof *x->header_in, what);
    x->header_out = yk_arena_alloc(&x->memory, size, sizeof *x->header_out, what);
    x->zeros = yk_arena_alloc(&x->memory, nparams, sizeof *x->zeros, what);
    x->piece = yk_arena_alloc(&x->memory, size, sizeof *x->piece, what);
    for (slot *s = x->slot; s < x->slot + slots; s++) {
        s->transfer = yk_arena_alloc(&x->memory, size, sizeof *s->transfer, what);
        for (size_t r = 0; s->transfer && r < size; r++)
            s->transfer[r].gradient = yk_arena_alloc(&x->memory, piece, sizeof(float), what);
    }
    const yk_status st = x->memory.status;
    if (st)
        yk_exchange_free(x);
    else
        *out = x;
    return st;
}

void yk_exchange_free(yk_exchange *x)
{
    if (!x)
        return;
    yk_arena_free(&x->memory);
    yk_free(x);
}

/* ---- buckets ---- */

static size_t piece_begin(const yk_exchange *x, const slot *s, int rank)
{
    return s->begin + (s->end - s->begin) * (size_t)rank / (size_t)x->size;
}

static size_t piece_bytes(const yk_exchange *x, const slot *s, int rank)
{
    return (piece_begin(x, s, rank + 1) - piece_begin(x, s, rank)) * sizeof(float);
}

/* Receives a piece from each rank, and sends one: gradients, or after this rank has summed its piece, sums. */
static yk_status transfer_pieces(yk_exchange *x, slot *s)
{
    yk_status st = YK_OK;
    for (int r = 0; !st && r < x->size; r++) {
        transfer *t = &s->transfer[r];
        const int in = s->summed ? r : x->rank, out = s->summed ? x->rank : r; /* pieces */
        if (r == x->rank)
            continue;
        st = yk_comm_recv(x->comm, r, s->tag + s->summed, YK_PURPOSE_REDUCE,
                          s->summed ? x->dense + piece_begin(x, s, in) : t->gradient, piece_bytes(x, s, in),
                          &t->in);
        if (!st)
            st = yk_comm_send(x->comm, r, s->tag + s->summed, YK_PURPOSE_REDUCE,
                              x->dense + piece_begin(x, s, out), piece_bytes(x, s, out), &t->out);
        yk_comm_counted(x->comm)->values_sent[0] += piece_bytes(x, s, out);
    }
    return st;
}

static yk_status begin_bucket(yk_exchange *x, slot *s, size_t number)
{
    s->begin = (buckets_of(x) - 1 - number) * x->bucket;
    s->end = s->begin + x->bucket < x->nparams ? s->begin + x->bucket : x->nparams;
    s->used = true;
    s->summed = false;
    s->tag = TAG_BUCKET + 2 * (int)(number % 4096);
    return transfer_pieces(x, s);
}

/* 0 + g0 + g1 + ...; block by block, so that the sum stays in the cache. */
static void sum_piece(const yk_exchange *x, size_t n, float *out)
{
    enum { BLOCK = 1024 };
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t count = n - at < BLOCK ? n - at : BLOCK;
        float sum[BLOCK] = {0};
        for (int r = 0; r < x->size; r++)
            for (size_t k = 0; x->piece[r] && k < count; k++)
                sum[k] += x->piece[r][at + k];
        memcpy(out + at, sum, count * sizeof *out);
    }
}

static void sum_bucket(yk_exchange *x, const slot *s)
{
    float *mine = x->dense + piece_begin(x, s, x->rank);
    for (int r = 0; r < x->size; r++)
        x->piece[r] = r == x->rank ? mine : s->transfer[r].gradient;
    sum_piece(x, piece_bytes(x, s, x->rank) / sizeof *mine, mine);
}

static yk_status advance(yk_exchange *x, slot *s)
{
    yk_status st = YK_OK;
    bool done = true;
    for (int r = 0; !st && r < x->size; r++) { /* its own transfer was never started, so it is done */
        bool received, sent = false;
        st = yk_comm_test(x->comm, &s->transfer[r].in, &received);
        if (!st)
            st = yk_comm_test(x->comm, &s->transfer[r].out, &sent);
        done &= received && sent;
    }
    if (st || !done)
        return st;
    if (!s->summed) {
        sum_bucket(x, s);
        s->summed = true;
        return transfer_pieces(x, s);
    }
    s->used = false;
    x->ended++;
    return YK_OK;
}

/* Advances the buckets in flight, and starts others whose gradients are final. */
static yk_status make_progress(yk_exchange *x)
{
    const size_t buckets = buckets_of(x);
    yk_status st = YK_OK;
    for (int i = 0; !st && i < IN_FLIGHT; i++) {
        slot *s = &x->slot[i];
        if (s->used)
            st = advance(x, s);
        if (!st && !s->used && s->transfer && x->begun < buckets &&
            (buckets - 1 - x->begun) * x->bucket >= x->final)
            st = begin_bucket(x, s, x->begun++);
    }
    return st;
}

/* ---- waiting ---- */

/* The memory of a rank. */
typedef struct {
    _Alignas(YK_ALIGN) atomic_uint_fast64_t stage; /* 2 round - 1: it has arrived; 2 round: it has summed */
    _Alignas(YK_ALIGN) header head;
    /* The sum, then the gradient. Without examples, that is zero, and not written. */
    _Alignas(YK_ALIGN) float data[];
} shared_state;

static shared_state *state_of(const yk_exchange *x, int rank)
{
    return (shared_state *)(void *)x->shared[rank];
}

static float *gradient_of(const yk_exchange *x, int rank)
{
    return state_of(x, rank)->data + YK_ROUND_UP(x->nparams, 16);
}

static bool is_missing_in_memory(const yk_exchange *x, int rank)
{
    return atomic_load_explicit(&state_of(x, rank)->stage, memory_order_acquire) < x->shared_stage;
}

static bool is_missing(const yk_exchange *x, int r)
{
    bool missing = x->header_in[r].active || (x->shared && is_missing_in_memory(x, r));
    for (int i = 0; i < IN_FLIGHT; i++) {
        const transfer *t = x->slot[i].used ? &x->slot[i].transfer[r] : NULL;
        missing |= t && (t->in.active || t->out.active);
    }
    return missing && r != x->rank;
}

/* Names the ranks that have not sent their part. A rank that was stopped keeps others from sending theirs, so it is
 * named first. */
static yk_status timed_out(const yk_exchange *x)
{
    char ranks[256] = "";
    int missing = 0;
    for (int r = 0; r < x->size; r++) {
        const char state = r == x->rank ? 0 : yk_comm_state(x->comm, r);
        if (state == 'X' || state == 'T')
            return yk_fail(
                YK_ELOST,
                "rank %d did not send its gradient within %.0f s: its process %s (rank %d waited for it)", r,
                x->limit, state == 'X' ? "has died" : "was stopped by a signal", x->rank);
        if (is_missing(x, r) && strlen(ranks) < sizeof ranks - 16)
            snprintf(ranks + strlen(ranks), sizeof ranks - strlen(ranks), "%s%d", missing++ ? ", " : "", r);
    }
    const bool one = missing <= 1;
    return yk_fail(
        YK_ELOST, "rank%s %s did not send %s within %.0f s: %s, or cannot be reached (rank %d waited for %s)",
        one ? "" : "s", missing ? ranks : "?", one ? "its gradient" : "their gradients", x->limit,
        one ? "it has died, is hung" : "they have died, are hung", x->rank, one ? "it" : "them");
}

static yk_status poll_wait(const yk_exchange *x, yk_wait *w)
{
    if (!yk_wait_poll(w))
        return timed_out(x);
    yk_status st = YK_OK;
    for (int r = 0; !st && yk_wait_is_check_due(w) && r < x->size; r++)
        if (is_missing(x, r) && yk_comm_is_lost(x->comm, r) && !(st = yk_comm_check(x->comm)))
            st = yk_fail(YK_ELOST, "rank %d has died, or cannot be reached (rank %d waited for its gradient)",
                         r, x->rank);
    return st;
}

static yk_status finish(yk_exchange *x)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, x->limit);
    for (size_t ended = x->ended; x->ended < buckets_of(x);) {
        yk_status st = make_progress(x);
        if (st)
            return st;
        if (x->ended != ended) {
            ended = x->ended;
            yk_wait_restart(&w);
        } else if ((st = poll_wait(x, &w))) {
            return st;
        }
    }
    x->begun = x->ended = 0;
    x->final = x->nparams;
    return YK_OK;
}

yk_status yk_exchange_ready(yk_exchange *x, float *dense, size_t begin, size_t end)
{
    if (x->size == 1)
        return YK_OK;
    const bool more = end >= x->final && begin < x->final; /* it extends the part that is final */
    x->dense = dense;
    x->final = more ? begin : x->final;
    return x->shared ? YK_OK : make_progress(x);
}

/* ---- shared memory ----
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
size_t yk_exchange_shared_memory_bytes(size_t nparams)
{
    return sizeof(shared_state) + 2 * YK_ROUND_UP(nparams, 16) * sizeof(float);
}

void yk_exchange_use_shared_memory(yk_exchange *x, char *const *at, yk_wait_kind wait)
{
    x->shared = at;
    x->shared_wait = wait;
}

/* This rank has arrived, or summed: waits until all have. *last_out: the last rank that this one waited for; -1: none,
 * this one was last. */
static yk_status wait_all(yk_exchange *x, int *last_out)
{
    yk_wait w = yk_wait_begin(x->shared_wait, x->limit);
    atomic_store_explicit(&state_of(x, x->rank)->stage, ++x->shared_stage, memory_order_release);
    *last_out = -1;
    for (int r = 0; r < x->size; r++)
        while (is_missing_in_memory(x, r)) {
            *last_out = r;
            const yk_status st = poll_wait(x, &w);
            if (st)
                return st;
        }
    return YK_OK;
}

/* Counts the bytes that messages would have: headers, gradients of pieces, sums. mine: floats of this rank's piece. */
static void count(yk_exchange *x, size_t mine)
{
    const size_t others = (size_t)x->size - 1, values = (x->nparams - mine + others * mine) * sizeof(float),
                 each = others * sizeof(header) + values;
    yk_comm_counted(x->comm)->values_sent[0] += values;
    for (int incoming = 0; incoming < 2; incoming++)
        yk_comm_count(x->comm, YK_PURPOSE_REDUCE, incoming, each, 3 * others);
}

static yk_status sum_in_memory(yk_exchange *x, yk_grad *g, const header *mine, yk_round *out)
{
    const slot all = {.end = x->nparams};
    const size_t begin = piece_begin(x, &all, x->rank), n = piece_begin(x, &all, x->rank + 1) - begin;
    shared_state *own = state_of(x, x->rank);
    float *sum = state_of(x, 0)->data;
    int last;
    own->head = *mine;
    if (g->examples)
        memcpy(gradient_of(x, x->rank), g->group[0].dense, x->nparams * sizeof(float));
    const double began = yk_now();
    yk_status st = wait_all(x, &out->last);
    if (st)
        return st;
    out->last_wait = yk_now() - began;
    for (int r = 0; r < x->size; r++) {
        x->head[r] = state_of(x, r)->head;
        x->piece[r] = x->head[r].examples ? gradient_of(x, r) + begin : NULL;
    }
    sum_piece(x, n, sum + begin);
    if ((st = wait_all(x, &last)))
        return st;
    count(x, n);
    x->final = x->nparams;
    g->group[0].dense = sum;
    return YK_OK;
}

/* ---- a round ---- */

static yk_status send_headers(yk_exchange *x, const header *mine)
{
    yk_status st = YK_OK;
    x->head[x->rank] = *mine;
    for (int r = 0; !st && r < x->size; r++) {
        if (r == x->rank)
            continue;
        st = yk_comm_recv(x->comm, r, TAG_ROUND, YK_PURPOSE_REDUCE, &x->head[r], sizeof(header),
                          &x->header_in[r]);
        if (!st)
            st = yk_comm_send(x->comm, r, TAG_ROUND, YK_PURPOSE_REDUCE, &x->head[x->rank], sizeof(header),
                              &x->header_out[r]);
    }
    return st;
}

/* Sends the header of this rank, and receives those of the others. Meanwhile buckets make progress. */
static yk_status exchange_headers(yk_exchange *x, const header *mine, yk_round *out)
{
    yk_status st = send_headers(x, mine);
    const double arrived = yk_now();
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, x->limit);
    for (int missing = x->size - 1; !st && missing > 0;) {
        const int before = missing;
        st = make_progress(x);
        for (int r = 0; !st && r < x->size; r++) {
            bool done;
            if (r == x->rank || !x->header_in[r].active)
                continue;
            st = yk_comm_test(x->comm, &x->header_in[r], &done);
            if (st || !done)
                continue;
            out->last = w.polls > 0 ? r : out->last;
            missing--;
        }
        if (!st && missing == before)
            st = poll_wait(x, &w);
    }
    out->last_wait = yk_now() - arrived;
    return st ? st : yk_comm_wait(x->comm, x->header_out, x->size, x->limit, "a round");
}

static void add_headers(const yk_exchange *x, yk_round *out)
{
    for (int r = 0; r < x->size; r++) {
        const header *h = &x->head[r];
        out->examples += h->examples;
        out->trained += h->examples > 0;
        out->extra_weight += h->extra_weight;
        out->loss += h->loss;
        out->action = h->action > out->action ? h->action : out->action;
        out->steps = h->steps > out->steps ? h->steps : out->steps;
    }
}

yk_status yk_exchange_headers(yk_exchange *x, const yk_step_result *own, yk_round *out)
{
    *out = (yk_round){.last = -1};
    const header mine = {.examples = own->examples,
                         .steps = own->steps,
                         .extra_weight = own->weight - (double)own->examples,
                         .loss = own->loss,
                         .action = own->action};
    const yk_status st = exchange_headers(x, &mine, out);
    if (!st)
        add_headers(x, out);
    return st;
}

static yk_status sum_with_messages(yk_exchange *x, yk_grad *g, const header *mine, yk_round *out)
{
    float **dense = &g->group[0].dense;
    if (!g->examples) {
        memset(x->zeros, 0, x->nparams * sizeof *x->zeros);
        *dense = x->zeros;
    }
    x->dense = *dense;
    x->final = 0;
    const yk_status st = exchange_headers(x, mine, out);
    return st || x->size == 1 ? st : finish(x);
}

yk_status yk_exchange_sum(yk_exchange *x, yk_grad *g, uint32_t action, yk_trace_track *track, yk_round *out)
{
    const uint64_t began = track ? yk_now_ns() : 0;
    const header mine = {.examples = g->examples,
                         .steps = 1,
                         .extra_weight = g->extra_weight,
                         .loss = g->loss,
                         .action = action};
    *out = (yk_round){.last = -1};
    yk_status st = x->shared ? sum_in_memory(x, g, &mine, out) : sum_with_messages(x, g, &mine, out);
    if (st)
        return st;
    add_headers(x, out);
    if (track)
        yk_trace_message(track, "all-reduce", YK_ANY, x->nparams * sizeof(float), began, yk_now_ns() - began);
    g->examples = (size_t)out->examples;
    g->extra_weight = out->extra_weight;
    g->loss = out->loss;
    return YK_OK;
}

yk_status yk_exchange_mean(yk_exchange *x, const yk_round *round, float *array)
{
    const header *own = &x->head[x->rank];
    const double weight = (double)own->examples + own->extra_weight,
                 all = (double)round->examples + round->extra_weight;
    const float factor = own->examples ? yk_copy_factor(weight, all, round->trained) : 0.0f,
                mean = 1.0f / (float)round->trained;
    for (size_t i = 0; factor != 1.0f && i < x->nparams; i++)
        array[i] = factor > 0.0f ? array[i] * factor : 0.0f;
    x->dense = array;
    x->final = 0;
    const yk_status st = finish(x);
    for (size_t i = 0; !st && i < x->nparams; i++)
        array[i] *= mean;
    return st;
}

void yk_exchange_end_round(yk_exchange *x, const yk_round *round, yk_phases *phases)
{
    const double now = yk_now();
    x->longest *= 0.99; /* a single long round is forgotten after a few hundred */
    if (x->rounds++ > 0 && now - x->last_round_at > x->longest)
        x->longest = now - x->last_round_at;
    x->last_round_at = now;
    if (x->rounds >= 2)
        x->limit = fmax(x->timeout, YK_TIMEOUT_FACTOR * x->longest);
    yk_phases_barrier(phases, round->last < 0);
    yk_phase_to(phases, YK_PHASE_APPLY); /* ends the phase of sending */
    if (round->last >= 0)                /* the wait for the last rank is not sending */
        yk_phase_move(phases, YK_PHASE_SENDING, YK_PHASE_WORKERS, (uint64_t)(round->last_wait * 1e9));
}
