/* The figures of the test metrics of one run: calibration and confusion matrix, from summary.json. */
#include "report/figure.h"

#include <math.h>
#include <stdio.h>

/* Observed frequencies by predicted probability; a calibrated model is on the diagonal. */
static void make_reliability(const json_t *metrics, yk_figure *f, yk_figures *fs)
{
    const json_t *bins = json_object_get(metrics, "reliability"), *bin;
    size_t k;
    double high = 0.0;
    f->section = "metrics";
    f->x_title = "predicted probability";
    f->x_unit = f->y_unit = YK_UNIT_PLAIN;
    f->from_zero = true;
    yk_series *s = yk__series_add(f, "observed frequency", -1);
    s->color = 0;
    s->dots = true;
    json_array_foreach(bins, k, bin)
    {
        const double p = yk_number_at(bin, "probability"), frequency = yk_number_at(bin, "frequency");
        yk__series_point(s, p, frequency);
        high = fmax(high, fmax(p, frequency)); /* ignores NaN */
    }
    if (s->n) {
        s = yk__series_add(f, "calibrated", -1);
        s->dash = 1;
        yk__series_point(s, 0.0, 0.0);
        yk__series_point(s, high, high);
    }
    yk__figure_end(fs);
}

/* A series for each label, with a point for each prediction. */
static void make_confusion(const json_t *metrics, yk_figure *f, yk_figures *fs)
{
    const json_t *rows = json_object_get(metrics, "confusion"), *row, *cell;
    const size_t n = json_array_size(rows);
    size_t c, k;
    f->section = "metrics";
    f->kind = YK_MATRIX;
    f->x_title = "prediction";
    json_array_foreach(rows, c, row)
    {
        const json_t *of = json_array_get(json_object_get(metrics, "classes"), c);
        const char *name = yk_string_at(of, "name");
        char number[24];
        if (n > YK_MAX_MATRIX || json_array_size(row) != n)
            break;
        snprintf(number, sizeof number, "%zu", c);
        yk_series *s = yk__series_add(f, name ? name : number, -1);
        json_array_foreach(row, k, cell)
        {
            const double weight = json_number_value(cell);
            yk__series_point(s, (double)k, weight > 0.0 ? weight : 0.0);
        }
    }
    if (f->n < n) /* too many classes, or damaged */
        for (c = 0; c < f->n; c++)
            f->series[c].n = 0;
    yk__figure_end(fs);
}

void yk__figures_of_metrics(const yk_compare *c, size_t i, yk_figures *fs)
{
    const json_t *metrics = yk_value_at(c->run[i].summary, "test_metrics");
    const char *of = c->n > 1 ? c->label[i] : NULL;
    if (!metrics || c->n > YK_MAX_DETAILED)
        return;
    yk_figure *f = yk__figure_add(fs, "Calibration", NULL, of);
    f->run = (int)i;
    make_reliability(metrics, f, fs);
    f = yk__figure_add(fs, "Confusion matrix", NULL, of);
    f->run = (int)i;
    make_confusion(metrics, f, fs);
}
