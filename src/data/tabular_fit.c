/* The statistics for encode=onehot, encode=dense and scale=standard: one pass over the data, in order, by one thread, so that
 * every process gets the same result; see tabular.h. */
#include "data/tabular.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/moments.h"

enum { MAX_BYTES = 64 << 20 }; /* of values: a model file has room for them */

struct yk_fit {
    yk_schema *schema;   /* gets the values */
    const char *spec;    /* for messages */
    yk_moments *numbers; /* [ncolumns] */
    yk_schema_values seen;
    size_t bytes;
    yk_split_range part;
    bool begun;          /* else the rows are only counted, by several threads */
    bool counts;         /* the current row is in the part */
    uint64_t read, rows; /* rows that were read; those of the part */
};

bool yk__fit_needed(const yk_schema *s)
{
    return (s->categories && s->encode != YK_ENCODE_HASH) || (s->numeric && s->scale == YK_SCALE_STANDARD);
}

void yk__fit_row(yk_fit *f)
{
    if (!f->begun)
        return;
    f->counts = yk_split_has_row(&f->part, f->read++);
    f->rows += f->counts;
    if (f->counts && f->rows % 65536 == 0)
        yk_progress("%s: finding values and means: %llu rows", f->spec, (unsigned long long)f->rows);
}

void yk__fit_number(yk_fit *f, const yk_schema_column *c, double v)
{
    if (f->counts)
        yk_moments_add(&f->numbers[c - f->schema->column], v);
}

static yk_status add_value(yk_fit *f, const yk_schema_column *c, const char *text, size_t n)
{
    bool is_new;
    yk_status st = yk_schema_value_add(&f->seen, yk_cell_hash(c->salt, text, n), &is_new);
    if (st || !is_new)
        return st;
    if (memchr(text, 0, n))
        return yk_fail(YK_EDATA,
                       "%s: a value of the categorical column '%s' has a zero byte; use encode=hash", f->spec,
                       c->name);
    if ((f->bytes += n + 8) > MAX_BYTES)
        return yk_fail(
            YK_EDATA,
            "%s: the categorical columns have too many distinct values (%zu, column '%s'); use encode=hash",
            f->spec, f->seen.n, c->name);
    return yk__names_add(&f->schema->column[c - f->schema->column].values, text, n);
}

yk_status yk__fit_text(yk_fit *f, const yk_schema_column *c, const char *text, size_t n)
{
    double v;
    if (!f->counts || !c || !yk_is_feature(c))
        return YK_OK;
    if (yk_cell_missing(f->schema, text, n, c->role == YK_COLUMN_NUMERIC))
        return YK_OK;
    if (c->role == YK_COLUMN_CATEGORICAL)
        return f->schema->encode == YK_ENCODE_HASH ? YK_OK : add_value(f, c, text, n);
    if (yk_cell_number_of(c, text, n, &v)) /* as for all rows that are not bad */
        yk__fit_number(f, c, v);
    return YK_OK;
}

/* The statistics are computed from the rows of the source or, with ?fit=FILES, from all rows of those files. The spec of this data has
 * no options about columns, because the schema describes them. */
static yk_status read_data(yk_fit *f, yk_source *s)
{
    const char *files = yk_spec_text(&s->parsed, "fit");
    const char *kept = yk_spec_kept(
        &s->parsed, files ? "header delimiter multiline" : "header delimiter multiline split split-by",
        &s->arena);
    const char *text = yk_arena_print(&s->arena, "%s:%s%s%s", s->ops->name, files ? files : s->parsed.where,
                                      kept ? "?" : "", kept ? kept : "");
    yk_source_options o = s->options;
    yk_spec spec = {0};
    yk_source *data = NULL;
    o.schema = f->schema;
    o.fit = f;
    o.carry = NULL;
    o.names = NULL;
    o.hash_bits = 0; /* the schema has the number of features */
    o.features = 0;
    o.keys = (yk_key_space){0};
    if (files) { /* they need no labels */
        o.hold_out = (yk_hold_out){0};
        o.unlabeled = true;
    }
    yk_status st = text ? yk_spec_parse(text, &spec) : YK_ESYSTEM;
    if (!st)
        st = yk__source_create(s->ops, &spec, s->split, &o, &data);
    /* Reads all rows: then their numbers are known without counting, except for the last part of the data. */
    if (!st && data->part.ordered)
        st = yk__split_number(data, 0, &(uint64_t){0});
    if (!st) {
        f->part = data->part;
        data->part = (yk_split_range){0};
        f->begun = true;
        st = yk_source_each(data, NULL, NULL);
    }
    if (!st && !f->rows)
        st = yk_fail(YK_EDATA, "%s: no rows to compute means and values from", data->spec);
    yk_source_free(data);
    yk_spec_fini(&spec);
    return st;
}

yk_status yk__fit(yk_tabular *t)
{
    yk_schema *s = t->own;
    const bool listed = s->categories && s->encode != YK_ENCODE_HASH;
    yk_fit f = {.schema = s, .spec = t->base.spec};
    f.numbers = yk_arena_alloc(&t->base.arena, s->ncolumns, sizeof *f.numbers, "statistics of columns");
    if (!f.numbers)
        return YK_ESYSTEM;
    s->features += !s->features; /* dense rows of values that are not known yet have a column */
    yk_status st = read_data(&f, &t->base);
    yk_progress_end();
    for (size_t i = 0; i < s->ncolumns; i++) {
        const yk_moments *m = &f.numbers[i];
        s->column[i].mean = m->mean;
        /* of all rows, not of a sample */
        s->column[i].deviation = m->n > 0.0 ? sqrt(m->squares / m->n) : 0.0;
    }
    if (!st && listed && !f.seen.n)
        st = yk_fail(YK_EDATA, "%s: the categorical columns have no values", f.spec);
    yk_free(f.seen.slot);
    return st;
}
