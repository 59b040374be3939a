/* The feed: each worker's share of a data set, shuffled and cut into batches, every example exactly once per epoch.
 *
 *     yk_feed *f;
 *     st = yk_feed_create(&dataset, &plan, &f);
 *     each worker:  st = yk_feed_next(f, me, &batch);      // batch.n == 0: its epoch is over (synchronous), or all is (else)
 *                   yk_feed_epoch(f, me, epoch);           // synchronous: on to this epoch
 *     yk_feed_free(f);
 *
 * In memory the order of an epoch is a permutation of (seed, epoch); of sparse rows, which are mixed once when they are
 * loaded, one of groups of 16. In step (synchronous training), global batch
 * number s is positions s N b .. (s + 1) N b of that order and worker w has the w-th b of it, so that N workers see what
 * one worker with an N-fold batch sees. Otherwise workers take runs of positions as they get to them, and a slow worker
 * takes fewer: nobody waits at the end of an epoch.
 *
 *     order of an epoch   | w0 w1 w2 | w0 w1 w2 | w0 w1 |          in step, n not divisible: the last batch is short
 *                         | run: w0 | run: w2 | run: w0 | run: w1  otherwise
 *
 * A streamed set is dealt out by blocks: block number j of the epoch's random order of blocks goes to worker j mod N. Where
 * there are too few blocks, run j of 64 examples goes to worker (j + epoch) mod N, so that nobody goes without for good.
 * A thread per worker reads ahead into windows of bounded size and shuffles each window.
 *
 * Positions are saved in a checkpoint and restored from it (yk_feed_cursor). next() is for the worker's own thread.
 */
#ifndef YK_DATA_FEED_H
#define YK_DATA_FEED_H

#include "base/keymap.h"
#include "data/dataset.h"
#include "watch/phase.h"

typedef struct {
    int workers;
    size_t batch;
    uint64_t seed;
    uint64_t epochs;     /* UINT64_MAX: no end */
    uint64_t steps;      /* not in step: so many batches of all workers together; UINT64_MAX: no limit */
    bool synchronous;    /* synchronous */
    size_t window_bytes; /* streams: memory for shuffling, of all workers together */
    /* In memory, not in step: where runs of positions come from; NULL: from this feed. An empty run: none, or none now (then
     * next() may be called again). For workers of several processes, who share one assignment. */
    yk_status (*lease)(void *context, int worker, uint64_t *epoch, uint64_t *begin, uint64_t *end);
    void *lease_context;
    size_t
        unit; /* in memory, leased, mixed rows: neighbours that always come together, in whole batches; 0: as
                    many as is best for the cache. A checkpoint that was written with another unit keeps it */
    const yk_keymap *keymap; /* streams: keys are renamed as they are read; NULL: they are not */
    yk_phases *phases;       /* streams: who waits for its reader says so; NULL: nobody. Borrowed */
    int first;               /* phases are those of the workers from this one on: the others are elsewhere */
} yk_feed_plan;

typedef struct yk_feed yk_feed;

yk_status yk_feed_create(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out);
void yk_feed_free(yk_feed *f); /* NULL is fine */

yk_status yk_feed_next(yk_feed *f, int me, yk_batch *out);
size_t yk_feed_unit(const yk_feed *f); /* see yk_feed_plan; 0: of a stream */
/* Where leases come from elsewhere: goes on with the unit of a saved cursor. */
void yk_feed_unit_restore(yk_feed *f, const uint64_t *cursor, size_t n);

/* Up to `most` batches in one, which the caller uses one after the other: fewer where an epoch, a run of positions or a
 * window ends, none where next() would give none. At least one is asked for. */
yk_status yk_feed_next_few(yk_feed *f, int me, size_t most, yk_batch *out);
void yk_feed_epoch(yk_feed *f, int me, uint64_t epoch);

/* Where it stands, as numbers to be saved while no worker is inside next(), and put back before the first next().
 * Saved with one number of workers, a cursor in memory can be restored with another; that of a stream needs the same
 * workers and windows. A cursor says of which kind it is, and the other kind refuses it. */
/* In memory, with runs that are dealt by others: what is left of this worker's run is not its own any more. */
void yk_feed_forget(yk_feed *f, int me);

/* Of a stream: the five numbers of one worker in it; otherwise nothing. */
void yk_feed_cursor_of(const yk_feed *f, int me, uint64_t out[5]);
size_t yk_feed_cursor_size(const yk_feed *f);
void yk_feed_cursor_save(const yk_feed *f, uint64_t *out);
yk_status yk_feed_cursor_restore(yk_feed *f, const uint64_t *cursor, size_t n, uint64_t steps_done);

#endif
