/* The feed of streamed data: a thread per worker reads blocks into windows and shuffles each window.
 *
 *     thread:   block, block, block | block ...      fills and shuffles window 1
 *     worker:                batch, batch, batch     from window 0
 *
 * Each worker has two windows, so memory is bounded whatever the size of the data. A window belongs to one epoch. Its
 * examples follow from its first block and record, so (epoch, block, record, examples used) is a cursor.
 */
#include "data/feed_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/perm.h"
#include "base/rng.h"
#include "base/sync.h"
#include "data/formats.h"
#include "data/streams.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cursor: kind, size of the windows; then for each worker: epoch, ordinal, record, used, and whether it waits for the next
 * epoch. */
enum { HEAD = 2, EACH = 5 };

/* In a tiny data set a worker may have no examples in some epochs. After this many epochs, times the workers, the data set is
 * empty. */
enum { MAX_EMPTY_EPOCHS = 64 };

/* A position in a stream: record number `record` of its `ordinal`-th block of the epoch. used: examples of the window that begins there
 * that were used already. over (rounds): the epoch has ended, and yk_feed_epoch() has not been called yet. */
typedef struct {
    uint64_t epoch, ordinal, record, used, over;
} cursor;
_Static_assert(sizeof(cursor) == EACH * sizeof(uint64_t), "a cursor is EACH numbers");

typedef struct {
    yk_rows rows;
    uint32_t *pick;
    size_t pick_cap;
    cursor begin, end; /* the next window begins at `end` */
    bool last;         /* of its epoch */
    bool ready;        /* filled by the thread, not used up by the worker */
} window;

typedef struct stream_feed stream_feed;

/* A worker, and the thread that reads for it: at first the worker's own stream. */
typedef struct {
    stream_feed *owner;
    int me;
    yk_thread thread;
    bool started;
    atomic_bool quit;
    yk_mutex lock;
    yk_cond changed;
    yk_status status; /* of the thread, with its text */
    char error[2048];
    bool finished; /* the thread fills no more windows */
    window window[2];
    /* used by the worker */
    int current;
    cursor here;           /* in the current window */
    cursor last;           /* after the last batch */
    uint64_t empty_epochs; /* since the last example */
    /* used by the thread */
    int number; /* of the stream; -1: none */
    cursor at;
    yk_reader *reader;
    yk_rows part;
    size_t part_used;
    yk_perm order;
    uint64_t order_epoch;
} stream;

struct stream_feed {
    yk_feed feed;
    size_t window_bytes;
    stream *worker;
    bool by_block; /* each block belongs to one stream; otherwise, each stripe of examples does */
    /* Resumed with a different number of workers or window size: blocks of `earlier_epoch` that each earlier worker used up. */
    uint64_t earlier_epoch, *earlier; /* [earlier_workers] */
    uint64_t earlier_workers;
};

/* ---- the examples of one stream, block by block (feed.h describes how streamed data is divided) */

enum { READ_CHUNK = 256, STRIPE = 64 };

/* The current block of a stream, as its number in the order of the epoch. */
static uint64_t block_number(const stream *s)
{
    const stream_feed *f = s->owner;
    return f->by_block ? s->at.ordinal * (uint64_t)f->feed.plan.workers + (uint64_t)s->number : s->at.ordinal;
}

static void close_block(stream *s)
{
    yk_reader_free(s->reader);
    s->reader = NULL;
    yk_rows_clear(&s->part);
    s->part_used = 0;
}

/* Opens the block at s->at.ordinal. */
static yk_status open_block(stream *s)
{
    const stream_feed *f = s->owner;
    yk_source *source = f->feed.data->source;
    if (s->order_epoch != s->at.epoch || !s->order.n) {
        s->order = yk_perm_make(source->nblocks, yk__epoch_seed(&f->feed.plan, s->at.epoch));
        s->order_epoch = s->at.epoch;
    }
    const uint64_t number = block_number(s);
    return yk_source_read(source, f->feed.plan.in_order ? number : yk_perm_at(&s->order, number), &s->reader);
}

/* Makes sure that part[part_used] is the record at s->at.record of the open block; at its end, the part is empty. */
static yk_status next_part(stream *s)
{
    size_t got;
    if (s->part_used < s->part.n)
        return YK_OK;
    yk_rows_clear(&s->part);
    s->part_used = 0;
    return yk_reader_next(s->reader, &s->part, READ_CHUNK, &got);
}

/* Skips to record number `record` of the block that was just opened. */
static yk_status skip_records(stream *s, uint64_t record)
{
    while (record) {
        yk_status st = next_part(s);
        if (st || !s->part.n)
            return st;
        size_t step = s->part.n - s->part_used;
        step = step < record ? step : (size_t)record;
        s->part_used += step;
        record -= step;
    }
    return YK_OK;
}

/* The owner of the first stripe of a block changes from epoch to epoch, so that every worker gets examples. */
static bool is_assigned(const stream *s, uint64_t record)
{
    uint64_t stripe = record / STRIPE + s->at.epoch;
    return s->owner->by_block || (int)(stripe % (uint64_t)s->owner->feed.plan.workers) == s->number;
}

static void next_block(stream *s)
{
    s->at = (cursor){s->at.epoch, s->at.ordinal + 1};
}

/* Appends some of the next examples to `rows`, or none. *last_out: the epoch is over. */
static yk_status read_stream(stream *s, yk_rows *rows, bool *last_out)
{
    yk_status st = YK_OK;
    const stream_feed *f = s->owner;
    const uint64_t number = block_number(s);
    *last_out = number >= f->feed.data->source->nblocks;
    if (*last_out)
        return YK_OK;
    if (!s->reader && f->earlier && s->at.epoch == f->earlier_epoch &&
        number / f->earlier_workers < f->earlier[number % f->earlier_workers]) {
        next_block(s);
        return YK_OK;
    }
    if (!s->reader && ((st = open_block(s)) || (st = skip_records(s, s->at.record))))
        return st;
    if ((st = next_part(s)))
        return st;
    if (!s->part.n) {
        close_block(s);
        next_block(s);
        return YK_OK;
    }
    size_t n = 0; /* consecutive records that all belong to this stream, or all do not */
    const bool take = is_assigned(s, s->at.record);
    while (s->part_used + n < s->part.n && is_assigned(s, s->at.record + n) == take)
        n++;
    if (take && (st = yk_rows_append(rows, &s->part, s->part_used, n)))
        return st;
    s->part_used += n;
    s->at.record += n;
    return YK_OK;
}

/* ---- windows */

/* Reads examples into a window, from the thread's cursor on, remaps their keys and shuffles them. */
static yk_status fill(stream *s, window *w)
{
    stream_feed *f = s->owner;
    yk_status st = YK_OK;
    yk_rows_clear(&w->rows);
    w->begin = s->at;
    w->last = false;
    while (!w->last && yk_rows_bytes(&w->rows) < f->window_bytes) {
        if ((st = read_stream(s, &w->rows, &w->last)))
            return st;
        if (s->quit)
            return YK_OK;
    }
    if ((st = yk_dataset_check(f->feed.data, &w->rows)) ||
        (f->feed.plan.keymap && (st = yk_keymap_rows(f->feed.plan.keymap, &w->rows))) ||
        (st = YK_RESERVE(w->pick, w->pick_cap, w->rows.n + 1, "the shuffle buffer")))
        return st;
    const uint64_t seed = yk__epoch_seed(&f->feed.plan, w->begin.epoch) ^
                          yk_mix64(w->begin.ordinal * 0x100000001b3u + w->begin.record);
    const yk_perm order = yk_perm_make(w->rows.n, seed);
    for (size_t i = 0; i < w->rows.n; i++)
        w->pick[i] = (uint32_t)(f->feed.plan.in_order ? i : yk_perm_at(&order, i));
    return YK_OK;
}

static void *read_ahead(void *arg)
{
    stream *s = arg;
    stream_feed *f = s->owner;
    yk_status st = YK_OK;
    yk_mutex_lock(&s->lock);
    for (int i = 0; !s->quit && !st && s->at.epoch < f->feed.plan.epochs; i ^= 1) {
        window *w = &s->window[i];
        while (w->ready && !s->quit)
            yk_cond_wait(&s->changed, &s->lock);
        if (s->quit)
            break;
        yk_mutex_unlock(&s->lock);
        st = fill(s, w);
        if (w->last)
            s->at = (cursor){s->at.epoch + 1};
        w->end = s->at;
        yk_mutex_lock(&s->lock);
        w->ready = !st && !s->quit;
        yk_cond_broadcast(&s->changed);
    }
    s->status = st;
    if (st)
        snprintf(s->error, sizeof s->error, "%s", yk_error());
    s->finished = true;
    yk_cond_broadcast(&s->changed);
    yk_mutex_unlock(&s->lock);
    close_block(s);
    return NULL;
}

static yk_status start(stream *s)
{
    int e = yk_thread_start(&s->thread, read_ahead, s);
    if (e)
        return yk_fail(YK_ESYSTEM, "cannot start the reader thread of worker %d: %s", s->me, strerror(e));
    s->started = true;
    return YK_OK;
}

/* Stops the thread, and drops what it has read. */
static void stop_reading(stream *s)
{
    yk_mutex_lock(&s->lock);
    s->quit = true;
    yk_cond_broadcast(&s->changed);
    yk_mutex_unlock(&s->lock);
    if (s->started)
        yk_thread_join(&s->thread);
    s->started = s->finished = false;
    s->quit = false;
    s->status = YK_OK;
    s->window[0].ready = s->window[1].ready = false;
    s->current = 0;
    s->here.used = 0;
}

/* Sets the cursor of a worker that is not reading. */
static void set_cursor(stream *s, const uint64_t saved[EACH])
{
    memcpy(&s->here, saved, sizeof s->here);
    s->last = s->here;
    s->at = (cursor){saved[0], saved[1], saved[2]};
}

/* At the end of an epoch of its stream, or without one: which stream the worker continues with. A gradient must not be over
 * examples of two streams: if it is another one, next() returns no batch, and has to be called again. */
static yk_status change_stream(stream *s, bool *changed_out)
{
    const yk_feed_plan *plan = &s->owner->feed.plan;
    const uint64_t end[EACH] = {s->here.epoch};
    uint64_t at[EACH] = {s->here.epoch};
    int number = s->number;
    uint64_t last[EACH];
    memcpy(last, &s->last, sizeof last);
    yk_status st = plan->next_stream(plan->lease_context, s->me, last, &number, at);
    if (st || (number == s->number && memcmp(at, end, sizeof at) == 0))
        return st;
    *changed_out = true;
    stop_reading(s);
    s->number = number;
    if (number >= 0)
        set_cursor(s, at);
    return YK_OK;
}

/* The worker has used up its window: the thread may fill it again. */
static yk_status leave_window(stream *s, window *w, bool *changed_out)
{
    const yk_feed_plan *plan = &s->owner->feed.plan;
    yk_mutex_lock(&s->lock);
    const bool last = w->last;
    s->here = w->end;
    w->ready = false;
    yk_cond_broadcast(&s->changed);
    yk_mutex_unlock(&s->lock);
    s->current ^= 1;
    s->here.over = last && plan->rounds;
    s->empty_epochs += last;
    if (s->empty_epochs > MAX_EMPTY_EPOCHS * (uint64_t)plan->workers)
        return yk__fail_empty(s->owner->feed.data->source);
    return last && plan->next_stream ? change_stream(s, changed_out) : YK_OK;
}

/* The window of the next example; NULL at the end of the data (rounds: of the epoch). */
static yk_status current_window(stream *s, window **out)
{
    const yk_feed_plan *plan = &s->owner->feed.plan;
    bool changed = false;
    yk_status st = s->number < 0 ? change_stream(s, &changed) : YK_OK;
    *out = NULL;
    while (!st && !changed && s->number >= 0 && !s->here.over) {
        if (!s->started && (st = start(s)))
            return st;
        window *w = &s->window[s->current];
        yk_mutex_lock(&s->lock);
        if (!w->ready &&
            !s->finished) { /* every wait is timed: either it is rare, or reading is the bottleneck */
            const uint64_t since = yk_now_ns();
            while (!w->ready && !s->finished)
                yk_cond_wait(&s->changed, &s->lock);
            if (plan->phases)
                yk_phase_waited(&plan->phases[s->me - plan->first], YK_PHASE_INPUT, yk_now_ns() - since);
        }
        const bool ready = w->ready;
        const yk_status failed = s->status;
        yk_mutex_unlock(&s->lock);
        if (!ready)
            return failed ? yk_fail(failed, "%s", s->error) : YK_OK;
        if (s->here.used < w->rows.n) {
            *out = w;
            return YK_OK;
        }
        st = leave_window(s, w, &changed);
    }
    return st;
}

static int cursor_of(const yk_feed *feed, int me, uint64_t out[EACH])
{
    const stream *s = &((const stream_feed *)feed)->worker[me];
    memcpy(out, &s->here, sizeof s->here);
    return s->number;
}

static yk_status next(yk_feed *feed, int me, size_t batches, yk_batch *out)
{
    stream *s = &((stream_feed *)feed)->worker[me];
    *out = (yk_batch){0};
    window *w;
    yk_status st = current_window(s, &w);
    if (st || !w)
        return st;
    const size_t want = batches * feed->plan.batch, have = w->rows.n - (size_t)s->here.used,
                 n = have < want ? have : want;
    const uint64_t window_number = s->here.ordinal * 0x100000001b3u + s->here.record;
    *out = yk__batch_at(&feed->plan, &w->rows, w->pick + s->here.used, n, have, s->here.epoch,
                        yk_mix64(window_number + (uint64_t)me) + s->here.used);
    s->here.used += n;
    s->empty_epochs = 0;
    s->last = s->here;
    return YK_OK;
}

static void epoch_of(yk_feed *feed, int me, uint64_t epoch)
{
    stream *s = &((stream_feed *)feed)->worker[me];
    (void)epoch; /* the thread has already begun it */
    s->here.over = false;
}

static yk_status cursors(yk_feed *feed, uint64_t **out, size_t *n_out)
{
    const stream_feed *f = (const stream_feed *)feed;
    *n_out = HEAD + EACH * (size_t)feed->plan.workers;
    uint64_t *to = *out = yk_alloc(*n_out, sizeof *to, "the data cursor");
    if (!to)
        return YK_ESYSTEM;
    *to++ = YK_CURSOR_STREAM;
    *to++ = f->window_bytes;
    for (int i = 0; i < feed->plan.workers; i++)
        cursor_of(feed, i, to + EACH * i);
    return YK_OK;
}

/* The cursor was saved with other workers or windows: blocks that were fully used are skipped, and the examples of partly used
 * windows are used again. */
static yk_status restore_blocks(stream_feed *f, const uint64_t *saved, uint64_t workers)
{
    const uint64_t epoch = yk_streams_first_epoch(saved, workers);
    uint64_t min = UINT64_MAX;
    free(f->earlier);
    if (!(f->earlier = calloc(workers, sizeof *f->earlier)))
        return yk_fail_memory(workers * sizeof *f->earlier, "the data cursor");
    for (uint64_t i = 0; i < workers; i++) {
        const uint64_t *each = saved + EACH * i;
        f->earlier[i] = each[0] > epoch ? UINT64_MAX : each[1];
        min = f->earlier[i] < min ? f->earlier[i] : min;
    }
    f->earlier_epoch = epoch;
    f->earlier_workers = workers;
    if (!f->by_block) { /* every worker reads all blocks: one is used up if all have used it up */
        f->earlier_workers = 1;
        f->earlier[0] = min;
    }
    for (int i = 0; i < f->feed.plan.workers; i++)
        set_cursor(&f->worker[i], (const uint64_t[EACH]){epoch});
    yk_note("the checkpoint was written with a different number of workers or another --shuffle-mb: blocks "
            "that were used up are skipped, and examples that were in the shuffle buffer are used again");
    return YK_OK;
}

static yk_status cursor_restore(yk_feed *feed, const uint64_t *saved, size_t n)
{
    stream_feed *f = (stream_feed *)feed;
    if (n < HEAD || saved[0] != YK_CURSOR_STREAM)
        return yk_fail(YK_EUSAGE,
                       "the checkpoint was written with data in memory: resume it with --stream never");
    if (n < HEAD + EACH || (n - HEAD) % EACH)
        return yk_fail(YK_EDATA, "the checkpoint's data cursor is damaged: it has %zu numbers", n);
    if (n != HEAD + EACH * (size_t)feed->plan.workers || saved[1] != f->window_bytes)
        return restore_blocks(f, saved + HEAD, (n - HEAD) / EACH);
    for (int i = 0; i < feed->plan.workers; i++)
        set_cursor(&f->worker[i], saved + HEAD + EACH * i);
    return YK_OK;
}

static void fini(yk_feed *feed)
{
    stream_feed *f = (stream_feed *)feed;
    for (int i = 0; f->worker && i < feed->plan.workers; i++) {
        stream *s = &f->worker[i];
        stop_reading(s);
        for (int k = 0; k < 2; k++) {
            yk_rows_fini(&s->window[k].rows);
            free(s->window[k].pick);
        }
        yk_rows_fini(&s->part);
        yk_mutex_destroy(&s->lock);
        yk_cond_destroy(&s->changed);
    }
    free(f->earlier);
}

static void drop_lease(yk_feed *feed, int me)
{
    stream *s = &((stream_feed *)feed)->worker[me];
    if (!feed->plan.next_stream || s->number < 0)
        return;
    stop_reading(s);
    s->number = -1;
}

static const yk__feed_ops ops = {.next = next,
                                 .epoch = epoch_of,
                                 .cursor = cursors,
                                 .cursor_restore = cursor_restore,
                                 .fini = fini,
                                 .cursor_of = cursor_of,
                                 .drop_lease = drop_lease};

yk_status yk__feed_stream(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out)
{
    stream_feed *f = yk_alloc(1, sizeof *f, "the feed");
    if (!f)
        return YK_ESYSTEM;
    f->feed = (yk_feed){.ops = &ops, .data = data, .plan = *plan};
    *out = &f->feed;
    f->worker = yk_arena_alloc(&f->feed.arena, (size_t)plan->workers, sizeof *f->worker, "the feed");
    f->by_block = data->source->nblocks >= 4 * (size_t)plan->workers;
    f->window_bytes = plan->window_bytes / (2 * (size_t)plan->workers);
    for (int i = 0; f->worker && i < plan->workers; i++) {
        stream *s = &f->worker[i];
        s->owner = f;
        s->me = s->number = i;
        yk_mutex_init(&s->lock);
        yk_cond_init(&s->changed);
        yk_rows_init(&s->part, data->kind, data->dim);
        for (int k = 0; k < 2; k++)
            yk_rows_init(&s->window[k].rows, data->kind, data->dim);
    }
    return f->feed.arena.status;
}
