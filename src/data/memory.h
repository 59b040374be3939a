/* A source of rows that the caller of the library has in memory (yoke.h).
 *
 * Example:
 *     yk_memory_data m = {.rows = {.kind = YK_ROWS_F32, .n = n, .dim = dim, .f32 = x, .label = labels}};
 *     yk_source *s;
 *     yk_status st = yk_memory_check(&m);
 *     if (!st)
 *         st = yk_source_from_memory(&m, YK_FIELDS_NONE, &s);  // the arrays must stay valid until it is freed
 *
 * The arrays are borrowed and never modified. Dense rows are used in place. Sparse rows are copied, and the copy is laid out
 * for speed, unless `in_place` is set. Rows in place that are in random order (`mixed`) are visited in groups of neighbors.
 */
#ifndef YK_DATA_MEMORY_H
#define YK_DATA_MEMORY_H

#include "data/source.h"

typedef struct {
    yk_rows rows;                   /* borrowed arrays */
    size_t channels, height, width; /* images; else 0 */
    uint32_t classes;               /* set by yk_memory_check() if it is 0 */
    bool in_place;
    /* set by yk_memory_check() */
    bool ascending; /* sparse: indices ascend in every row */
    bool mixed;     /* the labels of neighboring rows differ about as often as in random order */
} yk_memory_data;

/* Checks labels, indices, values and starts; a YK_EDATA error names the first invalid row. Sets rows.value to NULL if all
 * values are 1. */
yk_status yk_memory_check(yk_memory_data *m);

/* Checks indices and values of some sparse rows, whose starts are correct, in one thread; `first` is the number of the first
 * row in messages. Sets rows->value to NULL if all values are 1. */
yk_status yk_memory_check_block(yk_rows *rows, size_t first);

/* Rows begin to end - 1 of checked data, in place. */
yk_memory_data yk_memory_part(const yk_memory_data *m, size_t begin, size_t end);

/* With YK_FIELDS_NONE, field numbers are ignored. */
yk_status yk_source_from_memory(const yk_memory_data *m, yk_fields fields, yk_source **out);

#endif
