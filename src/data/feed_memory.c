/* The feed of a data set in memory: positions in a computed permutation. No copies, no threads. */
#include "data/feed_internal.h"

#include "base/mem.h"
#include "base/perm.h"
#include "base/sync.h"
#include "data/assignment.h"
#include <stdlib.h>
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
    uint64_t base;    /* rounds: positions of the epoch that were used before a restart */
    uint64_t ordinal; /* rounds: batches since then */
    yk_lease lease;   /* leases: pick[first] is position lease.begin, the first that is not used */
    uint64_t used;    /* positions of its leases that the assignment does not know about */
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

/* The position of pick[first + i]: in rounds, batches of all workers alternate. */
static uint64_t position(const memory_feed *f, int me, uint64_t i)
{
    const worker_state *s = &f->worker[me];
    const uint64_t b = f->feed.plan.batch, q = s->ordinal * b + i;
    return f->feed.plan.rounds
               ? s->base + ((q / b) * (uint64_t)f->feed.plan.workers + (uint64_t)me) * b + q % b
               : s->lease.begin + i;
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
    const uint64_t end = feed->plan.rounds ? f->n : s->lease.end, begin = position(f, me, 0);
    size_t have = s->filled - s->first;
    if (have < batches * b + YK__AHEAD && position(f, me, have) < end) {
        memmove(s->pick, s->pick + s->first, have * sizeof *s->pick);
        s->first = 0;
        for (uint64_t at; have < s->cap && (at = position(f, me, have)) < end; have++)
            s->pick[have] = row_at(f, s, at);
        s->filled = have;
    }
    const size_t n = have < batches * b ? have : batches * b;
    *out = yk__batch_at(&feed->plan, feed->data->rows, s->pick + s->first, n, have, s->epoch, begin);
    s->first += n;
    if (feed->plan.rounds) {
        s->ordinal += n ? (n + b - 1) / b : 1;
    } else {
        s->lease.begin += n;
        s->used += n;
    }
    return YK_OK;
}

/* ---- rounds ---- */

static void begin_epoch(yk_feed *feed, int me, uint64_t epoch)
{
    memory_feed *f = (memory_feed *)feed;
    worker_state *s = &f->worker[me];
    set_epoch(f, s, epoch);
    s->base = s->ordinal = 0;
    s->first = s->filled = 0;
}

/* The cursor: kind, epoch, positions used. With leases: kind, next epoch, next position, then three numbers per lease. */
enum { HEAD = 3 };

static yk_status check_cursor(const memory_feed *f, const uint64_t *cursor, size_t n)
{
    const uint64_t kind = n < HEAD ? 0 : cursor[0] & ((1u << YK_CURSOR_CHUNK_SHIFT) - 1);
    if (kind == YK_CURSOR_STREAM)
        return yk_fail(YK_EUSAGE,
                       "the checkpoint was written with streamed data: resume it with --stream always");
    if (n < HEAD || n % 3 || kind > YK_CURSOR_LEASE || cursor[0] >> YK_CURSOR_CHUNK_SHIFT > f->n ||
        cursor[2] > f->n)
        return yk_fail(YK_EDATA, "the checkpoint's data cursor does not fit this data set of %zu examples",
                       f->n);
    return YK_OK;
}

static size_t round_cursor_size(yk_feed *feed)
{
    (void)feed;
    return HEAD;
}

static void save_round_cursor(const yk_feed *feed, uint64_t *out)
{
    const memory_feed *f = (const memory_feed *)feed;
    const worker_state *s = f->worker;
    const uint64_t used = s->base + s->ordinal * (uint64_t)feed->plan.workers * feed->plan.batch;
    memcpy(out, (uint64_t[HEAD]){YK_CURSOR_LOCKSTEP, s->epoch, used < f->n ? used : f->n},
           HEAD * sizeof *out);
}

static yk_status restore_round_cursor(yk_feed *feed, const uint64_t *cursor, size_t n)
{
    memory_feed *f = (memory_feed *)feed;
    yk_status st = check_cursor(f, cursor, n);
    if (!st && cursor[0] != YK_CURSOR_LOCKSTEP)
        st = yk_fail(YK_EUSAGE,
                     "the checkpoint was written by asynchronous training: resume it with --mode async");
    for (int i = 0; !st && i < feed->plan.workers; i++) {
        set_epoch(f, &f->worker[i], cursor[1]);
        f->worker[i].base = cursor[2];
    }
    return st;
}

/* ---- leases ---- */

static size_t default_chunk_rows(const memory_feed *f)
{
    if (!f->feed.data->shuffled || f->n < GROUP_FROM || f->feed.plan.in_order)
        return 1;
    return f->feed.data->rows->raw_keys ? LARGE_GROUP : GROUP;
}

static size_t lease_cursor_size(yk_feed *feed)
{
    memory_feed *f = (memory_feed *)feed;
    for (int i = 0; i < feed->plan.workers; i++) {
        yk_assignment_used(&f->leases, i, f->worker[i].used);
        f->worker[i].used = 0;
    }
    return yk_assignment_cursor_size(&f->leases);
}

static void save_lease_cursor(const yk_feed *feed, uint64_t *out)
{
    yk_assignment_cursor_save(&((const memory_feed *)feed)->leases, out);
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

static yk_status restore_lease_cursor(yk_feed *feed, const uint64_t *cursor, size_t n)
{
    memory_feed *f = (memory_feed *)feed;
    yk_status st = check_cursor(f, cursor, n);
    if (st)
        return st;
    size_t chunk_rows;
    st = yk_feed_chunk_rows_restore(feed, cursor, n, &chunk_rows);
    return st ? st : yk_assignment_cursor_restore(&f->leases, cursor, n);
}

static void drop_lease(yk_feed *feed, int me)
{
    worker_state *s = &((memory_feed *)feed)->worker[me];
    s->lease.begin = s->lease.end;
    s->first = s->filled = 0;
}

static void free_feed(yk_feed *feed)
{
    memory_feed *f = (memory_feed *)feed;
    for (int i = 0; f->worker && i < feed->plan.workers; i++)
        yk_free(f->worker[i].pick);
    yk_free(f->worker);
    yk_assignment_fini(&f->leases);
    yk_mutex_destroy(&f->lock);
    yk_free(f);
}

static const yk__feed_ops round_ops = {.next = next,
                                       .epoch = begin_epoch,
                                       .cursor_size = round_cursor_size,
                                       .cursor_save = save_round_cursor,
                                       .cursor_restore = restore_round_cursor,
                                       .free = free_feed},
                          lease_ops = {.next = next,
                                       .cursor_size = lease_cursor_size,
                                       .cursor_save = save_lease_cursor,
                                       .cursor_restore = restore_lease_cursor,
                                       .free = free_feed,
                                       .drop_lease = drop_lease,
                                       .chunk_rows_set = chunk_rows_set};

yk_status yk__feed_memory(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out)
{
    memory_feed *f = yk_alloc(1, sizeof *f, "the feed");
    if (!f)
        return YK_ESYSTEM;
    f->feed = (yk_feed){.ops = plan->rounds ? &round_ops : &lease_ops, .data = data, .plan = *plan};
    f->n = data->rows->n;
    f->feed.chunk_rows =
        plan->chunk_rows && !plan->rounds && !plan->in_order ? plan->chunk_rows : default_chunk_rows(f);
    yk_assignment_init(&f->leases, f->n, plan->epochs, UINT64_MAX, plan->batch, plan->workers, 0);
    yk_mutex_init(&f->lock);
    f->worker = yk_alloc((size_t)plan->workers, sizeof *f->worker, "the feed");
    bool failed = !f->worker;
    for (int i = 0; !failed && i < plan->workers; i++) {
        worker_state *s = &f->worker[i];
        s->cap = (plan->batch < 512 ? 1024 : 2 * plan->batch) + YK__AHEAD;
        s->pick = yk_alloc(s->cap, sizeof *s->pick, "the feed");
        failed = !s->pick;
        set_epoch(f, s, 0);
    }
    if (failed)
        free_feed(&f->feed);
    else
        *out = &f->feed;
    return failed ? YK_ESYSTEM : YK_OK;
}
