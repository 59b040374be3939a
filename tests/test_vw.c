/* data/vw.c: what it reads, and every error. tests/vw_reference.py compares it with a second implementation. */
#include "read_all.h"

#include "data/columns.h"

static char spec[300];

static const char *text(const char *lines, const char *options)
{
    put(in_directory("a.vw"), lines, strlen(lines));
    snprintf(spec, sizeof spec, "vw:%s%s", in_directory("a.vw"), options);
    return spec;
}

static void read_well(const char *lines, const char *options, const yk_source_options *o, yk_rows *rows)
{
    if (read_all(text(lines, options), o, 2, rows, NULL))
        fail_msg("%s", yk_error());
}

/* The value of (namespace, name) in a row; 0: it is not there. */
static float at(const yk_rows *rows, size_t row, const char *space, const char *name, uint64_t features)
{
    const uint64_t salt = yk_cell_hash(0, space, strlen(space));
    const uint32_t index = yk_key_id(yk_cell_hash(salt, name, strlen(name)), features);
    for (uint64_t k = rows->start[row]; k < rows->start[row + 1]; k++)
        if (rows->index[k] == index)
            return yk_rows_value(rows, k);
    return 0.0f;
}

static void lines_are_read(void **state)
{
    (void)state;
    enum { N = 1 << 24 };
    yk_rows rows;
    read_well("1 |user age:0.5 paris |ad:0.5 shoes:4 sale\n"
              "\n"
              "-1 1 0 'case-17|user age:-2 12 12:2 zero:0\r\n"
              "  +1\t1.0 tag|a-long-namespace a-name-of-20-letters|b|  c city:paris  \n"
              "-1 |",
              "", NULL, &rows);
    static const int32_t label[] = {1, 0, 1, 0};
    static const uint64_t start[] = {0, 4, 6, 9, 9};
    assert_int_equal(rows.n, 4);
    assert_memory_equal(rows.label, label, sizeof label);
    assert_memory_equal(rows.start, start, sizeof start);
    assert_true(at(&rows, 0, "user", "age", N) == 0.5f && at(&rows, 0, "user", "paris", N) == 1.0f);
    assert_true(at(&rows, 0, "ad", "shoes", N) == 2.0f && at(&rows, 0, "ad", "sale", N) == 0.5f);
    assert_true(at(&rows, 1, "user", "age", N) == -2.0f && at(&rows, 1, "user", "12", N) == 3.0f);
    assert_true(at(&rows, 2, "a-long-namespace", "a-name-of-20-letters", N) == 1.0f);
    assert_true(at(&rows, 2, "", "c", N) == 1.0f && at(&rows, 2, "", "city:paris", N) == 1.0f);
    /* Models depend on the hash. */
    assert_int_equal(yk_key_id(yk_cell_hash(yk_cell_hash(0, "user", 4), "paris", 5), N), 10941658);
    yk_rows_fini(&rows);
}

static void labels_are_classes(void **state)
{
    (void)state;
    yk_rows rows;
    read_well("0 |a x\n3 |a y\n1 |a z\n", "", NULL, &rows);
    assert_int_equal(rows.label[1], 3);
    yk_rows_fini(&rows);
    read_well("1 |a x\n3 |a y\n", "?base=1", NULL, &rows);
    assert_int_equal(rows.label[0], 0);
    assert_int_equal(rows.label[1], 2);
    yk_rows_fini(&rows);
    const yk_source_options predict = {.unlabeled = true};
    read_well("|a x\n |a x\n'tag |a x\n7|a x\n1 2 |a x\n-1 |a x\n", "", &predict, &rows);
    assert_int_equal(rows.n, 6);
    yk_rows_fini(&rows);
    read_well("1 0.5 0.1 'x|a x\n", "?weights=ignore", NULL, &rows);
    assert_int_equal(rows.n, 1);
    yk_rows_fini(&rows);
}

static void namespaces_are_fields(void **state)
{
    (void)state;
    const yk_source_options with = {.fields = YK_FIELDS_ALL};
    yk_rows rows;
    yk_source *s;
    read_well("1 |ad x y |user x\n-1 |user x | d\n", "?namespaces=user,ad,default", &with, &rows);
    assert_non_null(rows.field);
    unsigned found = 0;
    for (uint64_t k = 0; k < rows.start[2]; k++)
        found += 1u << 8 * rows.field[k];
    assert_int_equal(found, 0x010202); /* two of user, two of ad, one without a name */
    yk_rows_fini(&rows);
    assert_int_equal(yk_source_open(text("1 |a x\n", ""), YK_SPLIT_TRAIN, &with, &s), YK_EUSAGE);
    assert_message("list them, as in ?namespaces=user,ad");
    read_well("1 |a x\n", "?fields=one", &with, &rows);
    assert_null(rows.field);
    yk_rows_fini(&rows);
    read_well("1 |a x\n", "?namespaces=b,a", NULL, &rows); /* a model without fields */
    assert_null(rows.field);
    yk_rows_fini(&rows);
}

static void errors_name_line_and_byte(void **state)
{
    (void)state;
    static const struct {
        const char *line, *byte, *reason;
    } cases[] = {
        {"1 a b", "5", "no '|' before the features"},
        {"1|a x", "5", "'1' touches the '|', so it is a tag; put a blank before the '|'"},
        {"|a x", "5", "no label; only yoke predict"},
        {"'t |a x", "5", "no label; only yoke predict"},
        {"0.5 |a x", "5", "the label '0.5' is not a class: -1 and +1, or a whole number from 0 to 1000000"},
        {"1:0.5 2:1 |a x", "5", "labels with costs or probabilities are not supported"},
        {"2000000 |a x", "5", "is not a class"},
        {"-1 |a x\n0 |a x", "13", "the label 0 does not match earlier labels"},
        {"1 -2 |a x", "7", "the importance weight -2 is negative"},
        {"1 1 0.5 |a x", "9", "the initial prediction is 0.5, but only 0"},
        {"1 2|a x", "7", "a number that touches the '|' is a tag"},
        {"1 1 0 3 |a x", "11", "'3' is neither a number nor a tag"},
        {"1 't u |a x", "7", "''t' is neither a number nor a tag"},
        {"1 |a x: y", "12", "the value in 'x:' is missing"},
        {"1 |a x:1:2 y", "13", "the value in 'x:1:2' contains a second ':'"},
        {"1 |a x:0,5 y", "13", "write a decimal point instead of the comma"},
        {"1 |a x:-Inf", "12", "the value in 'x:-Inf' is not a finite number"},
        {"1 |a x:1e39", "10", "the value in 'x:1e39' is too large"},
        {"1 |a :1", "10", "a feature has no name before the ':'"},
        {"1 |a:x y", "10", "the weight of the namespace 'a' is not a number"},
        {"1 |a x |b y", "13", "the namespace 'b' is not listed in ?namespaces="},
        {"1 | y", "8", "the namespace 'default' is not listed in ?namespaces="},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char lines[80], where[40];
        yk_rows rows;
        snprintf(lines, sizeof lines, "1 |a\n%s\n", cases[i].line);
        snprintf(where, sizeof where, "a.vw: line %d at byte %s: ", strchr(cases[i].line, '\n') ? 3 : 2,
                 cases[i].byte);
        assert_int_equal(read_all(text(lines, "?namespaces=a"), NULL, 5, &rows, NULL), YK_EDATA);
        assert_message(where);
        assert_message(cases[i].reason);
        yk_rows_fini(&rows);
    }
}

/* Rows of several blocks, and rows with many features. */
static void long_files_and_lines(void **state)
{
    (void)state;
    enum { ROWS = 6000, NAMES = 400 };
    char *lines = malloc(ROWS * NAMES * 6), *p = lines;
    yk_rows rows;
    yk_source *s;
    for (int i = 0; i < ROWS; i++) {
        p += sprintf(p, "%d |n:2 r%d", i % 2, i);
        for (int k = 0; k < (i == 7 ? NAMES : 60); k++)
            p += sprintf(p, " k%d", k);
        p += sprintf(p, " k1:0.5\n");
    }
    text(lines, "?bits=20");
    free(lines);
    s = open_well(spec, YK_SPLIT_TRAIN);
    assert_true(s->nblocks == 2 && s->dim == 1 << 20 && s->hashed_into == 1 << 20);
    yk_source_free(s);
    assert_int_equal(read_all(spec, NULL, 100, &rows, NULL), YK_OK);
    assert_int_equal(rows.n, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%zu", i);
        assert_true(at(&rows, i, "n", name, 1 << 20) >= 2.0f && at(&rows, i, "n", "k1", 1 << 20) == 3.0f);
        for (uint64_t k = rows.start[i] + 1; k < rows.start[i + 1]; k++)
            assert_true(rows.index[k - 1] < rows.index[k]);
    }
    yk_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_read),        cmocka_unit_test(labels_are_classes),
        cmocka_unit_test(namespaces_are_fields), cmocka_unit_test(errors_name_line_and_byte),
        cmocka_unit_test(long_files_and_lines),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
