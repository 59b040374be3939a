/* Sweeps: from a file to a plan of runs, and from their summaries to a table. */
#include "scratch.h"

#include "format/ini.h"
#include "sweep/dir.h"
#include "sweep/table.h"
#include <math.h>

#define HEAD "[train]\nmodel = softmax\ndata = synth:digits\n"

static yk_status plan_with(const char *text, bool quick, const char *const *sets, size_t nsets,
                           yk_sweep_plan *out)
{
    put(in_directory("some-sweep.ini"), text, strlen(text));
    return yk_sweep_plan_make(in_directory("some-sweep.ini"), quick, sets, nsets, directory, out);
}

static void expect_refusal(const char *text, bool quick, const char *words)
{
    yk_sweep_plan p;
    yk_status st = plan_with(text, quick, NULL, 0, &p);
    if (st != YK_EUSAGE)
        fail_msg("status %d for:\n%s", (int)st, text);
    assert_message(words);
    assert_message("some-sweep.ini");
    yk_sweep_plan_fini(&p);
}

static yk_sweep_plan plan_of(const char *text, bool quick)
{
    yk_sweep_plan p;
    if (plan_with(text, quick, NULL, 0, &p))
        fail_msg("refused: %s", yk_error());
    return p;
}

static void assert_argument(const yk_sweep_run *r, const char *argument)
{
    for (char **a = r->argument; *a; a++)
        if (strcmp(*a, argument) == 0)
            return;
    fail_msg("%s has no argument %s", r->label, argument);
}

static void assert_no_argument(const yk_sweep_run *r, const char *beginning)
{
    for (char **a = r->argument; *a; a++)
        if (strncmp(*a, beginning, strlen(beginning)) == 0)
            fail_msg("%s has an argument %s", r->label, *a);
}

/* ---- lines */

static void lines_are_split(void **state)
{
    (void)state;
    yk_sweep_plan p = plan_of("[train]\nmodel = softmax\n[grid]\ndata, batch = \"a | b ; c\" 2 | d 3\n"
                              "lr = .5,.25 , .125,\ntest = \"x y\" | \"x\" \"y\"\n",
                              false);
    assert_int_equal(p.npoints, 2 * 3 * 2);
    assert_string_equal(p.run[0].shown[0], "a | b ; c");
    assert_string_equal(p.run[0].shown[1], "2");
    assert_string_equal(p.run[0].shown[3], "x y");
    assert_string_equal(p.run[1].shown[3], "\"x\" \"y\"");
    assert_string_equal(p.run[2].shown[2], ".25");
    yk_sweep_plan_fini(&p);
    for (int bar = 0; bar < 2; bar++) {
        char many[8000] = HEAD "[grid]\nbatch = 1";
        for (int i = 2, n = (int)strlen(many); i <= 513; i++)
            n += snprintf(many + n, sizeof many - (size_t)n, bar ? " | %d" : " %d", i);
        strcat(many, "\n");
        expect_refusal(many, false, "batch: expected 1 to 512 values");
    }
}

/* ---- plans */

static void a_grid_has_every_combination(void **state)
{
    (void)state;
    yk_sweep_plan p = plan_of("; what it asks\n[sweep]\nrepeats = 2 ; seeds 7 and 8\n"
                              "[train]\nmodel = softmax\ndata = synth:digits?examples=9&test=9\nseed = 7\n"
                              "[grid]\nbatch = 5, 50\nmode, workers = sync 1 | sync 3 | async 3\n",
                              false);
    assert_string_equal(p.file.name, "some-sweep");
    assert_int_equal(p.npoints, 6);
    assert_int_equal(p.nruns, 12);
    assert_int_equal(p.nshown, 3);
    assert_string_equal(p.shown[0], "batch");
    assert_string_equal(p.shown[2], "workers");
    /* the last axis changes fastest; all points come with the first seed first */
    static const char *const labels[] = {
        "batch=5 mode=sync workers=1 seed=7",  "batch=5 mode=sync workers=3 seed=7",
        "batch=5 mode=async workers=3 seed=7", "batch=50 mode=sync workers=1 seed=7",
        "batch=50 mode=sync workers=3 seed=7", "batch=50 mode=async workers=3 seed=7",
        "batch=5 mode=sync workers=1 seed=8"};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        assert_string_equal(p.run[i].label, labels[i]);
    const yk_sweep_run *r = &p.run[11];
    assert_string_equal(r->directory, "batch-50_mode-async_workers-3_seed-8");
    assert_int_equal(r->point, 5);
    assert_int_equal(r->repeat, 1);
    assert_string_equal(r->shown[1], "async");
    assert_int_equal(r->config.seed, 8);
    assert_int_equal(r->config.batch, 50);
    assert_argument(r, "--data=synth:digits?examples=9&test=9");
    assert_argument(r, "--seed=8");
    assert_argument(r, "--mode=async");
    assert_no_argument(r, "--epochs");
    assert_int_equal(r->epochs, 1); /* as in yoke train */
    assert_int_equal(yk_sweep_run_steps(r, 101), 3);
    assert_int_equal(yk_sweep_run_steps(&p.run[4], 301), 3); /* synchronous: 150 examples per step */
    assert_int_equal(yk_sweep_run_steps(r, 0), 0);
    yk_sweep_plan_fini(&p);
}

static void examples_become_steps(void **state)
{
    (void)state;
    yk_sweep_plan p =
        plan_of("[sweep]\nname = mine\nexamples = 60k\neval-examples = 6e3\nmodels = drop\n" HEAD
                "[grid]\nbatch = 100 7 100k\nmode, staleness, workers = sync - 3 | async - 3 | "
                "async 4 2 | async 0 2\n",
                false);
    static const int64_t steps[] = {200, 600, 600, 300, 2857, 8571, 8571, 4286, 1, 1, 1, 1};
    assert_int_equal(p.nruns, 12);
    assert_string_equal(p.file.name, "mine");
    assert_true(p.file.drop_models);
    for (size_t i = 0; i < p.nruns; i++) {
        assert_int_equal(p.run[i].steps, steps[i]);
        assert_int_equal(p.run[i].config.steps, steps[i]);
        assert_int_equal(p.run[i].epochs, 0);
        assert_int_equal(yk_sweep_run_steps(&p.run[i], 12345), steps[i]);
    }
    assert_argument(&p.run[0], "--steps=200");
    assert_argument(&p.run[0], "--eval-every=20");
    assert_argument(&p.run[1], "--eval-every=60");
    assert_argument(&p.run[8], "--eval-every=1");
    assert_no_argument(&p.run[0], "--staleness");
    assert_no_argument(&p.run[0], "--seed"); /* without repeats, no seed is passed */
    assert_string_equal(p.run[0].label, "batch=100 mode=sync staleness=- workers=3");
    assert_true(p.run[0].plan.synchronous && !p.run[1].plan.synchronous && !p.run[2].plan.synchronous &&
                p.run[3].plan.synchronous);
    yk_sweep_plan_fini(&p);
    p = plan_of("[sweep]\nepochs = 3\n" HEAD, false);
    assert_int_equal(p.nruns, 1);
    assert_argument(&p.run[0], "--epochs=3");
    assert_string_equal(p.run[0].directory, "seed-1");
    yk_sweep_plan_fini(&p);
    p = plan_of("[sweep]\nsteps = 30\n" HEAD, false);
    assert_int_equal(p.run[0].steps, 30);
    yk_sweep_plan_fini(&p);
    p = plan_of(HEAD "[grid]\nbatch, steps = 5 100 | 50 10\n", false);
    assert_int_equal(p.run[1].steps, 10);
    yk_sweep_plan_fini(&p);
}

/* A step of a job of several processes has the examples of all workers. */
static void processes_count_as_workers(void **state)
{
    (void)state;
    yk_sweep_plan p =
        plan_of("[sweep]\nexamples = 12k\n" HEAD "batch = 10\n[grid]\n"
                "launch, mode, servers, workers = 3 sync - - | 3 sync 1 - | 3 sync - 3 | 3 async - - | "
                "1 sync - - | - sync - -\n",
                false);
    static const int64_t workers[] = {3, 2, 9, 3, 1, 1}, steps[] = {400, 600, 133, 1200, 1200, 1200};
    for (size_t i = 0; i < p.nruns; i++) {
        assert_int_equal(p.run[i].plan.workers, workers[i]);
        assert_int_equal(p.run[i].steps, steps[i]);
    }
    assert_string_equal(p.run[5].directory, "launch-none_mode-sync_servers-none_workers-none");
    yk_sweep_plan_fini(&p);
    /* asynchronous local SGD: a step is a batch of each worker of a process */
    p = plan_of(HEAD "batch = 10\nlaunch = 2\nmode = async\nlocal-steps = 4\nworkers = 2\nepochs = 3\n",
                false);
    assert_int_equal(yk_sweep_run_steps(&p.run[0], 101), 3 * 6);
    yk_sweep_plan_fini(&p);
    /* the plan is the one of yoke train, with its steps and checks */
    p = plan_of("[sweep]\nexamples = 12k\n" HEAD "batch = 10\n", false);
    assert_int_equal(p.run[0].plan.steps, 1200);
    yk_sweep_plan_fini(&p);
    expect_refusal(HEAD "[grid]\nlaunch, servers = 3 0 | 3 3\n", false,
                   "the run launch=3 servers=3: --servers 3 of 3 processes leaves no worker");
    expect_refusal(HEAD "[grid]\nlaunch, servers = 3 1 | - 1\n", false,
                   "the run launch=- servers=1: --servers, --quorum and --prefetch need several");
    expect_refusal(HEAD "launch = 1\n[grid]\nservers = 1\n", false,
                   "the run servers=1: --servers and --quorum need several processes; this job has one");
    /* the data is not opened */
    p = plan_of("[sweep]\nexamples = 12k\n[train]\nmodel = logreg\nlaunch = 3\nbatch = 10\n"
                "[grid]\ndata = synth:ctr | libsvm:none\n",
                false);
    assert_int_equal(p.run[0].plan.steps, 400);
    assert_int_equal(p.run[1].plan.steps, 400);
    yk_sweep_plan_fini(&p);
}

static void processes_on_hosts_count_as_workers(void **state)
{
    (void)state;
    static const char sweep[] = "[sweep]\nexamples = 12k\n" HEAD "batch = 10\n";
    static const char *const hosts[] = {"hosts=a,b:2", "agent=\"ssh -x\""};
    yk_sweep_plan p;
    assert_int_equal(plan_with(sweep, false, hosts, 2, &p), YK_OK);
    assert_int_equal(p.run[0].plan.workers, 3);
    assert_int_equal(p.run[0].steps, 400);
    assert_argument(&p.run[0], "--hosts=a,b:2");
    assert_argument(&p.run[0], "--agent=ssh -x");
    yk_sweep_plan_fini(&p);
    static const char *const malformed[] = {"hosts=a,,b"}, *const any_cores[] = {"hosts=a,b", "workers=auto"};
    assert_error(plan_with(sweep, false, malformed, 1, &p), YK_EUSAGE, "must be a list such as a,b:2");
    yk_sweep_plan_fini(&p);
    assert_error(plan_with(sweep, false, any_cores, 2, &p), YK_EUSAGE, "set workers to a number");
    yk_sweep_plan_fini(&p);

    char option[300];
    snprintf(option, sizeof option, "hostfile=%s", in_directory("hosts"));
    const char *const hostfile[] = {option};
    assert_error(plan_with(sweep, false, hostfile, 1, &p), YK_EUSAGE, "is unknown: set launch too");
    yk_sweep_plan_fini(&p);
    assert_int_equal(plan_with("[sweep]\nepochs = 2\n" HEAD, false, hostfile, 1, &p), YK_OK);
    yk_sweep_plan_fini(&p);
    put(in_directory("hosts"), "a slots=1\nb slots=2\n", 20);
    assert_int_equal(plan_with(sweep, false, hostfile, 1, &p), YK_OK);
    assert_int_equal(p.run[0].steps, 400);
    yk_sweep_plan_fini(&p);
}

static void files_do_not_start_programs(void **state)
{
    (void)state;
    expect_refusal(HEAD "hosts = a\n", false, "a file cannot set hosts; use --set 'hosts=VALUE'");
    expect_refusal(HEAD "[grid]\nbatch, agent = 1 a | 2 b\n", false, "a file cannot set agent");
    expect_refusal(HEAD "[quick]\nhttp = 80\n", true, "a file cannot set http");
    expect_refusal(HEAD "network = any\n", false, "a file cannot set network");
}

static void flags_and_blanks(void **state)
{
    (void)state;
    yk_sweep_plan p = plan_of("[train]\ndata = synth:images\ntest = \"a ; b\"\n"
                              "[grid]\nmodel = lenet5 | conv 8 3x3 same, relu, dense 10 | \"conv 9 3x3 same, "
                              "relu, dense 10\"\nno-bias = true false\n",
                              false);
    assert_int_equal(p.nruns, 6);
    assert_argument(&p.run[2], "--model=conv 8 3x3 same, relu, dense 10");
    assert_argument(&p.run[4], "--model=conv 9 3x3 same, relu, dense 10");
    assert_argument(&p.run[0], "--test=a ; b");
    assert_argument(&p.run[0], "--no-bias");
    assert_no_argument(&p.run[1], "--no-bias");
    assert_string_equal(p.run[0].directory, "model-lenet5_no-bias-true");
    assert_string_equal(p.run[2].directory, "model-conv-8-3x3-same-relu-den-2_no-bias-true");
    char *text = yk_sweep_plan_text(&p);
    assert_non_null(text);
    assert_non_null(strstr(text, "den-2_no-bias-true: --data=synth:images \"--test=a ; b\" "
                                 "\"--model=conv 8 3x3 same, relu, dense 10\" --no-bias\n"));
    free(text);
    yk_sweep_plan_fini(&p);
    p = plan_of("[train]\ndata = synth:images\n[grid]\nmodel, lr = lenet5 0.1 | \"dense 10\" 0.2\n", false);
    assert_argument(&p.run[1], "--model=dense 10");
    assert_argument(&p.run[1], "--lr=0.2");
    yk_sweep_plan_fini(&p);
}

static void quick_and_set_replace(void **state)
{
    (void)state;
    static const char text[] =
        "[quick]\nexamples = 1k\nbatch = 10 100\ndata = synth:digits?examples=5\nlr = 0.1 0.2\n"
        "mode, workers = async 2\n"
        "[sweep]\nepochs = 5\nrepeats = 3\n" HEAD
        "[grid]\nbatch = 5 10 50 100\nmode, workers = sync 1 | async 3\n";
    yk_sweep_plan p = plan_of(text, false);
    assert_int_equal(p.nruns, 24);
    assert_argument(&p.run[0], "--epochs=5");
    yk_sweep_plan_fini(&p);
    p = plan_of(text, true);
    assert_int_equal(p.nruns, 12); /* batch x lr x seeds */
    assert_string_equal(p.run[0].label, "batch=10 mode=async workers=2 lr=0.1 seed=1");
    assert_argument(&p.run[0], "--steps=100");
    assert_argument(&p.run[0], "--data=synth:digits?examples=5");
    assert_no_argument(&p.run[0], "--epochs");
    yk_sweep_plan_fini(&p);

    static const char *const sets[] = {"repeats=1", "batch = 20 | 30", "data=idx:mnist", "steps=4"};
    assert_int_equal(plan_with(text, true, sets, 4, &p), YK_OK);
    assert_int_equal(p.nruns, 4);
    assert_string_equal(p.run[0].label, "batch=20 mode=async workers=2 lr=0.1");
    assert_argument(&p.run[0], "--data=idx:mnist");
    assert_argument(&p.run[0], "--steps=4");
    yk_sweep_plan_fini(&p);
    static const char *const bad[] = {"workers=2"};
    assert_error(plan_with(text, false, bad, 1, &p), YK_EUSAGE,
                 "--set 'workers=2': workers varies together with mode: set both here");
    yk_sweep_plan_fini(&p);
    /* they also replace the length given in [train] */
    static const char train[] = HEAD "epochs = 9\n[quick]\nsteps = 3\n";
    p = plan_of(train, true);
    assert_argument(&p.run[0], "--steps=3");
    assert_no_argument(&p.run[0], "--epochs");
    yk_sweep_plan_fini(&p);
}

static void errors_are_reported_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"model = softmax\n", ":1: a line before the first section"},
        {"[trian]\n", ":1: unknown section [trian]"},
        {"[train]\nmodel\n", ":2: not a line of the form name = value"},
        {"[train]\nbach = 3\n", ":2: unknown option bach"},
        {"[train]\nbatch = many\n", ":2: --batch many: not a whole number"},
        {"[train]\nout = x\n", ":2: out cannot be set here"},
        {"[train]\nmodel = \"softmax\n", ":2: missing double quote"},
        {"[train]\nmode, workers = sync 1\n", ":2: options can vary together only in [grid]"},
        {HEAD "[grid]\nmodel = softmax\n", ":5: model is already set on line 2"},
        {HEAD "[grid]\nbatch = 5 x\n", ":5: --batch x: not a whole number"},
        {HEAD "[grid]\nbatch = 0\n", ":5: --batch 0: must be between 1 and"},
        {HEAD "[grid]\nbatch =\n", ":5: batch: expected 1 to 512 values"},
        {HEAD "[grid]\nbatch = 5 6 | 7\n", ":5: '5 6': separate values by spaces or by |, not by both"},
        {HEAD "[grid]\nmode, workers = sync 1 | async\n", ":5: 'async' has 1 value for 2 options"},
        {HEAD "[grid]\nmode, mode = sync 1\n", ":5: mode occurs twice on this line"},
        {HEAD "[grid]\nbatch = 5 5\n", "the run batch=5 occurs twice"},
        {HEAD "[grid]\nmode = sync both\n", ":5: --mode both: the value must be one of"},
        {HEAD "[grid]\nmode = sync async\nstaleness = 0 4\n",
         "the run mode=sync staleness=4: --mode sync means --staleness 0"},
        {HEAD "[grid]\noptimizer = sgd newton\n", ":5: --optimizer newton: the value must be one of: sgd, "},
        {"[train]\nmodel = softmax\n", "--data is missing"},
        {"[sweep]\nbatch = 3\n", ":2: unknown setting batch"},
        {"[sweep]\nrepeats = 0\n", ":2: repeats = 0: must be between 1 and"},
        {"[sweep]\nepochs = 1.5\n", ":2: epochs = 1.5: not a whole number"},
        {"[sweep]\nname = a/b\n", ":2: name = a/b"},
        {"[sweep]\nmodels = all\n", ":2: models = all: expected keep or drop"},
        {"[sweep]\nepochs = 1\nsteps = 2\n", ":3: only one of examples, epochs and steps"},
        {"[sweep]\nepochs = 1\n" HEAD "steps = 3\n", ":6: steps: [sweep] fixes it"},
        {"[sweep]\neval-examples = 10\n" HEAD "eval-every = 3\n",
         ":6: eval-every: eval-examples is set in [sweep]"},
        {"[sweep]\nrepeats = 2\n" HEAD "[grid]\nseed = 1 2\n",
         ":7: seed: with repeats = 2, set only the first seed"},
        {"[sweep]\nrepeats = 1000\n" HEAD
         "[grid]\nbatch = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21\n",
         "more than 20000 runs"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_refusal(bad[i].text, false, bad[i].words);
    expect_refusal(HEAD, true, "no section [quick]");
    expect_refusal(HEAD "[grid]\nmode, workers = sync 1 | sync 2\n[quick]\nworkers = 1\n", true,
                   ":7: workers varies together with mode: set both here");
    expect_refusal(HEAD "[quick]\nbatch = 1\nbatch = x\n", true, ":6: --batch x");
    yk_sweep_plan p;
    assert_error(yk_sweep_plan_make(in_directory("none.ini"), false, NULL, 0, directory, &p), YK_EUSAGE,
                 "none.ini: cannot read");
    yk_sweep_plan_fini(&p);
    assert_error(yk_sweep_plan_make(directory, false, NULL, 0, directory, &p), YK_EUSAGE, "cannot read");
    yk_sweep_plan_fini(&p);
}

static void conflicts_with_set_name_the_option(void **state)
{
    (void)state;
    static const char text[] = "[sweep]\nepochs = 1\nrepeats = 2\neval-examples = 10\n" HEAD;
    static const char *const bad[][2] = {
        {"steps, batch = 1 5 | 2 10", "--set steps: [sweep] fixes it: remove one of them"},
        {"eval-every=3", "--set eval-every: eval-examples is set in [sweep]: remove one of them"},
        {"seed=1 2", "--set seed: with repeats = 2, set only the first seed"}};
    for (size_t i = 0; i < 3; i++) {
        yk_sweep_plan p;
        assert_error(plan_with(text, false, bad[i], 1, &p), YK_EUSAGE, bad[i][1]);
        assert_null(strstr(yk_error(), ":0:"));
        yk_sweep_plan_fini(&p);
    }
}

/* Truncated files and flipped bytes: never a crash (run with sanitizers), and errors name the file. */
static void damaged_files_are_refused_or_read(void **state)
{
    (void)state;
    static const char good[] =
        "; x\n[sweep]\nrepeats = 2\nexamples = 600\n" HEAD
        "[grid]\nbatch = 5 | 10\nmode, workers = sync 1 | \"async\" 2\n[quick]\nbatch = 7\n";
    char text[sizeof good];
    size_t refused = 0;
    for (size_t i = 0; i < sizeof good - 1; i++)
        for (int kind = 0; kind < 3; kind++) {
            memcpy(text, good, sizeof good);
            text[i] = kind == 0 ? '\0' : kind == 1 ? '"' : '|';
            yk_sweep_plan p;
            yk_status st = plan_with(text, i % 2, NULL, 0, &p);
            if (st) {
                assert_int_equal(st, YK_EUSAGE);
                assert_message("some-sweep.ini");
                refused++;
            }
            yk_sweep_plan_fini(&p);
        }
    assert_true(refused > sizeof good);
}

/* ---- the directory */

static void assert_state(const yk_sweep_plan *p, yk_sweep_state wanted)
{
    yk_sweep_run_find(&p->run[0], false);
    assert_int_equal(p->run[0].state, wanted);
    assert_int_equal(p->run[0].summary != NULL, wanted == YK_SWEEP_DONE);
}

static void runs_are_found_again(void **state)
{
    (void)state;
    yk_sweep_plan p = plan_of(HEAD "lr = 0.1\ntrace = true\nlaunch = 3\n[grid]\nservers = 0 2\n", false);
    assert_state(&p, YK_SWEEP_NOT_RUN);
    char file[512];
    snprintf(file, sizeof file, "%s/summary.json", p.run[0].path);
    assert_int_equal(yk_dir_make(p.run[0].path), YK_OK);
    assert_int_equal(yk_config_save(&p.run[0].config, p.run[0].path, "config.ini"), YK_OK);
    assert_state(&p, YK_SWEEP_STOPPED);
    static const char *const begun[] = {"{", "{\"interrupted\":true}", "{\"state\":\"failed\"}"};
    for (size_t i = 0; i < 3; i++) {
        put(file, begun[i], strlen(begun[i]));
        assert_state(&p, YK_SWEEP_STOPPED);
    }
    put(file, "{\"steps\":1}", 11);
    assert_state(&p, YK_SWEEP_DONE);
    p.run[0].config.quiet = p.run[0].config.resume = true; /* belong to one invocation, not to the run */
    assert_state(&p, YK_SWEEP_DONE);
    assert_int_equal(yk_config_set(&p.run[0].config, "lr", "0.2"), YK_OK);
    assert_state(&p, YK_SWEEP_DIFFERENT);
    yk_sweep_plan_fini(&p);
}

/* ---- tables */

static json_t *summary(double accuracy, double rate, bool interrupted)
{
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:n, s:f, s:f, s:f, s:i, s:i, s:b, s:s}", "steps", 10,
                     "examples", 1000, "examples_per_second", rate, "train_seconds", 1.0, "test_loss", 0.25,
                     "test_accuracy", accuracy, "test_auc", "majority_accuracy", 0.125, "cpu_seconds", 3.0,
                     "seconds", 2.0, "peak_rss_bytes", 50000000, "bytes_sent", 0, "interrupted", interrupted,
                     "verdict", "cpu, \"busy\"");
}

static char *text_of(const char *path)
{
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

static void assert_holds(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void mean_and_spread_over_repeats(void **state)
{
    (void)state;
    yk_sweep_plan p =
        plan_of("[sweep]\nrepeats = 3\n" HEAD "[grid]\nbatch = 5 10\nmode = sync | async\n", false);
    assert_int_equal(p.nruns, 12);
    /* point 0: three runs; point 1: two runs and a failed one; point 2: one run and a stopped one; point 3: none */
    yk_sweep_run_take(&p.run[0], summary(0.90, 500, false));
    yk_sweep_run_take(&p.run[4], summary(0.91, 500, false));
    yk_sweep_run_take(&p.run[8], summary(0.92, 250, false));
    yk_sweep_run_take(&p.run[1], summary(0.80, 2e6, false));
    yk_sweep_run_take(&p.run[5], summary(0.84, 2e6, false));
    p.run[9].state = YK_SWEEP_FAILED;
    p.run[9].problem = strdup("exit status 1: diverged, \"sorry\"");
    yk_sweep_run_take(&p.run[2], summary(0.50, 20000, false));
    yk_sweep_run_take(&p.run[6], summary(0.99, 1, true));
    assert_int_equal(p.run[6].state, YK_SWEEP_STOPPED);

    char *table = NULL;
    size_t size;
    FILE *f = open_memstream(&table, &size);
    yk_sweep_table_print(&p, f);
    fclose(f);
    assert_string_equal(table, "batch  mode          runs  steps      seconds  examples/s        test loss   "
                               " accuracy %  CPU cores  memory MB\n"
                               "    5  sync             3     10  2.67 ± 1.15         417  0.2500 ± 0.0000  "
                               "91.00 ± 1.00       1.50         50\n"
                               "    5  async  2, 1 failed     10  0.00 ± 0.00      2.00 M  0.2500 ± 0.0000  "
                               "82.00 ± 2.83       1.50         50\n"
                               "   10  sync             1     10         0.05        20 k           0.2500   "
                               "      50.00       1.50         50\n"
                               "   10  async            0      -            -           -                -   "
                               "          -          -          -\n"
                               "majority class: 12.50 %\n");
    free(table);

    assert_int_equal(yk_sweep_table_save(&p), YK_OK);
    const char *csv = text_of(in_directory("sweep.csv"));
    assert_holds(csv, "batch,mode,done,failed,steps,steps_spread,");
    assert_holds(csv, "\n5,sync,3,0,10,0,1000,0,2.66666667,1.15470054,");
    assert_holds(csv, "\n10,async,0,0,,,");
    csv = text_of(in_directory("runs.csv"));
    assert_holds(csv, "\n5,async,1,batch-5_mode-async_seed-1,done,10,1000,0.0005,");
    assert_holds(csv, ",\"cpu, \"\"busy\"\"\",\n");
    assert_holds(csv, "\n5,async,3,batch-5_mode-async_seed-3,failed,,");
    assert_holds(csv, ",,\"exit status 1: diverged, \"\"sorry\"\"\"\n");
    assert_holds(csv, ",not run,");
    json_t *o = json_load_file(in_directory("sweep.json"), 0, NULL), *deep = json_array();
    assert_non_null(o);
    assert_int_equal(json_integer_value(json_object_get(o, "done")), 6);
    for (int i = 0; i < 100; i++) /* a file may contain anything */
        deep = json_pack("[o]", deep);
    json_object_set_new(p.run[0].summary, "deep", deep);
    assert_int_equal(yk_sweep_table_save(&p), YK_OK);
    assert_holds(text_of(in_directory("sweep.json")), "null");
    assert_int_equal(json_integer_value(json_object_get(o, "failed")), 1);
    json_t *points = json_object_get(o, "points"), *runs = json_object_get(o, "runs");
    assert_int_equal(json_array_size(points), 4);
    assert_int_equal(json_array_size(runs), 12);
    json_t *accuracy = json_object_get(json_array_get(points, 0), "test_accuracy");
    assert_true(fabs(json_real_value(json_object_get(accuracy, "mean")) - 0.91) < 1e-9);
    assert_true(fabs(json_real_value(json_object_get(accuracy, "spread")) - 0.01) < 1e-9);
    accuracy = json_object_get(json_array_get(points, 2), "test_accuracy");
    assert_true(json_is_null(json_object_get(accuracy, "spread")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(runs, 9), "error")),
                        "exit status 1: diverged, \"sorry\"");
    assert_true(json_is_object(json_object_get(json_array_get(runs, 8), "summary")));
    assert_true(json_is_null(json_object_get(json_array_get(runs, 3), "summary")));
    assert_true(fabs(json_number_value(json_object_get(json_array_get(runs, 0), "test_accuracy")) - 0.90) <
                1e-9);
    assert_true(json_is_null(json_object_get(json_array_get(runs, 9), "test_loss"))); /* the key is there */
    json_decref(o);
    yk_sweep_plan_fini(&p);
}

/* From the samples, if there are any; bytes sent are shown if not 0. */
static void resources_of_a_job(void **state)
{
    (void)state;
    yk_sweep_plan p = plan_of("[sweep]\nname = x\n" HEAD, false);
    json_t *o = summary(0.5, 100, false);
    json_object_set_new(o, "resources",
                        json_pack("{s:{s:f}, s:{s:f}}", "cpu", "mean", 1.75, "memory", "peak", 75e6));
    json_object_set_new(o, "bottleneck", json_pack("{s:s, s:f}", "kind", "network bandwidth", "share", 0.83));
    json_object_set_new(o, "bytes_sent", json_integer(3210000));
    json_object_set_new(o, "test_auc", json_real(0.789));
    yk_sweep_run_take(&p.run[0], o);
    char *table = NULL;
    size_t size;
    FILE *f = open_memstream(&table, &size);
    yk_sweep_table_print(&p, f);
    fclose(f);
    assert_string_equal(table, "runs  steps  seconds  examples/s  test loss  accuracy %     AUC  CPU cores  "
                               "memory MB  sent MB  bottleneck\n"
                               "   1     10     10.0         100     0.2500       50.00  0.7890       1.75  "
                               "       75      3.2  network bandwidth 83 %\n"
                               "majority class: 12.50 %\n");
    free(table);
    yk_sweep_plan_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_split),
        cmocka_unit_test(a_grid_has_every_combination),
        cmocka_unit_test(examples_become_steps),
        cmocka_unit_test(processes_count_as_workers),
        cmocka_unit_test(processes_on_hosts_count_as_workers),
        cmocka_unit_test(files_do_not_start_programs),
        cmocka_unit_test(flags_and_blanks),
        cmocka_unit_test(quick_and_set_replace),
        cmocka_unit_test(errors_are_reported_with_their_line),
        cmocka_unit_test(conflicts_with_set_name_the_option),
        cmocka_unit_test(damaged_files_are_refused_or_read),
        cmocka_unit_test(runs_are_found_again),
        cmocka_unit_test(mean_and_spread_over_repeats),
        cmocka_unit_test(resources_of_a_job),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
