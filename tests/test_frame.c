/* format/arrow.h and data/frame.h on Arrow arrays that are made by hand: every type, nulls, offsets, several arrays, streams that are
 * read once, damage. The rows are those of the same values as CSV. */
#include "read_all.h"

#include "data/columns.h"
#include "data/dataset.h"
#include "data/frame.h"
#include <yoke.h>

/* ---- a table of two arrays: rows 0 to 3, and rows 4 and 5. Buffers begin with values that an offset skips. */

enum { COLUMNS = 16, FIRST = 4, ROWS = 6 };

/* As CSV, with dates and times as numbers (19001, 1.5) or as texts. */
#define TABLE(AS)                                                                                                                               \
    "flag,tiny,byte,word,count,big,id,half,ratio,day,late,when,city,long,view,plan,code,clicked\n"                                              \
    "true,-5,200,-3000,4000000000,-7,18446744073709551615,0.5,1.25,19000," AS(                                                                  \
        "19001,1.5",                                                                                                                            \
        "2022-01-09,1970-01-01 00:00:01.5") ",Rome,a,short,x,7,1\n"                                                                             \
                                            "false,4,1,2,3,,5,-2,,19001," AS(                                                                   \
                                                "19002,2.5",                                                                                    \
                                                "2022-01-10,1970-01-01 "                                                                        \
                                                "00:00:02.5") ",Oslo,bb,a text "                                                                \
                                                              "of more than 12 "                                                                \
                                                              "bytes,y,-3,0\n"                                                                  \
                                                              "true,,2,3,4,8,6,"                                                                \
                                                              "65504,0.5,"                                                                      \
                                                              "19002," AS(                                                                      \
                                                                  "19003,3.5",                                                                  \
                                                                  "2022-01-11,"                                                                 \
                                                                  "1970-01-01 "                                                                 \
                                                                  "00:00:03.5") ",,ccc,,x,7,1\n"                                                \
                                                                                "false,6,3,4,5,9,7,0.125,-"                                     \
                                                                                "1,," AS(                                                       \
                                                                                    "19004,4.5",                                                \
                                                                                    "2022-01-12,1970-01-01 "                                    \
                                                                                    "00:00:04.5") ",Rome,"                                      \
                                                                                                  "dddd,"                                       \
                                                                                                  "short,,,"                                    \
                                                                                                  "0\n"                                         \
                                                                                                  "true,7,"                                     \
                                                                                                  "4,5,6,"                                      \
                                                                                                  "10,8,1,"                                     \
                                                                                                  "2,"                                          \
                                                                                                  "19004"                                       \
                                                                                                  "," AS(                                       \
                                                                                                      "1900"                                    \
                                                                                                      "5,",                                     \
                                                                                                      "2022"                                    \
                                                                                                      "-01-"                                    \
                                                                                                      "13,") ",Oslo,,x,y,-3,1\n"                \
                                                                                                             "true,8,5,6,7,11,9,2,3,19005," AS( \
                                                                                                                 "19006,6.5",                   \
                                                                                                                 "2022-01-14,1970-01-01 00:00:06.5") ",Rome,f,y,x,7,0\n"
#define NUMBERS(number, text) number
#define TEXTS(number, text)   text

static const char csv[] = TABLE(NUMBERS), dated[] = TABLE(TEXTS);

static const char *const name[] = {"flag",  "tiny", "byte", "word", "count", "big",  "id",   "half",
                                   "ratio", "day",  "late", "when", "city",  "long", "view", "plan"};
static const char *const format[] = {"b", "c",   "C",   "s",       "I", "l", "L",  "e",
                                     "g", "tdD", "tdm", "tsm:UTC", "u", "U", "vu", "c"};

static int8_t tiny[] = {99, -5, 4, 0, 6, 7, 8};
static uint8_t flag[] = {0x35 << 1 | 1}, byte[] = {99, 200, 1, 2, 3, 4, 5};
static int16_t word[] = {99, -3000, 2, 3, 4, 5, 6};
static uint32_t count[] = {99, 4000000000u, 3, 4, 5, 6, 7};
static int64_t big[] = {99, -7, 0, 8, 9, 10, 11};
static uint64_t id[] = {99, UINT64_MAX, 5, 6, 7, 8, 9};
static uint16_t half[] = {0, 0x3800, 0xc000, 0x7bff, 0x3000, 0x3c00, 0x4000};
static double ratio[] = {99, 1.25, 0, 0.5, -1, 2, 3};
static int32_t day[] = {99, 19000, 19001, 19002, 0, 19004, 19005};
static int64_t late[7], when[] = {99, 1500, 2500, 3500, 4500, 0, 6500};
static int32_t city_at[] = {0, 2, 6, 10, 10, 14, 18, 22};
static const char city[] = "--RomeOsloRomeOsloRome";
static int64_t long_at[] = {0, 2, 3, 5, 8, 12, 12, 13};
static const char long_text[] = "--abbcccddddf", view_bytes[] = "..a text of more than 12 bytes";
static char view[7][16];
static int8_t plan[] = {99, 0, 1, 0, 5, 1, 0};
static int32_t plan_at[] = {0, 1, 2};
static int64_t code[] = {7, -3};
static int64_t view_sizes[] = {30};

static struct ArrowSchema schemas[COLUMNS + 2], *children[COLUMNS + 2], top, plans = {.format = "u"},
                                                                             codes = {.format = "l"};
static struct ArrowArray arrays[2][COLUMNS + 2], *array_children[2][COLUMNS + 2], tops[2], plan_values,
    code_values;
static const void *buffers[2][COLUMNS + 2][4], *plan_buffers[3] = {NULL, plan_at, "xy"},
                                               *code_buffers[2] = {NULL, code};
static uint8_t valid[COLUMNS + 2];
static int released, served, failing;

static void set_view(size_t i, const char *text, int32_t at)
{
    const int32_t n = (int32_t)strlen(text), where[2] = {0, at};
    memcpy(view[i], &n, 4);
    memcpy(view[i] + 4, text, n < 12 ? (size_t)n : 4);
    if (n > 12)
        memcpy(view[i] + 8, where, 8);
}

static void release_array(struct ArrowArray *a)
{
    a->release = NULL;
    released++;
}

static void release_schema(struct ArrowSchema *s)
{
    s->release = NULL;
    released++;
}

/* Bits: the value of row i is valid; bit 0 is skipped by the offset. */
static void make_table(void)
{
    void *values[] = {flag, tiny, byte, word,    count,   big,  id,   half, ratio,
                      day,  late, when, city_at, long_at, view, plan, plan};
    for (int i = 1; i < 7; i++)
        late[i] = (19000 + i) * 86400000LL;
    set_view(1, "short", 0);
    set_view(2, "a text of more than 12 bytes", 2);
    memset(view[3], 0xff, sizeof view[3]); /* null: anything */
    set_view(4, "short", 0);
    set_view(5, "x", 0);
    set_view(6, "y", 0);
    memset(valid, 0xff, sizeof valid);
    valid[1] = (uint8_t) ~(1u << 3), valid[5] = valid[8] = (uint8_t) ~(1u << 2),
    valid[9] = valid[15] = valid[16] = (uint8_t) ~(1u << 4);
    valid[11] = (uint8_t) ~(1u << 5), valid[12] = valid[14] = (uint8_t) ~(1u << 3),
    valid[13] = (uint8_t) ~(1u << 5);
    plan_values = (struct ArrowArray){.length = 2, .n_buffers = 3, .buffers = plan_buffers};
    code_values = (struct ArrowArray){.length = 2, .n_buffers = 2, .buffers = code_buffers};
    for (size_t c = 0; c <= COLUMNS; c++) {
        const bool text = c == 12 || c == 13;
        schemas[c] = (struct ArrowSchema){.format = c == COLUMNS ? "c" : format[c],
                                          .name = c == COLUMNS ? "code" : name[c]};
        schemas[c].dictionary = c == 15 ? &plans : c == 16 ? &codes : NULL;
        children[c] = &schemas[c];
        for (int b = 0; b < 2; b++) {
            const bool nulls = valid[c] != 0xff;
            buffers[b][c][0] = nulls ? &valid[c] : NULL;
            buffers[b][c][1] = values[c];
            buffers[b][c][2] = c == 12 ? city : c == 13 ? long_text : view_bytes;
            buffers[b][c][3] = view_sizes;
            arrays[b][c] = (struct ArrowArray){.length = FIRST + (b ? 0 : 2),
                                               .null_count = nulls ? -1 : 0,
                                               .n_buffers = text      ? 3
                                                            : c == 14 ? 4
                                                                      : 2,
                                               .buffers = buffers[b][c],
                                               .dictionary = c == 15   ? &plan_values
                                                             : c == 16 ? &code_values
                                                                       : NULL};
            /* the offset is in the column, in the table, or in both */
            arrays[b][c].offset = b ? 3 : 1;
            array_children[b][c] = &arrays[b][c];
        }
    }
    top = (struct ArrowSchema){
        .format = "+s", .n_children = COLUMNS + 1, .children = children, .release = release_schema};
    tops[0] = (struct ArrowArray){.length = FIRST, .n_children = COLUMNS + 1, .children = array_children[0]};
    tops[1] = (struct ArrowArray){
        .length = ROWS - FIRST, .offset = 2, .n_children = COLUMNS + 1, .children = array_children[1]};
    released = served = failing = 0;
}

static int get_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    (void)s;
    *out = top;
    return 0;
}

static int get_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    (void)s;
    if (failing && served == failing)
        return 5;
    *out = served < 2 ? tops[served++] : (struct ArrowArray){0};
    out->release = out->children ? release_array : NULL;
    return 0;
}

static const char *last_error(struct ArrowArrayStream *s)
{
    (void)s;
    return "the database is gone";
}

static void release_stream(struct ArrowArrayStream *s)
{
    s->release = NULL;
    released++;
}

static const int32_t labels[] = {1, 0, 1, 0, 1, 0};

static yk_status make_frame(const char *options, const int32_t *given, bool once, yk_frame **out)
{
    struct ArrowArrayStream stream = {get_schema, get_next, last_error, release_stream, NULL};
    const yoke_arrow from = {.stream = &stream,
                             .options = options,
                             .labels = given,
                             .rows = ROWS,
                             .label = "clicked",
                             .stream_once = once};
    const yk_status st = yk_frame_create(&from, out);
    assert_null(stream.release);
    return st;
}

static yk_status read_source(yk_source *s, yk_rows *rows)
{
    yk_status st = YK_OK;
    yk_rows_init(rows, s->kind, s->dim);
    for (size_t b = 0; b < s->nblocks && !st; b++) {
        yk_reader *r = NULL;
        size_t got = 1;
        if ((st = yk_source_read(s, b, &r)))
            break;
        while (got && !(st = yk_reader_next(r, rows, 3, &got)))
            ;
        yk_reader_free(r);
    }
    return st;
}

static void assert_same(const yk_rows *a, const yk_rows *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->label, b->label, a->n * sizeof *a->label);
    assert_memory_equal(a->start, b->start, (a->n + 1) * sizeof *a->start);
    assert_memory_equal(a->index, b->index, a->start[a->n] * sizeof *a->index);
    assert_memory_equal(a->value, b->value, a->start[a->n] * sizeof *a->value);
}

static const char *const options[] = {
    "categorical=city,long,view,plan,code&bits=12",
    "categorical=city,long,view,plan,code,id,tiny,half&bits=12&scale=log",
    "numeric=ratio,big,day&bits=14&missing=8,Rome",
    "categorical=city,long,view,plan,code&encode=onehot&scale=standard",
};

/* In memory, training data is in the same random order. */
static void compare_order(const char *csv_spec, yk_frame *f)
{
    yk_dataset want, got;
    yk_source *s;
    assert_int_equal(
        yk_dataset_open(csv_spec, YK_SPLIT_TRAIN, &(yk_source_options){0}, YK_STREAM_NEVER, &want), YK_OK);
    assert_int_equal(yk_source_from_frame(f, &(yk_source_options){0}, &s), YK_OK);
    assert_int_equal(yk_dataset_take(s, YK_SPLIT_TRAIN, YK_STREAM_NEVER, &got), YK_OK);
    assert_true(want.shuffled && got.shuffled);
    assert_same(want.rows, got.rows);
    yk_dataset_fini(&want);
    yk_dataset_fini(&got);
}

/* once: the label is the column `flag`; otherwise, the labels of the caller. */
static void compare(const char *given, bool once)
{
    char spec[300], csv_spec[400];
    yk_frame *f;
    yk_source *s;
    yk_rows want, got;
    snprintf(spec, sizeof spec, "%s%s", given, once ? "&label=flag" : "");
    snprintf(csv_spec, sizeof csv_spec, "csv:%s?%s%s",
             in_directory(strncmp(given, "numeric", 7) ? "a.csv" : "dated.csv"), spec,
             once ? "&ignore=clicked" : "&label=clicked");
    assert_int_equal(read_all(csv_spec, NULL, 2, &want, NULL), YK_OK);
    make_table();
    assert_int_equal(make_frame(spec, once ? NULL : labels, once, &f), YK_OK);
    if (yk_source_from_frame(f, &(yk_source_options){0}, &s))
        fail_msg("%s", yk_error());
    assert_true(once ? s->once && !s->examples : s->examples == ROWS);
    for (int i = 0; i < (once ? 1 : 2); i++) {
        if (read_source(s, &got))
            fail_msg("%s", yk_error());
        assert_same(&want, &got);
        yk_rows_fini(&got);
    }
    if (once) {
        assert_int_equal(read_source(s, &got), YK_EUSAGE);
        assert_message("can be read only once");
        yk_rows_fini(&got);
    }
    yk_source_free(s);
    if (!once)
        compare_order(csv_spec, f);
    yk_frame_free(f);
    assert_int_equal(released, 4); /* the stream, its schema and two arrays */
    yk_rows_fini(&want);
}

static void rows_are_those_of_csv(void **state)
{
    (void)state;
    put(in_directory("a.csv"), csv, sizeof csv - 1);
    put(in_directory("dated.csv"), dated, sizeof dated - 1);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        compare(options[i], false);
    for (size_t i = 0; i < 3; i++)
        compare(options[i], true);
}

/* As in CSV files, whatever the type. */
static void texts_of_numbers(void **state)
{
    (void)state;
    static const struct {
        yk_parquet_form form;
        int64_t integer;
        double real;
        const char *text;
    } cases[] = {{YK_PARQUET_NUMBER, 1000000, 0, "1000000"},
                 {YK_PARQUET_NUMBER, INT64_MIN, 0, "-9223372036854775808"},
                 {YK_PARQUET_UNSIGNED, -1, 0, "18446744073709551615"},
                 {YK_PARQUET_BOOLEAN, 1, 0, "true"},
                 {YK_PARQUET_BOOLEAN, 0, 0, "false"},
                 {YK_PARQUET_NUMBER, 0, 2.5, "2.5"},
                 {YK_PARQUET_NUMBER, 0, 0.1f, "0.10000000149011612"},
                 {YK_PARQUET_FLOAT, 0, 0.1f, "0.1"},
                 {YK_PARQUET_HALF, 0, 0.0999755859375, "0.1"},
                 {YK_PARQUET_NUMBER, 0, NAN, ""},
                 {YK_PARQUET_DATE, 0, 0, "1970-01-01"},
                 {YK_PARQUET_DATE, 19782, 0, "2024-02-29"},
                 {YK_PARQUET_DATE, -719162, 0, "0001-01-01"},
                 {YK_PARQUET_DATE, 2932896, 0, "9999-12-31"},
                 {YK_PARQUET_DATE, 2932897, 0, "2932897"},
                 {YK_PARQUET_TIME, 0, 946729800, "2000-01-01 12:30:00"},
                 {YK_PARQUET_TIME, 0, -0.25, "1969-12-31 23:59:59.75"},
                 {YK_PARQUET_TIME, 0, 1700000000.123456, "2023-11-14 22:13:20.123456"},
                 {YK_PARQUET_TIME, 0, 1e300, "1e+300"}};
    for (int64_t at = -719162; at <= 2932896; at += 97) { /* what is written can be read */
        char text[YK_PARQUET_TEXT_SIZE];
        double v;
        yk_parquet_number_text(&(yk_parquet_values){.form = YK_PARQUET_DATE, .integer = &at}, 0, text);
        assert_true(yk_cell_number_of(&(yk_schema_column){.type = "date"}, text, strlen(text), &v) &&
                    v == (double)at);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[YK_PARQUET_TEXT_SIZE];
        yk_parquet_values v = {.form = cases[i].form};
        if (cases[i].real != 0.0)
            v.real = &cases[i].real;
        else
            v.integer = &cases[i].integer;
        yk_parquet_number_text(&v, 0, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* Numbers match the names of classes as a person writes them. */
static void classes_are_numbers(void **state)
{
    (void)state;
    static const char *const specs[] = {"label=word&classes=-3000,2,3,4,5,6",
                                        "label=count&classes=4000000000,3,4,5,6,7.0",
                                        "label=half&classes=0.5,-2,65504,0.125,1,2"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        char spec[200];
        yk_frame *f;
        yk_source *s;
        yk_rows rows;
        snprintf(spec, sizeof spec, "%s&categorical=city&numeric=tiny&bits=12", specs[i]);
        make_table();
        assert_int_equal(make_frame(spec, NULL, false, &f), YK_OK);
        assert_int_equal(yk_source_from_frame(f, &(yk_source_options){0}, &s), YK_OK);
        if (read_source(s, &rows))
            fail_msg("%s", yk_error());
        for (int32_t r = 0; r < ROWS; r++)
            assert_int_equal(rows.label[r], r);
        yk_rows_fini(&rows);
        yk_source_free(s);
        yk_frame_free(f);
    }
}

/* A model matches columns by name: those that it has are found in another order, others are ignored, missing ones are named. */
static void models_match_names(void **state)
{
    (void)state;
    yk_frame *f;
    yk_source *s, *again;
    make_table();
    assert_int_equal(make_frame(options[0], labels, false, &f), YK_OK);
    assert_int_equal(yk_source_from_frame(f, &(yk_source_options){0}, &s), YK_OK);
    const yk_source_options model = {.schema = s->schema};
    yk_frame *other;
    yk_rows want, got;
    assert_int_equal(read_source(s, &want), YK_OK);
    make_table();
    for (size_t c = 0; c < 8; c++) { /* reverse the order; a dictionary is its array's */
        struct ArrowSchema *t = children[c];
        children[c] = children[COLUMNS - c];
        children[COLUMNS - c] = t;
        for (int b = 0; b < 2; b++) {
            struct ArrowArray *a = array_children[b][c];
            array_children[b][c] = array_children[b][COLUMNS - c];
            array_children[b][COLUMNS - c] = a;
        }
    }
    assert_int_equal(make_frame(NULL, labels, false, &other), YK_OK);
    assert_int_equal(yk_source_from_frame(other, &model, &again), YK_OK);
    assert_int_equal(read_source(again, &got), YK_OK);
    assert_same(&want, &got);
    yk_rows_fini(&want);
    yk_rows_fini(&got);
    yk_source_free(again);
    schemas[3].name = "words";
    assert_int_equal(yk_source_from_frame(other, &model, &again), YK_EDATA);
    assert_message("frame: the column 'word' is missing");
    yk_frame_free(other);
    yk_source_free(s);
    yk_frame_free(f);
}

/* Texts of dates, for a model that was trained on dates. */
static void dates_of_texts(void **state)
{
    (void)state;
    static const struct {
        const char *type, *text;
        double want; /* NaN: not a number */
    } cases[] = {{"date", "2024-02-29", 19782},
                 {"DATE", " 1969-12-31 ", -1},
                 {"timestamp[us]", "1970-01-02T00:00:01.5", 86401.5},
                 {"TIMESTAMP", "2000-01-01 12:30", 946729800},
                 {"timestamp[s]", "1970-01-01T00:00:09Z", 9},
                 {"timestamp[s]", "1970-01-01 00:00:09+00:00", 9},
                 {"timestamp[s]", "1970-01-01 00:00:09+01:00", -3591},
                 {"timestamp[s]", "1970-01-01 00:00:09-00:30", 1809},
                 {"timestamp[s]", "1970-01-01 00:00:09 Z", NAN},
                 {"timestamp[s]", "1970-01-01 00:00:09+01:00Z", NAN},
                 {"timestamp[s]", "1970-13-01", NAN},
                 {"timestamp[s]", "1970-1-01", NAN},
                 {"date", "2024-02-30", NAN},
                 {"date", "2024- 1-05", NAN},
                 {"date", "202- 10-05", NAN},
                 {"timestamp[s]", "1970-01-01T1:2:3", NAN},
                 {"timestamp[s]", "1970-01-01T 12:30", NAN},
                 {"timestamp[s]", "1970-01-01T12:30:00.5e3", NAN},
                 {"date", "2023-02-29", NAN},
                 {"date", "2023-12-31", 19722},
                 {"timestamp[s]", "1970-01-01 25:00:00", NAN},
                 {"timestamp[s]", "1970-01-01 23:60", NAN},
                 {"date", "1970-01-01T", NAN},
                 {"date", "1970-01-01T23:00:00-05:00", 1}, /* in UTC */
                 {"date", "17.5", 17.5},
                 {"float64", "2024-02-29", NAN},
                 {"number", "True", 1},
                 {"bool", "false", 0},
                 {"bool", "yes", NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_schema_column c = {0};
        double v = NAN;
        strcpy(c.type, cases[i].type);
        const bool ok = yk_cell_number_of(&c, cases[i].text, strlen(cases[i].text), &v);
        assert_true(isnan(cases[i].want) ? !ok : ok && v == cases[i].want);
    }
}

static void fails(yk_status want, const char *message)
{
    yk_frame *f;
    yk_source *s = NULL;
    yk_rows rows = {0};
    yk_status st = make_frame("categorical=city&bits=12", labels, false, &f);
    if (!st)
        st = yk_source_from_frame(f, &(yk_source_options){0}, &s);
    if (!st)
        st = read_source(s, &rows);
    assert_int_equal(st, want);
    assert_message(message);
    yk_rows_fini(&rows);
    yk_source_free(s);
    yk_frame_free(f);
    make_table();
}

/* What cannot be read is refused with the name of the column; damage is found where the interface gives sizes. */
static void bad_tables_are_refused(void **state)
{
    (void)state;
    make_table();
    yk_frame *f;
    assert_int_equal(make_frame(options[0], labels, true, &f), YK_EUSAGE);
    assert_message("frame: the label and the weight of a stream must be columns of the stream");
    make_table();
    schemas[5].format = "d:19,2";
    fails(YK_EDATA, "column 6 (big): values of the type decimal are not supported");
    schemas[5].format = "+l";
    fails(YK_EDATA, "list");
    plan[1] = 2;
    fails(YK_EDATA, "column 'plan': an index into its dictionary is 2, but the dictionary has 2 values");
    plan[1] = 0;
    half[2] = 0x7c00;
    fails(YK_EDATA, "frame: row 1: column 8 (half): 'inf' is not a number");
    half[2] = 0xc000;
    arrays[1][7].length = 1;
    fails(YK_EDATA, "not a table of 17 columns");
    arrays[0][5].n_buffers = 1;
    fails(YK_EDATA, "column 'big': its Arrow array does not have the buffers of its type");
    top.format = "l";
    fails(YK_EUSAGE, "not a table");
    failing = 1;
    fails(YK_EDATA, "the database is gone");
    tops[1].length = 0; /* an empty array is skipped */
    fails(YK_EUSAGE, "6 labels");
}

/* yoke.h: trains on a stream that is read once, and predicts with its columns in place. */
static void library(void **state)
{
    (void)state;
    static const char *const settings[][2] = {
        {"model", "logreg"}, {"epochs", "1"}, {"lr", "0.01"}, {"out", "none"}, {"batch", "2"}};
    yoke_options *o = yoke_options_create();
    yoke_error error;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_int_equal(yoke_options_set(o, settings[i][0], settings[i][1], &error), YOKE_OK);
    struct ArrowArrayStream stream = {get_schema, get_next, last_error, release_stream, NULL};
    yoke_arrow arrow = YOKE_ARROW_INIT;
    yoke_data *data;
    make_table();
    arrow.stream = &stream;
    arrow.options = "label=flag&categorical=city&scale=log&classes=2&bits=10&ignore=id,count";
    arrow.stream_once = 1;
    assert_int_equal(yoke_data_from_arrow(&arrow, &data, &error), YOKE_OK);
    const char *type;
    assert_string_equal(yoke_data_column(data, 11, &type), "when");
    assert_string_equal(type, "timestamp[ms]");
    assert_null(yoke_data_column(data, COLUMNS + 1, NULL));
    yoke_training training = YOKE_TRAINING_INIT;
    training.options = o;
    training.data = data;
    yoke_run *run;
    yoke_model *model;
    if (yoke_train(&training, &run, &error))
        fail_msg("%s", error.message);
    assert_true(yoke_run_number(run, "examples") == ROWS);
    assert_int_equal(yoke_run_model(run, &model, &error), YOKE_OK);
    yoke_data_free(data);
    assert_int_equal(yoke_data_from_arrow(&arrow, &data, &error), YOKE_BAD_USAGE); /* the stream is empty */
    assert_non_null(strstr(error.message, "has already been read"));

    make_table();
    stream.release = release_stream;
    arrow.options = NULL;
    arrow.stream_once = 0;
    assert_int_equal(yoke_data_from_arrow(&arrow, &data, &error), YOKE_OK);
    float p[ROWS];
    yoke_score score;
    assert_int_equal(yoke_predict_array(model, data, p, ROWS, &error), YOKE_OK);
    assert_true(p[0] > 0.0f && p[0] < 1.0f);
    assert_int_equal(yoke_evaluate(model, data, &score, &error), YOKE_OK);
    assert_int_equal(score.examples, ROWS);
    yoke_data_free(data);
    yoke_model_free(model);
    yoke_run_free(run);
    yoke_options_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_csv),
        cmocka_unit_test(classes_are_numbers),
        cmocka_unit_test(texts_of_numbers),
        cmocka_unit_test(models_match_names),
        cmocka_unit_test(dates_of_texts),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(library),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
