/* Helpers for the tests of feeds: data sets whose row i has the single index i, which identifies it; logs of the examples that a
 * feed returns; synchronous rounds, asynchronous workers in random order, and workers on threads.
 *
 *     yk_dataset d = in_memory(100);
 *     d.rows = &d.loaded;
 *     rounds r = begin_rounds(&d, plan);
 *     finish_rounds(&r, &first);               // all epochs, in order
 *     assert_each_times(&first, 0, 100, 2);    // each example twice
 */
#ifndef YK_TESTS_FEEDING_H
#define YK_TESTS_FEEDING_H

#include "scratch.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/team.h"
#include "data/feed.h"

enum { MAX_WORKERS = 8 };

/* ---- data sets */

static inline yk_dataset in_memory(size_t n)
{
    yk_dataset d = {.kind = YK_ROWS_SPARSE, .dim = n, .classes = 2, .examples = n};
    yk_rows_init(&d.loaded, YK_ROWS_SPARSE, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t *index;
        float *value;
        assert_int_equal(yk_rows_sparse(&d.loaded, 1, &index, &value), YK_OK);
        index[0] = (uint32_t)i;
        assert_int_equal(yk_rows_commit(&d.loaded, 1, (int32_t)(i % 2)), YK_OK);
    }
    return d;
}

/* ---- the examples that a feed returned, in order */

typedef struct {
    size_t n;
    uint32_t id[1 << 16];
} example_log;

static inline void log_batch(example_log *d, const yk_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        assert_true(d->n < sizeof d->id / sizeof *d->id);
        assert_int_equal(yk_rows_entries(b->rows, b->pick[i]), 1);
        d->id[d->n++] = b->rows->index[b->rows->start[b->pick[i]]];
    }
}

static inline void assert_each_times(const example_log *d, size_t from, size_t n, unsigned times)
{
    unsigned *seen = calloc(n, sizeof *seen);
    assert_non_null(seen);
    for (size_t i = from; i < d->n; i++) {
        assert_true(d->id[i] < n);
        seen[d->id[i]]++;
    }
    for (size_t i = 0; i < n; i++)
        if (seen[i] != times)
            fail_msg("example %zu of %zu was used %u times, not %u", i, n, seen[i], times);
    free(seen);
}

static inline void assert_same(const example_log *a, const example_log *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->id, b->id, a->n * sizeof *a->id);
}

static example_log first, second, part[MAX_WORKERS];

/* ---- synchronous: rounds of all workers, as in the training loop */

typedef struct {
    yk_feed *feed;
    int workers;
    uint64_t epoch, epochs;
    size_t largest; /* number of examples of a round */
} rounds;

static inline rounds begin_rounds(yk_dataset *d, yk_feed_plan plan)
{
    plan.rounds = true;
    plan.steps = UINT64_MAX;
    rounds r = {.workers = plan.workers, .epochs = plan.epochs};
    assert_int_equal(yk_feed_create(d, &plan, &r.feed), YK_OK);
    return r;
}

/* Returns the number of examples of the round; 0: the epoch ended. */
static inline size_t one_round(rounds *r, example_log *d)
{
    size_t before = d->n;
    for (int w = 0; w < r->workers; w++) {
        yk_batch b;
        assert_int_equal(yk_feed_next(r->feed, w, 1, &b), YK_OK);
        log_batch(d, &b);
    }
    if (d->n == before) {
        r->epoch++;
        for (int w = 0; w < r->workers; w++)
            yk_feed_epoch(r->feed, w, r->epoch);
    }
    r->largest = d->n - before > r->largest ? d->n - before : r->largest;
    return d->n - before;
}

static inline void finish_rounds(rounds *r, example_log *d)
{
    while (r->epoch < r->epochs)
        one_round(r, d);
    yk_feed_free(r->feed);
}

/* Restores the cursor of one feed in another; frees the first. */
static inline yk_status carry_over(yk_feed *from, yk_feed *to, uint64_t steps)
{
    size_t n;
    uint64_t *cursor;
    assert_int_equal(yk_feed_cursor(from, &cursor, &n), YK_OK);
    yk_feed_free(from);
    yk_status st = yk_feed_cursor_restore(to, cursor, n, steps);
    yk_free(cursor);
    return st;
}

static const int worker_counts[] = {1, 2, 3, 5, 8};

#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof *(array); i++)

/* Stopped after any round, a feed resumes in the same order, also with another number of workers. */
static inline void check_synchronous_resume(yk_dataset *d, yk_feed_plan plan, int other_workers,
                                            size_t other_batch)
{
    rounds a = begin_rounds(d, plan);
    size_t stops = 1;
    for (first.n = 0; a.epoch < plan.epochs; stops++)
        one_round(&a, &first);
    yk_feed_free(a.feed);
    for (size_t stop = 0; stop < stops; stop += 1 + stops / 40) {
        second.n = 0;
        a = begin_rounds(d, plan);
        for (size_t i = 0; i < stop; i++)
            one_round(&a, &second);
        yk_feed_plan other = plan;
        other.workers = other_workers;
        other.batch = other_batch;
        rounds b = begin_rounds(d, other);
        b.epoch = a.epoch;
        assert_int_equal(carry_over(a.feed, b.feed, stop), YK_OK);
        finish_rounds(&b, &second);
        assert_same(&first, &second);
    }
}

/* ---- asynchronous: workers in random order */

/* Draws batches for random workers until there are `max`, or none are left; returns their number. */
static inline size_t draw_batches(yk_feed *f, int workers, size_t max, uint64_t seed, example_log *all,
                                  example_log *each)
{
    bool over[MAX_WORKERS] = {false};
    int left = workers;
    yk_rng rng = yk_rng_seed(seed, 0);
    size_t made = 0;
    while (left && made < max) {
        int w = (int)yk_rng_below(&rng, (uint32_t)workers);
        yk_batch b;
        if (over[w])
            continue;
        assert_int_equal(yk_feed_next(f, w, 1, &b), YK_OK);
        left -= b.n == 0;
        over[w] = b.n == 0;
        made += b.n > 0;
        log_batch(all, &b);
        if (each)
            log_batch(&each[w], &b);
    }
    return made;
}

/* ---- workers on threads */

typedef struct {
    yk_feed *feed;
    uint64_t batches[MAX_WORKERS];
} thread_batches;

static inline yk_status take_all(void *context, int me)
{
    thread_batches *c = context;
    for (;;) {
        yk_batch b;
        yk_status st = yk_feed_next(c->feed, me, 1, &b);
        if (st || b.n == 0)
            return st;
        c->batches[me]++;
        for (size_t i = 0; i < b.n; i++)
            part[me].id[part[me].n++] = b.rows->index[b.rows->start[b.pick[i]]];
    }
}

static inline uint64_t acquire_on_threads(yk_dataset *d, yk_feed_plan plan)
{
    thread_batches c = {0};
    yk_team *team;
    uint64_t sum = 0;
    assert_int_equal(yk_team_create(plan.workers, &team), YK_OK);
    assert_int_equal(yk_feed_create(d, &plan, &c.feed), YK_OK);
    for (int w = 0; w < plan.workers; w++)
        part[w].n = 0;
    assert_int_equal(yk_team_run(team, take_all, &c), YK_OK);
    first.n = 0;
    for (int w = 0; w < plan.workers; w++) {
        memcpy(first.id + first.n, part[w].id, part[w].n * sizeof *first.id);
        first.n += part[w].n;
        sum += c.batches[w];
    }
    yk_feed_free(c.feed);
    yk_team_free(team);
    return sum;
}

#endif
