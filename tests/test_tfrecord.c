/* TFRecord files as a source: blocks, compression, every kind of damage, with and without --skip-bad. */
#include "read_all.h"

#include "base/file.h"
#include "format/example.h"
#include "format/tfrecord.h"
#include <math.h>
#include <sys/stat.h>

/* Example i has label i % 2 and the indices i, i + 1000, ... */

#define EXAMPLES 200

typedef struct {
    const char *path;
    uint64_t offset[EXAMPLES + 1];
} tfr_file;

static size_t entries_of(size_t i)
{
    return i * 7 % 23;
}

static tfr_file write_examples(size_t n)
{
    tfr_file t = {.path = new_path(".tfr")};
    uint8_t *buffer = NULL;
    size_t cap = 0, size;
    yk_file *f;
    assert_int_equal(yk_file_create_in(NULL, t.path, &f), YK_OK);
    for (size_t i = 0; i < n; i++) {
        uint32_t index[23];
        float value[23];
        for (size_t k = 0; k < entries_of(i); k++) {
            index[k] = (uint32_t)(i + 1000 * k);
            value[k] = 0.5f * (float)k;
        }
        assert_int_equal(
            yk_example_encode(i % 2 ? 1 : -1, index, value, NULL, entries_of(i), &buffer, &cap, &size),
            YK_OK);
        assert_int_equal(yk_tfr_write(f, buffer, size), YK_OK);
        t.offset[i + 1] = t.offset[i] + size + YK_TFR_FRAME;
    }
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    free(buffer);
    return t;
}

static void assert_example(const yk_rows *rows, size_t r, size_t i)
{
    assert_int_equal(rows->label[r], i % 2);
    assert_int_equal(yk_rows_entries(rows, r), entries_of(i));
    for (size_t k = 0; k < entries_of(i); k++) {
        assert_int_equal(rows->index[rows->start[r] + k], i + 1000 * k);
        assert_true(rows->value[rows->start[r] + k] == 0.5f * (float)k);
    }
}

static void tfrecord_blocks_contain_each_record_once(void **state)
{
    (void)state;
    tfr_file t = write_examples(EXAMPLES);
    for (uint64_t block = 1; block < 2 * t.offset[EXAMPLES]; block = block * 5 / 3 + 1) {
        char spec[300];
        yk_rows rows;
        snprintf(spec, sizeof spec, "tfrecord:%s?block=%llu", t.path, (unsigned long long)block);
        assert_int_equal(read_all(spec, NULL, block % 50 + 1, &rows, NULL), YK_OK);
        assert_int_equal(rows.n, EXAMPLES);
        for (size_t i = 0; i < EXAMPLES; i++)
            assert_example(&rows, i, i);
        yk_rows_fini(&rows);
    }
}

static void tfrecord_reads_compressed_files(void **state)
{
    (void)state;
    tfr_file t = write_examples(EXAMPLES);
    for (int form = 0; form < 2; form++) {
        const char *packed = new_path(form ? ".gz" : ".zz");
        yk_rows rows;
        uint64_t bad;
        compress_file(t.path, packed, form ? GZIP : ZLIB);
        assert_int_equal(read_all(packed, NULL, 64, &rows, NULL), YK_OK); /* recognized by content */
        assert_int_equal(rows.n, EXAMPLES);
        for (size_t i = 0; i < EXAMPLES; i++)
            assert_example(&rows, i, i);
        yk_rows_fini(&rows);

        struct stat s;
        assert_int_equal(stat(packed, &s), 0);
        assert_int_equal(truncate(packed, s.st_size - 300), 0);
        char spec[300];
        snprintf(spec, sizeof spec, "tfrecord:%s", packed);
        assert_int_equal(read_all(spec, NULL, 64, &rows, NULL), YK_EDATA);
        assert_message("the compressed file is truncated (--skip-bad N");
        assert_message(packed);
        yk_rows_fini(&rows);
        assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 1}, 64, &rows, &bad), YK_OK);
        assert_int_equal(bad, 1);
        assert_true(rows.n > EXAMPLES / 2 && rows.n < EXAMPLES);
        yk_rows_fini(&rows);
    }
    const char *empty = new_path(".gz");
    yk_rows rows;
    put(in_directory("empty"), "", 0);
    compress_file(in_directory("empty"), empty, GZIP);
    char spec[300];
    snprintf(spec, sizeof spec, "tfrecord:%s", empty);
    assert_int_equal(read_all(spec, NULL, 64, &rows, NULL), YK_EDATA);
    assert_message("is empty");
    yk_rows_fini(&rows);
}

/* With three kinds of damage in one file, at every block size: the same records are read, the same are bad, and without
 * --skip-bad the first one is named. */
static void tfrecord_damage_is_named_and_skipped(void **state)
{
    (void)state;
    tfr_file t = write_examples(EXAMPLES);
    patch(t.path, t.offset[50] + 3, 1); /* length */
    for (int i = 120; i <= 121; i++)
        patch(t.path, t.offset[i] + YK_TFR_HEADER + 9, 1); /* data */
    assert_int_equal(truncate(t.path, (off_t)t.offset[EXAMPLES] - 5), 0);
    for (uint64_t block = 1; block < 2 * t.offset[EXAMPLES]; block = block * 5 / 3 + 1) {
        char spec[300], expected[300];
        yk_rows rows;
        uint64_t bad;
        snprintf(spec, sizeof spec, "tfrecord:%s?block=%llu", t.path, (unsigned long long)block);
        assert_int_equal(read_all(spec, NULL, 33, &rows, NULL), YK_EDATA);
        snprintf(expected, sizeof expected,
                 "%s: record 51 at byte %llu: the checksum of the record's length is wrong", t.path,
                 (unsigned long long)t.offset[50]);
        assert_message(expected);
        assert_message("--skip-bad");
        assert_int_equal(rows.n, 50);
        yk_rows_fini(&rows);

        assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 1}, 33, &rows, &bad), YK_EDATA);
        snprintf(expected, sizeof expected,
                 "%s: record 121 at byte %llu: the checksum of the record's data is wrong", t.path,
                 (unsigned long long)t.offset[120]);
        assert_message(expected);
        yk_rows_fini(&rows);

        assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 3}, 33, &rows, &bad), YK_EDATA);
        snprintf(expected, sizeof expected, "%s: record 200 at byte %llu: truncated: the record has", t.path,
                 (unsigned long long)t.offset[199]);
        assert_message(expected);
        assert_message("--skip-bad 3");
        yk_rows_fini(&rows);

        assert_int_equal(read_all(spec, &(yk_source_options){.skip_bad = 9}, 33, &rows, &bad), YK_OK);
        assert_int_equal(bad, 4);
        assert_int_equal(rows.n, EXAMPLES - 4);
        for (size_t i = 0, r = 0; i < EXAMPLES; i++)
            if (i != 50 && i != 120 && i != 121 && i != 199)
                assert_example(&rows, r++, i);
        yk_rows_fini(&rows);
    }
}

static void tfrecord_content_is_checked(void **state)
{
    (void)state;
    tfr_file t = write_examples(EXAMPLES);
    char spec[300], expected[300];
    yk_rows rows;
    /* index 22 * 1000 + i first occurs in a record with 22 more entries: find the first record beyond the limit */
    size_t first = 0;
    while (entries_of(first) == 0 || first + 1000 * (entries_of(first) - 1) < 20000)
        first++;
    snprintf(spec, sizeof spec, "tfrecord:%s?features=20000", t.path);
    assert_int_equal(read_all(spec, NULL, 33, &rows, NULL), YK_EDATA);
    snprintf(expected, sizeof expected, "%s: record %zu at byte %llu: index ", t.path, first + 1,
             (unsigned long long)t.offset[first]);
    assert_message(expected);
    assert_message("is out of range for 20000 features (largest 19999)");
    yk_rows_fini(&rows);
    snprintf(spec, sizeof spec, "tfrecord:%s", t.path);
    assert_int_equal(read_all(spec, &(yk_source_options){.features = 20000}, 33, &rows, NULL), YK_EDATA);
    assert_message(expected);
    yk_rows_fini(&rows);

    yk_file *f;
    uint8_t *buffer = NULL;
    size_t cap = 0, size;
    const char *path = new_path(".tfr");
    assert_int_equal(yk_file_create_in(NULL, path, &f), YK_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(yk_example_encode(1, (const uint32_t[]){1, 2}, (const float[]){1, i == 1 ? NAN : 2},
                                           NULL, 2, &buffer, &cap, &size),
                         YK_OK);
        assert_int_equal(yk_tfr_write(f, buffer, size), YK_OK);
    }
    assert_int_equal(yk_tfr_write(f, "no protobuf", 11), YK_OK);
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    free(buffer);
    assert_int_equal(read_all(path, NULL, 33, &rows, NULL), YK_EDATA);
    assert_message("record 2 at byte ");
    assert_message("value 1 is not a number (NaN)");
    yk_rows_fini(&rows);
    uint64_t bad;
    assert_int_equal(read_all(path, &(yk_source_options){.skip_bad = 1}, 33, &rows, &bad), YK_EDATA);
    assert_message("record 4 at byte ");
    assert_message("not a well-formed tf.train.Example");
    yk_rows_fini(&rows);
    assert_int_equal(read_all(path, &(yk_source_options){.skip_bad = 2}, 33, &rows, &bad), YK_OK);
    assert_int_equal(rows.n, 2);
    assert_int_equal(bad, 2);
    yk_rows_fini(&rows);
}

static void real_criteo_reads(void **state)
{
    (void)state;
    char spec[512];
    yk_rows rows;
    snprintf(spec, sizeof spec, "tfrecord:%s/criteo-tfr-tiny/tfrecords*?features=33762578", data_directory());
    assert_int_equal(read_all(spec, NULL, 100, &rows, NULL), YK_OK);
    assert_int_equal(rows.n, 230);
    size_t positive = 0;
    for (size_t r = 0; r < rows.n; r++) {
        assert_in_range(yk_rows_entries(&rows, r), 24, 39);
        positive += rows.label[r] == 1;
    }
    assert_in_range(positive, 40, 80);
    /* the first record of the first file, as protoc prints it */
    assert_int_equal(rows.label[0], 0);
    assert_int_equal(rows.index[12], 645);
    assert_int_equal(rows.index[rows.start[1] - 1], 33700865);
    assert_true(rows.value[0] == 0x1.a36e2ep-13f);
    yk_rows_fini(&rows);
}

/* The features have the names that the spec says. The default names are those of the files here. */
static void tfrecord_names_of_features(void **state)
{
    (void)state;
    const tfr_file t = write_examples(3);
    char spec[256];
    yk_rows rows;
    snprintf(spec, sizeof spec, "tfrecord:%s?label=label&index=index&value=value", t.path);
    assert_int_equal(read_all(spec, NULL, 7, &rows, NULL), YK_OK);
    assert_int_equal(rows.n, 3);
    yk_rows_fini(&rows);
    snprintf(spec, sizeof spec, "tfrecord:%s?label=click", t.path);
    assert_error(read_all(spec, NULL, 7, &rows, NULL), YK_EDATA,
                 "the feature 'click' is missing; add ?label=NAME");
    snprintf(spec, sizeof spec, "tfrecord:%s?index=", t.path);
    assert_error(read_all(spec, NULL, 7, &rows, NULL), YK_EUSAGE,
                 "index: the name of the feature is missing");
    snprintf(spec, sizeof spec, "tfrecord:%s?index=a&image=b", t.path);
    assert_error(read_all(spec, NULL, 7, &rows, NULL), YK_EUSAGE, "cannot be combined");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tfrecord_blocks_contain_each_record_once),
        cmocka_unit_test(tfrecord_reads_compressed_files),
        cmocka_unit_test(tfrecord_damage_is_named_and_skipped),
        cmocka_unit_test(tfrecord_content_is_checked),
        cmocka_unit_test(tfrecord_names_of_features),
        cmocka_unit_test(real_criteo_reads),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
