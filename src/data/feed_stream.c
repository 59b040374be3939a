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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_AT_A_TIME = 256, STRIPE = 64 };

/* In a tiny data set a worker may have no examples in some epochs. After this many epochs, times the workers, the data set is
 * empty. */
enum { EMPTY_EPOCHS_MOST = 64 };

/* Record number `record` of the worker's `ordinal`-th block of the epoch. */
typedef struct {
    uint64_t epoch, ordinal, record;
} cursor;

typedef struct {
    yk_rows rows;
    uint32_t *pick;
    size_t pick_cap;
    cursor begin, end; /* the next window begins at `end` */
    bool last;         /* of its epoch */
    bool ready;        /* filled by the thread, not used up by the worker */
} window;

typedef struct stream_feed stream_feed;

typedef struct {
    stream_feed *owner;
    int me;
    yk_thread thread;
    bool started, quit;
    yk_mutex lock;
    yk_cond changed;
    yk_status status; /* of the thread, with its text */
    char error[2048];
    bool finished; /* the thread fills no more windows */
    window window[2];
    /* used by the worker */
    int current;
    cursor here;           /* where the current window begins */
    size_t used;           /* examples of it that were returned */
    bool epoch_over;       /* synchronous: waits for yk_feed_epoch() */
    uint64_t empty_epochs; /* since the last example */
    /* used by the thread */
    cursor at;
    yk_reader *reader;
    yk_rows part;
    size_t part_used;
    yk_perm order;
    uint64_t order_epoch;
} stream;

struct stream_feed {
    yk_feed feed;
    bool by_block; /* whole blocks are assigned to workers; else stripes of STRIPE examples */
    size_t window_bytes;
    stream *worker;
    /* Resumed with other workers or windows: how many blocks of `earlier_epoch` each of the earlier workers had used up. */
    uint64_t earlier_epoch, *earlier; /* [earlier_workers] */
    uint64_t earlier_workers;
};

static uint64_t blocks_of(const stream_feed *f, int me)
{
    uint64_t n = f->feed.data->source->nblocks, workers = (uint64_t)f->feed.plan.workers;
    return f->by_block ? (n + workers - 1 - (uint64_t)me) / workers : n;
}

/* The current block of a worker, as its number in the order of the epoch. */
static uint64_t block_number(const stream *s)
{
    const stream_feed *f = s->owner;
    return f->by_block ? s->at.ordinal * (uint64_t)f->feed.plan.workers + (uint64_t)s->me : s->at.ordinal;
}

static bool used_earlier(const stream *s)
{
    const stream_feed *f = s->owner;
    if (!f->earlier || s->at.epoch != f->earlier_epoch)
        return false;
    const uint64_t j = block_number(s);
    return j / f->earlier_workers < f->earlier[j % f->earlier_workers];
}

static void close_reader(stream *s)
{
    yk_reader_free(s->reader);
    s->reader = NULL;
    yk_rows_clear(&s->part);
    s->part_used = 0;
}

/* Opens the block at s->at.ordinal. */
static yk_status open_block(stream *s)
{
    stream_feed *f = s->owner;
    yk_source *source = f->feed.data->source;
    if (s->order_epoch != s->at.epoch || !s->order.n) {
        s->order = yk_perm_make(source->nblocks, yk__epoch_seed(&f->feed.plan, s->at.epoch));
        s->order_epoch = s->at.epoch;
    }
    return yk_source_read(source, yk_perm_at(&s->order, block_number(s)), &s->reader);
}

/* Makes sure that part[part_used] is the record at s->at.record of the open block; *end_out when there is none. */
static yk_status next_part(stream *s, bool *end_out)
{
    size_t got = 1;
    *end_out = false;
    while (s->part_used >= s->part.n) {
        yk_rows_clear(&s->part);
        s->part_used = 0;
        yk_status st = yk_reader_next(s->reader, &s->part, READ_AT_A_TIME, &got);
        if (st)
            return st;
        if (got == 0) {
            *end_out = true;
            return YK_OK;
        }
    }
    return YK_OK;
}

/* Skips to record number `record` of the block that was just opened. */
static yk_status skip_records(stream *s, uint64_t record)
{
    bool end = false;
    while (record) {
        yk_status st = next_part(s, &end);
        if (st || end)
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
    return s->owner->by_block || (int)(stripe % (uint64_t)s->owner->feed.plan.workers) == s->me;
}

/* Remaps the keys of a full window and shuffles its rows. */
static yk_status prepare(const stream_feed *f, window *w)
{
    yk_status st = yk_dataset_check(f->feed.data, &w->rows);
    if (!st && f->feed.plan.keymap)
        st = yk_keymap_rows(f->feed.plan.keymap, &w->rows);
    if (!st)
        st = YK_RESERVE(w->pick, w->pick_cap, w->rows.n + 1, "the shuffle buffer");
    if (st)
        return st;
    uint64_t seed = yk__epoch_seed(&f->feed.plan, w->begin.epoch) ^
                    yk_mix64(w->begin.ordinal * 0x100000001b3u + w->begin.record);
    yk_perm order = yk_perm_make(w->rows.n, seed);
    for (size_t i = 0; i < w->rows.n; i++)
        w->pick[i] = (uint32_t)yk_perm_at(&order, i);
    return YK_OK;
}

/* Reads examples into a window, from the thread's cursor on. */
static yk_status fill(stream *s, window *w)
{
    stream_feed *f = s->owner;
    yk_status st = YK_OK;
    yk_rows_clear(&w->rows);
    w->begin = s->at;
    w->last = false;
    while (yk_rows_bytes(&w->rows) < f->window_bytes) {
        bool end;
        if (s->at.ordinal >= blocks_of(f, s->me)) {
            w->last = true;
            break;
        }
        if (!s->reader && used_earlier(s)) {
            s->at = (cursor){s->at.epoch, s->at.ordinal + 1, 0};
            continue;
        }
        if (!s->reader && ((st = open_block(s)) || (st = skip_records(s, s->at.record))))
            return st;
        if ((st = next_part(s, &end)))
            return st;
        if (end) {
            close_reader(s);
            s->at = (cursor){s->at.epoch, s->at.ordinal + 1, 0};
            continue;
        }
        size_t n = 0; /* consecutive records that all belong to this worker, or all do not */
        bool take = is_assigned(s, s->at.record);
        while (s->part_used + n < s->part.n && is_assigned(s, s->at.record + n) == take)
            n++;
        if (take && (st = yk_rows_append(&w->rows, &s->part, s->part_used, n)))
            return st;
        s->part_used += n;
        s->at.record += n;
        yk_mutex_lock(&s->lock);
        bool quit = s->quit;
        yk_mutex_unlock(&s->lock);
        if (quit)
            return YK_OK;
    }
    return prepare(f, w);
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
            s->at = (cursor){s->at.epoch + 1, 0, 0};
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
    close_reader(s);
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

/* The lock is held. Every wait is timed: either it is rare, or reading is the bottleneck. */
static void wait_for_reader(stream *s, const window *w)
{
    yk_phases *phases = s->owner->feed.plan.phases;
    const uint64_t since = yk_now_ns();
    while (!w->ready && !s->finished)
        yk_cond_wait(&s->changed, &s->lock);
    if (phases)
        yk_phase_waited(&phases[s->me - s->owner->feed.plan.first], YK_PHASE_INPUT, yk_now_ns() - since);
}

/* The window of the next example; NULL at the end of the data (synchronous: of the epoch). */
static yk_status current_window(stream *s, window **out)
{
    *out = NULL;
    for (;;) {
        if (s->epoch_over)
            return YK_OK;
        window *w = &s->window[s->current];
        yk_mutex_lock(&s->lock);
        if (!w->ready && !s->finished)
            wait_for_reader(s, w);
        bool ready = w->ready;
        yk_status st = s->status;
        if (ready && s->used >= w->rows.n) { /* used up: the thread may fill it again */
            bool last = w->last;
            s->here = w->end;
            w->ready = false;
            yk_cond_broadcast(&s->changed);
            yk_mutex_unlock(&s->lock);
            s->current ^= 1;
            s->used = 0;
            s->epoch_over = last && s->owner->feed.plan.synchronous;
            s->empty_epochs += last;
            if (s->empty_epochs > EMPTY_EPOCHS_MOST * (uint64_t)s->owner->feed.plan.workers)
                return yk__fail_empty(s->owner->feed.data->source);
            continue;
        }
        yk_mutex_unlock(&s->lock);
        if (ready)
            *out = w;
        return ready || !st ? YK_OK : yk_fail(st, "%s", s->error);
    }
}

static yk_status next(yk_feed *feed, int me, size_t batches, yk_batch *out)
{
    stream *s = &((stream_feed *)feed)->worker[me];
    *out = (yk_batch){0};
    yk_status st = s->started ? YK_OK : start(s);
    window *w;
    if (st || (st = current_window(s, &w)) || !w)
        return st;
    const size_t want = batches * feed->plan.batch, have = w->rows.n - s->used, n = have < want ? have : want;
    const uint64_t window_number = s->here.ordinal * 0x100000001b3u + s->here.record;
    *out = yk__batch_at(&feed->plan, &w->rows, w->pick + s->used, n, have, s->here.epoch,
                        yk_mix64(window_number + (uint64_t)me) + s->used);
    s->used += n;
    s->empty_epochs = 0;
    return YK_OK;
}

static void epoch_of(yk_feed *feed, int me, uint64_t epoch)
{
    stream *s = &((stream_feed *)feed)->worker[me];
    (void)epoch; /* the thread has already begun it */
    s->epoch_over = false;
}

/* Kind, size of the windows; then for each worker: epoch, ordinal, record, used, and whether it waits for the next epoch. */
enum { HEAD = 2, EACH = 5 };

static size_t cursor_size(const yk_feed *feed)
{
    return HEAD + EACH * (size_t)feed->plan.workers;
}

static void cursor_of(const yk_feed *feed, int me, uint64_t out[EACH])
{
    const stream *s = &((const stream_feed *)feed)->worker[me];
    memcpy(out, (uint64_t[EACH]){s->here.epoch, s->here.ordinal, s->here.record, s->used, s->epoch_over},
           EACH * sizeof *out);
}

static void cursor_save(const yk_feed *feed, uint64_t *out)
{
    const stream_feed *f = (const stream_feed *)feed;
    *out++ = YK__CURSOR_STREAM;
    *out++ = f->window_bytes;
    for (int i = 0; i < feed->plan.workers; i++)
        cursor_of(feed, i, out + EACH * i);
}

/* The cursor was saved with other workers or windows: blocks that were used up are skipped, and the examples of partly used
 * windows are used again. */
static yk_status restore_blocks(stream_feed *f, const uint64_t *saved, uint64_t workers)
{
    uint64_t epoch = UINT64_MAX, least = UINT64_MAX;
    free(f->earlier);
    if (!(f->earlier = calloc(workers, sizeof *f->earlier)))
        return yk_fail_memory(workers * sizeof *f->earlier, "the data cursor");
    for (uint64_t i = 0; i < workers; i++) {
        const uint64_t *each = saved + EACH * i;
        const uint64_t at = each[0] - (each[4] && each[0] > 0); /* at the end of the previous epoch */
        epoch = at < epoch ? at : epoch;
    }
    for (uint64_t i = 0; i < workers; i++) {
        const uint64_t *each = saved + EACH * i;
        f->earlier[i] = each[0] > epoch ? UINT64_MAX : each[1];
        least = f->earlier[i] < least ? f->earlier[i] : least;
    }
    f->earlier_epoch = epoch;
    f->earlier_workers = workers;
    if (!f->by_block) { /* every worker reads all blocks: a block is used up if all workers have used it up */
        f->earlier_workers = 1;
        f->earlier[0] = least;
    }
    for (int i = 0; i < f->feed.plan.workers; i++) {
        f->worker[i].here = f->worker[i].at = (cursor){epoch, 0, 0};
        f->worker[i].used = 0;
        f->worker[i].epoch_over = false;
    }
    yk_note("the checkpoint was written with a different number of workers or another --shuffle-mb: blocks "
            "that were "
            "used up are skipped, and examples that were in the shuffle buffer are used again");
    return YK_OK;
}

static yk_status cursor_restore(yk_feed *feed, const uint64_t *saved, size_t n)
{
    stream_feed *f = (stream_feed *)feed;
    if (n < HEAD || saved[0] != YK__CURSOR_STREAM)
        return yk_fail(YK_EUSAGE,
                       "the checkpoint was written with data in memory: resume it with --stream never");
    if (n < HEAD + EACH || (n - HEAD) % EACH)
        return yk_fail(YK_EDATA, "the checkpoint's data cursor is damaged: it has %zu numbers", n);
    if (n != cursor_size(feed) || saved[1] != f->window_bytes)
        return restore_blocks(f, saved + HEAD, (n - HEAD) / EACH);
    for (int i = 0; i < feed->plan.workers; i++) {
        const uint64_t *each = saved + HEAD + EACH * i;
        stream *s = &f->worker[i];
        s->here = s->at = (cursor){each[0], each[1], each[2]};
        s->used = (size_t)each[3];
        s->epoch_over = each[4] != 0;
    }
    return YK_OK;
}

static void free_feed(yk_feed *feed)
{
    stream_feed *f = (stream_feed *)feed;
    for (int i = 0; f->worker && i < feed->plan.workers; i++) {
        stream *s = &f->worker[i];
        yk_mutex_lock(&s->lock);
        s->quit = true;
        yk_cond_broadcast(&s->changed);
        yk_mutex_unlock(&s->lock);
        if (s->started)
            yk_thread_join(&s->thread);
        for (int k = 0; k < 2; k++) {
            yk_rows_fini(&s->window[k].rows);
            free(s->window[k].pick);
        }
        yk_rows_fini(&s->part);
        yk_mutex_destroy(&s->lock);
        yk_cond_destroy(&s->changed);
    }
    free(f->earlier);
    yk_free(f->worker);
    yk_free(f);
}

static const yk__feed_ops ops = {next,           epoch_of,  cursor_size, cursor_save,
                                 cursor_restore, free_feed, cursor_of};

yk_status yk__feed_stream(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out)
{
    stream_feed *f = yk_alloc(1, sizeof *f, "the feed");
    stream *workers = yk_alloc((size_t)plan->workers, sizeof *workers, "the feed");
    if (!f || !workers) {
        yk_free(f);
        yk_free(workers);
        return YK_ESYSTEM;
    }
    f->feed = (yk_feed){.ops = &ops, .data = data, .plan = *plan};
    f->worker = workers;
    f->by_block = data->source->nblocks >= 4 * (size_t)plan->workers;
    f->window_bytes = plan->window_bytes / (2 * (size_t)plan->workers);
    for (int i = 0; i < plan->workers; i++) {
        stream *s = &workers[i];
        s->owner = f;
        s->me = i;
        yk_mutex_init(&s->lock);
        yk_cond_init(&s->changed);
        yk_rows_init(&s->part, data->kind, data->dim);
        for (int k = 0; k < 2; k++)
            yk_rows_init(&s->window[k].rows, data->kind, data->dim);
    }
    *out = &f->feed;
    return YK_OK;
}
