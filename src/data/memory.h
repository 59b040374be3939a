/* A source of rows that the caller of the library has in memory (yoke.h).
 *
 * Example:
 *     yk_memory_data m = {.rows = {.kind = YK_ROWS_F32, .n = n, .dim = dim, .f32 = x, .label = labels}};
 *     yk_source *s;
 *     yk_status st = yk_memory_check(&m);
 *     if (!st)
 *         st = yk_source_from_memory(&m, &options, &s);  // the arrays must stay valid until it is freed
 *
 * The arrays are borrowed and never modified. Dense rows are used in place. Sparse rows are copied, and the copy is laid out
 * for speed, unless `in_place` is set. Rows in place that are in random order (`mixed`) are visited in groups of neighbors.
 *
 * Rows with `key` instead of rows.index have 64-bit keys, which readers of the source convert to column numbers. With hash_bits, they
 * hash keys as the readers of files do; otherwise, keys are column numbers and must be below rows.dim.
 */
#ifndef YK_DATA_MEMORY_H
#define YK_DATA_MEMORY_H

#include "data/source.h"

typedef struct {
    /* a table instead of rows (frame.h): the other members are not used; borrowed. NULL: none */
    struct yk_frame *frame;
    yk_rows rows;       /* borrowed arrays */
    const int64_t *key; /* [start[n]]; NULL: rows.index has the column numbers. Not with in_place */
    size_t channels, height, width; /* images; else 0 */
    uint32_t classes;               /* set by yk_memory_check() if it is 0 */
    bool in_place;
    bool unlabeled; /* the labels are only placeholders: for predictions */
    /* set by yk_memory_check() */
    bool ascending; /* sparse: indices ascend in every row */
    bool mixed;     /* the labels of neighboring rows differ about as often as in random order */
} yk_memory_data;

/* Checks labels, indices (not keys), values and starts; a YK_EDATA error names the first invalid row. Sets rows.value to NULL
 * if all values are 1 and there are no keys. */
yk_status yk_memory_check(yk_memory_data *m);

/* Checks only labels (if there are any), weights and targets. Sets *classes if it is 0. */
yk_status yk_memory_check_labels(const yk_rows *rows, uint32_t *classes);

/* Checks indices and values of some sparse rows, whose starts are correct, in one thread; `first` is the number of the first
 * row in messages. Sets rows->value to NULL if all values are 1. */
yk_status yk_memory_check_block(yk_rows *rows, size_t first);

/* Appends row r of `from`, sorted by column. Its keys, which begin at key[from->start[r]], are converted to column numbers; key
 * NULL: `from` has indices. `number` is the row's number in messages. */
yk_status yk_memory_append_sorted(const yk_rows *from, const int64_t *key, size_t r, yk_key_space keys,
                                  size_t number, yk_rows *rows);

/* With YK_FIELDS_NONE, field numbers are ignored. hash_bits and features apply to keys and tables only. */
yk_status yk_source_from_memory(const yk_memory_data *m, const yk_source_options *options, yk_source **out);

#endif
