/* The figures of all runs: curves, speeds, the comparison of batches and workers, staleness, phases. */
#include "report/figure.h"

#include "base/mem.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_OR_TIME = 7, ONE_X = 1 << YK_X_STEP };

static void free_series(yk_series *s)
{
    for (int a = 0; a < YK_X_COUNT; a++)
        free(s->x[a]);
    free(s->y);
}

static void free_figure(yk_figure *f)
{
    for (size_t k = 0; k < f->n; k++)
        free_series(&f->series[k]);
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
    if (fs->status || (fs->status = YK_RESERVE(fs->figure, fs->cap, fs->n + 1, "the figures")))
        return NULL;
    yk_figure *f = &fs->figure[fs->n++];
    *f = (yk_figure){.title = title, .run = -1, .at_least = NAN, .limit = NAN};
    va_list list;
    va_start(list, format);
    vsnprintf(f->id, sizeof f->id, format, list);
    va_end(list);
    return f;
}

yk_series *yk__series_add(yk_figure *f, const char *name, int run, unsigned axes)
{
    const bool room = !YK_RESERVE(f->series, f->cap, f->n + 1, "a figure");
    yk_series *s = room ? &f->series[f->n++] : &f->lost;
    *s = (yk_series){.colour = run, .run = run, .failed = !room};
    snprintf(s->name, sizeof s->name, "%s", name);
    if (!room)
        return s;
    s->cap = 64;
    s->failed = !(s->y = malloc(s->cap * sizeof *s->y));
    for (int a = 0; a < YK_X_COUNT; a++)
        if (axes >> a & 1)
            s->failed |= !(s->x[a] = malloc(s->cap * sizeof *s->y));
    return s;
}

void yk__series_point(yk_series *s, double step, double epoch, double seconds, double y)
{
    const double at[YK_X_COUNT] = {step, epoch, seconds};
    for (int a = 0; a < YK_X_COUNT; a++)
        if (s->x[a] && !isfinite(at[a]))
            return;
    if (!isfinite(y) || s->failed)
        return;
    if (s->n == s->cap) {
        size_t more = s->cap * 2;
        double **all[] = {&s->y, &s->x[0], &s->x[1], &s->x[2]};
        for (int k = 0; k < 4; k++) {
            double *p = *all[k] ? realloc(*all[k], more * sizeof *p) : NULL;
            if (*all[k] && !p) {
                s->failed = true;
                return;
            }
            *all[k] = p;
        }
        s->cap = more;
    }
    for (int a = 0; a < YK_X_COUNT; a++)
        if (s->x[a])
            s->x[a][s->n] = at[a];
    s->y[s->n++] = y;
}

void yk__figure_end(yk_figures *fs)
{
    yk_figure *f = &fs->figure[fs->n - 1];
    size_t kept = 0;
    bool failed = f->lost.failed;
    for (size_t k = 0; k < f->n; k++) {
        failed |= f->series[k].failed;
        if (f->series[k].n)
            f->series[kept++] = f->series[k];
        else
            free_series(&f->series[k]);
    }
    f->n = kept;
    if (!kept)
        free_figure(&fs->figure[--fs->n]);
    if (failed && !fs->status)
        fs->status = yk_fail_memory(sizeof *f, "a figure");
}

/* ---- curves ---- */

typedef struct {
    const char *id, *title;
    bool eval;
    size_t offset;
    yk_unit unit;
    bool from_zero;
} curve;

static const curve curves[] = {
    {"accuracy", "Test accuracy", true, offsetof(yk_metric, test_accuracy), YK_UNIT_SHARE, false},
    {"auc", "Test AUC", true, offsetof(yk_metric, test_auc), YK_UNIT_PLAIN, false},
    {"test-loss", "Test loss", true, offsetof(yk_metric, test_loss), YK_UNIT_PLAIN, false},
    {"train-loss", "Training loss", false, offsetof(yk_metric, loss), YK_UNIT_PLAIN, false},
    {"examples-per-second", "Examples per second", false, offsetof(yk_metric, examples_per_second),
     YK_UNIT_COUNT, true},
    {"steps-per-second", "Steps per second", false, offsetof(yk_metric, steps_per_second), YK_UNIT_COUNT,
     true},
    {"learning-rate", "Learning rate", false, offsetof(yk_metric, learning_rate), YK_UNIT_PLAIN, true},
};

/* A line that has no rate (older runs) gets that since the line before it. */
static double value(const yk_metrics *m, size_t i, const curve *c)
{
    static const yk_metric begin;
    const yk_metric *at = &m->row[i], *before = i ? at - 1 : &begin;
    double x = yk_double_at(at, c->offset);
    if (isfinite(x) || !(at->seconds > before->seconds))
        return x;
    if (c->offset == offsetof(yk_metric, steps_per_second))
        return (at->step - before->step) / (at->seconds - before->seconds);
    if (c->offset == offsetof(yk_metric, examples_per_second))
        return (at->examples - before->examples) / (at->seconds - before->seconds);
    return x;
}

static void mark(const yk_facts *facts, const curve *c, yk_series *s)
{
    const yk_flat *f = &facts->flat;
    bool mine = f->flat && ((!strcmp(f->what, "test AUC") && !strcmp(c->id, "auc")) ||
                            (!strcmp(f->what, "test accuracy") && !strcmp(c->id, "accuracy")) ||
                            (!strcmp(f->what, "test loss") && !strcmp(c->id, "test-loss")));
    for (size_t i = 0; mine && i < s->n; i++)
        if (s->x[YK_X_STEP][i] == f->step) {
            s->marked = true;
            for (int a = 0; a < YK_X_COUNT; a++)
                s->mark_x[a] = s->x[a][i];
            s->mark_y = s->y[i];
            snprintf(s->mark_text, sizeof s->mark_text, "no better after epoch %.4g", f->epoch);
        }
}

static void make_curve(const yk_compare *c, const curve *k, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, k->title, "%s", k->id);
    if (!f)
        return;
    f->steps_or_time = true;
    f->y_unit = k->unit;
    f->from_zero = k->from_zero;
    bool changes = false;
    for (size_t i = 0; i < c->n; i++) {
        const yk_run *r = &c->run[i];
        curve use = *k;
        /* a short run has tests, but hardly a line between them */
        bool eval = k->eval || (r->train.n < 4 && r->eval.n > r->train.n);
        if (eval && k->offset == offsetof(yk_metric, loss))
            use.offset = offsetof(yk_metric, train_loss);
        const yk_metrics *m = eval ? &r->eval : &r->train;
        yk_series *s = yk__series_add(f, r->name, (int)i, STEPS_OR_TIME);
        for (size_t p = 0; p < m->n; p++)
            yk__series_point(s, m->row[p].step, m->row[p].epoch, m->row[p].seconds, value(m, p, &use));
        s->dots = s->n == 1 || (eval && s->n <= 60 && c->n <= YK_FEW_RUNS);
        if (c->n <= YK_FEW_RUNS) /* more rings than that are a chain */
            mark(&c->facts[i], k, s);
        for (size_t p = 1; p < s->n; p++)
            changes |= s->y[p] != s->y[0];
    }
    if (!strcmp(k->id, "learning-rate") && !changes) /* one number: it is in the configuration */
        for (size_t i = 0; i < f->n; i++)
            f->series[i].n = 0;
    if (!strcmp(k->id, "accuracy") && isfinite(c->facts[0].majority)) {
        bool same = true;
        for (size_t i = 1; i < c->n; i++)
            same &= c->facts[i].majority == c->facts[0].majority;
        if (same) {
            f->limit = c->facts[0].majority;
            f->limit_text = "commonest class";
        }
    }
    yk__figure_end(fs);
}

/* ---- what is used, of all processes together, when there are several runs ---- */

typedef struct {
    const char *id, *title;
    size_t offset[2];
    yk_unit unit;
} use;

static const use uses[] = {
    {"cpu", "CPU", {offsetof(yk_run_sample, cpu), SIZE_MAX}, YK_UNIT_CORES},
    {"memory", "Memory", {offsetof(yk_run_sample, rss), SIZE_MAX}, YK_UNIT_BYTES},
    {"network",
     "Network, in and out",
     {offsetof(yk_run_sample, net_in), offsetof(yk_run_sample, net_out)},
     YK_UNIT_RATE},
    {"disk",
     "Disk, read and written",
     {offsetof(yk_run_sample, disk_read), offsetof(yk_run_sample, disk_written)},
     YK_UNIT_RATE},
};

static double used(const yk_run_sample *s, const use *u)
{
    double sum = yk_double_at(s, u->offset[0]);
    return u->offset[1] == SIZE_MAX ? sum : sum + yk_double_at(s, u->offset[1]);
}

/* Processes sample at times of their own: at the times of the first one, each counts with its latest sample. */
static void make_use(const yk_compare *c, const use *u, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, u->title, "%s", u->id);
    if (!f)
        return;
    f->x_unit = YK_UNIT_SECONDS;
    f->y_unit = u->unit;
    f->from_zero = true;
    for (size_t i = 0; i < c->n; i++) {
        const yk_run *r = &c->run[i];
        size_t *at = calloc(r->workers ? r->workers : 1, sizeof *at);
        yk_series *s = yk__series_add(f, r->name, (int)i, ONE_X);
        s->failed |= !at;
        for (size_t p = 0; at && r->workers && p < r->worker[0].sample.n; p++) {
            double now = r->worker[0].sample.row[p].seconds, sum = 0.0;
            for (size_t w = 0; w < r->workers; w++) {
                const yk_run_worker *k = &r->worker[w];
                while (at[w] + 1 < k->sample.n && k->sample.row[at[w] + 1].seconds <= now)
                    at[w]++;
                if (k->sample.n)
                    sum += used(&k->sample.row[at[w]], u);
            }
            yk__series_point(s, now, now, now, sum);
        }
        free(at);
    }
    yk__figure_end(fs);
}

/* ---- the tables as curves ---- */

static void make_by_table(const yk_compare *c, const char *id, const char *x, const char *y,
                          const char *title, yk_unit unit, yk_figures *fs)
{
    const yk_table *t = NULL;
    for (size_t i = 0; i < c->tables; i++)
        if (!strcmp(c->table[i].id, id))
            t = &c->table[i];
    size_t xc = t ? yk_table_find(t, x) : 0, yc = t ? yk_table_find(t, y) : 0;
    if (!t || xc == t->columns || yc == t->columns)
        return;
    yk_figure *f = yk__figure_add(fs, title, "%s-by-%s", y, x);
    if (!f)
        return;
    for (char *s = f->id; *s; s++)
        *s = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ? *s : '-';
    f->x_unit = YK_UNIT_WHOLE;
    f->x_title = x;
    f->y_unit = unit;
    f->x_log = true;
    f->from_zero = unit != YK_UNIT_SHARE;
    yk_series *s = NULL;
    double most = 0.0;
    for (size_t r = 0; r < t->rows; r++) {
        const yk_cell *row = &t->cell[r * t->columns];
        /* rows are sorted by what is alike, then by x */
        bool begins = r == 0 || !yk_table_together(t, r) || !(row[xc].number > (row - t->columns)[xc].number);
        if (begins) {
            char name[96] = "";
            for (size_t k = 0; k < xc; k++) {
                char text[YK_UNIT_ROOM];
                const char *word = row[k].text;
                if (!strcmp(t->column[k].title, "global batch") || !strcmp(t->column[k].title, "lr"))
                    continue;
                if (!word) {
                    yk_unit_text(t->column[k].unit, row[k].number, text);
                    word = text;
                }
                size_t n = strlen(name);
                snprintf(name + n, sizeof name - n, "%s%s%s%s", n ? ", " : "",
                         row[k].text ? "" : t->column[k].title, row[k].text ? "" : " ", word);
            }
            s = yk__series_add(f, *name ? name : y, t->run[r], ONE_X);
            s->dots = true;
        }
        yk__series_point(s, row[xc].number, NAN, NAN, row[yc].number);
        most = row[xc].number > most ? row[xc].number : most;
    }
    if (unit == YK_UNIT_TIMES && f->n) { /* what one would like to see */
        double least = INFINITY;
        for (size_t i = 0; i < f->n; i++)
            least = f->series[i].n && f->series[i].x[0][0] < least ? f->series[i].x[0][0] : least;
        s = yk__series_add(f, "ideal", -1, ONE_X);
        s->dash = 1;
        for (double w = least; w <= most; w++)
            yk__series_point(s, w, NAN, NAN, w / least);
        f->x_log = most / least > 4.0;
    }
    yk__figure_end(fs);
}

/* ---- staleness and phases ---- */

void yk_bucket_text(size_t k, char *out)
{
    if (k < 2)
        snprintf(out, YK_BUCKET_ROOM, "%zu", k);
    else if (k < 60)
        snprintf(out, YK_BUCKET_ROOM, "%llu\u2013%llu", 1ull << (k - 1), (1ull << k) - 1);
    else
        snprintf(out, YK_BUCKET_ROOM, "more");
}

static void make_staleness(const yk_compare *c, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, "Staleness of updates", "staleness");
    if (!f)
        return;
    f->kind = YK_HISTOGRAM;
    f->y_unit = YK_UNIT_SHARE;
    f->from_zero = true;
    for (size_t i = 0; i < c->n; i++) {
        const json_t *counts =
            c->run[i].summary
                ? yk_summary_at(c->run[i].summary, "observed_staleness.counts_0_1_2to3_4to7_and_so_on")
                : NULL;
        size_t n = json_array_size(counts);
        double sum = 0.0;
        yk_series *s = yk__series_add(f, c->run[i].name, (int)i, ONE_X);
        for (size_t k = 0; k < n; k++)
            sum += json_number_value(json_array_get(counts, k));
        for (size_t k = 0; sum > 0.0 && k < n && k < 64; k++)
            yk__series_point(s, (double)k, NAN, NAN, json_number_value(json_array_get(counts, k)) / sum);
    }
    yk__figure_end(fs);
}

static void make_phases(const yk_compare *c, yk_figures *fs)
{
    yk_figure *f = yk__figure_add(fs, "Phases of the workers\u2019 time", "phases");
    if (!f)
        return;
    f->kind = YK_BARS;
    f->y_unit = YK_UNIT_SHARE;
    for (size_t i = 0; i < c->n; i++) {
        yk_series *s = yk__series_add(f, c->run[i].name, (int)i, ONE_X);
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
    for (size_t k = 0; c->n > 1 && k < sizeof uses / sizeof *uses; k++)
        make_use(c, &uses[k], out);
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

void yk_figure_csv(const yk_figure *f, yk_text *out)
{
    static const char *const names[] = {"step", "epoch", "seconds"};
    yk_text_add(out, f->kind == YK_BARS ? "who,phase,share\r\n" : "series");
    for (int a = 0; f->kind != YK_BARS && a < YK_X_COUNT; a++)
        if (f->n && f->series[0].x[a]) {
            yk_text_add(out, ",");
            yk_text_csv(out, f->steps_or_time               ? names[a]
                             : f->kind == YK_HISTOGRAM      ? "updates"
                             : f->x_title                   ? f->x_title
                             : f->x_unit == YK_UNIT_SECONDS ? "seconds"
                                                            : "x");
        }
    if (f->kind != YK_BARS) {
        yk_text_add(out, ",");
        yk_text_csv(out, f->title);
        yk_text_add(out, "\r\n");
    }
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->series[i].n; k++) {
            const yk_series *s = &f->series[i];
            yk_text_csv(out, s->name);
            for (int a = 0; a < YK_X_COUNT; a++) {
                if (!s->x[a])
                    continue;
                yk_text_add(out, ",");
                if (f->kind == YK_BARS) {
                    yk_text_csv(out, yk_stacked[(int)s->x[a][k]].text);
                } else if (f->kind == YK_HISTOGRAM) {
                    char bucket[YK_BUCKET_ROOM];
                    yk_bucket_text((size_t)s->x[a][k], bucket);
                    yk_text_csv(out, bucket);
                } else {
                    yk_text_number(out, s->x[a][k], 9, "");
                }
            }
            yk_text_add(out, ",");
            yk_text_number(out, s->y[k], 9, "");
            yk_text_add(out, "\r\n");
        }
}
