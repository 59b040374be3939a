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
    "features fields"

enum { YK__CSV_MAX_COLUMNS = 65535 };

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

/* Words that are separated by commas. */
typedef struct {
    size_t n, cap;
    char **word; /* owned */
} yk__words;

/* Indices of categories by their hash: open addressing, 0 is a free slot. */
typedef struct {
    size_t n, slots;
    uint64_t *hash;
    uint32_t *index;
} yk__csv_values;

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
    yk__words classes; /* names of classes; none: labels are numbers */
    uint32_t nclasses; /* 0: not given */
    yk__words missing;
    atomic_uint labels_seen;
    yk__csv_values values; /* onehot and dense */
    float *log_of;         /* YK__CSV_LOG: logarithms of small integers */
} yk__csv;

typedef struct {
    yk_text_reader text;
    char *unquoted; /* a field with doubled quotes */
    size_t unquoted_cap;
    uint64_t *hash; /* [categories] */
} yk__csv_reader;

yk_status yk__csv_open(yk_source *s, yk_spec *spec, yk_split split, const yk_source_options *o);
yk_status yk__csv_fit(yk__csv *s, const char *where); /* where: files; NULL: those of the source */

/* ---- fields */

typedef enum { YK__CSV_FIELD, YK__CSV_NO_QUOTE, YK__CSV_AFTER_QUOTE, YK__CSV_NO_MEMORY } yk__csv_result;

/* A field that begins with a quote at `p`. *next_out: the delimiter or the end of the line. */
yk__csv_result yk__csv_unquote(const char *p, const char *end, char delimiter, char **buffer, size_t *cap,
                               const char **text_out, size_t *n_out, const char **next_out);

#define YK__CSV_BYTES(b) ((uint64_t)(uint8_t)(b) * (uint64_t)0x0101010101010101)

/* Finds a byte in a word: the lowest set bit marks its first occurrence. */
static inline uint64_t yk__csv_find(uint64_t x, uint64_t pattern)
{
    x ^= pattern;
    return (x - YK__CSV_BYTES(1)) & ~x & YK__CSV_BYTES(0x80);
}

/* Bytes up to the delimiter or the end of the line; the 8 bytes after the end must be readable. */
static inline size_t yk__csv_length(const char *p, const char *end, char delimiter)
{
    const char *q = p;
    for (;; q += 8) {
        uint64_t x;
        memcpy(&x, q, sizeof x);
        x = yk__csv_find(x, YK__CSV_BYTES(delimiter));
        if (x || end - q <= 8) {
            q += x ? __builtin_ctzll(x) >> 3 : 8;
            return (size_t)((q < end ? q : end) - p);
        }
    }
}

/* The field at `p`, with quotes removed. *next_out: the delimiter or the end of the line. */
static inline yk__csv_result yk__csv_field(const char *p, const char *end, char delimiter, char **buffer,
                                           size_t *cap, const char **text_out, size_t *n_out,
                                           const char **next_out)
{
    if (__builtin_expect(*p == '"' && p != end, 0))
        return yk__csv_unquote(p, end, delimiter, buffer, cap, text_out, n_out, next_out);
    *text_out = p;
    *n_out = yk__csv_length(p, end, delimiter);
    *next_out = p + *n_out;
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
static inline yk__csv_result yk__csv_header(const char *p, const char *end, char delimiter, char **buffer,
                                            size_t *cap, const char **text_out, size_t *n_out,
                                            const char **next_out)
{
    const bool quoted = p != end && *p == '"';
    const yk__csv_result result = yk__csv_field(p, end, delimiter, buffer, cap, text_out, n_out, next_out);
    if (!result && !quoted)
        yk__csv_trim(text_out, n_out);
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
    x = (x ^ YK__CSV_BYTES('0')) << (64 - 8 * n); /* leading zeros are shifted in */
    if ((x | (x + YK__CSV_BYTES(0x76))) & YK__CSV_BYTES(0x80))
        return false;
    x = x * 10 + (x >> 8); /* pairs of digits, in bytes 0, 2, 4, 6 */
    const uint64_t even = x & 0x000000ff000000ffu, odd = (x >> 16) & 0x000000ff000000ffu;
    *out = (uint32_t)((even * (100 + ((uint64_t)1000000 << 32)) + odd * (1 + ((uint64_t)10000 << 32))) >> 32);
    return true;
}

/* A number, with blanks around it allowed; false: not a finite number. */
bool yk__csv_number(const char *text, size_t n, double *out);

/* Whether the value is missing: empty, or one of ?missing=; for numbers also NA, NaN and the like. */
bool yk__csv_missing(const yk__csv *s, const char *text, size_t n, bool numeric);

/* "price" or "column 3", for messages. */
const char *yk__csv_name(const yk__csv *s, size_t column, char text_out[80]);

static inline const char *yk__csv_skip_bom(const char *line, size_t *length)
{
    if (*length < 3 || memcmp(line, "\xef\xbb\xbf", 3))
        return line;
    *length -= 3;
    return line + 3;
}

/* ---- words */

yk_status yk__words_split(const char *list, bool trim, yk__words *out); /* trim: blanks around words */
void yk__words_fini(yk__words *w);
size_t yk__words_find(const yk__words *w, const char *text, size_t n); /* w->n: not found */

/* ---- values */

yk_status yk__csv_values_add(yk__csv_values *v, uint64_t hash, uint32_t index, bool *new_out);
void yk__csv_values_fini(yk__csv_values *v);

/* The slot of a hash, or the free slot where it would be. */
static inline size_t yk__csv_values_slot(const yk__csv_values *v, uint64_t hash)
{
    size_t i = (size_t)(hash >> 32) & (v->slots - 1);
    while (v->hash[i] && v->hash[i] != hash)
        i = (i + 1) & (v->slots - 1);
    return i;
}

#endif
