/* Reading run directories: complete, incomplete, damaged and huge ones. */
#include "run_maker.h"

static void a_whole_run_is_read(void **state)
{
    (void)state;
    made m = made_run("whole");
    m.ranks = 2;
    make_run(&m);
    yk_run r = load_made("whole");
    assert_int_equal(r.train.n, 40);
    assert_int_equal(r.eval.n, 10);
    assert_true(r.eval.row[9].test_accuracy > 0.9 && isnan(r.eval.row[9].test_auc));
    assert_string_equal(yk_run_get(&r, "batch"), "20");
    assert_null(yk_run_get(&r, "momentum"));
    assert_int_equal(r.logs, 2);
    const yk_process_log *w = &r.log[0];
    assert_string_equal(w->role, "chief");
    assert_string_equal(w->host, "node");
    assert_true(w->cores == 4.0 && w->memory == 8e9 && w->link == 250e6);
    assert_int_equal(w->sample.n, 40);
    assert_float_equal(w->peak.cpu, 1.2, 1e-9);
    assert_float_equal(w->mean.cpu, 0.9 + 0.3 / 40.0, 1e-9);
    assert_float_equal(w->last.phase[YK_PHASE_COMPUTE], 5.0, 1e-9);
    assert_true(isnan(w->last.phase[YK_PHASE_APPLY]));
    const json_t *alert = json_array_get(w->alerts, 0);
    assert_int_equal(json_array_size(w->alerts), 1);
    assert_true(yk_number_at(alert, "begin") == 2.0 && yk_number_at(alert, "seconds") == 1.5);
    assert_int_equal(r.log[1].rank, 1);
    assert_int_equal(r.bad_lines, 0);
    yk_run_fini(&r);
}

static void missing_values_are_unknown(void **state)
{
    (void)state;
    made m = made_run("bare");
    m.no_summary = m.no_config = m.no_resources = true;
    m.lines = m.tests = 0;
    make_run(&m);
    yk_run r = load_made("bare");
    yk_facts f;
    yk_facts_of(&r, &f);
    assert_true(r.train.n == 0 && r.eval.n == 0 && !r.options && r.logs == 0 && !r.summary);
    assert_true(isnan(f.test_accuracy) && isnan(f.seconds) && isnan(f.cpu) && isnan(f.phase[0]) && !f.ended &&
                !f.verdict);
    yk_run_fini(&r);

    m = made_run("unended");
    m.no_summary = true;
    make_run(&m);
    r = load_made("unended");
    yk_facts_of(&r, &f);
    assert_true(!f.ended && f.steps == 5000.0 && f.seconds == 10.0 && f.batch == 20.0 && f.workers == 1.0);
    assert_float_equal(f.examples_per_second, 10000.0, 1e-6);
    assert_true(f.test_accuracy > 0.9 && f.cpu > 0.89);
    assert_float_equal(f.phase[YK_PHASE_INPUT], 0.2, 1e-9);
    yk_run_fini(&r);
}

/* The facts of a run without a summary, with 2 workers per process and batches of 20. */
static yk_facts planned(yk_run *r, const char *model, const char *options, int ranks)
{
    made m = made_run("planned");
    m.no_summary = true;
    m.model = model;
    m.mode = "async";
    m.workers = 2;
    m.ranks = ranks;
    m.more_options = options;
    make_run(&m);
    yk_run_fini(r);
    *r = load_made("planned");
    yk_facts f;
    yk_facts_of(r, &f);
    return f;
}

static void a_run_without_a_summary_is_planned(void **state)
{
    (void)state;
    yk_run r = {0};
    yk_facts f = planned(&r, "softmax", "launch = 3\n", 1);
    assert_true(f.ranks == 3.0 && f.workers == 6.0 && f.servers == 0.0 && f.global_batch == 120.0);
    assert_string_equal(f.mode, "async");
    assert_string_equal(f.optimizer, "sgd");
    f = planned(&r, "fm:8",
                "servers = 1\nstaleness = 0\nquorum = 2\n; on the command line: --hosts a:2,b:2\n", 1);
    assert_true(f.ranks == 4.0 && f.servers == 1.0 && f.workers == 6.0 && f.global_batch == 80.0);
    assert_string_equal(f.mode, "sync");
    assert_string_equal(f.optimizer, "adagrad");
    f = planned(&r, "deepfm:8", "servers = all\n", 2); /* mpirun */
    assert_true(f.ranks == 2.0 && f.servers == 0.0 && f.workers == 4.0);
    assert_string_equal(f.optimizer, "keyed=adagrad,dense=adam");
    /* of another version, or damaged */
    f = planned(&r, "softmax", "unheard-of = 7\noptimizer = new\nlaunch = 2\n", 1);
    assert_true(f.ranks == 2.0 && f.workers == 4.0);
    assert_string_equal(f.optimizer, "new");
    f = planned(&r, "softmax", "launch = 2\nquorum = ?\n", 1);
    assert_true(f.ranks == 2.0 && isnan(f.workers) && isnan(f.global_batch) && f.batch == 20.0);
    f = planned(&r, "softmax", "workers = auto\n", 1);
    assert_true(isnan(f.workers) && isnan(f.global_batch));
    f = planned(&r, "softmax", "; on the command line: --hosts a:,-b\n", 2);
    assert_true(f.ranks == 2.0 && f.workers == 4.0);
    f = planned(&r, "softmax", "; on the command line: --hostfile /dev/zero\n", 2);
    assert_true(f.ranks == 2.0 && f.workers == 4.0);
    yk_run_fini(&r);
}

static void incomplete_and_invalid_lines_are_skipped(void **state)
{
    (void)state;
    made m = made_run("rubbish");
    make_run(&m);
    FILE *f = made_file("rubbish", "metrics.jsonl");
    fwrite("\0\0\0half a line\0\n", 1, 16, f); /* after a power failure */
    fputs("{\"kind\":\"train\",\"step\":1,\"seconds\":1,\"loss\":1}\n\n   "
          "\nnonsense\n[1]\n{\"kind\":\"other\",\"step\":2}\n"
          "{\"kind\":\"train\",\"loss\":3}\n{\"kind\":\"train\",\"step\":\"7\"}\n"
          "{\"kind\":\"eval\",\"step\":3,\"seconds\":1,\"test_loss\":null,\"test_accuracy\":0.5}\r\n"
          "{\"kind\":\"train\",\"step\":4,\"seconds\":2,\"lo",
          f);
    fclose(f);
    f = made_file("rubbish", "summary.json");
    fputs("{\"steps\":", f);
    fclose(f);
    f = made_file("rubbish", "worker-0/resources.jsonl");
    fputs("{\"kind\": \"sample\", \"seconds\": 1, \"rss\": 5}\n{\"kind\":\"sample\",\"seconds\":2,\"rss\":",
          f);
    fclose(f);
    yk_run r = load_made("rubbish");
    assert_int_equal(r.train.n, 1);
    assert_int_equal(r.eval.n, 1);
    assert_true(isnan(r.eval.row[0].test_loss) && r.eval.row[0].test_accuracy == 0.5);
    assert_int_equal(r.bad_lines, 3); /* the last line does not count */
    assert_null(r.summary);
    assert_int_equal(r.log[0].sample.n, 1);
    assert_true(r.log[0].mean.rss == 5.0 && isnan(r.log[0].mean.cpu));
    yk_run_fini(&r);
}

static void lines_of_a_resumed_run_replace_old_ones(void **state)
{
    (void)state;
    made m = made_run("resumed");
    m.seconds = 3.0;
    make_run(&m);
    FILE *f = made_file("resumed", "metrics.jsonl");
    for (int step = 1; step <= 10; step++)
        fprintf(f, "{\"kind\":\"train\",\"step\":%d,\"epoch\":1,\"seconds\":%d,\"loss\":1}\n", step, step);
    for (int step = 6; step <= 8; step++)
        fprintf(f, "{\"kind\":\"train\",\"step\":%d,\"epoch\":1,\"seconds\":%d,\"loss\":2}\n", step, step);
    fclose(f);
    yk_run r = load_made("resumed");
    assert_int_equal(r.train.n, 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(r.train.row[i].step == (double)(i + 1) && r.train.row[i].loss == (i < 5 ? 1.0 : 2.0));
    yk_facts facts;
    yk_facts_of(&r, &facts);
    assert_true(facts.seconds == 8.0); /* of the whole run; in the summary: since it was resumed */
    yk_run_fini(&r);
}

static void a_huge_log_keeps_its_extremes_and_its_means(void **state)
{
    (void)state;
    enum { LINES = 5 * YK_RUN_ROWS };
    made m = made_run("huge");
    make_run(&m);
    FILE *f = made_file("huge", "metrics.jsonl"), *g = made_file("huge", "worker-0/resources.jsonl");
    for (int i = 1; i <= LINES; i++) {
        fprintf(f, "{\"kind\":\"train\",\"step\":%d,\"epoch\":1,\"seconds\":%d,\"loss\":%d}\n", i, i,
                i == 123457   ? 9
                : i == 200001 ? -9
                              : i % 2);
        fprintf(g, "{\"kind\":\"sample\",\"seconds\":%d,\"cpu_user\":%d,\"cpu_system\":0}\n", i, i % 2);
    }
    fclose(f);
    fclose(g);
    yk_run r = load_made("huge");
    bool high = false, low = false;
    assert_true(r.thinned && r.train.n <= YK_RUN_ROWS && r.train.n >= YK_RUN_ROWS / 4);
    assert_true(r.train.row[0].step == 1.0 && r.train.row[r.train.n - 1].step == (double)LINES);
    for (size_t i = 0; i < r.train.n; i++) {
        high |= r.train.row[i].loss == 9.0 && r.train.row[i].step == 123457.0;
        low |= r.train.row[i].loss == -9.0;
        if (i)
            assert_true(r.train.row[i].step > r.train.row[i - 1].step);
    }
    assert_true(high && low);
    assert_true(r.log[0].sample.n <= YK_RUN_ROWS);
    assert_float_equal(r.log[0].mean.cpu, 0.5, 1e-5);
    yk_run_fini(&r);
}

/* The samples of a long run are further apart at its end. */
static void means_are_over_time(void **state)
{
    (void)state;
    made m = made_run("long");
    make_run(&m);
    FILE *g = made_file("long", "worker-0/resources.jsonl");
    for (int i = 1; i <= 4; i++)
        fprintf(g, "{\"kind\":\"sample\",\"seconds\":%d,\"cpu_user\":1,\"cpu_system\":0}\n", i);
    fprintf(g, "{\"kind\":\"sample\",\"seconds\":20,\"cpu_user\":2,\"cpu_system\":0}\n");
    fclose(g);
    yk_run r = load_made("long");
    assert_float_equal(r.log[0].mean.cpu, (4.0 + 2.0 * 16.0) / 20.0, 1e-9);
    assert_true(r.log[0].peak.cpu == 2.0);
    yk_run_fini(&r);
}

static void runs_are_found_and_named(void **state)
{
    (void)state;
    static const char *const names[] = {"sweep/batch=100", "sweep/batch=20", "sweep/batch=5",
                                        "sweep/deep/er/run"};
    for (size_t i = 0; i < 4; i++) {
        made m = made_run(names[i]);
        m.lines = 2;
        m.samples = 2;
        make_run(&m);
    }
    made_directory("sweep/batch=5/checkpoints/step-1", ""); /* not searched */
    fclose(made_file("sweep/batch=5/checkpoints", "metrics.jsonl"));
    made_directory("empty", "");
    yk_run_list l;
    char sweep[300], one[300], empty[300];
    snprintf(sweep, sizeof sweep, "%s/", in_directory("sweep"));
    snprintf(one, sizeof one, "%s/.", in_directory("sweep/batch=20"));
    snprintf(empty, sizeof empty, "%s", in_directory("empty"));
    char *paths[] = {one, sweep};
    assert_int_equal(yk_runs_find(paths, 2, &l), YK_OK);
    assert_int_equal(l.n, 4); /* batch=20 once, although it was named twice */
    assert_string_equal(l.run[0].name, "batch=20");
    assert_string_equal(l.run[1].name, "batch=5");
    assert_string_equal(l.run[2].name, "batch=100");
    assert_string_equal(l.run[3].name, "run");
    yk_run_list_fini(&l);

    made m = made_run("other/batch=5"); /* the same last component: both names get longer */
    m.lines = m.samples = 2;
    make_run(&m);
    char other[300];
    snprintf(other, sizeof other, "%s", in_directory("other"));
    char *both[] = {sweep, other};
    assert_int_equal(yk_runs_find(both, 2, &l), YK_OK);
    assert_int_equal(l.n, 5);
    assert_string_equal(l.run[0].name, "sweep/batch=5");
    assert_string_equal(l.run[4].name, "other/batch=5");
    yk_run_list_fini(&l);

    FILE *plan =
        made_file("sweep", "plan.txt"); /* runs of a sweep are in the order of its plan, then the others */
    fputs("batch=100: --batch=100\nbatch=7: --batch=7\nbatch=5: --batch=5\n", plan);
    fclose(plan);
    char *planned[] = {sweep};
    assert_int_equal(yk_runs_find(planned, 1, &l), YK_OK);
    assert_int_equal(l.n, 4);
    assert_string_equal(l.run[0].name, "batch=100");
    assert_string_equal(l.run[1].name, "batch=5");
    assert_string_equal(l.run[2].name, "batch=20");
    yk_run_list_fini(&l);

    char *none[] = {empty};
    assert_error(yk_runs_find(none, 1, &l), YK_EUSAGE, "no run directory here or below");
    snprintf(other, sizeof other, "%s", in_directory("nowhere"));
    char *missing[] = {other};
    assert_error(yk_runs_find(missing, 1, &l), YK_EUSAGE, "No such file");
    snprintf(other, sizeof other, "%s/sweep/batch=5/metrics.jsonl", directory);
    assert_error(yk_runs_find(missing, 1, &l), YK_EUSAGE, "not a directory");
}

static void plateaus_need_enough_evaluations_and_tolerate_noise(void **state)
{
    (void)state;
    yk_metric row[50];
    yk_metrics e = {row, 50, 50};
    yk_plateau plateau;
    for (int i = 0; i < 50; i++)
        row[i] = (yk_metric){.step = i,
                             .epoch = i + 1,
                             .seconds = i + 1,
                             .test_auc = NAN,
                             .train_loss = NAN,
                             .test_loss = NAN,
                             .test_accuracy = i < 36 ? 0.5 + 0.01 * i : 0.87 + 0.0004 * (i % 3)};
    yk_plateau_find(&e, &plateau);
    assert_true(plateau.what && plateau.reached);
    assert_string_equal(plateau.what, "test accuracy");
    assert_true(plateau.epoch == 37.0);
    assert_float_equal(plateau.rest, 0.26, 1e-9);
    char when[32];
    assert_string_equal(yk_when_text(2720.694, 5.0, when), "epoch 2720.69");
    for (int i = 36; i < 50; i++) /* it still improves: no plateau */
        row[i].test_accuracy = 0.86 + 0.004 * (i - 36);
    yk_plateau_find(&e, &plateau);
    assert_true(plateau.what && !plateau.reached);
    e.n = 3;
    yk_plateau_find(&e, &plateau);
    assert_true(!plateau.what);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_run_is_read),
        cmocka_unit_test(missing_values_are_unknown),
        cmocka_unit_test(a_run_without_a_summary_is_planned),
        cmocka_unit_test(incomplete_and_invalid_lines_are_skipped),
        cmocka_unit_test(lines_of_a_resumed_run_replace_old_ones),
        cmocka_unit_test(a_huge_log_keeps_its_extremes_and_its_means),
        cmocka_unit_test(means_are_over_time),
        cmocka_unit_test(runs_are_found_and_named),
        cmocka_unit_test(plateaus_need_enough_evaluations_and_tolerate_noise),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
