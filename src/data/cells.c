#include "data/cells.h"

#include "base/mem.h"
#include <stdlib.h>

/* ---- the columns that are used */

yk_status yk__cell_table_choose(yk__cell_table *t)
{
    const yk_tabular *tabular = &t->tabular;
    const size_t split_by = tabular->part.on ? tabular->split_by : tabular->own->ncolumns;
    if (!(t->used =
              yk_arena_alloc(&t->tabular.base.arena, tabular->own->ncolumns + 1, sizeof *t->used, "columns")))
        return YK_ESYSTEM;
    for (size_t i = 0; i < tabular->own->ncolumns; i++) {
        const yk_schema_column *c = tabular->column[i];
        bool used = (c && !(t->given && t->given->label && c->role == YK_COLUMN_LABEL)) || i == split_by;
        for (size_t k = 0; k < tabular->base.ncarry && !used; k++)
            used = tabular->carry[k] == i;
        if (i == split_by)
            t->split_by = t->nused;
        if (used)
            t->used[t->nused++] = i;
    }
    return YK_OK;
}

/* ---- cells */

static inline bool has_value(const yk__cell *c, size_t i)
{
    return !c->values->valid || c->values->valid[i];
}

/* NaN: missing. */
static inline double number_of(const yk__cell_table *t, const yk__cell *c, size_t i)
{
    const yk_parquet_values *v = c->values;
    const double x = v->real                          ? v->real[i]
                     : v->form == YK_PARQUET_UNSIGNED ? (double)(uint64_t)v->integer[i]
                                                      : (double)v->integer[i];
    return yk_number_missing(t->tabular.schema, x) ? (double)NAN : x;
}

/* The value as text, for messages, categories and split-by; that of a number is valid until the next call. */
static yk_parquet_text text_of(yk__cells *of, const yk__cell *c, size_t i)
{
    const yk_parquet_values *v = c->values;
    if (v->code && has_value(c, i))
        return v->text[v->code[i]];
    yk_parquet_number_text(v, i, of->digits);
    return (yk_parquet_text){of->digits, strlen(of->digits)};
}

/* Hashes the texts of a batch that are new: for the first batch, the whole dictionary; for each batch, texts that are not in it. Then
 * looks up the hashes of all rows in one loop, so that cache misses overlap. */
static yk_status hash_texts(const yk_schema *schema, yk__cell *c, size_t rows)
{
    const yk_parquet_values *v = c->values;
    if (YK_RESERVE(c->hash, c->hash_cap, v->texts + 1, "hashes of texts"))
        return YK_ESYSTEM;
    for (size_t i = c->hashed == v->dictionary ? v->dictionary : 0; i < v->texts; i++) {
        const char *const text = v->text[i].bytes;
        const size_t n = v->text[i].n;
        const bool missing = !n || (schema->missing.n && yk_cell_missing(schema, text, n, false));
        c->hash[i] = missing ? 0 : yk_cell_hash(c->column->salt, text, n);
    }
    c->hashed = v->dictionary;
    for (size_t i = 0; i < rows; i++)
        c->now[i] = c->hash[v->code[i]];
    for (size_t i = 0; v->valid && i < rows; i++)
        c->now[i] = v->valid[i] ? c->now[i] : 0;
    return YK_OK;
}

/* Scales the numbers of a batch. Loops over a column are faster than those over a row. */
static void scale_numbers(const yk__cell_table *t, yk__cell *c, size_t rows)
{
    const yk_scale scale = t->tabular.schema->scale;
    const yk_parquet_values *v = c->values;
    const yk_schema_column column = *c->column;
    float worst = 0.0f;
    if (v->real && !t->tabular.schema->nmissing && scale == YK_SCALE_NONE) {
        for (size_t i = 0; i < rows; i++)
            c->x[i] = (float)v->real[i];
    } else {
        for (size_t i = 0; i < rows; i++)
            c->x[i] = yk_scaled(scale, &column, number_of(t, c, i));
    }
    for (size_t i = 0; i < rows; i++)
        c->x[i] = isnan(c->x[i]) ? 0.0f : c->x[i];
    for (size_t i = 0; v->valid && i < rows; i++)
        c->x[i] = v->valid[i] ? c->x[i] : 0.0f;
    for (size_t i = 0; i < rows; i++)
        worst += c->x[i] * 0.0f; /* NaN if a value is infinite */
    c->bad = isnan(worst);
}

/* Labels, and rare cases. */
static bool add_other(yk__cells *of, const yk__cell *c, size_t i)
{
    const yk_parquet_values *v = c->values;
    yk_tabular *t = &of->table->tabular;
    const bool label = c->column->role == YK_COLUMN_LABEL, named = label && t->schema->classes.n;
    if (!has_value(c, i))
        return !label && c->column->role != YK_COLUMN_WEIGHT;
    if (v->code || v->form == YK_PARQUET_UNSIGNED || named || c->column->role == YK_COLUMN_CATEGORICAL) {
        const yk_parquet_text text = text_of(of, c, i);
        return yk_row_text(&of->to, t, c->column, text.bytes, text.n);
    }
    return yk_row_number(&of->to, t, c->column, v->integer ? (double)v->integer[i] : v->real[i]);
}

/* Row i of the batch. Returns the number of its first bad cell; nused: none is bad. */
static size_t add_cells(yk__cells *c, size_t i)
{
    yk_row *const w = &c->to;
    yk__cell_table *t = c->table;
    const size_t *number = c->list[YK__CELL_NUMBER], *hashed = c->list[YK__CELL_HASH],
                 *other = c->list[YK__CELL_OTHER];
    for (size_t k = 0; k < c->count[YK__CELL_NUMBER]; k++) {
        const yk__cell *cell = &c->cell[number[k]];
        if (cell->bad && isinf(cell->x[i]))
            return number[k];
        yk__row_put(w, cell->column->index, cell->x[i], cell->column->field);
    }
    for (size_t k = 0; k < c->count[YK__CELL_HASH]; k++) {
        const yk__cell *cell = &c->cell[hashed[k]];
        yk_row_hash(w, t->tabular.schema, cell->column, cell->now[i]);
    }
    for (size_t k = 0; k < c->count[YK__CELL_OTHER]; k++)
        if (!add_other(c, &c->cell[other[k]], i))
            return other[k];
    const yk_rows *given = t->given;
    if (given && given->label)
        w->of.label = given->label[c->row + i];
    if (given && given->weight)
        w->of.weight = given->weight[c->row + i];
    if (given && given->target)
        w->of.target = given->target[c->row + i];
    return t->nused;
}

/* ---- rows */

static bool in_part(yk__cells *c, size_t i)
{
    if (!c->table->tabular.part.on)
        return true;
    const yk_parquet_text text = text_of(c, &c->cell[c->table->split_by], i);
    return yk_split_has(&c->table->tabular.part, yk_split_of_text(text.bytes, text.n));
}

static yk_status bad_row(yk__cell_reader *r, size_t i, size_t k)
{
    yk__cells *c = &r->cells;
    char reason[400];
    const yk_parquet_text text = text_of(c, &c->cell[k], i);
    yk_cell_fault(&c->table->tabular, c->cell[k].number, text.bytes, text.n, reason);
    return yk_source_bad(r->base.source, c->file, c->row + i, c->cell[k].values->page, "%s", reason);
}

static yk_status next_batch(yk__cell_reader *r)
{
    yk__cells *c = &r->cells;
    c->row += c->n;
    c->at = 0;
    yk_status st = c->decode(r, &c->n);
    for (size_t k = 0; k < c->count[YK__CELL_HASH] && !st && c->n; k++)
        st = hash_texts(c->table->tabular.schema, &c->cell[c->list[YK__CELL_HASH][k]], c->n);
    for (size_t k = 0; k < c->count[YK__CELL_NUMBER] && !st; k++)
        scale_numbers(c->table, &c->cell[c->list[YK__CELL_NUMBER][k]], c->n);
    return st;
}

static yk_status keep_cells(yk__cell_reader *r, size_t i)
{
    const yk__cell_table *t = r->cells.table;
    yk_fit *const fit = r->base.source->options.fit;
    yk_status st = yk_tabular_row(&t->tabular, &r->base);
    for (size_t k = 0; k < t->nused && !st; k++) {
        const yk__cell *c = &r->cells.cell[k];
        if (fit && c->treatment == YK__CELL_NUMBER) {
            yk__fit_number(fit, c->column, has_value(c, i) ? number_of(t, c, i) : (double)NAN);
        } else {
            const yk_parquet_text text = text_of(&r->cells, c, i);
            st = yk_tabular_text(&t->tabular, &r->base, t->used[k], text.bytes, text.n);
        }
    }
    return st;
}

yk_status yk__cells_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    yk__cell_reader *r = (yk__cell_reader *)reader;
    yk__cells *c = &r->cells;
    const yk__cell_table *t = c->table;
    const yk_schema *schema = t->tabular.schema;
    yk_row *const w = &c->to;
    yk_status st = YK_OK;
    size_t got = 0;
    while (got < max && !st) {
        if (c->at == c->n && ((st = next_batch(r)) || !c->n))
            break;
        const size_t i = c->at++;
        if (!in_part(c, i))
            continue;
        if ((st = yk_row_begin(w, schema, t->tabular.fields, rows)))
            break;
        const size_t bad = add_cells(c, i);
        if (bad < t->nused) {
            st = bad_row(r, i, bad);
            continue;
        }
        if (yk_tabular_keeps(&t->tabular) && (st = keep_cells(r, i)))
            break;
        st = yk_row_end(w, schema, reader->source->options.numbers, rows);
        got += !st;
    }
    *got_out = got;
    return st;
}

yk_status yk__cells_open(yk__cell_reader *r)
{
    yk__cells *c = &r->cells;
    yk_arena *a = &r->base.arena;
    const yk_tabular *t = &c->table->tabular;
    const size_t n = c->table->nused + 1;
    c->to = (yk_row){.hash = yk_arena_alloc(a, t->schema->categories + 1, sizeof *c->to.hash, "categories"),
                     .seen = t->seen};
    c->cell = yk_arena_alloc(a, n, sizeof *c->cell, "columns");
    for (size_t i = 0; i < YK__CELL_TREATMENTS; i++)
        c->list[i] = yk_arena_alloc(a, n, sizeof *c->list[i], "columns");
    return a->status;
}

void yk__cells_bind(yk__cells *c, size_t k, const yk_parquet_values *v)
{
    const yk_tabular *t = &c->table->tabular;
    yk__cell *cell = &c->cell[k];
    cell->number = c->table->used[k];
    cell->values = v;
    cell->column = t->column[cell->number];
    const yk_column_role role = cell->column ? cell->column->role : YK_COLUMN_IGNORED;
    const bool hash = role == YK_COLUMN_CATEGORICAL && v->code && !t->base.options.names,
               number = role == YK_COLUMN_NUMERIC && !v->code;
    cell->treatment = hash ? YK__CELL_HASH : number ? YK__CELL_NUMBER : YK__CELL_OTHER;
    if (cell->column)
        c->list[cell->treatment][c->count[cell->treatment]++] = k;
}

void yk__cells_close(yk__cells *c)
{
    for (size_t k = 0; c->cell && k < c->table->nused; k++)
        free(c->cell[k].hash);
}
