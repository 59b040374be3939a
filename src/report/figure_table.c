/* Columns of the tables as curves: speedup by workers, accuracy by batch size. */
#include "report/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns of a table that distinguish its lines: those before x, except for those that change with x. */
typedef struct {
    const yk_table *t;
    size_t column[YK_MAX_LABEL_OPTIONS];
    yk_option_values of;  /* items: rows */
    size_t *line, *panel; /* [rows] */
    char (*lines)[YK_LABEL_SIZE], (*panels)[YK_LABEL_SIZE];
    size_t nlines, npanels;
} layout;

static const yk_cell *cell_at(const yk_table *t, size_t row, size_t column)
{
    return &t->cell[row * t->columns + column];
}

static bool same_cell(const yk_cell *a, const yk_cell *b)
{
    return a->text && b->text ? !strcmp(a->text, b->text) : a->text == b->text && a->number == b->number;
}

/* The columns in `mask`, joined. */
static void join(const layout *l, size_t row, unsigned mask, char out[YK_LABEL_SIZE])
{
    size_t n = 0;
    *out = 0;
    for (size_t k = 0; k < l->of.options && n < YK_LABEL_SIZE; k++) {
        const yk_cell *v = cell_at(l->t, row, l->column[k]);
        char number[YK_UNIT_SIZE], text[YK_LABEL_SIZE];
        if (!(mask >> k & 1))
            continue;
        yk_unit_text(l->t->column[l->column[k]].unit, v->number, number);
        yk__option_phrase(l->t->column[l->column[k]].title, v->text ? v->text : number, text, sizeof text);
        n += (size_t)snprintf(out + n, YK_LABEL_SIZE - n, "%s%s", n ? ", " : "", text);
    }
}

static void number_values(layout *l)
{
    for (size_t k = 0; k < l->of.options; k++)
        for (size_t r = 0; r < l->t->rows; r++) {
            size_t first = 0;
            while (first < r &&
                   !same_cell(cell_at(l->t, r, l->column[k]), cell_at(l->t, first, l->column[k])))
                first++;
            l->of.value[r * YK_MAX_LABEL_OPTIONS + k] = first;
        }
}

/* Chooses the panels by the lines, not by the rows, of which a line has several. */
static unsigned choose(const layout *l)
{
    yk_option_values lines = {.options = l->of.options,
                              .value = calloc(l->t->rows * YK_MAX_LABEL_OPTIONS, sizeof(size_t))};
    if (!lines.value)
        return 0;
    for (size_t r = 0; r < l->t->rows; r++) {
        const size_t *mine = &l->of.value[r * YK_MAX_LABEL_OPTIONS], bytes = l->of.options * sizeof *mine;
        bool seen = false;
        for (size_t k = 0; k < lines.items; k++)
            seen |= !memcmp(mine, &lines.value[k * YK_MAX_LABEL_OPTIONS], bytes);
        if (!seen)
            memcpy(&lines.value[lines.items++ * YK_MAX_LABEL_OPTIONS], mine, bytes);
    }
    for (size_t k = 0; k < l->of.options; k++)
        lines.panel_only |= (unsigned)yk__separates_panels(l->t->column[l->column[k]].title) << k;
    const unsigned mask = yk__choose_panels(&lines);
    free(lines.value);
    return mask;
}

static bool lay_out(layout *l, size_t x)
{
    const yk_table *t = l->t;
    l->of.items = t->rows;
    l->of.value = calloc(t->rows * YK_MAX_LABEL_OPTIONS, sizeof(size_t));
    l->line = calloc(t->rows, sizeof *l->line);
    l->panel = calloc(t->rows, sizeof *l->panel);
    l->lines = calloc(t->rows, sizeof *l->lines);
    l->panels = calloc(t->rows, sizeof *l->panels);
    if (!l->of.value || !l->line || !l->panel || !l->lines || !l->panels)
        return false;
    for (size_t k = 0; k < x && l->of.options < YK_MAX_LABEL_OPTIONS; k++)
        if (strcmp(t->column[k].title, "global batch") && strcmp(t->column[k].title, "lr"))
            l->column[l->of.options++] = k;
    number_values(l);
    const unsigned mask = choose(l);
    for (size_t r = 0; r < t->rows; r++) {
        char text[YK_LABEL_SIZE];
        join(l, r, mask, text);
        l->panel[r] = yk__index_of(l->panels, &l->npanels, text);
        join(l, r, ~mask, text);
        l->line[r] = yk__index_of(l->lines, &l->nlines, text);
    }
    return true;
}

static void lay_out_fini(layout *l)
{
    free(l->of.value);
    free(l->line);
    free(l->panel);
    free(l->lines);
    free(l->panels);
}

static void add_ideal(yk_figure *f)
{
    double min, max;
    yk__figure_range(f, 0, false, &min, &max);
    yk_series *s = yk__series_add(f, "ideal", -1, YK__ONE_X);
    s->dash = 1;
    for (double w = min; w <= max; w++)
        yk__series_point(s, w, w / min);
    f->x_log = max / min > 4.0;
}

typedef struct {
    const char *id, *x, *y, *title;
    yk_unit unit;
} plot;

static void make_panel(const layout *l, const plot *q, size_t panel, size_t xc, size_t yc, yk_figures *fs)
{
    const yk_table *t = l->t;
    yk_figure *f = l->npanels > 1 ? yk__figure_add(fs, q->title, "%s-by-%s-%zu", q->y, q->x, panel + 1)
                                  : yk__figure_add(fs, q->title, "%s-by-%s", q->y, q->x);
    for (char *s = f->id; *s; s++)
        *s = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ? *s : '-';
    if (l->npanels > 1)
        snprintf(f->panel, sizeof f->panel, "%s", l->panels[panel]);
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
            s = yk__series_add(f, *name ? name : q->y, -1, YK__ONE_X);
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
        {"workers", "workers", "speedup", "Speedup by workers", YK_UNIT_TIMES},
        {"batch", "batch", "accuracy", "Accuracy by batch size", YK_UNIT_PERCENT_EXACT},
        {"batch", "batch", "error", "Test error by batch size", YK_UNIT_PERCENT_EXACT},
        {"batch", "batch", "examples/s", "Examples per second by batch size", YK_UNIT_COUNT},
        {"batch", "batch", "time", "Time by batch size", YK_UNIT_SECONDS}};
    for (size_t k = 0; k < sizeof plots / sizeof *plots; k++) {
        const plot *q = &plots[k];
        layout l = {.t = yk_compare_table(c, q->id)};
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
