/* What a model knows about its data: the columns of a table by name, and how their values become features.
 *
 *     {"version":1, "format":"csv", "header":true, "encode":"onehot", "features":3, "scale":"standard", "missing":["?"],
 *      "classes":["no","yes"], "fields":2,
 *      "columns":[{"name":"clicked", "role":"label", "type":"text"},
 *                 {"name":"price", "role":"numeric", "type":"number", "index":0, "field":0, "mean":4.5, "deviation":1.5},
 *                 {"name":"city", "role":"categorical", "type":"text", "index":1, "field":1, "values":["Paris","Rome"]}],
 *      "image":null, "fit":null, "standardize":null}
 *
 * The training data determines the schema (tabular.h); the metadata of a model file contains it as JSON (train/trained.h), so
 * that other data is read in the same way. A format without columns, such as libsvm, has only `format`, `classes` and `image`.
 * A text that is not UTF-8 is written as {"latin1":"..."}, with one character for each byte.
 *
 * Example:
 *     yk_schema *s;
 *     const char *text = "{\"version\":1,\"format\":\"idx\"}";
 *     yk_status st = yk_schema_parse(text, "runs/a", &s);              // the name is for messages
 *     char *json = yk_schema_write(s);                                 // the caller frees it; NULL: out of memory
 *     yk_schema_free(s);
 *
 * Rows are dense if there are no categorical columns, or with YK_ENCODE_DENSE. Otherwise they are sparse:
 *
 *     hash     | numeric columns: 0 .. k-1 | categories, hashed: k .. features-1 |
 *     onehot   | numeric columns: 0 .. k-1 | values of the first categorical column | of the second | ...
 *     dense    the same columns as onehot
 *
 * A missing value is left out of a sparse row, and is 0 in a dense row. Values that are not among those of a one-hot column
 * are left out, too. A finished schema is immutable: any thread may read it.
 */
#ifndef YK_DATA_SCHEMA_H
#define YK_DATA_SCHEMA_H

#include "base/arena.h"
#include "data/files.h"
#include <string.h>

#define YK_SCHEMA_VERSION 1

typedef enum {
    YK_COLUMN_NUMERIC,
    YK_COLUMN_CATEGORICAL,
    YK_COLUMN_LABEL,
    YK_COLUMN_WEIGHT,
    YK_COLUMN_ID,
    YK_COLUMN_IGNORED
} yk_column_role; /* those above CATEGORICAL are not features */

typedef enum { YK_ENCODE_HASH, YK_ENCODE_ONEHOT, YK_ENCODE_DENSE } yk_encoding;
typedef enum { YK_SCALE_NONE, YK_SCALE_LOG, YK_SCALE_STANDARD } yk_scale;

typedef struct {
    yk_column_role role;
    uint32_t index; /* its first feature; hashed: the first one of all categories */
    uint64_t salt;  /* of the hash of a category; depends on `field` only */
    uint16_t field; /* its position among the numeric and categorical columns */
    bool chosen;    /* while the schema is made: an option names it */
    bool typed;     /* a category of a format with types, and not a text: yk_row_text() */
    /* YK_SCALE_STANDARD: x = (v - mean) * factor */
    double mean, deviation, factor;
    char *name;       /* without a header, the field of the first line */
    char type[16];    /* of its values, for people: "number", "text", "int64" */
    yk__names values; /* onehot, dense: in the order of their features */
} yk_schema_column;

/* Features of one-hot values by their hash: open addressing. */
typedef struct {
    size_t n, slots;
    struct yk_schema_value {
        uint64_t hash; /* 0: a free slot */
        uint32_t index;
    } * slot; /* [slots] */
} yk_schema_values;

typedef struct yk_schema {
    yk_arena arena;     /* of texts and arrays */
    const char *format; /* "csv" */
    bool header;        /* the columns have names, and are matched by name */
    yk_encoding encode;
    yk_scale scale;
    size_t ncolumns, column_cap;
    yk_schema_column *column;
    size_t numeric, categories; /* columns of each role */
    uint64_t features;          /* of a row */
    yk__names classes;          /* names of classes; none: labels are numbers */
    uint32_t nclasses;          /* 0: not given */
    yk__names missing;          /* values that mean "missing", besides the usual ones */
    double *missing_number;     /* [nmissing] those that are numbers, for numeric columns */
    size_t nmissing;
    double *class_number; /* [classes.n] the numbers that they name; NaN: none */
    yk_schema_values values;
    float *log_of; /* [YK_SCHEMA_LOGS] YK_SCALE_LOG: logarithms of small integers */
    size_t height, width, channels;
    const char *fit;         /* how images of other sizes were scaled: "crop". NULL: they were not */
    const char *options;     /* of the spec, which all data of the model needs: yk_spec_kept(). NULL: none */
    const char *standardize; /* of images, as in the metadata of a model. NULL: not known */
} yk_schema;

#ifdef YK_FUZZING
enum { YK_SCHEMA_LOGS = 16 };
#else
enum { YK_SCHEMA_LOGS = 4096 };
#endif
enum { YK_SCHEMA_MAX_COLUMNS = 65535 };

yk_status yk_schema_create(const char *format,
                           yk_schema **out); /* the caller frees it, even after a failure */
void yk_schema_free(yk_schema *s);           /* NULL is fine */

/* Appends a column. The role may still change. */
yk_status yk_schema_add(yk_schema *s, const char *name, size_t n, const char *type, yk_column_role role);

/* After roles, encoding, features (hash) and values are set: numbers the columns, and makes what encoding needs. */
yk_status yk_schema_finish(yk_schema *s);

/* YK_EDATA: damaged, or too new */
yk_status yk_schema_parse(const char *text, const char *name, yk_schema **out);
char *yk_schema_write(const yk_schema *s);

/* "label clicked, 3 numeric, 4 categorical (hashed, 2^18), 1 ignored". The caller frees it; NULL: out of memory. */
char *yk_schema_summary(const yk_schema *s);

extern const char *const yk_column_role_name[], *const yk_encoding_name[], *const yk_scale_name[];

/* "column 3 (price)" or "column 3", for messages. */
const char *yk_schema_name(const yk_schema *s, const yk_schema_column *c, char text_out[80]);

/* "price" or, without a header, "column 3". */
const char *yk_schema_title(const yk_schema *s, const yk_schema_column *c, char number_out[32]);

static inline bool yk_schema_dense(const yk_schema *s)
{
    return s->categories == 0 || s->encode == YK_ENCODE_DENSE;
}

static inline bool yk_schema_hashes(const yk_schema *s)
{
    return s->categories && s->encode == YK_ENCODE_HASH;
}

static inline bool yk_is_feature(const yk_schema_column *c)
{
    return c->role <= YK_COLUMN_CATEGORICAL;
}

/* pandas writes an index without a name as such a column; tables ignore it by default. */
static inline bool yk_is_pandas_index(const yk_schema_column *c)
{
    return !strncmp(c->name, "__index_level_", 14);
}

/* The first column with this role; NULL: none. */
const yk_schema_column *yk_schema_first(const yk_schema *s, yk_column_role role);

/* The slot of a hash, or the free slot where it would be. */
static inline struct yk_schema_value *yk_schema_value_at(const yk_schema_values *v, uint64_t hash)
{
    size_t i = (size_t)(hash >> 32) & (v->slots - 1);
    while (v->slot[i].hash && v->slot[i].hash != hash)
        i = (i + 1) & (v->slots - 1);
    return &v->slot[i];
}

/* *new_out: the hash was not there; its index is then v->n before the call. */
yk_status yk_schema_value_add(yk_schema_values *v, uint64_t hash, bool *new_out);

#endif
