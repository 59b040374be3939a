/* Training of networks: they learn, workers equal a larger batch, a resumed run is bit-identical, and a run
 * that diverges is an error. Layer lists use tabs instead of blanks here, because blanks separate options. */
#include "training.h"

#include "format/safetensors.h"
#include <math.h>

#define CONV "conv\t4\t5x5\t/2,relu,maxpool\t2,conv\t6\t3x3\tsame,tanh,dense\t20,relu,dense\t10"
#define DROP "conv\t4\t5x5\t/2,relu,maxpool\t3\t/2,dropout\t0.3,dense\t20,relu,dropout,dense\t10"

static void a_network_learns(void **state)
{
    (void)state;
    yk_result r;
    const char *const how[] = {"threads=1", "threads=2", "workers=3 batch=8"};
    for (size_t i = SANITIZED; i < sizeof how / sizeof *how; i++) {
        assert_int_equal(train_f(&r,
                                 "model=conv\t8\t5x5\t/2,relu,conv\t12\t3x3,relu,maxpool\t2,dense\t10 "
                                 "data=synth:digits?examples=2000 batch=24 epochs=4 eval-every=10000 "
                                 "optimizer=momentum lr=0.03 %s",
                                 how[i]),
                         YK_OK);
        assert_true(r.tested);
        if (!(r.test.accuracy > 0.9))
            fail_msg("%s: accuracy is only %.3f", how[i], r.test.accuracy);
        assert_true(r.test.accuracy > r.test.majority_accuracy + 0.5);
        yk_result_fini(&r);
    }
    /* also with dropout, and asynchronously */
    assert_int_equal(train_f(&r, "model=" DROP
                                 " data=synth:digits?examples=2000 batch=20 epochs=8 lr=0.1 eval-every=10000 "
                                 "mode=async workers=2"),
                     YK_OK);
    assert_true(r.test.accuracy > 0.7);
    yk_result_fini(&r);
}

/* ---- workers and threads */

/* The largest difference of two runs' weights, as a share of the largest weight of the tensor. */
static double apart(const yk_result *a, const yk_result *b)
{
    char path[400];
    yk_safetensors *s[2];
    double max = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/model.safetensors", (i ? b : a)->checkpoint);
        assert_int_equal(yk_safetensors_open(path, &s[i]), YK_OK);
    }
    assert_int_equal(s[0]->n, s[1]->n);
    for (size_t t = 0; t < s[0]->n; t++) {
        const yk_tensor *x = &s[0]->tensor[t], *y = yk_safetensors_find(s[1], x->name);
        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        double largest = 0, difference = 0;
        for (size_t i = 0; i < x->bytes / sizeof(float); i++) {
            float u, v;
            memcpy(&u, (const char *)x->data + i * sizeof u, sizeof u);
            memcpy(&v, (const char *)y->data + i * sizeof v, sizeof v);
            assert_true(isfinite(u) && isfinite(v));
            largest = fmax(largest, fabs((double)u));
            difference = fmax(difference, fabs((double)u - (double)v));
        }
        max = fmax(max, difference / largest);
    }
    yk_safetensors_free(s[0]);
    yk_safetensors_free(s[1]);
    return max;
}

static double runs_apart(const char *one, const char *other)
{
    yk_result a, b;
    assert_int_equal(train_f(&a, "data=synth:digits?examples=300 steps=12 %s out=a", one), YK_OK);
    assert_int_equal(train_f(&b, "data=synth:digits?examples=300 steps=12 %s out=b", other), YK_OK);
    assert_int_equal(a.examples, b.examples);
    const double max = apart(&a, &b);
    yk_result_fini(&a);
    yk_result_fini(&b);
    remove_run("out=a");
    remove_run("out=b");
    return max;
}

static void workers_equal_a_larger_batch(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd lr=0.05", "momentum lr=0.01"};
    char one[256], three[256];
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        snprintf(one, sizeof one, "model=" CONV " batch=30 workers=1 optimizer=%s", optimizers[i]);
        snprintf(three, sizeof three, "model=" CONV " batch=10 workers=3 optimizer=%s", optimizers[i]);
        const double max = runs_apart(one, three);
        if (!(max < 1e-4))
            fail_msg("%s: 1 worker of batch 30 and 3 of 10 differ by %.2g", optimizers[i], max);
        snprintf(three, sizeof three, "model=" CONV " batch=30 seed=2 optimizer=%s", optimizers[i]);
        assert_true(runs_apart(one, three) >
                    1e-3); /* another seed gives other weights: the bound above is meaningful */
    }
    assert_true(runs_apart("model=" CONV " batch=30", "model=" CONV " batch=30 threads=3") < 1e-4);
    assert_true(runs_apart("model=" DROP " batch=30", "model=" DROP " batch=30") == 0);
    assert_true(runs_apart("model=" DROP " batch=10 workers=3 threads=2",
                           "model=" DROP " batch=10 workers=3 threads=2") == 0);
}

/* Workers share lenet5 without locks, with every optimizer and with concurrent evaluations and checkpoints. Mainly for
 * ThreadSanitizer, in which only the intended races are suppressed (kern/isa.h: YK_RACY). */
static void asynchronous_workers(void **state)
{
    (void)state;
    static const char *const rules[] = {"sgd l2=0.001", "momentum bias-lr=2", "adagrad l1=1e-5", "adam"};
    static const char *const how[] = {"workers=3", "workers=2 threads=2", "workers=3 staleness=2 out=a"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
            yk_result r;
            assert_int_equal(train_f(&r,
                                     "model=lenet5 data=synth:digits?examples=151 batch=10 epochs=2 lr=0.005 "
                                     "mode=async eval-every=9 checkpoint-every=13 optimizer=%s %s",
                                     rules[i], how[k]),
                             YK_OK);
            assert_int_equal(r.examples, 302);
            assert_true(isfinite(r.test.loss));
            yk_result_fini(&r);
            remove_run("out=a");
        }
}

/* ---- stopped and resumed */

static void compare(const char *options)
{
    yk_result whole, part;
    assert_int_equal(train_f(&whole, "%s steps=14 out=whole", options), YK_OK);
    assert_int_equal(train_f(&part, "%s steps=5 out=part", options), YK_OK);
    yk_result_fini(&part);
    assert_int_equal(train("steps=14 out=part resume=true", 1, &part), YK_OK); /* stopped after a step */
    assert_true(part.interrupted);
    yk_result_fini(&part);
    assert_int_equal(train("steps=14 out=part resume=true", 0, &part), YK_OK);
    assert_int_equal(part.steps, 14);
    assert_same_runs(&whole, &part);
}

static void resumed_run_is_bit_identical(void **state)
{
    (void)state;
    char options[512];
    for (int streamed = 0; streamed < 2; streamed++)
        for (int workers = 1; workers <= 3; workers += 2)
            for (int threads = 1; threads <= 2; threads++) {
                snprintf(options, sizeof options,
                         "model=%s data=synth:digits?examples=151 batch=12 workers=%d threads=%d stream=%s "
                         "optimizer=momentum lr=0.01 checkpoint-every=4",
                         threads == 2 && workers == 1 ? CONV : DROP, workers, threads,
                         streamed ? "always" : "never");
                compare(options);
            }
    compare("model=" DROP " data=synth:digits?examples=151 batch=12 optimizer=adam");
}

/* ---- divergence */

static void divergence_is_an_error(void **state)
{
    (void)state;
    yk_result r;
    assert_int_equal(train("model=" CONV " data=synth:digits?examples=500 batch=10 epochs=3 lr=1e20", 0, &r),
                     YK_EDIVERGED);
    yk_result_fini(&r);
    assert_error(train("model=conv\t4\t29x29,dense\t10 data=synth:digits?examples=100", 0, &r), YK_EUSAGE,
                 "1 x 28 x 28");
    yk_result_fini(&r);
    assert_error(train("model=dense\t9 data=synth:digits?examples=100", 0, &r), YK_EUSAGE, "10 classes");
    yk_result_fini(&r);
    assert_error(train("model=dense\t2 data=synth:ctr?features=1000&examples=100", 0, &r), YK_EUSAGE,
                 "logreg");
    yk_result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_learns),
        cmocka_unit_test_setup(workers_equal_a_larger_batch, clear_runs),
        cmocka_unit_test_setup(asynchronous_workers, clear_runs),
        cmocka_unit_test_setup(resumed_run_is_bit_identical, clear_runs),
        cmocka_unit_test(divergence_is_an_error),
    };
    return cmocka_run_group_tests_name("net_train", tests, make_test_directory, remove_test_directory);
}
