/* Internal to data/: what the files of parquet:FILES share. parquet_open.c opens the files, decides what each column is, and
 * finds means and values; parquet.c reads rows.
 *
 * The columns of the files become those of the schema (cells.h), by name. Columns that cannot be read are an error, unless they
 * are not used. A block is a row group, or a part of a large one, so that a file with one row group can be read by several
 * threads. A reader is used by one thread.
 */
#ifndef YK_DATA_PARQUET_H
#define YK_DATA_PARQUET_H

#include "data/cells.h"

typedef struct {
    yk_parquet *file;
    size_t *column; /* [own->ncolumns] where the columns of the first file are in this one */
} yk__parquet_table;

typedef struct {
    size_t table, group;
    uint64_t first, rows; /* of the row group */
    uint64_t row;         /* number of the first row in its file */
} yk__parquet_block;

typedef struct {
    yk__file_source base;
    yk__cell_table cells;
    yk__parquet_table *table; /* [files] */
    yk__parquet_block *block; /* [nblocks] */
    size_t block_cap;
} yk__parquet;

/* Reads rows of a block, of the columns that are used. The caller closes it, also after a failure. */
typedef struct {
    yk_reader base; /* in the pass that finds means and values: unused */
    yk__cells cells;
    yk_parquet_reader *in;
    const yk__parquet_block *block;
} yk__parquet_rows;

yk_status yk__parquet_rows_open(yk__parquet *s, const yk__parquet_table *t, yk__parquet_rows *r);
void yk__parquet_rows_close(yk__parquet_rows *r);

yk_status yk__parquet_open(yk_source *source, yk_spec *spec, yk_split split, const yk_source_options *o);
void yk__parquet_free(yk_source *source);

#endif
