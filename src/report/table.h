/* A table: columns with a unit, rows of numbers and texts. The page and the CSV files are both made of it.
 *
 *     yk_table t = {.id = "batch", .title = "Batch size"};
 *     yk_table_column(&t, "batch", YK_UNIT_WHOLE, "examples per worker and step");
 *     yk_table_column(&t, "accuracy", YK_UNIT_SHARE, NULL);
 *     yk_table_row(&t, run);                      // the number of a run whose colour it gets, or -1
 *     yk_table_number(&t, 64, NAN);               // then a cell for each column
 *     yk_table_number(&t, 0.912, 0.003);          // mean and deviation
 *     st = t.status;                              // the first error sticks
 *     yk_table_fini(&t);
 */
#ifndef YK_REPORT_TABLE_H
#define YK_REPORT_TABLE_H

#include "base/status.h"
#include "report/scale.h"
#include "report/text.h"
#include <stddef.h>

typedef struct {
    const char *title; /* borrowed */
    yk_unit unit;
    bool words;       /* texts: to the left */
    const char *hint; /* borrowed, NULL: none */
    int best;         /* 1: the highest is marked, -1: the lowest, 0: none */
} yk_column;

typedef struct {
    char *text;            /* owned; NULL: a number */
    double number, spread; /* NAN: not known; no spread */
    bool mark;
} yk_cell;

typedef struct {
    const char *id, *title, *note; /* borrowed */
    yk_column column[48];
    size_t columns;
    size_t lead;   /* rows whose first so many columns are equal belong together */
    yk_cell *cell; /* [rows][columns] */
    size_t cells, cap;
    int *run; /* [rows] */
    size_t rows, run_cap;
    yk_status status;
} yk_table;

void yk_table_column(yk_table *t, const char *title, yk_unit unit, const char *hint);
void yk_table_words(yk_table *t, const char *title, const char *hint);
void yk_table_row(yk_table *t, int run);
void yk_table_number(yk_table *t, double x, double spread);
void yk_table_text(yk_table *t, const char *s);
void yk_table_fini(yk_table *t);

size_t yk_table_find(const yk_table *t, const char *title); /* its number; t->columns: there is none */

/* Is row r (not the first) of the same group as the one before it? By the leading columns, but for the learning rate, which
 * often goes with what is compared. */
bool yk_table_together(const yk_table *t, size_t r);

/* Marks the best cell of each column that has one; among rows whose run is not left_out[run]. */
void yk_table_mark(yk_table *t, const bool *left_out);

/* Leaves out the columns in which every cell is empty, and what they hold. */
void yk_table_squeeze(yk_table *t);

void yk_table_csv(const yk_table *t, yk_text *out);

#endif
