/* The feed: divides a data set among workers, shuffles it and cuts it into batches. Every example occurs exactly once per
 * epoch.
 *
 * Example:
 *     yk_feed *f;
 *     yk_batch batch;
 *     st = yk_feed_create(&dataset, &plan, &f);
 *     while (!(st = yk_feed_next(f, worker, 1, &batch)) && batch.n)  // in the thread of each worker
 *         train_on(&batch);
 *     yk_feed_epoch(f, worker, 1);                                   // rounds: starts the next epoch
 *     yk_feed_free(f);
 *
 * Data in memory: the order of an epoch is a permutation that follows from (seed, epoch). Sparse rows are shuffled once when
 * they are loaded; if there are many, their epochs permute groups of 16 neighboring rows (rows in place: 256). If all workers
 * take the same steps (rounds), global batch number s of N workers with batch size b has positions s N b .. (s + 1) N b - 1 of
 * that order, and worker w gets the w-th group of b of them. So N workers see the same examples as one worker with an N times
 * larger batch. Otherwise, workers lease ranges of positions as they need them. A slow worker leases fewer, and no worker waits
 * at the end of an epoch.
 *
 *     order of an epoch   | w0 w1 w2 | w0 w1 w2 | w0 w1 |                    rounds: the last batch may be short
 *                         | lease: w0 | lease: w2 | lease: w0 | lease: w1    leases
 *
 * Streamed data: block number j of the epoch's random order of blocks belongs to worker j mod N. If there are too few
 * blocks, every worker reads all of them, and stripe j of 64 examples belongs to worker (j + epoch) mod N. Either way, there
 * are N streams, and a worker may continue with the stream of a lost worker. One thread per worker reads ahead into windows
 * of bounded size and shuffles each window.
 *
 * The feed borrows the data set and owns its threads. Each worker calls yk_feed_next() and yk_feed_epoch() from its own
 * thread. Cursors are saved and restored while no worker is in either function.
 */
#ifndef YK_DATA_FEED_H
#define YK_DATA_FEED_H

#include "core/keymap.h"
#include "core/plan.h"
#include "data/dataset.h"
#include "watch/phase.h"

typedef struct {
    int workers;
    size_t batch;
    uint64_t seed;
    uint64_t epochs; /* UINT64_MAX: no limit */
    uint64_t steps;  /* leases: batches of all workers together; UINT64_MAX: no limit */
    bool in_order;   /* --no-shuffle: an epoch has the order of the data */
    bool rounds;     /* workers have fixed shares of an epoch, and stop at its end until yk_feed_epoch() */
    size_t window_bytes; /* streams: memory for shuffling, of all workers together */
    /* Data in memory: leases a range of positions for a worker; NULL: the feed assigns them itself. Used where
     * workers of several processes share one assignment. An empty range: no examples are left, or none for now (then
     * next() may be called again). */
    yk_status (*lease)(void *context, int worker, uint64_t *epoch, uint64_t *begin, uint64_t *end);
    /* Streams: called at the end of each epoch of a stream, so that other workers can continue with the stream
     * of a lost worker. last: the stream's cursor after its last batch. Sets the stream to continue with, and its cursor;
     * number -1: none, or none for now (then next() may be called again). NULL: every worker keeps its own stream. */
    yk_status (*next_stream)(void *context, int worker, const uint64_t last[YK_CURSOR_SIZE], int *number,
                             uint64_t cursor[YK_CURSOR_SIZE]);
    /* Whether the lease or stream of a worker was assigned to another worker. If so, next() drops the rest of it. NULL: never. */
    bool (*revoked)(void *context, int worker);
    void *lease_context;
    /* With `lease` and rows in memory, which are shuffled before they are used: rows per chunk: neighbors that
     * shuffling keeps together, a multiple of `batch`; 0: the number that is best for the cache. A resumed run uses the number in
     * its checkpoint. */
    size_t chunk_rows;
    const yk_keymap *keymap; /* streams: remaps keys as they are read; NULL: no remap */
    yk_phases *phases;       /* streams: for the time that workers wait for their reader; borrowed, or NULL */
    int first;               /* the worker of phases[0]; workers before it are in other processes */
} yk_feed_plan;

typedef struct yk_feed yk_feed;

yk_status yk_feed_create(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out);
void yk_feed_free(yk_feed *f); /* NULL is fine */

/* The next batch of a worker, or up to `max` (at least 1) batches as one, for a caller that uses them one after another: fewer
 * at the end of an epoch, a lease or a window. batch.n is 0 at the end of its epoch (rounds) or of training. */
yk_status yk_feed_next(yk_feed *f, int me, size_t max, yk_batch *out);

void yk_feed_epoch(yk_feed *f, int me, uint64_t epoch);

size_t yk_feed_chunk_rows(const yk_feed *f); /* see yk_feed_plan; 0 for a stream */

/* If leases come from another process: adopts the chunk size of a saved cursor. *out: that size; 0: the default. */
yk_status yk_feed_chunk_rows_restore(yk_feed *f, const uint64_t *cursor, size_t n, size_t *out);

/* The same for one worker of a process that joined a job, before its first lease: `chunk_rows` came with the lease. */
yk_status yk_feed_chunk_rows_set(yk_feed *f, int me, uint64_t chunk_rows);

/* The cursor: the positions of all workers, as numbers for a checkpoint. Restore it before the first next(). A cursor of data
 * in memory works with any number of workers; that of a stream is exact only with the same number of workers and the same
 * window size. The cursor of a stream cannot be restored for data in memory, or vice versa. */
yk_status yk_feed_cursor(yk_feed *f, uint64_t **out, size_t *n_out); /* the caller frees it: yk_free() */
yk_status yk_feed_cursor_restore(yk_feed *f, const uint64_t *cursor, size_t n, uint64_t steps_done);

/* The five numbers of one worker in the cursor of a stream; does nothing for data in memory. Returns the stream that the worker
 * reads; 0 for data in memory. */
int yk_feed_cursor_of(const yk_feed *f, int me, uint64_t out[YK_CURSOR_SIZE]);

#endif
