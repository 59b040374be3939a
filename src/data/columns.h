/* Encodes the cells of a table as rows, by a schema. CSV, Parquet and frames share this, so that equal texts have equal
 * features in all of them.
 *
 * A reader of another tabular format:
 *
 *     open:   yk_tabular_init(t), then yk_schema_add() for each column, then yk_tabular_columns() (tabular.h);
 *             it decides what each column is, or matches the columns with those of the model (options.schema) by name.
 *     row:    yk_row w = {.hash = hash};                                  // [schema->categories + 1], one per reader
 *             st = yk_row_begin(&w, schema, t->fields, rows);              // reserves a row
 *             for each column i of the file with t->column[i] (not NULL), in any order:
 *                 ok = yk_row_text(&w, t, t->column[i], text, n);
 *                 // a null is left out, except for a label: that is yk_row_text(..., "", 0)
 *             if (!ok)
 *                 report yk_cell_fault(t, i, text, n, reason)            // as a bad record
 *             st = yk_row_end(&w, schema, numbers, rows);
 *
 * Numbers in categorical columns have the same features as their texts (yk_parquet_number_text()). If the training data has such
 * a column, the texts of CSV files are parsed first: 3.0 is 3. Dictionary-encoded columns may compute
 * yk_cell_hash(column->salt, text, n) once for each value, and use yk_row_hash().
 */
#ifndef YK_DATA_COLUMNS_H
#define YK_DATA_COLUMNS_H

#include "base/rng.h"
#include "core/rows.h"
#include "data/schema.h"
#include "data/text.h"
#include <math.h>
#include <string.h>

struct yk_tabular;

/* ---- the hash of (column, value). Models depend on it: it must never change. It reads 8 bytes at a time, then the last
 * 0 to 7. */

static inline uint64_t yk__cell_hash_word(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xd1342543de82ef95u;
    return h ^ h >> 29;
}

/* x: the last bytes of a text of n bytes; those after its end do not matter. */
static inline uint64_t yk__cell_hash_end(uint64_t h, uint64_t x, size_t n)
{
    h ^= x & (((uint64_t)1 << 8 * (n & 7)) - 1);
    return yk_mix64(h + n * 0x9e3779b97f4a7c15u);
}

static inline uint64_t yk_cell_hash(uint64_t salt, const char *text, size_t n)
{
    uint64_t x = 0, h = salt;
    size_t left = n;
    for (; left >= 8; left -= 8, text += 8) {
        memcpy(&x, text, sizeof x);
        h = yk__cell_hash_word(h, x);
    }
    /* the rest, with loads of fixed size: a call to memcpy() would take longer than the hash */
    if (n >= 8 && left) {
        memcpy(&x, text + left - 8, sizeof x);
        x >>= 8 * (8 - left);
    } else if (left >= 4) {
        uint32_t first, last;
        memcpy(&first, text, sizeof first);
        memcpy(&last, text + left - 4, sizeof last);
        x = first | (uint64_t)last << 8 * (left - 4);
    } else if (left) {
        const uint8_t *const p = (const uint8_t *)text;
        x = p[0] | (uint64_t)p[left / 2] << 8 * (left / 2) | (uint64_t)p[left - 1] << 8 * (left - 1);
    }
    return yk__cell_hash_end(h, x, n);
}

/* ---- cells */

/* Removes blanks at both ends. */
static inline void yk_cell_trim(const char **text, size_t *n)
{
    for (; *n && (**text == ' ' || **text == '\t'); --*n)
        ++*text;
    while (*n && ((*text)[*n - 1] == ' ' || (*text)[*n - 1] == '\t'))
        --*n;
}

/* A number, or true or false (1, 0) as Python and others write them, with blanks around it allowed; false: not a finite
 * number. */
bool yk_cell_number(const char *text, size_t n, double *out);
bool yk_cell_decimal(const char *text, size_t n, double *out); /* not true or false */

/* 'd': a type of dates, 's': of timestamps; 0: neither. */
char yk__time_kind(const char *type);

/* The same, and 't': text, 'n': numbers; 0: not known, or any of them. */
char yk__type_kind(const char *type);

/* The same for a column. If the model was trained on dates or timestamps (Parquet, frames), a text such as 2024-02-29 or
 * 2024-02-29T12:30:00.5Z or 2024-02-29 13:30:00.5+01:00 becomes the number that it is in those formats: days or seconds since 1970. */
bool yk_cell_number_of(const yk_schema_column *c, const char *text, size_t n, double *out);

/* Whether the value is missing: empty, or one of schema->missing; for numbers also NA, NaN and the like, and
 * those of schema->missing that are written differently: -1.0 for -1. */
bool yk_cell_missing(const yk_schema *s, const char *text, size_t n, bool numeric);

/* The same for a number: whether one of schema->missing is the same number, however it is written. */
static inline bool yk_number_missing(const yk_schema *s, double v)
{
    bool missing = false;
    for (size_t i = 0; i < s->nmissing; i++)
        missing |= v == s->missing_number[i];
    return missing;
}

/* For messages about a value that is not a number: a hint if it would be one with a decimal point, as 0,5; else "". */
const char *yk_cell_comma_hint(const char *text, size_t n);

/* Why the value of a label or of a number, in column i of the file, is bad. */
void yk_cell_fault(const struct yk_tabular *t, size_t i, const char *text, size_t n, char out[400]);

/* ---- rows */

enum { YK_SEEN_KNOWN = 1, YK_SEEN_UNKNOWN = 2 };

typedef struct {
    uint32_t *index;
    float *value;
    uint16_t *field; /* NULL: no field numbers */
    size_t n;        /* entries so far */
    float *dense;    /* NULL: sparse */
    uint64_t *hash;  /* categories that still have to be sorted */
    size_t hashes;
    yk__label of;
    atomic_uchar *seen; /* yk_tabular.seen; NULL: not recorded */
} yk_row;

/* A value of 0 is written but not counted, so the next entry overwrites it: a branch would often be mispredicted. */
static inline void yk__row_put(yk_row *w, uint32_t index, float value, uint16_t field)
{
    if (w->dense) {
        w->dense[index] = value + 0.0f; /* not -0 */
        return;
    }
    w->index[w->n] = index;
    w->value[w->n] = value;
    if (w->field)
        w->field[w->n] = field;
    w->n += value != 0.0f;
}

static inline yk_status yk_row_begin(yk_row *w, const yk_schema *s, bool fields, yk_rows *rows)
{
    const size_t max = s->numeric + s->categories;
    const bool dense = yk_schema_dense(s);
    yk_status st =
        dense ? yk_rows_dense_f32(rows, &w->dense) : yk_rows_sparse(rows, max, &w->index, &w->value);
    if (!st && fields)
        st = yk_rows_fields(rows, max, &w->field);
    if (!st && dense)
        memset(w->dense, 0, rows->dim * sizeof *w->dense);
    w->n = w->hashes = 0;
    w->of = (yk__label){.weight = 1.0f};
    return st;
}

/* A row that is not ended is dropped. numbers: the label is a number. */
static inline yk_status yk_row_end(yk_row *w, const yk_schema *s, bool numbers, yk_rows *rows)
{
    if (w->hashes) {
        w->value[w->n] = 1.0f; /* there may be the 0 of an entry that was not counted */
        w->n += yk__sort_hashes(w->hash, w->hashes, s->features - s->numeric, (uint32_t)s->numeric,
                                w->index + w->n);
    }
    return yk__commit(rows, w->n, &w->of, numbers);
}

/* A category, by its hash; 0: missing. */
static inline void yk_row_hash(yk_row *w, const yk_schema *s, const yk_schema_column *c, uint64_t hash)
{
    if (s->encode == YK_ENCODE_HASH && !w->field) {
        w->hash[w->hashes] = hash;
        w->hashes += hash != 0;
        return;
    }
    if (!hash)
        return;
    if (s->encode == YK_ENCODE_HASH) {
        yk__row_put(w, (uint32_t)s->numeric + yk_key_id(hash, s->features - s->numeric), 1.0f, c->field);
        return;
    }
    const struct yk_schema_value *value = yk_schema_value_at(&s->values, hash);
    const unsigned char seen = value->hash ? YK_SEEN_KNOWN : YK_SEEN_UNKNOWN;
    if (w->seen && !(atomic_load_explicit(&w->seen[c - s->column], memory_order_relaxed) & seen))
        atomic_fetch_or_explicit(&w->seen[c - s->column], seen, memory_order_relaxed);
    if (value->hash)
        yk__row_put(w, value->index, 1.0f, c->field);
}

static inline float yk_scaled(yk_scale scale, const yk_schema_column *c, double v)
{
    return scale == YK_SCALE_NONE       ? (float)v
           : scale == YK_SCALE_STANDARD ? (float)((v - c->mean) * c->factor)
                                        : (float)copysign(log1p(fabs(v)), v);
}

/* A value of a numeric column; false: too large for a float. */
static inline bool yk_row_scaled(yk_row *w, const yk_schema *s, const yk_schema_column *c, double v)
{
    const float x = yk_scaled(s->scale, c, v);
    yk__row_put(w, c->index, x, c->field);
    return isfinite(x);
}

/* A cell of any column; a label or a weight that is a number. false: the value is bad. */
bool yk_row_text(yk_row *w, struct yk_tabular *t, const yk_schema_column *c, const char *text, size_t n);
bool yk_row_number(yk_row *w, struct yk_tabular *t, const yk_schema_column *c, double v);

/* ---- lists of words */

/* The number of the text in a list that ends with NULL; -1: it is not there. */
int yk__word_number(const char *const *words, const char *text, size_t n);

/* Splits a list of words at its commas. trim: removes blanks around the words. */
yk_status yk__words_split(const char *list, bool trim, yk__names *out);
size_t yk__words_find(const yk__names *w, const char *text, size_t n); /* w->n: not found */

#endif
