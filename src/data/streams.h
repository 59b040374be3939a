/* Stream assignment: which worker reads which stream. Streamed data is divided into as many streams as there are workers
 * (data/feed.h), and each worker begins with its own. The cursor of a stream is known after each gradient. When a worker is
 * lost or leaves, others continue with its streams, exactly where the last gradient that counted ended.
 *
 * Example:
 *     yk_streams s;
 *     st = yk_streams_init(&s, workers, epochs);
 *     yk_streams_used(&s, cursor);                         // a gradient arrived
 *     yk_streams_release(&s, 3);                           // worker 3 is lost
 *     yk_streams_return(&s, 1, 1, cursor, epoch);          // worker 1 is at the end of an epoch of stream 1
 *     int number = yk_streams_lease(&s, 1, cursor);        // and continues with the stream that is furthest behind
 *     yk_streams_fini(&s);
 *
 * Gradients may still be in flight when a worker returns a stream. Another worker can lease it after they have arrived.
 *
 * Plain data and arithmetic, for one thread.
 */
#ifndef YK_DATA_STREAMS_H
#define YK_DATA_STREAMS_H

#include "base/status.h"
#include "core/plan.h"
#include <stdbool.h>

/* The last number of a worker's cursor also contains the number of the stream. */
enum { YK_STREAM_SHIFT = 1 };

typedef struct {
    int n;
    uint64_t epochs;
    struct yk_stream_state {
        uint64_t cursor[YK_CURSOR_SIZE]; /* after the examples that were used */
        int holder;                      /* worker; -1: none */
        bool returned; /* the holder continues with another stream once `cursor` is not behind `last` */
        uint64_t last[YK_CURSOR_SIZE], next_epoch;
    } * stream; /* [n] */
} yk_streams;

yk_status yk_streams_init(yk_streams *s, int workers, uint64_t epochs);
void yk_streams_fini(yk_streams *s);

/* A gradient arrived; the stream, which must exist, is in the last number of the cursor. */
void yk_streams_used(yk_streams *s, const uint64_t cursor[YK_CURSOR_SIZE]);

/* A worker was lost or left. */
void yk_streams_release(yk_streams *s, int worker);

/* A worker is at the end of an epoch of its stream; last: the cursor after its last batch. */
void yk_streams_return(yk_streams *s, int worker, int number, const uint64_t last[YK_CURSOR_SIZE],
                       uint64_t next_epoch);

/* The stream that is furthest behind of those without a worker, and its cursor; -1: there is none. */
int yk_streams_lease(yk_streams *s, int worker, uint64_t cursor_out[YK_CURSOR_SIZE]);

bool yk_streams_orphans(const yk_streams *s); /* there are streams without a worker */
bool yk_streams_done(const yk_streams *s);    /* all epochs of all streams were used */

/* The cursor of all workers, as data/feed.h writes it: 3 | window_bytes / (2 n) | five numbers for each stream. In
 * synchronous mode all workers are in `epoch`, because the cursor of a worker after its last batch does not show whether that
 * epoch is over. In asynchronous mode `epoch` is 0. */
void yk_streams_save(const yk_streams *s, uint64_t *out, size_t window_bytes, uint64_t epoch);
/* The first epoch that is not over, of the five numbers of each of n streams. */
uint64_t yk_streams_first_epoch(const uint64_t *saved, size_t n);
/* Restores it. If it was saved with a different number of workers or window size, all streams begin with the first epoch that
 * is not over, and the feed skips the blocks that were used up. */
void yk_streams_restore(yk_streams *s, const uint64_t *saved, size_t n, size_t window_bytes);
uint64_t yk_streams_epoch(const yk_streams *s); /* epochs that are over in all streams */

#endif
