/* The figures of all runs: curves, speeds, batch sizes and workers, staleness, phases. */
#include "report/figure.h"

#include "base/mem.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_figure(yk_figure *f)
{
    for (size_t k = 0; k < f->n; k++)
        free(f->series[k].point);
    free(f->series);
    free(f->band);
}

void yk_figures_fini(yk_figures *fs)
{
    for (size_t i = 0; i < fs->n; i++)
        free_figure(&fs->figure[i]);
    free(fs->figure);
    *fs = (yk_figures){0};
}

yk_figure *yk__figure_add(yk_figures *fs, const char *title, const char *format, ...)
{
    if (!fs->status)
        fs->status = YK_RESERVE(fs->figure, fs->cap, fs->n + 1, "the figures");
    yk_figure *f = fs->status ? &fs->spare : &fs->figure[fs->n++];
    *f = (yk_figure){.title = title, .run = -1, .at_least = NAN, .limit = NAN};
    va_list list;
    va_start(list, format);
    vsnprintf(f->id, sizeof f->id, format, list);
    va_end(list);
    return f;
}

yk_series *yk__series_add(yk_figure *f, const char *name, int run, unsigned axes)
{
    const bool failed = YK_RESERVE(f->series, f->cap, f->n + 1, "a figure");
    yk_series *s = failed ? &f->spare : &f->series[f->n++];
    *s = (yk_series){.axes = axes, .colour = run, .run = run, .failed = failed};
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

void yk__series_point(yk_series *s, double step, double epoch, double seconds, double y)
{
    const yk_point p = {{step, epoch, seconds}, y};
    for (int a = 0; a < YK_X_COUNT; a++)
        if (s->axes >> a & 1 && !isfinite(p.x[a]))
            return;
    if (!isfinite(y) || s->failed)
        return;
    if (s->n == s->cap)
        s->failed = YK_RESERVE(s->point, s->cap, s->n + 1, "a figure");
    if (!s->failed)
        s->point[s->n++] = p;
}

void yk__figure_end(yk_figures *fs)
{
    yk_figure *f = fs->status ? &fs->spare : &fs->figure[fs->n - 1];
    size_t kept = 0;
    bool failed = fs->status || f->spare.failed;
    for (size_t k = 0; k < f->n; k++) {
        failed |= f->series[k].failed;
        if (f->series[k].n)
            f->series[kept++] = f->series[k];
        else
            free(f->series[k].point);
    }
    f->n = kept;
    if (!kept || fs->status)
        free_figure(f);
    if (!kept && !fs->status)
        fs->n--;
    if (failed)
        fs->status = YK_ESYSTEM;
}

/* ---- curves ---- */

typedef struct {
    const char *id, *title;
    bool eval;
    size_t offset;
    yk_unit unit;
    bool from_zero;
} curve;

#define METRIC(field) offsetof(yk_metric, field)

static const curve curves[] = {
    {"accuracy", "Test accuracy", true, METRIC(test_accuracy), YK_UNIT_SHARE, false},
    {"auc", "Test AUC", true, METRIC(test_auc), YK_UNIT_PLAIN, false},
    {"test-loss", "Test loss", true, METRIC(test_loss), YK_UNIT_PLAIN, false},
    {"train-loss", "Training loss", false, METRIC(loss), YK_UNIT_PLAIN, false},
    {"examples-per-second", "Examples per second", false, METRIC(examples_per_second), YK_UNIT_COUNT, true},
    {"steps-per-second", "Steps per second", false, METRIC(steps_per_second), YK_UNIT_COUNT, true},
    {"learning-rate", "Learning rate", false, METRIC(learning_rate), YK_UNIT_PLAIN, true},
};

/* Old runs did not log rates: these are computed from the previous line. */
static double value_at(const yk_metrics *m, size_t i, size_t offset)
{
    static const yk_metric begin;
    const yk_metric *at = &m->row[i], *before = i ? at - 1 : &begin;
    double x = yk_double_at(at, offset), seconds = at->seconds - before->seconds;
    if (isfinite(x) || !(seconds > 0.0))
        return x;
    return offset == METRIC(steps_per_second)      ? (at->step - before->step) / seconds
           : offset == METRIC(examples_per_second) ? (at->examples - before->examples) / seconds
                                                   : x;
}

static void mark_plateau(const yk_plateau *f, size_t offset, yk_series *s)
{
    for (size_t i = 0; f->reached && f->offset == offset && i < s->n; i++)
        if (s->point[i].x[YK_X_STEP] == f->step) {
            s->marked = true;
            s->mark = s->point[i];
            snprintf(s->mark_text, sizeof s->mark_text, "no improvement after epoch %.4g", f->epoch);
        }
}

static void make_curve(const yk_compare *c, const curve *k, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, k->title, "%s", k->id);
    f->steps_or_time = true;
    f->y_unit = k->unit;
    f->from_zero = k->from_zero;
    bool changes = k->offset != METRIC(learning_rate), same = true;
    for (size_t i = 0; i < c->n; i++) {
        const yk_run *r = &c->run[i];
        /* a short run has evaluations, but hardly a line between them */
        bool eval = k->eval || (r->train.n < 4 && r->eval.n > r->train.n);
        size_t offset = eval && k->offset == METRIC(loss) ? METRIC(train_loss) : k->offset;
        const yk_metrics *m = eval ? &r->eval : &r->train;
        yk_series *s = yk__series_add(f, r->name, (int)i, YK__ALL_X);
        for (size_t p = 0; p < m->n; p++)
            yk__series_point(s, m->row[p].step, m->row[p].epoch, m->row[p].seconds, value_at(m, p, offset));
        s->dots = s->n == 1 || (eval && s->n <= 60 && c->n <= YK_FEW_RUNS);
        if (c->n <= YK_FEW_RUNS)
            mark_plateau(&c->facts[i].plateau, k->offset, s);
        for (size_t p = 1; p < s->n; p++)
            changes |= s->point[p].y != s->point[0].y;
        same &= c->facts[i].majority == c->facts[0].majority;
    }
    for (size_t i = 0; !changes && i < f->n; i++) /* a constant learning rate is among the options */
        f->series[i].n = 0;
    if (k->offset == METRIC(test_accuracy) && same) {
        f->limit = c->facts[0].majority;
        f->limit_text = "majority class";
    }
    yk__figure_end(fs);
}

/* ---- resources of all processes together, to compare runs ---- */

#define SAMPLE(field) offsetof(yk_run_sample, field)

static const struct resource {
    const char *id, *title;
    size_t offset[2]; /* their sum; SIZE_MAX: one field only */
    yk_unit unit;
} resources[] = {
    {"cpu", "CPU", {SAMPLE(cpu), SIZE_MAX}, YK_UNIT_CORES},
    {"memory", "Memory", {SAMPLE(rss), SIZE_MAX}, YK_UNIT_BYTES},
    {"sent", "Network, sent by the run", {SAMPLE(sent_rate), SIZE_MAX}, YK_UNIT_RATE},
    {"received", "Network, received by the run", {SAMPLE(received_rate), SIZE_MAX}, YK_UNIT_RATE},
    {"disk", "Disk, read and written", {SAMPLE(disk_read), SAMPLE(disk_written)}, YK_UNIT_RATE},
};

/* Processes take samples at different times: at each time of the first process, the latest sample of each counts. */
static void make_resource(const yk_compare *c, const struct resource *q, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, q->title, "%s", q->id);
    f->x_unit = YK_UNIT_SECONDS;
    f->y_unit = q->unit;
    f->from_zero = true;
    for (size_t i = 0; i < c->n; i++) {
        const yk_run *r = &c->run[i];
        size_t *at = calloc(r->logs + 1, sizeof *at);
        yk_series *s = yk__series_add(f, r->name, (int)i, YK__ONE_X);
        s->failed |= !at;
        for (size_t p = 0; at && r->logs && p < r->log[0].sample.n; p++) {
            double now = r->log[0].sample.row[p].seconds, sum = 0.0;
            for (size_t w = 0; w < r->logs; w++) {
                const yk_process_log *k = &r->log[w];
                while (at[w] + 1 < k->sample.n && k->sample.row[at[w] + 1].seconds <= now)
                    at[w]++;
                for (int o = 0; o < 2 && k->sample.n && q->offset[o] != SIZE_MAX; o++)
                    sum += yk_double_at(&k->sample.row[at[w]], q->offset[o]);
            }
            yk__series_point(s, now, now, now, sum);
        }
        free(at);
    }
    yk__figure_end(fs);
}

/* ---- columns of the tables as curves ---- */

/* The name of a line: the values of the columns before x, except for those that change with x. */
static void name_line(const yk_table *t, const yk_cell *row, size_t columns, const char *none, char *out,
                      size_t size)
{
    size_t n = 0;
    *out = 0;
    for (size_t k = 0; k < columns && n < size; k++) {
        char number[YK_UNIT_SIZE];
        const char *title = t->column[k].title, *text = row[k].text;
        if (!strcmp(title, "global batch") || !strcmp(title, "lr"))
            continue;
        yk_unit_text(t->column[k].unit, row[k].number, number);
        n += (size_t)snprintf(out + n, size - n, "%s%s%s%s", n ? ", " : "", text ? "" : title,
                              text ? "" : " ", text ? text : number);
    }
    if (!n)
        snprintf(out, size, "%s", none);
}

static void add_ideal(yk_figure *f)
{
    double least = INFINITY, most = 0.0;
    for (size_t i = 0; i < f->n; i++)
        for (size_t p = 0; p < f->series[i].n; p++) {
            least = fmin(least, f->series[i].point[p].x[0]);
            most = fmax(most, f->series[i].point[p].x[0]);
        }
    yk_series *s = yk__series_add(f, "ideal", -1, YK__ONE_X);
    s->dash = 1;
    for (double w = least; w <= most; w++)
        yk__series_point(s, w, NAN, NAN, w / least);
    f->x_log = most / least > 4.0;
}

static void make_by_table(const yk_compare *c, const char *id, const char *x, const char *y,
                          const char *title, yk_unit unit, yk_figures *fs)
{
    const yk_table *t = yk_compare_table(c, id);
    size_t xc = t ? yk_table_find(t, x) : 0, yc = t ? yk_table_find(t, y) : 0;
    if (!t || xc == t->columns || yc == t->columns)
        return;
    yk_figure *f = yk__figure_add(fs, title, "%s-by-%s", y, x);
    for (char *s = f->id; *s; s++)
        *s = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ? *s : '-';
    f->x_unit = YK_UNIT_WHOLE;
    f->x_title = x;
    f->y_unit = unit;
    f->x_log = true;
    f->from_zero = unit != YK_UNIT_SHARE;
    yk_series *s = NULL;
    for (size_t r = 0; r < t->rows; r++) {
        const yk_cell *row = &t->cell[r * t->columns];
        /* rows are sorted by configuration, then by x */
        if (r == 0 || !yk_table_same_group(t, r) || !(row[xc].number > (row - t->columns)[xc].number)) {
            char name[96];
            name_line(t, row, xc, y, name, sizeof name);
            s = yk__series_add(f, name, t->run[r], YK__ONE_X);
            s->dots = true;
        }
        yk__series_point(s, row[xc].number, NAN, NAN, row[yc].number);
    }
    if (unit == YK_UNIT_TIMES && f->n)
        add_ideal(f);
    yk__figure_end(fs);
}

/* ---- staleness and phases ---- */

void yk_bucket_text(size_t k, char *out)
{
    if (k < 2)
        snprintf(out, YK_BUCKET_SIZE, "%zu", k);
    else if (k < 60)
        snprintf(out, YK_BUCKET_SIZE, "%llu\u2013%llu", 1ull << (k - 1), (1ull << k) - 1);
    else
        snprintf(out, YK_BUCKET_SIZE, "more");
}

static void make_staleness(const yk_compare *c, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, "Staleness of updates", "staleness");
    f->kind = YK_HISTOGRAM;
    f->y_unit = YK_UNIT_SHARE;
    f->from_zero = true;
    for (size_t i = 0; i < c->n; i++) {
        const json_t *counts =
            yk_summary_at(c->run[i].summary, "observed_staleness.counts_0_1_2to3_4to7_and_so_on");
        size_t n = json_array_size(counts);
        double sum = 0.0;
        yk_series *s = yk__series_add(f, c->run[i].name, (int)i, YK__ONE_X);
        for (size_t k = 0; k < n; k++)
            sum += json_number_value(json_array_get(counts, k));
        for (size_t k = 0; sum > 0.0 && k < n && k < 64; k++)
            yk__series_point(s, (double)k, NAN, NAN, json_number_value(json_array_get(counts, k)) / sum);
    }
    yk__figure_end(fs);
}

static void make_phases(const yk_compare *c, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, "Worker time by phase", "phases");
    f->kind = YK_BARS;
    f->y_unit = YK_UNIT_SHARE;
    for (size_t i = 0; i < c->n; i++) {
        yk_series *s = yk__series_add(f, c->run[i].name, (int)i, YK__ONE_X);
        for (int p = 0; p < YK_PHASES; p++)
            yk__series_point(s, p, NAN, NAN, c->facts[i].phase[yk_stacked[p].phase]);
    }
    yk__figure_end(fs);
}

yk_status yk_figures_make(const yk_compare *c, yk_figures *out)
{
    *out = (yk_figures){0};
    for (size_t k = 0; k < sizeof curves / sizeof *curves; k++)
        make_curve(c, &curves[k], out);
    make_by_table(c, "workers", "workers", "speed-up", "Speed-up by workers", YK_UNIT_TIMES, out);
    make_by_table(c, "batch", "batch", "accuracy", "Accuracy by batch size", YK_UNIT_SHARE, out);
    make_by_table(c, "batch", "batch", "examples/s", "Examples per second by batch size", YK_UNIT_COUNT, out);
    make_by_table(c, "batch", "batch", "time", "Time by batch size", YK_UNIT_SECONDS, out);
    for (size_t k = 0; c->n > 1 && k < sizeof resources / sizeof *resources; k++)
        make_resource(c, &resources[k], out);
    if (c->n > 1)
        make_phases(c, out);
    make_staleness(c, out);
    for (size_t i = 0; i < c->n; i++)
        yk__figures_of_run(c, i, out);
    const yk_status st = out->status;
    if (st)
        yk_figures_fini(out);
    return st;
}

static void csv_x(const yk_figure *f, double x, yk_text *out)
{
    char bucket[YK_BUCKET_SIZE];
    if (f->kind == YK_BARS) {
        yk_text_csv(out, yk_stacked[(int)x].text);
    } else if (f->kind == YK_HISTOGRAM) {
        yk_bucket_text((size_t)x, bucket);
        yk_text_csv(out, bucket);
    } else {
        yk_text_number(out, x, 9, "");
    }
}

void yk_figure_csv(const yk_figure *f, yk_text *out)
{
    const bool bars = f->kind == YK_BARS;
    yk_text_add(out, bars ? "series,phase" : f->steps_or_time ? "series,step,epoch,seconds" : "series,");
    if (!bars && !f->steps_or_time)
        yk_text_csv(out, f->kind == YK_HISTOGRAM ? "staleness" : f->x_title ? f->x_title : "seconds");
    yk_text_add(out, ",");
    yk_text_csv(out, bars ? "share" : f->title);
    yk_text_add(out, "\r\n");
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->series[i].n; k++) {
            const yk_series *s = &f->series[i];
            yk_text_csv(out, s->name);
            for (int a = 0; a < YK_X_COUNT; a++)
                if (s->axes >> a & 1) {
                    yk_text_add(out, ",");
                    csv_x(f, s->point[k].x[a], out);
                }
            yk_text_add(out, ",");
            yk_text_number(out, s->point[k].y, 9, "");
            yk_text_add(out, "\r\n");
        }
}
