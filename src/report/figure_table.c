/* Columns of the tables as curves: speedup by workers, accuracy by batch size. */
#include "report/figure.h"

#include <stdlib.h>

typedef struct {
    const char *x, *y, *title; /* x: a column, and the table that has it */
    yk_unit unit;              /* of y */
} plot;

/* A table as lines: the columns of options before x distinguish the lines. Some of them distinguish the panels. */
typedef struct {
    const yk_compare *c;
    const yk_table *t;
    const plot *plot;
    size_t x, y;                 /* columns */
    size_t *run;                 /* [rows] */
    yk_option_set lines, panels; /* panels: some of `lines` */
    size_t first;                /* of its figures */
    /* The names of the lines: those of different panels have the same color if they differ in nothing else. */
    char (*line)[YK_LABEL_SIZE];
    size_t nlines;
} layout;

static double number(const layout *l, size_t row, size_t column)
{
    return l->t->cell[row * l->t->columns + column].number;
}

static bool same(const layout *l, size_t a, size_t b, yk_option_set which)
{
    return yk__options_same(l->c, l->run[a], l->run[b], which);
}

/* The learning rate may change with x. If it does not, it distinguishes lines, too. With threads and processes, there is a line for
 * each way to add workers. */
static yk_status lay_out(layout *l)
{
    const size_t rows = l->t->rows;
    const yk_option_set lr = yk__options_in(l->c, "lr");
    yk_option_set before = 0;
    l->run = calloc(rows, sizeof *l->run);
    l->line = calloc(2 * rows, sizeof *l->line);
    if (!l->run || !l->line)
        return yk_fail_memory(rows * (sizeof *l->run + 2 * sizeof *l->line), "a figure");
    for (size_t r = 0; r < rows; r++)
        l->run[r] = (size_t)l->t->run[r];
    for (size_t k = 0; k < l->x; k++)
        before |= yk__options_in(l->c, l->t->column[k].title);
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

/* A run of one process is also the first point of the line of several processes with the same options. Returns a row of that line;
 * SIZE_MAX: there is none. */
static size_t find_also(const layout *l, size_t r)
{
    const yk_facts *f = &l->c->facts[l->run[r]];
    size_t also = SIZE_MAX;
    for (size_t q = 0; l->lines & YK_OPTION_SCALING && f->processes == 1.0 && q < l->t->rows; q++) {
        const yk_facts *other = &l->c->facts[l->run[q]];
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

/* The figure of a panel, which is added if necessary. */
static yk_figure *figure_of(const layout *l, const char *panel, yk_figures *fs)
{
    for (size_t i = l->first; i < fs->n; i++)
        if (!strcmp(fs->figure[i].panel, panel))
            return &fs->figure[i];
    yk_figure *f = yk__figure_add(fs, l->plot->title, panel, NULL);
    f->x_unit = YK_UNIT_INTEGER;
    f->x_title = l->plot->x;
    f->y_unit = l->plot->unit;
    f->x_log = true;
    f->from_zero = f->y_unit != YK_UNIT_PERCENT_EXACT;
    return f;
}

/* Adds the point of row r to the line of row `of`. */
static void add_point(layout *l, size_t r, size_t of, yk_figures *fs)
{
    char panel[YK_LABEL_SIZE], line[YK_LABEL_SIZE];
    const yk_point p = {.x = {number(l, r, l->x), NAN, NAN, NAN},
                        .y = number(l, r, l->y),
                        .spread = l->t->cell[r * l->t->columns + l->y].spread};
    if (!isfinite(p.x[0]) || !isfinite(p.y))
        return;
    yk__options_join(l->c, l->run[of], l->panels, panel);
    yk__options_join(l->c, l->run[of], l->lines & ~l->panels, line);
    yk_figure *f = figure_of(l, panel, fs);
    const int color = (int)yk__index_of(l->line, &l->nlines, line);
    size_t k = 0;
    while (k < f->n && f->series[k].color != color)
        k++;
    yk_series *s = k < f->n ? &f->series[k] : yk__series_add(f, *line ? line : l->plot->y, -1);
    s->color = color;
    s->dots = s->bars = true;
    yk__series_put(s, &p);
}

void yk__figures_of_tables(const yk_compare *c, yk_figures *fs)
{
    static const plot plots[] = {{"workers", "speedup", "Speedup by workers", YK_UNIT_TIMES},
                                 {"batch", "accuracy", "Test accuracy by batch size", YK_UNIT_PERCENT_EXACT},
                                 {"batch", "error", "Test error by batch size", YK_UNIT_PERCENT_EXACT},
                                 {"batch", "examples/s", "Examples per second by batch size", YK_UNIT_COUNT},
                                 {"batch", "time", "Time by batch size", YK_UNIT_SECONDS}};
    for (const plot *q = plots; q < plots + sizeof plots / sizeof *plots; q++) {
        layout l = {.c = c, .t = yk_compare_table(c, q->x), .plot = q, .first = fs->n};
        if (!l.t || (l.x = yk_table_find(l.t, q->x)) == l.t->columns ||
            (l.y = yk_table_find(l.t, q->y)) == l.t->columns)
            continue;
        const yk_status st = lay_out(&l);
        fs->status = fs->status ? fs->status : st;
        for (size_t r = 0; !st && r < l.t->rows; r++) {
            const size_t also = find_also(&l, r);
            if (also == SIZE_MAX || !is_alone(&l, r))
                add_point(&l, r, r, fs);
            if (also != SIZE_MAX)
                add_point(&l, r, also, fs);
        }
        for (size_t i = l.first; q->unit == YK_UNIT_TIMES && i < fs->n; i++)
            add_ideal(&fs->figure[i]);
        yk__figures_share_y(fs, l.first);
        free(l.run);
        free(l.line);
    }
}
