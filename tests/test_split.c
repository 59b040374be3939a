/* Parts of data sets (?split=): two parts have each row once, the same rows whatever the format, the compression, the number of
 * files, and how they are read. */
#include "feeding.h"
#include "read_all.h"

#include "data/export.h"
#include "data/memory.h"

enum { ROWS = 60000 };

static char plain[300], headed[300], packed[300], several[300], records[300], cached[300];

/* Row i has the index i. Several blocks, with lines that are not rows. */
static void write_rows(const char *name, const char *format, size_t begin, size_t end)
{
    gzFile f = gzopen(in_directory(name), strstr(name, ".gz") ? "wb1" : "wbT");
    assert_non_null(f);
    for (size_t i = begin; i < end; i++) {
        gzprintf(f, format, (int)(i % 2), i, i % 100);
        if (i % 1000 == 7)
            gzputs(f, strchr(format, ',') ? "\n" : "# a comment\n\n");
    }
    assert_int_equal(gzclose(f), Z_OK);
}

static void export_to(const char *format, const char *path)
{
    yk_source *s = open_well(plain, YK_SPLIT_TRAIN);
    yk_export_stats stats;
    assert_int_equal(yk_export(s, format, path, &stats), YK_OK);
    yk_source_free(s);
}

static int write_data(void **state)
{
    static const char line[] = "%d %zu:1 # %080zu\n";
    if (make_test_directory(state))
        return -1;
    write_rows("a.libsvm", line, 0, ROWS);
    write_rows("a.gz", line, 0, ROWS);
    for (size_t i = 0; i < 3; i++)
        write_rows(i == 0   ? "part-0"
                   : i == 1 ? "part-1.gz"
                            : "part-2",
                   line, ROWS * i / 3, ROWS * (i + 1) / 3);
    write_rows("a.csv", "%d,%zu,u%zu,a column that makes the file larger than one block\n", 0, ROWS);
    snprintf(plain, sizeof plain, "libsvm:%s?base=0", in_directory("a.libsvm"));
    snprintf(packed, sizeof packed, "libsvm:%s?base=0", in_directory("a.gz"));
    snprintf(several, sizeof several, "libsvm:%s?base=0", in_directory("part-*"));
    snprintf(headed, sizeof headed, "csv:%s?ignore=3,4", in_directory("a.csv"));
    snprintf(records, sizeof records, "%s", in_directory("a.tfrecord"));
    export_to("tfrecord", records);
    snprintf(cached, sizeof cached, "%s", in_directory("a.cache"));
    export_to("cache", cached);
    return 0;
}

static const char *with(const char *spec, const char *option)
{
    static char text[2][400];
    static int turn;
    turn = !turn;
    snprintf(text[turn], sizeof text[turn], "%s%c%s", spec, strchr(spec, '?') ? '&' : '?', option);
    return text[turn];
}

/* The rows of a part, by their numbers: those of a file whose rows are in order. */
static void read_part(const char *spec, const char *option, example_log *out)
{
    yk_rows rows;
    out->n = 0;
    if (read_all(with(spec, option), NULL, 1000, &rows, NULL))
        fail_msg("%s", yk_error());
    for (size_t i = 0; i < rows.n; i++) {
        const uint32_t id = rows.kind == YK_ROWS_SPARSE ? rows.index[rows.start[i]] : (uint32_t)rows.f32[i];
        assert_int_equal(rows.label[i], id % 2);
        assert_true(!i || id > out->id[i - 1]);
        out->id[out->n++] = id;
    }
    yk_rows_fini(&rows);
}

static int by_id(const void *a, const void *b)
{
    return (int)(*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

/* ---- tests */

static void rule_is_fixed(void **state)
{
    (void)state;
    /* Models are judged on parts that they were not trained on: the rule must never change. */
    assert_true(yk_split_of_row(0) == 0x9ec9cc5148822dd2u);
    assert_true(yk_split_of_row(123456789) == 0x294b135a9f5397c7u);
    assert_true(yk_split_of_text("", 0) == 0x3f4529565e9b3347u);
    assert_true(yk_split_of_text("u17", 3) == 0x2081b836811fbf94u);
    const yk_split_range low = {true, 0.0, 0.5}, high = {true, 0.5, 1.0}, all = {0};
    assert_true(yk_split_has(&low, 0) && !yk_split_has(&high, 0));
    assert_true(yk_split_has(&high, UINT64_MAX) && yk_split_has(&high, (uint64_t)1 << 63));
    assert_true(yk_split_has(&low, ((uint64_t)1 << 63) - 1) && yk_split_has(&all, 5));
}

static void parts_are_disjoint_and_complete(void **state)
{
    (void)state;
    const char *const option[] = {"split=0.8", "split=0.8..0.9", "split=0.9..1"};
    static const double share[] = {0.8, 0.1, 0.1};
    unsigned *seen = calloc(ROWS, sizeof *seen);
    for (int i = 0; i < 3; i++) {
        read_part(plain, option[i], &first);
        assert_true((double)first.n > (share[i] - 0.01) * ROWS && (double)first.n < (share[i] + 0.01) * ROWS);
        for (size_t k = 0; k < first.n; k++)
            seen[first.id[k]]++;
    }
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
}

static void formats_have_the_same_parts(void **state)
{
    (void)state;
    char tfrecord[400];
    snprintf(tfrecord, sizeof tfrecord, "tfrecord:%s?block=100000", records);
    const char *const spec[] = {packed, several, tfrecord, cached, headed};
    for (int high = 0; high < 2; high++) {
        read_part(plain, high ? "split=0.9..1" : "split=0.9", &first);
        for (size_t i = 0; i < sizeof spec / sizeof *spec; i++) {
            read_part(spec[i], high ? "split=0.9..1" : "split=0.9", &second);
            assert_same(&first, &second);
        }
    }
}

/* Bad lines have no number, as in data that was converted with --skip-bad. */
static void bad_lines_are_not_counted(void **state)
{
    (void)state;
    const yk_source_options skip = {.skip_bad = ROWS};
    yk_rows rows;
    const char *path = in_directory("bad.libsvm");
    FILE *f = fopen(path, "w");
    for (size_t i = 0; i < ROWS; i++)
        fprintf(f, "%s1 %zu:1 # %040zu\n", i % 1000 == 3 ? "1 x:1\n" : "", i, i);
    fclose(f);
    char spec[300];
    snprintf(spec, sizeof spec, "libsvm:%s?base=0&split=0.9..1", path);
    assert_int_equal(read_all(spec, &skip, 1000, &rows, NULL), YK_OK);
    read_part(plain, "split=0.9..1", &first);
    assert_int_equal(rows.n, first.n);
    assert_memory_equal(rows.index, first.id, first.n * sizeof *first.id);
    yk_rows_fini(&rows);
}

/* Loaded, mapped and streamed, by 1 and by 3 workers: each row of the part once per epoch, and no other. */
static void every_way_of_reading(void **state)
{
    (void)state;
    const char *const spec[] = {plain, packed, several, cached};
    read_part(plain, "split=0.9..1", &second);
    for (int i = 0; i < 16; i++) {
        yk_dataset d;
        const int workers = i & 4 ? 3 : 1;
        assert_int_equal(yk_dataset_open(with(spec[i & 3], "split=0.9..1"), YK_SPLIT_TRAIN, NULL,
                                         i & 8 ? YK_STREAM_ALWAYS : YK_STREAM_NEVER, &d),
                         YK_OK);
        assert_int_equal(d.rows == NULL, i >> 3);
        assert_int_equal(d.dim, ROWS); /* of the whole data */
        rounds r = begin_rounds(
            &d, (yk_feed_plan){.workers = workers, .batch = 100, .epochs = 1, .window_bytes = 1 << 20});
        first.n = 0;
        finish_rounds(&r, &first);
        qsort(first.id, first.n, sizeof *first.id, by_id);
        assert_same(&first, &second);
        yk_dataset_fini(&d);
    }
}

/* Rows with equal values are in one part, wherever they are; statistics are those of the part. */
static void parts_by_column(void **state)
{
    (void)state;
    yk_rows rows;
    uint64_t n = 0;
    for (int high = 0; high < 2; high++) {
        const char *option = high ? "split=0.7..1&split-by=3" : "split=0.7&split-by=3";
        const yk_split_range want = {true, high ? 0.7 : 0.0, high ? 1.0 : 0.7};
        assert_int_equal(read_all(with(headed, option), NULL, 1000, &rows, NULL), YK_OK);
        for (size_t i = 0; i < rows.n; i++) {
            char user[8];
            const int length = snprintf(user, sizeof user, "u%d", (int)rows.f32[i] % 100);
            assert_true(yk_split_has(&want, yk_split_of_text(user, (size_t)length)));
        }
        n += rows.n;
        yk_rows_fini(&rows);
    }
    assert_int_equal(n, ROWS);
    for (int by = 0; by < 2; by++) {
        double sum = 0.0, squares = 0.0;
        assert_int_equal(
            read_all(with(headed, by ? "split=0.3&scale=standard&split-by=3" : "split=0.3&scale=standard"),
                     NULL, 1000, &rows, NULL),
            YK_OK);
        for (size_t i = 0; i < rows.n; i++) {
            sum += (double)rows.f32[i];
            squares += (double)rows.f32[i] * (double)rows.f32[i];
        }
        assert_true(sum * sum < 1.0 && squares > (double)rows.n - 1.0 && squares < (double)rows.n + 1.0);
        yk_rows_fini(&rows);
    }
}

/* The other columns that a reader returns are those of the rows of the part. */
static void cells_of_a_part(void **state)
{
    (void)state;
    const yk_source_options carry = {.carry = "3"};
    yk_source *s;
    yk_reader *r;
    yk_rows rows;
    assert_int_equal(yk_source_open(with(headed, "split=0.9..1"), YK_SPLIT_TRAIN, &carry, &s), YK_OK);
    assert_int_equal(yk_source_read(s, 1, &r), YK_OK);
    yk_rows_init(&rows, s->kind, s->dim);
    for (size_t got = 1, n = 0; got; n += got) {
        yk_rows_clear(&rows);
        assert_int_equal(yk_reader_next(r, &rows, 700, &got), YK_OK);
        assert_true(got || n > 1000);
        for (size_t i = 0; i < got; i++) {
            char user[8];
            snprintf(user, sizeof user, "u%d", (int)rows.f32[i] % 100);
            assert_string_equal(yk_reader_cell(r, i, 0), user);
        }
    }
    yk_rows_fini(&rows);
    yk_reader_free(r);
    yk_source_free(s);
}

/* A data set with a test set of its own: parts are parts of its training set. */
static void generated_data(void **state)
{
    (void)state;
    static const char spec[] = "synth:ctr?features=100&nnz=5&examples=9000";
    yk_source *train = open_well(with(spec, "split=0.9"), YK_SPLIT_TRAIN),
              *test = open_well(with(spec, "split=0.9..1"), YK_SPLIT_TEST);
    assert_int_equal(train->examples + test->examples, 9000);
    assert_false(train->has_test || test->has_test);
    yk_source_free(train);
    yk_source_free(test);
    yk_rows rows;
    assert_int_equal(read_all(with(spec, "split=0.9..1"), NULL, 500, &rows, NULL), YK_OK);
    assert_in_range(rows.n, 800, 1000);
    assert_non_null(rows.truth);
    yk_rows_fini(&rows);
}

/* ---- --validation */

/* The rows of a source with a hold-out, by their numbers. */
static void read_held(const char *spec, const char *text, bool held, example_log *out)
{
    yk_source_options o = {0};
    yk_rows rows;
    assert_true(yk_hold_out_parse(text, &o.hold_out));
    o.hold_out.held = held;
    out->n = 0;
    if (read_all(spec, &o, 1000, &rows, NULL))
        fail_msg("%s", yk_error());
    for (size_t i = 0; i < rows.n; i++)
        out->id[out->n++] = rows.kind == YK_ROWS_SPARSE ? rows.index[rows.start[i]] : (uint32_t)rows.f32[i];
    yk_rows_fini(&rows);
}

static void rows_are_held_back(void **state)
{
    (void)state;
    const char *const spec[] = {plain, headed, packed, several, records, cached};
    for (size_t i = 0; i < sizeof spec / sizeof *spec; i++) {
        read_held(spec[i], "0.1", true, &first);
        read_part(plain, "split=0.9..1", &second);
        assert_same(&first, &second);
        read_held(spec[i], "0.1", false, &first);
        read_part(plain, "split=0.9", &second);
        assert_same(&first, &second);
        for (int held = 0; held < 2; held++) { /* the last rows */
            read_held(spec[i], "last:0.25", held, &first);
            assert_int_equal(first.n, held ? ROWS / 4 : 3 * ROWS / 4);
            for (size_t k = 0; k < first.n; k++)
                assert_int_equal(first.id[k], k + (held ? 3 * ROWS / 4 : 0));
        }
    }
    read_held(with(plain, "split=0.5"), "0.2", true, &first); /* of a part */
    read_part(plain, "split=0.4..0.5", &second);
    assert_same(&first, &second);
    yk_source_options o = {.hold_out = {.fraction = 0.3}}; /* by a column */
    yk_rows rows, other;
    assert_int_equal(read_all(with(headed, "split-by=3"), &o, 1000, &rows, NULL), YK_OK);
    assert_int_equal(read_all(with(headed, "split-by=3&split=0.7"), NULL, 1000, &other, NULL), YK_OK);
    assert_int_equal(rows.n, other.n);
    yk_rows_fini(&rows);
    yk_rows_fini(&other);
}

/* Means are those of the rows that are trained on. */
static void held_rows_have_no_statistics(void **state)
{
    (void)state;
    static const char *const text[] = {"0.6", "last:0.6"};
    for (int k = 0; k < 2; k++) {
        yk_source_options o = {0};
        yk_rows rows;
        double sum = 0.0;
        assert_true(yk_hold_out_parse(text[k], &o.hold_out));
        assert_int_equal(read_all(with(headed, "scale=standard"), &o, 1000, &rows, NULL), YK_OK);
        for (size_t i = 0; i < rows.n; i++)
            sum += (double)rows.f32[i];
        assert_true(sum * sum < 1.0);
        yk_rows_fini(&rows);
    }
}

/* Rows of the caller: dense rows in place, sparse rows that are copied. The test set of the data is still there. */
static void rows_in_memory_are_held_back(void **state)
{
    (void)state;
    enum { N = 9000 };
    static float x[N], weight[N];
    static int32_t label[N];
    for (size_t i = 0; i < N; i++)
        x[i] = weight[i] = (float)i + 1.0f;
    yk_memory_data m = {
        .rows = {.kind = YK_ROWS_F32, .n = N, .dim = 1, .f32 = x, .label = label, .weight = weight}};
    assert_int_equal(yk_memory_check(&m), YK_OK);
    size_t n = 0;
    for (int held = 0; held < 2; held++) {
        const yk_source_options o = {.hold_out = {.fraction = 0.1, .held = held}};
        const yk_split_range want = {true, held ? 0.9 : 0.0, held ? 1.0 : 0.9};
        yk_source *s;
        yk_dataset d;
        assert_int_equal(yk_source_from_memory(&m, &o, &s), YK_OK);
        const uint64_t examples = s->examples;
        assert_int_equal(yk_dataset_take(s, YK_SPLIT_TRAIN, YK_STREAM_AUTO, &d), YK_OK);
        assert_int_equal(d.rows->n, examples);
        for (size_t i = 0; i < d.rows->n; i++)
            assert_true(yk_split_has_row(&want, (uint64_t)d.rows->f32[i] - 1) &&
                        d.rows->weight[i] == d.rows->f32[i]);
        n += d.rows->n;
        yk_dataset_fini(&d);
    }
    assert_int_equal(n, N);
    const yk_source_options o = {.hold_out = {.fraction = 0.1}};
    yk_source *s;
    assert_int_equal(yk_source_open("synth:digits", YK_SPLIT_TRAIN, &o, &s), YK_OK);
    assert_true(s->has_test);
    yk_source_free(s);
}

static void wrong_hold_outs(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "1", "-0.1", "last:", "last:2", "a.csv", "", "0.1x"};
    yk_hold_out h;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(yk_hold_out_parse(bad[i], &h));
    const yk_source_options o = {.hold_out = {.fraction = 0.1, .last = true}};
    yk_source *s;
    assert_int_equal(yk_source_open(with(plain, "split=0.5"), YK_SPLIT_TRAIN, &o, &s), YK_EUSAGE);
    assert_message("cannot be combined with split");
}

static void wrong_options(void **state)
{
    (void)state;
    static const char *const bad[] = {"0",
                                      "1.5",
                                      "0.9..",
                                      "..0.9",
                                      "0.9..0.9",
                                      "0.9..0.1",
                                      "-0.1..0.5",
                                      "x",
                                      "",
                                      "0.1..0.2..0.3",
                                      "0.00000000000000000000000000000000001..1"};
    yk_source *s;
    char option[80];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(option, sizeof option, "split=%s", bad[i]);
        assert_int_equal(yk_source_open(with(plain, option), YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
        assert_message("must be a fraction of the rows");
    }
    assert_int_equal(yk_source_open(with(headed, "split-by=3"), YK_SPLIT_TRAIN, NULL, &s), YK_EUSAGE);
    assert_message("split-by needs split");
    assert_int_equal(yk_source_open(with(headed, "split=0.5&split-by=5"), YK_SPLIT_TRAIN, NULL, &s),
                     YK_EUSAGE);
    assert_message("split-by: no column '5'");
    assert_int_equal(yk_source_open(with(plain, "split=0.5&split-by=4"), YK_SPLIT_TRAIN, NULL, &s),
                     YK_EUSAGE);
    assert_message("unknown option split-by");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule_is_fixed),
        cmocka_unit_test(parts_are_disjoint_and_complete),
        cmocka_unit_test(formats_have_the_same_parts),
        cmocka_unit_test(bad_lines_are_not_counted),
        cmocka_unit_test(every_way_of_reading),
        cmocka_unit_test(parts_by_column),
        cmocka_unit_test(cells_of_a_part),
        cmocka_unit_test(generated_data),
        cmocka_unit_test(rows_are_held_back),
        cmocka_unit_test(held_rows_have_no_statistics),
        cmocka_unit_test(rows_in_memory_are_held_back),
        cmocka_unit_test(wrong_hold_outs),
        cmocka_unit_test(wrong_options),
    };
    return cmocka_run_group_tests(tests, write_data, remove_test_directory);
}
