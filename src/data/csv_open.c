/* Opens csv:FILES: determines the delimiter, the header and the role of each column, from the spec and the first lines; see
 * csv.h. */
#include "data/csv.h"

#include "base/mem.h"
#include "base/number.h"
#include "base/rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLE_BYTES = 64 << 10, MAX_SAMPLE = 64 << 20, SAMPLE_LINES = 1000 };

/* ---- words */

yk_status yk__words_split(const char *list, bool trim, yk__names *out)
{
    yk_status st = YK_OK;
    for (const char *p = list; p && !st; p = *p ? p + 1 : NULL) {
        const char *word = p;
        size_t n = strcspn(p, ",");
        p += n;
        if (trim)
            yk__csv_trim(&word, &n);
        st = yk__names_add(out, word, n);
    }
    return st;
}

size_t yk__words_find(const yk__names *w, const char *text, size_t n)
{
    size_t i = 0;
    while (i < w->n && (strlen(w->name[i]) != n || memcmp(w->name[i], text, n) != 0))
        i++;
    return i;
}

/* ---- the first lines */

/* Complete lines at the start of the first file. */
typedef struct {
    yk_input *in;
    const char *p, *end; /* what is left */
    yk__csv_field field;
    const char *hint; /* yk__csv_comma_hint() */
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
    const char *path = s->text.base.files.path[0], *line;
    yk_status st = yk_input_open(path, 0, &t->in);
    for (size_t want = SAMPLE_BYTES; !st; want *= 2) {
        const uint8_t *p;
        size_t have, length;
        if ((st = yk_input_peek(t->in, want, &p, &have)))
            break;
        t->p = (const char *)p;
        t->end = t->p + have;
        sample first = *t;
        if (have < want || next_line(&first, s->text.quoted, &line, &length))
            break;
        if (want > MAX_SAMPLE)
            st = yk_fail(YK_EDATA, "%s: the first line is longer than 64 MiB: not a CSV file", path);
    }
    return st;
}

/* The delimiter that occurs most often in the line, outside quotes. */
static char find_delimiter(const char *line, const char *end)
{
    static const char known[] = ",\t;|";
    size_t count[4] = {0}, best = 0;
    bool open = false;
    for (const char *p = line; p != end; p++) {
        open ^= *p == '"';
        const char *k = open || !*p ? NULL : strchr(known, *p);
        if (k)
            count[k - known]++;
    }
    for (size_t i = 1; i < 4; i++)
        best = count[i] > count[best] ? i : best;
    return known[best];
}

static yk_status choose_delimiter(yk__csv *s, yk_spec *spec, const char *line, const char *end)
{
    static const struct {
        const char *word;
        char c;
    } named[] = {{"tab", '\t'}, {"comma", ','}, {"semicolon", ';'}, {"pipe", '|'}, {"space", ' '}};
    const char *given = yk_spec_text(spec, "delimiter", NULL);
    s->delimiter = !given ? find_delimiter(line, end) : strlen(given) == 1 ? *given : 0;
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
    size_t cap = 0;
    for (const char *p = line;; p++) {
        if (s->ncolumns == YK__CSV_MAX_COLUMNS)
            return yk_fail(YK_EDATA, "%s: more than %d columns", s->text.base.files.path[0],
                           YK__CSV_MAX_COLUMNS);
        if (yk__csv_read_name(&t->field, &p, end, s->delimiter))
            return yk_fail(YK_EDATA, "%s: line 1: bad quotes in column %zu%s", s->text.base.files.path[0],
                           s->ncolumns + 1,
                           s->text.quoted ? "" : "; if fields contain line breaks, add multiline=1");
        if (YK_RESERVE(s->column, cap, s->ncolumns + 1, "columns"))
            return YK_ESYSTEM;
        yk__csv_column *c = &s->column[s->ncolumns++];
        *c = (yk__csv_column){.name = strndup(t->field.text, t->field.n)};
        if (!c->name)
            return yk_fail_memory(t->field.n, "a column's name");
        if (p == end)
            return YK_OK;
    }
}

static bool is_number(const char *text)
{
    char padded[72] = {0}; /* yk__csv_number() reads 8 bytes at a time */
    double v;
    snprintf(padded, 64, "%s", text);
    return *padded && yk__csv_number(padded, strlen(padded), &v);
}

/* A first line without numbers is a header, unless its label is one of the classes. */
static bool looks_like_header(const yk__csv *s)
{
    for (size_t i = 0; i < s->ncolumns; i++)
        if (is_number(s->column[i].name) ||
            yk__words_find(&s->classes, s->column[i].name, strlen(s->column[i].name)) != s->classes.n)
            return false;
    return true;
}

static yk_status fail_column(const yk__csv *s, const yk_spec *spec, const char *key, const char *word)
{
    char list[400];
    size_t n = 0;
    for (size_t i = 0; s->header && i < s->ncolumns && n < 300; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%.40s", i ? ", " : "", s->column[i].name);
    if (s->header)
        return yk_fail(YK_EUSAGE, "%s: %s: no column '%s'; the columns are: %s%s", spec->text, key, word,
                       list, n >= 300 ? ", ..." : "");
    return yk_fail(YK_EUSAGE, "%s: %s: no column '%s'; the columns have no names, only numbers from 1 to %zu",
                   spec->text, key, word, s->ncolumns);
}

/* The column with this name; ncolumns: none. */
static yk_status find_name(const yk__csv *s, const yk_spec *spec, const char *key, const char *name,
                           size_t *out)
{
    *out = s->ncolumns;
    for (size_t i = 0; s->header && i < s->ncolumns; i++) {
        if (strcmp(s->column[i].name, name) != 0)
            continue;
        if (*out != s->ncolumns)
            return yk_fail(
                YK_EUSAGE,
                "%s: %s: columns %zu and %zu are both named '%s'; use the number of one of them: %s=%zu",
                spec->text, key, *out + 1, i + 1, name, key, *out + 1);
        *out = i;
    }
    return YK_OK;
}

/* "price", "3", "-1" (the last), "2-14" or "15-": columns [*first_out, *end_out). */
static yk_status find_columns(const yk__csv *s, const yk_spec *spec, const char *key, const char *word,
                              size_t *first_out, size_t *end_out)
{
    uint64_t first, last;
    yk_status st = find_name(s, spec, key, word, first_out);
    *end_out = *first_out + 1;
    if (st || *first_out != s->ncolumns)
        return st;
    const bool from_end = *word == '-';
    const char *rest = yk_digits(word + from_end, s->ncolumns, &first);
    if (!rest || first == 0)
        return fail_column(s, spec, key, word);
    first = from_end ? s->ncolumns + 1 - first : first;
    last = first;
    if (!from_end && *rest == '-')
        rest = rest[1] ? yk_digits(rest + 1, s->ncolumns, &last) : (last = s->ncolumns, rest + 1);
    if (!rest || *rest || last < first)
        return fail_column(s, spec, key, word);
    *first_out = (size_t)first - 1;
    *end_out = (size_t)last;
    return YK_OK;
}

static yk_status find_column(const yk__csv *s, const yk_spec *spec, const char *key, const char *word,
                             size_t *out)
{
    size_t end;
    yk_status st = find_columns(s, spec, key, word, out, &end);
    if (!st && end != *out + 1)
        st = yk_fail(YK_EUSAGE, "%s: %s=%s: must be one column", spec->text, key, word);
    return st;
}

/* split-by=COLUMN: the parser leaves out the rows of other parts, so readers need not number the rows. */
static yk_status choose_split(yk__csv *s, const yk_spec *spec)
{
    yk_split_range *by_number = &s->text.base.base.part;
    const char *by = yk_spec_text(spec, "split-by", NULL);
    if (!by)
        return YK_OK;
    if (!by_number->on)
        return yk_fail(YK_EUSAGE, "%s: split-by needs split, such as split=0.9", spec->text);
    s->part = *by_number;
    *by_number = (yk_split_range){0};
    return find_column(s, spec, "split-by", by, &s->split_by);
}

static yk_status choose_columns(yk__csv *s, const yk_spec *spec, const char *key, yk__csv_role role)
{
    yk__names words = {0};
    yk_status st = yk__words_split(yk_spec_text(spec, key, NULL), true, &words);
    for (size_t w = 0; w < words.n && !st; w++) {
        size_t first, end;
        st = find_columns(s, spec, key, words.name[w], &first, &end);
        for (size_t i = first; !st && i < end; i++) {
            char name[80];
            if (s->column[i].chosen)
                st = yk_fail(YK_EUSAGE, "%s: %s: %s is listed twice", spec->text, key,
                             yk__csv_name(s, i, name));
            s->column[i].role = role;
            s->column[i].chosen = true;
        }
    }
    yk__names_fini(&words);
    return st;
}

/* label=NAME, label=NUMBER or label=none; by default the column `label`, otherwise the first. */
static yk_status choose_label(yk__csv *s, const yk_spec *spec)
{
    const char *given = yk_spec_text(spec, "label", NULL);
    if (given && !strcmp(given, "none"))
        return YK_OK;
    size_t first = 0;
    yk_status st =
        given ? find_column(s, spec, "label", given, &first) : find_name(s, spec, "label", "label", &first);
    if (st)
        return st;
    first = first < s->ncolumns ? first : 0;
    s->column[first].role = YK__CSV_LABEL;
    s->column[first].chosen = true;
    return YK_OK;
}

/* Columns that are not in any list are numeric. If only numeric= is given, they are categorical. */
static yk_status choose_roles(yk__csv *s, const yk_spec *spec)
{
    yk_status st;
    if ((st = choose_label(s, spec)) || (st = choose_columns(s, spec, "numeric", YK__CSV_NUMERIC)) ||
        (st = choose_columns(s, spec, "categorical", YK__CSV_CATEGORY)) ||
        (st = choose_columns(s, spec, "ignore", YK__CSV_IGNORED)))
        return st;
    if (!yk_spec_text(spec, "numeric", NULL) || yk_spec_text(spec, "categorical", NULL))
        return YK_OK;
    for (size_t i = 0; i < s->ncolumns; i++)
        if (!s->column[i].chosen) {
            s->column[i].role = YK__CSV_CATEGORY;
            s->column[i].chosen = true;
        }
    return YK_OK;
}

/* ---- numeric columns that are not */

static void count_numbers(const yk__csv *s, sample *t, const char *line, const char *end, size_t *numbers,
                          size_t *others)
{
    const yk__csv_field *f = &t->field;
    const char *p = line - 1;
    double v;
    for (size_t i = 0; i < s->ncolumns && p != end; i++) {
        if (p++, yk__csv_read(&t->field, &p, end, s->delimiter))
            return;
        if (yk__csv_number(f->text, f->n, &v))
            numbers[i]++;
        else if (!yk__csv_missing(s, f->text, f->n, true) && others[i]++ == 0 && !*t->hint)
            t->hint = yk__csv_comma_hint(f->text, f->n);
    }
}

/* Most values in the first lines of these columns are not numbers: asks for a decision about all of them at once. */
static yk_status fail_not_numeric(const yk__csv *s, const sample *t, const size_t *numbers,
                                  const size_t *others)
{
    char list[400];
    size_t n = 0;
    for (size_t i = 0; i < s->ncolumns && n < 300; i++) {
        const char *const comma = n ? "," : "";
        if (s->column[i].role != YK__CSV_NUMERIC || s->column[i].chosen || others[i] <= numbers[i])
            continue;
        if (s->header && *s->column[i].name && !strpbrk(s->column[i].name, ",&"))
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%.40s", comma, s->column[i].name);
        else
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%zu", comma, i + 1);
    }
    if (!n)
        return YK_OK;
    return yk_fail(
        YK_EUSAGE,
        "%s: these columns are not numeric: %s%s%s; add categorical=%s to the spec to use their values "
        "as categories, or ignore=%s",
        s->text.base.base.spec, list, n >= 300 ? ",..." : "", t->hint, list, list);
}

static yk_status check_numeric(const yk__csv *s, sample *t)
{
    size_t *count = calloc(2 * s->ncolumns, sizeof *count), length;
    const char *line;
    if (!count)
        return yk_fail_memory(2 * s->ncolumns * sizeof *count, "columns");
    for (int i = 0; i < SAMPLE_LINES && next_line(t, s->text.quoted, &line, &length); i++)
        if (length)
            count_numbers(s, t, line, line + length, count, count + s->ncolumns);
    yk_status st = fail_not_numeric(s, t, count, count + s->ncolumns);
    free(count);
    return st;
}

/* ---- open */

static yk_status number_columns(yk__csv *s)
{
    yk_source *source = &s->text.base.base;
    uint64_t salt = 0;
    uint16_t field = 0;
    if (s->header && !(source->column = calloc(s->ncolumns, sizeof *source->column)))
        return yk_fail_memory(s->ncolumns * sizeof *source->column, "columns");
    for (size_t i = 0; i < s->ncolumns; i++) {
        yk__csv_column *c = &s->column[i];
        if (c->role > YK__CSV_CATEGORY)
            continue;
        if (s->header)
            source->column[source->ncolumns++] = c->name;
        c->field = field++;
        c->salt = yk_mix64(++salt);
        if (c->role == YK__CSV_NUMERIC)
            c->slot = (uint32_t)s->numeric++;
        else
            s->categories++;
    }
    if (s->numeric + s->categories == 0)
        return yk_fail(YK_EDATA, "%s: no column is left besides the label; delimiter= sets the delimiter",
                       s->text.base.base.spec);
    if (s->categories && s->encode == YK__CSV_HASH && s->features <= s->numeric)
        return yk_fail(YK_EUSAGE, "%s: %llu feature%s not enough: the data has %zu numeric column%s",
                       s->text.base.base.spec, (unsigned long long)s->features,
                       s->features == 1 ? " is" : "s are", s->numeric, yk_plural(s->numeric));
    return YK_OK;
}

/* Reads the first line, and decides what each column is. */
static yk_status read_columns(yk__csv *s, yk_spec *spec, sample *t)
{
    const char *line;
    size_t length;
    yk_status st = open_sample(s, t);
    if (st)
        return st;
    const char *const all = t->p;
    if (!next_line(t, s->text.quoted, &line, &length)) {
        line = all;
        length = (size_t)(t->end - all);
        length -= length && line[length - 1] == '\r';
        if (memchr(line, '\r', length) && !memchr(line, '\n', length))
            return yk_fail(YK_EDATA, "%s: the lines end with CR; they must end with LF or CR LF",
                           s->text.base.files.path[0]);
    }
    line = yk__csv_skip_bom(line, &length);
    const char *const end = line + length;
    if (length == 0)
        return yk_fail(YK_EDATA, "%s: the first line is empty", s->text.base.files.path[0]);
    if ((st = choose_delimiter(s, spec, line, end)) || (st = add_columns(s, t, line, end)))
        return st;
    s->header = yk_spec_u64(spec, "header", looks_like_header(s), 0, 1);
    if (spec->status)
        return spec->status;
    if (!s->header)
        t->p = all;
    if ((st = choose_roles(s, spec)) || (st = choose_split(s, spec)))
        return st;
    return check_numeric(s, t);
}

static yk_status read_options(yk__csv *s, yk_spec *spec, const yk_source_options *o)
{
    const char *classes = yk_spec_text(spec, "classes", NULL);
    s->encode = (yk__csv_encoding)yk_spec_choice(spec, "encode", "hash onehot dense", YK__CSV_HASH);
    s->scale = (yk__csv_scale)yk_spec_choice(spec, "scale", "none log standard", YK__CSV_AS_IS);
    s->text.quoted = yk_spec_u64(spec, "multiline", 0, 0, 1);
    s->features = yk__spec_keys(spec, o, 24, UINT32_MAX).features;
    s->fields = yk__spec_fields(spec, o);
    yk_status st = spec->status ? spec->status
                                : yk__words_split(yk_spec_text(spec, "missing", NULL), false, &s->missing);
    if (!st && classes && is_number(classes))
        s->nclasses = (uint32_t)yk_spec_u64(spec, "classes", 0, 2, 1000001);
    else if (!st && !(st = yk__words_split(classes, true, &s->classes)))
        s->nclasses = (uint32_t)s->classes.n;
    for (size_t i = 0; i < s->classes.n && !st; i++)
        if (yk__words_find(&s->classes, s->classes.name[i], strlen(s->classes.name[i])) != i)
            return yk_fail(YK_EUSAGE, "%s: classes: '%s' is listed twice", spec->text, s->classes.name[i]);
    if (!st && classes && s->nclasses < 2 && !spec->status)
        return yk_fail(YK_EUSAGE, "%s: classes=%s: must be a number or at least two names", spec->text,
                       classes);
    return st ? st : spec->status;
}

static bool is_row(const yk_text_reader *r, const char *line, size_t length)
{
    (void)line;
    return length && !(r->offset == 0 && ((const yk__csv *)r->base.base.source)->header);
}

/* Finds the values of categorical columns, and means, if the rows need them. */
static yk_status fit(yk__csv *s, const yk_spec *spec, yk_split split)
{
    const char *files = yk_spec_text(spec, "fit", NULL);
    const bool one_hot = s->categories && s->encode != YK__CSV_HASH;
    if (!one_hot && s->scale != YK__CSV_STANDARD)
        return files ? yk_fail(YK_EUSAGE, "%s: fit is for encode=onehot, encode=dense and scale=standard",
                               spec->text)
                     : YK_OK;
    if (!files && s->text.base.base.once)
        return yk_fail(
            YK_EUSAGE,
            "%s: standard input can be read only once: add fit=FILES for encode=onehot, encode=dense "
            "and scale=standard",
            spec->text);
    if (!files && split == YK_SPLIT_TEST)
        return yk_fail(YK_EUSAGE,
                       "%s: columns and scales must be those of the training data: add fit=FILES with the "
                       "training files",
                       spec->text);
    yk_status st = yk__csv_fit(s, files);
    if (!st && one_hot)
        s->text.base.base.dim = s->numeric + s->values.n;
    return st;
}

yk_status yk__csv_open(yk_source *source, yk_spec *spec, yk_split split, const yk_source_options *o)
{
    yk__csv *s = (yk__csv *)source;
    sample t = {.hint = ""};
    yk_status st;
    s->text.parse = yk__csv_parse;
    s->text.is_row = is_row;
    if ((st = read_options(s, spec, o)) || (st = yk__text_open(&s->text, spec->where)))
        return st;
    if (!(st = read_columns(s, spec, &t)))
        st = number_columns(s);
    yk_input_free(t.in);
    free(t.field.buffer);
    if (st)
        return st;
    s->dense = s->categories == 0 || s->encode == YK__CSV_DENSE;
    s->fields = s->fields && !s->dense;
    source->kind = s->dense ? YK_ROWS_F32 : YK_ROWS_SPARSE;
    source->classes = s->nclasses;
    source->fields = s->fields ? (uint32_t)(s->numeric + s->categories) : 1;
    source->dim = s->categories == 0 ? s->numeric : (size_t)s->features;
    source->hashed_into = s->categories && s->encode == YK__CSV_HASH ? s->features : 0;
    for (int i = 0; s->scale == YK__CSV_LOG && i < YK__CSV_LOGS; i++)
        s->log_of[i] = (float)log1p((double)i);
    return fit(s, spec, split);
}
