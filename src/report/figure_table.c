/* Columns of the tables as curves: speedup by workers, accuracy by batch size. */
#include "report/figure.h"

#include <stdio.h>
#include <stdlib.h>

/* Which rows of a table belong to the same line, and in which panel it is. */
typedef struct {
    const yk_compare *c;
    const yk_table *t;
    bool scaling; /* by workers, and runs mix threads and processes: a line for each way to add workers */
    struct {
        size_t line, panel, also; /* also: a row whose line this row belongs to, too; SIZE_MAX: none */
    } * row;
    char (*lines)[YK_LABEL_SIZE], (*panels)[YK_LABEL_SIZE]; /* [rows] each */
    size_t nlines, npanels;
} layout;

static const yk_cell *cell_at(const yk_table *t, size_t row, size_t column)
{
    return &t->cell[row * t->columns + column];
}

static double processes_of(const layout *l, size_t row)
{
    return l->c->facts[l->t->run[row]].processes;
}

static double per_process(const layout *l, size_t row)
{
    return l->c->facts[l->t->run[row]].workers / processes_of(l, row);
}

/* A run of one process is the first point of the line of more processes like it. */
static void find_also(layout *l, const yk_option_values *o, unsigned scaling)
{
    char mine[YK_LABEL_SIZE], other[YK_LABEL_SIZE];
    for (size_t r = 0; r < l->t->rows; r++) {
        l->row[r].also = SIZE_MAX;
        yk__options_join(o, r, ~scaling, mine);
        for (size_t q = 0; l->scaling && processes_of(l, r) == 1.0 && q < l->t->rows; q++) {
            yk__options_join(o, q, ~scaling, other);
            if (processes_of(l, q) > 1.0 && per_process(l, q) == per_process(l, r) && !strcmp(mine, other))
                l->row[r].also = q;
        }
    }
}

/* The columns before x distinguish the lines. */
static bool name_lines(layout *l, size_t x, bool lr)
{
    const yk_table *t = l->t;
    yk_option_values o;
    if (yk__options_init(l->c, t->rows, &o))
        return false;
    for (size_t r = 0; r < t->rows; r++)
        o.item[r].run = (size_t)t->run[r];
    for (size_t k = 0; k < x && o.options < YK_MAX_LABEL_OPTIONS - 1; k++)
        if (lr || strcmp(t->column[k].title, "lr"))
            yk__options_add(&o, t->column[k].title);
    const unsigned scaling = l->scaling ? 1u << o.options : 0;
    if (scaling)
        yk__options_add(&o, "scaling");
    const unsigned mask = yk__options_for_panels(&o);
    l->nlines = l->npanels = 0;
    for (size_t r = 0; r < t->rows; r++) {
        char text[YK_LABEL_SIZE];
        yk__options_join(&o, r, mask, text);
        l->row[r].panel = yk__index_of(l->panels, &l->npanels, text);
        yk__options_join(&o, r, ~mask, text);
        l->row[r].line = yk__index_of(l->lines, &l->nlines, text);
    }
    find_also(l, &o, scaling);
    free(o.item);
    return true;
}

/* The learning rate may change with x. If it does not, it distinguishes lines, too. */
static bool lay_out(layout *l, size_t x)
{
    const yk_table *t = l->t;
    bool same = false;
    l->row = calloc(t->rows, sizeof *l->row);
    l->lines = calloc(t->rows, sizeof *l->lines);
    l->panels = calloc(t->rows, sizeof *l->panels);
    if (!l->row || !l->lines || !l->panels || !name_lines(l, x, false))
        return false;
    for (size_t r = 0; r < t->rows; r++)
        for (size_t q = 0; q < r; q++)
            same |= l->row[r].line == l->row[q].line && l->row[r].panel == l->row[q].panel &&
                    cell_at(t, r, x)->number == cell_at(t, q, x)->number;
    return !same || name_lines(l, x, true);
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
    const char *x, *y, *title; /* x: a column, and the table that has it */
    yk_unit unit;
} plot;

/* Adds row r to a line, whose rows are sorted by x. */
static void add_point(const layout *l, size_t r, size_t line, size_t xc, size_t yc, const char *name,
                      yk_figure *f)
{
    const yk_cell *y = cell_at(l->t, r, yc);
    size_t k = 0;
    while (k < f->n && f->series[k].color != (int)line)
        k++;
    yk_series *s = k < f->n ? &f->series[k] : yk__series_add(f, *l->lines[line] ? l->lines[line] : name, -1);
    s->color = (int)line;
    s->dots = s->bars = true;
    yk__series_put(
        s,
        &(yk_point){.x = {cell_at(l->t, r, xc)->number, NAN, NAN, NAN}, .y = y->number, .spread = y->spread});
}

/* Whether no other row is in the line of row r. */
static bool is_alone(const layout *l, size_t r)
{
    size_t n = 0;
    for (size_t q = 0; q < l->t->rows; q++)
        n += l->row[q].line == l->row[r].line && l->row[q].panel == l->row[r].panel;
    return n == 1;
}

static void make_panel(const layout *l, const plot *q, size_t panel, size_t xc, size_t yc, yk_figures *fs)
{
    const yk_table *t = l->t;
    yk_figure *f = yk__figure_add(fs, q->title, l->npanels > 1 ? l->panels[panel] : NULL, NULL);
    f->x_unit = YK_UNIT_INTEGER;
    f->x_title = q->x;
    f->y_unit = q->unit;
    f->x_log = true;
    f->from_zero = q->unit != YK_UNIT_PERCENT_EXACT;
    for (size_t r = 0; r < t->rows; r++) {
        const size_t also = l->row[r].also;
        if (l->row[r].panel == panel && (also == SIZE_MAX || !is_alone(l, r)))
            add_point(l, r, l->row[r].line, xc, yc, q->y, f);
        if (also != SIZE_MAX && l->row[also].panel == panel)
            add_point(l, r, l->row[also].line, xc, yc, q->y, f);
    }
    if (q->unit == YK_UNIT_TIMES && f->n)
        add_ideal(f);
    yk__figure_end(fs);
}

void yk__figures_of_tables(const yk_compare *c, yk_figures *fs)
{
    static const plot plots[] = {{"workers", "speedup", "Speedup by workers", YK_UNIT_TIMES},
                                 {"batch", "accuracy", "Test accuracy by batch size", YK_UNIT_PERCENT_EXACT},
                                 {"batch", "error", "Test error by batch size", YK_UNIT_PERCENT_EXACT},
                                 {"batch", "examples/s", "Examples per second by batch size", YK_UNIT_COUNT},
                                 {"batch", "time", "Time by batch size", YK_UNIT_SECONDS}};
    for (size_t k = 0; k < sizeof plots / sizeof *plots; k++) {
        const plot *q = &plots[k];
        layout l = {.c = c, .t = yk_compare_table(c, q->x), .scaling = c->mixed && !strcmp(q->x, "workers")};
        const size_t xc = l.t ? yk_table_find(l.t, q->x) : 0, yc = l.t ? yk_table_find(l.t, q->y) : 0;
        const size_t first = fs->n;
        if (!l.t || xc == l.t->columns || yc == l.t->columns)
            continue;
        if (!lay_out(&l, xc) && !fs->status)
            fs->status = yk_fail_memory(l.t->rows * YK_LABEL_SIZE, "a figure");
        for (size_t p = 0; p < l.npanels; p++)
            make_panel(&l, q, p, xc, yc, fs);
        yk__figures_share_y(fs, first);
        free(l.row);
        free(l.lines);
        free(l.panels);
    }
}
