/* The number of fields of a data set: from the format, from the data, or given; in memory, streamed and in a cache. */
#include "read_all.h"

#include "core/rows.h"
#include "data/dataset.h"
#include "data/export.h"
#include "data/memory.h"
#include "format/cache.h"

static const yk_source_options all = {.fields = YK_FIELDS_ALL}, none = {0};

static const char *file(const char *name, const char *text)
{
    const char *path = in_directory(name);
    put(path, text, strlen(text));
    return path;
}

static uint32_t fields_of(const char *spec, const yk_source_options *o, yk_stream_choice stream)
{
    yk_dataset d;
    if (yk_dataset_open(spec, YK_SPLIT_TRAIN, o, stream, &d))
        fail_msg("%s", yk_error());
    const uint32_t n = d.fields;
    if (d.rows)
        assert_true(n > 1 ? d.rows->field != NULL : d.rows->field == NULL);
    yk_dataset_fini(&d);
    return n;
}

static void check(const char *spec, uint32_t n)
{
    assert_int_equal(fields_of(spec, &all, YK_STREAM_NEVER), n);
    assert_int_equal(fields_of(spec, &all, YK_STREAM_ALWAYS), n);
    assert_int_equal(fields_of(spec, &none, YK_STREAM_NEVER), 1);
    assert_int_equal(fields_of(spec, &none, YK_STREAM_ALWAYS), 1);
}

static void formats(void **state)
{
    (void)state;
    char spec[256];
    check("synth:ctr?features=100&examples=50", 39);
    check("synth:ctr?features=100&nnz=7&examples=50", 7);
    check("synth:ctr?features=100&examples=50&fields=0", 1);
    snprintf(spec, sizeof spec, "libffm:%s", file("a.ffm", "1 0:3:0.5 4:17:1 9:17:1\n0 2:2:1\n"));
    check(spec, 10);
    strcat(spec, "?nfields=12");
    check(spec, 12);
    snprintf(spec, sizeof spec, "libffm:%s?nfields=9", in_directory("a.ffm"));
    yk_dataset d;
    assert_int_equal(yk_dataset_open(spec, YK_SPLIT_TRAIN, &all, YK_STREAM_NEVER, &d), YK_EDATA);
    assert_message("the field in '9:17:1' is not below 9");
    assert_int_equal(fields_of(spec, &none, YK_STREAM_NEVER),
                     1); /* a model without fields does not look at them */
    snprintf(spec, sizeof spec, "libsvm:%s", file("a.svm", "1 3:0.5 4:1\n0 2:2\n"));
    check(spec, 1);
    snprintf(spec, sizeof spec, "csv:%s?categorical=c,d",
             file("a.csv", "label,a,b,c,d\n1,2,3,x,y\n0,,5,z,y\n"));
    check(spec, 4);
    strcat(spec, "&fields=0");
    check(spec, 1);
    snprintf(spec, sizeof spec, "criteo:%s",
             file("day.txt",
                  "1\t5\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n"));
    check(spec, 39);
}

static yk_status open_for_fields(const char *spec, yk_stream_choice stream, yk_dataset *out)
{
    yk_positions p;
    yk_positions_init(&p, 0);
    const yk_source_options o = {.fields = YK_FIELDS_ALL, .positions = &p};
    const yk_status st = yk_dataset_open(spec, YK_SPLIT_TRAIN, &o, stream, out);
    if (!st)
        out->source->positions = NULL; /* ends here */
    yk_positions_fini(&p);
    return st;
}

static void check_numbered(const char *spec, yk_stream_choice stream, uint32_t fields, bool positional)
{
    yk_dataset d;
    if (open_for_fields(spec, stream, &d))
        fail_msg("%s", yk_error());
    assert_int_equal(d.fields, fields);
    assert_int_equal(d.positional, positional);
    for (uint64_t e = 0; d.rows && positional && e < d.rows->start[d.rows->n]; e++)
        assert_int_equal(d.rows->field[e], e % fields);
    yk_dataset_fini(&d);
}

static void check_refused(const char *spec, yk_stream_choice stream, yk_status want, const char *words)
{
    yk_dataset d;
    assert_int_equal(open_for_fields(spec, stream, &d), want);
    assert_message(words);
}

/* Rows without field numbers, for a model that needs them. */
static void positions(void **state)
{
    (void)state;
    const char *good = "1 9:1 3:0.5 5:1\n0 2:2 6:1 11:1\n", *own = "1 0:3:1 1:5:1\n0 0:2:1 1:5:1\n";
    static const char *const name[] = {"good", "short", "overlap", "repeated"};
    const char *text[] = {good, "1 3:1 5:1\n0 2:1\n", "1 3:1 5:1\n0 5:1 7:1\n", "1 3:1 5:1\n0 5:1 5:1\n"};
    char spec[4][256], other[1100];
    for (int i = 0; i < 4; i++)
        snprintf(spec[i], sizeof spec[i], "libsvm:%s", file(name[i], text[i]));
    check_numbered(spec[0], YK_STREAM_NEVER, 3, true);
    check_numbered(spec[0], YK_STREAM_COUNT, 3, true);
    check_refused(spec[0], YK_STREAM_ALWAYS, YK_EUSAGE, "streamed");
    check_refused(spec[1], YK_STREAM_NEVER, YK_EUSAGE, "libffm:");
    check_refused(spec[1], YK_STREAM_NEVER, YK_EUSAGE, "?fields=position");
    check_refused(spec[1], YK_STREAM_COUNT, YK_EUSAGE, "?fields=one");
    check_refused(spec[2], YK_STREAM_NEVER, YK_EUSAGE, "index 4 (counted from 0) is at position");
    check_refused(spec[3], YK_STREAM_NEVER, YK_EUSAGE, "entr");
    for (int i = 0; i < 4; i++) {
        snprintf(other, sizeof other, "%s?fields=one", spec[i]);
        check_numbered(other, YK_STREAM_ALWAYS, 1, false);
        check_numbered(other, YK_STREAM_NEVER, 1, false);
        snprintf(other, sizeof other, "%s?fields=position", spec[i]);
        if (i)
            check_refused(other, YK_STREAM_NEVER, YK_EDATA, "record 2");
        else
            check_numbered(other, YK_STREAM_NEVER, 3, true);
        if (i)
            check_refused(other, YK_STREAM_ALWAYS, YK_EDATA, "record 2");
        else
            check_numbered(other, YK_STREAM_ALWAYS, 3, true);
    }
    snprintf(other, sizeof other, "%s?bits=4", spec[0]);
    check_refused(other, YK_STREAM_NEVER, YK_EUSAGE, "hashed");
    strcat(other, "&fields=position");
    check_refused(other, YK_STREAM_NEVER, YK_EUSAGE, "not hashed");
    snprintf(other, sizeof other, "%s?fields=position&nfields=2", spec[0]);
    check_refused(other, YK_STREAM_NEVER, YK_EDATA, "3 entries instead of 2");
    snprintf(other, sizeof other, "libffm:%s", file("own.ffm", own));
    check_numbered(other, YK_STREAM_NEVER, 2,
                   false); /* the same index in a row and another position: fields decide */
    check_numbered("synth:ctr?features=100&nnz=7&examples=50", YK_STREAM_ALWAYS, 7, false);
    static const char *const format[] = {"cache", "tfrecord"};
    for (int i = 0; i < 2; i++) {
        yk_source *s;
        yk_export_stats stats;
        char path[256];
        snprintf(path, sizeof path, "%s", in_directory(i ? "plain.tfrecord" : "plain.cache"));
        assert_int_equal(yk_source_open(spec[0], YK_SPLIT_TRAIN, &all, &s), YK_OK);
        assert_int_equal(yk_export(s, format[i], path, &stats), YK_OK);
        yk_source_free(s);
        check_numbered(path, YK_STREAM_NEVER, 3, true);
        if (i)
            check_refused(path, YK_STREAM_ALWAYS, YK_EUSAGE, "streamed");
        snprintf(other, sizeof other, "%s:%s?fields=position", format[i], path);
        check_numbered(other, YK_STREAM_ALWAYS, 3, true);
        snprintf(other, sizeof other, "%s:%s?fields=one", format[i], path);
        check_numbered(other, YK_STREAM_ALWAYS, 1, false);
    }
}

/* TFRecords and caches have the number of fields, even if the largest field numbers do not occur. */
static void converted(void **state)
{
    (void)state;
    static const char *const format[] = {"cache", "tfrecord", "libffm"};
    for (size_t i = 0; i < 3; i++) {
        char path[256], spec[256];
        yk_source *s;
        yk_export_stats stats;
        snprintf(path, sizeof path, "%s", in_directory(format[i]));
        snprintf(spec, sizeof spec, "libffm:%s?nfields=12",
                 file("b.ffm", "1 0:3:0.5 4:17:1 9:17:1\n0 2:2:1\n"));
        assert_int_equal(yk_source_open(spec, YK_SPLIT_TRAIN, &all, &s), YK_OK);
        assert_int_equal(yk_export(s, format[i], path, &stats), YK_OK);
        yk_source_free(s);
        assert_int_equal(fields_of(path, &all, YK_STREAM_NEVER), i ? 10 : 12);
        assert_int_equal(fields_of(path, &none, YK_STREAM_NEVER), 1);
    }
    char spec[256];
    snprintf(spec, sizeof spec, "tfrecord:%s?nfields=10", in_directory("tfrecord"));
    check(spec, 10);
    snprintf(spec, sizeof spec, "tfrecord:%s?nfields=5", in_directory("tfrecord"));
    yk_dataset d;
    assert_int_equal(yk_dataset_open(spec, YK_SPLIT_TRAIN, &all, YK_STREAM_NEVER, &d), YK_EDATA);
    assert_message("field 9 is not in the range 0 to 4");
}

/* A cache of version 2 does not have the number of fields: it is counted. */
static void older_cache(void **state)
{
    (void)state;
    yk_rows rows;
    yk_cache_shape shape;
    yk_cache_writer *w;
    assert_int_equal(yk_cache_map(in_directory("cache"), &rows, &shape), YK_OK);
    assert_int_equal(shape.header.fields, 12);
    shape.header.fields = 0;
    assert_int_equal(yk_cache_create(in_directory("older"), &shape, &w), YK_OK);
    assert_int_equal(yk_cache_close(w, yk_cache_add(w, &rows)), YK_OK);
    yk_rows_fini(&rows);
    assert_int_equal(fields_of(in_directory("older"), &all, YK_STREAM_NEVER), 10);
    assert_int_equal(fields_of(in_directory("older"), &none, YK_STREAM_NEVER), 1);
}

/* The caller's arrays: sorted if necessary, in parts, and without the fields. */
static void memory(void **state)
{
    (void)state;
    uint64_t start[] = {0, 3, 5};
    uint32_t index[] = {7, 3, 3, 1, 2};
    uint16_t field[] = {0, 5, 2, 8, 1};
    int32_t label[] = {0, 1};
    yk_memory_data m = {.rows = {.kind = YK_ROWS_SPARSE,
                                 .n = 2,
                                 .dim = 10,
                                 .start = start,
                                 .index = index,
                                 .field = field,
                                 .label = label}};
    yk_source *s;
    yk_dataset d;
    assert_int_equal(yk_memory_check(&m), YK_OK);
    assert_int_equal(yk_source_from_memory(&m, &all, &s), YK_OK);
    assert_int_equal(yk_dataset_take(s, YK_SPLIT_TEST, YK_STREAM_NEVER, &d), YK_OK);
    assert_int_equal(d.fields, 9);
    static const uint16_t sorted[] = {2, 5, 0, 8, 1};
    assert_memory_equal(d.rows->field, sorted, sizeof sorted);
    yk_dataset_fini(&d);
    assert_int_equal(yk_source_from_memory(&m, &none, &s), YK_OK);
    assert_int_equal(yk_dataset_take(s, YK_SPLIT_TEST, YK_STREAM_NEVER, &d), YK_OK);
    assert_int_equal(d.fields, 1);
    assert_null(d.rows->field);
    assert_true(d.rows->start[1] == 2 && d.rows->value[0] == 2.0f); /* index 3 in two fields */
    yk_dataset_fini(&d);
    index[1] = 8;
    index[2] = 9;
    assert_int_equal(yk_memory_check(&m), YK_OK);
    assert_true(m.ascending);
    assert_int_equal(yk_source_from_memory(&m, &all, &s), YK_OK); /* a copy with another layout */
    assert_int_equal(yk_dataset_take(s, YK_SPLIT_TRAIN, YK_STREAM_NEVER, &d), YK_OK);
    assert_int_equal(d.fields, 9);
    assert_non_null(d.rows->field);
    yk_dataset_fini(&d);
    yk_memory_data part = m;
    part.rows.n = 1;
    assert_int_equal(yk_source_from_memory(&part, &all, &s), YK_OK);
    assert_int_equal(s->fields, 6);
    yk_source_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats), cmocka_unit_test(positions),
                                       cmocka_unit_test(converted), cmocka_unit_test(older_cache),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
