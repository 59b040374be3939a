/* libyoke (include/yoke.h), as a program uses it. */
#include "scratch.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <yoke.h>

static yoke_options *options_of(const char *const (*set)[2])
{
    yoke_options *o = yoke_options_create();
    yoke_error error;
    assert_non_null(o);
    for (; (*set)[0]; set++)
        if (yoke_options_set(o, (*set)[0], (*set)[1], &error))
            fail_msg("%s", error.message);
    return o;
}

#define OPTIONS(...) options_of((const char *const[][2]){__VA_ARGS__, {NULL, NULL}})

static yoke_run *train(const yoke_training *t)
{
    yoke_run *run;
    yoke_error error;
    if (yoke_train(t, &run, &error))
        fail_msg("%s", error.message);
    assert_string_equal(error.message, "");
    return run;
}

/* ---- options and errors ---- */

static void options_are_checked_at_once(void **state)
{
    (void)state;
    yoke_options *o = yoke_options_create();
    yoke_error error;
    yoke_option option;
    size_t n = 0;
    while (yoke_option_at(n, &option))
        n++;
    assert_true(n > 40);
    assert_int_equal(yoke_option_at(n + 1, &option), 0);
    assert_int_equal(yoke_options_set(o, "nothing", "1", &error), YOKE_BAD_USAGE);
    assert_non_null(strstr(error.message, "nothing"));
    assert_int_equal(yoke_options_set(o, "batch", "many", &error), YOKE_BAD_USAGE);
    assert_int_equal(yoke_options_set(o, "batch", "many", NULL), YOKE_BAD_USAGE);
    assert_int_equal(yoke_options_set(o, "batch", "32", &error), YOKE_OK);
    assert_string_equal(yoke_options_get(o, "batch"), "32");
    assert_null(yoke_options_get(o, "lr"));
    assert_int_equal(yoke_options_load(o, "/nowhere.ini", &error), YOKE_BAD_USAGE);
    yoke_options_free(o);
    assert_true(*yoke_version() && *yoke_kernels());
}

static void failures_are_values(void **state)
{
    (void)state;
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_run *run;
    yoke_error error;
    assert_int_equal(yoke_train(&t, &run, &error), YOKE_BAD_USAGE);
    assert_null(run);
    yoke_options *o = OPTIONS({"model", "softmax"}, {"data", "libsvm:/nowhere"}, {"out", "none"});
    t.options = o;
    assert_int_equal(yoke_train(&t, &run, &error), YOKE_BAD_DATA);
    assert_int_equal(error.status, YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "/nowhere"));
    yoke_run_free(run);
    yoke_data *test;
    assert_int_equal(yoke_data_from_spec("synth:digits", YOKE_TEST_SPLIT, NULL, &test, &error), YOKE_OK);
    t.data = test; /* must not silently use the training split */
    assert_int_equal(yoke_train(&t, &run, &error), YOKE_BAD_USAGE);
    assert_null(run);
    yoke_data_free(test);
    t.data = NULL;
    yoke_options_free(o);
    o = OPTIONS({"model", "softmax"}, {"data", "synth:digits?examples=200"}, {"lr", "1e9"}, {"out", "none"});
    t.options = o;
    assert_int_equal(yoke_train(&t, &run, &error), YOKE_TRAINING_FAILED);
    assert_non_null(strstr(yoke_run_summary(run), "\"state\":\"failed\""));
    yoke_model *m;
    assert_int_equal(yoke_run_model(run, &m, &error), YOKE_BAD_USAGE);
    yoke_run_free(run);
    yoke_options_free(o);
    assert_int_equal(yoke_model_load("/nowhere", &m, &error), YOKE_BAD_USAGE);
    assert_null(m);
}

/* ---- data from memory ---- */

enum { ROWS = 600, COLUMNS = 50 };

typedef struct {
    int64_t start[ROWS + 1];
    int32_t start32[ROWS + 1], index[ROWS * 8], label[ROWS];
    float value[ROWS * 8];
    const char *file; /* the same as libsvm text */
} clicks;

/* The label is 1 if the sum of the weights of the row's columns is positive. */
static clicks *make_clicks(bool ascending)
{
    clicks *c = calloc(1, sizeof *c);
    c->file = in_directory("clicks.libsvm");
    FILE *f = fopen(c->file, "w");
    unsigned r = 1;
    for (int i = 0; i < ROWS; i++) {
        double score = 0.0;
        c->start32[i + 1] = (int32_t)(c->start[i + 1] = c->start[i] + 5);
        for (int k = 0; k < 5; k++) {
            r = r * 1664525u + 1013904223u;
            const int at = (int)c->start[i] + (ascending ? k : 4 - k), column = k * 10 + (int)(r >> 20) % 10;
            c->index[at] = column;
            c->value[at] = (float)(1 + (r >> 28)) / 8.0f;
            score += (column % 3 - 1) * (double)c->value[at];
        }
        c->label[i] = score > 0.0;
        fprintf(f, "%d", c->label[i]);
        for (int k = 0; k < 5; k++) {
            const int at = (int)c->start[i] + (ascending ? k : 4 - k);
            fprintf(f, " %d:%.9g", c->index[at], (double)c->value[at]);
        }
        fputc('\n', f);
    }
    fclose(f);
    return c;
}

static yoke_csr csr_of(const clicks *c)
{
    yoke_csr csr = YOKE_CSR_INIT;
    csr.rows = ROWS;
    csr.columns = COLUMNS;
    csr.start64 = c->start;
    csr.index = c->index;
    csr.value = c->value;
    csr.labels = c->label;
    return csr;
}

static double loss_of(const yoke_data *data, const char *spec)
{
    yoke_options *o = OPTIONS({"model", "logreg"}, {"batch", "20"}, {"epochs", "3"}, {"out", "none"});
    yoke_training t = YOKE_TRAINING_INIT;
    if (spec) {
        yoke_options_set(o, "data", spec, NULL);
        yoke_options_set(o, "test", spec, NULL);
        yoke_options_set(o, "features", "50", NULL);
    }
    t.options = o;
    t.data = t.test = data;
    yoke_run *run = train(&t);
    const double loss = yoke_run_number(run, "test_loss");
    assert_true(loss < 0.6 && isnan(yoke_run_number(run, "nothing")));
    yoke_run_free(run);
    yoke_options_free(o);
    return loss;
}

/* Bit-identical to training from a file, if copied; used in place, the order of examples differs. The arrays are not written to. */
static void sparse_rows_in_memory_equal_a_file(void **state)
{
    (void)state;
    for (int ascending = 0; ascending < 2; ascending++) {
        clicks *c = make_clicks(ascending), *copy = malloc(sizeof *copy);
        memcpy(copy, c, sizeof *c);
        char spec[300];
        snprintf(spec, sizeof spec, "libsvm:%s?base=0", c->file);
        const double from_file = loss_of(NULL, spec);
        for (int way = 0; way < 3; way++) {
            yoke_csr csr = csr_of(c);
            yoke_data *data;
            yoke_error error;
            csr.in_place = way == 2;
            if (way == 1) {
                csr.start64 = NULL;
                csr.start32 = c->start32;
            }
            const yoke_status st = yoke_data_from_csr(&csr, &data, &error);
            if (way == 2 && !ascending) {
                assert_int_equal(st, YOKE_BAD_USAGE);
                continue;
            }
            assert_int_equal(st, YOKE_OK);
            const double loss = loss_of(data, NULL);
            if (way < 2)
                assert_true(loss == from_file);
            else
                assert_true(fabs(loss - from_file) < 0.05);
            yoke_data_free(data);
        }
        assert_memory_equal(copy, c, sizeof *c);
        free(copy);
        free(c);
    }
}

/* Many rows are used in place if there is one worker; "auto" may choose one. The order of the examples, and so the loss,
 * shows whether they were. */
static void one_worker_from_auto_trains_in_place(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    int32_t *index = malloc(MANY * sizeof *index), *start = malloc((MANY + 1) * sizeof *start),
            *label = malloc(MANY * sizeof *label);
    unsigned r = 1;
    for (int i = 0; i <= MANY; i++)
        start[i] = i;
    for (int i = 0; i < MANY; i++) {
        r = r * 1664525u + 1013904223u;
        index[i] = (int)(r >> 20) % COLUMNS;
        label[i] = index[i] % 3 == (int)(r >> 14 & 3);
    }
    yoke_csr csr = YOKE_CSR_INIT;
    csr.rows = MANY;
    csr.columns = COLUMNS;
    csr.start32 = start;
    csr.index = index;
    csr.labels = label;
    double loss[3];
    for (int way = 0; way < 3; way++) {
        yoke_data *data;
        csr.in_place = way == 2;
        assert_int_equal(yoke_data_from_csr(&csr, &data, NULL), YOKE_OK);
        yoke_options *o = OPTIONS({"model", "logreg"}, {"threads", "1024"}, {"out", "none"});
        yoke_options_set(o, "workers", way == 0 ? "auto" : "1", NULL);
        yoke_training t = YOKE_TRAINING_INIT;
        t.options = o;
        t.data = data;
        yoke_run *run = train(&t);
        loss[way] = yoke_run_number(run, "train_loss");
        yoke_run_free(run);
        yoke_options_free(o);
        yoke_data_free(data);
    }
    assert_true(loss[0] == loss[1] && loss[1] == loss[2]);
    free(index);
    free(start);
    free(label);
}

static void bad_rows_are_refused(void **state)
{
    (void)state;
    clicks *c = make_clicks(true);
    yoke_data *data;
    yoke_error error;
    yoke_csr csr = csr_of(c);
    c->index[7] = COLUMNS;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "row 1: index 50"));
    c->index[7] = -1;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_BAD_DATA);
    c->index[7] = 11;
    c->label[3] = -2;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "row 3: label -2"));
    c->label[3] = 0;
    c->value[20] = NAN;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_BAD_DATA);
    c->value[20] = 0.0f;
    c->start[5] = -1;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_BAD_DATA);
    csr.struct_size = 0;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_BAD_USAGE);
    assert_null(data);
    free(c);
}

/* ---- models ---- */

typedef struct {
    float p[400];
    size_t n;
} taken;

static int take(void *context, const yoke_predictions *block)
{
    taken *t = context;
    assert_null(block->file);
    for (size_t i = 0; i < block->n * block->outputs && t->n < 400; i++)
        t->p[t->n++] = block->probability[i];
    return 0;
}

static int refuse(void *context, const yoke_predictions *block)
{
    (void)context;
    (void)block;
    return 17;
}

/* The tensors have the sizes of their shapes, and the arrays of yoke_predict_array() the predictions of yoke_predict(). */
static void arrays_of(const yoke_model *m, const yoke_data *data, const taken *expected)
{
    yoke_tensor t;
    yoke_error error;
    size_t n = 0;
    for (; yoke_model_tensor_at(m, n, &t); n++) {
        size_t size = 1;
        for (size_t r = 0; r < t.rank; r++)
            size *= t.shape[r];
        assert_int_equal(size, t.size);
        float *copy = calloc(size, sizeof *copy);
        yoke_model_tensor_copy(m, n, copy);
        if (t.data)
            assert_memory_equal(copy, t.data, size * sizeof *copy);
        free(copy);
    }
    assert_true(n >= 2);
    yoke_score score;
    assert_int_equal(yoke_evaluate(m, data, &score, &error), YOKE_OK);
    const size_t rows = score.examples;
    float *p = calloc(rows * yoke_model_outputs(m), sizeof *p);
    assert_int_equal(yoke_predict_array(m, data, p, rows, &error), YOKE_OK);
    assert_memory_equal(p, expected->p, sizeof expected->p);
    assert_int_equal(yoke_predict_array(m, data, p, rows - 1, &error), YOKE_BAD_USAGE);
    assert_non_null(strstr(error.message, "more examples"));
    free(p);
    p = calloc((rows + 1) * yoke_model_outputs(m), sizeof *p);
    assert_int_equal(yoke_predict_array(m, data, p, rows + 1, &error), YOKE_BAD_USAGE);
    free(p);
}

/* A model with fields predicts a CSR matrix with field numbers, and names what is wrong with them. */
static void a_matrix_with_fields_is_predicted(void **state)
{
    (void)state;
    enum { N = 600, WIDTH = 2, WIDE = 20 };
    static int32_t index[N * WIDTH], label[N], start[N + 1];
    static uint16_t field[N * WIDTH];
    static float p[N], same[N];
    yoke_error error;
    for (int i = 0; i < N; i++) {
        start[i + 1] = (i + 1) * WIDTH;
        label[i] = (i % 10 + i / 10) % 2;
        index[2 * i] = i % 10;
        index[2 * i + 1] = 10 + i / 10 % 10;
        field[2 * i + 1] = 1;
    }
    yoke_csr csr = YOKE_CSR_INIT;
    csr.rows = N;
    csr.columns = WIDE;
    csr.start32 = start;
    csr.index = index;
    csr.labels = label;
    csr.field = field;
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_options *o = OPTIONS({"model", "embed 2, dense 4, relu, dense 1"}, {"epochs", "1"}, {"out", "none"},
                              {"test", "none"});
    t.options = o;
    yoke_data *data;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_OK);
    t.data = data;
    yoke_run *run = train(&t);
    yoke_model *m;
    assert_int_equal(yoke_run_model(run, &m, &error), YOKE_OK);
    assert_int_equal(yoke_predict_array(m, data, p, N, &error), YOKE_OK);
    assert_int_equal(yoke_predict_csr(m, &csr, same, 1, &error), YOKE_OK);
    for (int i = 0; i < N; i++)
        assert_true(fabsf(p[i] - same[i]) < 1e-6f);
    field[N] = 2;
    assert_int_equal(yoke_predict_csr(m, &csr, same, 1, &error), YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "an entry has field 2, but the model was trained on 2 fields"));
    csr.field = NULL;
    assert_int_equal(yoke_predict_csr(m, &csr, same, 1, &error), YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "the matrix has no field numbers"));
    yoke_model_free(m);
    yoke_run_free(run);
    yoke_data_free(data);
    yoke_options_free(o);
}

/* The probabilities of the rows of a CSR matrix are those of yoke_predict_array(), in any order of indices, with one or two
 * columns; bad rows are named. */
static void a_matrix_is_predicted_while_it_is_checked(void **state)
{
    (void)state;
    enum { N = 20000, WIDTH = 3, WIDE = 50 }; /* several threads and blocks */
    static int32_t index[N * WIDTH], label[N], start[N + 1];
    static int64_t wide[N + 1];
    static float value[N * WIDTH], p[N], both[N][2];
    yoke_error error;
    for (int i = 0; i < N; i++) {
        label[i] = i % 3 == 0;
        wide[i + 1] = start[i + 1] = (i + 1) * WIDTH;
        for (int k = 0; k < WIDTH; k++) {
            index[i * WIDTH + k] = (i + 17 * k) % WIDE;
            value[i * WIDTH + k] = i < N / 2 ? 1.0f : 0.25f * (float)(i % 5); /* some blocks have only ones */
        }
    }
    yoke_csr csr = YOKE_CSR_INIT;
    csr.rows = N;
    csr.columns = WIDE;
    csr.start32 = start;
    csr.index = index;
    csr.value = value;
    csr.labels = label;
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_options *o = OPTIONS({"model", "logreg"}, {"epochs", "1"}, {"out", "none"}, {"test", "none"});
    t.options = o;
    yoke_data *data;
    assert_int_equal(yoke_data_from_csr(&csr, &data, &error), YOKE_OK);
    t.data = data;
    yoke_run *run = train(&t);
    yoke_model *m;
    assert_int_equal(yoke_run_model(run, &m, &error), YOKE_OK);
    assert_int_equal(yoke_predict_array(m, data, p, N, &error), YOKE_OK);
    csr.labels = NULL;
    yoke_data *unlabeled;
    yoke_score score;
    assert_int_equal(yoke_data_from_csr(&csr, &unlabeled, &error), YOKE_OK);
    t.data = unlabeled;
    yoke_run *none;
    assert_int_equal(yoke_train(&t, &none, &error), YOKE_BAD_USAGE);
    assert_non_null(strstr(error.message, "no labels"));
    assert_int_equal(yoke_evaluate(m, unlabeled, &score, &error), YOKE_BAD_USAGE);
    assert_int_equal(yoke_predict_array(m, unlabeled, p, N, &error), YOKE_OK);
    yoke_run_free(none);
    yoke_data_free(unlabeled);
    assert_int_equal(yoke_predict_csr(m, &csr, &both[0][0], 2, &error), YOKE_OK);
    for (int i = 0; i < N; i++)
        assert_true(fabsf(both[i][1] - p[i]) < 1e-6f && fabsf(both[i][0] + p[i] - 1.0f) < 1e-6f);
    csr.start32 = NULL;
    csr.start64 = wide;
    static float one[N];
    assert_int_equal(yoke_predict_csr(m, &csr, one, 1, &error), YOKE_OK);
    for (int i = 0; i < N; i++)
        assert_true(one[i] == both[i][1]);

    assert_int_equal(yoke_predict_csr(m, &csr, one, 3, &error), YOKE_BAD_USAGE);
    csr.columns = WIDE + 1;
    assert_int_equal(yoke_predict_csr(m, &csr, one, 1, &error), YOKE_BAD_DATA);
    csr.columns = WIDE;
    value[15000 * WIDTH + 1] = NAN;
    assert_int_equal(yoke_predict_csr(m, &csr, one, 1, &error), YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "row 15000: the value"));
    value[15000 * WIDTH + 1] = 1.0f;
    index[700 * WIDTH] = -1;
    assert_int_equal(yoke_predict_csr(m, &csr, one, 1, &error), YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "row 700: index -1 is out of range for 50 columns"));
    index[700 * WIDTH] = 0;
    wide[900] = 3 * N;
    assert_int_equal(yoke_predict_csr(m, &csr, one, 1, &error), YOKE_BAD_DATA);
    assert_non_null(strstr(error.message, "row 900"));
    wide[900] = 900 * WIDTH;
    wide[N] = -1;
    assert_int_equal(yoke_predict_csr(m, &csr, one, 1, &error), YOKE_BAD_DATA);
    yoke_model_free(m);
    yoke_run_free(run);
    yoke_data_free(data);
    yoke_options_free(o);
}

/* The model of a run, its checkpoint and a file saved from it give the same predictions; training can start from it. */
static void models_predict_the_same(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"softmax", "synth:digits?examples=300"},
                                           {"logreg", "synth:ctr?features=5000&examples=2000"},
                                           {"dense 20, relu, dense 10", "synth:digits?examples=300"}};
    for (size_t i = 0; i < 3; i++) {
        const char *out = in_directory("run"), *file = in_directory("m.safetensors");
        yoke_options *o = OPTIONS({"model", cases[i][0]}, {"data", cases[i][1]}, {"out", out},
                                  {"epochs", "2"}, {"mode", "async"}, {"workers", "2"});
        yoke_training t = YOKE_TRAINING_INIT;
        t.options = o;
        yoke_run *run = train(&t);
        assert_string_equal(yoke_run_directory(run), out);
        yoke_data *data;
        yoke_error error;
        assert_int_equal(yoke_data_from_spec(cases[i][1], YOKE_TEST_SPLIT, NULL, &data, &error), YOKE_OK);
        taken all[3] = {0};
        for (int k = 0; k < 3; k++) {
            yoke_model *m = NULL;
            assert_int_equal(k == 0   ? yoke_run_model(run, &m, &error)
                             : k == 1 ? yoke_model_load(out, &m, &error)
                                      : yoke_model_load(file, &m, &error),
                             YOKE_OK);
            assert_string_equal(yoke_model_name(m), cases[i][0]);
            assert_int_equal(yoke_predict(m, data, take, &all[k], &error), YOKE_OK);
            assert_int_equal(yoke_predict(m, data, refuse, NULL, &error), 17);
            yoke_score score;
            assert_int_equal(yoke_evaluate(m, data, &score, &error), YOKE_OK);
            assert_true(fabs(score.loss - yoke_run_number(run, "test_loss")) < 1e-6);
            char *json, *text;
            assert_int_equal(yoke_evaluate_metrics(m, data, &json, &text, &error), YOKE_OK);
            assert_non_null(strstr(json, "\"macro_f1\":"));
            assert_non_null(strstr(text, "macro F1 "));
            free(json);
            free(text);
            assert_int_equal(yoke_evaluate_metrics(m, data, NULL, NULL, &error), YOKE_OK);
            assert_true(yoke_run_number(run, "test_metrics.loss") == yoke_run_number(run, "test_loss"));
            assert_true(isnan(yoke_run_number(run, "test_metrics")));
            if (k == 0)
                assert_int_equal(yoke_model_save(m, file, &error), YOKE_OK);
            if (k == 0)
                arrays_of(m, data, &all[k]);
            char *torch = yoke_model_torch(m);
            assert_non_null(strstr(torch, "model = nn.Sequential("));
            free(torch);
            yoke_model_free(m);
            assert_memory_equal(all[0].p, all[k].p, sizeof all[0].p);
        }
        yoke_model *start;
        assert_int_equal(yoke_run_model(run, &start, &error), YOKE_OK);
        const double before = yoke_run_number(run, "test_loss");
        yoke_run_free(run);
        yoke_options_set(o, "out", "none", NULL);
        yoke_options_set(o, "lr", "1e-9", NULL);
        t.start = start;
        run = train(&t);
        assert_true(fabs(yoke_run_number(run, "test_loss") - before) < 1e-4);
        yoke_run_free(run);
        yoke_model_free(start);
        yoke_data_free(data);
        yoke_options_free(o);
        assert_int_equal(nftw(out, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

/* ---- callbacks ---- */

typedef struct {
    atomic_int inside;
    atomic_int progress;
    int notes, metrics, cancel_after;
    double last_loss;
} watcher;

static void enter(watcher *w)
{
    assert_int_equal(atomic_fetch_add(&w->inside, 1), 0);
}

static void on_log(void *context, yoke_log_level level, const char *text)
{
    watcher *w = context;
    enter(w);
    w->notes += level == YOKE_NOTE && *text;
    atomic_fetch_sub(&w->inside, 1);
}

static int on_metrics(void *context, const yoke_metrics *m)
{
    watcher *w = context;
    enter(w);
    w->metrics++;
    w->last_loss = m->test_loss;
    atomic_fetch_sub(&w->inside, 1);
    return w->cancel_after && w->metrics >= w->cancel_after;
}

static int on_progress(void *context, const yoke_progress *p)
{
    watcher *w = context;
    enter(w);
    w->progress += p->step > 0 && *p->text;
    atomic_fetch_sub(&w->inside, 1);
    return 0;
}

static yoke_training watched(const yoke_options *o, watcher *w)
{
    yoke_training t = YOKE_TRAINING_INIT;
    t.options = o;
    t.context = w;
    t.log = on_log;
    t.metrics = on_metrics;
    t.progress = on_progress;
    return t;
}

static void callbacks_observe_and_can_cancel(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        yoke_options *o = OPTIONS({"model", "softmax"}, {"data", "synth:digits?examples=500&test=100"},
                                  {"epochs", "100000"}, {"out", "none"}, {"mode", async ? "async" : "sync"},
                                  {"workers", "2"}, {"eval-every", "20"});
        watcher w = {.cancel_after = 5};
        const yoke_training t = watched(o, &w);
        yoke_run *run = train(&t);
        assert_true(w.metrics == 5 && w.notes > 0); /* not called again for the last evaluation */
        assert_non_null(strstr(yoke_run_summary(run), "\"interrupted\":true"));
        assert_true(isfinite(w.last_loss) && yoke_run_number(run, "test_loss") < 2.3);
        yoke_run_free(run);
        yoke_options_free(o);
    }
}

typedef struct {
    watcher w;
    volatile sig_atomic_t flag;
} canceled;

static void *cancel_soon(void *context)
{
    canceled *c = context;
    while (!atomic_load(&c->w.progress))
        usleep(1000);
    __atomic_store_n(&c->flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void another_thread_can_cancel(void **state)
{
    (void)state;
    yoke_options *o = OPTIONS({"model", "softmax"}, {"data", "synth:digits?examples=2000"},
                              {"epochs", "100000"}, {"out", "none"});
    canceled c = {0};
    yoke_training t = watched(o, &c.w);
    t.cancel = &c.flag;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &c), 0);
    yoke_run *run = train(&t);
    pthread_join(thread, NULL);
    assert_non_null(strstr(yoke_run_summary(run), "\"interrupted\":true"));
    yoke_run_free(run);
    yoke_options_free(o);
}

/* ---- several trainings in one process ---- */

typedef struct {
    int number;
    double loss;
    watcher w;
} trainer;

static void *train_one(void *context)
{
    trainer *me = context;
    char seed[16];
    snprintf(seed, sizeof seed, "%d", 1 + me->number % 3);
    yoke_options *o = OPTIONS(
        {"model", me->number % 2 ? "softmax" : "logreg"},
        {"data", me->number % 2 ? "synth:digits?examples=500" : "synth:ctr?features=1000&examples=1000"},
        {"epochs", "2"}, {"workers", "2"}, {"out", "none"}, {"seed", seed});
    const yoke_training t = watched(o, &me->w);
    yoke_run *run;
    if (!yoke_train(&t, &run, NULL))
        me->loss = yoke_run_number(run, "test_loss");
    yoke_run_free(run);
    yoke_options_free(o);
    return NULL;
}

/* Sequentially and concurrently: the same results, and each training calls only its own callbacks. */
static void concurrent_trainings_are_independent(void **state)
{
    (void)state;
    enum { N = 6 };
    trainer alone[N] = {0}, joint[N] = {0};
    pthread_t thread[N];
    for (int i = 0; i < N; i++) {
        alone[i].number = joint[i].number = i;
        train_one(&alone[i]);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, train_one, &joint[i]), 0);
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < N; i++) {
        assert_true(alone[i].loss > 0.0 && alone[i].loss == joint[i].loss);
        assert_int_equal(joint[i].w.metrics, alone[i].w.metrics);
        assert_true(joint[i].w.metrics >= 2);
    }
}

/* Without the option out, each training has its own run directory. */
static void *train_default(void *context)
{
    yoke_options *o = OPTIONS({"model", "softmax"}, {"data", "synth:digits?examples=200"}, {"epochs", "1"});
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_run *run;
    yoke_error error;
    t.options = o;
    *(bool *)context = !yoke_train(&t, &run, &error);
    yoke_run_free(run);
    yoke_options_free(o);
    return NULL;
}

static void default_run_directories_differ(void **state)
{
    (void)state;
    enum { N = 4 };
    bool ok[N] = {0};
    pthread_t thread[N];
    char before[300];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(in_directory(".")), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, train_default, &ok[i]), 0);
    int runs = 0;
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        assert_true(ok[i]);
    }
    DIR *d = opendir("runs");
    for (struct dirent *e; (e = readdir(d));)
        runs += *e->d_name != '.';
    closedir(d);
    assert_int_equal(runs, N);
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked_at_once),
        cmocka_unit_test(failures_are_values),
        cmocka_unit_test_setup_teardown(sparse_rows_in_memory_equal_a_file, make_test_directory,
                                        remove_test_directory),
        cmocka_unit_test(one_worker_from_auto_trains_in_place),
        cmocka_unit_test_setup_teardown(bad_rows_are_refused, make_test_directory, remove_test_directory),
        cmocka_unit_test(a_matrix_with_fields_is_predicted),
        cmocka_unit_test(a_matrix_is_predicted_while_it_is_checked),
        cmocka_unit_test_setup_teardown(models_predict_the_same, make_test_directory, remove_test_directory),
        cmocka_unit_test(callbacks_observe_and_can_cancel),
        cmocka_unit_test(another_thread_can_cancel),
        cmocka_unit_test(concurrent_trainings_are_independent),
        cmocka_unit_test_setup_teardown(default_run_directories_differ, make_test_directory,
                                        remove_test_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
