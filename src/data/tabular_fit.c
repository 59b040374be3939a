/* The statistics for encode=onehot, encode=dense and scale=standard: one pass over the data, in order, by one thread, so that
 * every process gets the same result; see tabular.h. */
#include "data/tabular.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/moments.h"
#include "data/formats.h"
#include <stdlib.h>

enum { MAX_BYTES = 64 << 20 }; /* of values: a model file has room for them */

typedef struct {
    const char *text; /* of the current row; NULL: missing */
    size_t n;
    double number; /* of the current row; NaN: missing */
    yk_moments numbers;
} statistics;

struct yk_fit {
    yk_tabular *table;
    statistics *column; /* [own->ncolumns] */
    yk_schema_values seen;
    size_t bytes;
    uint64_t rows;
};

bool yk__fit_needed(const yk_schema *s)
{
    return (s->categories && s->encode != YK_ENCODE_HASH) || (s->numeric && s->scale == YK_SCALE_STANDARD);
}

uint64_t yk_fit_rows(const yk_fit *f)
{
    return f->rows;
}

void yk_fit_number(yk_fit *f, size_t i, double v)
{
    f->column[i].number = v;
}

bool yk_fit_text(yk_fit *f, size_t i, const char *text, size_t n)
{
    const yk_schema *s = f->table->own;
    const yk_column_role role = s->column[i].role;
    statistics *c = &f->column[i];
    c->text = NULL;
    c->number = (double)NAN;
    if (role > YK_COLUMN_CATEGORICAL || yk_cell_missing(s, text, n, role == YK_COLUMN_NUMERIC))
        return true;
    if (role == YK_COLUMN_NUMERIC)
        return yk_cell_number(text, n, &c->number);
    c->text = text;
    c->n = n;
    return true;
}

static yk_status add_value(yk_fit *f, yk_schema_column *c, const char *text, size_t n)
{
    bool is_new;
    yk_status st = yk_schema_value_add(&f->seen, yk_cell_hash(c->salt, text, n), &is_new);
    if (st || !is_new)
        return st;
    if (memchr(text, 0, n))
        return yk_fail(YK_EDATA,
                       "%s: a value of the categorical column '%s' has a zero byte; use encode=hash",
                       f->table->source->spec, c->name);
    if ((f->bytes += n + 8) > MAX_BYTES)
        return yk_fail(YK_EDATA,
                       "%s: the categorical columns have too many distinct values (%zu, column '%s'); use "
                       "encode=hash",
                       f->table->source->spec, f->seen.n, c->name);
    return yk__names_add(&c->values, text, n);
}

yk_status yk_fit_row(yk_fit *f)
{
    yk_schema *s = f->table->own;
    yk_status st = YK_OK;
    for (size_t i = 0; i < s->ncolumns && !st; i++) {
        statistics *c = &f->column[i];
        yk_moments_add(&c->numbers, c->number);
        if (c->text && s->encode != YK_ENCODE_HASH)
            st = add_value(f, &s->column[i], c->text, c->n);
        c->text = NULL;
        c->number = (double)NAN;
    }
    if (++f->rows % 65536 == 0)
        yk_progress("%s: finding values and means: %llu rows", f->table->source->parsed.where,
                    (unsigned long long)f->rows);
    return st;
}

/* A pass over the first rows only needs to know how many there are. Bad records are found when rows are read, which needs the
 * schema. */
static yk_status count_first(const yk_tabular *t)
{
    uint64_t row;
    if (!t->source->part.ordered || yk_spec_text(&t->source->parsed, "fit"))
        return YK_OK;
    return t->source->options.skip_bad
               ? yk_fail(YK_EUSAGE,
                         "%s: --validation last: and --skip-bad need fit=FILES for encode=onehot, "
                         "encode=dense and scale=standard",
                         t->source->spec)
               : yk__split_number(t->source, 0, &row);
}

yk_status yk__fit(yk_tabular *t, yk_tabular_pass *pass, void *context)
{
    yk_schema *s = t->own;
    yk_status st = count_first(t);
    if (st)
        return st;
    yk_fit f = {.table = t, .column = calloc(s->ncolumns, sizeof *f.column)};
    if (!f.column)
        return yk_fail_memory(s->ncolumns * sizeof *f.column, "statistics of columns");
    for (size_t i = 0; i < s->ncolumns; i++)
        f.column[i].number = (double)NAN;
    st = pass(context, &f, yk_spec_text(&t->source->parsed, "fit"));
    yk_progress_end();
    for (size_t i = 0; i < s->ncolumns; i++) {
        const yk_moments *m = &f.column[i].numbers;
        s->column[i].mean = m->mean;
        s->column[i].deviation =
            m->n > 0.0 ? sqrt(m->squares / m->n) : 0.0; /* of all rows, not of a sample */
    }
    if (!st && s->categories && s->encode != YK_ENCODE_HASH && !f.seen.n)
        st = yk_fail(YK_EDATA, "%s: the categorical columns have no values", t->source->spec);
    yk_free(f.seen.slot);
    free(f.column);
    return st;
}
