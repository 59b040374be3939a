/* Warnings about planted results and data: each mistake is named, and healthy runs are not. */
#include "scratch.h"

#include "base/rng.h"
#include "data/check.h"
#include "observe/observe.h"
#include <math.h>

enum { MAX = 16 };

typedef struct {
    yk_evaluation point[MAX];
    yk_outcome r;
    yk_observation w;
} trial;

/* A tested run of ten classes, an epoch of 5000 examples and 50 steps for each loss. */
static trial begin(int n, const double *train, const double *test, const double *accuracy)
{
    trial t = {.r = {.lr = 0.1, .classes = 10, .examples = 5000, .test_examples = 1000, .global_batch = 100}};
    for (int i = 0; i < n; i++)
        t.point[i] = (yk_evaluation){.m = {.epoch = i + 1.0,
                                           .train_loss = train[i],
                                           .test_loss = test[i],
                                           .test_accuracy = accuracy[i]},
                                     .steps = 50,
                                     .examples = 5000};
    t.r.points = (size_t)n;
    t.r.last = (yk_evaluation){.m = {.train_loss = train[n - 1],
                                     .test_loss = test[n - 1],
                                     .test_accuracy = accuracy[n - 1],
                                     .majority_accuracy = 0.11,
                                     .test_auc = (double)NAN},
                               .tested = true};
    return t;
}

/* Whether the warnings are exactly these kinds: "loss_rose", "a b", or "". */
static void expect(trial *t, const char *kinds)
{
    char all[256] = "";
    t->r.point = t->point;
    yk_observation_warn(&t->r, &t->w);
    for (int i = 0; i < t->w.nwarnings; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "",
                 yk_warning_texts[t->w.warning[i].kind].name);
    if (strcmp(all, kinds))
        fail_msg("the warnings are '%s', not '%s': %s", all, kinds,
                 t->w.nwarnings ? t->w.warning[0].text : "none");
    for (int i = 0; i < t->w.nwarnings; i++) /* evidence and remedy */
        assert_non_null(strpbrk(t->w.warning[i].text, "0123456789"));
    yk_observation_fini(&t->w);
}

static void random_labels(void **state)
{
    (void)state;
    const double train[] = {(double)NAN, 0.6938, 0.6936}, test[] = {0.69315, 0.694, 0.6942},
                 accuracy[] = {0.5, 0.505, 0.508};
    trial t = begin(3, train, test, accuracy);
    t.r.classes = 2;
    t.r.last.m.majority_accuracy = 0.502;
    t.r.last.m.test_auc = 0.507;
    expect(&t, "majority_accuracy"); /* and not a learning rate that is too small */
    t.r.last.m.test_auc = 0.62;      /* it ranks a little */
    expect(&t, "");
}

static void mistaken_labels(void **state)
{
    (void)state;
    /* shuffled, with few strong features: the model of the noise ranks the test set by chance, but not by 0.5 */
    trial t = begin(5, (double[]){(double)NAN, 0.6928, 0.6926, 0.6925, 0.6924},
                    (double[]){0.6931, 0.7, 0.71, 0.715, 0.7186}, (double[]){0.5, 0.39, 0.32, 0.39, 0.377});
    t.r.classes = 2;
    t.r.default_lr = 0.1;
    t.r.data.large.size = 1.0;
    t.r.last.m.majority_accuracy = 0.511;
    t.r.last.m.test_auc = 0.31;
    expect(&t, "majority_accuracy");
    t.r.last.m.train_loss = t.point[4].m.train_loss = 0.4; /* it has learned: the test labels are reversed */
    expect(&t, "worse_than_chance");
    /* ten classes, counted from 1 in the test set only */
    t = begin(2, (double[]){0.5, 0.24}, (double[]){7.0, 8.5}, (double[]){0.01, 0.002});
    expect(&t, "worse_than_chance");
    t.r.data.unseen.label = 10;
    t.r.data.unseen.share = 0.1;
    expect(&t, "worse_than_chance label_shift");
    /* clicks are rare in the training set only: not overfitting */
    t = begin(2, (double[]){0.09, 0.07}, (double[]){1.5, 1.7}, (double[]){0.467, 0.467});
    t.r.classes = 2;
    t.r.last.m.majority_accuracy = 0.533;
    t.r.last.m.test_auc = 0.93;
    t.r.data.shifted.train = 0.01;
    t.r.data.shifted.test = 0.53;
    expect(&t, "majority_accuracy label_shift");
    t = begin(2, (double[]){0.5, 0.4}, (double[]){0.5, 0.4}, (double[]){0.85, 0.9});
    t.r.data.classes = 2;
    t.r.data.first_class = 1;
    expect(&t, "unused_class");
}

static void unscaled_features(void **state)
{
    (void)state;
    trial t = begin(2, (double[]){9.0, 8.0}, (double[]){9.0, 7.0}, (double[]){0.3, 0.3});
    t.r.data.large.size = 1e6;
    t.r.data.large.much_smaller = 0.5;
    t.r.point = t.point;
    yk_observation_warn(&t.r, &t.w);
    assert_int_equal(t.w.nwarnings, 1); /* with the remedy: another rate would not help */
    assert_non_null(strstr(t.w.warning[0].text, "scale the features"));
    assert_null(strstr(t.w.warning[0].text, "--lr"));
    yk_observation_fini(&t.w);
    t = begin(2, (double[]){0.9, 0.8}, (double[]){0.9, 0.8}, (double[]){0.6, 0.65});
    t.r.data.large.size = 1e6;
    t.r.data.large.much_smaller = 0.5;
    expect(&t, "unscaled_features");
    t.r.adaptive = true;
    expect(&t, "");
}

static void healthy_runs(void **state)
{
    (void)state;
    const double train[] = {0.9, 0.5, 0.4, 0.36, 0.34, 0.33}, test[] = {0.6, 0.5, 0.42, 0.4, 0.41, 0.405},
                 accuracy[] = {0.8, 0.85, 0.88, 0.89, 0.885, 0.89};
    for (int n = 1; n <= 6; n++) {
        trial t = begin(n, train, test, accuracy);
        expect(&t, "");
    }
}

static void a_loss_that_rises(void **state)
{
    (void)state;
    trial t = begin(3, (double[]){0.9, 0.5, 0.9}, (double[]){0.6, 0.5, 0.9}, (double[]){0.8, 0.85, 0.7});
    expect(&t, "loss_rose");
    t.point[2].examples = 5; /* the mean of five examples is noise */
    t.point[2].steps = 5;
    expect(&t, "");
    t.point[2] = t.point[1];
    t.point[2].steps = 2;
    expect(&t, "");
    t = begin(1, (double[]){9.0}, (double[]){0.5}, (double[]){0.85}); /* the mean includes the beginning */
    expect(&t, "");
    t.r.last.tested = false;
    expect(&t, "");
    t = begin(2, (double[]){9.0, 8.0}, (double[]){9.0, 7.0}, (double[]){0.3, 0.3});
    expect(&t, "loss_rose");
    t.r.lr = 100.0;
    t.r.default_lr = 0.1;
    t.r.point = t.point;
    yk_observation_warn(&t.r, &t.w);
    assert_non_null(strstr(t.w.warning[0].text, "try a smaller --lr"));
    yk_observation_fini(&t.w);
    /* a network that has become constant */
    t = begin(2, (double[]){2.4, 2.327}, (double[]){2.33, 2.324}, (double[]){0.1, 0.1});
    t.r.lr = 5.0;
    t.r.default_lr = 0.1;
    expect(&t, "loss_rose majority_accuracy");
    t = begin(1, (double[]){7.5}, (double[]){0.5}, (double[]){0.85}); /* the mean of a first epoch is not */
    t.r.lr = 1.0;
    t.r.default_lr = 0.1;
    expect(&t, "");
    t.r.last.tested = false;
    expect(&t, "");
    /* accurate, but far too certain */
    t = begin(3, (double[]){5.2, 2.4, 1.64}, (double[]){2.4, 3.0, 2.2}, (double[]){0.84, 0.82, 0.875});
    expect(&t, "loss_rose");
    t = begin(3, (double[]){5.2, 0.9, 0.7}, (double[]){0.9, 0.7, 0.6}, (double[]){0.84, 0.85, 0.86});
    expect(&t, ""); /* it has recovered */
}

static void too_small_a_rate(void **state)
{
    (void)state;
    trial t = begin(1, (double[]){2.295}, (double[]){2.29}, (double[]){0.6});
    expect(&t, "learning_rate_too_small"); /* ranks well, with small outputs */
    t = begin(4, (double[]){2.45, 2.44, 2.43, 2.42}, (double[]){2.44, 2.43, 2.42, 2.41},
              (double[]){0.12, 0.12, 0.12, 0.12});
    expect(&t, "learning_rate_too_small"); /* a network begins above the uniform guess */
    t = begin(4, (double[]){(double)NAN, 2.4503, 2.4382, 2.4268}, (double[]){2.4597, 2.4478, 2.4366, 2.4261},
              (double[]){0.12, 0.12, 0.12, 0.12});
    expect(&t, "learning_rate_too_small"); /* with the evaluation before the first step */
    t = begin(4, (double[]){2.3, 1.2, 0.8, 0.7}, (double[]){1.5, 1.0, 0.8, 0.7},
              (double[]){0.5, 0.6, 0.7, 0.8});
    expect(&t, "");
    t.r.classes = 2; /* it does not even know that clicks are rare */
    t.r.last.m.majority_accuracy = t.r.last.m.test_accuracy = 0.9;
    t.r.last.m.train_loss = t.point[3].m.train_loss = 0.69;
    t.r.last.m.test_loss = 0.688;
    t.r.last.m.test_auc = 0.6;
    expect(&t, "learning_rate_too_small majority_accuracy");
    t.r.reweighted = true; /* with class weights, that loss is not bad, and a low accuracy is expected */
    t.r.last.m.train_loss = t.point[3].m.train_loss = 0.5;
    expect(&t, "");
}

/* Of the rates 0.1 and 10, the larger one is better: the advice for both must not point at each other. */
static void slow_progress_with_any_rate(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        trial t = begin(4, (double[]){(double)NAN, 0.6913, 0.6885, 0.6859},
                        (double[]){0.6931, 0.6917, 0.6901, 0.6893}, (double[]){0.5, 0.5, 0.5, 0.5});
        t.r.classes = 2;
        t.r.last.m.majority_accuracy = 0.52;
        t.r.lr = large ? 10.0 : 0.1;
        t.r.default_lr = 0.1;
        t.r.point = t.point;
        yk_observation_warn(&t.r, &t.w);
        assert_true(t.w.nwarnings > 0 && t.w.warning[0].kind == YK_WARNING_LR_TOO_SMALL);
        assert_non_null(strstr(t.w.warning[0].text, "training is slow with learning rate"));
        assert_non_null(strstr(t.w.warning[0].text, "try a larger --lr, or more --epochs"));
        yk_observation_fini(&t.w);
    }
}

/* A loss that began far above a uniform guess and falls says nothing about the learning rate. */
static void large_initial_parameters(void **state)
{
    (void)state;
    trial t =
        begin(3, (double[]){(double)NAN, 30.0, 12.0}, (double[]){80.0, 20.0, 9.0}, (double[]){0.1, 0.3, 0.4});
    expect(&t, "");
    t.point[0].m.test_loss = 2.31; /* it rose during training */
    expect(&t, "loss_rose");
}

static void overfitting(void **state)
{
    (void)state;
    trial t = begin(8, (double[]){0.9, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02},
                    (double[]){0.7, 0.6, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8},
                    (double[]){0.7, 0.8, 0.82, 0.82, 0.81, 0.81, 0.81, 0.81});
    expect(&t, "overfitting");
    t.r.test_examples = 20; /* too few to tell */
    expect(&t, "");
    t = begin(8, (double[]){0.9, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02},
              (double[]){0.7, 0.6, 0.55, 0.56, 0.55, 0.57, 0.55, 0.56},
              (double[]){0.7, 0.8, 0.82, 0.82, 0.81, 0.81, 0.81, 0.81});
    expect(&t, ""); /* a plateau */
    t = begin(6, (double[]){(double)NAN, 0.65, 0.61, 0.59, 0.58, 0.57},
              (double[]){0.6931, 0.78, 0.78, 0.73, 0.73, 0.75}, (double[]){0.7, 0.2, 0.3, 0.4, 0.5, 0.5});
    t.point[0].m.epoch = 0.0;
    expect(&t, ""); /* class weights: the test loss was never below that of the untrained model */
}

static void oscillation(void **state)
{
    (void)state;
    const double loss[] = {1.0, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8};
    trial t = begin(8, loss, loss, (double[]){0.6, 0.7, 0.75, 0.62, 0.78, 0.6, 0.77, 0.64});
    t.r.asynchronous = true;
    expect(&t, "oscillating_accuracy");
    t = begin(8, loss, loss, (double[]){0.6, 0.7, 0.75, 0.76, 0.75, 0.77, 0.76, 0.77});
    expect(&t, "");
    t = begin(8, loss, loss, (double[]){0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}); /* it only rises */
    expect(&t, "");
}

/* ---- data */

static yk_rows make_rows(size_t n, size_t dim, uint64_t seed, int leak, int classes)
{
    yk_rows rows;
    yk_rng rng = yk_rng_seed(seed, 0);
    yk_rows_init(&rows, YK_ROWS_F32, dim);
    for (size_t i = 0; i < n; i++) {
        float *x;
        const int32_t label = (int32_t)yk_rng_below(&rng, (uint32_t)classes);
        assert_int_equal(yk_rows_dense_f32(&rows, &x), YK_OK);
        for (size_t k = 0; k < dim; k++)
            x[k] = (float)yk_rng_below(&rng, 1000) * 1e-3f + (k == 0 ? 0.3f * (float)label : 0.0f);
        if (leak >= 0)
            x[leak] = (float)label + 0.01f * x[0];
        assert_int_equal(yk_rows_commit(&rows, 0, label), YK_OK);
    }
    return rows;
}

static yk_data_check check(yk_rows *train, yk_rows *test, uint32_t classes)
{
    yk_data_check c;
    assert_int_equal(yk_data_check_rows(train, test, classes, 0, &c), YK_OK);
    return c;
}

static void dense_data(void **state)
{
    (void)state;
    yk_rows train = make_rows(3000, 5, 1, -1, 3), test = make_rows(500, 5, 2, -1, 3),
            leaked = make_rows(3000, 5, 1, 4, 3), one = make_rows(300, 5, 1, -1, 1);
    yk_data_check c = check(&train, &test, 3);
    assert_true(c.classes > 1 && c.overlap == 0.0 && c.column == -1);
    assert_int_equal(check(&leaked, &test, 3).column, 4);
    c = check(&one, &test, 2);
    assert_true(c.classes == 1 && c.only_class == 0 && c.column == -1);
    c = check(&one, &test, 3); /* class 0 only, and all three */
    assert_true(c.shifted.label == 0 && c.shifted.train == 1.0 && c.shifted.test < 0.4);
    assert_true(c.unseen.label > 0 && c.unseen.share > 0.6);
    for (size_t i = 0; i < train.n; i++)
        train.f32[i * train.dim + 2] *= 1e5f;
    c = check(&train, &test, 3);
    assert_true(c.first_class == 0 && c.large.column == 2 && c.large.size > 5e4 &&
                c.large.much_smaller > 0.9);
    for (size_t i = 0; i < train.n; i++)
        train.f32[i * train.dim + 2] *= 1e-5f;
    c = check(&train, &test, 3);
    assert_true(!yk_data_is_unscaled(&c) && c.unseen.share == 0.0 &&
                fabs(c.shifted.train - c.shifted.test) < 0.1);
    assert_int_equal(yk_rows_append(&test, &train, 100, 500), YK_OK); /* half of the test set is known */
    assert_true(fabs(check(&train, &test, 3).overlap - 0.5) < 0.05);
    yk_rows_fini(&train);
    yk_rows_fini(&test);
    yk_rows_fini(&leaked);
    yk_rows_fini(&one);
}

/* Rows of some keys; the label is in key 7 if `leak`. */
static yk_rows make_sparse(size_t n, uint32_t keys, uint64_t seed, bool leak)
{
    yk_rows rows;
    yk_rng rng = yk_rng_seed(seed, 0);
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t *index;
        float *value;
        const int32_t label = yk_rng_below(&rng, 3) == 0;
        assert_int_equal(yk_rows_sparse(&rows, 9, &index, &value), YK_OK);
        for (int k = 0; k < 8; k++)
            index[k] = 8 + yk_rng_below(&rng, keys - 8);
        index[8] = 7;
        assert_int_equal(yk_rows_commit(&rows, leak && label ? 9 : 8, label), YK_OK);
    }
    return rows;
}

static void sparse_data(void **state)
{
    (void)state;
    yk_rows train = make_sparse(4000, 65536, 1, false), test = make_sparse(500, 65536, 2, false),
            leaked = make_sparse(4000, 65536, 1, true), few = make_sparse(4000, 10, 1, false);
    yk_data_check c = check(&train, &test, 2);
    assert_true(c.overlap == 0.0 && c.column == -1 && c.hashed_into == 0);
    assert_true(check(&train, &train, 2).overlap > 0.95);
    c = check(&leaked, &test, 2);
    assert_true(c.column == 7 && c.column_accuracy > 0.999);
    assert_true(check(&few, &few, 2).overlap == 0.0); /* so few different examples mean nothing */
    assert_int_equal(yk_data_check_rows(&train, NULL, 2, 65536, &c), YK_OK);
    assert_true(c.used_columns > 0.3 && c.used_columns < 0.5 && fabs(c.keys - 32000.0) < 2000.0);
    assert_int_equal(yk_data_check_rows(&train, NULL, 2, 1 << 24, &c), YK_OK);
    assert_true(c.used_columns < 0.01);
    yk_rows_fini(&train);
    yk_rows_fini(&test);
    yk_rows_fini(&leaked);
    yk_rows_fini(&few);
}

static void data_is_warned_about(void **state)
{
    (void)state;
    trial t = begin(1, (double[]){0.5}, (double[]){0.5}, (double[]){0.85});
    t.r.data = (yk_data_check){.examples = 1000, .classes = 2, .overlap = 0.3, .column = -1};
    expect(&t, "test_in_training");
    t.r.data =
        (yk_data_check){.examples = 1000, .classes = 2, .column = 3, .column_accuracy = 1.0, .majority = 0.5};
    expect(&t, "label_leak");
    t.r.data = (yk_data_check){
        .classes = 2, .column = -1, .hashed_into = 1 << 16, .used_columns = 0.9, .keys = 150000};
    expect(&t, "hash_collisions");
    t.r.data = (yk_data_check){.classes = 1, .column = -1};
    expect(&t, "one_class");
    t.r.data = (yk_data_check){.classes = 2, .column = -1};
    t.r.global_batch = 6000;
    expect(&t, "batch_too_large");
}

/* Other programs use a small part of a large host. */
static void a_host_that_is_hardly_busy(void **state)
{
    (void)state;
    trial t = begin(1, (double[]){0.5}, (double[]){0.5}, (double[]){0.85});
    yk_process p = {.usage = {.host = "h",
                              .cores = 16,
                              .host_cores = 16,
                              .seconds = 5.0,
                              .cpu = {15.6, 16.0},
                              .cpu_host = {16.0, 16.0}}};
    yk_process *copy = malloc(sizeof p);
    *copy = p;
    t.w.process = copy;
    t.w.nprocesses = 1;
    expect(&t, "");
    copy = malloc(sizeof p);
    *copy = p;
    copy->usage.cpu.mean = 12.0;
    t.w.process = copy;
    t.w.nprocesses = 1;
    expect(&t, "busy_host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_labels),
                                       cmocka_unit_test(mistaken_labels),
                                       cmocka_unit_test(unscaled_features),
                                       cmocka_unit_test(healthy_runs),
                                       cmocka_unit_test(a_loss_that_rises),
                                       cmocka_unit_test(too_small_a_rate),
                                       cmocka_unit_test(slow_progress_with_any_rate),
                                       cmocka_unit_test(large_initial_parameters),
                                       cmocka_unit_test(overfitting),
                                       cmocka_unit_test(oscillation),
                                       cmocka_unit_test(dense_data),
                                       cmocka_unit_test(sparse_data),
                                       cmocka_unit_test(data_is_warned_about),
                                       cmocka_unit_test(a_host_that_is_hardly_busy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
