/* Figures as data: series and points; CSV. */
#include "report/figure.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

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

/* "test-accuracy-batch-5": the name in lower case, with a number if another figure has the same. */
static void make_id(const yk_figures *fs, yk_figure *f)
{
    char name[256];
    size_t n = 0;
    for (const char *c = yk_figure_name(f, name); *c && n < sizeof f->id - 8; c++)
        if (isalnum((unsigned char)*c) || (*c == '.' && n))
            f->id[n++] = (char)tolower((unsigned char)*c);
        else if (n && f->id[n - 1] != '-')
            f->id[n++] = '-';
    while (n && f->id[n - 1] == '-')
        n--;
    f->id[n] = 0;
    int number = 1;
    for (const yk_figure *k = fs->figure; !fs->status && k < f; k++)
        if (!strcmp(k->id, f->id)) {
            snprintf(f->id + n, sizeof f->id - n, "-%d", ++number);
            k = fs->figure - 1;
        }
}

yk_figure *yk__figure_add(yk_figures *fs, const char *title, const char *panel, const char *of)
{
    if (!fs->status)
        fs->status = YK_RESERVE(fs->figure, fs->cap, fs->n + 1, "the figures");
    yk_figure *f = fs->status ? &fs->spare : &fs->figure[fs->n++];
    *f = (yk_figure){
        .title = title, .of = of, .run = -1, .low = NAN, .high = NAN, .limit = NAN, .status = &fs->status};
    snprintf(f->panel, sizeof f->panel, "%s", panel ? panel : "");
    make_id(fs, f);
    return f;
}

yk_series *yk__series_add(yk_figure *f, const char *name, int run)
{
    if (!*f->status)
        *f->status = YK_RESERVE(f->series, f->cap, f->n + 1, "a figure");
    yk_series *s = *f->status ? &f->spare : &f->series[f->n++];
    *s =
        (yk_series){.axes = f->steps_or_time ? YK_X_COUNT : 1, .color = run, .run = run, .status = f->status};
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

void yk__series_put(yk_series *s, const yk_point *p)
{
    for (int a = 0; a < s->axes; a++)
        if (!isfinite(p->x[a]))
            return;
    if (!isfinite(p->y) || *s->status)
        return;
    if (s->n == s->cap)
        *s->status = YK_RESERVE(s->point, s->cap, s->n + 1, "a figure");
    if (!*s->status)
        s->point[s->n++] = *p;
}

void yk__series_point(yk_series *s, double x, double y)
{
    yk__series_put(s, &(yk_point){.x = {x, NAN, NAN, NAN}, .y = y, .spread = NAN});
}

void yk__figure_end(yk_figures *fs)
{
    if (fs->status)
        return;
    yk_figure *f = &fs->figure[fs->n - 1];
    size_t kept = 0;
    for (size_t k = 0; k < f->n; k++)
        if (f->series[k].n)
            f->series[kept++] = f->series[k];
        else
            free(f->series[k].point);
    f->n = kept;
    if (!kept)
        free_figure(&fs->figure[--fs->n]);
}

void yk__figure_range(const yk_figure *f, int axis, bool spread, double *low_out, double *high_out)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < f->n; i++) {
        const yk_series *s = &f->series[i];
        for (size_t k = 0; axis < s->axes && k < s->n; k++) {
            const double v = axis < 0 ? s->point[k].y : s->point[k].x[axis],
                         margin = spread ? fmax(0.0, s->point[k].spread) : 0.0; /* ignores NAN */
            low = fmin(low, v - margin);
            high = fmax(high, v + margin);
        }
    }
    *low_out = low;
    *high_out = high;
}

void yk__figures_share_y(yk_figures *fs, size_t first)
{
    double low = INFINITY, high = -INFINITY, min = INFINITY;
    for (size_t i = first; i < fs->n; i++) {
        double l, h;
        yk__figure_range(&fs->figure[i], -1, false, &l, &h);
        min = fmin(min, h - (fs->figure[i].from_zero ? 0.0 : l));
        low = fmin(low, l);
        high = fmax(high, h);
    }
    if (fs->n - first < 2 || min < 0.3 * (high - low)) /* the curves of some panels would be flat */
        return;
    for (size_t i = first; i < fs->n; i++) {
        fs->figure[i].low = low;
        fs->figure[i].high = high;
    }
}

const char *yk_figure_name(const yk_figure *f, char *out)
{
    snprintf(out, 256, "%s%s%s%s%s", f->title, *f->panel ? ": " : "", f->panel, f->of ? ": run " : "",
             f->of ? f->of : "");
    return out;
}

/* ---- the mean over seeds ---- */

/* The values of a series at x[0] = x, interpolated. False: the series does not reach it. */
static bool value_at(const yk_series *s, double x, yk_point *out)
{
    const yk_point *first = s->point, *last = s->point + s->n - 1;
    /* asynchronous runs end at slightly different steps */
    const double margin = 0.02 * (last->x[0] - first->x[0]);
    if (x < first->x[0] - margin || x > last->x[0] + margin)
        return false;
    size_t low = 0, high = s->n - 1;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (s->point[middle].x[0] <= x)
            low = middle;
        else
            high = middle;
    }
    const yk_point *a = &s->point[low], *b = &s->point[high];
    const double part = b->x[0] > a->x[0] ? fmax(0.0, fmin(1.0, (x - a->x[0]) / (b->x[0] - a->x[0]))) : 0.0;
    for (int k = 0; k < YK_X_COUNT; k++)
        out->x[k] = a->x[k] + part * (b->x[k] - a->x[k]);
    out->y = a->y + part * (b->y - a->y);
    return true;
}

void yk__series_mean(yk_series *part, size_t n, yk_series *out)
{
    size_t used = 0;
    for (size_t k = 0; k < n; k++)
        if (part[k].n)
            part[used++] = part[k];
        else
            free(part[k].point);
    for (size_t i = 0; used && i < part[0].n; i++) {
        const double x = part[0].point[i].x[0];
        yk_point mean = {.y = 0.0}, at = {.y = 0.0};
        yk_moments m = {0};
        bool all = true;
        for (size_t k = 0; all && k < used; k++) {
            all = value_at(&part[k], x, &at);
            for (int a = 0; a < YK_X_COUNT; a++)
                mean.x[a] += at.x[a] / (double)used;
            yk_moments_add(&m, at.y);
        }
        mean.y = m.mean;
        mean.spread = yk_moments_deviation(&m, YK_MIN_REPEATS);
        if (all)
            yk__series_put(out, used > 1 ? &mean : &part[0].point[i]);
    }
    for (size_t k = 0; k < used; k++)
        free(part[k].point);
}

void yk_figures_thin(yk_figures *fs, size_t bytes)
{
    enum { MAX = 1200, MIN = 24 };
    size_t points = MAX;
    for (;; points -= points / 8) { /* the more series, the fewer points of each */
        double sum = 0.0;
        for (size_t i = 0; i < fs->n; i++)
            for (size_t k = 0; k < fs->figure[i].n; k++) {
                const yk_series *s = &fs->figure[i].series[k];
                /* bytes per point: its positions in the drawings and in the band, and its numbers for the tooltip */
                const double drawn = s->n && s->point[s->n - 1].spread > 0.0 ? 44.0 : 20.0,
                             each = drawn * s->axes + 9.0 + (double)strlen(s->name);
                sum += (double)(s->n < points ? s->n : points) * each + 300.0;
            }
        if (sum <= (double)bytes || points <= MIN)
            break;
    }
    for (size_t i = 0; i < fs->n; i++)
        for (size_t k = 0; k < fs->figure[i].n && fs->figure[i].kind == YK_LINES; k++) {
            yk_series *s = &fs->figure[i].series[k];
            s->n = yk_thin(s->point, s->n, sizeof *s->point, offsetof(yk_point, x), offsetof(yk_point, y),
                           points);
        }
}

yk_status yk_figures_make(const yk_compare *c, yk_figures *out)
{
    *out = (yk_figures){0};
    yk__figures_of_runs(c, out);
    yk__figures_of_tables(c, out);
    for (size_t i = 0; i < c->n; i++)
        yk__figures_of_run(c, i, out);
    const yk_status st = out->status;
    if (st)
        yk_figures_fini(out);
    return st;
}

/* ---- CSV ---- */

const char *yk_bucket_text(size_t k, char *out)
{
    if (k < 2)
        snprintf(out, YK_BUCKET_SIZE, "%zu", k);
    else if (k < 60)
        snprintf(out, YK_BUCKET_SIZE, "%llu\u2013%llu", 1ull << (k - 1), (1ull << k) - 1);
    else
        snprintf(out, YK_BUCKET_SIZE, "more");
    return out;
}

static void csv_x(const yk_figure *f, double x, yk_text *out)
{
    char bucket[YK_BUCKET_SIZE];
    if (f->kind == YK_BARS) {
        yk_text_csv(out, yk_phase_words[(int)x]);
    } else if (f->kind == YK_HISTOGRAM) {
        yk_text_csv(out, yk_bucket_text((size_t)x, bucket));
    } else if (f->kind == YK_MATRIX) {
        yk_text_csv(out, f->series[(size_t)x].name);
    } else {
        yk_text_number(out, x, 9);
    }
}

void yk_figure_csv(const yk_figure *f, yk_text *out)
{
    const bool bars = f->kind == YK_BARS;
    yk_text_add(out, bars               ? "series,phase"
                     : f->steps_or_time ? "series,step,epoch,examples,seconds"
                                        : "series,");
    if (!bars && !f->steps_or_time)
        yk_text_csv(out, f->kind == YK_HISTOGRAM ? "staleness" : f->x_title ? f->x_title : "seconds");
    yk_text_add(out, ",");
    yk_text_csv(out, bars ? "share" : f->title);
    bool spread = false;
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->series[i].n; k++)
            spread |= isfinite(f->series[i].point[k].spread);
    yk_text_add(out, spread ? ",standard deviation\r\n" : "\r\n");
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->series[i].n; k++) {
            const yk_series *s = &f->series[i];
            yk_text_csv(out, s->name);
            for (int a = 0; a < s->axes; a++) {
                yk_text_add(out, ",");
                csv_x(f, s->point[k].x[a], out);
            }
            yk_text_add(out, ",");
            yk_text_number(out, s->point[k].y, 9);
            yk_text_add(out, spread ? "," : "");
            if (spread)
                yk_text_number(out, s->point[k].spread, 6);
            yk_text_add(out, "\r\n");
        }
}
