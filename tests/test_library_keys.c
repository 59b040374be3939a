/* 64-bit keys in arrays (yoke_csr.index64): they are hashed as the keys in files are. */
#include "scratch.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <yoke.h>

enum { ROWS = 3000, WIDTH = 5, KEYS = 400, FIELDS = 3 };

typedef struct {
    int64_t start[ROWS + 1], key[ROWS * WIDTH];
    int32_t start32[ROWS + 1], label[ROWS];
    float value[ROWS * WIDTH];
    uint16_t field[ROWS * WIDTH];
    char libsvm[300], libffm[300]; /* specs of files with the same rows */
} clicks;

/* Keys that use all 64 bits. Some are negative as int64_t. */
static int64_t key_of(unsigned i)
{
    return (int64_t)((uint64_t)i * 0x9e3779b97f4a7c15u + (i % 2 ? (uint64_t)1 << 63 : 3));
}

/* The keys of a row are in any order, and some are repeated. */
static clicks *make_clicks(void)
{
    clicks *c = calloc(1, sizeof *c);
    snprintf(c->libsvm, sizeof c->libsvm, "libsvm:%s", in_directory("clicks.libsvm"));
    snprintf(c->libffm, sizeof c->libffm, "libffm:%s", in_directory("clicks.libffm"));
    FILE *svm = fopen(c->libsvm + 7, "w"), *ffm = fopen(c->libffm + 7, "w");
    unsigned r = 1;
    for (int i = 0; i < ROWS; i++) {
        int score = 0;
        c->start32[i + 1] = (int32_t)(c->start[i + 1] = (i + 1) * WIDTH);
        for (int e = i * WIDTH; e < (i + 1) * WIDTH; e++) {
            r = r * 1664525u + 1013904223u;
            const unsigned k = (r >> 16) % KEYS;
            c->key[e] = key_of(k);
            c->value[e] = (float)(1 + (r >> 29)) / 8.0f;
            c->field[e] = (uint16_t)(k % FIELDS);
            score += (int)(k % 3) - 1;
        }
        c->label[i] = score > 0;
        fprintf(svm, "%d", c->label[i]);
        fprintf(ffm, "%d", c->label[i]);
        for (int e = i * WIDTH; e < (i + 1) * WIDTH; e++) {
            fprintf(svm, " %" PRIu64 ":%.9g", (uint64_t)c->key[e], (double)c->value[e]);
            fprintf(ffm, " %d:%" PRIu64 ":%.9g", c->field[e], (uint64_t)c->key[e], (double)c->value[e]);
        }
        fputc('\n', svm);
        fputc('\n', ffm);
    }
    fclose(svm);
    fclose(ffm);
    return c;
}

static yoke_csr csr_of(const clicks *c)
{
    yoke_csr csr = YOKE_CSR_INIT;
    csr.rows = ROWS;
    csr.start64 = c->start;
    csr.index64 = c->key;
    csr.value = c->value;
    csr.labels = c->label;
    return csr;
}

static yoke_data *data_of(const yoke_csr *csr)
{
    yoke_data *data;
    yoke_error error;
    if (yoke_data_from_csr(csr, &data, &error))
        fail_msg("%s", error.message);
    return data;
}

/* Options of a short training; `name` and `value` are one more, unless they are NULL. */
static yoke_options *options_of(const char *model, const char *name, const char *value)
{
    yoke_options *o = yoke_options_create();
    const char *const set[][2] = {{"model", model}, {"epochs", "2"}, {"batch", "20"},
                                  {"out", "none"},  {"lr", "0.05"},  {name, value}};
    for (size_t i = 0; i < sizeof set / sizeof *set && set[i][0]; i++)
        assert_int_equal(yoke_options_set(o, set[i][0], set[i][1], NULL), YOKE_OK);
    return o;
}

/* Trains on arrays (data) or on a file (spec). */
static yoke_model *train(yoke_options *o, const yoke_data *data, const char *spec)
{
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_run *run = NULL;
    yoke_model *m = NULL;
    yoke_error error;
    if (spec)
        yoke_options_set(o, "data", spec, NULL);
    yoke_options_set(o, "test", "none", NULL);
    t.options = o;
    t.data = data;
    if (yoke_train(&t, &run, &error) || yoke_run_model(run, &m, &error))
        fail_msg("%s", error.message);
    yoke_run_free(run);
    return m;
}

static void assert_same_parameters(const yoke_model *a, const yoke_model *b)
{
    yoke_tensor t, u;
    assert_int_equal(yoke_model_columns(a), yoke_model_columns(b));
    for (size_t i = 0; yoke_model_tensor_at(a, i, &t); i++) {
        assert_true(yoke_model_tensor_at(b, i, &u) && t.size == u.size);
        float *x = calloc(t.size, sizeof *x), *y = calloc(t.size, sizeof *y);
        yoke_model_tensor_copy(a, i, x);
        yoke_model_tensor_copy(b, i, y);
        assert_memory_equal(x, y, t.size * sizeof *x);
        free(x);
        free(y);
    }
}

/* Evaluations and predictions equal those of the file. No option says that keys are hashed: the model does. */
static void assert_same_predictions(const yoke_model *m, const yoke_csr *csr, const char *spec)
{
    static float expected[ROWS], got[ROWS];
    yoke_score from_file, from_arrays;
    yoke_data *file, *arrays = data_of(csr);
    yoke_error error;
    assert_true(yoke_model_hashed(m));
    assert_int_equal(yoke_data_from_spec(spec, YOKE_TEST_SPLIT, NULL, &file, NULL), YOKE_OK);
    assert_int_equal(yoke_evaluate(m, file, &from_file, &error), YOKE_OK);
    if (yoke_evaluate(m, arrays, &from_arrays, &error))
        fail_msg("%s", error.message);
    assert_true(from_file.loss == from_arrays.loss && from_file.accuracy > 0.6);
    assert_int_equal(yoke_predict_array(m, file, expected, ROWS, &error), YOKE_OK);
    assert_int_equal(yoke_predict_array(m, arrays, got, ROWS, &error), YOKE_OK);
    assert_memory_equal(got, expected, sizeof got);
    memset(got, 0, sizeof got);
    if (yoke_predict_csr(m, csr, got, 1, &error))
        fail_msg("%s", error.message);
    for (int i = 0; i < ROWS; i++)
        assert_true(fabsf(got[i] - expected[i]) < 1e-6f);
    yoke_data_free(file);
    yoke_data_free(arrays);
}

/* 2^7 columns for 400 keys: several keys of a row often have the same column. */
static void keys_are_hashed_as_in_files(void **state)
{
    (void)state;
    static const char *const model[] = {"logreg", "fm:3", "linear + (embed 2, dense 4, relu, dense 1)"};
    static const char *const range[][2] = {{"hash-bits", "7"}, {"hash-bits", "7"}, {"hash-bits", "12"}};
    clicks *c = make_clicks(), *copy = malloc(sizeof *copy);
    memcpy(copy, c, sizeof *c);
    for (int i = 0; i < 3; i++) {
        yoke_csr csr = csr_of(c);
        const char *spec = i == 2 ? c->libffm : c->libsvm, *file = in_directory("m.safetensors");
        csr.columns = i == 1 ? (size_t)1 << 40 : 0; /* ignored */
        csr.field = i == 2 ? c->field : NULL;
        if (i) {
            csr.start64 = NULL;
            csr.start32 = c->start32;
        }
        yoke_options *o = options_of(model[i], range[i][0], range[i][1]);
        yoke_data *data = data_of(&csr);
        yoke_model *m = train(o, data, NULL), *expected = train(o, NULL, spec), *loaded;
        assert_same_parameters(m, expected);
        assert_same_predictions(m, &csr, spec);
        assert_same_predictions(expected, &csr, spec);
        assert_int_equal(yoke_model_save(expected, file, NULL), YOKE_OK);
        assert_int_equal(yoke_model_load(file, &loaded, NULL), YOKE_OK);
        assert_same_predictions(loaded, &csr, spec);
        yoke_model_free(loaded);
        yoke_model_free(expected);
        yoke_model_free(m);
        yoke_data_free(data);
        yoke_options_free(o);
    }
    assert_memory_equal(c, copy, sizeof *c);
    free(copy);
    free(c);
}

/* --features N with hash-bits: the range of the hash, also for arrays. */
static void features_sets_the_range_of_the_hash(void **state)
{
    (void)state;
    clicks *c = make_clicks();
    yoke_csr csr = csr_of(c);
    yoke_data *data = data_of(&csr);
    yoke_options *o = options_of("logreg", "hash-bits", "7");
    yoke_options_set(o, "features", "1001", NULL);
    yoke_model *m = train(o, data, NULL), *expected = train(o, NULL, c->libsvm);
    assert_int_equal(yoke_model_columns(m), 1001);
    assert_same_parameters(m, expected);
    assert_same_predictions(m, &csr, c->libsvm);
    yoke_model_free(expected);
    yoke_model_free(m);
    yoke_data_free(data);
    yoke_options_free(o);
    free(c);
}

/* Without hash-bits, index64 has column numbers, as index does. index is never hashed. */
static void without_hash_bits_index64_has_column_numbers(void **state)
{
    (void)state;
    static int32_t index[ROWS * WIDTH];
    static float wide[ROWS], narrow[ROWS];
    clicks *c = make_clicks();
    for (int e = 0; e < ROWS * WIDTH; e++)
        c->key[e] = index[e] = (int32_t)((uint64_t)c->key[e] >> 57);
    yoke_csr csr = csr_of(c), csr32 = csr;
    csr.columns = csr32.columns = 128;
    csr32.index64 = NULL;
    csr32.index = index;
    yoke_data *data = data_of(&csr), *data32 = data_of(&csr32);
    yoke_options *o = options_of("logreg", NULL, NULL);
    yoke_model *m = train(o, data, NULL), *m32 = train(o, data32, NULL);
    assert_true(!yoke_model_hashed(m) && yoke_model_columns(m) == 128);
    assert_same_parameters(m, m32);
    assert_int_equal(yoke_predict_csr(m, &csr, wide, 1, NULL), YOKE_OK);
    assert_int_equal(yoke_predict_csr(m, &csr32, narrow, 1, NULL), YOKE_OK);
    for (int i = 0; i < ROWS; i++)
        assert_true(fabsf(wide[i] - narrow[i]) < 1e-6f);
    yoke_options_set(o, "hash-bits", "7", NULL);
    yoke_model *ignored = train(o, data32, NULL);
    assert_false(yoke_model_hashed(ignored));
    assert_same_parameters(ignored, m32);
    yoke_model_free(ignored);
    yoke_model_free(m);
    yoke_model_free(m32);
    yoke_data_free(data);
    yoke_data_free(data32);
    yoke_options_free(o);
    free(c);
}

static void assert_refused(const yoke_csr *csr, yoke_status expected, const char *words)
{
    yoke_data *data;
    yoke_error error;
    assert_int_equal(yoke_data_from_csr(csr, &data, &error), expected);
    assert_null(data);
    if (!strstr(error.message, words))
        fail_msg("%s", error.message);
}

static void assert_not_trained(const yoke_csr *csr, const yoke_options *o, const char *words)
{
    yoke_data *data = data_of(csr);
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_run *run;
    yoke_error error;
    t.options = o;
    t.data = data;
    assert_int_equal(yoke_train(&t, &run, &error), YOKE_BAD_DATA);
    if (!strstr(error.message, words))
        fail_msg("%s", error.message);
    yoke_run_free(run);
    yoke_data_free(data);
}

static void wrong_structures_are_refused(void **state)
{
    (void)state;
    static const int32_t index[ROWS * WIDTH];
    clicks *c = make_clicks();
    yoke_csr csr = csr_of(c);
    csr.index = index;
    assert_refused(&csr, YOKE_BAD_USAGE, "set either index or index64");
    csr.index = NULL;
    csr.in_place = 1;
    assert_refused(&csr, YOKE_BAD_USAGE, "in_place");
    csr.in_place = 0;
    c->value[7] = NAN;
    assert_refused(&csr, YOKE_BAD_DATA, "row 1: the value of index");
    c->value[7] = 1.0f;
    c->start[9] = 3 * ROWS * WIDTH;
    assert_refused(&csr, YOKE_BAD_DATA, "row 8 starts at");
    free(c);
}

/* The message names the row, the number and what to do. */
static void column_numbers_out_of_range_are_named(void **state)
{
    (void)state;
    enum { N = 40000 }; /* predicted by several threads */
    static int64_t start[N + 1], key[N];
    static int32_t label[N];
    static float p[N];
    yoke_csr csr = YOKE_CSR_INIT;
    yoke_options *o = options_of("logreg", "test", "none");
    yoke_error error;
    yoke_score score;
    for (int i = 0; i < N; i++) {
        start[i + 1] = i + 1;
        key[i] = i % 50;
    }
    csr.rows = N;
    csr.columns = 50;
    csr.start64 = start;
    csr.index64 = key;
    csr.labels = label;
    yoke_data *data = data_of(&csr);
    yoke_model *m = train(o, data, NULL);
    static const struct {
        int64_t key;
        const char *words;
    } bad[] = {
        {5000000000,
         "row 39990: index 5000000000 is out of range for 50 columns; train with the option hash-bits"},
        {((int64_t)1 << 32) + 7, "row 39990: index 4294967303 is out of range for 50 columns"},
        {50, "row 39990: index 50 is out of range for 50 columns"},
        {-1, "row 39990: index -1 is out of range for 50 columns"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        key[39990] = bad[i].key;
        assert_not_trained(&csr, o, bad[i].words);
        assert_int_equal(yoke_evaluate(m, data, &score, &error), YOKE_BAD_DATA);
        assert_non_null(strstr(error.message, bad[i].words));
        assert_int_equal(yoke_predict_array(m, data, p, N, &error), YOKE_BAD_DATA);
        assert_non_null(strstr(error.message, bad[i].words));
        assert_int_equal(yoke_predict_csr(m, &csr, p, 1, &error), YOKE_BAD_DATA);
        assert_non_null(strstr(error.message, bad[i].words));
    }
    csr.columns = (size_t)1 << 40;
    assert_not_trained(&csr, o, "1099511627776 columns");
    assert_not_trained(&csr, o, "hash-bits");
    csr.columns = 0;
    assert_not_trained(&csr, o, "hash-bits");
    yoke_model_free(m);
    yoke_data_free(data);
    yoke_options_free(o);
}

/* Training on `csr` from `start`; words NULL: it succeeds. */
static void assert_start(const yoke_csr *csr, const yoke_model *start, const char *bits, const char *words)
{
    yoke_data *data = data_of(csr);
    yoke_options *o = options_of("logreg", bits ? "hash-bits" : NULL, bits);
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_run *run;
    yoke_error error;
    t.options = o;
    t.data = data;
    t.start = start;
    yoke_options_set(o, "test", "none", NULL);
    const yoke_status st = yoke_train(&t, &run, &error);
    if (st != (words ? YOKE_BAD_USAGE : YOKE_OK) || (words && !strstr(error.message, words)))
        fail_msg("status %d: %s", st, st ? error.message : "no error");
    yoke_run_free(run);
    yoke_options_free(o);
    yoke_data_free(data);
}

/* With the same number of columns, only the model records whether they are hashes. */
static void an_initial_model_needs_the_same_hashing(void **state)
{
    (void)state;
    clicks *c = make_clicks();
    yoke_csr keys = csr_of(c), columns = keys;
    int64_t *column = calloc(ROWS * WIDTH, sizeof *column);
    for (int e = 0; e < ROWS * WIDTH; e++)
        column[e] = (int64_t)((uint64_t)c->key[e] >> 57);
    columns.columns = 128;
    columns.index64 = column;
    yoke_data *from_keys = data_of(&keys), *from_columns = data_of(&columns);
    yoke_options *o = options_of("logreg", "hash-bits", "7"), *plain = options_of("logreg", NULL, NULL);
    yoke_model *hashed = train(o, from_keys, NULL), *not_hashed = train(plain, from_columns, NULL);
    assert_start(
        &columns, hashed, NULL,
        "start: the keys of memory are not hashed, but those of the initial model were hashed into 128 "
        "features: train with the option hash-bits 7");
    assert_start(&columns, not_hashed, "7", "those of the initial model were not hashed: leave out");
    assert_start(&keys, hashed, "8", "hashed into 256 features, but those of the initial model into 128");
    assert_start(&keys, hashed, "7", NULL);
    assert_start(&columns, not_hashed, NULL, NULL);
    yoke_model_free(hashed);
    yoke_model_free(not_hashed);
    yoke_options_free(o);
    yoke_options_free(plain);
    yoke_data_free(from_keys);
    yoke_data_free(from_columns);
    free(column);
    free(c);
}

/* In a program compiled before index64 existed, the structure ends before it: what follows is not read. */
static void older_programs_keep_working(void **state)
{
    (void)state;
    static int32_t index[ROWS * WIDTH];
    static float p[ROWS];
    clicks *c = make_clicks();
    for (int e = 0; e < ROWS * WIDTH; e++)
        index[e] = (int32_t)((uint64_t)c->key[e] >> 57);
    yoke_csr csr = csr_of(c);
    csr.columns = 128;
    csr.index = index;
    csr.index64 = (const int64_t *)8; /* not part of it */
    csr.struct_size = offsetof(yoke_csr, index64);
    yoke_data *data = data_of(&csr);
    yoke_options *o = options_of("logreg", NULL, NULL);
    yoke_model *m = train(o, data, NULL);
    assert_int_equal(yoke_predict_csr(m, &csr, p, 1, NULL), YOKE_OK);
    csr.index = NULL;
    assert_refused(&csr, YOKE_BAD_USAGE, "set either index or index64");
    yoke_model_free(m);
    yoke_data_free(data);
    yoke_options_free(o);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_hashed_as_in_files),
        cmocka_unit_test(features_sets_the_range_of_the_hash),
        cmocka_unit_test(without_hash_bits_index64_has_column_numbers),
        cmocka_unit_test(wrong_structures_are_refused),
        cmocka_unit_test(column_numbers_out_of_range_are_named),
        cmocka_unit_test(older_programs_keep_working),
        cmocka_unit_test(an_initial_model_needs_the_same_hashing),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
