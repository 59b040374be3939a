/* What tabular formats share: the options of their specs, the role of each column, matching with the schema of a model, and
 * the pass that finds means and values.
 *
 * Opening a format:
 *
 *     st = yk_tabular_init(t);                                       // reads the options of YK_TABULAR_KEYS
 *     yk_schema_add(t->own, name, length, "int64", YK_COLUMN_NUMERIC); // for each column of the file, in order
 *     t->own->header = true;                                        // the columns have names
 *     st = yk_tabular_columns(t);                                    // what each column is; t->column[i], and t->split_by
 *     st = yk_tabular_finish(t, rows);                               // numbers the columns; sets dim, classes, ... of the source
 *     ...
 *     yk_tabular_free(source);
 *
 * With options.schema, the schema of a model, columns are matched by name, in any order; more columns are ignored with a note,
 * missing ones are YK_EDATA, and an option that contradicts the schema is YK_EUSAGE. Without a header, columns are matched
 * by position. A label and weights may be missing if options.unlabeled.
 *
 * If rows need statistics, with onehot, dense and scale=standard, and no model has them, yk_tabular_finish() reads the data once
 * (tabular_fit.c), or the files of ?fit: as another source of the same format, whose schema is the unfinished one, and whose readers
 * pass the cells of all rows to yk_source_options.fit.
 */
#ifndef YK_DATA_TABULAR_H
#define YK_DATA_TABULAR_H

#include "base/text.h"
#include "data/columns.h"
#include "data/formats.h"

#define YK_TABULAR_KEYS "fit " YK_FRAME_KEYS
#define YK_FRAME_KEYS                                                                                        \
    "label weight numeric categorical id ignore encode classes missing scale bits features fields"

/* A source of a tabular format begins with it. */
typedef struct yk_tabular {
    yk_source base;
    yk_schema *own;          /* the columns of the file; without a model also their roles and encoding */
    const yk_schema *schema; /* by which rows are encoded: `own`, or that of the model; borrowed */
    const yk_schema_column **column; /* [own->ncolumns] the column of `schema`; NULL: not used */
    size_t *carry;    /* [source->ncarry] columns of the file: yk_source_options.carry, in that order */
    bool carries_all; /* in the order of the file */
    bool fields;      /* rows have field numbers */
    bool weights;     /* the caller of a frame has those of the rows: no column is needed */
    atomic_uint labels_seen;
    /* [schema->ncolumns] YK_SEEN_KNOWN, YK_SEEN_UNKNOWN: the values that a one-hot column of a model had so far; NULL: no such column */
    atomic_uchar *seen;
    /* with split-by: the rows of this part, by the value of a column; the source then has none */
    yk_split_range part;
    size_t split_by; /* that column of the file */
} yk_tabular;

yk_status yk_tabular_init(yk_tabular *t);
void yk_tabular_free(yk_source *t); /* yk_source_ops.free */

yk_status yk_tabular_columns(yk_tabular *t);

/* rows: of the data, perhaps estimated; 0: not known. */
yk_status yk_tabular_finish(yk_tabular *t, uint64_t rows);

/* "column 3 (price)", for column i of the file. */
const char *yk_tabular_name(const yk_tabular *t, size_t i, char text_out[80]);

/* For readers: whether the cells of a good row are also needed as they are. Then readers begin a row, and pass the text of each column
 * i of the file, in any order; if there are statistics, numbers need not be converted to texts. */
static inline bool yk_tabular_keeps(const yk_tabular *t)
{
    return t->base.ncarry || t->base.options.fit;
}
yk_status yk_tabular_row(const yk_tabular *t, yk_reader *r);
yk_status yk_tabular_text(const yk_tabular *t, yk_reader *r, size_t i, const char *text, size_t n);

/* ---- internal */
typedef struct yk_fit yk_fit;
yk_status yk__tabular_match(yk_tabular *t);
const char *yk__tabular_list(const yk_schema *s, char list[400]); /* yk_text_item() */
/* One of the types is a date or a timestamp, and the other means something else. */
bool yk__time_differs(const char *type, const char *other);
yk_status yk__tabular_types(const yk_tabular *t); /* after the types of the columns are known */
/* two columns that a model would use have different names */
yk_status yk__tabular_unique(const yk_tabular *t);
bool yk__fit_needed(const yk_schema *s);
yk_status yk__fit(yk_tabular *t);
void yk__fit_row(yk_fit *f);
void yk__fit_number(yk_fit *f, const yk_schema_column *c, double v);
yk_status yk__fit_text(yk_fit *f, const yk_schema_column *c, const char *text, size_t n);

#endif
