/* Columns of the tables as curves: speedup by workers, accuracy by batch size. */
#include "report/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which rows of a table belong to the same line, and in which panel it is. */
typedef struct {
    const yk_table *t;
    size_t *line, *panel; /* [rows] */
    char (*lines)[YK_LABEL_SIZE], (*panels)[YK_LABEL_SIZE];
    size_t nlines, npanels;
} layout;

static const yk_cell *cell_at(const yk_table *t, size_t row, size_t column)
{
    return &t->cell[row * t->columns + column];
}

static void cell_text(const void *table, size_t row, const char *column, char *out)
{
    const yk_table *t = table;
    const size_t k = yk_table_find(t, column);
    const yk_cell *v = cell_at(t, row, k);
    if (v->text)
        snprintf(out, YK_OPTION_SIZE, "%s", v->text);
    else
        yk_unit_text(t->column[k].unit, v->number, out);
}

/* The columns before x distinguish the lines, except for the learning rate, which may change with x. */
static bool lay_out(layout *l, size_t x)
{
    const yk_table *t = l->t;
    yk_option_values o = {.items = t->rows, .text = cell_text, .context = t};
    l->line = calloc(t->rows, sizeof *l->line);
    l->panel = calloc(t->rows, sizeof *l->panel);
    l->lines = calloc(t->rows, sizeof *l->lines);
    l->panels = calloc(t->rows, sizeof *l->panels);
    if (!l->line || !l->panel || !l->lines || !l->panels || yk__options_init(&o))
        return false;
    for (size_t k = 0; k < x && o.options < YK_MAX_LABEL_OPTIONS; k++)
        if (strcmp(t->column[k].title, "lr"))
            yk__options_add(&o, t->column[k].title);
    const unsigned mask = yk__options_for_panels(&o);
    for (size_t r = 0; r < t->rows; r++) {
        char text[YK_LABEL_SIZE];
        yk__options_join(&o, r, mask, text);
        l->panel[r] = yk__index_of(l->panels, &l->npanels, text);
        yk__options_join(&o, r, ~mask, text);
        l->line[r] = yk__index_of(l->lines, &l->nlines, text);
    }
    free(o.value);
    return true;
}

static void lay_out_fini(layout *l)
{
    free(l->line);
    free(l->panel);
    free(l->lines);
    free(l->panels);
}

static void add_ideal(yk_figure *f)
{
    double min, max;
    yk__figure_range(f, 0, false, &min, &max);
    yk_series *s = yk__series_add(f, "ideal", -1);
    s->dash = 1;
    for (double w = min; w <= max; w++)
        yk__series_point(s, w, w / min);
    f->x_log = max / min > 4.0;
}

typedef struct {
    const char *x, *y, *id, *title; /* x: a column, and the table that has it */
    yk_unit unit;
} plot;

static void make_panel(const layout *l, const plot *q, size_t panel, size_t xc, size_t yc, yk_figures *fs)
{
    const yk_table *t = l->t;
    char id[48];
    snprintf(id, sizeof id, "%s-by-%s", q->id, q->x);
    yk_figure *f = yk__figure_add(fs, id, q->title, l->npanels > 1 ? l->panels[panel] : NULL, panel + 1);
    f->x_unit = YK_UNIT_INTEGER;
    f->x_title = q->x;
    f->y_unit = q->unit;
    f->x_log = true;
    f->from_zero = q->unit != YK_UNIT_PERCENT_EXACT;
    for (size_t r = 0; r < t->rows; r++) {
        const yk_cell *y = cell_at(t, r, yc);
        const double x = cell_at(t, r, xc)->number;
        yk_series *s = NULL;
        if (l->panel[r] != panel)
            continue;
        for (size_t k = 0; k < f->n; k++) /* rows are sorted by configuration, then by x */
            if (f->series[k].color == (int)l->line[r] && f->series[k].n &&
                f->series[k].point[f->series[k].n - 1].x[0] < x)
                s = &f->series[k];
        if (!s) {
            const char *name = l->lines[l->line[r]];
            s = yk__series_add(f, *name ? name : q->y, -1);
            s->color = (int)l->line[r];
            s->dots = s->bars = true;
        }
        yk__series_put(s, &(yk_point){.x = {x, NAN, NAN, NAN}, .y = y->number, .spread = y->spread});
    }
    if (q->unit == YK_UNIT_TIMES && f->n)
        add_ideal(f);
    yk__figure_end(fs);
}

void yk__figures_of_tables(const yk_compare *c, yk_figures *fs)
{
    static const plot plots[] = {
        {"workers", "speedup", "speedup", "Speedup by workers", YK_UNIT_TIMES},
        {"batch", "accuracy", "accuracy", "Accuracy by batch size", YK_UNIT_PERCENT_EXACT},
        {"batch", "error", "error", "Test error by batch size", YK_UNIT_PERCENT_EXACT},
        {"batch", "examples/s", "examples-s", "Examples per second by batch size", YK_UNIT_COUNT},
        {"batch", "time", "time", "Time by batch size", YK_UNIT_SECONDS}};
    for (size_t k = 0; k < sizeof plots / sizeof *plots; k++) {
        const plot *q = &plots[k];
        layout l = {.t = yk_compare_table(c, q->x)};
        const size_t xc = l.t ? yk_table_find(l.t, q->x) : 0, yc = l.t ? yk_table_find(l.t, q->y) : 0;
        const size_t first = fs->n;
        if (!l.t || xc == l.t->columns || yc == l.t->columns)
            continue;
        if (!lay_out(&l, xc) && !fs->status)
            fs->status = yk_fail_memory(l.t->rows * YK_LABEL_SIZE, "a figure");
        for (size_t p = 0; p < l.npanels; p++)
            make_panel(&l, q, p, xc, yc, fs);
        yk__figures_share_y(fs, first);
        lay_out_fini(&l);
    }
}
