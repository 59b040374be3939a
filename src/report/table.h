/* A table: columns with a unit, rows of numbers and texts. The page and the CSV, LaTeX and Markdown files are made from it.
 *
 * Example:
 *     yk_table t = {.id = "batch", .title = "Batch size"};
 *     yk_table_column(&t, &(yk_column){"batch", "examples per worker and step", YK_UNIT_INTEGER});
 *     yk_table_column(&t, &(yk_column){"accuracy", NULL, YK_UNIT_PERCENT_EXACT, .best = 1});
 *     yk_table_row(&t, 0);                        // the number of a run, for its color, or -1
 *     yk_table_number(&t, 64, NAN);               // then one cell per column
 *     yk_table_number(&t, 0.912, 0.003);          // mean and deviation
 *     yk_status st = t.status;                    // the first error
 *     yk_table_fini(&t);
 *
 * Cells are owned by the table, its texts are borrowed. Not thread-safe.
 */
#ifndef YK_REPORT_TABLE_H
#define YK_REPORT_TABLE_H

#include "base/arena.h"
#include "report/scale.h"
#include "report/text.h"
#include <stdio.h>

typedef struct {
    char title[40];
    const char *hint; /* borrowed; NULL: none */
    yk_unit unit;
    bool words;  /* texts, aligned left */
    int best;    /* 1: marks the highest, -1: the lowest, 0: none */
    bool option; /* an option of the runs, whose name is the title */
} yk_column;

typedef struct {
    const char *text;      /* of the table; NULL: a number */
    double number, spread; /* NAN: unknown; no spread */
    bool mark;
} yk_cell;

typedef struct {
    const char *id, *title, *note; /* borrowed */
    yk_column column[YK_TEXT_COLUMNS - 1];
    size_t columns;
    size_t lead;   /* consecutive rows with equal first `lead` columns form a group */
    size_t keys;   /* the first columns, which identify a row; 0: one */
    yk_cell *cell; /* [rows][columns] */
    size_t cells, cap;
    int *run; /* [rows] */
    size_t rows, run_cap;
    yk_arena texts;
    yk_status status;
} yk_table;

void yk_table_column(yk_table *t, const yk_column *column);
void yk_table_row(yk_table *t, int run);
void yk_table_number(yk_table *t, double x, double spread);
void yk_table_text(yk_table *t, const char *s); /* NULL: "" */

/* Several numbers without a spread. */
#define YK_TABLE_NUMBERS(t, ...)                                                                             \
    yk__table_numbers(t, (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))
void yk__table_numbers(yk_table *t, const double *x, size_t n);

void yk_table_fini(yk_table *t);

size_t yk_table_find(const yk_table *t, const char *title); /* the index of a column; t->columns: none */

/* Whether row r (not the first) is in the same group as the row before it: their leading columns are equal. The learning
 * rate does not count, since it is often changed together with the batch. */
bool yk_table_same_group(const yk_table *t, size_t r);

/* Marks the best cell of each column that has one, except for rows of runs with left_out[run]. */
void yk_table_mark(yk_table *t, const bool *left_out);

/* Removes the columns in which every cell is empty. */
void yk_table_drop_empty_columns(yk_table *t);

void yk_table_csv(const yk_table *t, yk_text *out);

/* For a terminal: numbers without units and deviations. unknown: in place of empty cells. */
yk_status yk_table_print(const yk_table *t, bool indent, const char *unknown, FILE *f);

/* markup.c: LaTeX table environments that need no packages, as many as are needed to fit the page width; a table in GitHub's
 * Markdown. */
void yk_table_latex(const yk_table *t, yk_text *out);
void yk_table_markdown(const yk_table *t, yk_text *out);

#endif
