/* Internal to the feed: feed.c is the interface, feed_memory.c and feed_stream.c are the implementations. */
#ifndef YK_DATA_FEED_INTERNAL_H
#define YK_DATA_FEED_INTERNAL_H

#include "base/rng.h"
#include "core/plan.h"
#include "data/feed.h"
#include <stdatomic.h>

typedef struct {
    /* At most `batches` batches, as one. */
    yk_status (*next)(yk_feed *f, int me, size_t batches, yk_batch *out);
    void (*epoch)(yk_feed *f, int me, uint64_t epoch);
    yk_status (*cursor)(yk_feed *f, uint64_t **out, size_t *n_out);
    yk_status (*cursor_restore)(yk_feed *f, const uint64_t *cursor, size_t n);
    void (*fini)(yk_feed *f); /* frees what is not in the arena */
    void (*drop_lease)(yk_feed *f, int me);
    int (*cursor_of)(const yk_feed *f, int me, uint64_t out[YK_CURSOR_SIZE]); /* optional */
    yk_status (*chunk_rows_set)(yk_feed *f, int me, uint64_t chunk_rows);     /* optional */
} yk__feed_ops;

struct yk_feed {
    const yk__feed_ops *ops;
    yk_arena arena;
    yk_dataset *data;
    yk_feed_plan plan;
    size_t chunk_rows;
    atomic_uint_fast64_t steps_granted; /* of plan.steps */
    struct yk__grant {
        _Alignas(64) uint64_t left; /* steps that a worker may still take */
    } * grant;                      /* [workers] */
};

/* *out is to be freed even after a failure; NULL: there is none. */
yk_status yk__feed_memory(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out);
yk_status yk__feed_stream(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out);

enum { YK__AHEAD = 32 }; /* rows after a batch that are announced for prefetching */

/* The seed of the order of an epoch. */
static inline uint64_t yk__epoch_seed(const yk_feed_plan *plan, uint64_t epoch)
{
    return plan->seed * 0x9e3779b97f4a7c15u + epoch;
}

/* The first `n` of the `have` rows in pick[], as a batch. `position`, that of the first row in the epoch, determines the
 * noise of the batch. */
static inline yk_batch yk__batch_at(const yk_feed_plan *plan, const yk_rows *rows, const uint32_t *pick,
                                    size_t n, size_t have, uint64_t epoch, uint64_t position)
{
    return (yk_batch){rows, pick, n, have - n < YK__AHEAD ? have - n : YK__AHEAD,
                      yk_mix64(yk_mix64(yk__epoch_seed(plan, epoch)) + position)};
}

#endif
