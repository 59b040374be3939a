/* The decoder and the encoder of tf.train.Example, on wire bytes built by hand. */
#include "scratch.h"

#include "base/rng.h"
#include "format/example.h"
#include <math.h>

typedef struct {
    uint8_t p[4096];
    size_t n;
} wire;

static void w_varint(wire *w, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        w->p[w->n++] = (uint8_t)(v | 0x80);
    w->p[w->n++] = (uint8_t)v;
}

static void w_bytes(wire *w, unsigned field, const void *p, size_t n)
{
    w_varint(w, field << 3 | 2);
    w_varint(w, n);
    memcpy(w->p + w->n, p, n);
    w->n += n;
}

static void w_entry(wire *features, const char *key, unsigned kind, const wire *list)
{
    wire feature = {.n = 0}, entry = {.n = 0};
    w_bytes(&feature, kind, list->p, list->n);
    w_bytes(&entry, 1, key, strlen(key));
    w_bytes(&entry, 2, feature.p, feature.n);
    w_bytes(features, 1, entry.p, entry.n);
}

static wire w_ints(bool packed, size_t n, const int64_t *v)
{
    wire list = {.n = 0}, all = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        w_varint(&all, (uint64_t)v[i]);
        if (!packed) {
            w_varint(&list, 1 << 3 | 0);
            w_varint(&list, (uint64_t)v[i]);
        }
    }
    if (packed)
        w_bytes(&list, 1, all.p, all.n);
    return list;
}

static wire w_floats(bool packed, size_t n, const float *v)
{
    wire list = {.n = 0};
    if (packed)
        w_bytes(&list, 1, v, n * sizeof *v);
    for (size_t i = 0; i < n && !packed; i++) {
        w_varint(&list, 1 << 3 | 5);
        memcpy(list.p + list.n, v + i, 4);
        list.n += 4;
    }
    return list;
}

typedef struct {
    const char *name[YK_EXAMPLE_FEATURES]; /* all NULL: the usual names, without fields */
    yk_example_rules rules;
} form;

static yk_status decode_row(const uint8_t *p, size_t n, yk_key_space keys, const form *names, yk_rows *rows)
{
    static const form usual_names = {{"label", "index", "value"}, {.value_needed = false}};
    static const char *const options[] = {"label", "index", "value", "field"};
    yk_feature f[YK_EXAMPLE_FEATURES] = {{.name = NULL}};
    names = names ? names : &usual_names;
    for (int i = 0; i < YK_EXAMPLE_FEATURES; i++)
        f[i] = (yk_feature){.name = names->name[i], .option = options[i]};
    yk_status st = yk_example_find(p, n, f, YK_EXAMPLE_FEATURES);
    if (st)
        return st;
    st = yk_example_row(f, keys, &names->rules, rows);
    yk_features_fini(f, YK_EXAMPLE_FEATURES);
    return st;
}

/* Decodes from a block of exactly n + 8 bytes, so that the sanitizer detects reads beyond it. */
static yk_status decode(const wire *features, uint64_t limit, yk_rows *rows)
{
    wire example = {.n = 0};
    w_bytes(&example, 1, features->p, features->n);
    uint8_t *p = malloc(example.n + 8);
    assert_non_null(p);
    memcpy(p, example.p, example.n);
    memset(p + example.n, 0xff, 8);
    yk_status st = decode_row(p, example.n, (yk_key_space){.features = limit}, NULL, rows);
    free(p);
    return st;
}

static yk_status decode_hashed(const wire *features, yk_rows *rows)
{
    wire example = {.n = 0};
    w_bytes(&example, 1, features->p, features->n);
    uint8_t p[4096] = {0};
    memcpy(p, example.p, example.n);
    return decode_row(p, example.n, (yk_key_space){.features = 1 << 20, .hash = true}, NULL, rows);
}

static const int64_t three[3] = {5, 300, 33762577};
static const float values[3] = {0.5f, -2.0f, 1.0f};

static wire usual(int64_t label)
{
    wire f = {.n = 0}, l = w_ints(true, 1, &label), i = w_ints(true, 3, three), v = w_floats(true, 3, values);
    w_entry(&f, "index", 3, &i);
    w_entry(&f, "value", 2, &v);
    w_entry(&f, "label", 3, &l);
    return f;
}

static void assert_three(const yk_rows *rows, int32_t label)
{
    size_t r = rows->n - 1;
    assert_int_equal(yk_rows_entries(rows, r), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rows->index[rows->start[r] + i], three[i]);
        assert_true(rows->value[rows->start[r] + i] == values[i]);
    }
    assert_int_equal(rows->label[r], label);
}

/* Keys of 64 bits become ids below 2^20, packed or not; a negative int64 is a key like any other. */
static void example_hashes_keys(void **state)
{
    (void)state;
    static const int64_t keys[3] = {-1, 5, INT64_MAX};
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    for (int packed = 0; packed < 2; packed++) {
        int64_t one = 1;
        wire f = {.n = 0}, l = w_ints(true, 1, &one), i = w_ints(packed, 3, keys);
        w_entry(&f, "index", 3, &i);
        w_entry(&f, "label", 3, &l);
        assert_int_equal(decode(&f, 0, &rows), YK_EDATA);
        assert_non_null(strstr(yk_error(), "--hash-bits"));
        assert_int_equal(decode_hashed(&f, &rows), YK_OK);
        for (size_t k = 0; k < 3; k++) {
            bool found = false;
            for (size_t e = rows.start[packed]; e < rows.start[packed + 1]; e++)
                found |= rows.index[e] == yk_key_id(yk_mix64((uint64_t)keys[k]), 1 << 20);
            assert_true(found);
        }
    }
    yk_rows_fini(&rows);
}

static void example_accepts_every_form(void **state)
{
    (void)state;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    static const int64_t labels[] = {-1, 0, 1, 9, 65535};
    for (size_t k = 0; k < 5; k++) {
        wire f = usual(labels[k]);
        assert_int_equal(decode(&f, 33762578, &rows), YK_OK);
        assert_three(&rows, labels[k] < 0 ? 0 : (int32_t)labels[k]);
    }
    /* unpacked; another order; other features; a key twice, the last one counts; unknown fields */
    int64_t one = 1, wrong = 7;
    wire f = {.n = 0}, l = w_ints(false, 1, &one), i = w_ints(false, 3, three),
         v = w_floats(false, 3, values);
    wire other = {.n = 0}, bad_label = w_ints(true, 1, &wrong);
    w_bytes(&other, 1, "text", 4);
    w_entry(&f, "label", 3, &bad_label);
    w_entry(&f, "value", 2, &v);
    w_entry(&f, "bytes", 1, &other);
    w_entry(&f, "a much longer name", 1, &other);
    w_varint(&f, 9 << 3 | 0);
    w_varint(&f, 12345678901234u);
    w_entry(&f, "label", 3, &l);
    w_varint(&f, 10 << 3 | 5);
    f.n += 4;
    w_entry(&f, "index", 3, &i);
    assert_int_equal(decode(&f, 0, &rows), YK_OK);
    assert_three(&rows, 1);

    /* a list in two packed parts and a single value; it replaces a longer list of another kind */
    wire pieces = {.n = 0}, feature = {.n = 0}, entry = {.n = 0}, g = usual(1), many = {.n = 0}, tail;
    for (int64_t k = 0; k < 100; k++) {
        w_varint(&many, 1 << 3 | 0);
        w_varint(&many, (uint64_t)(k - 50));
    }
    w_bytes(&feature, 3, many.p, many.n);
    v = w_floats(true, 1, values);
    w_bytes(&feature, 2, v.p, v.n);
    pieces = w_ints(true, 1, three);
    tail = w_ints(false, 1, three + 1);
    memcpy(pieces.p + pieces.n, tail.p, tail.n);
    pieces.n += tail.n;
    w_bytes(&feature, 3, pieces.p, pieces.n);
    tail = w_ints(true, 1, three + 2);
    w_bytes(&feature, 3, tail.p, tail.n); /* the same kind again continues the list */
    w_bytes(&entry, 2, feature.p, feature.n);
    w_bytes(&entry, 1, "index", 5); /* the key after the value */
    w_bytes(&g, 1, entry.p, entry.n);
    assert_int_equal(decode(&g, 0, &rows), YK_OK);
    assert_three(&rows, 1);
    yk_rows_fini(&rows);
}

static void example_values_default_to_one(void **state)
{
    (void)state;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    int64_t one = 1;
    wire f = {.n = 0}, l = w_ints(true, 1, &one), i = w_ints(true, 3, three), none = {.n = 0};
    w_entry(&f, "index", 3, &i);
    w_entry(&f, "label", 3, &l);
    assert_int_equal(decode(&f, 0, &rows), YK_OK);
    assert_null(rows.value);
    assert_int_equal(yk_rows_entries(&rows, 0), 3);
    w_entry(&f, "index", 3, &none); /* an empty list is a row without entries */
    assert_int_equal(decode(&f, 0, &rows), YK_OK);
    assert_int_equal(yk_rows_entries(&rows, 1), 0);
    yk_rows_fini(&rows);
}

static void refuse(yk_rows *rows, const wire *f, uint64_t limit, const char *part)
{
    size_t before = rows->n;
    assert_error(decode(f, limit, rows), YK_EDATA, part);
    assert_int_equal(rows->n, before);
}

static void example_refuses_bad_content(void **state)
{
    (void)state;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    wire f = usual(-2), list;
    refuse(&rows, &f, 0, "the label -2");
    f = usual(65536);
    refuse(&rows, &f, 0, "the label 65536");
    f = usual(1);
    refuse(&rows, &f, 33762577, "index 33762577 is out of range for 33762577 features (largest 33762576)");
    for (int packed = 0; packed < 2; packed++) {
        static const int64_t negative[3] = {1, -5, 7}, huge[3] = {1, 2, (int64_t)1 << 31},
                             far[3] = {1, INT64_MAX, 3};
        f = usual(1);
        list = w_ints(packed, 3, negative);
        w_entry(&f, "index", 3, &list);
        refuse(&rows, &f, 0, "index -5 is negative");
        f = usual(1);
        list = w_ints(packed, 3, huge);
        w_entry(&f, "index", 3, &list);
        refuse(&rows, &f, 0, "index 2147483648 is too large");
        f = usual(1);
        list = w_ints(packed, 3, far);
        w_entry(&f, "index", 3, &list);
        refuse(&rows, &f, 0, "index 9223372036854775807 is too large");
        f = usual(1);
        list = w_ints(packed, 2, three);
        w_entry(&f, "index", 3, &list);
        refuse(&rows, &f, 0, "2 indices but 3 values");
        f = usual(1);
        list = w_floats(packed, 2, values);
        w_entry(&f, "value", 2, &list);
        refuse(&rows, &f, 0, "3 indices but 2 values");
        f = usual(1);
        list = w_floats(packed, 3, (const float[3]){1, 2, NAN});
        w_entry(&f, "value", 2, &list);
        refuse(&rows, &f, 0, "value 2 is not a number");
        f = usual(1);
        list = w_floats(packed, 3, (const float[3]){1, -INFINITY, 2});
        w_entry(&f, "value", 2, &list);
        refuse(&rows, &f, 0, "value 1 is infinite");
        f = usual(1);
        list = w_ints(packed, 2, three);
        w_entry(&f, "label", 3, &list);
        refuse(&rows, &f, 0, "'label' has 2 values");
    }
    list = w_ints(true, 3, three);
    f = (wire){.n = 0};
    w_entry(&f, "index", 3, &list);
    refuse(&rows, &f, 0, "'label' is missing");
    f = usual(1);
    w_entry(&f, "value", 3, &list);
    refuse(&rows, &f, 0, "'value' is not a list of float");
    list = w_floats(true, 3, values);
    w_entry(&f, "index", 2, &list);
    refuse(&rows, &f, 0, "'index' is not a list of int64");
    yk_rows_fini(&rows);
}

/* Cut anywhere, an example is refused; with any byte changed it is refused or decoded, never a crash. */
static void example_survives_any_damage(void **state)
{
    (void)state;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    uint8_t *buffer = NULL;
    size_t cap = 0, n;
    uint32_t index[60];
    for (uint32_t i = 0; i < 60; i++)
        index[i] = i * i * i * 9000;
    assert_int_equal(yk_example_encode(-1, index, NULL, NULL, 60, &buffer, &cap, &n), YK_OK);
    for (size_t cut = 1; cut < n; cut++) {
        uint8_t *p = malloc(cut + 8);
        memcpy(p, buffer, cut);
        memset(p + cut, 0x80, 8);
        assert_int_equal(decode_row(p, cut, (yk_key_space){0}, NULL, &rows), YK_EDATA);
        free(p);
    }
    uint8_t *p = malloc(n + 8);
    for (size_t at = 0; at < n; at++)
        for (unsigned change = 1; change < 256; change++) {
            memcpy(p, buffer, n);
            memset(p + n, 0x80, 8);
            p[at] ^= (uint8_t)change;
            yk_status st = decode_row(p, n, (yk_key_space){0}, NULL, &rows);
            assert_true(st == YK_OK || st == YK_EDATA);
            yk_rows_clear(&rows);
        }
    free(p);
    free(buffer);
    yk_rows_fini(&rows);
}

/* Varints of every length, at every offset in the words that the fast decoder reads. */
static void example_round_trips(void **state)
{
    (void)state;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    yk_rng r = yk_rng_seed(3, 3);
    uint8_t *buffer = NULL;
    size_t cap = 0, size;
    for (size_t n = 0; n < 500; n++) {
        uint32_t *index = malloc((n + 1) * sizeof *index);
        float *value = malloc((n + 1) * sizeof *value);
        uint32_t last = 0;
        for (size_t i = 0; i < n; i++) {
            unsigned bits = yk_rng_below(&r, n < 50 ? 25 : 21);
            last += 1 + (uint32_t)(yk_rng_u64(&r) >> 40 >> (24 - bits % 25));
            index[i] = last;
            value[i] = (float)yk_rng_normal(&r);
        }
        assert_int_equal(yk_example_encode(n % 2 ? 1 : -1, index, value, NULL, n, &buffer, &cap, &size),
                         YK_OK);
        uint8_t *exact = malloc(size + 8);
        memcpy(exact, buffer, size);
        memset(exact + size, 0xff, 8);
        yk_rows_clear(&rows);
        assert_int_equal(decode_row(exact, size, (yk_key_space){0}, NULL, &rows), YK_OK);
        assert_int_equal(yk_rows_entries(&rows, 0), n);
        assert_int_equal(rows.label[0], n % 2);
        assert_memory_equal(rows.index, index, n * sizeof *index);
        if (n)
            assert_memory_equal(rows.value, value, n * sizeof *value);
        free(exact);
        free(index);
        free(value);
    }
    free(buffer);
    yk_rows_fini(&rows);
}

static yk_status decode_named(const wire *features, const form *names, yk_rows *rows)
{
    wire example = {.n = 0};
    w_bytes(&example, 1, features->p, features->n);
    uint8_t p[4096] = {0};
    memcpy(p, example.p, example.n);
    return decode_row(p, example.n, (yk_key_space){0}, names, rows);
}

static void example_with_other_names(void **state)
{
    (void)state;
    static const form names = {{"click", "user/ids", "w", "columns"}, {.value_needed = true}},
                      needed = {{"click", "user/ids", "w", "columns"},
                                {.value_needed = true, .field_needed = true}};
    static const int64_t one = 1, fields[3] = {0, 65535, 7}, large[3] = {0, 65536, 7};
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    for (int packed = 0; packed < 2; packed++) {
        wire f = {.n = 0}, l = w_ints(packed, 1, &one), i = w_ints(packed, 3, three),
             v = w_floats(packed, 3, values);
        w_entry(&f, "label", 3, &i); /* the default names are other features now */
        w_entry(&f, "index", 2, &v);
        w_entry(&f, "user/ids", 3, &i);
        assert_int_equal(decode_named(&f, &names, &rows), YK_EDATA);
        assert_non_null(strstr(yk_error(), "the feature 'click' is missing; add ?label=NAME"));
        w_entry(&f, "click", 3, &l);
        assert_int_equal(decode_named(&f, &names, &rows), YK_EDATA);
        assert_non_null(strstr(yk_error(), "the feature 'w' is missing; add ?value=NAME"));
        w_entry(&f, "w", 2, &v);
        assert_int_equal(decode_named(&f, &names, &rows), YK_OK);
        assert_three(&rows, 1);
        assert_null(rows.field);
        assert_int_equal(decode_named(&f, &needed, &rows), YK_EDATA);
        assert_non_null(strstr(yk_error(), "'columns' is missing"));
        wire c = w_ints(packed, 3, fields), wrong = w_ints(packed, 3, large), few = w_ints(packed, 2, fields);
        wire good = f, bad = f, shorter = f;
        w_entry(&good, "columns", 3, &c);
        w_entry(&bad, "columns", 3, &wrong);
        w_entry(&shorter, "columns", 3, &few);
        assert_int_equal(decode_named(&good, &needed, &rows), YK_OK);
        assert_three(&rows, 1);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(rows.field[rows.start[rows.n - 1] + k], fields[k]);
        assert_int_equal(decode_named(&bad, &names, &rows), YK_EDATA);
        assert_non_null(strstr(yk_error(), "field 65536 is not in the range 0 to 65535"));
        assert_int_equal(decode_named(&shorter, &names, &rows), YK_EDATA);
        assert_non_null(strstr(yk_error(), "3 indices but 2 fields"));
        yk_rows_fini(&rows);
        yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    }
    yk_rows_fini(&rows);
}

static void example_fields_round_trip(void **state)
{
    (void)state;
    static const form names = {.name = {"label", "index", "value", "field"}};
    static const uint32_t index[] = {1, 1, 300};
    static const uint16_t field[] = {2, 500, 0};
    uint8_t *buffer = NULL;
    size_t cap = 0, n;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    assert_int_equal(yk_example_encode(1, index, NULL, field, 3, &buffer, &cap, &n), YK_OK);
    assert_int_equal(decode_row(buffer, n, (yk_key_space){0}, &names, &rows), YK_OK);
    assert_int_equal(rows.start[1], 3);
    assert_memory_equal(rows.index, index, sizeof index);
    assert_memory_equal(rows.field, field, sizeof field);
    free(buffer);
    yk_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_accepts_every_form),  cmocka_unit_test(example_values_default_to_one),
        cmocka_unit_test(example_hashes_keys),         cmocka_unit_test(example_values_default_to_one),
        cmocka_unit_test(example_refuses_bad_content), cmocka_unit_test(example_survives_any_damage),
        cmocka_unit_test(example_round_trips),         cmocka_unit_test(example_with_other_names),
        cmocka_unit_test(example_fields_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
