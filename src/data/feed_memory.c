/* The feed of a data set in memory: positions in a computed permutation. No copies, no threads. */
#include "data/feed_internal.h"

#include "base/mem.h"
#include "base/perm.h"
#include "base/sync.h"
#include "data/assignment.h"
#include <string.h>

/* Rows that were shuffled when they were loaded are visited in groups of neighbors: the groups in random order, the rows of
 * a group from first to last. Fewer rows than GROUP_FROM are in a cache anyway. */
enum { GROUP = 16, GROUP_FROM = 1 << 14 };
enum { LARGE_GROUP = 256 }; /* of rows in place (raw_keys), which use more cache lines of parameters */

typedef struct {
    _Alignas(YK_ALIGN) uint64_t epoch; /* of perm */
    yk_perm perm;
    uint64_t chunk_begin, chunk_end; /* positions of the current chunk of rows */
    uint64_t first_row, rotation;    /* its first row, and the number of the row that it starts with */
    uint32_t *pick;                  /* rows of the next positions, computed ahead: pick[first..filled) */
    size_t first, filled, cap;
    /* pick[first] is position lease.begin, the first that is not used; rounds: up to the end of the epoch */
    yk_lease lease;
    uint64_t used; /* leases: positions that the assignment does not know about */
} worker_state;

typedef struct {
    yk_feed feed;
    size_t n;
    worker_state *worker;
    yk_mutex lock; /* protects the rest */
    yk_assignment leases;
} memory_feed;

static void set_epoch(memory_feed *f, worker_state *s, uint64_t epoch)
{
    if (s->perm.n && s->epoch == epoch)
        return;
    s->epoch = epoch;
    s->chunk_end = 0; /* none */
    s->perm = yk_perm_make(f->n / f->feed.chunk_rows, yk__epoch_seed(&f->feed.plan, epoch));
}

/* The row at a position of the epoch's order. Rows that do not fill a chunk are last. Unless a chunk has GROUP rows, it
 * starts at a different row in each epoch, so that its batches differ. */
static inline uint32_t row_at(const memory_feed *f, worker_state *s, uint64_t at)
{
    const uint64_t chunk_rows = f->feed.chunk_rows;
    if (chunk_rows == 1)
        return (uint32_t)(f->feed.plan.in_order ? at : yk_perm_at(&s->perm, at));
    if (at < s->chunk_begin || at >= s->chunk_end) {
        const uint64_t number = at / chunk_rows;
        const bool whole = number < s->perm.n;
        s->chunk_begin = number * chunk_rows;
        s->chunk_end = s->chunk_begin + chunk_rows;
        s->first_row = whole ? yk_perm_at(&s->perm, number) * chunk_rows : s->chunk_begin;
        s->rotation = whole && chunk_rows != GROUP
                          ? yk_mix64(yk__epoch_seed(&f->feed.plan, s->epoch) + number) % chunk_rows
                          : 0;
    }
    const uint64_t rotated = at - s->chunk_begin + s->rotation;
    return (uint32_t)(s->first_row + (rotated < chunk_rows ? rotated : rotated - chunk_rows));
}

/* Another lease; an empty one: there are no more. */
static yk_status claim(memory_feed *f, int me, yk_lease *out)
{
    const yk_feed_plan *p = &f->feed.plan;
    worker_state *s = &f->worker[me];
    if (p->lease)
        return p->lease(p->lease_context, me, &out->epoch, &out->begin, &out->end);
    yk_mutex_lock(&f->lock);
    yk_assignment_used(&f->leases, me, s->used);
    s->used = 0;
    yk_status st = yk_assignment_lease(&f->leases, me, out);
    yk_mutex_unlock(&f->lock);
    return st;
}

/* The position of pick[first + i]. Rounds: the batches of all workers alternate. */
static uint64_t position(const memory_feed *f, const worker_state *s, uint64_t i)
{
    const uint64_t b = f->feed.plan.batch;
    return s->lease.begin + (f->feed.plan.rounds ? i / b * b * (uint64_t)f->feed.plan.workers + i % b : i);
}

static yk_status next(yk_feed *feed, int me, size_t max, yk_batch *out)
{
    memory_feed *f = (memory_feed *)feed;
    worker_state *s = &f->worker[me];
    const size_t b = feed->plan.batch, fit = (s->cap - YK__AHEAD) / b, batches = max < fit ? max : fit;
    yk_status st = YK_OK;
    if (!feed->plan.rounds && s->lease.begin == s->lease.end) {
        if ((st = claim(f, me, &s->lease)))
            return st;
        s->first = s->filled = 0;
        set_epoch(f, s, s->lease.epoch);
    }
    const uint64_t begin = s->lease.begin;
    size_t have = s->filled - s->first;
    if (have < batches * b + YK__AHEAD && position(f, s, have) < s->lease.end) {
        memmove(s->pick, s->pick + s->first, have * sizeof *s->pick);
        s->first = 0;
        for (uint64_t at; have < s->cap && (at = position(f, s, have)) < s->lease.end; have++)
            s->pick[have] = row_at(f, s, at);
        s->filled = have;
    }
    const size_t n = have < batches * b ? have : batches * b;
    *out = yk__batch_at(&feed->plan, feed->data->rows, s->pick + s->first, n, have, s->epoch, begin);
    s->first += n;
    s->used += n;
    s->lease.begin = position(f, s, n);
    return YK_OK;
}

/* Rounds: the rest of an epoch, of which `used` positions were used. */
static void begin_rounds(memory_feed *f, int me, uint64_t epoch, uint64_t used)
{
    worker_state *s = &f->worker[me];
    set_epoch(f, s, epoch);
    s->lease = (yk_lease){epoch, used + (uint64_t)me * f->feed.plan.batch, f->n};
    s->first = s->filled = 0;
}

static void begin_epoch(yk_feed *feed, int me, uint64_t epoch)
{
    begin_rounds((memory_feed *)feed, me, epoch, 0);
}

static void drop_lease(yk_feed *feed, int me)
{
    worker_state *s = &((memory_feed *)feed)->worker[me];
    s->lease.begin = s->lease.end;
    s->first = s->filled = 0;
}

/* ---- the cursor: that of the assignment; rounds: kind, epoch, positions used */

static size_t default_chunk_rows(const memory_feed *f)
{
    if (!f->feed.data->shuffled || f->n < GROUP_FROM || f->feed.plan.in_order)
        return 1;
    return f->feed.data->rows->raw_keys ? LARGE_GROUP : GROUP;
}

static yk_status cursor(yk_feed *feed, uint64_t **out, size_t *n_out)
{
    memory_feed *f = (memory_feed *)feed;
    const yk_lease *first = &f->worker->lease;
    for (int i = 0; i < feed->plan.workers; i++) {
        yk_assignment_used(&f->leases, i, f->worker[i].used);
        f->worker[i].used = 0;
    }
    const yk_status st = yk_assignment_cursor(&f->leases, out, n_out);
    if (!st && feed->plan.rounds) {
        (*out)[0] = YK_CURSOR_LOCKSTEP;
        (*out)[1] = first->epoch;
        (*out)[2] = first->begin < f->n ? first->begin : f->n;
    }
    return st;
}

/* Several neighboring rows are kept together only if they are unrelated. */
static yk_status chunk_rows_set(yk_feed *feed, int me, uint64_t chunk_rows)
{
    memory_feed *f = (memory_feed *)feed;
    yk_mutex_lock(&f->lock);
    const yk_status st = chunk_rows ? yk_dataset_shuffle(feed->data) : YK_OK;
    feed->chunk_rows = chunk_rows ? (size_t)chunk_rows : default_chunk_rows(f);
    yk_mutex_unlock(&f->lock);
    f->worker[me].perm.n = 0; /* set_epoch() computes it again */
    return st;
}

static yk_status cursor_restore(yk_feed *feed, const uint64_t *saved, size_t n)
{
    memory_feed *f = (memory_feed *)feed;
    size_t chunk_rows;
    if (n && saved[0] == YK_CURSOR_STREAM)
        return yk_fail(YK_EUSAGE,
                       "the checkpoint was written with streamed data: resume it with --stream always");
    yk_status st = yk_assignment_cursor_restore(&f->leases, saved, n);
    if (st || !feed->plan.rounds)
        return st ? st : yk_feed_chunk_rows_restore(feed, saved, n, &chunk_rows);
    if (saved[0] != YK_CURSOR_LOCKSTEP)
        return yk_fail(
            YK_EUSAGE,
            "the checkpoint was written by asynchronous training or with --quorum: resume it with --mode "
            "async or --quorum");
    for (int i = 0; i < feed->plan.workers; i++)
        begin_rounds(f, i, saved[1], saved[2]);
    return YK_OK;
}

static void fini(yk_feed *feed)
{
    memory_feed *f = (memory_feed *)feed;
    yk_assignment_fini(&f->leases);
    yk_mutex_destroy(&f->lock);
}

static const yk__feed_ops ops = {.next = next,
                                 .epoch = begin_epoch,
                                 .cursor = cursor,
                                 .cursor_restore = cursor_restore,
                                 .fini = fini,
                                 .drop_lease = drop_lease,
                                 .chunk_rows_set = chunk_rows_set};

yk_status yk__feed_memory(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out)
{
    memory_feed *f = yk_alloc(1, sizeof *f, "the feed");
    if (!f)
        return YK_ESYSTEM;
    f->feed = (yk_feed){.ops = &ops, .data = data, .plan = *plan};
    f->n = data->rows->n;
    f->feed.chunk_rows =
        plan->chunk_rows && !plan->rounds && !plan->in_order ? plan->chunk_rows : default_chunk_rows(f);
    yk_assignment_init(&f->leases, f->n, plan->epochs, UINT64_MAX, plan->batch, plan->workers, 0);
    yk_mutex_init(&f->lock);
    f->worker = yk_arena_alloc(&f->feed.arena, (size_t)plan->workers, sizeof *f->worker, "the feed");
    for (int i = 0; f->worker && i < plan->workers; i++) {
        worker_state *s = &f->worker[i];
        s->cap = (plan->batch < 512 ? 1024 : 2 * plan->batch) + YK__AHEAD;
        s->pick = yk_arena_alloc(&f->feed.arena, s->cap, sizeof *s->pick, "the feed");
        if (plan->rounds)
            begin_rounds(f, i, 0, 0);
    }
    *out = &f->feed;
    return f->feed.arena.status;
}
