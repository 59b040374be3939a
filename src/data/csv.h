/* csv:FILES: text files with columns, plain or compressed.
 *
 *     click,price,city,text
 *     1,9.5,Paris,"a ""quoted"" field, with a comma"
 *     0,,Rome,
 *
 * A column is the label, numeric, categorical or ignored. Rows without categorical columns are dense: one float for each
 * numeric column. With categorical columns, `encode` selects the kind of rows:
 *
 *     hash     sparse   | numeric columns: 0 .. k-1 | categories, hashed: k .. features-1 |
 *     onehot   sparse   | numeric columns: 0 .. k-1 | values of the first categorical column | of the second | ...
 *     dense    dense    the same columns as onehot
 *
 * A missing value is left out of a sparse row, and is 0 in a dense row. onehot, dense and scale=standard need statistics of
 * the data: one pass over the files of `fit` (by default, the data itself) finds the values of the categorical columns, and
 * the mean and standard deviation of the numeric columns. Categorical values that this pass did not find are ignored.
 *
 * csv_open.c decides what each column is, csv_fit.c makes that pass, csv.c reads rows.
 *
 * A line belongs to the block that holds its first byte. With multiline=1, quoted fields may contain line breaks; then a
 * file is one block, because a line break inside quotes cannot be distinguished from the end of a line.
 */
#ifndef YK_DATA_CSV_H
#define YK_DATA_CSV_H

#include "base/rng.h"
#include "data/text.h"
#include <string.h>

#define YK__CSV_KEYS                                                                                         \
    "header delimiter label numeric categorical ignore encode classes missing scale fit multiline bits "     \
    "features fields split-by"

enum { YK__CSV_MAX_COLUMNS = 65535, YK__CSV_LOGS = 4096 };

typedef enum { YK__CSV_NUMERIC, YK__CSV_CATEGORY, YK__CSV_LABEL, YK__CSV_IGNORED } yk__csv_role;
typedef enum { YK__CSV_HASH, YK__CSV_ONEHOT, YK__CSV_DENSE } yk__csv_encoding;
typedef enum { YK__CSV_AS_IS, YK__CSV_LOG, YK__CSV_STANDARD } yk__csv_scale;

typedef struct {
    yk__csv_role role;
    bool chosen;    /* the spec names it */
    uint32_t slot;  /* numeric: its index in the row */
    uint16_t field; /* its field number: its position among the numeric and categorical columns */
    uint64_t salt;  /* of the hash of a category */
    char *name;     /* from the header; without one, the field of the first line */
    float mean, factor;
} yk__csv_column;

/* Indices of categories by their hash: open addressing. */
typedef struct {
    size_t n, slots;
    struct yk__csv_value {
        uint64_t hash; /* 0: a free slot */
        uint32_t index;
    } * slot; /* [slots] */
} yk__csv_values;

/* A field of a line. */
typedef struct {
    const char *text; /* [n], without quotes; the 8 bytes after it are readable */
    size_t n;
    char *buffer; /* the text, if it has doubled quotes; owned */
    size_t cap;
} yk__csv_field;

typedef struct {
    yk_text_source text;
    char delimiter;
    bool header, fields, dense;
    yk__csv_encoding encode;
    yk__csv_scale scale;
    size_t ncolumns;
    yk__csv_column *column;
    size_t numeric, categories; /* columns of each kind */
    uint64_t features;
    yk__names classes; /* names of classes; none: labels are numbers */
    uint32_t nclasses; /* 0: not given */
    yk__names missing;
    atomic_uint labels_seen;
    yk_split_range part;        /* with split-by: the rows of this part, by the value of a column */
    size_t split_by;            /* that column */
    yk__csv_values values;      /* onehot and dense */
    float log_of[YK__CSV_LOGS]; /* YK__CSV_LOG: logarithms of small integers */
} yk__csv;

typedef struct {
    yk_text_reader text;
    yk__csv_field field;
    uint64_t *hash; /* [categories] */
} yk__csv_reader;

yk_status yk__csv_open(yk_source *s, yk_spec *spec, yk_split split, const yk_source_options *o);
yk_status yk__csv_fit(yk__csv *s, const char *where); /* where: files; NULL: those of the source */
yk_status yk__csv_parse(yk_text_reader *r, const char *line, size_t length, yk_rows *rows, bool *added_out);

/* ---- fields */

typedef enum { YK__CSV_FIELD, YK__CSV_NO_QUOTE, YK__CSV_AFTER_QUOTE, YK__CSV_NO_MEMORY } yk__csv_result;

/* A field that begins with a quote; otherwise as yk__csv_read(). */
yk__csv_result yk__csv_unquote(yk__csv_field *f, const char **p, const char *end, char delimiter);

/* Finds a byte in a word: the lowest set bit marks its first occurrence. */
static inline uint64_t yk__csv_find(uint64_t x, uint64_t pattern)
{
    x ^= pattern;
    return (x - YK__BYTES(1)) & ~x & YK__BYTES(0x80);
}

/* Bytes up to the delimiter or the end of the line; the 8 bytes after the end must be readable. */
static inline size_t yk__csv_length(const char *p, const char *end, char delimiter)
{
    const char *q = p;
    for (;; q += 8) {
        uint64_t x;
        memcpy(&x, q, sizeof x);
        x = yk__csv_find(x, YK__BYTES(delimiter));
        if (x || end - q <= 8) {
            q += x ? __builtin_ctzll(x) >> 3 : 8;
            return (size_t)((q < end ? q : end) - p);
        }
    }
}

/* Reads the field at *p, and moves *p to the delimiter after it or to the end of the line. If the quotes are wrong, *p is
 * unchanged. */
static inline yk__csv_result yk__csv_read(yk__csv_field *f, const char **p, const char *end, char delimiter)
{
    if (__builtin_expect(**p == '"' && *p != end, 0))
        return yk__csv_unquote(f, p, end, delimiter);
    f->text = *p;
    f->n = yk__csv_length(*p, end, delimiter);
    *p += f->n;
    return YK__CSV_FIELD;
}

/* Removes blanks at both ends. */
static inline void yk__csv_trim(const char **text, size_t *n)
{
    for (; *n && (**text == ' ' || **text == '\t'); --*n)
        ++*text;
    while (*n && ((*text)[*n - 1] == ' ' || (*text)[*n - 1] == '\t'))
        --*n;
}

/* The name of a column in a header: like a field, but without blanks around it, unless they are quoted. */
static inline yk__csv_result yk__csv_read_name(yk__csv_field *f, const char **p, const char *end,
                                               char delimiter)
{
    const bool quoted = *p != end && **p == '"';
    const yk__csv_result result = yk__csv_read(f, p, end, delimiter);
    if (!result && !quoted)
        yk__csv_trim(&f->text, &f->n);
    return result;
}

/* Models depend on this hash of (column, value): it must never change. It reads 8 bytes at a time, then the last 0 to 7. */
static inline uint64_t yk__csv_hash_word(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xd1342543de82ef95u;
    return h ^ h >> 29;
}

static inline uint64_t yk__csv_hash_end(uint64_t h, uint64_t x, size_t n)
{
    h ^= x & (((uint64_t)1 << 8 * (n & 7)) - 1);
    return yk_mix64(h + n * 0x9e3779b97f4a7c15u);
}

/* The 8 bytes after the text must be readable. */
static inline uint64_t yk__csv_hash(uint64_t salt, const char *text, size_t n)
{
    uint64_t x, h = salt;
    size_t left = n;
    for (; left >= 8; left -= 8, text += 8) {
        memcpy(&x, text, sizeof x);
        h = yk__csv_hash_word(h, x);
    }
    memcpy(&x, text, sizeof x);
    return yk__csv_hash_end(h, x, n);
}

/* A whole number of 1 to 8 digits, in the first n bytes of x. */
static inline bool yk__csv_digits(uint64_t x, size_t n, uint32_t *out)
{
    x = (x ^ YK__BYTES('0')) << (64 - 8 * n); /* leading zeros are shifted in */
    if ((x | (x + YK__BYTES(0x76))) & YK__BYTES(0x80))
        return false;
    *out = yk__text_number(x);
    return true;
}

/* A number, with blanks around it allowed; false: not a finite number. */
bool yk__csv_number(const char *text, size_t n, double *out);

/* For messages about a value that is not a number: a hint if it would be one with a decimal point, as 0,5; else "". */
const char *yk__csv_comma_hint(const char *text, size_t n);

/* Whether the value is missing: empty, or one of ?missing=; for numbers also NA, NaN and the like. */
bool yk__csv_missing(const yk__csv *s, const char *text, size_t n, bool numeric);

/* Whether the line is in s->part; also if it is bad, so that it is reported. */
bool yk__csv_in_part(const yk__csv *s, yk__csv_field *f, const char *line, const char *end);

/* "price" or "column 3", for messages. */
const char *yk__csv_name(const yk__csv *s, size_t column, char text_out[80]);

static inline const char *yk__csv_skip_bom(const char *line, size_t *length)
{
    const size_t mark = yk__bom(line, *length);
    *length -= mark;
    return line + mark;
}

/* ---- words */

/* Splits a list of words at its commas. trim: removes blanks around the words. */
yk_status yk__words_split(const char *list, bool trim, yk__names *out);
size_t yk__words_find(const yk__names *w, const char *text, size_t n); /* w->n: not found */

/* ---- values */

/* The slot of a hash, or the free slot where it would be. */
static inline struct yk__csv_value *yk__csv_value_at(const yk__csv_values *v, uint64_t hash)
{
    size_t i = (size_t)(hash >> 32) & (v->slots - 1);
    while (v->slot[i].hash && v->slot[i].hash != hash)
        i = (i + 1) & (v->slots - 1);
    return &v->slot[i];
}

#endif
