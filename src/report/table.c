#include "report/table.h"

#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = sizeof((yk_table *)0)->column / sizeof(yk_column) };

void yk_table_fini(yk_table *t)
{
    free(t->cell);
    free(t->run);
    yk_arena_free(&t->texts);
    *t = (yk_table){0};
}

void yk_table_column(yk_table *t, const yk_column *column)
{
    if (t->columns < COLUMNS)
        t->column[t->columns++] = *column;
    else if (!t->status)
        t->status =
            yk_fail(YK_EUSAGE, "the table %s has more than %d columns; report fewer kinds of runs at once",
                    t->title, COLUMNS);
}

void yk_table_row(yk_table *t, int run)
{
    if (t->status)
        return;
    if (!(t->status = YK_RESERVE(t->run, t->run_cap, t->rows + 1, "a table")))
        t->run[t->rows++] = run;
}

static void add(yk_table *t, yk_cell c)
{
    if (!t->status)
        t->status = YK_RESERVE(t->cell, t->cap, t->cells + 1, "a table");
    if (!t->status)
        t->cell[t->cells++] = c;
}

void yk_table_number(yk_table *t, double x, double spread)
{
    add(t, (yk_cell){.number = x, .spread = spread});
}

void yk__table_numbers(yk_table *t, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        yk_table_number(t, x[i], NAN);
}

void yk_table_text(yk_table *t, const char *s)
{
    const char *text = yk_arena_print(&t->texts, "%s", s ? s : "");
    t->status = t->status ? t->status : t->texts.status;
    add(t, (yk_cell){.text = text, .number = NAN, .spread = NAN});
}

size_t yk_table_find(const yk_table *t, const char *title)
{
    size_t k = 0;
    while (k < t->columns && strcmp(t->column[k].title, title))
        k++;
    return k;
}

bool yk_table_same_group(const yk_table *t, size_t r)
{
    const yk_cell *here = &t->cell[r * t->columns], *before = here - t->columns;
    for (size_t k = 0; k < t->lead; k++) {
        bool texts = here[k].text && before[k].text;
        if (strcmp(t->column[k].title, "lr") &&
            (texts ? strcmp(here[k].text, before[k].text) != 0 : here[k].number != before[k].number))
            return false;
    }
    return true;
}

/* Higher is better; NAN: the cell does not count. */
static double score_of(const yk_table *t, size_t r, size_t c, const bool *left_out)
{
    if (!t->column[c].best || (t->run[r] >= 0 && left_out[t->run[r]]))
        return NAN;
    const double x = t->column[c].best * t->cell[r * t->columns + c].number;
    return isfinite(x) ? x : NAN;
}

void yk_table_mark(yk_table *t, const bool *left_out)
{
    for (size_t c = 0; !t->status && c < t->columns; c++) {
        double best = NAN, worst = NAN; /* if all are the same, none is the best */
        for (size_t r = 0; r < t->rows; r++) {
            best = fmax(best, score_of(t, r, c, left_out)); /* these ignore NAN */
            worst = fmin(worst, score_of(t, r, c, left_out));
        }
        for (size_t r = 0; best > worst && r < t->rows; r++)
            t->cell[r * t->columns + c].mark = score_of(t, r, c, left_out) == best;
    }
}

void yk_table_drop_empty_columns(yk_table *t)
{
    bool keep[COLUMNS];
    size_t columns = 0, cells = 0;
    if (t->status || !t->rows)
        return;
    for (size_t c = 0; c < t->columns; c++) {
        keep[c] = false;
        for (size_t r = 0; r < t->rows; r++) {
            const yk_cell *cell = &t->cell[r * t->columns + c];
            keep[c] |= cell->text ? *cell->text != 0 : isfinite(cell->number);
        }
    }
    for (size_t i = 0; i < t->cells; i++)
        if (keep[i % t->columns])
            t->cell[cells++] = t->cell[i];
    t->cells = cells;
    size_t lead = 0, keys = 0;
    for (size_t c = 0; c < t->columns; c++)
        if (keep[c]) {
            lead += c < t->lead;
            keys += c < t->keys;
            t->column[columns++] = t->column[c];
        }
    t->lead = lead;
    t->keys = keys;
    t->columns = columns;
}

void yk_table_csv(const yk_table *t, yk_text *out)
{
    bool spread[COLUMNS] = {false};
    for (size_t i = 0; i < t->cells; i++)
        spread[i % t->columns] |= isfinite(t->cell[i].spread);
    for (size_t c = 0; c < t->columns; c++) {
        yk_text_add(out, c ? "," : "");
        yk_text_csv(out, t->column[c].title);
        if (spread[c]) {
            yk_text_add(out, ",");
            yk_text_csv(out, t->column[c].title);
            yk_text_add(out, " deviation");
        }
    }
    yk_text_add(out, "\r\n");
    for (size_t i = 0; i < t->cells; i++) {
        const yk_cell *cell = &t->cell[i];
        size_t c = i % t->columns;
        yk_text_add(out, c ? "," : "");
        if (cell->text)
            yk_text_csv(out, cell->text);
        else
            yk_text_number(out, cell->number, 9);
        if (spread[c]) {
            yk_text_add(out, ",");
            yk_text_number(out, cell->spread, 9);
        }
        if (c + 1 == t->columns)
            yk_text_add(out, "\r\n");
    }
}

/* ---- for a terminal ---- */

/* Row 0 has the titles. */
static const char *plain_text(const yk_table *t, size_t row, size_t column, const char *unknown,
                              char number[static 32])
{
    const yk_cell *cell = &t->cell[(row - 1) * t->columns + column];
    if (!row)
        return t->column[column].title;
    snprintf(number, 32, cell->number == floor(cell->number) ? "%.0f" : "%.5g", cell->number);
    const char *text = cell->text ? cell->text : isfinite(cell->number) ? number : "";
    return *text ? text : unknown;
}

yk_status yk_table_print(const yk_table *t, bool indent, const char *unknown, FILE *f)
{
    char number[32], align[1 + COLUMNS + 1] = "<",
                                         *to = align + indent; /* an empty column indents the others */
    yk_text rows = {0}, out = {0};
    for (size_t c = 0; c < t->columns; c++)
        *to++ = t->column[c].words ? '<' : '>';
    *to = 0;
    for (size_t r = 0; r <= t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++)
            yk_text_print(&rows, "%s%s", c || indent ? "\t" : "", plain_text(t, r, c, unknown, number));
        yk_text_add(&rows, "\n");
    }
    yk_text_columns(&out, &rows, align);
    fputs(out.s ? out.s : "", f);
    const yk_status st = t->status ? t->status : out.status;
    yk_text_fini(&out);
    return st;
}
