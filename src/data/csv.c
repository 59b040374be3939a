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

bool yk__csv_in_part(const yk__csv *s, yk__csv_field *f, const char *line, const char *end)
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

__attribute__((cold)) static yk_status bad_quote(yk_text_reader *r, const char *at, size_t column,
                                                 yk__csv_result why)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    char name[80];
    if (why == YK__CSV_NO_MEMORY)
        return YK_ESYSTEM;
    if (column >= s->table.own->ncolumns)
        return yk__text_bad(r, at, "more than %zu columns", s->table.own->ncolumns);
    yk_tabular_name(&s->table, column, name);
    if (why == YK__CSV_AFTER_QUOTE)
        return yk__text_bad(r, at, "%s: text after the closing quote; inside quotes, write a quote as \"\"",
                            name);
    if (s->base.quoted)
        return yk__text_bad(r, at, "%s: the quote is not closed", name);
    return yk__text_bad(
        r, at, "%s: the quote is not closed on this line; if fields contain line breaks, add multiline=1",
        name);
}

static size_t count_columns(yk_text_reader *r, const char *line, const char *end)
{
    const char delimiter = ((const yk__csv *)r->base.source)->delimiter;
    size_t n = 1;
    for (const char *p = line;; p++, n++)
        if (yk__csv_read(&((yk__csv_reader *)r)->field, &p, end, delimiter) || p == end)
            return n;
}

__attribute__((cold)) static yk_status bad_count(yk_text_reader *r, const char *line, const char *end)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    const char word[] = {s->delimiter, 0};
    const size_t count = count_columns(r, line, end);
    return yk__text_bad(r, r->line, "%zu column%s instead of %zu; the delimiter is '%s'", count,
                        yk_plural(count), s->table.own->ncolumns, s->delimiter == '\t' ? "tab" : word);
}

/* Reports a label or a number that is bad. If the line has the wrong number of columns, that is why. */
__attribute__((cold)) static yk_status bad_field(yk_text_reader *r, const char *line, const char *end,
                                                 const char *at, size_t column)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const char *p = at;
    char reason[400];
    if (count_columns(r, line, end) != s->table.own->ncolumns)
        return bad_count(r, line, end);
    if (yk__csv_read(f, &p, end, s->delimiter))
        return YK_ESYSTEM;
    yk_cell_fault(&s->table, column, f->text, f->n, reason);
    return yk__text_bad(r, at, "%s", reason);
}

/* ---- a row */

/* Any field, even a quoted one. Returns what follows it; NULL: it is bad, with the status of the line in r->status. */
static const char *parse_field(yk_text_reader *r, const char *line, const char *end, const char *p, size_t i,
                               yk_row *w)
{
    yk__csv *s = (yk__csv *)r->base.source;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const yk_schema_column *c = s->table.column[i];
    const char *next = p;
    const yk__csv_result result = yk__csv_read(f, &next, end, s->delimiter);
    if (result)
        return r->status = bad_quote(r, p, i, result), NULL;
    if (c && !yk_row_text(w, &s->table, c, f->text, f->n))
        return r->status = bad_field(r, line, end, p, i), NULL;
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
        h = yk__cell_hash_word(h, x);
        p += 8;
        memcpy(&x, p, sizeof x);
    }
    const size_t left = (size_t)(end - p), k = hit ? (size_t)__builtin_ctzll(hit) >> 3 : 7;
    p += k < left ? k : left;
    *hash_out = yk__cell_hash_end(h, x, (size_t)(p - first));
    return p;
}

/* The columns of a line. *ok_out: the row is complete; otherwise the line is bad, with the status that is returned. */
static yk_status parse_fields(yk_text_reader *r, const char *line, const char *end, yk_row *out, bool *ok_out)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    const yk_schema *schema = s->table.schema;
    const uint64_t pattern = YK__BYTES(s->delimiter);
    const bool hashed = schema->encode == YK_ENCODE_HASH && !out->field && !schema->missing.n &&
                        !r->base.source->options.names;
    const bool whole = schema->scale != YK_SCALE_STANDARD && !schema->missing.n;
    const float *log_of = schema->log_of;
    yk_row w = *out;
    const char *p = line - 1;
    *ok_out = false;
    for (size_t i = 0; i < s->table.own->ncolumns; i++) {
        const yk_schema_column *c = s->table.column[i];
        uint64_t x, hit;
        uint32_t v;
        if (p == end)
            return bad_count(r, line, end);
        memcpy(&x, ++p, sizeof x);
        if (c && c->role == YK_COLUMN_CATEGORICAL && hashed && (x & 255) != '"') {
            const char *const first = p;
            p = hash_category(p, end, pattern, c->salt, &w.hash[w.hashes]);
            w.hashes += p != first;
            continue;
        }
        hit = yk__csv_find(x, pattern);
        const size_t n = hit ? (size_t)__builtin_ctzll(hit) >> 3 : 8;
        if (c && c->role == YK_COLUMN_NUMERIC && whole && n < 8 && p + n <= end) {
            if (n == 0) {
                continue;
            } else if (yk__text_digits(x, n, &v) && (!log_of || v < YK_SCHEMA_LOGS)) {
                p += n;
                if (v)
                    yk__row_put(&w, c->index, log_of ? log_of[v] : (float)v, c->field);
                continue;
            }
        }
        if (!(p = parse_field(r, line, end, p, i, &w)))
            return r->status;
    }
    if (p != end)
        return bad_count(r, line, end);
    *out = w;
    *ok_out = true;
    return YK_OK;
}

/* Every file must begin with the header of the first one. */
static yk_status check_header(yk_text_reader *r, const char *line, const char *end)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    const yk_schema *own = s->table.own;
    yk__csv_field *f = &((yk__csv_reader *)r)->field;
    const char *p = line - 1;
    char name[80], token[48];
    for (size_t i = 0; i < own->ncolumns; i++) {
        if (p == end)
            return bad_count(r, line, end);
        const char *at = ++p;
        if (yk__csv_read_name(f, &p, end, s->delimiter))
            return bad_quote(r, at, i, YK__CSV_NO_QUOTE);
        if (strlen(own->column[i].name) != f->n || memcmp(own->column[i].name, f->text, f->n))
            return yk_fail(
                YK_EDATA,
                "%s: the header has '%s' where the first file has %s; all files need the same columns, "
                "or header=0 if they have no header",
                yk_input_path(r->base.in), yk__text_show(f->text, f->n, token),
                yk_tabular_name(&s->table, i, name));
    }
    return p == end ? YK_OK : bad_count(r, line, end);
}

/* Keeps the texts of the columns that are carried. The line is not bad. */
static yk_status carry_cells(yk__csv_reader *r, const char *line, const char *end)
{
    const yk__csv *s = (const yk__csv *)r->text.base.source;
    const char *p = line - 1;
    yk_status st = yk__carry_row(&r->text.base);
    for (size_t i = 0; i < s->table.own->ncolumns && !st; i++) {
        if (p++, yk__csv_read(&r->field, &p, end, s->delimiter))
            return YK_ESYSTEM;
        yk_tabular_carry(&s->table, &r->text.base, i, r->field.text, r->field.n);
    }
    return st;
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows,
                            bool *added_out)
{
    const yk__csv *s = (const yk__csv *)r->base.source;
    if (r->offset == 0 && s->table.own->header)
        return check_header(r, line, line + length);
    if (length == 0 || !yk__csv_in_part(s, &((yk__csv_reader *)r)->field, line, line + length))
        return YK_OK;
    yk_row w = {.hash = ((yk__csv_reader *)r)->hash, .seen = s->table.seen};
    bool ok;
    yk_status st = yk_row_begin(&w, s->table.schema, s->table.fields, rows);
    if (st || (st = parse_fields(r, line, line + length, &w, &ok)) || !ok)
        return st;
    if (s->base.ncarry && (st = carry_cells((yk__csv_reader *)r, line, line + length)))
        return st;
    st = yk_row_end(&w, s->table.schema, s->base.options.numbers, rows);
    *added_out = !st;
    return st;
}

static bool is_row(const yk_text_reader *r, const char *line, size_t length)
{
    (void)line;
    return length && !(r->offset == 0 && ((const yk__csv *)r->base.source)->table.own->header);
}

/* ---- the source */

static void csv_free(yk_source *source)
{
    yk_tabular_fini(&((yk__csv *)source)->table);
}

static yk_status csv_reader_open(yk_reader *reader)
{
    const size_t n = ((const yk__csv *)reader->source)->table.schema->categories + 1;
    yk__csv_reader *r = (yk__csv_reader *)reader;
    if (!(r->hash = malloc(n * sizeof *r->hash)))
        return yk_fail_memory(n * sizeof *r->hash, "hashes of a row");
    return yk__text_reader_open(reader);
}

static void csv_reader_close(yk_reader *reader)
{
    yk__csv_reader *r = (yk__csv_reader *)reader;
    free(r->field.buffer);
    free(r->hash);
}

const yk_source_ops yk__csv_source = {
    .name = "csv",
    .usage = "csv:FILES",
    .options = YK__CSV_KEYS,
    .record = "line",
    .is_text = true,
    .has_columns = true,
    .source_size = sizeof(yk__csv),
    .reader_size = sizeof(yk__csv_reader),
    .open = yk__csv_open,
    .free = csv_free,
    .reader_open = csv_reader_open,
    .reader_close = csv_reader_close,
    .next = yk__text_next,
    .parse = parse_line,
    .is_row = is_row,
    .count = yk__text_count,
};
