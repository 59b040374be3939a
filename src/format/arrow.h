/* Decodes columns of Arrow arrays: tables in memory that pyarrow, polars, pandas and others export through Arrow's C data interface
 * (arrow.apache.org/docs/format/CDataInterface.html).
 *
 * Example:
 *     yk_arrow_type type = yk_arrow_type_of(schema);                  // type.refused: its values cannot be read
 *     yk_arrow_values *v = calloc(1, sizeof *v);
 *     yk_status st = yk_arrow_open(v, &type, array, 1000, "price");   // the array is borrowed until the next open or fini
 *     st = yk_arrow_decode(v, 0, 1000);                               // at most 1024 values: v->out, as those of Parquet files
 *     yk_arrow_fini(v);
 *
 * Values are those of Parquet files: dates are days and timestamps are seconds since 1970, booleans are 0 and 1. The values of
 * a dictionary become texts, even if they are numbers. float64 and 64-bit integers are used in place.
 *
 * Arrays are in the memory of the caller. The interface does not give the sizes of buffers, so offsets into them are not checked. A
 * yk_arrow_values is used by one thread.
 */
#ifndef YK_FORMAT_ARROW_H
#define YK_FORMAT_ARROW_H

#include "format/parquet.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out); /* out->release NULL: the end */
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

typedef struct {
    const char *name;    /* "int64", "timestamp[us]", "dictionary" */
    const char *refused; /* the name of a type that is not supported; NULL: it can be read */
    /* how values are stored, as in Arrow's format strings; index: into a dictionary, else 0 */
    char letter, index;
    yk_parquet_kind kind; /* of its values; with a dictionary, of those of the dictionary */
    double unit;          /* timestamps: seconds; else 0 */
    int64_t divisor;      /* date64: milliseconds per day; else 1 */
    yk_parquet_form form; /* of its values, as `kind` */
    bool is_text;         /* texts or a dictionary */
} yk_arrow_type;

yk_arrow_type yk_arrow_type_of(const struct ArrowSchema *s);

typedef struct {
    yk_parquet_values out;
    yk_arrow_type type;
    const struct ArrowArray *array; /* borrowed */
    const char *name;               /* of the column, for messages; borrowed */
    yk_parquet_text *text;    /* those of the dictionary, if there is one, and then those of the batch */
    size_t text_cap, entries; /* entries: of the dictionary */
    bool direct;  /* the dictionary has more entries than rows: only the texts of each batch are returned */
    char *digits; /* numbers of a dictionary as texts */
    uint8_t valid[YK_PARQUET_BATCH];
    uint32_t code[YK_PARQUET_BATCH];
    uint64_t value[YK_PARQUET_BATCH];
} yk_arrow_values;

/* rows: about how many will be decoded. YK_EDATA: the array is not what its type says. */
yk_status yk_arrow_open(yk_arrow_values *v, const yk_arrow_type *type, const struct ArrowArray *array,
                        size_t rows, const char *name);
yk_status yk_arrow_decode(yk_arrow_values *v, size_t first, size_t n);
void yk_arrow_fini(yk_arrow_values *v); /* not the array */

/* Internal to format/: values first to first + n - 1 at p, as int64_t or double. letter: their type, as in Arrow's format
 * strings. */
void yk__arrow_convert(char letter, const void *p, size_t first, size_t n, void *out);

#endif
