/* Internal to data/: tables that are decoded by column, up to 1024 rows at a time: Parquet files and frames. A format decodes the
 * columns that are used; this code turns them into rows.
 *
 *     open:    st = yk_tabular_columns(&s->table.tabular);                // the columns are in the schema (tabular.h)
 *              st = yk__cell_table_choose(&s->table);                     // the columns that are used, split-by, missing
 *              st = yk_tabular_finish(&s->table.tabular, rows);
 *     reader:  r->base.cells = (yk__cells){.table = &s->table, .decode = decode, .file = path, .row = first};
 *              st = yk__cells_open(&r->base);                             // then yk__cells_bind() for each used column
 *     close:   yk__cells_close(&r->base.cells);
 *
 * The type of a column determines its role, unless an option says otherwise: texts are categorical, anything else is numeric.
 * Equal values have the same features as in CSV, if written in the same way. Each value of a dictionary is hashed once for each
 * reader. A table does not change once it is open; cells are used by one thread.
 */
#ifndef YK_DATA_CELLS_H
#define YK_DATA_CELLS_H

#include "data/tabular.h"
#include "format/parquet.h"

/* The source of a format begins with it. */
typedef struct {
    yk_tabular tabular;
    size_t nused, *used; /* columns that are read */
    size_t split_by;     /* tabular.split_by, as an index in `used` */
    /* labels, weights and targets of the caller, instead of columns; each may be NULL */
    const yk_rows *given;
} yk__cell_table;

/* How values become features: numbers of a numeric column, categories that are texts, anything else. */
typedef enum { YK__CELL_OTHER, YK__CELL_NUMBER, YK__CELL_HASH, YK__CELL_TREATMENTS } yk__cell_treatment;

/* A column that is used. */
typedef struct {
    const yk_schema_column *column; /* NULL: only split-by or predictions use it */
    size_t number;                  /* of the column in the schema */
    const yk_parquet_values *values;
    yk__cell_treatment treatment;
    uint64_t *hash; /* [values->texts] HASH; 0: missing */
    size_t hash_cap, hashed;
    bool bad; /* NUMBER: some values of the batch are infinite, or too large for a float */
    union {
        uint64_t now[YK_PARQUET_BATCH]; /* HASH: of the rows of the batch */
        float x[YK_PARQUET_BATCH];      /* NUMBER: likewise, scaled; 0: missing */
    };
} yk__cell;

typedef struct yk__cell_reader yk__cell_reader;

typedef struct {
    yk__cell_table *table;
    /* Decodes the next rows; *n_out is 0 at the end. */
    yk_status (*decode)(yk__cell_reader *r, size_t *n_out);
    const char *file;                  /* for messages; borrowed */
    yk__cell *cell;                    /* [nused] */
    yk_row to;                         /* the current row */
    char digits[YK_PARQUET_TEXT_SIZE]; /* of a number as text */
    uint64_t
        row; /* the number of the first row of the batch, in messages and `given`; a reader sets that of its first row */
    size_t n, at; /* of the batch */
    /* the cells of columns, by treatment */
    size_t *list[YK__CELL_TREATMENTS], count[YK__CELL_TREATMENTS];
} yk__cells;

/* The reader of a format begins with it. */
struct yk__cell_reader {
    yk_reader base;
    yk__cells cells;
};

/* Which columns are used; the caller checks that they can be read. */
yk_status yk__cell_table_choose(yk__cell_table *t);

yk_status yk__cells_open(yk__cell_reader *r);
/* sets those of the k-th used column; borrowed */
void yk__cells_bind(yk__cells *c, size_t k, const yk_parquet_values *values);
yk_status yk__cells_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out); /* yk_source_ops.next */
void yk__cells_close(yk__cells *c);

#endif
