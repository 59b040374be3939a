/* The feed of streamed data: every example exactly once per epoch, the same order from any saved cursor, few blocks or
 * many, compressed or not; and errors. */
#include "feeding.h"

#include "data/export.h"
#include <sys/stat.h>

/* Examples begin .. begin + n as LIBSVM text. */
static const char *write_libsvm(size_t begin, size_t n)
{
    const char *path = new_path(".libsvm");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (size_t i = begin; i < begin + n; i++)
        fprintf(f, "%c1 %zu:1\n", i % 2 ? '+' : '-', i + 1);
    assert_int_equal(fclose(f), 0);
    return path;
}

static const char *write_tfrecord(size_t n)
{
    char spec[300];
    snprintf(spec, sizeof spec, "libsvm:%s", write_libsvm(0, n));
    yk_source *s;
    assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    const char *path = new_path(".tfrecord");
    yk_export_stats stats;
    assert_int_equal(yk_export(s, "tfrecord", path, &stats), YK_OK);
    yk_source_free(s);
    return path;
}

static yk_dataset streamed(const char *spec)
{
    yk_dataset d;
    assert_int_equal(yk_dataset_open(spec, YK_SPLIT_TRAIN, NULL, YK_STREAM_ALWAYS, &d), YK_OK);
    assert_null(d.rows);
    return d;
}

/* A glob pattern for three gzipped files with n examples in total. */
static void write_gz_parts(size_t n, char *glob, size_t room)
{
    static int turn;
    char dir[64], name[96];
    snprintf(dir, sizeof dir, "gz%d", turn++);
    assert_int_equal(mkdir(in_directory(dir), 0777), 0);
    for (size_t p = 0; p < 3; p++) {
        const char *plain = write_libsvm(n * p / 3, n * (p + 1) / 3 - n * p / 3);
        snprintf(name, sizeof name, "%s/part-%zu.gz", dir, p);
        compress_file(plain, in_directory(name), GZIP);
    }
    snprintf(glob, room, "libsvm:%s/part-*.gz", in_directory(dir));
}

/* ---- streams */

static example_log whole[MAX_WORKERS];
static const size_t stream_sizes[] = {1, 50, 63, 64, 65, 700};

/* Synchronous, asynchronous, and stopped anywhere; `spec` has n examples. */
static void check_stream(const char *spec, size_t n, int workers)
{
    yk_dataset d = streamed(spec);
    yk_feed_plan plan = {.workers = workers,
                         .batch = 9,
                         .seed = 11,
                         .epochs = 3,
                         .steps = UINT64_MAX,
                         .window_bytes = (size_t)1500 * (size_t)workers};
    rounds a = begin_rounds(&d, plan);
    first.n = 0;
    for (uint64_t e = 0; e < plan.epochs;) {
        size_t from = first.n;
        while (one_round(&a, &first))
            ;
        e++;
        assert_int_equal(a.epoch, e);
        assert_int_equal(first.n - from, n);
        assert_each_times(&first, from, n, 1);
    }
    yk_feed_free(a.feed);
    if (n >= 64) {
        assert_memory_not_equal(first.id, first.id + n, n * sizeof *first.id);
        assert_int_not_equal(first.id[0] * 3 + first.id[1], 1); /* not in file order */
    }
    check_synchronous_resume(&d, plan, plan.workers, plan.batch);

    yk_feed *f, *g;
    for (int w = 0; w < workers; w++)
        whole[w].n = 0;
    first.n = 0;
    assert_int_equal(yk_feed_create(&d, &plan, &f), YK_OK);
    size_t made = draw_batches(f, workers, SIZE_MAX, 1, &first, whole);
    yk_feed_free(f);
    assert_each_times(&first, 0, n, 3);
    for (size_t stop = 0; stop <= made; stop += 1 + made / (SANITIZED ? 3 : 9)) {
        second.n = 0;
        for (int w = 0; w < workers; w++)
            part[w].n = 0;
        assert_int_equal(yk_feed_create(&d, &plan, &f), YK_OK);
        draw_batches(f, workers, stop, stop, &second, part);
        assert_int_equal(yk_feed_create(&d, &plan, &g), YK_OK);
        assert_int_equal(carry_over(f, g, stop), YK_OK);
        draw_batches(g, workers, SIZE_MAX, stop + 5, &second, part);
        yk_feed_free(g);
        for (int w = 0; w < workers; w++)
            assert_same(&part[w], &whole[w]);
    }
    yk_dataset_fini(&d);
}

static void streams_of_many_blocks(void **state)
{
    (void)state;
    char spec[300];
    for
        EACH(i, stream_sizes)
        {
            snprintf(spec, sizeof spec, "tfrecord:%s?block=600", write_tfrecord(stream_sizes[i]));
        for
            EACH(j, worker_counts)
        check_stream(spec, stream_sizes[i], worker_counts[j]);
        }
}

static void streams_of_few_blocks(void **state)
{
    (void)state;
    char spec[400];
    for
        EACH(i, stream_sizes)
        for
            EACH(j, worker_counts)
            {
                snprintf(spec, sizeof spec, "libsvm:%s", write_libsvm(0, stream_sizes[i]));
                check_stream(spec, stream_sizes[i], worker_counts[j]);
                if (stream_sizes[i] < 3 || j % 2)
                    continue;
                write_gz_parts(stream_sizes[i], spec, sizeof spec);
                check_stream(spec, stream_sizes[i], worker_counts[j]);
            }
}

/* Fewer blocks than workers: some have no examples in an epoch, but the requested number of steps is made. */
static void streams_make_all_steps(void **state)
{
    (void)state;
    char spec[300];
    snprintf(spec, sizeof spec, "libsvm:%s", write_libsvm(0, 50));
    yk_dataset d = streamed(spec);
    yk_feed_plan plan = {
        .workers = 3, .batch = 10, .seed = 2, .epochs = UINT64_MAX, .steps = 101, .window_bytes = 1 << 16};
    assert_int_equal(acquire_on_threads(&d, plan), 101);
    plan.steps = UINT64_MAX;
    plan.epochs = 5;
    acquire_on_threads(&d, plan);
    assert_each_times(&first, 0, 50, 5);
    yk_dataset_fini(&d);
}

/* ---- errors */

static void cursors_of_another_kind_are_refused(void **state)
{
    (void)state;
    char spec[300];
    yk_dataset m = in_memory(100);
    m.rows = &m.loaded;
    snprintf(spec, sizeof spec, "libsvm:%s", write_libsvm(0, 100));
    yk_dataset s = streamed(spec);
    yk_feed_plan plan = {.workers = 1, .batch = 9, .epochs = 3, .window_bytes = 1 << 16};
    rounds a = begin_rounds(&m, plan), b = begin_rounds(&s, plan);
    assert_error(carry_over(a.feed, b.feed, 0), YK_EUSAGE, "--stream never");
    a = begin_rounds(&m, plan);
    assert_error(carry_over(b.feed, a.feed, 0), YK_EUSAGE, "--stream always");
    yk_dataset small = in_memory(3); /* the cursor is beyond the end of a smaller set */
    small.rows = &small.loaded;
    second.n = 0;
    one_round(&a, &second);
    b = begin_rounds(&small, plan);
    assert_error(carry_over(a.feed, b.feed, 1), YK_EDATA, "3 examples");
    yk_feed_free(b.feed);
    yk_dataset_fini(&small);
    yk_dataset_fini(&m);
    yk_dataset_fini(&s);
}

/* Resuming with other workers or windows: no example is lost; only those in the windows are repeated. */
static void resume_with_other_workers(void **state)
{
    (void)state;
    char spec[300];
    enum { N = 2000, WINDOW = 1 << 14 };
    snprintf(spec, sizeof spec, "tfrecord:%s?block=600", write_tfrecord(N));
    yk_dataset s = streamed(spec);
    assert_true(s.source->nblocks > 40);
    for (int workers = 1; workers <= 3; workers++)
        for (int later = 1; later <= 4; later++)
            for (int rounds_made = 0; rounds_made < 60; rounds_made += 17) {
                yk_feed_plan plan = {.workers = workers,
                                     .batch = 9,
                                     .seed = 3,
                                     .epochs = 2,
                                     .rounds = true,
                                     .window_bytes = WINDOW};
                rounds a = begin_rounds(&s, plan);
                first.n = second.n = 0;
                for (int i = 0; i < rounds_made; i++)
                    one_round(&a, &first);
                plan.workers = later;
                plan.window_bytes = WINDOW / (size_t)later * 2;
                rounds b = begin_rounds(&s, plan);
                assert_int_equal(carry_over(a.feed, b.feed, (uint64_t)rounds_made), YK_OK);
                while (b.epoch < 1)
                    one_round(&b, &second);
                const size_t used = first.n;
                for (size_t i = 0; i < second.n; i++)
                    first.id[first.n++] = second.id[i];
                unsigned times[N] = {0};
                size_t again = 0;
                for (size_t i = 0; i < first.n; i++)
                    again += times[first.id[i]]++ > 0;
                for (size_t i = 0; i < N; i++)
                    assert_true(times[i] > 0);
                assert_true(again <= used);
                if (used > N / 2)
                    assert_true(again < used);
                yk_feed_free(b.feed);
            }
    yk_dataset_fini(&s);
}

static yk_status drain(const char *text, const yk_source_options *o, int workers, yk_dataset *d)
{
    char spec[300];
    const char *path = new_path(".libsvm");
    put(path, text, strlen(text));
    snprintf(spec, sizeof spec, "libsvm:%s", path);
    assert_int_equal(yk_dataset_open(spec, YK_SPLIT_TRAIN, o, YK_STREAM_ALWAYS, d), YK_OK);
    yk_feed_plan plan = {
        .workers = workers, .batch = 2, .epochs = 1000, .steps = UINT64_MAX, .window_bytes = 1 << 16};
    yk_feed *f;
    assert_int_equal(yk_feed_create(d, &plan, &f), YK_OK);
    yk_status st = YK_OK;
    for (int w = 0; w < workers && !st; w++) {
        yk_batch b = {.n = 1};
        while (!st && b.n)
            st = yk_feed_next(f, w, 1, &b);
    }
    yk_feed_free(f);
    return st;
}

static void bad_streams_are_refused(void **state)
{
    (void)state;
    yk_dataset d;
    yk_source_options o = {.features = 10};
    assert_error(drain("0 1:1\n1 2:1\n5 3:1\n", &o, 2, &d), YK_EDATA, "class 5");
    yk_dataset_fini(&d);
    assert_error(drain("# nothing\n\n# at all\n", &o, 2, &d), YK_EDATA, "no examples");
    yk_dataset_fini(&d);
    assert_error(drain("0 1:1\n1 12:1\n", &o, 1, &d), YK_EDATA, "record 2");
    yk_dataset_fini(&d);
}

/* A bad record is counted once, however many epochs and workers read it. */
static void bad_records_count_once(void **state)
{
    (void)state;
    yk_dataset d;
    yk_source_options o = {.skip_bad = 2};
    const char *text = "0 1:1\nx 1:1\n1 2:1\n1 2:y\n0 3:1\n";
    assert_int_equal(drain(text, &o, 3, &d), YK_OK);
    assert_int_equal(atomic_load(&d.source->bad), 2);
    yk_dataset_fini(&d);
    o.skip_bad = 1;
    char spec[300];
    const char *path = new_path(".libsvm");
    put(path, text, strlen(text));
    snprintf(spec, sizeof spec, "libsvm:%s", path);
    assert_error(yk_dataset_open(spec, YK_SPLIT_TRAIN, &o, YK_STREAM_ALWAYS, &d), YK_EDATA, "--skip-bad 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_many_blocks),
        cmocka_unit_test(streams_of_few_blocks),
        cmocka_unit_test(streams_make_all_steps),
        cmocka_unit_test(resume_with_other_workers),
        cmocka_unit_test(cursors_of_another_kind_are_refused),
        cmocka_unit_test(bad_streams_are_refused),
        cmocka_unit_test(bad_records_count_once),
    };
    return cmocka_run_group_tests_name("feed_stream", tests, make_test_directory, remove_test_directory);
}
