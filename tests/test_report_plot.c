/* Thinning, axes, units and plots of the report. */
#include "scratch.h"

#include "report/plot.h"
#include <math.h>

static size_t thin(yk_point *point, size_t n, size_t max)
{
    return yk_thin(point, n, sizeof *point, offsetof(yk_point, x), offsetof(yk_point, y), max);
}

static void thinning_keeps_the_ends_and_every_spike(void **state)
{
    (void)state;
    enum { N = 10000, POINTS = 200 };
    static yk_point all[N], point[N];
    for (size_t i = 0; i < N; i++)
        all[i] = (yk_point){{(double)i}, sin((double)i / 700.0)};
    all[1234].y = 50.0;
    all[7777].y = -50.0;
    memcpy(point, all, sizeof point);
    size_t n = thin(point, N, POINTS);
    assert_true(n <= POINTS && n > POINTS / 2);
    assert_true(point[0].x[0] == 0.0 && point[n - 1].x[0] == N - 1);
    bool up = false, down = false;
    for (size_t i = 0; i < n; i++) {
        up |= point[i].x[0] == 1234.0 && point[i].y == 50.0;
        down |= point[i].x[0] == 7777.0 && point[i].y == -50.0;
        assert_true(i == 0 || point[i].x[0] > point[i - 1].x[0]);
    }
    assert_true(up && down);
    /* in every column of x the drawn range is the exact one */
    size_t at = 0;
    for (size_t column = 0; column < 99; column++) {
        double from = (double)(N - 1) / 99.0 * (double)column,
               to = (double)(N - 1) / 99.0 * (double)(column + 1);
        double low = INFINITY, high = -INFINITY, drawn_low = INFINITY, drawn_high = -INFINITY;
        for (size_t i = (size_t)ceil(from); i < N && (double)i < to; i++) {
            low = fmin(low, all[i].y);
            high = fmax(high, all[i].y);
        }
        for (; at < n && point[at].x[0] < to; at++) {
            drawn_low = fmin(drawn_low, point[at].y);
            drawn_high = fmax(drawn_high, point[at].y);
        }
        assert_true(drawn_low == low && drawn_high == high);
    }
}

static void thinning_few_or_unusual_points_is_safe(void **state)
{
    (void)state;
    yk_point point[8];
    for (size_t i = 0; i < 8; i++)
        point[i] = (yk_point){{1.0}, (double)i};
    assert_int_equal(thin(point, 0, 4), 0);
    assert_int_equal(thin(point, 1, 4), 1);
    assert_int_equal(thin(point, 3, 4), 3);
    size_t n = thin(point, 8, 4); /* all at the same x */
    assert_true(n >= 2 && n <= 4 && point[0].y == 0.0 && point[n - 1].y == 7.0);
    for (size_t i = 0; i < 8; i++)
        point[i] = (yk_point){{1.0}, (double)i};
    n = thin(point, 8, 0);
    assert_true(n >= 2 && point[n - 1].y == 7.0);
}

static void check_unit(yk_unit unit, double x, const char *want)
{
    char s[YK_UNIT_SIZE];
    yk_unit_text(unit, x, s);
    assert_string_equal(s, want);
}

static void units_are_formatted(void **state)
{
    (void)state;
    check_unit(YK_UNIT_PERCENT_EXACT, 0.91738, "91.74 %");
    check_unit(YK_UNIT_PLAIN, 0.30454, "0.3045");
    check_unit(YK_UNIT_PLAIN, 1.5e-7, "1.5e-07");
    check_unit(YK_UNIT_COUNT, 12345, "12.3 k");
    check_unit(YK_UNIT_COUNT, 999.7, "1.00 k");
    check_unit(YK_UNIT_COUNT, 7, "7");
    check_unit(YK_UNIT_INTEGER, 1234567, "1,234,567");
    check_unit(YK_UNIT_INTEGER, -1000, "-1,000");
    check_unit(YK_UNIT_BYTES, 123456789, "123 MB");
    check_unit(YK_UNIT_RATE, 0, "0 B/s");
    check_unit(YK_UNIT_SECONDS, 0.0123, "12 ms");
    check_unit(YK_UNIT_SECONDS, 0.56, "0.56 s");
    check_unit(YK_UNIT_SECONDS, 185, "3:05 min");
    check_unit(YK_UNIT_SECONDS, 7800, "2:10 h");
    check_unit(YK_UNIT_POINTS, -0.0025, "-0.25");
    check_unit(YK_UNIT_PERCENT_EXACT, NAN, "\u2013");
    check_unit(YK_UNIT_BYTES, INFINITY, "\u2013");
}

static void check_axis(const yk_axis *a, double low, double high)
{
    assert_true(a->low <= low && a->high >= high && a->low < a->high);
    assert_true(a->ticks >= 2 && a->ticks <= YK_AXIS_TICKS);
    char before[YK_UNIT_SIZE] = "", s[YK_UNIT_SIZE];
    for (int i = 0; i < a->ticks; i++) {
        double at = yk_axis_at(a, a->tick[i]);
        assert_true(at > -1e-9 && at < 1.0 + 1e-9);
        yk_axis_text(a, a->tick[i], s);
        assert_string_not_equal(s, before); /* ticks have different labels */
        strcpy(before, s);
        assert_true(strlen(s) <= 8);
    }
}

static void deviations_have_the_unit_of_the_mean(void **state)
{
    (void)state;
    static const struct {
        yk_unit unit;
        double mean, spread;
        const char *m, *s;
    } cases[] = {{YK_UNIT_COUNT, 7110, 8460, "7.1 k", "8.5 k"},
                 {YK_UNIT_PERCENT_EXACT, 0.91744, 0.00123, "91.74 %", "0.12"},
                 {YK_UNIT_PERCENT_EXACT, 0.91744, 0.0323, "91.7 %", "3.2"},
                 {YK_UNIT_SECONDS, 2.134, 0.021, "2.13 s", "0.02"},
                 {YK_UNIT_BYTES, 123456789, 4000000, "123 MB", "4 MB"},
                 {YK_UNIT_BYTES, 34200000, 1000, "34.2 MB", ""},
                 {YK_UNIT_INTEGER, 24000, 0, "24,000", ""},
                 {YK_UNIT_PLAIN, 0.29212, 0.0223, "0.292", "0.022"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char mean[YK_UNIT_SIZE], spread[YK_UNIT_SIZE];
        yk_unit_pair(cases[i].unit, cases[i].mean, cases[i].spread, mean, spread);
        assert_string_equal(mean, cases[i].m);
        assert_string_equal(spread, cases[i].s);
    }
}

static void axes_have_round_ticks_whatever_the_range(void **state)
{
    (void)state;
    static const yk_unit units[] = {YK_UNIT_PLAIN,   YK_UNIT_COUNT, YK_UNIT_PERCENT_EXACT,
                                    YK_UNIT_SECONDS, YK_UNIT_BYTES, YK_UNIT_RATE};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (double high = 1e-3; high < 1e13; high *= 3.7)
            for (double part = 0.0; part < 1.0; part += 0.31) {
                yk_axis a = yk_axis_make(units[u], high * part, high, 5, false);
                check_axis(&a, high * part, high);
            }
    yk_axis a = yk_axis_make(YK_UNIT_SECONDS, 0, 4000, 6, true);
    assert_string_equal(a.word, "minutes");
    assert_true(a.tick[1] == 1200.0 || a.tick[1] == 600.0);
    a = yk_axis_make(YK_UNIT_PLAIN, 0.5, 0.5, 5, false); /* one value */
    check_axis(&a, 0.5, 0.5);
    a = yk_axis_make(YK_UNIT_PLAIN, INFINITY, -INFINITY, 5, false); /* none */
    check_axis(&a, 0, 1);
    a = yk_axis_log(YK_UNIT_PLAIN, 0.003, 2000);
    check_axis(&a, 0.003, 2000);
    assert_float_equal(yk_axis_at(&a, sqrt(a.low * a.high)), 0.5, 1e-9);
    a = yk_axis_log(YK_UNIT_INTEGER, 1, 64);
    assert_int_equal(a.ticks, 7);
    a = yk_axis_log(YK_UNIT_PLAIN, 0, 10); /* 0 has no logarithm */
    assert_true(!a.log);
    check_axis(&a, 0, 10);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

/* A figure with two lines; the name of one contains markup. */
static yk_figures two_lines(void)
{
    yk_figures fs = {0};
    yk_figure *f = yk__figure_add(&fs, "Loss & <more>", NULL, NULL);
    assert_non_null(f);
    f->steps_or_time = true;
    for (int k = 0; k < 2; k++) {
        yk_series *s = yk__series_add(f, k ? "</svg><script>" : "a", k);
        assert_non_null(s);
        s->dots = k == 0;
        for (int i = 0; i < 100; i++)
            yk__series_put(
                s, &(yk_point){{i, i / 10.0, i * 20.0, i / 5.0}, i == 50 ? NAN : 1.0 + k + i / 100.0, NAN});
        assert_int_equal(s->n, 99);
    }
    return fs;
}

static void a_plot_has_every_point_and_no_foreign_markup(void **state)
{
    (void)state;
    yk_figures fs = two_lines();
    for (yk_x x = YK_X_STEP; x < YK_X_COUNT; x++) {
        yk_text t = {0};
        yk_figure_draw(&fs.figure[0], x, YK_DRAW_FILE, &t);
        assert_int_equal(t.status, YK_OK);
        assert_int_equal(count(t.s, "<svg"), 1);
        assert_int_equal(count(t.s, "</svg>"), 1);
        assert_null(strstr(t.s, "<script"));
        assert_non_null(strstr(t.s, "Loss &amp; &lt;more&gt;"));
        assert_null(strstr(t.s, "nan"));
        assert_int_equal(count(t.s, "class=\"line"), 2);
        const char *path = strstr(t.s, "class=\"line c1");
        assert_non_null(path);
        path = strstr(path, "d=\"");
        size_t lines = 0;
        for (path += 3; *path != '"'; path++)
            lines += *path == 'L' || *path == 'M';
        assert_int_equal(lines, 99);
        yk_text_fini(&t);
    }
    yk_text csv = {0};
    yk_figure_csv(&fs.figure[0], &csv);
    assert_int_equal(
        strncmp(csv.s, "series,step,epoch,examples,seconds,Loss & <more>\r\na,0,0,0,0,1\r\n", 59), 0);
    assert_int_equal(count(csv.s, "\r\n"), 1 + 2 * 99);
    yk_text_fini(&csv);
    yk_figures_fini(&fs);
}

static void a_line_on_another_is_dashed(void **state)
{
    (void)state;
    yk_figures fs = two_lines();
    yk_figure *f = &fs.figure[0];
    yk_text t = {0};
    yk_figure_draw(f, YK_X_STEP, YK_DRAW_PAGE, &t);
    assert_int_equal(count(t.s, " over\""), 0);
    yk_text_fini(&t);
    for (size_t i = 0; i < f->series[1].n; i++) /* equal up to rounding */
        f->series[1].point[i].y = f->series[0].point[i].y * (1.0 + 1e-6);
    yk_figure_draw(f, YK_X_STEP, YK_DRAW_PAGE, &t);
    assert_int_equal(count(t.s, " over\""), 1);
    yk_text_fini(&t);
    yk_figures_fini(&fs);
}

static void a_path_ends_where_the_last_point_is(void **state)
{
    (void)state;
    yk_figures fs = {0};
    yk_figure *f = yk__figure_add(&fs, "t", NULL, NULL);
    f->x_unit = YK_UNIT_SECONDS;
    yk_series *s = yk__series_add(f, "a", 0);
    for (int i = 0; i <= 1000; i++)
        yk__series_point(s, i, (i * 7919) % 101);
    yk_text t = {0};
    yk_figure_draw(f, YK_X_STEP, YK_DRAW_PAGE, &t);
    const char *path = strstr(strstr(t.s, "class=\"line"), "d=\"M") + 4;
    double x = 0.0, y = 0.0;
    for (int i = 0; i <= 1000; i++) {
        char *end;
        x = strtod(path, &end);
        y = strtod(end, &end);
        path = end + 1;
    }
    double left, top, width, height;
    assert_int_equal(sscanf(strstr(t.s, "data-box=\"") + 10, "%lf %lf %lf %lf", &left, &top, &width, &height),
                     4);
    assert_float_equal(x, left + width, 0.11);
    yk_axis axis = yk_figure_y_axis(f);
    assert_float_equal(y, top + height * (1.0 - yk_axis_at(&axis, s->point[1000].y)), 0.11);
    assert_null(strstr(t.s, "class=\"dot"));
    yk_text_fini(&t);
    s->n = 1; /* a line through one point would not be visible */
    yk_figure_draw(f, YK_X_STEP, YK_DRAW_PAGE, &t);
    assert_non_null(strstr(t.s, "class=\"dot c0\""));
    yk_text_fini(&t);
    yk_figures_fini(&fs);
}

static void figures_are_thinned_to_a_budget(void **state)
{
    (void)state;
    yk_figures fs = {0};
    yk_figure *f = yk__figure_add(&fs, "t", NULL, NULL);
    f->steps_or_time = true;
    for (int k = 0; k < 50; k++) {
        yk_series *s = yk__series_add(f, "a", k);
        for (int i = 0; i < 3000; i++)
            yk__series_put(s, &(yk_point){{i, i, i, i}, i % 13, NAN});
    }
    yk_figures_thin(&fs, 500000);
    size_t points = 0;
    for (size_t k = 0; k < f->n; k++) {
        points += f->series[k].n;
        assert_true(f->series[k].point[f->series[k].n - 1].x[YK_X_EPOCH] == 2999.0);
    }
    yk_text t = {0};
    for (yk_x x = YK_X_STEP; x < YK_X_COUNT; x++)
        yk_figure_draw(f, x, YK_DRAW_PAGE, &t);
    for (size_t k = 0; k < fs.n; k++)
        yk_figure_csv(&fs.figure[k], &t);
    assert_true(points > 50 * 80 && t.n < 500000);
    yk_text_fini(&t);
    yk_figures_fini(&fs);
}

static void text_is_escaped(void **state)
{
    (void)state;
    yk_text t = {0};
    yk_html(&t, "%s", "<a href='x'>\"&\xff\xc3\xa9\x01");
    assert_string_equal(t.s, "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd");
    yk_text_fini(&t);
    static const struct {
        double x;
        const char *want;
    } numbers[] = {{0, "0"},
                   {-0.0, "0"},
                   {1.5, "1.5"},
                   {0.30000000000000004, "0.3"},
                   {123456, "123456"},
                   {1e-9, "1e-09"},
                   {0.00012345678, "0.00012346"},
                   {1e20, "1e+20"},
                   {NAN, ""},
                   {-2.25, "-2.25"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        yk_text_number(&t, numbers[i].x, 5);
        assert_string_equal(t.s ? t.s : "", numbers[i].want);
        yk_text_fini(&t);
    }
    for (int i = 0; i < 5000; i++) /* grows, also by pieces larger than itself */
        yk_text_print(&t, "%0*d", i, 7);
    assert_int_equal(t.n, 5000 * 4999 / 2 + 1);
    yk_text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thinning_keeps_the_ends_and_every_spike),
        cmocka_unit_test(thinning_few_or_unusual_points_is_safe),
        cmocka_unit_test(units_are_formatted),
        cmocka_unit_test(deviations_have_the_unit_of_the_mean),
        cmocka_unit_test(axes_have_round_ticks_whatever_the_range),
        cmocka_unit_test(a_plot_has_every_point_and_no_foreign_markup),
        cmocka_unit_test(a_line_on_another_is_dashed),
        cmocka_unit_test(a_path_ends_where_the_last_point_is),
        cmocka_unit_test(figures_are_thinned_to_a_budget),
        cmocka_unit_test(text_is_escaped),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
