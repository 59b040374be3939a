/* format/parquet.h on files that pyarrow wrote (fuzz/corpus/parquet, by tests/interop/parquet_test.py): values, refusals,
 * and damage of every byte. parquet:FILES: the same rows as from CSV.
 *
 * tests/interop/parquet_test.py calls it with arguments:
 *     test_parquet --read FILE N      prints the rows, N at a time, with tabs between the values
 */
#include "scratch.h"

#include "data/source.h"
#include "format/parquet.h"
#include <inttypes.h>

#define CORPUS YK_SOURCE "/fuzz/corpus/parquet/"

enum { ROWS = 40 };

static const char *const names[] = {"v1-plain", "v1-dictionary", "v1-snappy", "v2-zstd",
                                    "v2-gzip",  "v2-delta",      "v1-pages"};

static void print_value(char *to, size_t size, const yk_parquet_values *v, size_t i)
{
    if (v->valid && !v->valid[i])
        snprintf(to, size, "null");
    else if (v->code)
        snprintf(to, size, "%.*s", (int)v->text[v->code[i]].n, v->text[v->code[i]].bytes);
    else if (v->integer)
        snprintf(to, size, "%" PRId64, v->integer[i]);
    else
        snprintf(to, size, "%.17g", v->real[i]);
}

/* Calls visit(context, row, column, value) for all values of the columns that are not refused, `step` rows at a time. */
typedef void visitor(void *context, uint64_t row, size_t column, const char *value);

static yk_status read_range(const yk_parquet *f, size_t group, const size_t *column, size_t n, uint64_t first,
                            uint64_t rows, uint64_t row, visitor *visit, void *context)
{
    char value[256];
    yk_parquet_reader *r;
    yk_status st = yk_parquet_read(f, group, column, n, first, rows, &r);
    if (st)
        return st;
    for (size_t got = 1; got && !(st = yk_parquet_next(r, &got)); row += got)
        for (size_t i = 0; i < got; i++)
            for (size_t k = 0; k < n; k++) {
                print_value(value, sizeof value, yk_parquet_values_of(r, k), i);
                visit(context, row + i, column[k], value);
            }
    yk_parquet_reader_free(r);
    return st;
}

static yk_status read_file(const char *path, uint64_t step, visitor *visit, void *context)
{
    yk_parquet *f;
    yk_status st = yk_parquet_open(path, &f);
    if (st)
        return st;
    size_t *column = calloc(f->ncolumns, sizeof *column), n = 0;
    for (size_t i = 0; i < f->ncolumns; i++)
        if (!f->column[i].refused)
            column[n++] = i;
    uint64_t row = 0;
    for (size_t g = 0; g < f->ngroups; g++) {
        const uint64_t rows = f->group[g].rows;
        for (uint64_t first = 0; first < rows && !st; first += step)
            st = read_range(f, g, column, n, first, rows - first < step ? rows - first : step, row + first,
                            visit, context);
        row += rows;
    }
    free(column);
    yk_parquet_free(f);
    return st;
}

/* ---- values */

static void expected(char *to, size_t size, uint64_t row, size_t column)
{
    static const char *const cities[] = {"Paris", "Rome", "Oslo, Norway"};
    static const unsigned nulls[] = {0, 5, 0, 4, 0, 3, 7, 0, 0, 0};
    const int i = (int)row;
    if (nulls[column] && row % nulls[column] == 1)
        snprintf(to, size, "null");
    else if (column == 6)
        snprintf(to, size, "%s", cities[i % 3]);
    else if (column == 7)
        snprintf(to, size, "%.*s%d", i % 11, "nnnnnnnnnnn", i);
    else if (column == 4 || column == 5 || column == 9)
        snprintf(to, size, "%.17g",
                 column == 4   ? i / 8.0 - 2
                 : column == 5 ? i / 16.0 + 1e9
                               : 1.7e9 + i * 0.5);
    else
        snprintf(to, size, "%lld",
                 column == 0   ? (long long)(i % 3 == 0)
                 : column == 1 ? i * 7LL - 100
                 : column == 2 ? 3000000000LL + i % 4
                 : column == 3 ? (i - 20) * 1000000000000000LL
                               : 19000LL + i);
}

static void check_value(void *context, uint64_t row, size_t column, const char *value)
{
    char want[256];
    expected(want, sizeof want, row, column);
    assert_string_equal(value, want);
    ++*(size_t *)context;
}

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (uint64_t step = 1; step < 50; step += 6) { /* also ranges that begin within a page */
            char path[256];
            size_t values = 0;
            snprintf(path, sizeof path, CORPUS "%s", names[i]);
            if (read_file(path, step, check_value, &values))
                fail_msg("%s", yk_error());
            assert_int_equal(values, ROWS * 10);
        }
}

static void test_schema(void **state)
{
    (void)state;
    static const char *const types[] = {"BOOLEAN", "INT32",  "INT32",  "INT64", "FLOAT",
                                        "DOUBLE",  "STRING", "STRING", "DATE",  "TIMESTAMP"};
    yk_parquet *f;
    assert_int_equal(yk_parquet_open(CORPUS "v1-snappy", &f), YK_OK);
    assert_int_equal(f->rows, ROWS);
    assert_int_equal(f->ngroups, 3);
    assert_int_equal(f->group[2].rows, 8);
    assert_int_equal(f->ncolumns, 10);
    for (size_t i = 0; i < 10; i++)
        assert_string_equal(f->column[i].type, types[i]);
    assert_string_equal(f->column[6].name, "city");
    assert_true(f->column[6].optional);
    assert_false(f->column[7].optional);
    yk_parquet_free(f);
}

/* Each distinct text of a dictionary is there once. */
static void test_dictionary(void **state)
{
    (void)state;
    yk_parquet *f;
    yk_parquet_reader *r;
    size_t got;
    assert_int_equal(yk_parquet_open(CORPUS "v1-dictionary", &f), YK_OK);
    assert_int_equal(yk_parquet_read(f, 0, (size_t[]){6}, 1, 0, ROWS, &r), YK_OK);
    assert_int_equal(yk_parquet_next(r, &got), YK_OK);
    assert_int_equal(got, ROWS);
    const yk_parquet_values *v = yk_parquet_values_of(r, 0);
    assert_int_equal(v->dictionary, 3);
    assert_int_equal(v->texts, 3);
    assert_int_equal(v->code[0], v->code[3]);
    assert_int_equal(yk_parquet_next(r, &got), YK_OK);
    assert_int_equal(got, 0);
    yk_parquet_reader_free(r);
    yk_parquet_free(f);
}

/* ---- refusals: by name, and only of columns that are read */

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        size_t column;
        const char *message;
    } cases[] = {{1, "column 'price': DECIMAL cannot be read"},
                 {2, "column 'list': a nested column cannot be read"},
                 {3, "column 'pair': a nested column cannot be read"},
                 {4, "column 'uuid': FIXED_LEN_BYTE_ARRAY cannot be read"},
                 {5, "column 'old': INT96 cannot be read"},
                 {6, "the encoding BYTE_STREAM_SPLIT of FLOAT is not supported"},
                 {7, "Brotli is not supported"}};
    yk_parquet *f;
    yk_parquet_reader *r;
    size_t got;
    assert_int_equal(yk_parquet_open(CORPUS "refused", &f), YK_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_status st = yk_parquet_read(f, 0, &cases[i].column, 1, 0, 3, &r);
        if (!st) {
            st = yk_parquet_next(r, &got);
            yk_parquet_reader_free(r);
        }
        assert_int_equal(st, YK_EDATA);
        assert_message(cases[i].message);
    }
    assert_int_equal(yk_parquet_read(f, 0, (size_t[]){0}, 1, 1, 2, &r), YK_OK);
    assert_int_equal(yk_parquet_next(r, &got), YK_OK);
    assert_int_equal(got, 2);
    assert_int_equal(yk_parquet_values_of(r, 0)->integer[1], 2);
    yk_parquet_reader_free(r);
    yk_parquet_free(f);
}

/* ---- damage */

static void ignore_value(void *context, uint64_t row, size_t column, const char *value)
{
    (void)context, (void)row, (void)column, (void)value;
}

static void assert_read_or_refused(const char *path)
{
    const yk_status st = read_file(path, 1 << 20, ignore_value, NULL);
    assert_true(st == YK_OK || st == YK_EDATA);
    if (st)
        assert_message(path);
}

static void test_damage(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[256];
        snprintf(path, sizeof path, CORPUS "%s", names[k]);
        const size_t n = get_file(path, bytes, sizeof bytes);
        const char *const copy = new_path(".parquet");
        put(copy, bytes, n);
        for (size_t i = 0; i < n; i += SANITIZED ? 17 : 3) {
            const uint8_t change = (uint8_t)(1u << i % 8);
            patch(copy, i, change);
            assert_read_or_refused(copy);
            patch(copy, i, change);
        }
        for (size_t i = 0; i < n; i += 101) {
            put(copy, bytes, i);
            assert_int_equal(read_file(copy, 1 << 20, ignore_value, NULL), YK_EDATA);
        }
    }
}

/* A message says where: the file, the row group, the column and the byte. */
static void test_damage_is_located(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    const char *const copy = in_directory("damaged.parquet");
    const size_t n = get_file(CORPUS "v2-zstd", bytes, sizeof bytes);
    yk_parquet *f;
    assert_int_equal(yk_parquet_open(CORPUS "v2-zstd", &f), YK_OK);
    const yk_parquet_chunk last = f->group[0].chunk[9];
    yk_parquet_free(f);
    bytes[last.offset + last.bytes - 1] ^= 1;
    put(copy, bytes, n);
    assert_int_equal(read_file(copy, 1 << 20, ignore_value, NULL), YK_EDATA);
    assert_message("damaged.parquet: row group 0, column 'time', page at byte ");
    assert_message("its checksum is wrong");
    bytes[last.offset + last.bytes - 1] ^= 1;
    memset(bytes + n - 60, 255, 40);
    put(copy, bytes, n);
    assert_int_equal(read_file(copy, 1 << 20, ignore_value, NULL), YK_EDATA);
    assert_message("damaged.parquet: at byte ");
    assert_message("the footer is damaged");
    put(copy, "PAR1", 4);
    assert_int_equal(read_file(copy, 1 << 20, ignore_value, NULL), YK_EDATA);
    assert_message("not a Parquet file");
}

/* Without checksums, a value outside the range of its column shows the damage. */
static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *column, *value; /* its bytes in the file */
        size_t size;
        uint8_t change;                                       /* of the last byte */
    } damage[] = {{"x", "\x80\0\0\0\0\0\0\xf8\x3f", 9, 0x80}, /* 1.5, after -0: PLAIN */
                  {"kind", "\16\0\0\0", 4, 0x40},             /* 14: in the dictionary */
                  {"time", "\5\12", 2, 0x40}}; /* five values, the first is 5: DELTA_BINARY_PACKED */
    static uint8_t bytes[8192];
    const char *const copy = in_directory("ranges.parquet");
    const size_t n = get_file(CORPUS "ranges", bytes, sizeof bytes);
    assert_int_equal(read_file(CORPUS "ranges", 1 << 20, ignore_value, NULL), YK_OK);
    for (size_t k = 0; k < sizeof damage / sizeof *damage; k++) {
        char want[80];
        const uint8_t *const at = memmem(bytes, n, damage[k].value, damage[k].size);
        assert_non_null(at);
        put(copy, bytes, n);
        patch(copy, (size_t)(at - bytes) + damage[k].size - 1, damage[k].change);
        assert_int_equal(read_file(copy, 1 << 20, ignore_value, NULL), YK_EDATA);
        snprintf(want, sizeof want, "ranges.parquet: row group 0, column '%s', page at byte ",
                 damage[k].column);
        assert_message(want);
        assert_message("a value is outside the range in the footer");
    }
}

/* A file that is replaced between opening and reading is not read with the old footer. */
static void test_changed(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    const char *const copy = in_directory("changed.parquet");
    const size_t n = get_file(CORPUS "v1-plain", bytes, sizeof bytes);
    yk_parquet *f;
    yk_parquet_reader *r;
    put(copy, bytes, n);
    assert_int_equal(yk_parquet_open(copy, &f), YK_OK);
    put(copy, bytes, n - 1);
    assert_int_equal(yk_parquet_read(f, 0, (size_t[]){0}, 1, 0, ROWS, &r), YK_EDATA);
    assert_message("changed.parquet: changed while it was being read");
    yk_parquet_free(f);
}

/* ---- the source */

static yk_status add_rows(void *context, const yk_rows *rows, const yk_reader *reader)
{
    (void)reader;
    return yk_rows_append(context, rows, 0, rows->n);
}

/* Initializes `rows`. */
static yk_status read_rows(const char *format, const char *path, const char *options, uint64_t skip_bad,
                           yk_rows *rows, uint64_t *bad_out)
{
    char spec[512];
    yk_source *s;
    const yk_source_options o = {.skip_bad = skip_bad, .fields = YK_FIELDS_ALL};
    snprintf(spec, sizeof spec, "%s:%s?%s", format, path, options);
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    yk_status st = yk_source_open(spec, YK_SPLIT_TRAIN, &o, &s);
    if (st)
        return st;
    yk_rows_init(rows, s->kind, s->kind == YK_ROWS_SPARSE ? 0 : s->dim);
    st = yk_source_each(s, add_rows, rows);
    *bad_out = atomic_load(&s->bad);
    yk_source_free(s);
    return st;
}

static void assert_same_rows(const yk_rows *a, const yk_rows *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->label, b->label, a->n * sizeof *a->label);
    if (a->kind == YK_ROWS_F32) {
        assert_int_equal(a->dim, b->dim);
        assert_memory_equal(a->f32, b->f32, a->n * a->dim * sizeof *a->f32);
        return;
    }
    assert_memory_equal(a->start, b->start, (a->n + 1) * sizeof *a->start);
    assert_memory_equal(a->index, b->index, a->start[a->n] * sizeof *a->index);
    for (uint64_t e = 0; e < a->start[a->n]; e++)
        assert_true(yk_rows_value(a, e) == yk_rows_value(b, e));
    assert_int_equal(!a->field, !b->field);
    if (a->field)
        assert_memory_equal(a->field, b->field, a->start[a->n] * sizeof *a->field);
}

static void write_csv(const char *path)
{
    FILE *f = fopen(path, "w");
    fprintf(f, "flag,small,count,big,ratio,exact,city,name,day,time\n");
    for (uint64_t row = 0; row < ROWS; row++)
        for (size_t column = 0; column < 10; column++) {
            char value[256];
            expected(value, sizeof value, row, column);
            const bool null = !strcmp(value, "null"), quote = strchr(value, ',');
            fprintf(f, "%s%s%s%s", quote ? "\"" : "", null ? "" : value, quote ? "\"" : "",
                    column < 9 ? "," : "\n");
        }
    assert_int_equal(fclose(f), 0);
}

static void test_rows_are_those_of_csv(void **state)
{
    (void)state;
    static const char *const options[] = {
        "",
        "&scale=log",
        "&scale=standard",
        "&encode=onehot",
        "&encode=dense&scale=standard",
        "&missing=Rome,-79",
        "&split=0.5",
        "&split=0.2..0.6&split-by=name&encode=onehot",
        "&split=0.5&scale=standard&ignore=time,day",
        "&scale=standard&fit=" CORPUS "v1-plain",
    };
    const char *const csv = in_directory("same.csv");
    write_csv(csv);
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        char how[256];
        yk_rows want;
        uint64_t bad;
        const char *const bits = strstr(options[k], "encode=") ? "" : "&bits=10";
        snprintf(how, sizeof how, "label=flag&categorical=city,name,count%s%s", bits,
                 strstr(options[k], "&fit=") ? "&scale=standard" : options[k]);
        if (read_rows("csv", csv, how, 0, &want, &bad))
            fail_msg("%s", yk_error());
        assert_true(want.n > 5);
        snprintf(how, sizeof how, "label=flag&categorical=city,name,count%s%s", bits, options[k]);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char path[256];
            yk_rows rows;
            snprintf(path, sizeof path, CORPUS "%s", names[i]);
            if (read_rows("parquet", path, how, 0, &rows, &bad))
                fail_msg("%s", yk_error());
            assert_same_rows(&want, &rows);
            yk_rows_fini(&rows);
        }
        yk_rows_fini(&want);
    }
}

/* Texts are categorical, anything else is numeric, unless an option says otherwise. */
static void test_roles_follow_from_types(void **state)
{
    (void)state;
    yk_rows a, b;
    uint64_t bad;
    assert_int_equal(read_rows("parquet", CORPUS "v1-plain", "label=flag&bits=10", 0, &a, &bad), YK_OK);
    assert_int_equal(
        read_rows("parquet", CORPUS "v1-plain", "label=flag&bits=10&categorical=city,name", 0, &b, &bad),
        YK_OK);
    assert_same_rows(&a, &b);
    yk_rows_fini(&a);
    yk_rows_fini(&b);
}

static void test_several_files(void **state)
{
    (void)state;
    yk_rows rows;
    uint64_t bad;
    assert_int_equal(read_rows("parquet", CORPUS "v1-plain," CORPUS "v2-zstd", "label=flag", 0, &rows, &bad),
                     YK_OK);
    assert_int_equal(rows.n, 2 * ROWS);
    yk_rows_fini(&rows);
    assert_int_equal(read_rows("parquet", CORPUS "v1-plain," CORPUS "refused", "label=flag", 0, &rows, &bad),
                     YK_EDATA);
    assert_message("refused: the column 'flag' is missing");

    static uint8_t bytes[8192]; /* a file where `name` and `flag` have each other's names, and so types */
    const char *const swapped = in_directory("swapped.parquet");
    const size_t n = get_file(CORPUS "v1-plain", bytes, sizeof bytes);
    for (size_t i = n / 2; i + 4 < n; i++)
        if (!memcmp(bytes + i, "flag", 4) || !memcmp(bytes + i, "name", 4))
            memcpy(bytes + i, bytes[i] == 'f' ? "name" : "flag", 4);
    put(swapped, bytes, n);
    char both[256];
    snprintf(both, sizeof both, CORPUS "v1-plain,%s", swapped);
    assert_int_equal(read_rows("parquet", both, "label=flag", 0, &rows, &bad), YK_EDATA);
    assert_message("swapped.parquet: the column 'name' has the type BOOLEAN, but STRING in " CORPUS
                   "v1-plain");
    assert_int_equal(read_rows("parquet", both, "label=none&categorical=name,flag,city", 0, &rows, &bad),
                     YK_OK);
    yk_rows_fini(&rows);

    get_file(CORPUS "v1-plain", bytes, sizeof bytes); /* not the column `sma` */
    for (size_t i = n / 2; i + 5 < n; i++)
        if (!memcmp(bytes + i, "small", 5))
            bytes[i + 3] = 0;
    put(swapped, bytes, n);
    assert_int_equal(read_rows("parquet", swapped, "label=flag", 0, &rows, &bad), YK_EDATA);
    assert_message("the name of the column 'sma' contains a null character");

    get_file(CORPUS "v1-plain", bytes, sizeof bytes); /* `small` is BOOLEAN */
    for (size_t i = n / 2; i + 5 < n; i++)
        if (!memcmp(bytes + i, "small", 5) && bytes[i - 5] == 2)
            bytes[i - 5] = 0;
    put(swapped, bytes, n);
    assert_int_equal(read_rows("parquet", both, "label=flag&categorical=small", 0, &rows, &bad), YK_EDATA);
    assert_message("swapped.parquet: the column 'small' has the type BOOLEAN, but INT32 in " CORPUS
                   "v1-plain");
}

/* Each bad row counts once, and is located. */
static void test_bad_rows(void **state)
{
    (void)state;
    yk_rows rows;
    uint64_t bad;
    const char *const how = "label=flag&numeric=city,name&ignore=name"; /* text that is not a number */
    assert_int_equal(read_rows("parquet", CORPUS "v1-snappy", "label=flag&numeric=city", 0, &rows, &bad),
                     YK_EDATA);
    assert_message("v1-snappy: row 1 at byte ");
    assert_message("'Paris' is not a number");
    yk_rows_fini(&rows);
    assert_int_equal(read_rows("parquet", CORPUS "v1-snappy", how, 0, &rows, &bad), YK_EUSAGE);
    assert_message("listed twice");
    assert_int_equal(read_rows("parquet", CORPUS "v1-snappy", "label=flag&numeric=city", 100, &rows, &bad),
                     YK_OK);
    assert_int_equal(rows.n, 6); /* where it is null */
    assert_int_equal(bad, ROWS - 6);
    yk_rows_fini(&rows);
    assert_int_equal(read_rows("parquet", CORPUS "v1-snappy", "label=small", 0, &rows, &bad), YK_EDATA);
    assert_message("the label '-100' is not a class");
    yk_rows_fini(&rows);
}

static void test_source_refuses(void **state)
{
    (void)state;
    yk_rows rows;
    uint64_t bad;
    assert_int_equal(read_rows("parquet", CORPUS "refused", "label=x", 0, &rows, &bad), YK_EDATA);
    assert_message("refused: column 'price': DECIMAL cannot be read; leave it out with ignore=");
    assert_int_equal(read_rows("parquet", CORPUS "refused",
                               "label=x&ignore=price,list,pair,uuid,old,brotli,split", 0, &rows, &bad),
                     YK_EDATA);
    assert_message("no column is left");
    assert_int_equal(
        read_rows("parquet", CORPUS "v1-plain", "label=flag&scale=standard&fit=/none", 0, &rows, &bad),
        YK_EDATA);
    assert_message("/none: no such file");
    assert_int_equal(read_rows("parquet", CORPUS "v1-plain",
                               "label=flag&scale=standard&fit=" CORPUS "refused", 0, &rows, &bad),
                     YK_EDATA);
    assert_message("refused: the column 'big' is missing");
    assert_int_equal(read_rows("parquet", CORPUS "v1-plain", "label=flag&delimiter=tab", 0, &rows, &bad),
                     YK_EUSAGE);
    assert_message("delimiter");
}

/* ---- for tests/interop/parquet_test.py */

static void print_one(void *context, uint64_t row, size_t column, const char *value)
{
    (void)row;
    if (column == 0 && (*(size_t *)context)++)
        putchar('\n');
    printf("%s%s", column ? "\t" : "", value);
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--read")) {
        size_t rows = 0;
        if (read_file(argv[2], (uint64_t)atoll(argv[3]), print_one, &rows)) {
            fprintf(stderr, "%s\n", yk_error());
            return 1;
        }
        if (rows)
            putchar('\n');
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_dictionary),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_damage_is_located),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_rows_are_those_of_csv),
        cmocka_unit_test(test_roles_follow_from_types),
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_bad_rows),
        cmocka_unit_test(test_source_refuses),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
