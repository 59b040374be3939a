/* Reads the rows of parquet:FILES; see parquet.h. */
#include "data/parquet.h"

#include "base/mem.h"
#include "base/number.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    yk_reader base;
    yk_parquet_reader *in;
    const yk__parquet_block *block;
    yk__parquet_cell *cell; /* [nused] */
    uint64_t *hash;         /* [categories + 1] */
    uint64_t row;           /* of the block: the first one of the batch */
    size_t n, at;           /* of the batch */
    yk_carried carried;
} reader;

/* ---- cells */

const char *yk__parquet_text(const yk__parquet_cell *c, size_t i, char buffer[40], size_t *n_out)
{
    const yk_parquet_values *v = c->values;
    if (v->code && yk__parquet_has(c, i)) {
        *n_out = v->text[v->code[i]].n;
        return v->text[v->code[i]].bytes;
    }
    *buffer = 0;
    if (v->integer && yk__parquet_has(c, i))
        snprintf(buffer, 40, "%lld", (long long)v->integer[i]);
    else if (v->real && yk__parquet_has(c, i) && !isnan(v->real[i]))
        yk_number_shortest(v->real[i], buffer, 40);
    *n_out = strlen(buffer);
    return buffer;
}

/* Hashes the texts of a batch that are new: those that are not in the dictionary, and at first also those that are. Then looks
 * up the hashes of all rows: one after the other, so that cache misses overlap. */
static yk_status hash_texts(const yk_schema *schema, yk__parquet_cell *c, size_t rows)
{
    const yk_parquet_values *v = c->values;
    if (YK_RESERVE(c->hash, c->hash_cap, v->texts + 1, "hashes of texts"))
        return YK_ESYSTEM;
    for (size_t i = c->hashed == v->dictionary ? v->dictionary : 0; i < v->texts; i++) {
        const char *const text = v->text[i].bytes;
        const size_t n = v->text[i].n;
        c->hash[i] = yk_cell_missing(schema, text, n, false) ? 0 : yk_cell_hash(c->column->salt, text, n);
    }
    c->hashed = v->dictionary;
    for (size_t i = 0; i < rows; i++)
        c->now[i] = c->hash[v->code[i]];
    for (size_t i = 0; v->valid && i < rows; i++)
        c->now[i] = v->valid[i] ? c->now[i] : 0;
    return YK_OK;
}

static inline bool add_number(yk_row *w, const yk__parquet *s, const yk__parquet_cell *c, size_t i)
{
    const double v = yk__parquet_number(s, c, i);
    return isnan(v) || (isfinite(v) && yk_row_scaled(w, s->tabular.schema, c->column, v));
}

/* Labels, and what is rare. */
static bool add_other(yk_row *w, yk_tabular *t, const yk__parquet_cell *c, size_t i)
{
    const yk_parquet_values *v = c->values;
    if (!yk__parquet_has(c, i))
        return c->column->role != YK_COLUMN_LABEL;
    if (v->code)
        return yk_row_text(w, t, c->column, v->text[v->code[i]].bytes, v->text[v->code[i]].n);
    return v->integer ? yk_row_integer(w, t, c->column, v->integer[i])
                      : yk_row_number(w, t, c->column, v->real[i]);
}

/* Row i of the batch. Returns the number of its first bad cell; nused: none is bad. */
static size_t add_cells(reader *r, yk__parquet *s, yk_row *w, size_t i)
{
    const yk_schema *schema = s->tabular.schema;
    size_t k = 0;
    for (; k < s->nused; k++) {
        const yk__parquet_cell *c = &r->cell[k];
        if (c->treatment == YK__PARQUET_HASH) {
            if (c->now[i])
                yk_row_hash(w, schema, c->column, c->now[i]);
        } else if (c->treatment == YK__PARQUET_NUMBER) {
            if (yk__parquet_has(c, i) && !add_number(w, s, c, i))
                break;
        } else if (c->column && !add_other(w, &s->tabular, c, i)) {
            break;
        }
    }
    return k;
}

/* ---- rows */

bool yk__parquet_in_part(const yk__parquet *s, const yk__parquet_cell *cells, size_t i)
{
    char buffer[40];
    size_t n;
    if (!s->part.on)
        return true;
    const char *text = yk__parquet_text(&cells[s->split_by], i, buffer, &n);
    return yk_split_has(&s->part, yk_split_of_text(text, n));
}

static yk_status bad_row(reader *r, size_t i, size_t k)
{
    yk__parquet *s = (yk__parquet *)r->base.source;
    char buffer[40], reason[400];
    size_t n;
    const char *text = yk__parquet_text(&r->cell[k], i, buffer, &n);
    yk_cell_fault(&s->tabular, r->cell[k].number, text, n, reason);
    return yk_source_bad(&s->base.base, s->base.files.path[r->block->table], r->block->row + r->row + i + 1,
                         yk_parquet_page(r->in, k), "%s", reason);
}

static yk_status next_batch(reader *r, const yk__parquet *s)
{
    r->row += r->n;
    r->at = 0;
    yk_status st = yk_parquet_next(r->in, &r->n);
    for (size_t k = 0; k < s->nused && r->n && !st; k++)
        if (r->cell[k].treatment == YK__PARQUET_HASH)
            st = hash_texts(s->tabular.schema, &r->cell[k], r->n);
    return st;
}

static yk_status carry_cells(reader *r, const yk__parquet *s, size_t i)
{
    yk_status st = yk_carried_row(&r->carried, &s->tabular);
    for (size_t k = 0; k < s->nused && !st; k++) {
        char buffer[40];
        size_t n;
        const char *text = yk__parquet_text(&r->cell[k], i, buffer, &n);
        yk_carried_put(&r->carried, &s->tabular, s->used[k], text, n);
    }
    return st;
}

static const char *parquet_cell(const yk_reader *base, size_t i, size_t k)
{
    return yk_carried_cell(&((const reader *)base)->carried, &((const yk__parquet *)base->source)->tabular, i,
                           k);
}

static yk_status parquet_next(yk_reader *base, yk_rows *rows, size_t max, size_t *got_out)
{
    reader *r = (reader *)base;
    yk__parquet *s = (yk__parquet *)base->source;
    yk_row w = {.hash = r->hash};
    yk_status st = YK_OK;
    size_t got = 0;
    yk_carried_clear(&r->carried);
    while (got < max && !st) {
        if (r->at == r->n && ((st = next_batch(r, s)) || !r->n))
            break;
        const size_t i = r->at++;
        if (!yk__parquet_in_part(s, r->cell, i))
            continue;
        if ((st = yk_row_begin(&w, s->tabular.schema, s->tabular.fields, rows)))
            break;
        const size_t bad = add_cells(r, s, &w, i);
        if (bad < s->nused) {
            st = bad_row(r, i, bad);
            continue;
        }
        if (s->tabular.ncarry && (st = carry_cells(r, s, i)))
            break;
        st = yk_row_end(&w, s->tabular.schema, rows);
        got += !st;
    }
    *got_out = got;
    return st;
}

static yk_status parquet_count(yk_reader *base, uint64_t *out)
{
    *out = base->source->skip_bad ? UINT64_MAX : ((reader *)base)->block->rows; /* bad rows have no number */
    return YK_OK;
}

/* ---- readers */

yk_status yk__parquet_cells(const yk__parquet *s, const yk__parquet_table *t, const yk__parquet_block *b,
                            yk__parquet_cell **cells_out, yk_parquet_reader **in_out)
{
    size_t *column = calloc(s->nused + 1, sizeof *column);
    yk__parquet_cell *cells = *cells_out = calloc(s->nused + 1, sizeof *cells);
    yk_status st = column && cells ? YK_OK : yk_fail_memory(s->nused * sizeof *cells, "columns");
    for (size_t k = 0; k < s->nused && !st; k++)
        column[k] = t->column[s->used[k]];
    if (!st)
        st = yk_parquet_read(t->file, b->group, column, s->nused, b->first, b->rows, in_out);
    for (size_t k = 0; k < s->nused && !st; k++) {
        const yk_schema_column *c = s->tabular.column[s->used[k]];
        const yk_parquet_values *v = yk_parquet_values_of(*in_out, k);
        const bool hash = c && c->role == YK_COLUMN_CATEGORICAL && v->code && !s->base.base.names;
        const bool number = c && c->role == YK_COLUMN_NUMERIC && !v->code;
        cells[k].column = c;
        cells[k].number = s->used[k];
        cells[k].values = v;
        cells[k].treatment = hash ? YK__PARQUET_HASH : number ? YK__PARQUET_NUMBER : YK__PARQUET_OTHER;
    }
    free(column);
    return st;
}

static yk_status parquet_reader_open(yk_reader *base)
{
    const yk__parquet *s = (const yk__parquet *)base->source;
    reader *r = (reader *)base;
    r->block = &s->block[base->block];
    if (!(r->hash = malloc((s->tabular.schema->categories + 1) * sizeof *r->hash)))
        return yk_fail_memory(s->tabular.schema->categories * sizeof *r->hash, "hashes of a row");
    return yk__parquet_cells(s, &s->table[r->block->table], r->block, &r->cell, &r->in);
}

static void parquet_reader_close(yk_reader *base)
{
    reader *r = (reader *)base;
    for (size_t k = 0; r->cell && k < ((const yk__parquet *)base->source)->nused; k++)
        free(r->cell[k].hash);
    free(r->cell);
    free(r->hash);
    yk_carried_fini(&r->carried);
    yk_parquet_reader_free(r->in);
}

static yk_status parquet_reader_check(const yk_reader *base)
{
    return yk_parquet_unchanged(((const reader *)base)->in);
}

const yk_source_ops yk__parquet_source = {
    .name = "parquet",
    .usage = "parquet:FILES",
    .options = "split-by " YK_TABULAR_KEYS,
    .record = "row",
    .by_number = true,
    .source_size = sizeof(yk__parquet),
    .reader_size = sizeof(reader),
    .open = yk__parquet_open,
    .free = yk__parquet_free,
    .reader_open = parquet_reader_open,
    .reader_close = parquet_reader_close,
    .reader_check = parquet_reader_check,
    .next = parquet_next,
    .cell = parquet_cell,
    .count = parquet_count,
};
