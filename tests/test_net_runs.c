/* Whole runs with options of networks: rates of biases in every mode, learning rate schedules by epochs, augmentation in
 * resumed runs, and saved models with the shape of their input. */
#include "local_steps.h"
#include "training.h"

#include "base/mem.h"
#include "data/dataset.h"
#include "format/safetensors.h"
#include "train/checkpoint.h"
#include "train/infer.h"
#include <math.h>

/* Without blanks, which separate options. */
#define NET    "model=conv\t4\t5x5,relu,maxpool\t2,dropout\t0.2,dense\t10"
#define DIGITS "data=synth:digits?examples=300 lr=0.05"

/* ---- groups in the store ---- */

enum { PARAMS = 40 };

typedef struct {
    yk_local *store;
    yk_team *team;
    float grad[PARAMS], w[PARAMS];
    int steps;
} push_job;

/* All workers push the same gradient. */
static yk_status push_some(void *context, int me)
{
    push_job *l = context;
    yk_rows none = {0};
    yk_status st = YK_OK;
    for (int i = 0; !st && i < l->steps; i++) {
        yk_batch b = {&none, NULL, 0, 0};
        yk_grad g = {.examples = 2, .group = {{.dense = l->grad}}};
        yk_step_result r;
        yk_view v;
        if (!(st = local_pull(l->store, me, &b, &v)) && !(st = local_push(l->store, me, &g)))
            st = local_clock(l->store, me, &r);
    }
    local_finish(l->store, me);
    if (!st)
        st = yk_local_quiesce(l->store, me);
    if (!st && me == 0)
        memcpy(l->w, yk_local_table(l->store, 0).w, sizeof l->w);
    return st ? st : yk_team_barrier(l->team, me);
}

/* Weights after some steps from 1, 2, 3 ... with a gradient of 0.5 everywhere. */
static void run_store(const yk_optim_config *optim, int workers, uint64_t staleness,
                      const yk_optim_range *range, size_t nranges, int steps, float out[static PARAMS])
{
    push_job l = {.steps = steps};
    assert_int_equal(yk_team_create(workers, &l.team), YK_OK);
    yk_local_config c = {.ngroups = 1,
                         .group = {{.shape = {.width = 1, .keys = PARAMS},
                                    .optim = *optim,
                                    .staleness = staleness,
                                    .range = range,
                                    .nranges = nranges}},
                         .team = l.team,
                         .workers = workers,
                         .batch = 2};
    assert_int_equal(yk_local_create(&c, &l.store), YK_OK);
    for (int i = 0; i < PARAMS; i++) {
        yk_local_raw(l.store, 0).live.w[i] = (float)(i + 1);
        l.grad[i] = 1.0f; /* sum of two examples */
    }
    yk_local_restore(l.store, 0);
    assert_int_equal(yk_team_run(l.team, push_some, &l), YK_OK);
    memcpy(out, l.w, sizeof l.w);
    yk_local_free(l.store);
    yk_team_free(l.team);
}

static const yk_optim_range groups[] = {{0, 3, 0.0, 1.0}, {7, 20, 2.0, 0.0}, {39, 40, 10.0, 1.0}};

static void ranges_have_their_own_rates(void **state)
{
    (void)state;
    yk_optim_config o = yk_optim_defaults(0 /* sgd */);
    o.lr = 0.1;
    o.l2 = 0.5;
    for (int workers = 1; workers <= 3; workers++) {
        float w[PARAMS];
        run_store(&o, workers, 0, groups, 3, 1, w);
        for (int i = 0; i < PARAMS; i++) {
            double lr = 0.1, l2 = 0.5;
            for (int k = 0; k < 3; k++)
                if (i >= (int)groups[k].begin && i < (int)groups[k].end) {
                    lr *= groups[k].lr;
                    l2 *= groups[k].decay;
                }
            assert_true(fabs((double)w[i] - ((i + 1) - lr * (0.5 + l2 * (i + 1)))) < 1e-5);
        }
    }
}

/* Ranges with the default rates change no bit. A range with other rates has the weights of a run with these rates for all
 * weights. For every optimizer, also with merged copies of all weights. */
static void ranges_equal_runs_with_their_rates(void **state)
{
    (void)state;
    const yk_optim_range same[] = {{2, 5, 1.0, 1.0}, {5, 9, 1.0, 1.0}};
    const yk_optim_range part[] = {{10, 30, 0.5, 0.0}};
    for (int kind = 0; yk_optim_name(kind); kind++)
        for (int mode = 0; mode < 3; mode++) {
            const int workers = mode ? 2 : 1;
            const uint64_t staleness = mode == 2 ? YK_ASYNC : 0;
            yk_optim_config o = yk_optim_defaults((yk_optim_kind)kind), half = o;
            float plain[PARAMS], grouped[PARAMS], other[PARAMS];
            o.l2 = half.l2 = 0.01;
            run_store(&o, workers, staleness, NULL, 0, 5, plain);
            run_store(&o, workers, staleness, same, 2, 5, grouped);
            if (mode < 2)
                assert_memory_equal(plain, grouped, sizeof plain);
            half.lr *= 0.5;
            half.l2 = 0.0;
            run_store(&half, workers, staleness, NULL, 0, 5, other);
            run_store(&o, workers, staleness, part, 1, 5, grouped);
            for (int i = 0; i < PARAMS; i++) {
                const float want = i >= 10 && i < 30 ? other[i] : plain[i];
                if (mode < 2)
                    assert_true(fabsf(grouped[i] - want) < 1e-6f * fabsf(want) + 1e-7f);
                else /* the order of updates differs from run to run */
                    assert_true(fabsf(grouped[i] - want) < 0.05f * fabsf(want) + 0.05f);
            }
        }
}

/* ---- biases in runs ---- */

/* The largest absolute value of a tensor in a run's last checkpoint. */
static double largest(const yk_result *r, const char *name)
{
    char path[400];
    yk_safetensors *s;
    double max = 0.0;
    snprintf(path, sizeof path, "%s/model.safetensors", r->checkpoint);
    assert_int_equal(yk_safetensors_open(path, &s), YK_OK);
    const yk_tensor *t = yk_safetensors_find(s, name);
    assert_non_null(t);
    for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) {
        float x;
        memcpy(&x, (const char *)t->data + i * sizeof x, sizeof x);
        max = fmax(max, fabs((double)x));
    }
    yk_safetensors_free(s);
    return max;
}

static void biases_can_be_frozen(void **state)
{
    (void)state;
    static const char *const modes[] = {"workers=1", "workers=2", "mode=async workers=2"};
    static const char *const models[] = {NET, "model=softmax"};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++) {
            yk_result r;
            const char *bias = k ? "0.bias" : "4.bias", *weight = k ? "0.weight" : "4.weight";
            assert_int_equal(train_f(&r, "%s " DIGITS " %s out=a bias-lr=0", models[k], modes[i]), YK_OK);
            assert_true(largest(&r, bias) == 0.0);
            assert_true(largest(&r, weight) > 0.0);
            yk_result_fini(&r);
            remove_run("out=a");
            assert_int_equal(train_f(&r, "%s " DIGITS " %s out=a bias-lr=2", models[k], modes[i]), YK_OK);
            assert_true(largest(&r, bias) > 0.0);
            yk_result_fini(&r);
            remove_run("out=a");
        }
}

/* With this much decay the weights vanish; biases without decay stay. */
static void biases_can_be_exempt_from_decay(void **state)
{
    (void)state;
    double kept[2];
    for (int i = 0; i < 2; i++) {
        yk_result r;
        assert_int_equal(
            train_f(&r, NET " " DIGITS " epochs=3 l2=10 init-bias=0.7 bias-lr=0.001 out=a bias-decay=%s",
                    i ? "no" : "yes"),
            YK_OK);
        assert_true(largest(&r, "0.weight") < 0.1);
        kept[i] = largest(&r, "0.bias");
        yk_result_fini(&r);
        remove_run("out=a");
    }
    assert_true(kept[0] < 0.698 && kept[1] > 0.6985);
}

static void invalid_bias_options_are_refused(void **state)
{
    (void)state;
    yk_result r;
    assert_error(train("model=logreg data=synth:ctr?features=100&examples=50 bias-lr=2", 0, &r), YK_EUSAGE,
                 "--no-bias");
    assert_error(train("model=softmax data=synth:digits?examples=50 optimizer=ftrl bias-lr=0", 0, &r),
                 YK_EUSAGE, "ftrl");
    assert_error(train("model=softmax data=synth:digits?examples=50 lr=0.1 l2=1 bias-lr=10", 0, &r),
                 YK_EUSAGE, "signs");
    yk_config c;
    yk_config_init(&c);
    assert_error(yk_config_set(&c, "bias-decay", "maybe"), YK_EUSAGE,
                 "--bias-decay maybe: the value must be one of: yes, no");
    yk_config_fini(&c);
}

/* ---- staircase by epochs ---- */

static void rates_fall_by_epochs(void **state)
{
    (void)state;
    /* 300 examples: 30 steps of 10; 10 steps of 3 x 10; async counts the steps of all workers */
    static const struct {
        const char *options, *epochs, *every;
    } cases[] = {{"workers=1", "1", "30"},
                 {"workers=3", "1", "10"},
                 {"workers=3", "0.5", "5"},
                 {"workers=1", "0.001", "1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_result a, b;
        const char *common = "model=softmax " DIGITS " batch=10 epochs=3 lr-schedule=step lr-decay=0.5";
        assert_int_equal(
            train_f(&a, "%s %s out=a lr-decay-epochs=%s", common, cases[i].options, cases[i].epochs), YK_OK);
        assert_int_equal(
            train_f(&b, "%s %s out=b lr-decay-every=%s", common, cases[i].options, cases[i].every), YK_OK);
        assert_same_model(&a, &b);
        yk_result_fini(&a);
        yk_result_fini(&b);
        remove_run("out=a");
        remove_run("out=b");
    }
}

static void epochs_of_unknown_length_are_refused(void **state)
{
    (void)state;
    yk_result r;
    put(in_directory("s.libsvm"), "1 1:1 2:1\n0 1:1 3:1\n", 20);
    char options[400];
    snprintf(options, sizeof options,
             "model=logreg data=libsvm:%s features=10 stream=always lr-schedule=step lr-decay-epochs=1",
             in_directory("s.libsvm"));
    assert_error(train(options, 0, &r), YK_EUSAGE, "--lr-decay-every STEPS");
    assert_error(train("model=softmax data=synth:digits?examples=50 lr-decay-epochs=1", 0, &r), YK_EUSAGE,
                 "no effect");
    assert_error(
        train(
            "model=softmax data=synth:digits?examples=50 lr-schedule=step lr-decay-epochs=1 lr-decay-every=7",
            0, &r),
        YK_EUSAGE, "cannot be used together");
}

/* ---- saving, resuming, inference ---- */

static void resumed_run_is_bit_identical(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "standardize=image augment=flip,crop:2", "standardize=channel augment=crop:1 threads=2",
        "workers=2 augment=flip init=glorot bias-lr=2 bias-decay=no l2=0.001"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_result whole, part;
        assert_int_equal(train_f(&whole, NET " " DIGITS " batch=16 %s epochs=3 out=whole", cases[i]), YK_OK);
        assert_int_equal(train_f(&part, NET " " DIGITS " batch=16 %s steps=7 out=part", cases[i]), YK_OK);
        yk_result_fini(&part);
        assert_int_equal(train("out=part resume=true epochs=3", 0, &part), YK_OK);
        assert_same_runs(&whole, &part);
    }
}

/* Inference with the checkpoint gives the scores of the last evaluation: it has the image shape and standardization. */
static void saved_models_know_their_input(void **state)
{
    (void)state;
    static const char *const cases[] = {"none", "image", "channel", "channel:0.1/0.5"};
    double loss[4];
    for (size_t i = 0; i < 4; i++) {
        yk_result r;
        yk_score score;
        yk_tally tally = {0};
        assert_int_equal(train_f(&r, NET " " DIGITS " augment=crop:2 standardize=%s out=a", cases[i]), YK_OK);
        yk_trained *m;
        yk_source *s;
        assert_int_equal(yk_trained_load(r.checkpoint, &m), YK_OK);
        assert_int_equal(yk_source_open("synth:digits?examples=300", YK_SPLIT_TEST, NULL, &s), YK_OK);
        assert_int_equal(yk_infer(m, s, false, NULL, NULL, &tally), YK_OK);
        assert_int_equal(yk_score_make(&tally, &score), YK_OK);
        yk_tally_fini(&tally);
        yk_source_free(s);
        yk_trained_release(m);
        assert_true(fabs(score.loss - r.test.loss) < 1e-6 && score.accuracy == r.test.accuracy);
        loss[i] = score.loss;
        for (size_t k = 0; k < i; k++)
            assert_true(loss[i] != loss[k]);
        yk_result_fini(&r);
        remove_run("out=a");
    }
}

/* Mean and deviation of a channel are those of the training set. */
static void channels_are_measured(void **state)
{
    (void)state;
    yk_result r;
    yk_trained *trained;
    yk_dataset d;
    double sum = 0.0, squares = 0.0;
    assert_int_equal(train("model=dense\t10 " DIGITS " standardize=channel out=a", 0, &r), YK_OK);
    assert_int_equal(yk_trained_load(r.checkpoint, &trained), YK_OK);
    const yk_model *m = trained->model;
    assert_int_equal(yk_dataset_open("synth:digits?examples=300", YK_SPLIT_TRAIN, NULL, YK_STREAM_NEVER, &d),
                     YK_OK);
    const size_t n = d.rows->n * d.rows->dim;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)d.rows->u8[i] / 255.0;
        sum += x;
        squares += x * x;
    }
    const double mean = sum / (double)n, deviation = sqrt(squares / (double)n - mean * mean);
    assert_int_equal(m->shape.net.channels, 1);
    assert_true(fabs((double)m->shape.net.mean[0] - mean) < 1e-3); /* yoke measures a sample */
    assert_true(fabs((double)m->shape.net.deviation[0] - deviation) < 1e-3);
    yk_dataset_fini(&d);
    yk_trained_release(trained);
    yk_result_fini(&r);
}

/* A dry run describes the model and writes nothing; a profile does not change results. */
static void runs_are_described_and_profiled(void **state)
{
    (void)state;
    yk_result dry, plain, timed;
    assert_int_equal(train(NET " " DIGITS " batch=32 workers=2 optimizer=adam out=a dry-run=true", 0, &dry),
                     YK_OK);
    const yk_description *d = dry.description;
    assert_non_null(d);
    assert_int_equal(d->params, 4 * 25 + 4 + 10 * 4 * 144 + 10);
    assert_int_equal(d->weight_bytes, d->params * sizeof(float));
    assert_int_equal(d->state_bytes, 2 * d->weight_bytes);
    assert_int_equal(d->gradient_bytes, d->weight_bytes);
    assert_true(d->activation_bytes > 0 && d->flops > 0.0 && d->examples == 300 && d->batch == 32 &&
                d->workers == 2);
    assert_true(access(in_directory("a"), F_OK) != 0);
    assert_null(dry.profile);
    yk_result_fini(&dry);

    assert_int_equal(train(NET " " DIGITS " out=a", 0, &plain), YK_OK);
    assert_int_equal(train(NET " " DIGITS " out=b profile=true", 0, &timed), YK_OK);
    assert_null(plain.profile);
    assert_non_null(timed.profile);
    assert_int_equal(timed.profile->nlines, 2 + 2 * 5);
    double sum = 0.0;
    for (int i = 0; i < timed.profile->nlines; i++) {
        sum += timed.profile->line[i].seconds;
        assert_true(i == 0 || timed.profile->line[i].seconds <= timed.profile->line[i - 1].seconds);
    }
    assert_true(sum > 0.0 && sum <= timed.train_seconds * 1.001);
    assert_same_model(&plain, &timed);
    yk_result_fini(&plain);
    yk_result_fini(&timed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_have_their_own_rates, clear_runs),
        cmocka_unit_test_setup(ranges_equal_runs_with_their_rates, clear_runs),
        cmocka_unit_test_setup(biases_can_be_frozen, clear_runs),
        cmocka_unit_test_setup(biases_can_be_exempt_from_decay, clear_runs),
        cmocka_unit_test_setup(invalid_bias_options_are_refused, clear_runs),
        cmocka_unit_test_setup(rates_fall_by_epochs, clear_runs),
        cmocka_unit_test_setup(epochs_of_unknown_length_are_refused, clear_runs),
        cmocka_unit_test_setup(resumed_run_is_bit_identical, clear_runs),
        cmocka_unit_test_setup(saved_models_know_their_input, clear_runs),
        cmocka_unit_test_setup(channels_are_measured, clear_runs),
        cmocka_unit_test_setup(runs_are_described_and_profiled, clear_runs),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
