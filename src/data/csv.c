/* csv:FILES: text files with columns, plain or compressed.
 *
 *     click,price,city,text
 *     1,9.5,Paris,"a ""quoted"" field, with a comma"
 *     0,,Rome,
 *
 * The options of the spec and the first lines determine the schema (tabular.h, schema.h).
 *
 * A line belongs to the block that holds its first byte. With multiline=1, quoted fields may contain line breaks; then a
 * file is one block, because a line break inside quotes cannot be distinguished from the end of a line.
 */
#include "data/tabular.h"

#include "base/log.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLE_BYTES = 64 << 10, MAX_SAMPLE = 64 << 20, SAMPLE_LINES = 1000 };

/* A field of a line. */
typedef struct {
    const char *text; /* [n], without quotes; the 8 bytes after it are readable */
    size_t n;
    char *buffer; /* the text, if it has doubled quotes; owned */
    size_t cap;
} csv_field;

typedef struct {
    yk_tabular table;
    char delimiter;
} csv;

typedef struct {
    yk_text_reader text;
    csv_field field;
    uint64_t *hash; /* [categories] */
} csv_reader;

/* ---- fields */

typedef enum { CSV_FIELD, CSV_NO_QUOTE, CSV_AFTER_QUOTE, CSV_NO_MEMORY } csv_result;

/* Finds a byte in a word: the lowest set bit marks its first occurrence. */
static inline uint64_t csv_find(uint64_t x, uint64_t pattern)
{
    x ^= pattern;
    return (x - YK__BYTES(1)) & ~x & YK__BYTES(0x80);
}

/* Bytes up to the delimiter or the end of the line; the 8 bytes after the end must be readable. */
static inline size_t csv_length(const char *p, const char *end, char delimiter)
{
    const char *q = p;
    for (;; q += 8) {
        uint64_t x;
        memcpy(&x, q, sizeof x);
        x = csv_find(x, YK__BYTES(delimiter));
        if (x || end - q <= 8) {
            q += x ? __builtin_ctzll(x) >> 3 : 8;
            return (size_t)((q < end ? q : end) - p);
        }
    }
}

/* A field that begins with a quote; otherwise as csv_read(). */
static csv_result csv_unquote(csv_field *f, const char **p, const char *end, char delimiter)
{
    const char *const first = *p + 1, *q = first;
    size_t doubled = 0;
    for (;; q += 2, doubled++) {
        if (!(q = memchr(q, '"', (size_t)(end - q))))
            return CSV_NO_QUOTE;
        if (q + 1 == end || q[1] != '"')
            break;
    }
    if (q + 1 != end && q[1] != delimiter)
        return CSV_AFTER_QUOTE;
    *p = q + 1;
    f->text = first;
    f->n = (size_t)(q - first) - doubled;
    if (!doubled)
        return CSV_FIELD;
    if (YK_RESERVE(f->buffer, f->cap, f->n + 8, "a quoted field"))
        return CSV_NO_MEMORY;
    char *to = f->buffer;
    for (const char *from = first; from != q; from += 1 + (*from == '"'))
        *to++ = *from;
    memset(to, 0, 8);
    f->text = f->buffer;
    return CSV_FIELD;
}

/* Reads the field at *p, and moves *p to the delimiter after it or to the end of the line. If the quotes are wrong, *p is
 * unchanged. */
static inline csv_result csv_read(csv_field *f, const char **p, const char *end, char delimiter)
{
    if (__builtin_expect(**p == '"' && *p != end, 0))
        return csv_unquote(f, p, end, delimiter);
    f->text = *p;
    f->n = csv_length(*p, end, delimiter);
    *p += f->n;
    return CSV_FIELD;
}

/* The name of a column in a header: like a field, but without blanks around it, unless they are quoted. */
static inline csv_result csv_read_name(csv_field *f, const char **p, const char *end, char delimiter)
{
    const bool quoted = *p != end && **p == '"';
    const csv_result result = csv_read(f, p, end, delimiter);
    if (!result && !quoted)
        yk_cell_trim(&f->text, &f->n);
    return result;
}

/* Whether the line is in s->table.part; also if it is bad, so that it is reported. */
static bool in_part(const csv *s, csv_field *f, const char *line, const char *end)
{
    const char *p = line;
    for (size_t i = 0; s->table.part.on; i++, p++)
        if (csv_read(f, &p, end, s->delimiter) || (i < s->table.split_by && p == end))
            break;
        else if (i == s->table.split_by)
            return yk_split_has(&s->table.part, yk_split_of_text(f->text, f->n));
    return true;
}

/* ---- errors */

static size_t count_columns(yk_text_reader *r, const char *line, const char *end)
{
    const char delimiter = ((const csv *)r->base.source)->delimiter;
    size_t n = 1;
    for (const char *p = line;; p++, n++)
        if (csv_read(&((csv_reader *)r)->field, &p, end, delimiter) || p == end)
            return n;
}

/* Reports what is wrong with a line: the quotes of the field at `at`, in column i, the number of columns, or the value of the field. The
 * status of the line is in r->status. */
__attribute__((cold)) static yk_status bad_line(yk_text_reader *r, const char *line, const char *end,
                                                const char *at, size_t i, csv_result quotes)
{
    const csv *s = (const csv *)r->base.source;
    csv_field *f = &((csv_reader *)r)->field;
    const char word[] = {s->delimiter, 0}, *p = at;
    char name[80], reason[400];
    const size_t count = count_columns(r, line, end);
    yk_tabular_name(&s->table, i, name);
    if (quotes == CSV_AFTER_QUOTE)
        return yk__text_bad(r, at, "%s: text after the closing quote; inside quotes, write a quote as \"\"",
                            name);
    if (quotes == CSV_NO_QUOTE)
        return yk__text_bad(
            r, at, "%s: the quote is not closed%s", name,
            s->table.base.quoted ? "" : " on this line; if fields contain line breaks, add multiline=1");
    if (!quotes && count != s->table.own->ncolumns)
        return yk__text_bad(r, r->line, "%zu column%s instead of %zu; the delimiter is '%s'", count,
                            yk_plural(count), s->table.own->ncolumns, s->delimiter == '\t' ? "tab" : word);
    if (quotes || csv_read(f, &p, end, s->delimiter))
        return r->status = YK_ESYSTEM;
    yk_cell_fault(&s->table, i, f->text, f->n, reason);
    return yk__text_bad(r, at, "%s", reason);
}

/* ---- a row */

/* Any field, even a quoted one. Returns what follows it; NULL: it is bad. */
static const char *parse_field(yk_text_reader *r, const char *end, const char *p, size_t i, yk_row *w,
                               csv_result *quotes_out)
{
    csv *s = (csv *)r->base.source;
    csv_field *f = &((csv_reader *)r)->field;
    const yk_schema_column *c = s->table.column[i];
    *quotes_out = csv_read(f, &p, end, s->delimiter);
    return *quotes_out || (c && !yk_row_text(w, &s->table, c, f->text, f->n)) ? NULL : p;
}

/* The frequent case: a category without quotes, to be hashed. Finds its end and hashes it in one pass. */
static inline const char *hash_category(const char *p, const char *end, uint64_t pattern, uint64_t salt,
                                        uint64_t *hash_out)
{
    const char *const first = p;
    uint64_t x, hit, h = salt;
    memcpy(&x, p, sizeof x);
    while (!(hit = csv_find(x, pattern)) && end - p >= 8) {
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
    const csv *s = (const csv *)r->base.source;
    const yk_schema *schema = s->table.schema;
    const uint64_t pattern = YK__BYTES(s->delimiter);
    const bool hashed = schema->encode == YK_ENCODE_HASH && !out->field && !schema->missing.n &&
                        !r->base.source->options.names;
    const bool whole = schema->scale != YK_SCALE_STANDARD && !schema->missing.n;
    const float *log_of = schema->log_of;
    const size_t n = s->table.own->ncolumns;
    csv_result quotes = CSV_FIELD;
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
        hit = csv_find(x, pattern);
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
    const csv *s = (const csv *)r->base.source;
    const yk_schema *own = s->table.own;
    csv_field *f = &((csv_reader *)r)->field;
    const char *p = line - 1;
    char name[80], token[48];
    for (size_t i = 0; i < own->ncolumns && p != end; i++) {
        const char *const at = ++p;
        const csv_result quotes = csv_read_name(f, &p, end, s->delimiter);
        if (quotes)
            return bad_line(r, line, end, at, i, quotes);
        if (strlen(own->column[i].name) != f->n || memcmp(own->column[i].name, f->text, f->n))
            return yk_fail(YK_EDATA,
                           "%s: the header has '%s' where the first file has %s; all files need the same "
                           "columns, or header=0 if they have no header",
                           r->base.in->path, yk__text_show(f->text, f->n, token),
                           yk_tabular_name(&s->table, i, name));
    }
    return count_columns(r, line, end) == own->ncolumns ? YK_OK : bad_line(r, line, end, line, 0, CSV_FIELD);
}

/* The line is not bad. */
static yk_status keep_cells(csv_reader *r, const char *line, const char *end)
{
    const csv *s = (const csv *)r->text.base.source;
    const char *p = line - 1;
    yk_status st = yk_tabular_row(&s->table, &r->text.base);
    for (size_t i = 0; i < s->table.own->ncolumns && !st; i++) {
        if (p++, csv_read(&r->field, &p, end, s->delimiter))
            return YK_ESYSTEM;
        st = yk_tabular_text(&s->table, &r->text.base, i, r->field.text, r->field.n);
    }
    return st;
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows)
{
    const csv *s = (const csv *)r->base.source;
    if (!in_part(s, &((csv_reader *)r)->field, line, line + length))
        return YK_OK;
    yk_row w = {.hash = ((csv_reader *)r)->hash, .seen = s->table.seen};
    yk_status st = yk_row_begin(&w, s->table.schema, s->table.fields, rows);
    if (st)
        return st;
    if (!parse_fields(r, line, line + length, &w))
        return r->status;
    if (yk_tabular_keeps(&s->table) && (st = keep_cells((csv_reader *)r, line, line + length)))
        return st;
    return yk_row_end(&w, s->table.schema, s->table.base.options.numbers, rows);
}

static bool is_row(const char *line, size_t length)
{
    (void)line;
    return length;
}

/* ---- the first lines */

/* Complete lines at the start of the first file. */
typedef struct {
    yk_input *in;
    const char *p, *end; /* what is left */
    csv_field field;
    const char *hint; /* yk_cell_comma_hint() */
} sample;

/* The next record: up to a line break that is not quoted. false: there is no complete one. */
static bool next_line(sample *t, bool quoted, const char **line_out, size_t *length_out)
{
    bool open = false;
    for (const char *q = t->p; q != t->end; q++) {
        open ^= quoted && *q == '"';
        if (*q != '\n' || open)
            continue;
        *line_out = t->p;
        *length_out = (size_t)(q - t->p) - (q != t->p && q[-1] == '\r');
        t->p = q + 1;
        return true;
    }
    return false;
}

/* Nothing is consumed, so that standard input can still be read. A last line without a line break counts as complete. */
static yk_status open_sample(const csv *s, sample *t)
{
    const char *path = s->table.base.files.path[0], *line;
    yk_status st = yk_input_open(path, 0, &t->in);
    for (size_t want = SAMPLE_BYTES; !st; want *= 2) {
        const uint8_t *p;
        size_t have, length;
        if ((st = yk_input_peek(t->in, want, &p, &have)))
            break;
        t->p = (const char *)p;
        t->end = t->p + have;
        sample first = *t;
        if (have < want || next_line(&first, s->table.base.quoted, &line, &length))
            break;
        if (want > MAX_SAMPLE)
            st = yk_fail(YK_EDATA, "%s: the first line is longer than 64 MiB: not a CSV file", path);
    }
    return st;
}

/* By default, the delimiter that occurs most often in the line. */
static yk_status choose_delimiter(csv *s, yk_spec *spec, const char *line, const char *end)
{
    static const struct {
        const char *word;
        char c;
    } named[] = {{"tab", '\t'}, {"comma", ','}, {"semicolon", ';'}, {"pipe", '|'}, {"space", ' '}};
    static const char known[] = ",\t;|";
    const char *given = yk_spec_text(spec, "delimiter");
    size_t count[4] = {0}, best = 0;
    bool open = false;
    for (const char *p = line; p != end; p++) { /* outside quotes */
        open ^= *p == '"';
        const char *k = open || !*p ? NULL : strchr(known, *p);
        if (k)
            count[k - known]++;
    }
    for (size_t i = 1; i < 4; i++)
        best = count[i] && count[i] >= count[best] ? i : best; /* 0;1,5: decimal commas */
    s->delimiter = !given ? known[best] : strlen(given) == 1 ? *given : 0;
    for (size_t i = 0; given && i < sizeof named / sizeof *named; i++)
        if (!strcmp(named[i].word, given))
            s->delimiter = named[i].c;
    if (!s->delimiter)
        return yk_fail(YK_EUSAGE,
                       "%s: delimiter=%s: must be one character, or tab, comma, semicolon, pipe or space",
                       spec->text, given);
    return s->delimiter == '"' ? yk_fail(YK_EUSAGE, "%s: delimiter: must not be a quote", spec->text) : YK_OK;
}

/* ---- columns */

/* The fields of the first line become the names. */
static yk_status add_columns(csv *s, sample *t, const char *line, const char *end)
{
    const char *path = s->table.base.files.path[0];
    yk_schema *own = s->table.own;
    for (const char *p = line;; p++) {
        if (own->ncolumns == YK_SCHEMA_MAX_COLUMNS)
            return yk_fail(YK_EDATA, "%s: more than %d columns", path, YK_SCHEMA_MAX_COLUMNS);
        if (csv_read_name(&t->field, &p, end, s->delimiter))
            return yk_fail(YK_EDATA, "%s: line 1: bad quotes in column %zu%s", path, own->ncolumns + 1,
                           s->table.base.quoted ? "" : "; if fields contain line breaks, add multiline=1");
        const yk_status st = yk_schema_add(own, t->field.text, t->field.n, "", YK_COLUMN_NUMERIC);
        if (st || p == end)
            return st;
    }
}

/* A first line without numbers is a header, unless its label is one of the classes. */
static bool looks_like_header(const csv *s)
{
    const yk_schema *own = s->table.own;
    const yk__names *classes = own->classes.n ? &own->classes : &s->table.schema->classes;
    double v;
    for (size_t i = 0; i < own->ncolumns; i++) {
        const char *name = own->column[i].name;
        if (yk_cell_number(name, strlen(name), &v) ||
            yk__words_find(classes, name, strlen(name)) != classes->n)
            return false;
    }
    return true;
}

/* ---- numeric columns that are not */

static void count_numbers(const csv *s, sample *t, const char *line, const char *end, size_t *numbers,
                          size_t *others)
{
    const csv_field *f = &t->field;
    const char *p = line - 1;
    double v;
    for (size_t i = 0; i < s->table.own->ncolumns && p != end; i++) {
        if (p++, csv_read(&t->field, &p, end, s->delimiter))
            return;
        if (yk_cell_number(f->text, f->n, &v))
            numbers[i]++;
        else if (!yk_cell_missing(s->table.own, f->text, f->n, true) && others[i]++ == 0 && !*t->hint)
            t->hint = yk_cell_comma_hint(f->text, f->n);
    }
}

/* Most values in the first lines of these columns are not numbers: asks for a decision about all of them at once. */
static yk_status refuse_texts(csv *s, const sample *t)
{
    yk_schema *own = s->table.own;
    const bool inspects = s->table.base.options.inspects; /* then they are ignored */
    char list[400];
    size_t n = 0;
    for (size_t i = 0; i < own->ncolumns; i++) {
        yk_schema_column *c = &own->column[i];
        const char *const comma = n ? "," : "";
        if (c->role != YK_COLUMN_NUMERIC || c->chosen || *c->type != 't')
            continue;
        if (inspects) {
            c->role = YK_COLUMN_IGNORED;
            s->table.column[i] = NULL;
        }
        if (n >= 300)
            continue;
        if (own->header && *c->name && !strpbrk(c->name, ",&"))
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%.40s", comma, c->name);
        else
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%zu", comma, i + 1);
    }
    if (!n)
        return YK_OK;
    yk_fail(YK_EUSAGE,
            "%s: these columns are not numeric: %s%s%s; add categorical=%s to the spec to use their values "
            "as categories, or ignore=%s",
            s->table.base.spec, list, n >= 300 ? ",..." : "", t->hint, list, list);
    if (!inspects)
        return YK_EUSAGE;
    yk_warn("%s", yk_error());
    return YK_OK;
}

/* Finds the types of the columns, and the number of lines that the files may have, from the first lines. */
static yk_status read_sample(csv *s, sample *t, uint64_t *rows_out)
{
    yk_schema *own = s->table.own;
    size_t *count = yk_arena_alloc(&s->table.base.arena, 2 * own->ncolumns, sizeof *count, "columns");
    size_t length, lines = 0, bytes = 1;
    const char *line;
    if (!count)
        return YK_ESYSTEM;
    for (; lines < SAMPLE_LINES && next_line(t, s->table.base.quoted, &line, &length); lines++) {
        bytes += length + 1;
        if (length)
            count_numbers(s, t, line, line + length, count, count + own->ncolumns);
    }
    for (size_t i = 0; i < own->ncolumns; i++)
        snprintf(own->column[i].type, sizeof own->column[i].type, "%s",
                 count[own->ncolumns + i] > count[i] ? "text"
                 : count[i]                          ? "number"
                                                     : "empty");
    const double growth = t->in->compressed ? 4.0 : 1.0; /* compressed text is about four times as long */
    *rows_out = (uint64_t)((double)s->table.base.files.bytes * growth / (double)bytes * (double)lines);
    return s->table.schema == own ? refuse_texts(s, t) : YK_OK;
}

/* ---- opening */

/* Reads the first line, and decides what each column is. */
static yk_status read_columns(csv *s, yk_spec *spec, sample *t, uint64_t *rows_out)
{
    const char *line;
    size_t length;
    yk_status st = open_sample(s, t);
    if (st)
        return st;
    const char *const all = t->p;
    if (!next_line(t, s->table.base.quoted, &line, &length)) {
        line = all;
        length = (size_t)(t->end - all);
        length -= length && line[length - 1] == '\r';
        if (memchr(line, '\r', length) && !memchr(line, '\n', length))
            return yk_fail(YK_EDATA, "%s: the lines end with CR; they must end with LF or CR LF",
                           s->table.base.files.path[0]);
    }
    const char *const end = line + length;
    line += yk__bom(line, length);
    if (line == end)
        return yk_fail(YK_EDATA, all == t->end ? "%s: is empty" : "%s: the first line is empty",
                       s->table.base.files.path[0]);
    if (memchr(line, 0, (size_t)(end - line)))
        return yk_fail(
            YK_EDATA, "%s: zero bytes in the first line: this is not CSV text%s", s->table.base.files.path[0],
            !strncmp(all, "PAR1", 4)                                       ? "; use parquet:FILES"
            : !strncmp(all, "\xff\xfe", 2) || !strncmp(all, "\xfe\xff", 2) ? "; convert UTF-16 to UTF-8"
                                                                           : "");
    if ((st = choose_delimiter(s, spec, line, end)) || (st = add_columns(s, t, line, end)))
        return st;
    s->table.own->header = yk_spec_u64(spec, "header", looks_like_header(s), 0, 1);
    if (spec->status)
        return spec->status;
    if (!s->table.own->header)
        t->p = all;
    return (st = yk_tabular_columns(&s->table)) ? st : read_sample(s, t, rows_out);
}

static yk_status csv_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    csv *s = (csv *)source;
    sample t = {.hint = ""};
    uint64_t rows = 0;
    yk_status st = yk_tabular_init(&s->table);
    s->table.base.quoted = yk_spec_u64(spec, "multiline", 0, 0, 1);
    if (st || (st = spec->status) || (st = yk__text_open(source)))
        return st;
    st = read_columns(s, spec, &t, &rows);
    yk_input_free(t.in);
    free(t.field.buffer);
    return st ? st : yk_tabular_finish(&s->table, rows);
}

/* ---- the source */

static yk_status csv_reader_open(yk_reader *reader)
{
    const yk_tabular *t = &((const csv *)reader->source)->table;
    csv_reader *r = (csv_reader *)reader;
    const char *line = NULL;
    size_t length;
    r->hash = yk_arena_alloc(&reader->arena, t->schema->categories + 1, sizeof *r->hash, "hashes of a row");
    if (!r->hash)
        return YK_ESYSTEM;
    const yk_status st =
        t->own->header && !reader->range->begin ? yk__text_line(&r->text, &line, &length) : YK_OK;
    return st || !line ? st : check_header(&r->text, line, line + length);
}

static void csv_reader_close(yk_reader *reader)
{
    free(((csv_reader *)reader)->field.buffer);
}

const yk_source_ops yk__csv_source = {
    .name = "csv",
    .options = "header delimiter multiline split-by " YK_TABULAR_KEYS,
    .record = "line",
    .has_texts = true,
    .source_size = sizeof(csv),
    .reader_size = sizeof(csv_reader),
    .open = csv_open,
    .free = yk_tabular_free,
    .reader_open = csv_reader_open,
    .reader_close = csv_reader_close,
    .parse = parse_line,
    .is_row = is_row,
};
