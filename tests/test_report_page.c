/* From run directories to a page and to files. */
#include "run_maker.h"

#include "report/figure.h"
#include "report/report.h"

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s does not exist", path);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *s = malloc(n + 1);
    assert_int_equal(fread(s, 1, n, f), n);
    s[n] = 0;
    fclose(f);
    return s;
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

static yk_report_result make(const yk_report *r)
{
    yk_report_result result;
    yk_status st = yk_report_make(r, &result);
    if (st)
        fail_msg("%s", yk_error());
    return result;
}

/* The page loads nothing from elsewhere. */
static void assert_self_contained(const char *page)
{
    assert_null(strstr(page, "https:"));
    for (const char *s = page; (s = strstr(s, "http:")); s++)
        assert_int_equal(strncmp(s, "http://www.w3.org/2000/svg", 26), 0); /* an XML namespace, not a link */
    assert_null(strstr(page, "@import"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "url("));
}

/* Every plot has as many points as its embedded data has rows. */
static void assert_points(const char *page)
{
    static const char begin[] = "<div hidden id=\"data-";
    for (const char *at = page; (at = strstr(at, begin));) {
        char mark[256];
        size_t rows = 0, drawings = 0;
        at += strlen(begin);
        snprintf(mark, sizeof mark, "data-f=\"%.*s\" data-x", (int)strcspn(at, "\""), at);
        at = strchr(at, '>') + 1;
        for (const char *c = strchr(at, '\n') + 1; *c != '<'; c++)
            rows += *c == '\n';
        for (const char *svg = page; (svg = strstr(svg, mark)); svg++) {
            const char *close = strstr(svg, "</svg>");
            size_t points = 0;
            for (const char *line = svg; (line = strstr(line, "class=\"line")) && line < close;)
                for (line = strstr(line, " d=\"") + 4; *line != '"'; line++)
                    points += *line == 'M' || *line == 'L';
            if (points != rows || !rows)
                fail_msg("%s: %zu points are drawn, not %zu", mark, points, rows);
            drawings++;
        }
        if (drawings) /* the others are bars */
            assert_int_equal(drawings, !strncmp(at, "series,step,epoch", 17) ? 4 : 1);
    }
}

static void one_run_makes_a_page(void **state)
{
    (void)state;
    made m = made_run("one");
    m.ranks = m.workers = 2;
    m.more_summary =
        ",\"verdict\":\"input pipeline: the workers spent 83 % of the time waiting for "
        "data\",\"bottleneck\":{\"kind\":\"input "
        "pipeline\",\"share\":0.83,\"text\":\"t\",\"advice\":\"read a "
        "cache\",\"numbers\":{},\"estimates\":[{\"change\":\"one more " /* of older versions */
        "worker\",\"speedup\":1.04}]},\"traffic\":{\"push\":{\"sent\":10,\"received\":20,\"messages\":3}},"
        "\"processes\":[{\"rank\":0,\"role\":\"chief\",\"host\":\"h\",\"steps\":5,\"examples\":6,\"bytes_"
        "sent\":7,\"bytes_received\":8,"
        "\"phases\":{\"compute\":0.5,\"input\":0.5},\"workers\":[{\"worker\":0,\"steps\":9,\"step_seconds\":"
        "0.001,"
        "\"step_deviation\":0.0001,\"meetings\":4,\"came_last\":1,\"phases\":{\"compute\":1}},{\"worker\":1,"
        "\"phases\":{}}]},{\"rank\":1,\"bytes_sent\":1,\"bytes_received\":1,"
        "\"steps\":5,"
        "\"phases\":{\"compute\":1}}]";
    make_run(&m);
    char path[300];
    snprintf(path, sizeof path, "%s", in_directory("one"));
    char *paths[] = {path};
    yk_report_result r = make(&(yk_report){.paths = paths, .n = 1});
    assert_string_equal(r.out, in_directory("one/report.html")); /* in the run directory */
    char *page = slurp(r.out);
    assert_int_equal(r.bytes, strlen(page));
    assert_self_contained(page);
    assert_points(page);
    const char *verdict = strstr(page, "Input pipeline: the workers spent 83 % of the time"),
               *curves = strstr(page, "id=\"curves\"");
    assert_true(verdict && curves && verdict < curves);
    assert_null(strstr(page, "one more worker"));
    static const char *const parts[] = {"figure-test-accuracy",
                                        "figure-test-loss",
                                        "figure-training-loss",
                                        "figure-examples-per-second",
                                        "figure-steps-per-second",
                                        "figure-cpu",
                                        "figure-memory",
                                        "figure-network-interfaces",
                                        "figure-disk",
                                        "figure-time-of-each-worker-by-phase",
                                        "id=\"table-resources\"",
                                        "id=\"table-processes-1\"",
                                        "id=\"table-traffic-1\"",
                                        "id=\"table-workers-1\"",
                                        "25 %</td>",
                                        "id=\"table-alerts-1\"",
                                        "class=\"band\"",
                                        "yoke train <span>--model softmax</span>"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(page, parts[i]))
            fail_msg("the page has no %s", parts[i]);
    assert_int_equal(count(page, "class=\"band\""), 1); /* both processes have an alert at the same time */
    assert_non_null(strstr(page, "id=\"figure-network-bytes-sent"));
    assert_int_equal(count(page, "<svg"), count(page, "</svg>"));
    assert_null(strstr(page, "nan"));
    free(page);
    free(r.out);
}

static void several_runs_make_a_page_and_files(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "many/b%d-%s", i % 3, i < 3 ? "sync" : "async");
        made m = made_run(name);
        m.batch = 5 << i % 3;
        m.mode = i < 3 ? "sync" : "async";
        m.workers = 2;
        m.more_summary = i < 3 ? ""
                               : ",\"observed_staleness\":{\"observed\":9,\"mean\":1.5,\"max\":4,"
                                 "\"counts_0_1_2to3_4to7_and_so_on\":[5,3,1]}";
        make_run(&m);
    }
    char path[300], out[300], csv[300], svg[300];
    snprintf(path, sizeof path, "%s", in_directory("many"));
    snprintf(out, sizeof out, "%s", in_directory("many.html"));
    snprintf(csv, sizeof csv, "%s", in_directory("files/csv"));
    snprintf(svg, sizeof svg, "%s", in_directory("files/svg"));
    char *paths[] = {path};
    yk_report_result r = make(
        &(yk_report){.paths = paths, .n = 1, .out = out, .csv = csv, .svg = svg, .title = "a <b> & \"c\""});
    assert_int_equal(r.runs, 6);
    char *page = slurp(out);
    assert_self_contained(page);
    assert_points(page);
    assert_non_null(strstr(page, "<h1>a &lt;b&gt; &amp; &quot;c&quot;</h1>"));
    static const char *const parts[] = {"id=\"table-runs\"",
                                        "id=\"table-batch\"",
                                        "id=\"table-modes\"",
                                        "figure-test-accuracy-by-batch-size\"",
                                        "figure-staleness-of-updates\"",
                                        "figure-worker-time-by-phase\"",
                                        "figure-cpu-busy-cores-over-time\"",
                                        "figure-memory-over-time-run-b2-async\"",
                                        "id=\"run-6\"",
                                        "data-r=\"5\""};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(page, parts[i]))
            fail_msg("the page has no %s", parts[i]);
    free(page);
    char *text = slurp(in_directory("files/csv/test-accuracy.csv"));
    assert_int_equal(strncmp(text, "series,step,epoch,examples,seconds,Test accuracy\r\n", 50), 0);
    assert_int_equal(count(text, "\r\n"), 1 + 6 * 10);
    free(text);
    text = slurp(in_directory("files/csv/table-batch.csv"));
    assert_int_equal(count(text, "\r\n"), 1 + 6);
    free(text);
    text = slurp(in_directory("files/svg/test-accuracy-by-seconds.svg"));
    assert_int_equal(strncmp(text, "<?xml", 5), 0);
    assert_int_equal(count(text, "class=\"line"), 6);
    assert_null(strstr(text, "var("));
    free(text);
    free(slurp(in_directory("files/svg/cpu-busy-cores-over-time.svg")));
    free(r.out);
}

/* 12 configurations with 3 seeds: panels of at most six curves, each the mean of its seeds. */
static void many_runs_make_panels_of_means(void **state)
{
    (void)state;
    for (int i = 0; i < 36; i++) {
        char name[64];
        snprintf(name, sizeof name, "grid/batch-%d_workers-%d_mode-%s_seed-%d", 5 << i % 3, 1 + i / 3 % 2,
                 i / 6 % 2 ? "async" : "sync", 1 + i / 12);
        made m = made_run(name);
        m.batch = 5 << i % 3;
        m.workers = 1 + i / 3 % 2;
        m.mode = i / 6 % 2 ? "async" : "sync";
        m.seed = 1 + i / 12;
        m.top = i / 12 ? 0.92 : 0.9;
        m.ranks = 2;
        m.more_options = "lr = 0.05\nlaunch = 4\nl2 = 0\n; on the command line: --hosts a,b:3\n"
                         "; on the command line: --agent evil\n";
        make_run(&m);
    }
    char path[300], csv[300];
    snprintf(path, sizeof path, "%s", in_directory("grid"));
    snprintf(csv, sizeof csv, "%s", in_directory("grid-csv"));
    char *paths[] = {path};
    yk_report_result r = make(&(yk_report){.paths = paths, .n = 1, .csv = csv});
    char *page = slurp(r.out);
    assert_points(page);
    static const char *const parts[] = {"<h1>grid</h1>",
                                        "id=\"figure-test-accuracy-2-workers\"",
                                        "id=\"figure-test-error-1-worker\"",
                                        "class=\"spread",
                                        "class=\"whisker",
                                        "<span>--lr 0.05</span>",
                                        "<span>--launch 4</span>",
                                        "id=\"x3\"",
                                        "<span>--hosts a,b:3</span>"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(page, parts[i]))
            fail_msg("the page has no %s", parts[i]);
    assert_null(strstr(page, "--l2 0"));
    assert_null(strstr(page, "evil"));
    assert_null(strstr(page, "mpirun"));
    assert_null(strstr(page, "id=\"figure-test-accuracy\""));
    assert_int_equal(count(page, "<li><button type=\"button\" data-r=\"5\""), 2); /* curves and resources */
    assert_null(strstr(page, "data-r=\"6\""));
    free(page);
    char *text = slurp(in_directory("grid-csv/test-accuracy-1-worker.csv"));
    assert_non_null(strstr(text, ",standard deviation\r\n"));
    assert_int_equal(count(text, "\r\n"), 1 + 6 * 10);
    free(text);
    free(slurp(in_directory("grid-csv/table-processes.csv")));
    free(r.out);
}

/* Three evaluations: the first one, before training, and the time before the second do not take most of the plot. */
static void axes_fit_few_evaluations(void **state)
{
    (void)state;
    made m = made_run("few");
    m.tests = 2;
    make_run(&m);
    char path[300], csv[300];
    snprintf(path, sizeof path, "%s", in_directory("few/metrics.jsonl"));
    FILE *f = fopen(path, "a+");
    char *lines = slurp(path);
    assert_non_null(freopen(path, "w", f));
    fprintf(f,
            "{\"kind\":\"eval\",\"step\":0,\"examples\":0,\"epoch\":0,\"seconds\":0.01,\"test_loss\":2.3,"
            "\"test_accuracy\":0.1}\n%s",
            lines);
    fclose(f);
    free(lines);
    snprintf(path, sizeof path, "%s", in_directory("few"));
    snprintf(csv, sizeof csv, "%s", in_directory("few-csv"));
    char *paths[] = {path};
    yk_report_result r = make(&(yk_report){.paths = paths, .n = 1, .csv = csv});
    char *page = slurp(r.out), *figure = strstr(page, "data-f=\"test-accuracy\" data-x=\"1\"");
    assert_non_null(figure);
    double left, right, low, high;
    assert_int_equal(sscanf(strstr(figure, "data-xs="), "data-xs=\"%lf %lf", &left, &right), 2);
    assert_int_equal(sscanf(strstr(figure, "data-ys="), "data-ys=\"%lf %lf", &low, &high), 2);
    assert_true(left > 4.5 && left < 5.0 && right == 10.0); /* evaluations after epochs 5 and 10 */
    assert_true(low > 0.9 && high < 0.93);
    free(page);
    page = slurp(in_directory("few-csv/test-accuracy.csv"));
    assert_int_equal(count(page, "\r\n"), 1 + 2);
    free(page);
    free(r.out);
}

static void names_and_values_cannot_break_the_page(void **state)
{
    (void)state;
    made m = made_run("evil/<img onerror=alert(1)>&\"'</script>"); /* its '/' creates another directory */
    m.more_options = "model2 = '\"><script>alert(1)</script>\n";
    m.more_summary = ",\"verdict\":\"</script><script>alert(2)</"
                     "script>\",\"warnings\":[{\"kind\":\"other\",\"text\":\"<b>x</b>\"}]";
    make_run(&m);
    char path[300];
    snprintf(path, sizeof path, "%s", in_directory("evil"));
    char *paths[] = {path};
    yk_report_result r = make(&(yk_report){.paths = paths, .n = 1});
    char *page = slurp(r.out);
    assert_int_equal(count(page, "<script"), 1);
    assert_int_equal(count(page, "</script"), 1);
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "<b>x</b>"));
    assert_non_null(
        strstr(page, "&#39;&#39;\\&#39;&#39;&quot;&gt;")); /* quoted for the shell, then for HTML */
    free(page);
    free(r.out);
}

static void old_and_broken_runs_make_a_page_too(void **state)
{
    (void)state;
    made m = made_run("old/bare");
    m.no_summary = m.no_config = m.no_resources = true;
    m.lines = m.tests = 0;
    make_run(&m);
    m = made_run("old/killed");
    m.no_summary = true;
    make_run(&m);
    FILE *f = fopen(in_directory("old/killed/metrics.jsonl"), "a");
    fputs("{\"kind\":\"train\",\"st", f);
    fclose(f);
    m = made_run("old/one-line");
    m.lines = 1;
    m.tests = 1;
    m.samples = 1;
    make_run(&m);
    static const char *const which[] = {"old", "old/bare", "old/killed", "old/one-line"};
    for (size_t i = 0; i < 4; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s", in_directory(which[i]));
        char *paths[] = {path};
        yk_report_result r = make(&(yk_report){.paths = paths, .n = 1});
        char *page = slurp(r.out);
        assert_points(page);
        assert_null(strstr(page, "\"nan"));
        assert_null(strstr(page, ">nan"));
        free(page);
        free(r.out);
    }
}

static void write_errors_are_reported(void **state)
{
    (void)state;
    made m = made_run("fine");
    make_run(&m);
    char path[300], out[300];
    snprintf(path, sizeof path, "%s", in_directory("fine"));
    snprintf(out, sizeof out, "%s", in_directory("nowhere/report.html"));
    char *paths[] = {path};
    yk_report_result r;
    assert_error(yk_report_make(&(yk_report){.paths = paths, .n = 1, .out = out}, &r), YK_ESYSTEM,
                 "nowhere/report.html");
    snprintf(out, sizeof out, "%s", in_directory("fine/config.ini/csv"));
    assert_error(yk_report_make(&(yk_report){.paths = paths, .n = 1, .csv = out}, &r), YK_ESYSTEM,
                 "config.ini");
    /* without a program that converts SVG */
    char *old = strdup(getenv("PATH"));
    setenv("PATH", in_directory("fine"), 1);
    snprintf(out, sizeof out, "%s", in_directory("png"));
    yk_status st = yk_report_make(&(yk_report){.paths = paths, .n = 1, .png = out}, &r);
    setenv("PATH", old, 1);
    free(old);
    assert_error(st, YK_ESYSTEM, "librsvg2-bin");
}

#define METRICS(classes, confusion)                                                                          \
    ",\"test_metrics\":{\"examples\":50,\"weight\":50,\"loss\":0.25,\"log_loss\":0.25,\"brier\":0.125,"      \
    "\"auc\":null,"                                                                                          \
    "\"macro_f1\":0.75,\"classes\":" classes ",\"confusion\":" confusion                                     \
    ",\"reliability\":[{\"weight\":20,\"probability\":0.25,\"frequency\":0.3},"                              \
    "{\"weight\":30,\"probability\":0.875,\"frequency\":0.9}]}"

static void metrics_are_a_table_and_plots(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        bool confusion;
    } cases[] = {
        {METRICS("[{\"name\":\"<b>cat\",\"weight\":20,\"precision\":0.8,\"recall\":0.7,\"f1\":0.747},"
                 "{\"weight\":30,\"precision\":0.5,\"recall\":null,\"f1\":null}]",
                 "[[14,6],[0,30]]"),
         true},
        {METRICS("7", "[[14,6],[0]]"), false}, /* damaged */
        {METRICS("[]", "[[14,6],[0,\"x\"],3]"), false},
        {METRICS("{}", "null"), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = made_run("metrics");
        m.more_summary = cases[i].more;
        make_run(&m);
        char path[512], out[512], csv[512], svg[600];
        snprintf(path, sizeof path, "%s", in_directory("metrics"));
        snprintf(out, sizeof out, "%s", in_directory("metrics.html"));
        snprintf(csv, sizeof csv, "%s", in_directory("metrics.csv"));
        snprintf(svg, sizeof svg, "%s", in_directory("metrics.svg"));
        char *paths[] = {path};
        free(make(&(yk_report){.paths = paths, .n = 1, .out = out, .csv = csv, .svg = svg}).out);
        char *page = slurp(out);
        assert_self_contained(page);
        assert_points(page);
        assert_int_equal(count(page, "<section id=\"metrics\">"), 1);
        assert_non_null(strstr(page, "Brier score"));
        assert_null(strstr(page, "log loss")); /* the same number */
        assert_int_equal(count(page, "<figure id=\"figure-calibration\">"), 1);
        assert_int_equal(count(page, "<figure id=\"figure-confusion-matrix\">"), cases[i].confusion);
        assert_null(strstr(page, "<b>cat"));
        if (cases[i].confusion) {
            assert_non_null(strstr(page, "label &lt;b&gt;cat, prediction 1: 6 (30.0 % of the label)"));
            assert_non_null(strstr(page, "label 1, prediction 1: 30 (100.0 % of the label)"));
            snprintf(svg, sizeof svg, "%s", in_directory("metrics.csv/confusion-matrix.csv"));
            char *cells = slurp(svg);
            assert_non_null(strstr(cells, "<b>cat,1,6"));
            free(cells);
            snprintf(svg, sizeof svg, "%s", in_directory("metrics.csv/table-metrics.csv"));
            cells = slurp(svg);
            assert_non_null(strstr(cells, "Brier score,0.125,lower"));
            free(cells);
        }
        free(page);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_makes_a_page),
        cmocka_unit_test(several_runs_make_a_page_and_files),
        cmocka_unit_test(many_runs_make_panels_of_means),
        cmocka_unit_test(axes_fit_few_evaluations),
        cmocka_unit_test(names_and_values_cannot_break_the_page),
        cmocka_unit_test(old_and_broken_runs_make_a_page_too),
        cmocka_unit_test(metrics_are_a_table_and_plots),
        cmocka_unit_test(write_errors_are_reported),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
