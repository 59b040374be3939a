/* Reports that compare several runs: tables, sentences, warnings. */
#include "run_maker.h"

#include "report/figure.h"
#include "report/warning.h"

enum { MAX = 16 };

typedef struct {
    yk_run run[MAX];
    size_t n;
    yk_compare c;
    yk_warnings w;
} compared;

static compared *compare(const char *const *names, size_t n)
{
    compared *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->n = n;
    for (size_t i = 0; i < n; i++)
        k->run[i] = load_made(names[i]);
    assert_int_equal(yk_compare_make(k->run, n, &k->c), YK_OK);
    assert_int_equal(yk_warnings_make(&k->c, &k->w), YK_OK);
    return k;
}

static void done(compared *k)
{
    yk_warnings_fini(&k->w);
    yk_compare_fini(&k->c);
    for (size_t i = 0; i < k->n; i++)
        yk_run_fini(&k->run[i]);
    free(k);
}

static const yk_table *table(const compared *k, const char *id)
{
    for (size_t i = 0; i < k->c.tables; i++)
        if (!strcmp(k->c.table[i].id, id))
            return &k->c.table[i];
    return NULL;
}

static const yk_cell *cell(const yk_table *t, size_t row, const char *title)
{
    size_t c = yk_table_find(t, title);
    if (c == t->columns)
        fail_msg("the table %s has no column %s", t->id, title);
    return &t->cell[row * t->columns + c];
}

static const yk_warning_group *warning(const compared *k, yk_warning_kind kind)
{
    return k->w.group[kind].items ? &k->w.group[kind] : NULL;
}

static void batch_sizes_make_a_table(void **state)
{
    (void)state;
    static const char *const names[] = {"b-100", "b-5", "b-20", "b-50"};
    static const int batches[] = {100, 5, 20, 50};
    for (int i = 0; i < 4; i++) {
        made m = made_run(names[i]);
        m.batch = batches[i];
        if (i == 3) /* is left out */
            m.more_summary = ",\"state\":\"failed\"", m.top = 0.1;
        m.seconds = 10.0 + i;
        make_run(&m);
    }
    compared *k = compare(names, 4);
    assert_true(k->c.target > 0.9);
    const yk_table *t = table(k, "batch");
    assert_non_null(t);
    assert_int_equal(t->rows, 3);
    static const double sorted[] = {5, 20, 100};
    for (size_t i = 0; i < 3; i++)
        assert_true(cell(t, i, "batch")->number == sorted[i]);
    assert_true(cell(t, 0, "time")->number == 11.0);
    assert_true(cell(t, 2, "time")->mark && !cell(t, 0, "time")->mark);
    assert_float_equal(cell(t, 0, "CPU")->number, 0.9075, 1e-6);
    assert_true(cell(t, 0, "memory")->number == 3e6);
    assert_int_equal(yk_table_find(t, "network"), t->columns); /* threads send nothing */
    assert_true(cell(t, 0, "accuracy")->number > 0.9);
    assert_int_equal(yk_table_find(t, "repeats"), t->columns);
    assert_int_equal(yk_table_find(t, "AUC"), t->columns);
    assert_null(table(k, "workers"));
    assert_null(table(k, "modes"));
    /* and made 5 to 20 times fewer updates with the same examples */
    const yk_warning_group *g = warning(k, YK_WARNING_FEWER_UPDATES);
    assert_non_null(g);
    assert_int_equal(g->items, 1);
    assert_int_equal(g->item[0].run, 0);
    assert_non_null(strstr(g->item[0].text, "1,000 updates"));
    assert_non_null(strstr(g->item[0].text, "b-5 made 20,000"));
    yk_text csv = {0};
    yk_table_csv(t, &csv);
    assert_int_equal(strncmp(csv.s, "batch,global batch,time,", 24), 0);
    assert_non_null(strstr(csv.s, "\r\n5,5,11,"));
    yk_text_fini(&csv);
    assert_int_equal(yk_table_find(t, "epochs done"), t->columns); /* all the same */
    done(k);

    made longer = made_run("b-20");
    longer.batch = 20;
    longer.epochs = 20;
    make_run(&longer);
    k = compare(names, 3);
    t = table(k, "batch");
    assert_true(cell(t, 0, "epochs done")->number == 10.0 && cell(t, 1, "epochs done")->number == 20.0);
    done(k);
}

static void workers_make_a_table_with_speed_up(void **state)
{
    (void)state;
    static const char *const names[] = {"w-1", "w-2", "w-4", "w-async-2", "w-async-4"};
    static const int workers[] = {1, 2, 4, 2, 4};
    static const double seconds[] = {12.0, 8.0, 4.0, 6.0, 3.0};
    for (int i = 0; i < 5; i++) {
        made m = made_run(names[i]);
        m.workers = workers[i];
        m.mode = i < 3 ? "sync" : "async";
        m.seconds = seconds[i];
        if (i >= 3)
            m.more_summary = ",\"observed_staleness\":{\"observed\":9,\"mean\":1.5,\"max\":4,"
                             "\"counts_0_1_2to3_4to7_and_so_on\":[5,3,1]}";
        make_run(&m);
    }
    compared *k = compare(names, 5);
    const yk_table *t = table(k, "workers");
    assert_non_null(t);
    assert_int_equal(t->rows, 5);
    assert_float_equal(cell(t, 1, "speedup")->number, 1.5, 1e-4);
    assert_float_equal(cell(t, 2, "speedup")->number, 3.0, 1e-4);
    assert_float_equal(cell(t, 2, "efficiency")->number, 0.75, 1e-4);
    /* one worker is the same in both modes: it is also the baseline for async */
    assert_string_equal(cell(t, 4, "mode")->text, "async");
    assert_float_equal(cell(t, 4, "speedup")->number, 4.0, 1e-4);
    assert_float_equal(cell(t, 4, "efficiency")->number, 1.0, 1e-4);

    t = table(k, "modes");
    assert_non_null(t);
    assert_int_equal(t->rows, 2);
    assert_float_equal(cell(t, 0, "relative speed")->number, 8.0 / 6.0, 1e-4);
    assert_float_equal(cell(t, 0, "accuracy gain")->number, 0.0, 1e-6);
    assert_true(cell(t, 1, "staleness")->number == 1.5);
    bool speed = false, modes = false;
    for (size_t i = 0; i < k->c.highlights; i++) {
        speed |= !strcmp(k->c.highlight[i].title, "Best speedup") &&
                 !strcmp(k->c.highlight[i].value, "4.00 \u00d7");
        modes |= !strcmp(k->c.highlight[i].title, "Async compared with sync") &&
                 !strcmp(k->c.highlight[i].value, "1.33 \u00d7");
    }
    assert_true(speed && modes);
    done(k);
}

/* Threads and processes: 2 workers may be either. */
static void threads_and_processes_are_compared_with_their_like(void **state)
{
    (void)state;
    static const char *const names[] = {"m-1-1",  "m-2-1",  "m-1-2",  "m-2-2",  "m-1-4",
                                        "ma-1-1", "ma-2-1", "ma-1-2", "ma-2-2", "ma-1-4"};
    static const int workers[] = {1, 2, 2, 4, 4}, ranks[] = {1, 1, 2, 2, 4};
    static const double seconds[] = {12.0, 6.0, 8.0, 4.0, 6.0};
    for (int i = 0; i < 10; i++) {
        made m = made_run(names[i]);
        m.workers = workers[i % 5];
        m.ranks = ranks[i % 5];
        m.mode = i < 5 ? "sync" : "async";
        m.seconds = seconds[i % 5] / (i <= 5 ? 1.0 : 2.0); /* with one worker, both modes are the same */
        make_run(&m);
    }
    compared *k = compare(names, 10);
    const yk_table *t = table(k, "modes");
    assert_int_equal(t->rows, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(cell(t, i, "processes")->number == ranks[i]);
        assert_float_equal(cell(t, i, "relative speed")->number, i ? 2.0 : 1.0, 1e-4);
    }
    assert_string_equal(k->c.highlight[k->c.highlights - 1].value, "2.00 \u00d7");
    assert_non_null(strstr(k->c.highlight[k->c.highlights - 1].text, "mean of 4 pairs"));
    t = table(k, "workers");
    assert_int_equal(t->rows, 10);
    assert_true(cell(t, 1, "processes")->number == 1.0 && cell(t, 2, "processes")->number == 2.0);

    yk_figures fs;
    const yk_figure *f = NULL;
    assert_int_equal(yk_figures_make(&k->c, &fs), YK_OK);
    for (size_t i = 0; i < fs.n; i++)
        f = strcmp(fs.figure[i].id, "speedup-by-workers") ? f : &fs.figure[i];
    assert_non_null(f);
    static const struct {
        const char *name;
        size_t n;
        double x, y; /* of the last point */
    } lines[] = {{"sync, threads of 1 process", 2, 2.0, 2.0},  {"sync, 1 worker per process", 3, 4.0, 2.0},
                 {"sync, 2 workers per process", 2, 4.0, 3.0}, {"async, threads of 1 process", 2, 2.0, 4.0},
                 {"async, 1 worker per process", 3, 4.0, 4.0}, {"async, 2 workers per process", 2, 4.0, 6.0}};
    assert_int_equal(f->n, 7); /* and the ideal */
    for (size_t i = 0; i < 6; i++) {
        const yk_series *s = &f->series[i];
        assert_string_equal(s->name, lines[i].name);
        assert_int_equal(s->color, i);
        assert_int_equal(s->n, lines[i].n);
        assert_true(s->point[s->n - 1].x[0] == lines[i].x);
        assert_float_equal(s->point[s->n - 1].y, lines[i].y, 1e-4);
    }
    yk_figures_fini(&fs);
    done(k);

    /* without one worker, the fewest of the same kind */
    k = compare(names + 1, 4);
    t = table(k, "workers");
    static const double relative[] = {1.0, 1.0, 1.5, 8.0 / 6.0};
    for (size_t i = 0; i < 4; i++)
        assert_float_equal(cell(t, i, "speedup")->number, relative[i], 1e-4);
    done(k);
}

/* If the learning rate does not follow from the number of workers, it is a dimension of its own. */
static void learning_rates_have_their_own_lines(void **state)
{
    (void)state;
    static const char *const names[] = {"l-1", "l-2", "l-3", "l-4"};
    yk_figures fs;
    for (int i = 0; i < 4; i++) {
        made m = made_run(names[i]);
        m.workers = 1 + i % 2;
        m.more_summary = i < 2 ? "" : ",\"lr\":0.5";
        make_run(&m);
    }
    compared *k = compare(names, 4);
    assert_int_equal(yk_figures_make(&k->c, &fs), YK_OK);
    for (size_t i = 0; i < fs.n; i++)
        if (!strcmp(fs.figure[i].id, "speedup-by-workers")) {
            assert_int_equal(fs.figure[i].n, 3);
            assert_string_equal(fs.figure[i].series[0].name, "lr 0.1");
            assert_string_equal(fs.figure[i].series[1].name, "lr 0.5");
            assert_int_equal(fs.figure[i].series[1].n, 2);
        }
    yk_figures_fini(&fs);
    done(k);
}

static void repeats_are_one_row_with_a_deviation(void **state)
{
    (void)state;
    static const char *const names[] = {"r-5-1", "r-5-2", "r-5-3", "r-20-1", "r-20-2"};
    for (int i = 0; i < 5; i++) {
        made m = made_run(names[i]);
        m.seed = 1 + i % 3;
        m.batch = i < 3 ? 5 : 20;
        m.seconds = 10.0 + i;
        make_run(&m);
    }
    compared *k = compare(names, 5);
    assert_int_equal(k->c.groups, 2);
    const yk_table *t = table(k, "batch");
    assert_int_equal(t->rows, 2);
    assert_true(cell(t, 0, "repeats")->number == 3.0 && cell(t, 1, "repeats")->number == 2.0);
    assert_float_equal(cell(t, 0, "time")->number, 11.0, 1e-9);
    assert_float_equal(cell(t, 0, "time")->spread, 1.0, 1e-9);
    assert_true(isnan(cell(t, 1, "time")->spread)); /* two are too few */
    done(k);
}

static void a_mean_of_histograms_has_all_buckets(void **state)
{
    (void)state;
    static const char *const names[] = {"s-1", "s-2"}, *const counts[] = {"[4]", "[2,0,2]"};
    for (int i = 0; i < 2; i++) {
        char more[128];
        made m = made_run(names[i]);
        m.seed = 1 + i;
        m.mode = "async";
        snprintf(more, sizeof more, ",\"observed_staleness\":{\"counts_0_1_2to3_4to7_and_so_on\":%s}",
                 counts[i]);
        m.more_summary = more;
        make_run(&m);
    }
    compared *k = compare(names, 2);
    yk_figures fs;
    size_t found = 0;
    assert_int_equal(yk_figures_make(&k->c, &fs), YK_OK);
    for (size_t i = 0; i < fs.n; i++)
        if (!strcmp(fs.figure[i].id, "staleness-of-updates")) {
            const yk_series *s = fs.figure[i].series;
            found++;
            assert_int_equal(s->n, 3);
            assert_true(s->point[0].y == 0.75 && s->point[1].y == 0.0 && s->point[2].y == 0.25);
        }
    assert_int_equal(found, 1);
    yk_figures_fini(&fs);
    done(k);
}

static void values_by_group_are_different_configurations(void **state)
{
    (void)state;
    static const char *const names[] = {"g-1", "g-2", "g-3", "g-4", "g-5", "g-6"};
    static const struct {
        const char *mode, *options;
    } run[] = {{"sync", "staleness = linear=0,v=100,network=100\n"},
               {"sync", "staleness = linear=0,v=100,network=1000\n"},
               {"async", "staleness = linear=0,v=100,network=100\n"},
               {"async", "servers = 2\n"},
               {"async", "servers = keyed=2,dense=0\n"},
               {"async", "servers = linear=0,v=2\n"}};
    for (int i = 0; i < 6; i++) {
        made m = made_run(names[i]);
        m.mode = run[i].mode;
        m.more_options = run[i].options;
        make_run(&m);
    }
    compared *k = compare(names, 6);
    assert_int_equal(k->c.groups, 6);
    assert_true(yk__options_same(&k->c, 3, 4, yk__options_in(&k->c, "mode")));
    for (size_t g = 1; g < 6; g++)
        assert_string_not_equal(k->c.group[g].label, k->c.group[g - 1].label);
    done(k);
}

/* Two hosts; the process of the second one ran for half of the time. */
static const char of_two_hosts[] =
    ",\"processes\":[{\"rank\":0,\"role\":\"chief\",\"host\":\"a.b\",\"seconds\":10,\"cpu_mean\":1.0,"
    "\"cpu_peak\":2.0,\"rss_mean\":1e6,\"rss_peak\":2e6,\"sent_rate\":100,\"sent_rate_peak\":300},"
    "{\"rank\":1,\"role\":\"worker\",\"host\":\"a.b\",\"seconds\":10,\"cpu_mean\":0.5,\"cpu_peak\":1.0},"
    "{\"rank\":2,\"role\":\"worker\",\"host\":\"c_d\",\"seconds\":5,\"cpu_mean\":%d,\"cpu_peak\":1.0}],"
    "\"hosts\":[{\"host\":\"a.b\",\"cpu\":\"Z80 & more\",\"cores\":8.0,\"usable_cores\":4.0,\"memory_bytes\":"
    "65536.0,\"os\":\"CP/M\",\"kernel\":\"2.2\",\"compiler\":\"gcc 12\",\"yoke\":\"1\",\"transport\":\"M\","
    "\"sent_to\":{\"c_d\":%d000}},{\"host\":\"c_d\",\"cpu\":\"6502\",\"cores\":1.0,\"sent_to\":{\"a.b\":500}}"
    "]";

static void hosts_have_tables(void **state)
{
    (void)state;
    static const char *const names[] = {"h-5-1", "h-5-2", "h-5-3", "h-20-1", "h-20-2"};
    for (int i = 0; i < 5; i++) {
        char more[2048];
        made m = made_run(names[i]);
        m.seed = 1 + i % 3;
        m.batch = i < 3 ? 5 : 20;
        m.ranks = 3;
        m.no_resources = true;
        snprintf(more, sizeof more, of_two_hosts, i, i + 1);
        m.more_summary = more;
        make_run(&m);
    }
    compared *k = compare(names, 5);
    const yk_table *t = table(k, "resources");
    assert_int_equal(t->rows, 4);
    assert_true(cell(t, 0, "batch")->number == 5.0 && cell(t, 3, "batch")->number == 20.0);
    assert_string_equal(cell(t, 0, "host")->text, "a.b");
    assert_string_equal(cell(t, 1, "host")->text, "c_d");
    assert_true(cell(t, 0, "repeats")->number == 3.0 && cell(t, 2, "repeats")->number == 2.0);
    assert_float_equal(cell(t, 0, "CPU")->number, 1.5, 1e-9);
    assert_float_equal(cell(t, 0, "CPU peak")->number, 3.0, 1e-9);
    assert_float_equal(cell(t, 0, "sent peak")->number, 300.0, 1e-9);
    assert_float_equal(cell(t, 1, "CPU")->number, 0.5 * 1.0, 1e-9); /* the mean of 0, 1 and 2 */
    assert_float_equal(cell(t, 1, "CPU")->spread, 0.5, 1e-9);
    assert_true(isnan(cell(t, 3, "CPU")->spread)); /* of two runs */
    t = table(k, "traffic-between-hosts");
    assert_int_equal(t->rows, 4);
    assert_string_equal(cell(t, 0, "from")->text, "a.b");
    assert_float_equal(cell(t, 0, "to c_d")->number, 2000.0, 1e-9);
    assert_float_equal(cell(t, 1, "to a.b")->number, 500.0, 1e-9);
    t = table(k, "machines");
    assert_int_equal(t->rows, 2); /* all runs used the same */
    assert_string_equal(cell(t, 0, "CPU")->text, "Z80 & more");
    assert_string_equal(cell(t, 0, "transport")->text, "M");
    assert_true(cell(t, 0, "memory")->number == 65536.0);
    yk_text latex = {0}, markdown = {0};
    yk_table_latex(t, &latex);
    yk_table_latex(table(k, "resources"), &latex);
    yk_table_markdown(t, &markdown);
    assert_non_null(strstr(latex.s, "Z80 \\& more"));
    assert_non_null(strstr(latex.s, "c\\_d"));
    assert_non_null(strstr(latex.s, "0.50 $\\pm$ 0.50"));
    assert_non_null(strstr(markdown.s, "| c\\_d | 6502 |"));
    assert_non_null(strstr(markdown.s, "\n| --- | --- | ---: |"));
    yk_text_fini(&latex);
    yk_text_fini(&markdown);
    done(k);
    static const char *const one[] = {"one-host"};
    made m = made_run(one[0]);
    m.no_resources = true;
    make_run(&m);
    k = compare(one, 1);
    assert_null(table(k, "resources")); /* neither the summary nor a log has processes */
    assert_null(table(k, "traffic-between-hosts"));
    assert_null(table(k, "machines"));
    done(k);
}

static void texts_cannot_break_latex_or_markdown(void **state)
{
    (void)state;
    yk_table t = {.id = "t", .title = "T"};
    yk_table_column(&t, &(yk_column){"alpha b_c \u03bcs", .words = true});
    yk_table_row(&t, -1);
    yk_table_text(&t, "[2cm]*\\input{x}$a_b^c~d#e%f&g|<>\"---\n\u00e9\xff");
    yk_text latex = {0}, markdown = {0};
    yk_table_latex(&t, &latex);
    yk_table_markdown(&t, &markdown);
    assert_non_null(strstr(latex.s, "alpha\\\\b\\_c $\\mu$s"));
    assert_non_null(strstr(latex.s,
                           "{[}2cm{]}{*}\\textbackslash{}input\\{x\\}\\$a\\_b\\^{}c\\~{}d\\#e\\%f\\&g$|$"
                           "$<$$>$''-{}-{}- \u00e9? \\\\\n"));
    assert_non_null(strstr(markdown.s, "| \\[2cm\\]\\*\\\\input{x}\\$a\\_b^c\\~d\\#e%f&amp;g\\|&lt;>"));
    yk_text_fini(&latex);
    yk_text_fini(&markdown);
    yk_table_fini(&t);
}

static void a_healthy_pair_has_no_warning(void **state)
{
    (void)state;
    static const char *const names[] = {"fine-1", "fine-2"};
    for (int i = 0; i < 2; i++) {
        made m = made_run(names[i]);
        m.seed = i;
        make_run(&m);
    }
    compared *k = compare(names, 2);
    for (size_t i = 0; i < YK_WARNING_KINDS; i++)
        if (k->w.group[i].items)
            fail_msg("warned: %s: %s", yk_warning_texts[i].title, k->w.group[i].item[0].text);
    done(k);
}

/* A run with one problem must cause this warning. */
static void expect_warning(const made *m, yk_warning_kind kind, const char *words)
{
    make_run(m);
    compared *k = compare(&m->name, 1);
    const yk_warning_group *g = warning(k, kind);
    if (!g)
        fail_msg("%s: no such warning", m->name);
    if (!strstr(g->item[0].text, words))
        fail_msg("'%s' does not contain '%s'", g->item[0].text, words);
    assert_int_equal(g->item[0].run, 0);
    done(k);
}

static void each_problem_causes_a_warning(void **state)
{
    (void)state;
    made m = made_run("silent");
    m.ranks = m.workers = 3;
    m.more_summary = ",\"processes\":[{\"rank\":0,\"bytes_sent\":5,\"bytes_received\":5,\"steps\":4},"
                     "{\"rank\":1,\"bytes_sent\":0,\"bytes_received\":0,\"steps\":4},"
                     "{\"rank\":2,\"bytes_sent\":5,\"bytes_received\":5,\"steps\":0}]";
    expect_warning(&m, YK_WARNING_NO_TRAFFIC, "rank 1 sent and received 0 bytes");

    m = made_run("short");
    m.seconds = 0.4;
    expect_warning(&m, YK_WARNING_TOO_SHORT, "took 0.40 s");

    m = made_run("killed");
    m.no_summary = true;
    expect_warning(&m, YK_WARNING_INCOMPLETE, "no summary.json");

    m = made_run("failed");
    m.more_summary = ",\"state\":\"failed\",\"error\":\"rank 2 has died\",\"exit_code\":1";
    expect_warning(&m, YK_WARNING_FAILED, ": rank 2 has died");

    m = made_run("unknown");
    m.more_summary = ",\"warnings\":[7,{\"kind\":\"odd\",\"text\":\"something odd happened\"}]";
    expect_warning(&m, YK_WARNING_OTHER, "something odd");

    m = made_run("old"); /* yoke 0.1.0 */
    m.more_summary = ",\"guards\":[7,\"other programs used something odd\"]";
    expect_warning(&m, YK_WARNING_OTHER, "something odd");
}

static void processes_of_one_run_on_a_host_do_not_compete(void **state)
{
    (void)state;
    made m = made_run("shared");
    m.ranks = m.workers = 3; /* 0.9 cores each; the host uses 2.7 */
    make_run(&m);
    compared *k = compare(&m.name, 1);
    assert_null(warning(k, YK_WARNING_NO_TRAFFIC));
    done(k);
}

static void a_busy_host_is_reported_once(void **state)
{
    (void)state;
    static const char *const names[] = {"busy-1", "busy-2", "busy-3"};
    for (int i = 0; i < 3; i++) {
        made m = made_run(names[i]);
        m.seed = i;
        m.more_summary = i ? ",\"warnings\":[{\"kind\":\"busy_host\",\"text\":\"it was busy\"}]" : "";
        make_run(&m);
    }
    compared *k = compare(names, 3);
    const yk_warning_group *g = warning(k, YK_WARNING_BUSY_HOST);
    assert_non_null(g);
    assert_int_equal(g->items, 1);
    assert_int_equal(g->item[0].run, 1);
    assert_string_equal(g->item[0].text, "it was busy; also in 1 other run");
    done(k);
}

static void a_nan_loss_means_diverged(void **state)
{
    (void)state;
    made m = made_run("diverged");
    make_run(&m);
    FILE *f = made_file("diverged", "metrics.jsonl");
    for (int i = 1; i <= 20; i++)
        fprintf(f, "{\"kind\":\"train\",\"step\":%d,\"epoch\":%d,\"seconds\":%d,\"loss\":%s}\n", i, i, i,
                i < 10 ? "1" : "null");
    fclose(f);
    compared *k = compare(&m.name, 1);
    assert_non_null(warning(k, YK_WARNING_DIVERGED));
    assert_null(warning(k, YK_WARNING_LOSS_ROSE));
    done(k);
}

static void warnings_of_a_run_are_not_repeated(void **state)
{
    (void)state;
    made m = made_run("twice");
    m.majority = 0.75;
    m.top = 0.751;
    m.more_summary = ",\"warnings\":[{\"kind\":\"majority_accuracy\",\"text\":\"x\"},"
                     "{\"kind\":\"busy_host\",\"text\":\"1.5 of 2 cores\"}]";
    make_run(&m);
    compared *k = compare(&m.name, 1);
    const yk_warning_group *g = warning(k, YK_WARNING_MAJORITY);
    assert_non_null(g);
    assert_int_equal(g->items, 1);
    assert_string_equal(g->item[0].text, "x"); /* the run knows more than its logs tell */
    g = warning(k, YK_WARNING_BUSY_HOST);
    assert_non_null(g);
    assert_string_equal(g->item[0].text, "1.5 of 2 cores");
    assert_null(warning(k, YK_WARNING_OTHER));
    done(k);
    m.more_summary = ",\"warnings\":[]";
    make_run(&m);
    k = compare(&m.name, 1);
    assert_null(warning(k, YK_WARNING_MAJORITY)); /* it found nothing wrong */
    done(k);
}

static void runs_on_different_data_are_not_compared(void **state)
{
    (void)state;
    static const char *const names[] = {"digits", "clicks"};
    for (int i = 0; i < 2; i++) {
        made m = made_run(names[i]);
        m.data = i ? "synth:ctr" : "synth:digits";
        m.batch = i ? 5 : 500;
        make_run(&m);
    }
    compared *k = compare(names, 2);
    assert_non_null(warning(k, YK_WARNING_DIFFERENT_DATA));
    assert_null(warning(k, YK_WARNING_FEWER_UPDATES));
    assert_null(table(k, "batch"));
    assert_true(isnan(k->c.target));
    for (size_t i = 0; i < k->c.highlights; i++)
        assert_null(strstr(k->c.highlight[i].title, "accuracy"));
    done(k);
}

/* The column and the highlight are those of --monitor. Runs with different metrics are not compared by them. */
static void runs_are_compared_by_their_validation_sets(void **state)
{
    (void)state;
    static const char *const names[] = {"v-1", "v-2", "v-3"}, *const values[] = {
                                                                  "\"auc\",\"best_value\":0.75",
                                                                  "\"auc\",\"best_value\":0.5",
                                                                  "\"loss\",\"best_value\":0.25"};
    for (int i = 0; i < 3; i++) {
        made m = made_run(names[i]);
        char more[64];
        snprintf(more, sizeof more, ",\"monitor\":%s", values[i]);
        m.more_summary = more;
        m.batch = 5 + i;
        make_run(&m);
    }
    compared *k = compare(names, 2);
    assert_string_equal(k->c.highlight[0].title, "Best validation AUC");
    assert_string_equal(k->c.highlight[0].value, "0.7500");
    assert_true(cell(table(k, "runs"), 0, "validation AUC")->mark);
    assert_true(cell(table(k, "batch"), 1, "validation AUC")->number == 0.5);
    done(k);
    k = compare(names, 3);
    assert_true(cell(table(k, "runs"), 2, "monitored value")->number == 0.25);
    assert_false(cell(table(k, "runs"), 0, "monitored value")->mark);
    for (size_t i = 0; i < k->c.highlights; i++)
        assert_null(strstr(k->c.highlight[i].title, "validation"));
    done(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_sizes_make_a_table),
        cmocka_unit_test(workers_make_a_table_with_speed_up),
        cmocka_unit_test(threads_and_processes_are_compared_with_their_like),
        cmocka_unit_test(learning_rates_have_their_own_lines),
        cmocka_unit_test(repeats_are_one_row_with_a_deviation),
        cmocka_unit_test(a_mean_of_histograms_has_all_buckets),
        cmocka_unit_test(values_by_group_are_different_configurations),
        cmocka_unit_test(hosts_have_tables),
        cmocka_unit_test(texts_cannot_break_latex_or_markdown),
        cmocka_unit_test(a_healthy_pair_has_no_warning),
        cmocka_unit_test(each_problem_causes_a_warning),
        cmocka_unit_test(processes_of_one_run_on_a_host_do_not_compete),
        cmocka_unit_test(a_busy_host_is_reported_once),
        cmocka_unit_test(a_nan_loss_means_diverged),
        cmocka_unit_test(warnings_of_a_run_are_not_repeated),
        cmocka_unit_test(runs_on_different_data_are_not_compared),
        cmocka_unit_test(runs_are_compared_by_their_validation_sets),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
