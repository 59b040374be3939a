/* Reads the examples of one stream, block by block. Internal to the feed (feed.h describes how streamed data is divided). */
#ifndef YK_DATA_FEED_READER_H
#define YK_DATA_FEED_READER_H

#include "base/perm.h"
#include "data/feed_internal.h"
#include "data/formats.h"

/* Record number `record` of the stream's `ordinal`-th block of the epoch. */
typedef struct {
    uint64_t epoch, ordinal, record;
} yk__stream_cursor;

/* How the data is divided into streams, the same for all readers. */
typedef struct {
    yk_dataset *data;
    const yk_feed_plan *plan;
    bool by_block; /* each block belongs to one stream; otherwise, each stripe of examples does */
    /* Resumed with a different number of workers or window size: blocks of `earlier_epoch` that each earlier worker used up. */
    uint64_t earlier_epoch, *earlier; /* [earlier_workers] */
    uint64_t earlier_workers;
} yk__streams_division;

typedef struct {
    const yk__streams_division *division;
    int number; /* of the stream; -1: none */
    yk__stream_cursor at;
    yk_reader *reader;
    yk_rows part;
    size_t part_used;
    yk_perm order;
    uint64_t order_epoch;
} yk__stream_reader;

/* Appends some of the next examples to `rows`, or none. *last_out: the epoch is over. */
yk_status yk__stream_read(yk__stream_reader *r, yk_rows *rows, bool *last_out);
void yk__stream_close(yk__stream_reader *r); /* closes the current block */

#endif
