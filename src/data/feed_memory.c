/* The feed of a data set in memory: positions in a computed permutation, no copies, no thread. */
#include "data/feed_internal.h"

#include "base/mem.h"
#include "base/perm.h"
#include "base/sync.h"
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 32, RUN = 2048 };

/* Rows that were mixed when they were loaded are visited in groups of neighbours: the groups in random order, a group from
 * its first row to its last. (GROUP_FROM: with fewer rows they are all in a cache.) */
enum { GROUP = 16, GROUP_FROM = 1 << 14 };

typedef struct {
    uint64_t epoch, at, end; /* positions still to be had of a run */
} run;

typedef struct {
    _Alignas(YK_ALIGN) uint64_t epoch; /* the epoch that perm is of */
    yk_perm perm;
    uint64_t group, group_row, turn; /* the group looked up last, its first row, and the one it begins with */
    uint32_t *pick;                  /* rows of the positions to come, computed some at a time */
    size_t first, filled, cap;
    uint64_t base;    /* in step: positions of the epoch that were used before a restart */
    uint64_t ordinal; /* in step: batches handed out since then */
    run left;         /* else: this worker's run; positions of pick[first..filled) are left.at .. */
} share;

typedef struct {
    yk_feed feed;
    size_t n;
    share *worker;
    yk_mutex lock; /* of what follows */
    uint64_t next_epoch, next_at;
    run *returned; /* runs that a checkpoint had half used */
    size_t nreturned;
} memory_feed;

/* In step: the position of this worker's q-th example of the epoch. */
static uint64_t position(const memory_feed *f, int me, uint64_t q)
{
    size_t b = f->feed.plan.batch;
    return f->worker[me].base + ((q / b) * (uint64_t)f->feed.plan.workers + (uint64_t)me) * b + q % b;
}

static void set_epoch(memory_feed *f, share *s, uint64_t epoch)
{
    if (s->perm.n && s->epoch == epoch)
        return;
    s->epoch = epoch;
    s->group = UINT64_MAX;
    s->perm = yk_perm_make(f->n / f->feed.unit, yk__epoch_seed(&f->feed.plan, epoch));
}

/* Of a long unit: it begins at another of its rows in each epoch, so that its batches are others. */
static uint32_t row_in_unit(const memory_feed *f, share *s, uint64_t at)
{
    const uint64_t unit = f->feed.unit, group = at / unit;
    if (group >= s->perm.n)
        return (uint32_t)at;
    if (group != s->group) {
        s->group = group;
        s->group_row = yk_perm_at(&s->perm, group) * unit;
        s->turn = yk_mix64(yk__epoch_seed(&f->feed.plan, s->epoch) + group) % unit;
    }
    const uint64_t turned = at % unit + s->turn;
    return (uint32_t)(s->group_row + (turned < unit ? turned : turned - unit));
}

/* The row at a position of the epoch's order. What is left over from whole groups comes last. */
static inline uint32_t row_at(const memory_feed *f, share *s, uint64_t at)
{
    if (f->feed.unit == 1)
        return (uint32_t)yk_perm_at(&s->perm, at);
    if (f->feed.unit != GROUP)
        return row_in_unit(f, s, at);
    const uint64_t group = at / GROUP;
    if (group >= s->perm.n)
        return (uint32_t)at;
    if (group != s->group) {
        s->group = group;
        s->group_row = yk_perm_at(&s->perm, group) * GROUP;
    }
    return (uint32_t)(s->group_row + at % GROUP);
}

/* Keeps what is left of pick and computes more, so that a batch and the look-ahead are there if the epoch has them. */
static void make_room(share *s)
{
    memmove(s->pick, s->pick + s->first, (s->filled - s->first) * sizeof *s->pick);
    s->filled -= s->first;
    s->first = 0;
}

static void next_sync(memory_feed *f, int me, size_t batches, yk_batch *out)
{
    share *s = &f->worker[me];
    const size_t b = f->feed.plan.batch;
    if (s->filled - s->first < batches * b + AHEAD) {
        make_room(s);
        for (uint64_t q = s->ordinal * b + s->filled; s->filled < s->cap; q++) {
            uint64_t at = position(f, me, q);
            if (at >= f->n)
                break;
            s->pick[s->filled++] = row_at(f, s, at);
        }
    }
    size_t have = s->filled - s->first, n = have < batches * b ? have : batches * b;
    *out = (yk_batch){f->feed.data->rows, s->pick + s->first, n, have - n < AHEAD ? have - n : AHEAD,
                      yk__batch_noise(&f->feed.plan, s->epoch, position(f, me, s->ordinal * b))};
    s->first += n;
    s->ordinal += n ? (n + b - 1) / b : 1;
}

/* Another run of positions for this worker; an empty one when there are no more. */
static run claim(memory_feed *f)
{
    const yk_feed_plan *p = &f->feed.plan;
    run r = {0};
    yk_mutex_lock(&f->lock);
    if (f->nreturned) {
        r = f->returned[--f->nreturned];
    } else if (f->next_epoch < p->epochs) {
        /* whole batches, and runs short enough that the last ones of an epoch do not make others wait */
        uint64_t size = RUN, fair = f->n / (8 * (uint64_t)p->workers);
        size = size > fair ? fair : size;
        size = YK_ROUND_UP(size < 1 ? 1 : size, p->batch);
        r = (run){f->next_epoch, f->next_at, f->next_at + size};
        if (r.end >= f->n) {
            r.end = f->n;
            f->next_epoch++;
            f->next_at = 0;
        } else {
            f->next_at = r.end;
        }
    }
    yk_mutex_unlock(&f->lock);
    return r;
}

static yk_status next_async(memory_feed *f, int me, size_t batches, yk_batch *out)
{
    share *s = &f->worker[me];
    const size_t b = f->feed.plan.batch;
    if (s->left.at == s->left.end) {
        const yk_feed_plan *p = &f->feed.plan;
        yk_status st = YK_OK;
        if (p->lease)
            st = p->lease(p->lease_context, me, &s->left.epoch, &s->left.at, &s->left.end);
        else
            s->left = claim(f);
        if (st)
            return st;
        s->first = s->filled = 0;
        set_epoch(f, s, s->left.epoch);
    }
    size_t rest = (size_t)(s->left.end - s->left.at);
    if (s->filled - s->first < batches * b + AHEAD && s->filled - s->first < rest) {
        make_room(s);
        for (; s->filled < s->cap && s->filled < rest; s->filled++)
            s->pick[s->filled] = row_at(f, s, s->left.at + s->filled);
    }
    size_t have = s->filled - s->first, n = have < batches * b ? have : batches * b;
    *out = (yk_batch){f->feed.data->rows, s->pick + s->first, n, have - n < AHEAD ? have - n : AHEAD,
                      yk__batch_noise(&f->feed.plan, s->epoch, s->left.at)};
    s->first += n;
    s->left.at += n;
    return YK_OK;
}

static yk_status next(yk_feed *feed, int me, size_t batches, yk_batch *out)
{
    memory_feed *f = (memory_feed *)feed;
    const size_t fit = (f->worker[me].cap - AHEAD) / feed->plan.batch; /* whole ones, and at least one */
    batches = batches < fit ? batches : fit;
    if (feed->plan.synchronous)
        next_sync(f, me, batches, out);
    return feed->plan.synchronous ? YK_OK : next_async(f, me, batches, out);
}

static void epoch_of(yk_feed *feed, int me, uint64_t epoch)
{
    memory_feed *f = (memory_feed *)feed;
    share *s = &f->worker[me];
    if (!feed->plan.synchronous)
        return;
    set_epoch(f, s, epoch);
    s->base = s->ordinal = 0;
    s->first = s->filled = 0;
}

static size_t usual_unit(const memory_feed *f)
{
    return f->feed.data->mixed && f->n >= GROUP_FROM ? GROUP : 1;
}

/* In step: kind, epoch, positions used. Else: kind, next epoch, next position, then three numbers per run. */
enum { HEAD = 3 };

static size_t cursor_size(const yk_feed *feed)
{
    const memory_feed *f = (const memory_feed *)feed;
    return feed->plan.synchronous ? HEAD : HEAD + 3 * ((size_t)feed->plan.workers + f->nreturned);
}

static void cursor_save(const yk_feed *feed, uint64_t *out)
{
    const memory_feed *f = (const memory_feed *)feed;
    const size_t workers = (size_t)feed->plan.workers;
    if (feed->plan.synchronous) {
        uint64_t used = f->worker[0].base + f->worker[0].ordinal * workers * feed->plan.batch;
        out[0] = YK__CURSOR_SYNC;
        out[1] = f->worker[0].epoch;
        out[2] = used < f->n ? used : f->n;
        return;
    }
    out[0] = YK__CURSOR_ASYNC;
    if (f->feed.unit != usual_unit(f))
        out[0] |= (uint64_t)f->feed.unit << YK__CURSOR_UNIT_SHIFT;
    out[1] = f->next_epoch;
    out[2] = f->next_at;
    for (size_t i = 0; i < workers + f->nreturned; i++) {
        const run *r = i < workers ? &f->worker[i].left : &f->returned[i - workers];
        memcpy(out + HEAD + 3 * i, (uint64_t[3]){r->epoch, r->at, r->end}, 3 * sizeof *out);
    }
}

static void unit_restore(yk_feed *feed, uint64_t unit)
{
    memory_feed *f = (memory_feed *)feed;
    feed->unit = unit ? (size_t)unit : usual_unit(f);
    for (int i = 0; i < feed->plan.workers; i++)
        f->worker[i].perm.n = 0; /* it is made again */
}

static yk_status cursor_restore(yk_feed *feed, const uint64_t *cursor, size_t n)
{
    memory_feed *f = (memory_feed *)feed;
    const size_t runs = n < HEAD ? 0 : (n - HEAD) / 3;
    const uint64_t kind = n < HEAD ? 0 : cursor[0] & ((1u << YK__CURSOR_UNIT_SHIFT) - 1),
                   unit = n < HEAD ? 0 : cursor[0] >> YK__CURSOR_UNIT_SHIFT;
    if (n >= HEAD && kind == YK__CURSOR_STREAM)
        return yk_fail(YK_EUSAGE,
                       "the checkpoint was written while the data was streamed: go on with --stream always");
    if (n < HEAD || n != HEAD + 3 * runs || kind > YK__CURSOR_ASYNC || unit > f->n || cursor[2] > f->n)
        return yk_fail(YK_EDATA, "the checkpoint's data cursor does not fit this data set of %zu examples",
                       f->n);
    if (feed->plan.synchronous) {
        if (kind != YK__CURSOR_SYNC)
            return yk_fail(
                YK_EUSAGE,
                "this checkpoint was written by asynchronous training: resume it with --mode async");
        for (int i = 0; i < feed->plan.workers; i++) {
            set_epoch(f, &f->worker[i], cursor[1]);
            f->worker[i].base = cursor[2];
        }
        return YK_OK;
    }
    unit_restore(feed, unit);
    bool used_up = cursor[2] == f->n; /* in step, an epoch is left only when it was found to be over */
    f->next_epoch = cursor[1] + used_up;
    f->next_at = used_up ? 0 : cursor[2];
    free(f->returned);
    f->returned = calloc(runs + 1, sizeof *f->returned);
    if (!f->returned)
        return yk_fail_memory(runs * sizeof *f->returned, "the data cursor");
    f->nreturned = 0;
    for (const uint64_t *p = cursor + HEAD; p < cursor + n; p += 3)
        if (p[1] < p[2] && p[2] <= f->n)
            f->returned[f->nreturned++] = (run){p[0], p[1], p[2]};
    return YK_OK;
}

static void forget(yk_feed *feed, int me)
{
    share *s = &((memory_feed *)feed)->worker[me];
    s->left.at = s->left.end;
    s->first = s->filled = 0;
}

static void free_feed(yk_feed *feed)
{
    memory_feed *f = (memory_feed *)feed;
    for (int i = 0; f->worker && i < feed->plan.workers; i++)
        yk_free(f->worker[i].pick);
    yk_free(f->worker);
    free(f->returned);
    yk_mutex_destroy(&f->lock);
    yk_free(f);
}

static const yk__feed_ops ops = {next,      epoch_of, cursor_size, cursor_save, cursor_restore,
                                 free_feed, NULL,     forget,      unit_restore};

yk_status yk__feed_memory(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out)
{
    memory_feed *f = yk_alloc(1, sizeof *f, "the feed");
    if (!f)
        return YK_ESYSTEM;
    f->feed = (yk_feed){.ops = &ops, .data = data, .plan = *plan};
    f->n = data->rows->n;
    f->feed.unit = usual_unit(f);
    if (plan->unit && data->mixed && !plan->synchronous)
        f->feed.unit = plan->unit;
    yk_mutex_init(&f->lock);
    f->worker = yk_alloc((size_t)plan->workers, sizeof *f->worker, "the feed");
    for (int i = 0; f->worker && i < plan->workers; i++) {
        share *s = &f->worker[i];
        s->cap = (plan->batch < 512 ? 1024 : 2 * plan->batch) + AHEAD;
        s->pick = yk_alloc(s->cap, sizeof *s->pick, "the feed");
        if (!s->pick) {
            free_feed(&f->feed);
            return YK_ESYSTEM;
        }
        set_epoch(f, s, 0);
    }
    if (!f->worker) {
        free_feed(&f->feed);
        return YK_ESYSTEM;
    }
    *out = &f->feed;
    return YK_OK;
}
