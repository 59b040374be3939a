/* Columns of the tables as curves: speedup by workers, accuracy by batch size. */
#include "report/figure.h"

#include <stdio.h>
#include <stdlib.h>

/* A table as lines: the columns of options before x distinguish the lines. Some of them distinguish the panels. */
typedef struct {
    const yk_compare *c;
    const yk_table *t;
    size_t *run;                 /* [rows] */
    size_t x, y;                 /* columns */
    yk_option_set lines, panels; /* panels: some of `lines` */
} layout;

static double number(const layout *l, size_t row, size_t column)
{
    return l->t->cell[row * l->t->columns + column].number;
}

static const yk_facts *facts_of(const layout *l, size_t row)
{
    return &l->c->facts[l->run[row]];
}

static bool same(const layout *l, size_t a, size_t b, yk_option_set which)
{
    return yk__options_same(l->c, l->run[a], l->run[b], which);
}

/* The first row with the same values of some options. */
static size_t first_like(const layout *l, size_t row, yk_option_set which)
{
    size_t r = 0;
    while (!same(l, r, row, which))
        r++;
    return r;
}

/* The learning rate may change with x. If it does not, it distinguishes lines, too. With threads and processes, there is a line for
 * each way to add workers. */
static yk_status lay_out(layout *l)
{
    const size_t rows = l->t->rows;
    const yk_option_set lr = yk__options_in(l->c, (const char *const[]){"lr", NULL});
    yk_option_set before = 0;
    l->run = calloc(rows, sizeof *l->run);
    if (!l->run)
        return yk_fail_memory(rows * sizeof *l->run, "a figure");
    for (size_t r = 0; r < rows; r++)
        l->run[r] = (size_t)l->t->run[r];
    for (size_t k = 0; k < l->x; k++)
        before |= yk__options_in(l->c, (const char *const[]){l->t->column[k].title, NULL});
    l->lines = before & ~lr;
    if (l->c->mixed && !strcmp(l->t->id, "workers"))
        l->lines |= YK_OPTION_SCALING;
    bool clash = false;
    for (size_t r = 0; r < rows; r++)
        for (size_t q = 0; q < r; q++)
            clash |= same(l, q, r, l->lines) && number(l, q, l->x) == number(l, r, l->x);
    l->lines |= clash ? before : 0;
    return yk__options_for_panels(l->c, l->run, rows, l->lines, &l->panels);
}

/* Lines of different panels have the same color if they differ in nothing else. */
static int color_of(const layout *l, size_t row)
{
    const yk_option_set which = l->lines & ~l->panels;
    const size_t first = first_like(l, row, which);
    int color = 0;
    for (size_t r = 0; r < first; r++)
        color += first_like(l, r, which) == r;
    return color;
}

/* A run of one process is also the first point of the line of several processes with the same options. Returns a row of that line;
 * SIZE_MAX: there is none. */
static size_t find_also(const layout *l, size_t r)
{
    const yk_facts *f = facts_of(l, r);
    size_t also = SIZE_MAX;
    for (size_t q = 0; l->lines & YK_OPTION_SCALING && f->processes == 1.0 && q < l->t->rows; q++) {
        const yk_facts *other = facts_of(l, q);
        if (other->processes > 1.0 && other->workers / other->processes == f->workers &&
            same(l, q, r, l->lines & ~YK_OPTION_SCALING))
            also = q;
    }
    return also;
}

/* Whether no other row is in the line of row r. */
static bool is_alone(const layout *l, size_t r)
{
    size_t n = 0;
    for (size_t q = 0; q < l->t->rows; q++)
        n += same(l, q, r, l->lines);
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

/* Adds row r to the line of row `of`. */
static void add_point(const layout *l, size_t r, size_t of, const char *name, yk_figure *f)
{
    const int color = color_of(l, of);
    size_t k = 0;
    char label[YK_LABEL_SIZE];
    while (k < f->n && f->series[k].color != color)
        k++;
    yk__options_join(l->c, l->run[of], l->lines & ~l->panels, label);
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
    yk__options_join(l->c, l->run[panel], l->panels, name);
    yk_figure *f = yk__figure_add(fs, q->title, name, NULL);
    f->x_unit = YK_UNIT_INTEGER;
    f->x_title = q->x;
    f->y_unit = q->unit;
    f->x_log = true;
    f->from_zero = q->unit != YK_UNIT_PERCENT_EXACT;
    for (size_t r = 0; r < l->t->rows; r++) {
        const size_t also = find_also(l, r);
        if (first_like(l, r, l->panels) == panel && (also == SIZE_MAX || !is_alone(l, r)))
            add_point(l, r, r, q->y, f);
        if (also != SIZE_MAX && first_like(l, also, l->panels) == panel)
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
        const yk_status st = lay_out(&l);
        fs->status = fs->status ? fs->status : st;
        for (size_t r = 0; !st && r < l.t->rows; r++)
            if (first_like(&l, r, l.panels) == r)
                make_panel(&l, q, r, fs);
        yk__figures_share_y(fs, first);
        free(l.run);
    }
}
