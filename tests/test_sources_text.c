/* data/libsvm.c (libsvm and libffm) and data/criteo.c: what they read, every error, and that blocks contain each line once. */
#include "base/rng.h"
#include "data/source.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static char directory[64], path[128], spec[256];

static int make_test_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/yoke-test-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/data.txt", directory);
    return 0;
}

static int remove_test_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static void put_bytes(const char *text, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void put(const char *text)
{
    put_bytes(text, strlen(text));
}

static void put_gz(const char *text, size_t size)
{
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)size), size);
    assert_int_equal(gzclose(f), Z_OK);
}

static const char *spec_of(const char *format, const char *options)
{
    snprintf(spec, sizeof spec, "%s:%s%s", format, path, options);
    return spec;
}

/* Reads everything, block by block, a few rows at a time. */
static yk_status read_all(const char *text, const yk_source_options *o, yk_rows *rows, uint64_t *bad_out)
{
    yk_source *s;
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    yk_status st = yk_source_open(text, YK_SPLIT_TRAIN, o, &s);
    if (st)
        return st;
    for (size_t b = 0; b < s->nblocks && !st; b++) {
        yk_reader *r;
        size_t got = 1;
        st = yk_source_read(s, b, &r);
        if (st)
            break;
        while (!st && got)
            st = yk_reader_next(r, rows, 7, &got);
        yk_reader_free(r);
    }
    if (bad_out)
        *bad_out = atomic_load(&s->bad);
    yk_source_free(s);
    return st;
}

static void read_well(const char *text, yk_rows *rows)
{
    if (read_all(text, NULL, rows, NULL))
        fail_msg("%s", yk_error());
}

static void expect_fault(const char *text, const char *record, const char *reason)
{
    yk_rows rows;
    assert_int_equal(read_all(text, NULL, &rows, NULL), YK_EDATA);
    if (!strstr(yk_error(), record) || !strstr(yk_error(), reason) || !strstr(yk_error(), path))
        fail_msg("'%s' does not name the file, '%s' and '%s'", yk_error(), record, reason);
    yk_rows_fini(&rows);
}

/* ---- libsvm */

static void check_small(const yk_rows *rows)
{
    assert_int_equal(rows->n, 4);
    static const int32_t label[] = {1, 0, 1, 1};
    static const uint64_t start[] = {0, 3, 5, 5, 7};
    static const uint32_t index[] = {2, 16, 203, 0, 4, 1, 6};
    static const float value[] = {0.5f, 1.0f, 2.25f, -1.5e-3f, 3.0f, 7.0f, 1.0f};
    assert_memory_equal(rows->label, label, sizeof label);
    assert_memory_equal(rows->start, start, sizeof start);
    assert_memory_equal(rows->index, index, sizeof index);
    assert_memory_equal(rows->value, value, sizeof value);
}

static const char small[] = "# a comment\n"
                            "+1 3:0.5 17:1 204:2.25\n"
                            "-1 qid:4 5:3 1:-1.5e-3   # unsorted\n"
                            "\n"
                            "1\n"
                            "  1.0\t2:4\t7:1.0 2:3 ";

static void libsvm_reads_lines(void **state)
{
    (void)state;
    yk_rows rows;
    put(small);
    read_well(spec_of("libsvm", ""), &rows);
    check_small(&rows);
    yk_rows_fini(&rows);

    put_gz(small, strlen(small));
    read_well(spec_of("libsvm", ""), &rows);
    check_small(&rows);
    yk_rows_fini(&rows);

    char marked[sizeof small + 3] = "\xef\xbb\xbf"; /* a byte-order mark */
    for (int i = 0; i < 2; i++) {
        strcpy(marked + 3, i ? strchr(small, '\n') + 1 : small);
        put(marked);
        read_well(i ? path : spec_of("libsvm", ""), &rows);
        check_small(&rows);
        yk_rows_fini(&rows);
    }

    char crlf[512];
    size_t n = 0;
    for (const char *p = small; *p; p++) {
        if (*p == '\n')
            crlf[n++] = '\r';
        crlf[n++] = *p;
    }
    put_bytes(crlf, n);
    read_well(spec_of("libsvm", ""), &rows);
    check_small(&rows);
    yk_rows_fini(&rows);
}

static void libsvm_options(void **state)
{
    (void)state;
    yk_rows rows;
    put("5 0:1 9:1\n2 3:1\n");
    read_well(spec_of("libsvm", "?base=0&features=10"), &rows);
    assert_int_equal(rows.index[1], 9);
    assert_int_equal(rows.label[0], 5);
    assert_null(rows.value);
    yk_rows_fini(&rows);
    assert_int_equal(read_all(spec_of("libsvm", "?base=2"), NULL, &rows, NULL), YK_EUSAGE);
    assert_int_equal(read_all(spec_of("libsvm", "?colour=2"), NULL, &rows, NULL), YK_EUSAGE);
    yk_source_options o = {.features = 5};
    assert_int_equal(read_all(spec_of("libsvm", "?base=0"), &o, &rows, NULL), YK_EDATA);
    assert_non_null(strstr(yk_error(), "out of range"));
    yk_rows_fini(&rows);
}

/* As strtod() reads them, rounded to float. */
static void libsvm_numbers(void **state)
{
    (void)state;
    static const char *const fixed[] = {"0",
                                        "-0",
                                        "1e-45",
                                        "3.4028235e38",
                                        ".5",
                                        "5.",
                                        "+2",
                                        "1E+3",
                                        "1e-400",
                                        "0.1",
                                        "1e22",
                                        "1e23",
                                        "123456789012345678901234567890",
                                        "0.000000000000000000000000123",
                                        "9007199254740993",
                                        "4.35e-23"};
    enum { n = 3000 };
    static char number[n][64], text[n * 96]; /* one file: opening it takes longer than reading a number */
    size_t size = 0;
    yk_rng r = yk_rng_seed(7, 7);
    yk_rows rows;
    for (size_t i = 0; i < n; i++) {
        if (i < sizeof fixed / sizeof *fixed)
            strcpy(number[i], fixed[i]);
        else
            snprintf(number[i], sizeof number[i], "%.*g", 1 + (int)yk_rng_below(&r, 17),
                     yk_rng_normal(&r) * pow(10.0, (int)yk_rng_below(&r, 50) - 25));
        size += (size_t)snprintf(text + size, sizeof text - size, "1 1:%s 2:2\n", number[i]);
    }
    put(text);
    read_well(spec_of("libsvm", ""), &rows);
    assert_int_equal(rows.n, n);
    for (size_t i = 0; i < n; i++)
        assert_true(rows.value[2 * i] == (float)strtod(number[i], NULL));
    yk_rows_fini(&rows);
}

static void libsvm_reports_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *record, *reason;
    } fault[] = {
        {"1 1:1\nx 2:1\n", "record 2 at byte 6", "label 'x' is not a number"},
        {"1.5 1:1\n", "record 1 at byte 0", "'1.5' is not a class"},
        {"-2 1:1\n", "record 1 at byte 0", "'-2' is not a class"},
        {"99999999 1:1\n", "record 1 at byte 0", "is not a class"},
        {"nan 1:1\n", "record 1 at byte 0", "label 'nan' is not a number"},
        {"1 0:1\n", "record 1 at byte 2", "add ?base=0"},
        {"1 3:1 a:1\n", "record 1 at byte 6", "index in 'a:1' is not a number"},
        {"1 -3:1\n", "record 1 at byte 2", "is not a number"},
        {"1 3:1 4\n", "record 1 at byte 7", "no ':' after the index in '4'"},
        {"1 3:1 4 :5\n", "record 1 at byte 7", "no ':'"},
        {"1 3:\n", "record 1 at byte 4", "value in '3:' is not a number"},
        {"1 3:abc\n", "record 1 at byte 4", "value in '3:abc' is not a number"},
        {"1 3:nan\n", "record 1 at byte 4", "is not a number"},
        {"1 3:-inf\n", "record 1 at byte 4", "is not a number"},
        {"1 3:0x10\n", "record 1 at byte 4", "is not a number"},
        {"1 3:1e39\n", "record 1 at byte 4", "too large"},
        {"1 3:1e999\n", "record 1 at byte 4", "too large"},
        {"1 3:1e\n", "record 1 at byte 4", "is not a number"},
        {"1 4294967296:1\n", "record 1 at byte 2", "out of range"},
        {"1 4294967296:1\n", "record 1 at byte 2", "--hash-bits"},
        {"1 18446744073709551615:1\n", "record 1 at byte 2", "--hash-bits"},
        {"1 18446744073709551616:1\n", "record 1 at byte 2", "is 2^64 or more"},
        {"0 1:1\n-1 1:1\n", "record 2 at byte 6", "does not match the others"},
        {"-1 1:1\n2 1:1\n", "record 2 at byte 7", "does not match the others"},
    };
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        put(fault[i].text);
        expect_fault(spec_of("libsvm", ""), fault[i].record, fault[i].reason);
    }
    put("");
    expect_fault(spec_of("libsvm", ""), "", "empty");
    unlink(path);
    expect_fault(spec_of("libsvm", ""), "", "no such file");
}

/* Keys of up to 64 bits are hashed into 2^bits columns, the same key always into the same one. */
static void libsvm_hashes_keys(void **state)
{
    (void)state;
    yk_rows rows;
    yk_source_options o = {.hash_bits = 20};
    put("1 18446744073709551615:1 0:2\n0 4294967296:1\n1 18446744073709551615:3\n0 4294967296:1 "
        "4294967296:4\n");
    assert_int_equal(read_all(spec_of("libsvm", ""), &o, &rows, NULL), YK_OK);
    assert_int_equal(rows.n, 4);
    assert_in_range(rows.dim, 2, 1 << 20);
    const uint32_t large = rows.index[rows.start[2]], middle = rows.index[rows.start[1]];
    assert_int_equal(large, yk_key_id(yk_mix64(UINT64_MAX), 1 << 20));
    assert_int_equal(middle, yk_key_id(yk_mix64(UINT64_C(1) << 32), 1 << 20));
    assert_int_equal(yk_rows_entries(&rows, 0), 2);
    assert_true(rows.index[0] == large || rows.index[1] == large);
    assert_int_equal(yk_rows_entries(&rows, 3), 1);
    assert_true(rows.index[rows.start[3]] == middle && rows.value[rows.start[3]] == 5.0f);
    yk_rows_fini(&rows);
    o.features = 1000; /* the number of features takes precedence over bits */
    assert_int_equal(read_all(spec_of("libsvm", ""), &o, &rows, NULL), YK_OK);
    assert_in_range(rows.dim, 2, 1000);
    yk_rows_fini(&rows);
    read_well(spec_of("libsvm", "?bits=3"), &rows);
    assert_in_range(rows.dim, 1, 8);
    yk_rows_fini(&rows);
}

/* ---- libffm */

static void libffm_reads_fields(void **state)
{
    (void)state;
    static const uint32_t index[] = {3, 17, 17, 204, 0};
    static const uint16_t field[] = {0, 1, 2, 65535, 5};
    static const float value[] = {0.5f, 5.0f, 1.0f, 1.0f, 1.0f};
    yk_rows rows;
    yk_source_options o = {.fields = YK_FIELDS_STORED};
    put("# fields\n1 65535:204:1 2:17:1 1:17:2 0:3:0.5 1:17:3 # unsorted\n0 5:0:1\n");
    assert_int_equal(read_all(spec_of("libffm", ""), &o, &rows, NULL), YK_OK);
    assert_int_equal(rows.start[1], 4);
    assert_memory_equal(rows.index, index, sizeof index);
    assert_memory_equal(rows.field, field, sizeof field);
    assert_memory_equal(rows.value, value, sizeof value);
    yk_rows_fini(&rows);
    read_well(path,
              &rows); /* a path without a format is recognized; without fields, equal indices are merged */
    assert_null(rows.field);
    assert_int_equal(rows.start[1], 3);
    assert_true(rows.index[1] == 17 && rows.value[1] == 6.0f);
    yk_rows_fini(&rows);
    put("1 7:1:1\n");
    read_well(spec_of("libffm", "?base=1&features=1"), &rows);
    assert_int_equal(rows.index[0], 0);
    yk_rows_fini(&rows);
}

static void libffm_reports_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *record, *reason;
    } fault[] = {
        {"1 1:1\n", "record 1 at byte 5", "no ':' after the index in '1:1'"},
        {"1 3\n", "record 1 at byte 3", "no ':' after the field in '3'"},
        {"1 0:3:1 x:4:1\n", "record 1 at byte 8", "field in 'x:4:1' is not a number"},
        {"1 0:y:1\n", "record 1 at byte 4", "index in '0:y:1' is not a number"},
        {"1 65536:3:1\n", "record 1 at byte 2", "is not below 65536"},
        {"1 0:3:z\n", "record 1 at byte 6", "value in '0:3:z' is not a number"},
        {"1 0:2147483646:1\n", "record 1 at byte 4", "2147483646 features, numbered from 0; use --hash-bits"},
        {"1 0:4294967295:1\n", "record 1 at byte 4", "--hash-bits"},
        {"1 0:18446744073709551616:1\n", "record 1 at byte 4", "2^64 or more"},
    };
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        put(fault[i].text);
        expect_fault(spec_of("libffm", ""), fault[i].record, fault[i].reason);
    }
}

static void bad_lines_can_be_skipped(void **state)
{
    (void)state;
    yk_rows rows;
    uint64_t bad;
    yk_source_options o = {.skip_bad = 2};
    put("1 1:1\nx\n0 2:1\n1 2\n1 3:1\n");
    assert_int_equal(read_all(spec_of("libsvm", ""), &o, &rows, &bad), YK_OK);
    assert_int_equal(rows.n, 3);
    assert_int_equal(bad, 2);
    yk_rows_fini(&rows);
    o.skip_bad = 1;
    assert_int_equal(read_all(spec_of("libsvm", ""), &o, &rows, &bad), YK_EDATA);
    assert_non_null(strstr(yk_error(), "record 4 at byte 17"));
    yk_rows_fini(&rows);
}

/* ---- blocks */

/* Line i has index i + 1 and the label i % 2; lengths vary, one line is longer than a block. */
static char *many_lines(size_t n, size_t *size_out)
{
    size_t cap = n * 64 + (3u << 20), at = 0;
    char *text = malloc(cap);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        at += (size_t)sprintf(text + at, "%zu %zu:1 #", i % 2, i + 1);
        size_t pad = i == n / 2 ? (5u << 19) : i % 29;
        memset(text + at, '-', pad);
        at += pad;
        text[at++] = '\n';
    }
    *size_out = at;
    return text;
}

static void blocks_hold_each_line_once(void **state)
{
    (void)state;
    const size_t n = 70000;
    size_t size;
    char *text = many_lines(n, &size);
    for (int zipped = 0; zipped < 2; zipped++) {
        if (zipped)
            put_gz(text, size);
        else
            put_bytes(text, size);
        yk_source *s;
        assert_int_equal(yk_source_open(spec_of("libsvm", ""), YK_SPLIT_TRAIN, NULL, &s), YK_OK);
        if (zipped)
            assert_int_equal(s->nblocks, 1);
        else
            assert_in_range(s->nblocks, 4, 100);
        yk_source_free(s);
        yk_rows rows;
        read_well(spec_of("libsvm", ""), &rows);
        assert_int_equal(rows.n, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(rows.index[i], i);
            assert_int_equal(rows.label[i], i % 2);
        }
        yk_rows_fini(&rows);
    }
    free(text);
}

static void line_numbers_in_later_blocks(void **state)
{
    (void)state;
    size_t size;
    char *text = many_lines(70000, &size);
    char *hit = strstr(text + size - 200000, "\n1 ");
    assert_non_null(hit);
    hit[1] = 'x';
    size_t lines = 1;
    for (const char *p = text; p <= hit; p++)
        lines += *p == '\n';
    put_bytes(text, size);
    char record[64];
    snprintf(record, sizeof record, "record %zu at byte %zu:", lines, (size_t)(hit + 1 - text));
    expect_fault(spec_of("libsvm", ""), record, "not a number");
    free(text);
}

static void truncated_gzip(void **state)
{
    (void)state;
    size_t size;
    char *text = many_lines(5000, &size);
    put_gz(text, size);
    free(text);
    assert_int_equal(truncate(path, 9000), 0);
    expect_fault(spec_of("libsvm", ""), "at byte", "truncated");
}

/* ---- criteo */

#define INTS "1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2"
#define CATS                                                                                                 \
    "68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t25c83c98\t7e0ccccf\tde7995b8\t1f89b562\ta73ee510\ta8cd5504\tb2" \
    "cb9c98"                                                                                                 \
    "\t37c9c164\t2824a5f6\t1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9d\t07b5194c\t" \
    "\t3a171ecb\tc5c50484\te8b83407\t9727dd16"

static void criteo_reads_lines(void **state)
{
    (void)state;
    yk_rows rows;
    put("0\t" INTS "\t" CATS "\r\n1\t" INTS "\t" CATS);
    read_well(spec_of("criteo", ""), &rows);
    assert_int_equal(rows.n, 2);
    assert_int_equal(rows.label[0], 0);
    assert_int_equal(rows.label[1], 1);
    assert_int_equal(yk_rows_entries(&rows, 0), 37); /* two fields are missing */
    assert_null(rows.value);
    assert_memory_equal(rows.index, rows.index + 37, 37 * sizeof *rows.index);
    uint64_t hash = 0;
    for (size_t i = 0; i < 37; i++) {
        assert_true(rows.index[i] < 1u << 24);
        assert_true(i == 0 || rows.index[i - 1] < rows.index[i]);
        hash = yk_mix64(hash + rows.index[i]);
    }
    assert_int_equal(hash, UINT64_C(0x61a54bbffeb38b4d)); /* models depend on it: it must never change */
    yk_rows_fini(&rows);

    put_gz("0\t" INTS "\t" CATS "\n", strlen("0\t" INTS "\t" CATS "\n"));
    read_well(spec_of("criteo", "?features=1000"), &rows);
    assert_int_equal(rows.n, 1);
    assert_in_range(rows.dim, 1, 1000);
    assert_null(rows.value); /* fields with the same hash are one feature of value 1 */
    yk_rows_fini(&rows);
    yk_source_options o = {.hash_bits = 5};
    assert_int_equal(read_all(spec_of("criteo", ""), &o, &rows, NULL), YK_OK);
    assert_in_range(rows.dim, 2, 32);
    assert_in_range(yk_rows_entries(&rows, 0), 5, 31);
    yk_rows_fini(&rows);
    assert_int_equal(read_all(spec_of("criteo", "?bits=5&features=9"), NULL, &rows, NULL), YK_EUSAGE);
    o.hash_bits = 60;
    assert_int_equal(read_all(spec_of("criteo", ""), &o, &rows, NULL), YK_EUSAGE);
}

/* For predictions only. A label that is there is ignored, but checked. */
static void lines_without_labels(void **state)
{
    (void)state;
    const yk_source_options predict = {.unlabeled = true};
    yk_rows rows, with;
    put("0\t" INTS "\t" CATS "\n");
    read_well(spec_of("criteo", ""), &with);
    put(INTS "\t" CATS "\n1\t" INTS "\t" CATS "\n");
    assert_int_equal(read_all(path, &predict, &rows, NULL), YK_OK); /* detected */
    assert_int_equal(rows.n, 2);
    assert_memory_equal(rows.index, with.index, 37 * sizeof *rows.index);
    assert_memory_equal(rows.index + 37, with.index, 37 * sizeof *rows.index);
    yk_rows_fini(&with);
    yk_rows_fini(&rows);
    expect_fault(spec_of("criteo", ""), "39 columns instead of 40", "only yoke predict accepts");
    put("x" INTS "\t" CATS "\n");
    assert_int_equal(read_all(spec_of("criteo", ""), &predict, &rows, NULL), YK_EDATA);
    assert_non_null(strstr(yk_error(), "column 1, 'x1', is not an integer"));
    put("3:0.5 17:1\n-1 qid:4 5:3\nqid:4 5:2\n+1\n");
    assert_int_equal(read_all(path, &predict, &rows, NULL), YK_OK);
    static const uint64_t start[] = {0, 2, 3, 4, 4};
    static const uint32_t index[] = {2, 16, 4, 4};
    assert_int_equal(rows.n, 4);
    assert_memory_equal(rows.start, start, sizeof start);
    assert_memory_equal(rows.index, index, sizeof index);
    yk_rows_fini(&rows);
    expect_fault(spec_of("libsvm", ""), "the label '3:0.5' is not a number", "only yoke predict accepts");
    put("1:3:0.5 2:17:1\n");
    assert_int_equal(read_all(path, &predict, &rows, NULL), YK_OK);
    assert_int_equal(rows.index[0], 3);
    yk_rows_fini(&rows);
    put("1 3:0,5\n");
    expect_fault(spec_of("libsvm", ""), "the value in '3:0,5' is not a number", "decimal point");
}

/* Columns as field numbers on request; the features are the same. */
static void criteo_columns_are_fields(void **state)
{
    (void)state;
    yk_rows plain, rows;
    put("1\t5\t\t7\t\t\t\t\t\t\t\t\t\t9\t68fd1e64\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t"
        "68fd1e64\n");
    read_well(spec_of("criteo", ""), &plain);
    assert_null(plain.field);
    yk_source_options o = {.fields = YK_FIELDS_STORED};
    assert_int_equal(read_all(spec_of("criteo", ""), &o, &rows, NULL), YK_OK);
    assert_null(rows.field);
    yk_rows_fini(&rows);
    o.fields = YK_FIELDS_ALL;
    assert_int_equal(read_all(spec_of("criteo", ""), &o, &rows, NULL), YK_OK);
    assert_int_equal(rows.start[1], 5);
    assert_memory_equal(rows.index, plain.index, 5 * sizeof *rows.index);
    static const uint16_t columns[] = {0, 2, 12, 13, 38};
    for (size_t c = 0; c < 5; c++) {
        size_t found = 0;
        for (size_t i = 0; i < 5; i++)
            found += rows.field[i] == columns[c];
        assert_int_equal(found, 1);
    }
    yk_rows_fini(&rows);
    yk_rows_fini(&plain);
    o.fields = YK_FIELDS_STORED; /* all have the same hash, but different fields */
    assert_int_equal(read_all(spec_of("criteo", "?fields=1&features=1"), &o, &rows, NULL), YK_OK);
    assert_int_equal(rows.start[1], 5);
    assert_memory_equal(rows.field, columns, sizeof columns);
    yk_rows_fini(&rows);
}

/* Integers as values: features 0 to 12. The categories are hashed into the others. */
static void criteo_integers_are_values(void **state)
{
    (void)state;
    static const uint16_t columns[] = {0, 1, 12, 13, 38};
    const yk_source_options o = {.fields = YK_FIELDS_ALL};
    yk_rows rows;
    put("1\t5\t-2\t\t\t\t\t\t\t\t\t\t\t100000\t68fd1e64\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t"
        "68fd1e64\n");
    for (int fields = 0; fields < 2; fields++) {
        assert_int_equal(
            read_all(spec_of("criteo", "?numeric=value&features=100"), fields ? &o : NULL, &rows, NULL),
            YK_OK);
        assert_int_equal(rows.start[1], 5);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rows.index[i], columns[i]);
        assert_true(fabsf(rows.value[0] - logf(6.0f)) < 1e-6f && fabsf(rows.value[1] + logf(3.0f)) < 1e-6f);
        assert_true(fabsf(rows.value[2] - logf(100001.0f)) < 1e-5f);
        assert_true(rows.index[3] >= 13 && rows.index[4] < 100 && rows.value[3] == 1.0f);
        assert_true(!fields == !rows.field);
        for (size_t i = 0; fields && i < 3; i++)
            assert_int_equal(rows.field[i], columns[i]);
        yk_rows_fini(&rows);
    }
    assert_int_equal(read_all(spec_of("criteo", "?numeric=value&features=13"), NULL, &rows, NULL), YK_EUSAGE);
    assert_int_equal(read_all(spec_of("criteo", "?numeric=log"), NULL, &rows, NULL), YK_EUSAGE);
}

static const char no_fields[] =
    "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t";

static uint32_t *first_integers(const int64_t *v, size_t n)
{
    char *text = malloc(n * 80), *p = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, "1\t%lld%s\n", (long long)v[i], no_fields);
    put_bytes(text, (size_t)(p - text));
    free(text);
    yk_rows rows;
    read_well(spec_of("criteo", "?bits=31"), &rows);
    assert_int_equal(rows.n, n);
    assert_int_equal(rows.start[n], n);
    uint32_t *index = malloc(n * sizeof *index);
    assert_non_null(index);
    memcpy(index, rows.index, n * sizeof *index);
    yk_rows_fini(&rows);
    return index;
}

/* Values up to 2 are themselves, larger ones floor(ln(v)^2): neighbors with the same bucket have the same feature. */
static void criteo_buckets(void **state)
{
    (void)state;
    enum { N = 60000, BIG = 400 };
    static int64_t v[N];
    for (int64_t i = 0; i < N; i++)
        v[i] = i - 10;
    uint32_t *index = first_integers(v, N);
    for (size_t i = 0; i + 1 < N; i++) {
        bool same = v[i] > 2 && floor(pow(log((double)v[i]), 2)) == floor(pow(log((double)v[i + 1]), 2));
        if ((index[i] == index[i + 1]) != same)
            fail_msg("%lld and %lld", (long long)v[i], (long long)v[i + 1]);
    }
    free(index);
    yk_rng r = yk_rng_seed(3, 3);
    for (size_t i = 0; i + 1 < BIG; i += 2) {
        v[i] = (int64_t)(yk_rng_u64(&r) >> (5 + yk_rng_below(&r, 40)));
        v[i + 1] = v[i] + v[i] / (1 + yk_rng_below(&r, 60));
        v[i] = v[i] > 900000000000000000 ? 900000000000000000 : v[i];
        v[i + 1] = v[i + 1] > 999999999999999999 ? 999999999999999999 : v[i + 1];
    }
    index = first_integers(v, BIG);
    for (size_t i = 0; i + 1 < BIG; i += 2) {
        double a = pow(log((double)v[i]), 2), b = pow(log((double)v[i + 1]), 2);
        if (fabs(a - round(a)) > 1e-9 && fabs(b - round(b)) > 1e-9 && v[i] > 2)
            assert_int_equal(index[i] == index[i + 1], floor(a) == floor(b));
    }
    free(index);
}

static void criteo_categories(void **state)
{
    (void)state;
    yk_rows rows;
    char text[4096], *p = text;
    static const char *const word[] = {"0000abcd",         "0000ABCD", "abcd", "0abcd",
                                       "ffffffffffffffff", "0000abce", "0"};
    for (size_t i = 0; i < 7; i++)
        p += sprintf(p, "1\t\t\t\t\t\t\t\t\t\t\t\t\t\t%s%s\n", word[i], no_fields + 13);
    p += sprintf(p, "1%s\tabcd\n", no_fields); /* another column */
    put_bytes(text, (size_t)(p - text));
    read_well(spec_of("criteo", "?bits=31"), &rows);
    assert_int_equal(rows.start[8], 8);
    assert_int_equal(rows.index[0], rows.index[1]);
    for (size_t i = 1; i < 8; i++)
        for (size_t k = i + 1; k < 8; k++)
            assert_int_not_equal(rows.index[i], rows.index[k]);
    yk_rows_fini(&rows);
}

static void criteo_reports_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *record, *reason;
    } fault[] = {
        {"2\t" INTS "\t" CATS "\n", "record 1 at byte 0", "label '2' is not 0 or 1"},
        {"\t" INTS "\t" CATS "\n", "record 1 at byte 0", "label '' is not 0 or 1"},
        {"01\t" INTS "\t" CATS "\n", "record 1 at byte 0", "label '01'"},
        {"0\t" INTS "\n", "record 1 at byte 0", "14 columns instead of 40"},
        {"0\t" INTS "\t" CATS "\t\n", "record 1 at byte 0", "41 columns"},
        {"0\t" INTS "\t" CATS "\n\n", "record 2 at byte", "0 columns"},
        {"0", "record 1 at byte 0", "1 column"},
        {"0\t1x\t" INTS "\t" CATS "\n", "record 1 at byte 0", "41 columns"},
        {"0\t1x\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t" CATS "\n", "record 1 at byte 2",
         "column 2, '1x', is not an integer"},
        {"0\t1\t-\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t" CATS "\n", "record 1 at byte 4",
         "column 3, '-', is not an integer"},
        {"0\t1\t1234567890123456789\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t" CATS "\n", "at byte 4",
         "18 digits"},
        {"0\t1.5\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t" CATS "\n", "at byte 2",
         "'1.5', is not an integer"},
        {"0\t" INTS "\tg" CATS "\n", "at byte 33", "column 15, 'g68fd1e64', is not a hash"},
        {"0\t" INTS "\t12345678901234567" CATS "\n", "at byte 33", "16 hex digits"},
        {"0\t" INTS "\t" CATS "h\n", "record 1", "column 40, '9727dd16h', is not a hash"},
        {"0\t" INTS "\t" CATS " \n", "record 1", "column 40, '9727dd16', is not a hash"},
    };
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        put(fault[i].text);
        expect_fault(spec_of("criteo", ""), fault[i].record, fault[i].reason);
    }
}

static void criteo_blocks(void **state)
{
    (void)state;
    enum { N = 30000 };
    char *text = malloc(N * 512), *p = text;
    assert_non_null(text);
    for (int i = 0; i < N; i++)
        p += sprintf(p, "%d\t%d\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t" CATS "\n", i % 2, -i);
    put_bytes(text, (size_t)(p - text));
    free(text);
    yk_rows rows;
    yk_source *s;
    assert_int_equal(yk_source_open(spec_of("criteo", ""), YK_SPLIT_TRAIN, NULL, &s), YK_OK);
    assert_in_range(s->nblocks, 6, 100);
    assert_int_equal(s->dim, 1 << 24);
    assert_int_equal(s->classes, 2);
    yk_source_free(s);
    read_well(spec_of("criteo", ""), &rows);
    assert_int_equal(rows.n, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(rows.label[i], i % 2);
    yk_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libsvm_reads_lines),
        cmocka_unit_test(libsvm_options),
        cmocka_unit_test(libsvm_numbers),
        cmocka_unit_test(libsvm_reports_errors),
        cmocka_unit_test(libsvm_hashes_keys),
        cmocka_unit_test(libffm_reads_fields),
        cmocka_unit_test(libffm_reports_errors),
        cmocka_unit_test(criteo_columns_are_fields),
        cmocka_unit_test(criteo_integers_are_values),
        cmocka_unit_test(bad_lines_can_be_skipped),
        cmocka_unit_test(blocks_hold_each_line_once),
        cmocka_unit_test(line_numbers_in_later_blocks),
        cmocka_unit_test(truncated_gzip),
        cmocka_unit_test(lines_without_labels),
        cmocka_unit_test(criteo_reads_lines),
        cmocka_unit_test(criteo_buckets),
        cmocka_unit_test(criteo_categories),
        cmocka_unit_test(criteo_reports_errors),
        cmocka_unit_test(criteo_blocks),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
