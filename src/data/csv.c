/* Reads the rows of csv:FILES; see csv.h. */
#include "data/csv.h"

#include "base/mem.h"
#include "base/number.h"
#include "base/rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_LABEL = 1000000 };

/* ---- fields */

yk__csv_result yk__csv_unquote(yk__csv_field *f, const char **p, const char *end, char delimiter)
{
    const char *const first = *p + 1, *q = first;
    size_t doubled = 0;
    for (;; q += 2, doubled++) {
        if (!(q = memchr(q, '"', (size_t)(end - q))))
            return YK__CSV_NO_QUOTE;
        if (q + 1 == end || q[1] != '"')
            break;
    }
    if (q + 1 != end && q[1] != delimiter)
        return YK__CSV_AFTER_QUOTE;
    *p = q + 1;
    f->text = first;
    f->n = (size_t)(q - first) - doubled;
    if (!doubled)
        return YK__CSV_FIELD;
    if (YK_RESERVE(f->buffer, f->cap, f->n + 8, "a quoted field"))
        return YK__CSV_NO_MEMORY;
    char *to = f->buffer;
    for (const char *from = first; from != q; from += 1 + (*from == '"'))
        *to++ = *from;
    memset(to, 0, 8);
    f->text = f->buffer;
    return YK__CSV_FIELD;
}

bool yk__csv_number(const char *text, size_t n, double *out)
{
    yk__csv_trim(&text, &n);
    const char *end = text + n;
    double v;
    if (!n || yk_decimal_before(text, end, &v) != end || !isfinite(v))
        return false;
    *out = v;
    return true;
}

bool yk__csv_missing(const yk__csv *s, const char *text, size_t n, bool numeric)
{
    static const char *const names[] = {"NA", "N/A", "NaN", "nan", "NULL", "null", "None", "\\N"};
    if (n == 0 || (s->missing.n && yk__words_find(&s->missing, text, n) != s->missing.n))
        return true;
    for (size_t i = 0; numeric && i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !memcmp(names[i], text, n))
            return true;
    if (numeric)
        yk__csv_trim(&text, &n);
    return n == 0;
}

bool yk__csv_in_part(const yk__csv *s, yk__csv_field *f, const char *line, const char *end)
{
    const char *p = line;
    for (size_t i = 0; s->part.on; i++, p++)
        if (yk__csv_read(f, &p, end, s->delimiter) || (i < s->split_by && p == end))
            break;
        else if (i == s->split_by)
            return yk_split_has(&s->part, yk_split_of_text(f->text, f->n));
    return true;
}

/* ---- errors */

const char *yk__csv_name(const yk__csv *s, size_t column, char text_out[80])
{
    const char *name = s->column[column].name;
    if (s->header && *name)
        snprintf(text_out, 80, "column %zu (%.40s)", column + 1, name);
    else
        snprintf(text_out, 80, "column %zu", column + 1);
    return text_out;
}

__attribute__((cold)) static yk_status bad_quote(yk_text_reader *r, const char *at, size_t column,
                                                 yk__csv_result why)
{
    const yk__csv *s = (const yk__csv *)r->base.base.source;
    char name[80];
    if (why == YK__CSV_NO_MEMORY)
        return YK_ESYSTEM;
    if (column >= s->ncolumns)
        return yk__text_bad(r, at, "more than %zu columns", s->ncolumns);
    yk__csv_name(s, column, name);
    if (why == YK__CSV_AFTER_QUOTE)
        return yk__text_bad(r, at, "%s: text after the closing quote; inside quotes, write a quote as \"\"",
                            name);
    if (s->text.quoted)
        return yk__text_bad(r, at, "%s: the quote is not closed", name);
    return yk__text_bad(
        r, at, "%s: the quote is not closed on this line; if fields contain line breaks, add multiline=1",
        name);
}

__attribute__((cold)) static yk_status bad_count(yk_text_reader *r, size_t count)
{
    const yk__csv *s = (const yk__csv *)r->base.base.source;
    const char word[] = {s->delimiter, 0};
    return yk__text_bad(r, r->line, "%zu column%s instead of %zu; the delimiter is '%s'", count,
                        yk_plural(count), s->ncolumns, s->delimiter == '\t' ? "tab" : word);
}

static size_t count_columns(yk_text_reader *r, const char *line, const char *end)
{
    const char delimiter = ((const yk__csv *)r->base.base.source)->delimiter;
    size_t n = 1;
    for (const char *p = line;; p++, n++)
        if (yk__csv_read(&((yk__csv_reader *)r)->field, &p, end, delimiter) || p == end)
            return n;
}

static yk_status bad_label(yk_text_reader *r, const char *at, const yk__csv_field *f, const char *name)
{
    const yk__csv *s = (const yk__csv *)r->base.base.source;
    char token[48];
    double v;
    yk__text_show(f->text, f->n, token);
    if (s->classes.n)
        return yk__text_bad(r, at, "%s: the label '%s' is not in classes=", name, token);
    if (!f->n)
        return yk__text_bad(
            r, at, "%s: the label is missing; label=NAME or label=NUMBER chooses another column", name);
    if (!yk__csv_number(f->text, f->n, &v))
        return yk__text_bad(r, at,
                            "%s: the label '%s' is not a number; list the classes with classes=NAME,NAME, or "
                            "choose another column with label=",
                            name, token);
    if (s->nclasses && v >= 0.0 && v == floor(v))
        return yk__text_bad(r, at, "%s: the label '%s' is not below classes=%u", name, token, s->nclasses);
    return yk__text_bad(r, at,
                        "%s: the label '%s' is not a class (-1 and 1, or whole numbers from 0 to %d); label= "
                        "chooses another column",
                        name, token, MAX_LABEL);
}

static bool is_decimal(const char *text, size_t n)
{
    double v;
    yk__csv_trim(&text, &n);
    return n && memchr("+-.0123456789", *text, 13) && yk_decimal_before(text, text + n, &v) == text + n &&
           !isnan(v);
}

const char *yk__csv_comma_hint(const char *text, size_t n)
{
    const char *comma = memchr(text, ',', n), *end = text + n;
    return comma && is_decimal(text, (size_t)(comma - text)) && comma + 1 < end &&
                   is_decimal(comma + 1, (size_t)(end - comma) - 1)
               ? "; numbers need a decimal point, not a comma"
               : "";
}

/* Reports a label or a number that is bad. If the line has the wrong number of columns, that is why. */
__attribute__((cold)) static yk_status bad_field(yk_text_reader *r, const char *line, const char *end,
                                                 const char *at, size_t column)
{
    const yk__csv *s = (const yk__csv *)r->base.base.source;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const size_t count = count_columns(r, line, end);
    const char *p = at;
    char name[80], token[48];
    if (count != s->ncolumns)
        return bad_count(r, count);
    if (yk__csv_read(f, &p, end, s->delimiter))
        return YK_ESYSTEM;
    yk__csv_name(s, column, name);
    if (s->column[column].role == YK__CSV_LABEL)
        return bad_label(r, at, f, name);
    yk__text_show(f->text, f->n, token);
    if (is_decimal(f->text, f->n))
        return yk__text_bad(r, at, "%s: %s is too large for a 32-bit float", name, token);
    return yk__text_bad(r, at,
                        "%s: '%s' is not a number%s; if the column is not numeric, add it to categorical= or "
                        "ignore=; if this means a missing value, add it to missing=",
                        name, token, yk__csv_comma_hint(f->text, f->n));
}

/* ---- a row */

static inline bool parse_label(yk__csv *s, const char *text, size_t n, int32_t *label_out)
{
    double v;
    if (s->classes.n) {
        yk__csv_trim(&text, &n);
        *label_out = (int32_t)yk__words_find(&s->classes, text, n);
        return (size_t)*label_out != s->classes.n;
    }
    if (n == 0 || !yk__csv_number(text, n, &v) || !(v >= -1.0 && v <= MAX_LABEL) || v != (double)(int32_t)v ||
        !yk__labels_agree(&s->labels_seen, (int32_t)v) || (s->nclasses && v >= (double)s->nclasses))
        return false;
    *label_out = v < 0.0 ? 0 : (int32_t)v;
    return true;
}

static inline float scaled(const yk__csv *s, const yk__csv_column *c, double v)
{
    if (s->scale == YK__CSV_AS_IS)
        return (float)v;
    if (s->scale == YK__CSV_STANDARD)
        return (float)((v - (double)c->mean) * (double)c->factor);
    return (float)copysign(log1p(fabs(v)), v);
}

/* The row that is being read. */
typedef struct {
    uint32_t *index;
    float *value;
    uint16_t *field; /* NULL: no field numbers */
    size_t n;        /* entries so far */
    float *dense;    /* NULL: sparse */
    uint64_t *hash;  /* categories that still have to be sorted */
    size_t hashes;
    int32_t label;
} row;

static inline void put(row *w, uint32_t index, float value, uint16_t field)
{
    if (w->dense) {
        w->dense[index] = value;
        return;
    }
    w->index[w->n] = index;
    w->value[w->n] = value;
    if (w->field)
        w->field[w->n] = field;
    w->n++;
}

static inline void put_category(const yk__csv *s, const yk__csv_column *c, uint64_t hash, row *w)
{
    if (s->encode == YK__CSV_HASH) {
        if (!w->field)
            w->hash[w->hashes++] = hash;
        else
            put(w, (uint32_t)s->numeric + yk_key_id(hash, s->features - s->numeric), 1.0f, c->field);
        return;
    }
    const struct yk__csv_value *value = yk__csv_value_at(&s->values, hash);
    if (value->hash)
        put(w, value->index, 1.0f, c->field);
}

/* Any field, even a quoted one. Returns what follows it; NULL: it is bad, with the status of the line in r->status. */
static const char *parse_field(yk_text_reader *r, const char *line, const char *end, const char *p, size_t i,
                               row *w)
{
    yk__csv *s = (yk__csv *)r->base.base.source;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const yk__csv_column *c = &s->column[i];
    const char *next = p;
    double v;
    const yk__csv_result result = yk__csv_read(f, &next, end, s->delimiter);
    const char *const text = f->text;
    const size_t n = f->n;
    if (result)
        return r->status = bad_quote(r, p, i, result), NULL;
    if (c->role == YK__CSV_LABEL) {
        if (!parse_label(s, text, n, &w->label))
            return r->status = bad_field(r, line, end, p, i), NULL;
    } else if (c->role == YK__CSV_NUMERIC) {
        if (yk__csv_missing(s, text, n, true))
            return next;
        const float x = yk__csv_number(text, n, &v) ? scaled(s, c, v) : (float)NAN;
        if (!isfinite(x))
            return r->status = bad_field(r, line, end, p, i), NULL;
        if (x != 0.0f)
            put(w, c->slot, x, c->field);
    } else if (c->role == YK__CSV_CATEGORY && !yk__csv_missing(s, text, n, false)) {
        put_category(s, c, yk__csv_hash(c->salt, text, n), w);
    }
    return next;
}

/* The frequent case: a category without quotes, to be hashed. Finds its end and hashes it in one pass. */
static inline const char *hash_category(const char *p, const char *end, uint64_t pattern, uint64_t salt,
                                        uint64_t *hash_out)
{
    const char *const first = p;
    uint64_t x, hit, h = salt;
    memcpy(&x, p, sizeof x);
    while (!(hit = yk__csv_find(x, pattern)) && end - p >= 8) {
        h = yk__csv_hash_word(h, x);
        p += 8;
        memcpy(&x, p, sizeof x);
    }
    const size_t left = (size_t)(end - p), k = hit ? (size_t)__builtin_ctzll(hit) >> 3 : 7;
    p += k < left ? k : left;
    *hash_out = yk__csv_hash_end(h, x, (size_t)(p - first));
    return p;
}

/* The columns of a line. *ok_out: the row is complete; otherwise the line is bad, with the status that is returned. */
static yk_status parse_fields(yk_text_reader *r, const char *line, const char *end, row *out, bool *ok_out)
{
    const yk__csv *s = (const yk__csv *)r->base.base.source;
    const uint64_t pattern = YK__BYTES(s->delimiter);
    const bool hashed = s->encode == YK__CSV_HASH && !out->field && !s->missing.n;
    const bool whole = s->scale != YK__CSV_STANDARD && !s->missing.n;
    row w = *out;
    const char *p = line - 1;
    *ok_out = false;
    for (size_t i = 0; i < s->ncolumns; i++) {
        const yk__csv_column *c = &s->column[i];
        uint64_t x, hit;
        uint32_t v;
        if (p == end)
            return bad_count(r, count_columns(r, line, end));
        memcpy(&x, ++p, sizeof x);
        if (c->role == YK__CSV_CATEGORY && hashed && (x & 255) != '"') {
            const char *const first = p;
            p = hash_category(p, end, pattern, c->salt, &w.hash[w.hashes]);
            w.hashes += p != first;
            continue;
        }
        hit = yk__csv_find(x, pattern);
        const size_t n = hit ? (size_t)__builtin_ctzll(hit) >> 3 : 8;
        if (c->role == YK__CSV_NUMERIC && whole && n < 8 && p + n <= end) {
            if (n == 0) {
                continue;
            } else if (yk__csv_digits(x, n, &v) && (s->scale == YK__CSV_AS_IS || v < YK__CSV_LOGS)) {
                p += n;
                if (v)
                    put(&w, c->slot, s->scale == YK__CSV_AS_IS ? (float)v : s->log_of[v], c->field);
                continue;
            }
        }
        if (!(p = parse_field(r, line, end, p, i, &w)))
            return r->status;
    }
    if (p != end)
        return bad_count(r, count_columns(r, line, end));
    *out = w;
    *ok_out = true;
    return YK_OK;
}

/* Every file must begin with the header of the first one. */
static yk_status check_header(yk_text_reader *r, const char *line, const char *end)
{
    const yk__csv *s = (const yk__csv *)r->base.base.source;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const char *p = line - 1;
    char name[80], token[48];
    for (size_t i = 0; i < s->ncolumns; i++) {
        if (p == end)
            return bad_count(r, count_columns(r, line, end));
        const char *at = ++p;
        if (yk__csv_read_name(f, &p, end, s->delimiter))
            return bad_quote(r, at, i, YK__CSV_NO_QUOTE);
        if (strlen(s->column[i].name) != f->n || memcmp(s->column[i].name, f->text, f->n))
            return yk_fail(
                YK_EDATA,
                "%s: the header has '%s' where the first file has %s; all files need the same columns, "
                "or header=0 if they have no header",
                yk_input_path(r->base.in), yk__text_show(f->text, f->n, token), yk__csv_name(s, i, name));
    }
    return p == end ? YK_OK : bad_count(r, count_columns(r, line, end));
}

yk_status yk__csv_parse(yk_text_reader *r, const char *line, size_t length, yk_rows *rows, bool *added_out)
{
    const yk__csv *s = (const yk__csv *)r->base.base.source;
    if (r->offset == 0 && s->header)
        return check_header(r, line, line + length);
    if (length == 0 || !yk__csv_in_part(s, &((yk__csv_reader *)r)->field, line, line + length))
        return YK_OK;
    const size_t max = s->numeric + s->categories;
    row w = {.hash = ((yk__csv_reader *)r)->hash};
    yk_status st =
        s->dense ? yk_rows_dense_f32(rows, &w.dense) : yk_rows_sparse(rows, max, &w.index, &w.value);
    if (!st && s->fields)
        st = yk_rows_fields(rows, max, &w.field);
    if (st)
        return st;
    if (s->dense)
        memset(w.dense, 0, rows->dim * sizeof *w.dense);
    bool ok;
    if ((st = parse_fields(r, line, line + length, &w, &ok)) || !ok)
        return st;
    if (w.hashes)
        w.n +=
            yk__sort_hashes(w.hash, w.hashes, s->features - s->numeric, (uint32_t)s->numeric, w.index + w.n);
    st = yk_rows_commit(rows, w.n, w.label);
    *added_out = !st;
    return st;
}

/* ---- the source */

static void csv_free(yk_source *source)
{
    yk__csv *s = (yk__csv *)source;
    for (size_t i = 0; s->column && i < s->ncolumns; i++)
        free(s->column[i].name);
    free(s->column);
    free(source->column);
    yk__names_fini(&s->classes);
    yk__names_fini(&s->missing);
    free(s->values.slot);
    yk__file_free(source);
}

static yk_status csv_reader_open(yk_reader *reader)
{
    const yk__csv *s = (const yk__csv *)reader->source;
    yk__csv_reader *r = (yk__csv_reader *)reader;
    if (!(r->hash = malloc((s->categories + 1) * sizeof *r->hash)))
        return yk_fail_memory(s->categories * sizeof *r->hash, "hashes of a row");
    return yk__text_reader_open(reader);
}

static void csv_reader_close(yk_reader *reader)
{
    yk__csv_reader *r = (yk__csv_reader *)reader;
    free(r->field.buffer);
    free(r->hash);
    yk__file_reader_close(reader);
}

const yk_source_ops yk__csv_source = {
    .name = "csv",
    .usage = "csv:FILES",
    .options = YK__CSV_KEYS,
    .record = "line",
    .is_text = true,
    .source_size = sizeof(yk__csv),
    .reader_size = sizeof(yk__csv_reader),
    .open = yk__csv_open,
    .free = csv_free,
    .reader_open = csv_reader_open,
    .reader_close = csv_reader_close,
    .reader_check = yk__file_reader_check,
    .next = yk__text_next,
    .count = yk__text_count,
};
