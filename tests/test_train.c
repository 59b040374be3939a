/* Whole training runs: results in every mode, and that a stopped and resumed run equals an uninterrupted one. */
#include "training.h"

#include <jansson.h>
#include <math.h>

static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam", "ftrl"};

#define DIGITS "model=softmax data=synth:digits?examples=151"
#define CLICKS "model=logreg data=synth:ctr?features=20000&examples=600"

/* ---- stopped and resumed */

/* A run with two stops, one of them in the second epoch, and one without stops. Both also save in between. */
static void compare(const char *options, uint64_t steps)
{
    yk_result whole, part;
    assert_int_equal(train_f(&whole, "%s steps=%llu out=whole", options, (unsigned long long)steps), YK_OK);
    assert_int_equal(train_f(&part, "%s steps=%llu out=part", options, (unsigned long long)steps / 3), YK_OK);
    assert_int_equal(part.steps, steps / 3);
    yk_result_fini(&part);
    assert_int_equal(train_f(&part, "steps=%llu out=part resume=true", (unsigned long long)steps - 2), YK_OK);
    assert_int_equal(part.resumed_from, steps / 3);
    yk_result_fini(&part);
    assert_int_equal(train_f(&part, "steps=%llu out=part resume=true", (unsigned long long)steps), YK_OK);
    assert_int_equal(part.steps, steps);
    assert_int_equal(part.epochs, whole.epochs);
    assert_same_runs(&whole, &part);
}

static void resumed_run_is_bit_identical(void **state)
{
    (void)state;
    char options[512];
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i += 1 + SANITIZED)
        for (int workers = 1; workers <= 3; workers += 2)
            for (int streamed = 0; streamed < 2; streamed++)
                for (int clicks = 0; clicks < 2; clicks++) {
                    if ((i + (size_t)(workers / 2 + streamed + clicks)) % 2) /* each pair of values occurs */
                        continue;
                    const char *what = clicks ? CLICKS " l2=1e-3 batch=30" : DIGITS " batch=10";
                    snprintf(options, sizeof options,
                             "%s optimizer=%s workers=%d stream=%s checkpoint-every=4 eval-every=7", what,
                             optimizers[i], workers, streamed ? "always" : "never");
                    compare(options, (clicks ? 45 : 37) / (uint64_t)workers);
                }
}

static void schedules_and_thresholds_are_resumed(void **state)
{
    (void)state;
    compare(CLICKS " batch=30 lr-schedule=inverse lr-decay=0.01 l1=1e-4", 45);
    compare(CLICKS " batch=30 workers=2 lr-schedule=step lr-decay=0.5 lr-decay-every=10 optimizer=momentum",
            40);
    compare(DIGITS " batch=10 workers=3 lr-schedule=inverse lr-decay=0.1 optimizer=adam", 14);
    compare(CLICKS " batch=30 no-bias=true optimizer=ftrl l1=0.1", 45);
}

/* Bursts of steps with one example each end where something is due, and at the ends of epochs. */
static void bursts_are_resumed(void **state)
{
    (void)state;
    compare(CLICKS " batch=1 checkpoint-every=40 eval-every=70", 900);
    compare(CLICKS " batch=1 no-bias=true checkpoint-every=1 eval-every=1000", 70);
    compare(CLICKS " batch=1 stream=always checkpoint-every=333", 1000);
    yk_result r;
    assert_int_equal(train(CLICKS " batch=1 out=part", 1, &r), YK_OK);
    assert_int_equal(r.steps, 1); /* it was stopped before its first step */
    yk_result_fini(&r);
    remove_run("out=part");
    for (int steps = 1; steps <= 40; steps += 39) { /* asynchronous; after one step */
        assert_int_equal(train_f(&r, CLICKS " batch=1 mode=async steps=%d out=part resume=true", steps),
                         YK_OK);
        assert_int_equal(r.steps, steps);
        yk_result_fini(&r);
    }
    remove_run("out=part");
}

/* A schedule of the learning rate turns bursts off, even if it never changes the rate. A missing or repeated step would
 * change these losses by 1e-5 or more, rounding (compilers may sum a vector in another order) by 1e-8. */
static void bursts_are_single_steps(void **state)
{
    (void)state;
    static const char *const runs[] = {
        CLICKS " batch=1 epochs=2 eval-every=53 checkpoint-every=37",
        CLICKS " batch=1 epochs=2 no-bias=true",
        CLICKS " batch=1 steps=1000 stream=always",
        CLICKS " batch=1 epochs=2 mode=async",
        CLICKS " batch=1 steps=777 mode=async eval-every=100",
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        yk_result many, single;
        assert_int_equal(train_f(&many, "%s out=many", runs[i]), YK_OK);
        assert_int_equal(
            train_f(&single, "%s lr-schedule=step lr-decay=0.5 lr-decay-every=1000000 out=single", runs[i]),
            YK_OK);
        assert_int_equal(many.steps, single.steps);
        assert_int_equal(many.examples, single.examples);
        const double apart[2] = {many.train_loss - single.train_loss, many.test.loss - single.test.loss};
        if (!(fabs(apart[0]) < 1e-7 && fabs(apart[1]) < 1e-7))
            fail_msg("%s: training loss %g, test loss %g apart", runs[i], apart[0], apart[1]);
        yk_result_fini(&many);
        yk_result_fini(&single);
        remove_run("out=many");
        remove_run("out=single");
    }
}

/* Stopped after every step, including the ends of epochs. */
static void stopped_after_every_step(void **state)
{
    (void)state;
    static const char *const runs[] = {
        DIGITS " batch=30 epochs=3 optimizer=adam",
        DIGITS " batch=15 epochs=3 workers=3",
        DIGITS " batch=15 epochs=3 workers=3 stream=always",
        CLICKS " batch=70 epochs=3 workers=2 optimizer=ftrl",
        CLICKS " batch=70 epochs=3 workers=2 l2=1e-2 stream=always",
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i += 1 + SANITIZED) {
        yk_result whole, part;
        assert_int_equal(train_f(&whole, "%s out=whole", runs[i]), YK_OK);
        char first[512];
        snprintf(first, sizeof first, "%s out=part", runs[i]);
        assert_int_equal(train(first, 1, &part), YK_OK);
        int rounds = 1;
        for (; part.interrupted; rounds++) {
            uint64_t before = part.steps;
            yk_result_fini(&part);
            assert_int_equal(train("out=part resume=true", 1, &part), YK_OK);
            assert_true(part.steps <= before + 1);
            assert_true(rounds < 100);
        }
        assert_true(rounds > 9);
        assert_int_equal(part.steps, whole.steps);
        assert_int_equal(part.examples, whole.examples);
        assert_int_equal(part.epochs, 3);
        assert_same_model(&whole, &part);
        yk_result_fini(&whole);
        yk_result_fini(&part);
        remove_run("out=whole");
        remove_run("out=part");
    }
}

/* Resuming a finished run only evaluates it. With more steps, it equals a run that had them from the start. */
static void a_finished_run_can_be_extended(void **state)
{
    (void)state;
    for (int streamed = 0; streamed < 2; streamed++) {
        const char *how = streamed ? "always" : "never";
        yk_result whole, part, again;
        assert_int_equal(train_f(&whole, DIGITS " epochs=4 batch=50 stream=%s out=whole", how), YK_OK);
        assert_int_equal(train_f(&part, DIGITS " epochs=2 batch=50 stream=%s out=part", how), YK_OK);
        assert_int_equal(train("out=part resume=true", 0, &again), YK_OK);
        assert_int_equal(again.steps, part.steps);
        assert_int_equal(again.examples, 2 * 151);
        assert_int_equal(again.epochs, 2);
        assert_int_equal(again.trained_here, 0);
        assert_true(again.tested && again.test.loss == part.test.loss);
        assert_same_model(&part, &again);
        yk_result_fini(&part);
        yk_result_fini(&again);
        assert_int_equal(train("epochs=4 out=part resume=true", 0, &part), YK_OK);
        assert_int_equal(part.examples, 4 * 151);
        assert_same_model(&whole, &part);
        yk_result_fini(&part);
        assert_int_equal(train("steps=3 out=part resume=true", 0, &part), YK_OK); /* already exceeded */
        assert_int_equal(part.trained_here, 0);
        yk_result_fini(&part);
        yk_result_fini(&whole);
        remove_run("out=whole");
        remove_run("out=part");
    }
}

/* ---- asynchronous */

/* Every example is used once per epoch, no matter how often the run is stopped. */
static void asynchronous_runs_lose_no_example(void **state)
{
    (void)state;
    static const char *const runs[] = {
        CLICKS " mode=async workers=3 batch=7 epochs=4",
        CLICKS " mode=async workers=3 batch=7 epochs=4 stream=always",
        CLICKS " staleness=2 workers=3 batch=7 epochs=4 checkpoint-every=50",
        CLICKS " staleness=70 workers=3 batch=1 epochs=2 checkpoint-every=500 eval-every=300",
        CLICKS " mode=async workers=3 batch=1 epochs=2 checkpoint-every=500 eval-every=300",
        CLICKS " mode=async workers=3 batch=1 epochs=2 stream=always",
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        yk_result r;
        char first[512];
        snprintf(first, sizeof first, "%s out=part", runs[i]);
        assert_int_equal(train(first, 1, &r), YK_OK);
        assert_true(r.interrupted);
        for (int k = 0; k < 3 && r.interrupted; k++) {
            uint64_t before = r.examples;
            yk_result_fini(&r);
            assert_int_equal(train("out=part resume=true", 1, &r), YK_OK);
            assert_true(r.examples >= before);
        }
        yk_result_fini(&r);
        assert_int_equal(train("out=part resume=true", 0, &r), YK_OK);
        assert_int_equal(r.examples, (strstr(runs[i], "epochs=4") ? 4 : 2) * 600);
        assert_true(r.tested && isfinite(r.test.loss));
        yk_result_fini(&r);
        remove_run("out=part");
    }
    yk_result r;
    for (int batch = 1; batch <= 7; batch += 6) {
        char first[128];
        snprintf(first, sizeof first, CLICKS " mode=async workers=3 batch=%d steps=200 out=part", batch);
        assert_int_equal(train(first, 1, &r), YK_OK);
        yk_result_fini(&r);
        assert_int_equal(train("out=part resume=true", 0, &r), YK_OK);
        assert_int_equal(r.steps, 200);
        yk_result_fini(&r);
        remove_run("out=part");
    }
}

/* A tiny stream, more workers than it has blocks, unlimited epochs: this used to hang. */
static void a_tiny_stream_ends(void **state)
{
    (void)state;
    yk_result r;
    const char *path = in_directory("tiny.libsvm");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 40; i++)
        fprintf(f, "%d %d:1\n", i % 2, 1 + i % 7);
    fclose(f);
    for (int sync = 0; sync < 2; sync++) {
        assert_int_equal(
            train_f(&r, "model=logreg data=libsvm:%s stream=always mode=%s workers=4 batch=3 steps=77", path,
                    sync ? "sync" : "async"),
            YK_OK);
        assert_int_equal(r.steps, 77);
        yk_result_fini(&r);
    }
    put(path, "# nothing\n", 10);
    assert_error(train_f(&r, "model=logreg data=libsvm:%s stream=always features=9 steps=5", path), YK_EDATA,
                 "no examples");
    yk_result_fini(&r);
    assert_error(train_f(&r, "model=logreg data=libsvm:%s stream=always features=9 mode=async", path),
                 YK_EDATA, "no examples");
    yk_result_fini(&r);
}

/* All modes converge to the same result. An asynchronous update has the batch of one worker, a synchronous one three. */
static void asynchronous_is_as_good(void **state)
{
    (void)state;
    static const struct {
        const char *both, *sync, *async; /* sync NULL: compared with that of the previous case */
    } cases[] = {
        {"model=softmax data=synth:digits?examples=3000 batch=10 l2=0.02 epochs=15 lr-schedule=inverse",
         "lr=0.45 lr-decay=0.009", "lr=0.15 lr-decay=0.003 mode=async"},
        {"model=softmax data=synth:digits?examples=3000 batch=10 l2=0.02 epochs=15 lr-schedule=inverse", NULL,
         "lr=0.15 lr-decay=0.003 staleness=4"},
        {"model=logreg data=synth:ctr?features=20000&examples=60000 batch=10 epochs=8 lr-schedule=inverse",
         "lr=0.15 lr-decay=0.0003", "lr=0.05 lr-decay=0.0001 mode=async"},
        {"model=logreg data=synth:ctr?features=5000&examples=60000 batch=10 epochs=3", "lr=0.09",
         "lr=0.03 staleness=100"},
    };
    yk_result sync = {0}, async;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (SANITIZED) { /* races show in one epoch, which is too short for the same result */
            assert_int_equal(train_f(&async, "%s workers=3 %s epochs=1", cases[i].both, cases[i].async),
                             YK_OK);
            yk_result_fini(&async);
            continue;
        }
        bool good = false;
        if (cases[i].sync) {
            yk_result_fini(&sync);
            assert_int_equal(train_f(&sync, "%s workers=3 %s", cases[i].both, cases[i].sync), YK_OK);
            assert_true(sync.test.accuracy > sync.test.majority_accuracy + 0.02);
        }
        /* Without a bound, a worker that a busy host suspends at the end of such a short run adds a gradient of old
         * weights, which spoils the result. Then the run is repeated a little later. */
        for (int turn = 0; turn < 8 && !good; turn++) {
            sleep((unsigned)turn);
            assert_int_equal(train_f(&async, "%s workers=3 %s", cases[i].both, cases[i].async), YK_OK);
            assert_int_equal(sync.examples, async.examples);
            good =
                async.test.accuracy >= sync.test.accuracy - 0.003 && async.test.loss < 1.02 * sync.test.loss;
            if (!good)
                print_message("%s: accuracy %.4f and loss %.4f, synchronously %.4f and %.4f\n",
                              cases[i].async, async.test.accuracy, async.test.loss, sync.test.accuracy,
                              sync.test.loss);
            yk_result_fini(&async);
        }
        assert_true(good);
    }
    yk_result_fini(&sync);
}

static void a_bound_of_zero_is_synchronous(void **state)
{
    (void)state;
    static const char *const runs[] = {DIGITS " batch=10 workers=3 epochs=2",
                                       CLICKS " batch=10 workers=3 l2=1e-3"};
    for (size_t i = 0; i < 2; i++) {
        yk_result sync, zero;
        assert_int_equal(train_f(&sync, "%s mode=sync out=sync", runs[i]), YK_OK);
        assert_int_equal(train_f(&zero, "%s mode=async staleness=0 out=zero", runs[i]), YK_OK);
        assert_same_model(&sync, &zero);
        yk_result_fini(&sync);
        yk_result_fini(&zero);
        remove_run("out=sync");
        remove_run("out=zero");
    }
}

/* ---- failures and files */

static void divergence_is_an_error(void **state)
{
    (void)state;
    yk_result r;
    static const char *const runs[] = {
        DIGITS " lr=1e9",          DIGITS " lr=1e9 mode=async workers=2",
        CLICKS " lr=1e9 batch=9",  CLICKS " lr=1e38 batch=600",
        CLICKS " lr=1e9 batch=1",  CLICKS " lr=1e9 batch=1 mode=async workers=2",
        DIGITS " lr=1e38 steps=1",
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        assert_error(train_f(&r, "%s out=bad", runs[i]), YK_EDIVERGED, "diverged at step");
        assert_message("use a smaller --lr");
        yk_result_fini(&r);
        remove_run("out=bad");
    }
}

static void metrics_are_json(void **state)
{
    (void)state;
    yk_result r;
    char path[300], *line = NULL;
    size_t cap = 0;
    assert_int_equal(train(CLICKS " batch=100 epochs=3 out=run", 0, &r), YK_OK);
    snprintf(path, sizeof path, "%s/metrics.jsonl", in_directory("run"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    double last_step = 0.0;
    int tests = 0;
    while (getline(&line, &cap, f) > 0) {
        json_error_t e;
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, &e);
        assert_non_null(o);
        double step = json_number_value(json_object_get(o, "step"));
        assert_true(step >= last_step);
        last_step = step;
        if (strcmp(json_string_value(json_object_get(o, "kind")), "eval") == 0) {
            assert_true(json_number_value(json_object_get(o, "epoch")) ==
                        tests++); /* the first is at step 0 */
            assert_true(json_number_value(json_object_get(o, "test_auc")) > 0.4);
            assert_true(json_is_number(json_object_get(o, "test_loss")));
            assert_true(json_is_number(json_object_get(o, "majority_accuracy")));
        }
        json_decref(o);
    }
    assert_int_equal(tests, 4);
    assert_true(last_step == 18.0);
    free(line);
    fclose(f);
    yk_result_fini(&r);
    remove_run("out=run");
}

/* Any character of a path survives saving and loading. */
static void configurations_round_trip(void **state)
{
    (void)state;
    static const char *const paths[] = {"a",
                                        "with ; and # and = and : in it",
                                        "tfrecord:x?features=5&block=7",
                                        "[x]",
                                        "ends with ;",
                                        "; begins",
                                        "\xc3\xbc.libsvm",
                                        "\"quoted\""};
    char longest[6000];
    const char *file = in_directory("round.ini");
    for (size_t i = 0; i <= sizeof paths / sizeof *paths; i++) {
        memset(longest, 'x', sizeof longest - 1);
        longest[sizeof longest - 1] = '\0';
        const char *text = i < sizeof paths / sizeof *paths ? paths[i] : longest;
        yk_config a, b;
        yk_config_init(&a);
        yk_config_init(&b);
        assert_int_equal(yk_config_set(&a, "data", text), YK_OK);
        assert_int_equal(yk_config_set(&a, "model", "logreg"), YK_OK);
        assert_int_equal(yk_config_set(&a, "lr", "0.1"), YK_OK);
        assert_int_equal(yk_config_set(&a, "momentum", "0"), YK_OK);
        assert_int_equal(yk_config_set(&a, "no-bias", "true"), YK_OK);
        assert_int_equal(yk_config_set(&a, "staleness", "3"), YK_OK);
        assert_int_equal(yk_config_set(&a, "seed", "0"), YK_OK);
        assert_int_equal(yk_config_save(&a, directory, "round.ini"), YK_OK);
        assert_int_equal(yk_config_load(&b, file), YK_OK);
        assert_string_equal(b.data, text);
        assert_memory_equal(&b.lr, &a.lr, sizeof a.lr);
        assert_memory_equal(&b.lr_decay, &a.lr_decay, sizeof a.lr_decay);
        assert_true(b.momentum == 0.0);
        assert_true(b.no_bias && yk_by_group_of(&b.staleness, "", true, -1) == 3 && b.seed == 0 &&
                    b.batch == a.batch && !b.test);
        yk_config_fini(&a);
        yk_config_fini(&b);
    }
    yk_config c;
    yk_config_init(&c);
    assert_error(yk_config_set(&c, "data", "two\nlines"), YK_EUSAGE, "several lines");
    assert_error(yk_config_set(&c, "data", ""), YK_EUSAGE, "empty");
    static const char bad[] = "\xef\xbb\xbf# by hand\n[train]\n  batch = 7\r\nlr=0.5\n\nworkers 3\n";
    put(file, bad, sizeof bad - 1);
    assert_error(yk_config_load(&c, file), YK_EUSAGE, "round.ini:6: not a line of the form name = value");
    assert_true(c.batch == 7 && yk_by_group_of(&c.lr, "", true, -1) == 0.5);
    put(file, "batch = 7\nbatches = 3\n", 22);
    assert_error(yk_config_load(&c, file), YK_EUSAGE,
                 "round.ini:2: unknown option batches; did you mean batch?");
    put(file, "batch = many\n", 13);
    assert_error(yk_config_load(&c, file), YK_EUSAGE, "round.ini:1: --batch many");
    assert_error(yk_config_load(&c, directory), YK_EUSAGE, "cannot read");
    assert_error(yk_config_load(&c, in_directory("none.ini")), YK_EUSAGE, "cannot read");
    yk_config_fini(&c);
}

/* Options that run programs, open ports or choose what to write to are accepted on the command line only. */
static void files_set_only_what_to_train(void **state)
{
    (void)state;
    const char *file = in_directory("run.ini");
    yk_config c;
    char *ignored;
    bool there;
    yk_config_init(&c);
    for (const yk_option *o = yk_options; o->name; o++) {
        char line[64], words[96];
        const bool refused = o->flags & YK_OPT_COMMAND_LINE_ONLY;
        snprintf(line, sizeof line, "%s = %s\n", o->name,
                 o->kind == YK_OPT_FLAG              ? "true"
                 : o->words                          ? o->words(1)
                 : o->kind == YK_OPT_TEXT && o->word ? strrchr(o->word, ' ') + 1
                                                     : "1");
        snprintf(words, sizeof words, "run.ini:1: a file cannot set %s; use --%s on the command line",
                 o->name, o->name);
        put(file, line, strlen(line));
        if (refused)
            assert_error(yk_config_load(&c, file), YK_EUSAGE, words);
        else
            assert_int_equal(yk_config_load(&c, file), YK_OK);
    }
    assert_true(!c.hosts && !c.hostfile && !c.agent && !c.http && !c.join && !c.out && !c.resume);
    static const char foreign[] = "batch = 9\nhosts = a\nagent = x\nhosts = b\n";
    put(file, foreign, sizeof foreign - 1);
    assert_int_equal(yk_config_load_run(&c, file, &there, &ignored), YK_OK);
    assert_true(there && c.batch == 9 && !c.hosts && !c.agent);
    assert_string_equal(ignored, "hosts, agent");
    free(ignored);
    assert_int_equal(yk_config_load_run(&c, in_directory("none.ini"), &there, &ignored), YK_OK);
    assert_true(!there && !ignored);
    put(file, "hosts = a\nbatch = x\n", 20);
    assert_error(yk_config_load_run(&c, file, &there, &ignored), YK_EUSAGE, "run.ini:2: --batch x");
    assert_null(ignored);
    yk_config_fini(&c);

    /* they are saved as comments */
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, "hosts", "a,b:2"), YK_OK);
    assert_int_equal(yk_config_set(&c, "http", "80"), YK_OK);
    assert_int_equal(yk_config_save(&c, directory, "run.ini"), YK_OK);
    assert_int_equal(yk_config_load(&c, file), YK_OK);
    yk_config_fini(&c);
    char text[4096];
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    assert_non_null(strstr(text, "; on the command line: --hosts a,b:2\n"));
    assert_null(strstr(text, "http"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(resumed_run_is_bit_identical, clear_runs),
        cmocka_unit_test_setup(schedules_and_thresholds_are_resumed, clear_runs),
        cmocka_unit_test_setup(bursts_are_resumed, clear_runs),
        cmocka_unit_test_setup(bursts_are_single_steps, clear_runs),
        cmocka_unit_test_setup(stopped_after_every_step, clear_runs),
        cmocka_unit_test_setup(a_finished_run_can_be_extended, clear_runs),
        cmocka_unit_test_setup(asynchronous_runs_lose_no_example, clear_runs),
        cmocka_unit_test_setup(a_tiny_stream_ends, clear_runs),
        cmocka_unit_test_setup(asynchronous_is_as_good, clear_runs),
        cmocka_unit_test_setup(a_bound_of_zero_is_synchronous, clear_runs),
        cmocka_unit_test_setup(divergence_is_an_error, clear_runs),
        cmocka_unit_test_setup(metrics_are_json, clear_runs),
        cmocka_unit_test_setup(configurations_round_trip, clear_runs),
        cmocka_unit_test_setup(files_set_only_what_to_train, clear_runs),
    };
    return cmocka_run_group_tests_name("train", tests, make_test_directory, remove_test_directory);
}
