/* csv:FILES: columns, encodings, quotes, missing values, blocks, every fault that it names. */
#include "read_all.h"

#include "base/rng.h"
#include "data/tabular.h"
#include <math.h>

static char spec[512];

/* A new file with this text, and a spec for it. */
static const char *csv(const char *text, const char *options)
{
    const char *path = new_path(".csv");
    put(path, text, strlen(text));
    snprintf(spec, sizeof spec, "csv:%s%s", path, options);
    return spec;
}

static void read_well(const char *text, yk_rows *rows)
{
    if (read_all(text, NULL, 7, rows, NULL))
        fail_msg("%s", yk_error());
}

static void expect(yk_status expected, const char *text, const char *part)
{
    yk_rows rows = {0};
    assert_error(read_all(text, NULL, 7, &rows, NULL), expected, part);
    yk_rows_fini(&rows);
}

static void expect_dense(const char *text, size_t n, size_t dim, const float *x, const int32_t *label)
{
    yk_rows rows;
    read_well(text, &rows);
    assert_int_equal(rows.kind, YK_ROWS_F32);
    assert_int_equal(rows.n, n);
    assert_int_equal(rows.dim, dim);
    for (size_t i = 0; i < n * dim; i++)
        if (rows.f32[i] != x[i])
            fail_msg("%s: value %zu is %g, not %g", text, i, (double)rows.f32[i], (double)x[i]);
    assert_memory_equal(rows.label, label, n * sizeof *label);
    yk_rows_fini(&rows);
}

static void numeric_columns_are_dense(void **state)
{
    (void)state;
    static const float x[] = {1.5f, -2, 0, 12345678, 1e-3f, -0.25f};
    static const int32_t y[] = {1, 0, 2};
    expect_dense(csv("label,a,b\n1,1.5,-2\n0,0,12345678\n2,1e-3, -.25 \n", ""), 3, 2, x, y);
    expect_dense(csv("\xef\xbb\xbflabel,a,b\r\n1,1.5,-2\r\n\r\n0,0,12345678\r\n2,1e-3,-.25", ""), 3, 2, x, y);
    expect_dense(csv("1,1.5,-2\n0,0,12345678\n2,1e-3,-.25\n", ""), 3, 2, x, y);
    expect_dense(csv("1;1.5;-2\n0;0;12345678\n2;1e-3;-.25\n", ""), 3, 2, x, y);
    expect_dense(csv("1\t1.5\t-2\n0\t0\t12345678\n2\t1e-3\t-.25\n", ""), 3, 2, x, y);
    expect_dense(csv("1 1.5 -2\n0 0 12345678\n2 1e-3 -.25\n", "?delimiter=space"), 3, 2, x, y);
    expect_dense(csv("1:1.5:-2\n0:0:12345678\n2:1e-3:-.25\n", "?delimiter=:"), 3, 2, x, y);
    expect_dense(csv("\"1\",\"1.5\",-2\n0,0,\"12345678\"\n2,1e-3,-.25\n", ""), 3, 2, x, y);
    expect_dense(csv("1.5,-2,1\n0,12345678,0\n1e-3,-.25,2\n", "?label=-1"), 3, 2, x, y);
    expect_dense(csv("a,b,y\n1.5,-2,1\n0,12345678,0\n1e-3,-.25,2\n", "?label=y&classes=3"), 3, 2, x, y);
    expect_dense(csv("a,b,label\n1.5,-2,1\n0,12345678,0\n1e-3,-.25,2\n", ""), 3, 2, x, y);
    expect_dense(csv("a,id,b,y\n1.5,x,-2,no\n0,y,12345678,yes\n1e-3,z,-.25,maybe\n",
                     "?label=4&ignore=id&classes=yes,no,maybe"),
                 3, 2, x, y);
}

static void labels(void **state)
{
    (void)state;
    static const float x[] = {5, 6, 7};
    static const int32_t two[] = {0, 1, 0}, three[] = {1, 0, 2}, none[] = {0, 0, 0};
    expect_dense(csv("-1,5\n+1,6\n-1,7\n", ""), 3, 1, x, two);
    expect_dense(csv("no,5\nyes,6\nno,7\n", "?classes=no,yes"), 3, 1, x, two); /* not a header */
    expect_dense(csv("y,x\nb,5\na,6\nc,7\n", "?classes=a,b,c"), 3, 1, x, three);
    expect_dense(csv("5\n6\n7\n", "?label=none"), 3, 1, x, none);
    expect(YK_EDATA, csv("y,x\n0,5\n-1,5\n", ""), "line 3 at byte 8: column 1 (y): the label '-1'");
    expect(YK_EDATA, csv("y,x\n0,5\n,5\n", ""), "the label is missing");
    expect(YK_EDATA, csv("y,x\n0,5\n1.5,5\n", ""), "the label '1.5' is not a class");
    expect(YK_EDATA, csv("y,x\n0,5\nyes,5\n", ""), "list the classes with classes=NAME,NAME");
    expect(YK_EDATA, csv("y,x\n0,5\n2,5\n", "?classes=2"),
           "the label '2' is out of range: classes=2 allows 0 to 1");
    expect(YK_EDATA, csv("y,x\na,5\nc,5\n", "?classes=a,b"), "the label 'c' is not listed in classes=");
    expect(YK_EDATA, csv("y,x\na,5\n,5\n", "?classes=a,b"), "the label is missing");
    expect(YK_EUSAGE, csv("y,x\na,5\n", "?classes=a"), "at least two names");
    expect(YK_EUSAGE, csv("y,x\na,5\n", "?classes=a,b, a"), "classes: 'a' is listed twice");
}

static void header_names(void **state)
{
    (void)state;
    static const float x[] = {5, 6};
    static const int32_t y[] = {0, 1};
    expect_dense(csv("a, label \n5,0\n6,1\n", ""), 2, 1, x, y);
    expect_dense(csv("x, my col\n5,0\n6,1\n", "?label=my col"), 2, 1, x, y);
    expect_dense(csv("x, y\n5, no\n6, yes\n", "?label=y&classes=no, yes"), 2, 1, x, y);
    expect_dense(csv("y, z,\tx\n0,9,5\n1,9,6\n", "?numeric= x&ignore= z"), 2, 1, x, y);
    expect_dense(csv("x,\" label\",y\n5,9,0\n6,9,1\n", "?label=y&ignore=2"), 2, 1, x, y);
    expect_dense(csv("a,a,y\n5,9,0\n6,9,1\n", "?label=y&ignore=2"), 2, 1, x, y);
    expect(YK_EUSAGE, csv("a, a,y\n5,9,0\n", "?label=y&ignore=a"),
           "ignore: columns 1 and 2 are both named 'a'; use the number of one of them: ignore=1");
    expect(YK_EUSAGE, csv("label,x,label\n0,9,0\n", ""),
           "columns 1 (label) and 3 (label) may both be the label: add ?label=1 or ?label=3");
    expect_dense(csv("label,x,label\n0,5,9\n1,6,9\n", "?label=1&ignore=3"), 2, 1, x, y);
}

/* Models depend on hashes: they must never change. */
static void categories_are_hashed(void **state)
{
    (void)state;
    yk_rows rows;
    read_well(
        csv("label,n,city,text\n1,9.5,Paris,\"a \"\"b\"\", c\"\n0,,Rome,\n1,3,\"Paris\",a longer text\n",
            "?categorical=city,text"),
        &rows);
    assert_int_equal(rows.n, 3);
    assert_int_equal(rows.kind, YK_ROWS_SPARSE);
    static const uint64_t start[] = {0, 3, 4, 7};
    assert_memory_equal(rows.start, start, sizeof start);
    assert_int_equal(rows.index[0], 0);
    assert_true(rows.value[0] == 9.5f && rows.value[1] == 1.0f);
    uint64_t hash = 0;
    for (size_t i = 0; i < 7; i++)
        hash = yk_mix64(hash + rows.index[i]);
    assert_int_equal(hash, UINT64_C(0x3632696110fcf1af));
    yk_rows_fini(&rows);

    read_well(csv("1,x,x,x\n", "?categorical=2-&features=1&header=0"), &rows);
    assert_int_equal(rows.start[1], 1); /* all fall joint: one feature with value 1 */
    assert_null(rows.value);
    yk_rows_fini(&rows);
    const yk_source_options o = {.fields = YK_FIELDS_ALL};
    assert_int_equal(read_all(csv("1,5,x,x\n", "?categorical=3-&features=3&header=0"), &o, 7, &rows, NULL),
                     YK_OK);
    assert_int_equal(rows.start[1], 3);
    assert_int_equal(rows.field[0], 0);
    assert_int_equal(rows.field[1] + rows.field[2], 3);
    yk_rows_fini(&rows);
    expect(YK_EUSAGE, csv("1,5,x,x\n", "?categorical=3-&features=1&header=0"), "1 feature is not enough");
}

/* Quoted and plain, in the middle and at the end of a line, followed by bytes of any kind: one value, one hash. */
static void equal_values_have_equal_hashes(void **state)
{
    (void)state;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    char text[4096], *p = text;
    for (int n = 1; n <= 26; n++)
        p += sprintf(p, "1,%.*s,x\n1,\"%.*s\",x\n", n, letters, n, letters);
    yk_rows rows, last;
    read_well(csv(text, "?categorical=2&ignore=3&header=0"), &rows);
    p = text;
    for (int n = 1; n <= 26; n++)
        p += sprintf(p, "1,x,%.*s\n1,x,\"%.*s\"\r\n", n, letters, n, letters);
    read_well(csv(text, "?categorical=3&ignore=2&header=0"), &last);
    assert_int_equal(rows.n, 52);
    assert_int_equal(last.n, 52);
    for (size_t i = 0; i < 52; i += 2) {
        assert_int_equal(rows.index[i], rows.index[i + 1]);
        assert_int_equal(rows.index[i], last.index[i]);
        assert_int_equal(rows.index[i], last.index[i + 1]);
        assert_true(i == 0 || rows.index[i] != rows.index[i - 1]);
    }
    yk_rows_fini(&rows);
    yk_rows_fini(&last);
}

static void one_hot(void **state)
{
    (void)state;
    yk_rows rows;
    static const char text[] = "label,n,c,d\n1,2,x,p\n0,4,y,\n1,,x,q\n";
    read_well(csv(text, "?categorical=c,d&encode=onehot"), &rows);
    static const uint32_t index[] = {0, 1, 3, 0, 2, 1, 4};
    static const uint64_t start[] = {0, 3, 5, 7};
    assert_memory_equal(rows.start, start, sizeof start);
    assert_memory_equal(rows.index, index, sizeof index);
    yk_rows_fini(&rows);
    static const float x[] = {2, 1, 0, 1, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 1};
    static const int32_t y[] = {1, 0, 1};
    expect_dense(csv(text, "?categorical=c,d&encode=dense"), 3, 5, x, y);

    /* The test set has the columns of the training set, and a value that is new. */
    char options[512];
    snprintf(options, sizeof options, "?categorical=c,d&encode=dense&scale=standard&fit=%s",
             strchr(spec, ':') + 1);
    *strchr(strstr(options, "fit="), '?') = 0;
    static const float test[] = {1, 0, 0, 0, 1, -1, 0, 1, 0, 0};
    static const int32_t labels[] = {0, 1};
    expect_dense(csv("label,n,c,d\n0,4,new,q\n1,2,y,\n", options), 2, 5, test, labels);
    expect(YK_EUSAGE, csv(text, "?categorical=c,d&fit=x"), "fit is for encode=onehot");
    yk_source *s;
    assert_error(yk_source_open(csv(text, "?categorical=c,d&encode=onehot"), YK_SPLIT_TEST, NULL, &s),
                 YK_EUSAGE, "add fit=FILES with the training files");
}

static void scales(void **state)
{
    (void)state;
    static const int32_t y[] = {1, 0, 1};
    expect_dense(csv("1,5,3\n0,7,3\n1,,3\n", "?scale=standard"), 3, 2, (const float[]){-1, 0, 1, 0, 0, 0}, y);
    /* a mean that is not a float: milliseconds */
    expect_dense(
        csv("1,1700000000001,1700000000001\n0,1700000000003,1700000000001\n1,,\n", "?scale=standard"), 3, 2,
        (const float[]){-1, 0, 1, 0, 0, 0}, y);
    expect_dense(csv("1,0\n0,-5000\n1,3\n", "?scale=log"), 3, 1,
                 (const float[]){0, (float)-log1p(5000), (float)log1p(3)}, y);
}

static void missing_values(void **state)
{
    (void)state;
    static const float x[] = {0, 1, 0, 2, 0, 3};
    static const int32_t y[] = {1, 0, 1};
    expect_dense(csv("1,NA,1\n0,,2\n1,-999,3\n", "?missing=-999,?"), 3, 2, x, y);
    expect_dense(csv("1,-999.0,1\n0, -999 ,2\n1,-9.99e2,3\n", "?missing=-999"), 3, 2, x, y);
    static const float standard[] = {-1, 1, 0}; /* false is missing, 0 is not */
    expect_dense(csv("1,0\n0,2\n1,false\n", "?missing=false&scale=standard"), 3, 1, standard, y);
    yk_rows rows;
    read_well(csv("1,-1\n0,-1.0\n1,x\n", "?categorical=2&header=0&missing=-1"), &rows);
    assert_int_equal(rows.start[1], 0); /* categories are compared as texts */
    assert_int_equal(rows.start[3], 2);
    yk_rows_fini(&rows);
    read_well(csv("1,NA\n0,\n1,-\n", "?categorical=2&header=0&missing=-"), &rows);
    assert_int_equal(rows.start[1], 1); /* NA may be a value of a categorical column */
    assert_int_equal(rows.start[3], 1);
    yk_rows_fini(&rows);
}

static void line_breaks_in_quotes(void **state)
{
    (void)state;
    yk_rows rows;
    static const char text[] = "label,\"a\nname\",t\n1,5,\"one\ntwo\"\n0,6,\"\r\n\"\n1,7,x\n0,y,z\n";
    assert_int_equal(read_all(csv(text, "?multiline=1&categorical=t"), NULL, 7, &rows, NULL), YK_EDATA);
    assert_message("line 8 at byte");
    assert_int_equal(rows.n, 3);
    assert_int_equal(rows.start[3], 6);
    yk_rows_fini(&rows);
    expect(YK_EDATA, csv("label,a,t\n1,5,\"one\ntwo\"\n", "?categorical=t"), "add multiline=1");
}

static void faults(void **state)
{
    (void)state;
    static const struct {
        const char *text, *options, *part;
    } fault[] = {
        {"label,a,b\n1,2,3\n0,1\n", "", "line 3 at byte 16: 2 columns instead of 3; the delimiter is ','"},
        {"label,a,b\n1,2,3\n0,1,2,3\n", "", "line 3 at byte 16: 4 columns instead of 3"},
        {"label\ta\n1\t2\n1,2\n", "", "1 column instead of 2; the delimiter is 'tab'"},
        {"label,a\n1,2\n1,x\n1,3\n", "", "line 3 at byte 14: column 2 (a): 'x' is not a number"},
        {"label,a\n1,2\n1,Zürich\n", "", "'Zürich' is not a number"},
        {"label,a\n1,2\n1,Z\374r\033ich\302\233\n", "", "'Z?r?ich?\?' is not a number"},
        {"label,a\n1,2\n1,123456789012345678901234567890123456789日本\n", "", "6789日...' is not a number"},
        {"label,a\n1,2\n1,inf\n", "", "'inf' is not a number"},
        {"label,a\n1,2\n1,1e39\n", "",
         "line 3 at byte 14: column 2 (a): 1e39 is too large for a 32-bit float"},
        {"label,a\n1,2\n1,-1e999\n", "", "-1e999 is too large for a 32-bit float"},
        {"label,a\r1,2\r1,3\r", "", "the lines end with CR; they must end with LF or CR LF"},
        {"label,a\n0,\"x\n1,y\n", "?multiline=1&categorical=a&encode=onehot",
         "line 2 at byte 10: column 2 (a): the quote is not closed"},
        {"label,a\n1,2\n1,\"3\n", "", "column 2 (a): the quote is not closed on this line"},
        {"label,a\n1,2\n1,\"3\"4\n", "", "column 2 (a): text after the closing quote"},
        {"1,2\n1,0x3\n1,3\n", "", "line 2 at byte 6: column 2: '0x3' is not a number"},
    };
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++)
        expect(YK_EDATA, csv(fault[i].text, fault[i].options), fault[i].part);
    expect(YK_EUSAGE, csv("y,a,b\n1,x,2\n0,y,3\n", ""), "not numeric: a; add categorical=a");
    expect(YK_EUSAGE, csv("1,x,2\n0,y,3\n", ""), "not numeric: 2; add categorical=2");
    expect(YK_EUSAGE, csv("y;a;b\n1;1,5;2\n0;3,25;1\n", ""),
           "not numeric: a; numbers need a decimal point, not a comma; add categorical=a");
    expect(YK_EUSAGE, csv("1;1,5;2,5\n0;3,25;1,0\n", ""), "not numeric: 2,3; numbers need a decimal point");
    expect(YK_EDATA, csv("1;1.5\n0;3,25\n", "?delimiter=;"),
           "column 2: '3,25' is not a number; numbers need a decimal point, not a comma");
    expect(YK_EUSAGE, csv("y,a\n1,2\n", "?label=z"), "label: no column 'z'; the columns are: y, a");
    expect(YK_EUSAGE, csv("1,2\n", "?ignore=2,7"),
           "ignore: no column '7'; the columns have no names, only numbers from 1 to 2");
    expect(YK_EUSAGE, csv("1,2\n", "?ignore=2-1"), "no column '2-1'");
    expect(YK_EUSAGE, csv("1,2\n", "?numeric=2&ignore=2"), "column 2 is listed twice");
    expect(YK_EUSAGE, csv("1,2\n", "?label=1-2"), "must be one column");
    expect(YK_EUSAGE, csv("1,2\n", "?delimiter=ab"), "delimiter=ab: must be one character");
    expect(YK_EUSAGE, csv("1,2\n", "?encode=x"), "encode=x: must be one of: hash onehot dense");
    expect(YK_EDATA, csv("1,2\n", "?delimiter=tab"), "no column is left besides the label");
    expect(YK_EDATA, csv("\n1,2\n", ""), "the first line is empty");
}

static void bad_lines_can_be_skipped(void **state)
{
    (void)state;
    yk_rows rows;
    uint64_t bad;
    const yk_source_options o = {.skip_bad = 2};
    assert_int_equal(read_all(csv("1,2\n1,x\n0\n0,3\n", ""), &o, 7, &rows, &bad), YK_OK);
    assert_int_equal(rows.n, 2);
    assert_int_equal(bad, 2);
    yk_rows_fini(&rows);
}

static void every_file_has_the_header(void **state)
{
    (void)state;
    yk_rows rows;
    put(in_directory("h1.csv"), "label,a\n1,2\n", 12);
    put(in_directory("h2.csv"), "label,a\n0,3\n", 12);
    snprintf(spec, sizeof spec, "csv:%s/h*.csv", directory);
    read_well(spec, &rows);
    assert_int_equal(rows.n, 2);
    yk_rows_fini(&rows);
    put(in_directory("h3.csv"), "label,b\n0,3\n", 12);
    expect(YK_EDATA, spec, "h3.csv: the header has 'b' where the first file has column 2 (a)");
}

/* Lines of many lengths, in blocks that begin anywhere: each exactly once, also compressed. */
static void blocks_hold_each_line_once(void **state)
{
    (void)state;
    enum { N = 60000 };
    char *text = malloc(N * 64), *p = text;
    p += sprintf(p, "label,number,word\n");
    for (int i = 0; i < N; i++)
        p += sprintf(p, "%d,%d,\"%.*s\"\n", i % 3, i + 1, i % 40,
                     "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
    put(in_directory("many.csv"), text, (size_t)(p - text));
    const size_t room = (size_t)(p - text) + 1000;
    uint8_t *packed = malloc(room);
    put(in_directory("many.csv.gz"), packed, deflated(text, (size_t)(p - text), GZIP, packed, room));
    for (int gz = 0; gz < 2; gz++) {
        snprintf(spec, sizeof spec, "csv:%s/many.csv%s?categorical=word", directory, gz ? ".gz" : "");
        yk_source *s = open_well(spec, YK_SPLIT_TRAIN);
        assert_in_range(s->nblocks, gz ? 1 : 2, gz ? 1 : 100);
        yk_source_free(s);
        yk_rows rows;
        read_well(spec, &rows);
        assert_int_equal(rows.n, N);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(rows.label[i], i % 3);
            assert_true(rows.value[rows.start[i]] == (float)(i + 1));
            assert_int_equal(yk_rows_entries(&rows, i), 1 + (i % 40 != 0));
        }
        yk_rows_fini(&rows);
    }
    free(text);
    free(packed);
}

/* ---- schemas */

/* The schema of a source, after it was written and parsed. */
static yk_schema *schema_of(const char *text)
{
    yk_source *s = open_well(text, YK_SPLIT_TRAIN);
    char *json = yk_schema_write(s->schema), *again;
    yk_schema *out;
    if (yk_schema_parse(json, "a model", &out))
        fail_msg("%s: %s", yk_error(), json);
    assert_string_equal(json, again = yk_schema_write(out));
    free(again);
    free(json);
    yk_source_free(s);
    return out;
}

static void expect_equal_rows(const char *a, const char *b, const yk_source_options *o)
{
    yk_rows x, y;
    char first[512];
    snprintf(first, sizeof first, "%s", a);
    if (read_all(first, NULL, 7, &x, NULL) || read_all(b, o, 7, &y, NULL))
        fail_msg("%s", yk_error());
    assert_int_equal(x.n, y.n);
    assert_int_equal(x.dim, y.dim);
    assert_memory_equal(x.label, y.label, x.n * sizeof *x.label);
    if (x.kind == YK_ROWS_F32) {
        assert_memory_equal(x.f32, y.f32, x.n * x.dim * sizeof *x.f32);
    } else {
        assert_memory_equal(x.start, y.start, (x.n + 1) * sizeof *x.start);
        assert_memory_equal(x.index, y.index, x.start[x.n] * sizeof *x.index);
        assert_memory_equal(x.value, y.value, x.start[x.n] * sizeof *x.value);
    }
    yk_rows_fini(&x);
    yk_rows_fini(&y);
}

static void columns_are_matched_by_name(void **state)
{
    (void)state;
    static const char train[] = "click,price,city,id,os\n1,2.5,Paris,7,x\n0,,R\xf6m,8,y\n1,4,Paris,9,\n",
                      moved[] = "os,more,city,click,price\nx,1,Paris,1,2.5\ny,1,R\xf6m,0,\n,1,Paris,1,4\n";
    static const char *const option[] = {"?categorical=city,os&ignore=id",
                                         "?categorical=city,os&ignore=id&encode=onehot&scale=standard",
                                         "?categorical=city,os&ignore=id&encode=dense&scale=log",
                                         "?categorical=city,os&ignore=id&fields=1&missing=x"};
    for (size_t i = 0; i < sizeof option / sizeof *option; i++) {
        char first[512];
        snprintf(first, sizeof first, "%s", csv(train, option[i]));
        yk_schema *s = schema_of(first);
        assert_string_equal(yk_schema_first(s, YK_COLUMN_LABEL)->name, "click");
        expect_equal_rows(first, csv(moved, i == 3 ? "?fields=1" : ""), &(yk_source_options){.schema = s});
        yk_schema_free(s);
    }
    yk_schema *s = schema_of(csv("1,5,a\n0,7,b\n", "?categorical=3&scale=standard"));
    const yk_source_options o = {.schema = s}, unlabeled = {.schema = s, .unlabeled = true};
    yk_rows rows;
    expect_equal_rows(csv("1,5,a\n0,7,b\n", "?categorical=3&scale=standard"), spec, &o);
    assert_int_equal(read_all(csv("5,a\n7,b\n", ""), &unlabeled, 7, &rows, NULL), YK_OK);
    assert_int_equal(rows.start[2], 4);
    yk_rows_fini(&rows);
    assert_error(read_all(csv("5,a\n7,b\n", ""), &o, 7, &rows, NULL), YK_EDATA,
                 "2 columns, but the model was trained on 3");
    assert_error(read_all(csv("y,x,c\n1,7,b\n", ""), &o, 7, &rows, NULL), YK_EDATA,
                 "the data has a header, but the training data had none: add ?header=1");
    yk_schema_free(s);
}

static void other_columns_than_the_model(void **state)
{
    (void)state;
    yk_schema *s =
        schema_of(csv("label,n,c\n1,2,x\n0,4,y\n1,6,x\n", "?categorical=c&encode=onehot&scale=standard"));
    static const struct {
        yk_status status;
        const char *text, *options, *part;
    } fault[] = {
        {YK_EDATA, "label,c\n1,x\n", "", "the column 'n' is missing; the model needs it (numeric)"},
        {YK_EDATA, "n,c\n1,x\n", "", "the column 'label' is missing"},
        {YK_EDATA, "label,n,c,n\n1,2,x,3\n", "", "column 4 is a second column named 'n'"},
        {YK_EDATA, "1,2,x\n", "", "the data has no header, but the training data had one"},
        {YK_EDATA, "label,n,c\n1,z,x\n", "", "'z' is not a number; the column is numeric in the model"},
        {YK_EUSAGE, "label,n,c\n1,2,x\n", "?scale=log",
         "column 2 (n): scale is log here, but standard in the model"},
        {YK_EUSAGE, "label,n,c\n1,2,x\n", "?encode=hash",
         "column 3 (c): encode is hash here, but onehot in the model"},
        {YK_EUSAGE, "label,n,c\n1,2,x\n", "?categorical=n",
         "column 2 (n): its role is categorical here, but numeric"},
        {YK_EUSAGE, "label,n,c\n1,2,x\n", "?ignore=c",
         "column 3 (c): its role is ignored here, but categorical"},
        {YK_EUSAGE, "label,n,c\n1,2,x\n", "?label=n", "column 2 (n): its role is label here, but numeric"},
        {YK_EUSAGE, "label,n,c\n1,2,x\n", "?missing=-", "missing is - here, but not given in the model"},
        {YK_EUSAGE, "label,n,c\na,2,x\n", "?classes=a,b", "column 1 (label): classes is a,b here"},
    };
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        yk_rows rows = {0};
        assert_error(
            read_all(csv(fault[i].text, fault[i].options), &(yk_source_options){.schema = s}, 7, &rows, NULL),
            fault[i].status, fault[i].part);
        yk_rows_fini(&rows);
    }
    yk_schema_free(s);
    static const char *const damaged[] = {
        "",
        "{}",
        "[]",
        "{\"version\":1}",
        "{\"version\":2,\"format\":\"csv\"}",
        "{\"version\":1,\"format\":\"csv\",\"columns\":[{\"name\":\"a\"}]}",
        "{\"version\":1,\"format\":\"csv\",\"columns\":[{\"name\":\"a\",\"role\":\"numeric\"}]}"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        assert_error(yk_schema_parse(damaged[i], "a model", &s), YK_EDATA, "a model: its schema");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numeric_columns_are_dense),
        cmocka_unit_test(labels),
        cmocka_unit_test(header_names),
        cmocka_unit_test(categories_are_hashed),
        cmocka_unit_test(equal_values_have_equal_hashes),
        cmocka_unit_test(one_hot),
        cmocka_unit_test(scales),
        cmocka_unit_test(missing_values),
        cmocka_unit_test(line_breaks_in_quotes),
        cmocka_unit_test(faults),
        cmocka_unit_test(bad_lines_can_be_skipped),
        cmocka_unit_test(every_file_has_the_header),
        cmocka_unit_test(blocks_hold_each_line_once),
        cmocka_unit_test(columns_are_matched_by_name),
        cmocka_unit_test(other_columns_than_the_model),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
