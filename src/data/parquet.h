/* Internal to data/: what the files of parquet:FILES share. parquet_open.c opens the files, decides what each column is, and
 * finds means and values; parquet.c reads rows.
 *
 * The columns of the files become those of the schema (tabular.h), by name. Their types decide what they are, unless an option
 * says otherwise: texts are categorical, anything else is numeric. Equal values have the same features as in CSV. Columns
 * that cannot be read are an error, unless they are not used.
 *
 * A block is a row group, or a part of a large one, so that a file with one row group can be read by several threads. A reader
 * decodes up to 1024 rows of all columns and makes rows of them. Each value of a dictionary is hashed once for each block.
 * A reader is used by one thread.
 */
#ifndef YK_DATA_PARQUET_H
#define YK_DATA_PARQUET_H

#include "data/tabular.h"
#include "format/parquet.h"

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
    yk_tabular tabular;
    size_t nused, *used;      /* columns that are read */
    yk__parquet_table *table; /* [files] */
    yk__parquet_block *block; /* [nblocks] */
    size_t block_cap;
    yk_split_range part; /* with split-by: the rows of this part, by the value of a column */
    size_t split_by;     /* its place in `used` */
    double *missing;     /* [nmissing] numbers that mean "missing" */
    size_t nmissing;
} yk__parquet;

/* How values become features: numbers of a numeric column, categories that are texts, anything else. */
typedef enum { YK__PARQUET_OTHER, YK__PARQUET_NUMBER, YK__PARQUET_HASH } yk__parquet_treatment;

typedef struct {
    const yk_schema_column *column; /* NULL: only split-by or predictions use it */
    size_t number;                  /* of the column in the schema */
    const yk_parquet_values *values;
    yk__parquet_treatment treatment;
    uint64_t *hash; /* [values->texts] HASH; 0: missing */
    size_t hash_cap, hashed;
    uint64_t now[YK_PARQUET_BATCH]; /* HASH: of the rows of the batch */
} yk__parquet_cell;

static inline bool yk__parquet_has(const yk__parquet_cell *c, size_t i)
{
    return !c->values->valid || c->values->valid[i];
}

/* NaN: missing. */
static inline double yk__parquet_number(const yk__parquet *s, const yk__parquet_cell *c, size_t i)
{
    double v = c->values->real ? c->values->real[i] : (double)c->values->integer[i];
    for (size_t k = 0; k < s->nmissing; k++)
        v = v == s->missing[k] ? (double)NAN : v;
    return v;
}

/* The value as text, for messages, categories and split-by; `buffer` is for numbers. */
const char *yk__parquet_text(const yk__parquet_cell *c, size_t i, char buffer[40], size_t *n_out);

/* With split-by: whether row i of the batch is in the part. */
bool yk__parquet_in_part(const yk__parquet *s, const yk__parquet_cell *cells, size_t i);

/* Reads rows of the columns that are used. The caller frees *cells_out, also after a failure. */
yk_status yk__parquet_cells(const yk__parquet *s, const yk__parquet_table *t, const yk__parquet_block *b,
                            yk__parquet_cell **cells_out, yk_parquet_reader **in_out);

yk_status yk__parquet_open(yk_source *source, yk_spec *spec, yk_split split, const yk_source_options *o);
void yk__parquet_free(yk_source *source);

#endif
