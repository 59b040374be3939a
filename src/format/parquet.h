/* Reads Parquet files with flat schemas: some columns of a row group, up to 1024 rows at a time.
 *
 * Example:
 *     yk_parquet *f;
 *     yk_parquet_reader *r;
 *     yk_status st = yk_parquet_open("a.parquet", &f);              // reads the footer: columns and row groups
 *     st = yk_parquet_read(f, 0, column, 2, 0, f->group[0].rows, &r); // row group 0, columns column[0] and column[1]
 *     for (size_t got = 1; !st && got;) {
 *         st = yk_parquet_next(r, &got);
 *         const yk_parquet_values *v = yk_parquet_values_of(r, 0);  // borrowed until the next call
 *         for (size_t i = 0; i < got; i++)
 *             if (!v->valid || v->valid[i])
 *                 use(v->text[v->code[i]].bytes);
 *     }
 *     yk_parquet_reader_free(r);
 *     yk_parquet_free(f);
 *
 *     "PAR1" | pages of the columns of row group 0 | of row group 1 | ... | footer | its length: 4 | "PAR1"
 *     page   | header | definition levels (1: there is a value) | values |
 *
 * The footer and the headers of pages are structures of Thrift's compact protocol (parquet_footer.c). Pages of version 1 and
 * 2, plain or compressed with Snappy, gzip or Zstandard (parquet_codec.c), contain values as PLAIN, dictionary, RLE or
 * DELTA_BINARY_PACKED (parquet_values.c). Anything else is refused by name, but only in columns that are read: nested columns,
 * decimals, INT96, other encodings, other compression, encryption.
 *
 * A damaged file is YK_EDATA with the file, row group, column and byte: nothing that a file says is used before it is checked.
 * Memory is bounded by the pages: a page has at most 1 GiB, and at most as much as its compressed bytes can expand to.
 *
 * yk_parquet does not change: any thread may use it. It holds no file open; a reader does, and is used by one thread.
 *
 * docs/experiments-log.md (Reading) says why this is our own, and not a library.
 */
#ifndef YK_FORMAT_PARQUET_H
#define YK_FORMAT_PARQUET_H

#include "base/arena.h"
#include <sys/stat.h>

#ifdef YK_FUZZING
enum { YK_PARQUET_BATCH = 32 }; /* small inputs have several batches */
#else
enum { YK_PARQUET_BATCH = 1024 }; /* rows */
#endif
enum { YK_PARQUET_TEXT_SIZE = 40 }; /* of a number */

typedef enum {
    YK_PARQUET_INTEGER, /* BOOLEAN, INT32, INT64, dates (days since 1970) and times of day */
    YK_PARQUET_REAL,    /* FLOAT, DOUBLE, and timestamps, in seconds since 1970 */
    YK_PARQUET_TEXT     /* BYTE_ARRAY */
} yk_parquet_kind;

/* How the text of a number is written. */
typedef enum {
    YK_PARQUET_NUMBER, /* int64_t or double */
    YK_PARQUET_UNSIGNED,
    YK_PARQUET_BOOLEAN, /* 0 or 1 */
    YK_PARQUET_HALF,
    YK_PARQUET_FLOAT,
    YK_PARQUET_DATE, /* days since 1970 */
    YK_PARQUET_TIME  /* timestamps: seconds since 1970, UTC */
} yk_parquet_form;

typedef struct {
    const char *name;
    const char *type;    /* as in the format: "INT64", "DATE", "STRING" */
    const char *refused; /* why it cannot be read; NULL: it can */
    yk_parquet_kind kind;
    bool optional;
    uint8_t physical; /* the type of the stored values */
    bool is_unsigned;
    yk_parquet_form form;
    double unit;  /* timestamps: seconds; 0: other types */
    size_t chunk; /* index of its chunks in row groups */
} yk_parquet_column;

/* The pages of a column in a row group. */
typedef struct {
    uint64_t offset, bytes; /* within the file */
    uint8_t physical;
    uint8_t codec;
    uint8_t limit_bytes;       /* of each limit; 0: not known */
    uint8_t least[8], most[8]; /* the limits of its numbers, as they are stored */
    const char *refused;
} yk_parquet_chunk;

typedef struct {
    uint64_t rows;
    yk_parquet_chunk *chunk; /* [chunks] */
} yk_parquet_group;

typedef struct {
    yk_arena arena; /* of texts and chunks */
    const char *path;
    struct stat state; /* of the file that was read */
    uint64_t rows;
    size_t ncolumns, chunks, ngroups;
    yk_parquet_column *column; /* [ncolumns]; a nested column is one of them */
    yk_parquet_group *group;   /* [ngroups] */
    size_t column_cap, group_cap;
} yk_parquet;

/* A value, or an entry of a dictionary; the 8 bytes after it can be read. */
typedef struct {
    const char *bytes;
    size_t n;
} yk_parquet_text;

/* The values of a column; one of integer, real and code is set. Where there is no value, they are 0. */
typedef struct {
    const uint8_t *valid; /* [n] 1: there is a value, 0: null; NULL: all have values */
    const int64_t *integer;
    const double *real;
    yk_parquet_form form; /* UNSIGNED: the integers are uint64_t */
    const uint32_t *code; /* the value is text[code[i]] */
    /* [texts]: first the dictionary of the row group, which does not change from call to call, then other values. With nulls,
     * the code 0 may be beyond it. */
    const yk_parquet_text *text;
    size_t dictionary, texts;
    uint64_t page; /* where their page begins in the file, for messages; UINT64_MAX: not in a file */
} yk_parquet_values;

/* Writes number i as most CSV files do: 10, 0.1, true, 2024-02-29, 2024-02-29 12:30:00.5; "" if it is null or NaN. */
void yk_parquet_number_text(const yk_parquet_values *v, size_t i, char out[YK_PARQUET_TEXT_SIZE]);

typedef struct yk_parquet_reader yk_parquet_reader;

yk_status yk_parquet_open(const char *path, yk_parquet **out);
void yk_parquet_free(yk_parquet *f);                               /* NULL is fine */
yk_status yk_parquet_readable(const yk_parquet *f, size_t column); /* YK_EDATA: the column is refused */

/* Reads `rows` rows of a row group, from its row `first` on, of columns column[0..ncolumns). f is borrowed. YK_EDATA: the file
 * has changed since it was opened, or a column cannot be read. */
yk_status yk_parquet_read(const yk_parquet *f, size_t group, const size_t *column, size_t ncolumns,
                          uint64_t first, uint64_t rows, yk_parquet_reader **out);
void yk_parquet_reader_free(yk_parquet_reader *r); /* NULL is fine */

/* The next rows, at most YK_PARQUET_BATCH; *got_out is 0 at the end. */
yk_status yk_parquet_next(yk_parquet_reader *r, size_t *got_out);
/* YK_EDATA: the file has changed since it was opened */
yk_status yk_parquet_unchanged(const yk_parquet_reader *r);
const yk_parquet_values *yk_parquet_values_of(const yk_parquet_reader *r, size_t i); /* of column[i] */

#endif
