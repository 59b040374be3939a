/* Stream assignment with the feed of streamed data: when workers are lost at any time, with gradients in flight, and come back,
 * every example is used exactly once per epoch. */
#include "feeding.h"

#include "data/export.h"
#include "data/streams.h"
#include <string.h>

enum { EXAMPLES = 700, EPOCHS = 3, WORKERS = 4, IN_FLIGHT = 3, BATCH = 9 };

/* A gradient that has not arrived yet. */
typedef struct {
    uint64_t cursor[YK_CURSOR_SIZE];
    size_t n;
    uint32_t id[BATCH];
} gradient;

typedef struct {
    yk_streams streams;
    yk_feed *feed;
    gradient sent[WORKERS][IN_FLIGHT];
    size_t nsent[WORKERS];
    bool lost[WORKERS], revoked[WORKERS];
} job;

static const char *write_examples(void)
{
    const char *path = new_path(".libsvm");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < EXAMPLES; i++)
        fprintf(f, "%c1 %d:1\n", i % 2 ? '+' : '-', i + 1);
    assert_int_equal(fclose(f), 0);
    return path;
}

static yk_status next_stream(void *context, int worker, const uint64_t last[YK_CURSOR_SIZE], int *number,
                             uint64_t cursor[YK_CURSOR_SIZE])
{
    job *j = context;
    if (*number >= 0 && cursor[0] < EPOCHS && !yk_streams_orphans(&j->streams))
        return YK_OK;
    if (*number >= 0)
        yk_streams_return(&j->streams, worker, *number, last, cursor[0]);
    *number = yk_streams_lease(&j->streams, worker, cursor);
    return YK_OK;
}

static bool is_revoked(void *context, int worker)
{
    job *j = context;
    const bool revoked = j->revoked[worker];
    j->revoked[worker] = false;
    return revoked;
}

/* The oldest gradient of a worker arrives. */
static void arrive(job *j, int w)
{
    const gradient *g = &j->sent[w][0];
    for (size_t i = 0; i < g->n; i++)
        first.id[first.n++] = g->id[i];
    yk_streams_used(&j->streams, g->cursor);
    memmove(j->sent[w], j->sent[w] + 1, --j->nsent[w] * sizeof *j->sent[w]);
}

/* A worker computes a gradient. */
static void compute(job *j, int w)
{
    yk_batch b;
    gradient *g = &j->sent[w][j->nsent[w]];
    assert_int_equal(yk_feed_next(j->feed, w, 1, &b), YK_OK);
    if (!b.n)
        return;
    *g = (gradient){.n = b.n};
    for (size_t i = 0; i < b.n; i++)
        g->id[i] = b.rows->index[b.rows->start[b.pick[i]]];
    const int stream = yk_feed_cursor_of(j->feed, w, g->cursor);
    g->cursor[YK_CURSOR_SIZE - 1] |= (uint64_t)stream << YK_STREAM_SHIFT;
    j->nsent[w]++;
}

static void lose(job *j, int w)
{
    yk_streams_release(&j->streams, w);
    j->revoked[w] = true;
    j->nsent[w] = 0;
    j->lost[w] = true;
}

/* Random order; now and then a worker is lost (never worker 0), and most come back. */
static void run(yk_dataset *d, uint64_t seed)
{
    job j = {0};
    yk_feed_plan plan = {.workers = WORKERS,
                         .batch = BATCH,
                         .seed = seed,
                         .epochs = EPOCHS,
                         .steps = UINT64_MAX,
                         .window_bytes = 1 << 14,
                         .next_stream = next_stream,
                         .revoked = is_revoked,
                         .lease_context = &j};
    yk_rng rng = yk_rng_seed(seed, 0);
    assert_int_equal(yk_streams_init(&j.streams, WORKERS, EPOCHS), YK_OK);
    assert_int_equal(yk_feed_create(d, &plan, &j.feed), YK_OK);
    first.n = 0;
    for (int turn = 0; !yk_streams_done(&j.streams); turn++) {
        const int w = (int)yk_rng_below(&rng, WORKERS);
        const uint32_t what = yk_rng_below(&rng, 100);
        assert_true(turn < 100000); /* otherwise a stream is never finished */
        if (j.lost[w]) {
            j.lost[w] = what >= 5;
        } else if (what < 2 && w > 0) {
            lose(&j, w);
        } else if (what < 50 && j.nsent[w]) {
            arrive(&j, w);
        } else if (j.nsent[w] < IN_FLIGHT) {
            compute(&j, w);
        }
    }
    assert_each_times(&first, 0, EXAMPLES, EPOCHS);
    assert_int_equal(yk_streams_epoch(&j.streams), EPOCHS);
    yk_feed_free(j.feed);
    yk_streams_fini(&j.streams);
}

static void every_example_is_used_once(void **state)
{
    (void)state;
    char text[300], blocks[300];
    yk_source *source;
    yk_export_stats stats;
    const char *path = new_path(".tfrecord");
    snprintf(text, sizeof text, "libsvm:%s", write_examples());
    snprintf(blocks, sizeof blocks, "tfrecord:%s?block=600", path);
    assert_int_equal(yk_source_open(text, YK_SPLIT_TRAIN, NULL, &source), YK_OK);
    assert_int_equal(yk_export(source, "tfrecord", path, &stats), YK_OK);
    yk_source_free(source);
    for (int many = 0; many < 2; many++) {
        yk_dataset d;
        assert_int_equal(yk_dataset_open(many ? blocks : text, YK_SPLIT_TRAIN, NULL, YK_STREAM_ALWAYS, &d),
                         YK_OK);
        assert_true((d.source->nblocks >= 4 * WORKERS) == many);
        for (uint64_t seed = 1; seed <= 20; seed++)
            run(&d, seed);
        yk_dataset_fini(&d);
    }
}

/* A worker returns a stream, gets it again, and finds no examples in its next epoch: its last batch is of the epoch before. */
static void empty_epochs(void **state)
{
    (void)state;
    yk_streams s;
    uint64_t cursor[YK_CURSOR_SIZE] = {0};
    const uint64_t last[YK_CURSOR_SIZE] = {0};
    assert_int_equal(yk_streams_init(&s, 1, 3), YK_OK);
    for (uint64_t epoch = 1; epoch < 3; epoch++) {
        yk_streams_return(&s, 0, 0, last, epoch);
        assert_int_equal(yk_streams_lease(&s, 0, cursor), 0);
        assert_int_equal(cursor[0], epoch);
    }
    yk_streams_return(&s, 0, 0, last, 3);
    assert_true(yk_streams_done(&s));
    yk_streams_fini(&s);
}

/* A stream that was returned can be leased when its last gradient has arrived, and not before. */
static void gradients_in_flight(void **state)
{
    (void)state;
    yk_streams s;
    uint64_t cursor[YK_CURSOR_SIZE] = {0};
    assert_int_equal(yk_streams_init(&s, 2, 2), YK_OK);
    yk_streams_return(&s, 1, 1, (const uint64_t[YK_CURSOR_SIZE]){0, 3, 0, 40}, 1);
    assert_int_equal(yk_streams_lease(&s, 1, cursor), -1);
    yk_streams_used(&s, (const uint64_t[YK_CURSOR_SIZE]){0, 3, 0, 30, 1 << YK_STREAM_SHIFT});
    assert_false(yk_streams_orphans(&s));
    yk_streams_used(&s, (const uint64_t[YK_CURSOR_SIZE]){0, 3, 0, 40, 1 << YK_STREAM_SHIFT});
    assert_true(yk_streams_orphans(&s));
    yk_streams_release(&s, 0); /* further behind */
    assert_int_equal(yk_streams_lease(&s, 1, cursor), 0);
    assert_int_equal(yk_streams_lease(&s, 1, cursor), 1);
    assert_int_equal(cursor[0], 1);
    assert_false(yk_streams_orphans(&s));
    yk_streams_fini(&s);
}

/* Saved and restored with the same workers and windows: the same cursors; with others: all begin with the first epoch that is
 * not over. */
static void cursors(void **state)
{
    (void)state;
    yk_streams a, b;
    uint64_t saved[2 + 2 * YK_CURSOR_SIZE], again[2 + 2 * YK_CURSOR_SIZE];
    assert_int_equal(yk_streams_init(&a, 2, 5), YK_OK);
    yk_streams_used(&a, (const uint64_t[YK_CURSOR_SIZE]){2, 3, 7, 40, 0});
    yk_streams_used(&a, (const uint64_t[YK_CURSOR_SIZE]){1, 2, 0, 10, 1 << YK_STREAM_SHIFT});
    yk_streams_save(&a, saved, 4096, 0);
    assert_int_equal(yk_streams_init(&b, 2, 5), YK_OK);
    yk_streams_restore(&b, saved, 2 + 2 * YK_CURSOR_SIZE, 4096);
    yk_streams_save(&b, again, 4096, 0);
    assert_memory_equal(saved, again, sizeof saved);
    yk_streams_restore(&b, saved, 2 + 2 * YK_CURSOR_SIZE, 8192);
    yk_streams_save(&b, again, 8192, 0);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(again + 2 + YK_CURSOR_SIZE * i, ((uint64_t[YK_CURSOR_SIZE]){1}),
                            YK_CURSOR_SIZE * sizeof *again);
    yk_streams_fini(&a);
    yk_streams_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_is_used_once),
        cmocka_unit_test(gradients_in_flight),
        cmocka_unit_test(empty_epochs),
        cmocka_unit_test(cursors),
    };
    return cmocka_run_group_tests_name("streams", tests, make_test_directory, remove_test_directory);
}
