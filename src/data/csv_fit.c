/* The statistics of csv:FILES for encode=onehot, encode=dense and scale=standard: one pass over the files, in order, by one
 * thread, so that every process gets the same result; see csv.h. */
#include "data/csv.h"

#include "base/log.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_VALUES = 1 << 24 };

/* ---- values */

static yk_status grow_values(yk__csv_values *v)
{
    yk__csv_values larger = {.n = v->n, .slots = v->slots ? 2 * v->slots : 1024};
    larger.slot = calloc(larger.slots, sizeof *larger.slot);
    if (!larger.slot)
        return yk_fail_memory(larger.slots * sizeof *larger.slot, "values of categorical columns");
    for (size_t i = 0; i < v->slots; i++)
        if (v->slot[i].hash)
            *yk__csv_value_at(&larger, v->slot[i].hash) = v->slot[i];
    free(v->slot);
    *v = larger;
    return YK_OK;
}

static yk_status add_value(yk__csv_values *v, uint64_t hash, bool *new_out)
{
    if (2 * v->n >= v->slots && grow_values(v))
        return YK_ESYSTEM;
    struct yk__csv_value *slot = yk__csv_value_at(v, hash);
    *new_out = !slot->hash;
    if (*new_out)
        *slot = (struct yk__csv_value){hash, (uint32_t)v->n++};
    return YK_OK;
}

/* ---- the pass */

typedef struct {
    double number;   /* of the current line; NaN: missing */
    uint64_t hash;   /* of the current line; 0: missing */
    double mean, m2; /* Welford's sums */
    uint64_t count;
} statistics;

typedef struct {
    yk__csv *s;
    yk__csv_field field;
    bool own;            /* the files are those of the source: only the rows of its part count */
    uint64_t rows, seen; /* in the part; in all */
    char fault[160];     /* in the first bad line; "": none */
    statistics *column;  /* [ncolumns] */
    uint32_t *column_of; /* [values] in the order in which they were found */
    size_t column_cap;
} fitting;

/* A bad line is reported when rows are read, unless all are bad. */
static bool bad_line(fitting *f, uint64_t number, size_t column, const char *reason)
{
    char name[80];
    if (!*f->fault)
        snprintf(f->fault, sizeof f->fault, "line %llu: %s: %s", (unsigned long long)number,
                 yk__csv_name(f->s, column, name), reason);
    return false;
}

/* Reads the columns of a line; false: a bad line. */
static bool read_fields(fitting *f, uint64_t number, const char *line, const char *end)
{
    const yk__csv *s = f->s;
    const char *p = line - 1;
    for (size_t i = 0; i < s->ncolumns; i++) {
        if (p == end)
            return bad_line(f, number, i, "missing");
        p++;
        const yk__csv_result quotes = yk__csv_read(&f->field, &p, end, s->delimiter);
        if (quotes)
            return bad_line(f, number, i,
                            quotes == YK__CSV_NO_QUOTE ? "the quote is not closed"
                                                       : "text after the closing quote");
        const yk__csv_role role = s->column[i].role;
        const char *text = f->field.text;
        const size_t n = f->field.n;
        const bool missing = yk__csv_missing(s, text, n, role == YK__CSV_NUMERIC);
        statistics *c = &f->column[i];
        c->hash = role == YK__CSV_CATEGORY && !missing ? yk__csv_hash(s->column[i].salt, text, n) : 0;
        c->number = (double)NAN;
        if (role == YK__CSV_NUMERIC && !missing && !yk__csv_number(text, n, &c->number))
            return bad_line(f, number, i, "not a number");
    }
    return p == end || bad_line(f, number, s->ncolumns - 1, "followed by more columns");
}

static yk_status add_line(fitting *f)
{
    yk__csv *s = f->s;
    yk_status st = YK_OK;
    for (size_t i = 0; i < s->ncolumns && !st; i++) {
        statistics *c = &f->column[i];
        if (!isnan(c->number)) {
            const double d = c->number - c->mean;
            c->mean += d / (double)++c->count;
            c->m2 += d * (c->number - c->mean);
        }
        if (!c->hash || s->encode == YK__CSV_HASH)
            continue;
        bool is_new;
        if ((st = add_value(&s->values, c->hash, &is_new)) || !is_new)
            continue;
        if (s->values.n > MAX_VALUES)
            return yk_fail(YK_EDATA,
                           "%s: more than %d different values in categorical columns; use encode=hash",
                           s->text.base.base.spec, MAX_VALUES);
        if (!(st = YK_RESERVE(f->column_of, f->column_cap, s->values.n, "values of categorical columns")))
            f->column_of[s->values.n - 1] = (uint32_t)i;
    }
    f->rows++;
    return st;
}

static yk_status read_file(fitting *f, const char *path)
{
    yk_input *in;
    const char *line;
    size_t length;
    yk_status st = yk_input_open(path, 0, &in);
    if (st)
        return st;
    uint64_t lines = 1, number = 1;
    for (bool first = true;; first = false, number += lines) {
        if ((st = yk_input_line(in, f->s->text.quoted, &line, &length, &lines)) || !line)
            break;
        if (first)
            line = yk__csv_skip_bom(line, &length);
        if ((first && f->s->header) || !length || !read_fields(f, number, line, line + length))
            continue;
        const bool by_number = yk_split_has(&f->s->text.base.base.part, yk_split_of_row(f->seen++));
        if (f->own && !(by_number && yk__csv_in_part(f->s, &f->field, line, line + length)))
            continue;
        if ((st = add_line(f)))
            break;
        if (f->rows % 65536 == 0)
            yk_progress("%s: finding values and means: %llu lines", path, (unsigned long long)f->rows);
    }
    yk_input_free(in);
    return st == YK_EDATA && f->rows && f->s->text.base.base.skip_bad ? YK_OK : st;
}

/* The indices of a column's values are consecutive, in the order in which they were found. */
static yk_status number_values(fitting *f)
{
    yk__csv *s = f->s;
    const size_t n = s->values.n;
    uint32_t *next = calloc(s->ncolumns + 1, sizeof *next), *index = malloc((n + 1) * sizeof *index);
    if (!next || !index) {
        free(next);
        free(index);
        return yk_fail_memory(n * sizeof *index, "values of categorical columns");
    }
    for (size_t k = 0; k < n; k++)
        next[f->column_of[k] + 1]++;
    next[0] = (uint32_t)s->numeric;
    for (size_t i = 0; i < s->ncolumns; i++)
        next[i + 1] += next[i];
    for (size_t k = 0; k < n; k++)
        index[k] = next[f->column_of[k]]++;
    for (size_t slot = 0; slot < s->values.slots; slot++)
        if (s->values.slot[slot].hash)
            s->values.slot[slot].index = index[s->values.slot[slot].index];
    free(next);
    free(index);
    return YK_OK;
}

static void set_scales(fitting *f)
{
    for (size_t i = 0; i < f->s->ncolumns; i++) {
        const statistics *c = &f->column[i];
        const double deviation = c->count ? sqrt(c->m2 / (double)c->count) : 0.0;
        f->s->column[i].mean = (float)c->mean;
        f->s->column[i].factor = deviation > 0.0 ? (float)(1.0 / deviation) : 1.0f;
    }
}

static yk_status fit(fitting *f, const yk_files *files)
{
    f->column = calloc(f->s->ncolumns, sizeof *f->column);
    if (!f->column)
        return yk_fail_memory(f->s->ncolumns * sizeof *f->column, "statistics of columns");
    yk_status st = YK_OK;
    for (size_t i = 0; i < files->n && !st; i++)
        st = read_file(f, files->path[i]);
    yk_progress_end();
    if (!st && !f->rows)
        st = yk_fail(YK_EDATA,
                     "%s: no valid line from which to compute values and means%s%s; the columns must be "
                     "those of the data",
                     files->path[0], *f->fault ? ": " : "", f->fault);
    if (!st && f->s->categories && f->s->encode != YK__CSV_HASH)
        st = f->s->values.slots
                 ? number_values(f)
                 : yk_fail(YK_EDATA, "%s: the categorical columns have no values", files->path[0]);
    if (!st)
        set_scales(f);
    return st;
}

yk_status yk__csv_fit(yk__csv *s, const char *where)
{
    fitting f = {.s = s, .own = !where};
    yk_files others = {0};
    yk_status st = where ? yk_files_find(where, &others) : YK_OK;
    if (!st)
        st = fit(&f, where ? &others : &s->text.base.files);
    yk_files_fini(&others);
    free(f.field.buffer);
    free(f.column);
    free(f.column_of);
    return st;
}
