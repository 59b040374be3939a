/* Opens csv:FILES: determines the delimiter, the header and the columns from the spec and the first lines; see csv.h. */
#include "data/csv.h"

#include "base/log.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLE_BYTES = 64 << 10, MAX_SAMPLE = 64 << 20, SAMPLE_LINES = 1000 };

/* ---- the first lines */

/* Complete lines at the start of the first file. */
typedef struct {
    yk_input *in;
    const char *p, *end; /* what is left */
    yk__csv_field field;
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
static yk_status open_sample(const yk__csv *s, sample *t)
{
    const char *path = s->base.files.path[0], *line;
    yk_status st = yk_input_open(path, 0, &t->in);
    for (size_t want = SAMPLE_BYTES; !st; want *= 2) {
        const uint8_t *p;
        size_t have, length;
        if ((st = yk_input_peek(t->in, want, &p, &have)))
            break;
        t->p = (const char *)p;
        t->end = t->p + have;
        sample first = *t;
        if (have < want || next_line(&first, s->base.quoted, &line, &length))
            break;
        if (want > MAX_SAMPLE)
            st = yk_fail(YK_EDATA, "%s: the first line is longer than 64 MiB: not a CSV file", path);
    }
    return st;
}

/* By default, the delimiter that occurs most often in the line. */
static yk_status choose_delimiter(yk__csv *s, yk_spec *spec, const char *line, const char *end)
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
static yk_status add_columns(yk__csv *s, sample *t, const char *line, const char *end)
{
    const char *path = s->base.files.path[0];
    yk_schema *own = s->table.own;
    for (const char *p = line;; p++) {
        if (own->ncolumns == YK_SCHEMA_MAX_COLUMNS)
            return yk_fail(YK_EDATA, "%s: more than %d columns", path, YK_SCHEMA_MAX_COLUMNS);
        if (yk__csv_read_name(&t->field, &p, end, s->delimiter))
            return yk_fail(YK_EDATA, "%s: line 1: bad quotes in column %zu%s", path, own->ncolumns + 1,
                           s->base.quoted ? "" : "; if fields contain line breaks, add multiline=1");
        const yk_status st = yk_schema_add(own, t->field.text, t->field.n, "");
        if (st || p == end)
            return st;
    }
}

/* A first line without numbers is a header, unless its label is one of the classes. */
static bool looks_like_header(const yk__csv *s)
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

static void count_numbers(const yk__csv *s, sample *t, const char *line, const char *end, size_t *numbers,
                          size_t *others)
{
    const yk__csv_field *f = &t->field;
    const char *p = line - 1;
    double v;
    for (size_t i = 0; i < s->table.own->ncolumns && p != end; i++) {
        if (p++, yk__csv_read(&t->field, &p, end, s->delimiter))
            return;
        if (yk_cell_number(f->text, f->n, &v))
            numbers[i]++;
        else if (!yk_cell_missing(s->table.own, f->text, f->n, true) && others[i]++ == 0 && !*t->hint)
            t->hint = yk_cell_comma_hint(f->text, f->n);
    }
}

/* Most values in the first lines of these columns are not numbers: asks for a decision about all of them at once. */
static yk_status refuse_texts(yk__csv *s, const sample *t)
{
    yk_schema *own = s->table.own;
    const bool inspects = s->base.options.inspects; /* then they are ignored */
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
            s->base.spec, list, n >= 300 ? ",..." : "", t->hint, list, list);
    if (!inspects)
        return YK_EUSAGE;
    yk_warn("%s", yk_error());
    return YK_OK;
}

/* Finds the types of the columns, and the number of lines that the files may have, from the first lines. */
static yk_status read_sample(yk__csv *s, sample *t, uint64_t *rows_out)
{
    yk_schema *own = s->table.own;
    size_t *count = calloc(2 * own->ncolumns, sizeof *count), length, lines = 0, bytes = 1;
    const char *line;
    if (!count)
        return yk_fail_memory(2 * own->ncolumns * sizeof *count, "columns");
    for (; lines < SAMPLE_LINES && next_line(t, s->base.quoted, &line, &length); lines++) {
        bytes += length + 1;
        if (length)
            count_numbers(s, t, line, line + length, count, count + own->ncolumns);
    }
    for (size_t i = 0; i < own->ncolumns; i++)
        snprintf(own->column[i].type, sizeof own->column[i].type, "%s",
                 count[own->ncolumns + i] > count[i] ? "text"
                 : count[i]                          ? "number"
                                                     : "empty");
    free(count);
    const double growth = t->in->compressed ? 4.0 : 1.0; /* compressed text is about four times as long */
    *rows_out = (uint64_t)((double)s->base.files.bytes * growth / (double)bytes * (double)lines);
    return s->table.schema == own ? refuse_texts(s, t) : YK_OK;
}

/* ---- open */

/* Reads the first line, and decides what each column is. */
static yk_status read_columns(yk__csv *s, yk_spec *spec, sample *t, uint64_t *rows_out)
{
    const char *line;
    size_t length;
    yk_status st = open_sample(s, t);
    if (st)
        return st;
    const char *const all = t->p;
    if (!next_line(t, s->base.quoted, &line, &length)) {
        line = all;
        length = (size_t)(t->end - all);
        length -= length && line[length - 1] == '\r';
        if (memchr(line, '\r', length) && !memchr(line, '\n', length))
            return yk_fail(YK_EDATA, "%s: the lines end with CR; they must end with LF or CR LF",
                           s->base.files.path[0]);
    }
    const char *const end = line + length;
    line += yk__bom(line, length);
    if (line == end)
        return yk_fail(YK_EDATA, all == t->end ? "%s: is empty" : "%s: the first line is empty",
                       s->base.files.path[0]);
    if (memchr(line, 0, (size_t)(end - line)))
        return yk_fail(
            YK_EDATA, "%s: zero bytes in the first line: this is not CSV text%s", s->base.files.path[0],
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

yk_status yk__csv_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    yk__csv *s = (yk__csv *)source;
    sample t = {.hint = ""};
    uint64_t rows = 0;
    yk_status st = yk_tabular_init(&s->table, source);
    s->base.quoted = yk_spec_u64(spec, "multiline", 0, 0, 1);
    if (st || (st = spec->status) || (st = yk__text_open(source)))
        return st;
    st = read_columns(s, spec, &t, &rows);
    yk_input_free(t.in);
    free(t.field.buffer);
    return st ? st : yk_tabular_finish(&s->table, rows);
}
