/* Columns of the tables as curves: speedup by workers, accuracy by batch size. */
#include "report/figure.h"

#include <stdio.h>
#include <stdlib.h>

/* A table as lines: the columns of options before x distinguish the lines. Some of them distinguish the panels. */
typedef struct {
    const yk_compare *c;
    const yk_table *t;
    size_t x, y;             /* columns */
    yk_option_values values; /* of the rows */
    unsigned panel, scaling; /* options (bits); scaling: by workers, if runs mix threads and processes */
} layout;

static double number(const layout *l, size_t row, size_t column)
{
    return l->t->cell[row * l->t->columns + column].number;
}

static const yk_facts *facts_of(const layout *l, size_t row)
{
    return &l->c->facts[l->t->run[row]];
}

/* The first row with the same values of some options. */
static size_t first_like(const layout *l, size_t row, unsigned mask)
{
    size_t r = 0;
    while (!yk__options_same(&l->values, r, row, mask))
        r++;
    return r;
}

static bool name_lines(layout *l, bool lr)
{
    const yk_table *t = l->t;
    yk_option_values *o = &l->values;
    const bool scaling = l->c->mixed && !strcmp(t->id, "workers"); /* a line for each way to add workers */
    free(o->item);
    if (yk__options_init(l->c, t->rows, o))
        return false;
    for (size_t r = 0; r < t->rows; r++)
        o->item[r].run = (size_t)t->run[r];
    for (size_t k = 0; k < l->x && o->options < YK_MAX_LABEL_OPTIONS - 1; k++)
        if (lr || strcmp(t->column[k].title, "lr"))
            yk__options_add(o, t->column[k].title);
    l->scaling = scaling ? 1u << o->options : 0;
    if (scaling)
        yk__options_add(o, "scaling");
    l->panel = yk__options_for_panels(o);
    for (size_t r = 0, lines = 0; r < t->rows; r++) {
        const size_t first = first_like(l, r, ~l->panel);
        o->item[r].line = first < r ? o->item[first].line : lines++;
    }
    return true;
}

/* The learning rate may change with x. If it does not, it distinguishes lines, too. */
static bool lay_out(layout *l)
{
    bool same = false;
    if (!name_lines(l, false))
        return false;
    for (size_t r = 0; r < l->t->rows; r++)
        for (size_t q = 0; q < r; q++)
            same |= yk__options_same(&l->values, q, r, ~0u) && number(l, q, l->x) == number(l, r, l->x);
    return !same || name_lines(l, true);
}

/* A run of one process is the first point of the line of more processes like it, too: a row of that line; SIZE_MAX: none. */
static size_t find_also(const layout *l, size_t r)
{
    const yk_facts *f = facts_of(l, r);
    size_t also = SIZE_MAX;
    for (size_t q = 0; l->scaling && f->processes == 1.0 && q < l->t->rows; q++) {
        const yk_facts *other = facts_of(l, q);
        if (other->processes > 1.0 && other->workers / other->processes == f->workers &&
            yk__options_same(&l->values, q, r, ~l->scaling))
            also = q;
    }
    return also;
}

/* Whether no other row is in the line of row r. */
static bool is_alone(const layout *l, size_t r)
{
    size_t n = 0;
    for (size_t q = 0; q < l->t->rows; q++)
        n += yk__options_same(&l->values, q, r, ~0u);
    return n == 1;
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

/* Adds row r to the line of row `of`. Lines of different panels have the same color if they differ in nothing else. */
static void add_point(const layout *l, size_t r, size_t of, const char *name, yk_figure *f)
{
    const int color = (int)l->values.item[of].line;
    size_t k = 0;
    char label[YK_LABEL_SIZE];
    while (k < f->n && f->series[k].color != color)
        k++;
    yk__options_join(&l->values, of, ~l->panel, label);
    yk_series *s = k < f->n ? &f->series[k] : yk__series_add(f, *label ? label : name, -1);
    s->color = color;
    s->dots = s->bars = true;
    yk__series_put(s, &(yk_point){.x = {number(l, r, l->x), NAN, NAN, NAN},
                                  .y = number(l, r, l->y),
                                  .spread = l->t->cell[r * l->t->columns + l->y].spread});
}

/* The panel whose first row is `panel`. */
static void make_panel(const layout *l, const plot *q, size_t panel, yk_figures *fs)
{
    char name[YK_LABEL_SIZE];
    yk__options_join(&l->values, panel, l->panel, name);
    yk_figure *f = yk__figure_add(fs, q->title, name, NULL);
    f->x_unit = YK_UNIT_INTEGER;
    f->x_title = q->x;
    f->y_unit = q->unit;
    f->x_log = true;
    f->from_zero = q->unit != YK_UNIT_PERCENT_EXACT;
    for (size_t r = 0; r < l->t->rows; r++) {
        const size_t also = find_also(l, r);
        if (first_like(l, r, l->panel) == panel && (also == SIZE_MAX || !is_alone(l, r)))
            add_point(l, r, r, q->y, f);
        if (also != SIZE_MAX && first_like(l, also, l->panel) == panel)
            add_point(l, r, also, q->y, f);
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
        const size_t first = fs->n;
        layout l = {.c = c, .t = yk_compare_table(c, q->x)};
        if (!l.t || (l.x = yk_table_find(l.t, q->x)) == l.t->columns ||
            (l.y = yk_table_find(l.t, q->y)) == l.t->columns)
            continue;
        const bool known = lay_out(&l);
        if (!known && !fs->status)
            fs->status = YK_ESYSTEM;
        for (size_t r = 0; known && r < l.t->rows; r++)
            if (first_like(&l, r, l.panel) == r)
                make_panel(&l, q, r, fs);
        yk__figures_share_y(fs, first);
        free(l.values.item);
    }
}
