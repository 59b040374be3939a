/* Reads the rows of csv:FILES; see csv.h. */
#include "data/csv.h"

#include "base/mem.h"
#include "core/rows.h"
#include <stdlib.h>

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

/* Whether the line is in s->table.part; also if it is bad, so that it is reported. */
static bool in_part(const yk__csv *s, yk__csv_field *f, const char *line, const char *end)
{
    const char *p = line;
    for (size_t i = 0; s->table.part.on; i++, p++)
        if (yk__csv_read(f, &p, end, s->delimiter) || (i < s->table.split_by && p == end))
            break;
        else if (i == s->table.split_by)
            return yk_split_has(&s->table.part, yk_split_of_text(f->text, f->n));
    return true;
}

/* ---- errors */

static size_t count_columns(yk_text_reader *r, const char *line, const char *end)
{
    const char delimiter = ((const yk__csv *)r->base.source)->delimiter;
    size_t n = 1;
    for (const char *p = line;; p++, n++)
        if (yk__csv_read(&((yk__csv_reader *)r)->field, &p, end, delimiter) || p == end)
            return n;
}

/* Reports what is wrong with a line: the quotes of the field at `at`, in column i, the number of columns, or the value of the field. The
 * status of the line is in r->status. */
__attribute__((cold)) static yk_status bad_line(yk_text_reader *r, const char *line, const char *end,
                                                const char *at, size_t i, yk__csv_result quotes)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const char word[] = {s->delimiter, 0}, *p = at;
    char name[80], reason[400];
    const size_t count = count_columns(r, line, end);
    yk_tabular_name(&s->table, i, name);
    if (quotes == YK__CSV_AFTER_QUOTE)
        return yk__text_bad(r, at, "%s: text after the closing quote; inside quotes, write a quote as \"\"",
                            name);
    if (quotes == YK__CSV_NO_QUOTE)
        return yk__text_bad(r, at, "%s: the quote is not closed%s", name,
                            s->base.quoted ? ""
                                           : " on this line; if fields contain line breaks, add multiline=1");
    if (!quotes && count != s->table.own->ncolumns)
        return yk__text_bad(r, r->line, "%zu column%s instead of %zu; the delimiter is '%s'", count,
                            yk_plural(count), s->table.own->ncolumns, s->delimiter == '\t' ? "tab" : word);
    if (quotes || yk__csv_read(f, &p, end, s->delimiter))
        return r->status = YK_ESYSTEM;
    yk_cell_fault(&s->table, i, f->text, f->n, reason);
    return yk__text_bad(r, at, "%s", reason);
}

/* ---- a row */

/* Any field, even a quoted one. Returns what follows it; NULL: it is bad. */
static const char *parse_field(yk_text_reader *r, const char *end, const char *p, size_t i, yk_row *w,
                               yk__csv_result *quotes_out)
{
    yk__csv *s = (yk__csv *)r->base.source;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const yk_schema_column *c = s->table.column[i];
    *quotes_out = yk__csv_read(f, &p, end, s->delimiter);
    return *quotes_out || (c && !yk_row_text(w, &s->table, c, f->text, f->n)) ? NULL : p;
}

/* The frequent case: a category without quotes, to be hashed. Finds its end and hashes it in one pass. */
static inline const char *hash_category(const char *p, const char *end, uint64_t pattern, uint64_t salt,
                                        uint64_t *hash_out)
{
    const char *const first = p;
    uint64_t x, hit, h = salt;
    memcpy(&x, p, sizeof x);
    while (!(hit = yk__csv_find(x, pattern)) && end - p >= 8) {
        h = yk__cell_hash_word(h, x);
        p += 8;
        memcpy(&x, p, sizeof x);
    }
    const size_t left = (size_t)(end - p), k = hit ? (size_t)__builtin_ctzll(hit) >> 3 : 7;
    p += k < left ? k : left;
    *hash_out = yk__cell_hash_end(h, x, (size_t)(p - first));
    return p;
}

/* The columns of a line; false: it is bad, with its status in r->status. */
static bool parse_fields(yk_text_reader *r, const char *line, const char *end, yk_row *out)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    const yk_schema *schema = s->table.schema;
    const uint64_t pattern = YK__BYTES(s->delimiter);
    const bool hashed = schema->encode == YK_ENCODE_HASH && !out->field && !schema->missing.n &&
                        !r->base.source->options.names;
    const bool whole = schema->scale != YK_SCALE_STANDARD && !schema->missing.n;
    const float *log_of = schema->log_of;
    const size_t n = s->table.own->ncolumns;
    yk__csv_result quotes = YK__CSV_FIELD;
    yk_row w = *out;
    const char *p = line - 1, *next;
    size_t i = 0;
    for (; i < n && p != end; i++, p = next) {
        const yk_schema_column *c = s->table.column[i];
        uint64_t x, hit;
        uint32_t v;
        memcpy(&x, ++p, sizeof x);
        if (c && c->role == YK_COLUMN_CATEGORICAL && hashed && !c->typed && (x & 255) != '"') {
            next = hash_category(p, end, pattern, c->salt, &w.hash[w.hashes]);
            w.hashes += next != p;
            continue;
        }
        hit = yk__csv_find(x, pattern);
        const size_t length = hit ? (size_t)__builtin_ctzll(hit) >> 3 : 8;
        next = p + length;
        if (c && c->role == YK_COLUMN_NUMERIC && whole && length < 8 && next <= end) {
            if (length == 0)
                continue;
            if (yk__text_digits(x, length, &v) && (!log_of || v < YK_SCHEMA_LOGS)) {
                yk__row_put(&w, c->index, log_of ? log_of[v] : (float)v, c->field);
                continue;
            }
        }
        if (!(next = parse_field(r, end, p, i, &w, &quotes)))
            break;
    }
    *out = w;
    if (i == n && p == end)
        return true;
    bad_line(r, line, end, p, i < n ? i : n - 1, quotes);
    return false;
}

/* Every file must begin with the header of the first one. */
static yk_status check_header(yk_text_reader *r, const char *line, const char *end)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    const yk_schema *own = s->table.own;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const char *p = line - 1;
    char name[80], token[48];
    for (size_t i = 0; i < own->ncolumns && p != end; i++) {
        const char *const at = ++p;
        const yk__csv_result quotes = yk__csv_read_name(f, &p, end, s->delimiter);
        if (quotes)
            return bad_line(r, line, end, at, i, quotes);
        if (strlen(own->column[i].name) != f->n || memcmp(own->column[i].name, f->text, f->n))
            return yk_fail(YK_EDATA,
                           "%s: the header has '%s' where the first file has %s; all files need the same "
                           "columns, or header=0 if they have no header",
                           r->base.in->path, yk__text_show(f->text, f->n, token),
                           yk_tabular_name(&s->table, i, name));
    }
    return count_columns(r, line, end) == own->ncolumns ? YK_OK
                                                        : bad_line(r, line, end, line, 0, YK__CSV_FIELD);
}

/* The line is not bad. */
static yk_status keep_cells(yk__csv_reader *r, const char *line, const char *end)
{
    const yk__csv *s = (const yk__csv *)r->text.base.source;
    const char *p = line - 1;
    yk_status st = yk_tabular_row(&s->table, &r->text.base);
    for (size_t i = 0; i < s->table.own->ncolumns && !st; i++) {
        if (p++, yk__csv_read(&r->field, &p, end, s->delimiter))
            return YK_ESYSTEM;
        st = yk_tabular_text(&s->table, &r->text.base, i, r->field.text, r->field.n);
    }
    return st;
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    if (!in_part(s, &((yk__csv_reader *)r)->field, line, line + length))
        return YK_OK;
    yk_row w = {.hash = ((yk__csv_reader *)r)->hash, .seen = s->table.seen};
    yk_status st = yk_row_begin(&w, s->table.schema, s->table.fields, rows);
    if (st)
        return st;
    if (!parse_fields(r, line, line + length, &w))
        return r->status;
    if (yk_tabular_keeps(&s->table) && (st = keep_cells((yk__csv_reader *)r, line, line + length)))
        return st;
    return yk_row_end(&w, s->table.schema, s->base.options.numbers, rows);
}

static bool is_row(const char *line, size_t length)
{
    (void)line;
    return length;
}

/* ---- the source */

static void csv_free(yk_source *source)
{
    yk_tabular_fini(&((yk__csv *)source)->table);
}

static yk_status csv_reader_open(yk_reader *reader)
{
    const yk_tabular *t = &((const yk__csv *)reader->source)->table;
    const size_t n = t->schema->categories + 1;
    yk__csv_reader *r = (yk__csv_reader *)reader;
    const char *line = NULL;
    size_t length;
    if (!(r->hash = malloc(n * sizeof *r->hash)))
        return yk_fail_memory(n * sizeof *r->hash, "hashes of a row");
    const yk_status st =
        t->own->header && !reader->range->begin ? yk__text_line(&r->text, &line, &length) : YK_OK;
    return st || !line ? st : check_header(&r->text, line, line + length);
}

static void csv_reader_close(yk_reader *reader)
{
    yk__csv_reader *r = (yk__csv_reader *)reader;
    free(r->field.buffer);
    free(r->hash);
}

const yk_source_ops yk__csv_source = {
    .name = "csv",
    .options = YK__CSV_KEYS,
    .record = "line",
    .has_columns = true,
    .source_size = sizeof(yk__csv),
    .reader_size = sizeof(yk__csv_reader),
    .open = yk__csv_open,
    .free = csv_free,
    .reader_open = csv_reader_open,
    .reader_close = csv_reader_close,
    .parse = parse_line,
    .is_row = is_row,
};
