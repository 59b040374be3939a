/* Inside of the feed: feed.c is the front, feed_memory.c and feed_stream.c the two kinds. */
#ifndef YK_DATA_FEED_INTERNAL_H
#define YK_DATA_FEED_INTERNAL_H

#include "base/rng.h"
#include "data/feed.h"
#include <stdatomic.h>

typedef struct {
    yk_status (*next)(yk_feed *f, int me, size_t batches, yk_batch *out); /* so many at most, as one */
    void (*epoch)(yk_feed *f, int me, uint64_t epoch);
    size_t (*cursor_size)(const yk_feed *f);
    void (*cursor_save)(const yk_feed *f, uint64_t *out);
    yk_status (*cursor_restore)(yk_feed *f, const uint64_t *cursor, size_t n);
    void (*free)(yk_feed *f);
    void (*cursor_of)(const yk_feed *f, int me, uint64_t out[5]); /* optional */
    void (*forget)(yk_feed *f, int me);                           /* optional */
    void (*unit_restore)(yk_feed *f, uint64_t unit);              /* optional */
} yk__feed_ops;

struct yk_feed {
    const yk__feed_ops *ops;
    yk_dataset *data;
    yk_feed_plan plan;
    size_t unit;
    atomic_uint_fast64_t steps_granted; /* of plan.steps */
    struct yk__grant {
        _Alignas(64) uint64_t left;
    } * grant; /* [workers] */
};

yk_status yk__feed_memory(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out);
yk_status yk__feed_stream(yk_dataset *data, const yk_feed_plan *plan, yk_feed **out);

/* A saved cursor begins with what kind it is; that of YK__CURSOR_ASYNC has the unit, if it is not the usual one, above it. */
enum { YK__CURSOR_SYNC = 1, YK__CURSOR_ASYNC, YK__CURSOR_STREAM };
enum { YK__CURSOR_UNIT_SHIFT = 8 };

/* The order of an epoch over n things. */
static inline uint64_t yk__epoch_seed(const yk_feed_plan *plan, uint64_t epoch)
{
    return plan->seed * 0x9e3779b97f4a7c15u + epoch;
}

/* See yk_batch: from the position of its first example in the epoch. */
static inline uint64_t yk__batch_noise(const yk_feed_plan *plan, uint64_t epoch, uint64_t position)
{
    return yk_mix64(yk_mix64(yk__epoch_seed(plan, epoch)) + position);
}

#endif
