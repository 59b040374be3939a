/* parquet:FILES: tables in columns (format/parquet.h).
 *
 * The columns of the files become those of the schema (tabular.h), by name. Their types decide what they are, unless an option
 * says otherwise: texts are categorical, anything else is numeric. Equal values have the same features as in CSV. Columns
 * that cannot be read are an error, unless they are not used.
 *
 * A block is a row group, or a part of a large one, so that a file with one row group can be read by several threads. A reader
 * decodes up to 1024 rows of all columns and makes rows of them. Each value of a dictionary is hashed once for each block.
 */
#include "format/parquet.h"
#include "base/mem.h"
#include "base/number.h"
#include "data/tabular.h"
#include <stdio.h>
#include <stdlib.h>

/* A block repeats the dictionaries of its row group, and shares pages with its neighbors. A damaged file may claim many rows. */
enum { BLOCK_ROWS = 1 << 18, MAX_BLOCKS = 4096 };

typedef struct {
    yk_parquet *file;
    size_t *column; /* [own->ncolumns] where the columns of the first file are in this one */
} table;

typedef struct {
    size_t table, group;
    uint64_t first, rows; /* of the row group */
    uint64_t row;         /* number of the first row in its file */
} block;

typedef struct {
    yk__file_source base;
    yk_tabular tabular;
    size_t nused, *used; /* columns that are read */
    table *table;        /* [files] */
    block *block;        /* [nblocks] */
    size_t block_cap;
    yk_split_range part; /* with split-by: the rows of this part, by the value of a column */
    size_t split_by;     /* its place in `used` */
    double *missing;     /* [nmissing] numbers that mean "missing" */
    size_t nmissing;
} parquet;

/* How values become features: numbers of a numeric column, categories that are texts, anything else. */
typedef enum { OTHER, NUMBER, HASH } treatment;

typedef struct {
    const yk_schema_column *column; /* NULL: only split-by reads it */
    size_t number;                  /* of the column in the schema */
    const yk_parquet_values *values;
    treatment treatment;
    uint64_t *hash; /* [values->texts] HASH; 0: missing */
    size_t hash_cap, hashed;
    uint64_t now[YK_PARQUET_BATCH]; /* HASH: of the rows of the batch */
} cell;

typedef struct {
    yk_reader base;
    yk_parquet_reader *in;
    const block *block;
    cell *cell;     /* [nused] */
    uint64_t *hash; /* [categories + 1] */
    uint64_t row;   /* of the block: the first one of the batch */
    size_t n, at;   /* of the batch */
    yk_carried carried;
} reader;

/* ---- files */

static void close_tables(table *t, size_t n)
{
    for (size_t i = 0; t && i < n; i++) {
        yk_parquet_free(t[i].file);
        free(t[i].column);
    }
    free(t);
}

/* Finds the columns of the first file, by name. */
static yk_status match_columns(const yk_schema *own, table *t)
{
    const yk_parquet *f = t->file;
    if (!(t->column = calloc(own->ncolumns + 1, sizeof *t->column)))
        return yk_fail_memory(own->ncolumns * sizeof *t->column, "columns");
    for (size_t i = 0; i < own->ncolumns; i++) {
        size_t k = i < f->ncolumns && !strcmp(f->column[i].name, own->column[i].name) ? i : 0;
        while (k < f->ncolumns && strcmp(f->column[k].name, own->column[i].name))
            k++;
        if (k == f->ncolumns)
            return yk_fail(YK_EDATA, "%s: the column '%s' is missing; all files need the same columns",
                           f->path, own->column[i].name);
        t->column[i] = k;
    }
    return YK_OK;
}

static yk_status add_columns(yk_schema *own, const yk_parquet *f)
{
    yk_status st = YK_OK;
    for (size_t i = 0; i < f->ncolumns && !st; i++) {
        const yk_parquet_column *c = &f->column[i];
        st = yk_schema_add(own, c->name, strlen(c->name), c->type);
        if (!st && c->kind == YK_PARQUET_TEXT)
            own->column[i].role = YK_COLUMN_CATEGORICAL;
    }
    own->header = true;
    return st;
}

/* Opens all files, and adds the columns of the first one to the schema if it has none yet. */
static yk_status open_tables(yk_schema *own, const yk_files *files, table **out)
{
    table *t = calloc(files->n, sizeof *t);
    yk_status st = t ? YK_OK : yk_fail_memory(files->n * sizeof *t, "files");
    for (size_t i = 0; i < files->n && !st; i++) {
        st = yk_parquet_open(files->path[i], &t[i].file);
        if (!st && !own->ncolumns)
            st = add_columns(own, t[i].file);
        if (!st)
            st = match_columns(own, &t[i]);
    }
    *out = t;
    return st;
}

static yk_status add_blocks(parquet *s)
{
    for (size_t i = 0; i < s->base.files.n; i++) {
        const yk_parquet *f = s->table[i].file;
        uint64_t row = 0;
        for (size_t g = 0; g < f->ngroups; g++)
            for (uint64_t first = 0, rows; first < f->group[g].rows; first += rows, row += rows) {
                const uint64_t all = f->group[g].rows, left = all - first;
                rows = all / MAX_BLOCKS < BLOCK_ROWS ? BLOCK_ROWS : all / MAX_BLOCKS + 1;
                rows = left < rows + rows / 2 ? left : rows;
                if (YK_RESERVE(s->block, s->block_cap, s->base.base.nblocks + 1, "blocks"))
                    return YK_ESYSTEM;
                s->block[s->base.base.nblocks++] = (block){i, g, first, rows, row};
            }
    }
    return YK_OK;
}

/* ---- cells */

static bool is_there(const cell *c, size_t i)
{
    return !c->values->valid || c->values->valid[i];
}

/* The value as text, for messages, categories and split-by; `buffer` is for numbers. */
static const char *cell_text(const cell *c, size_t i, char buffer[40], size_t *n_out)
{
    const yk_parquet_values *v = c->values;
    if (v->code && is_there(c, i)) {
        *n_out = v->text[v->code[i]].n;
        return v->text[v->code[i]].bytes;
    }
    *buffer = 0;
    if (v->integer && is_there(c, i))
        snprintf(buffer, 40, "%lld", (long long)v->integer[i]);
    else if (v->real && is_there(c, i) && !isnan(v->real[i]))
        yk_number_shortest(v->real[i], buffer, 40);
    *n_out = strlen(buffer);
    return buffer;
}

/* Hashes the texts of a batch that are new: those that are not in the dictionary, and at first also those that are. Then looks
 * up the hashes of all rows: one after the other, so that cache misses overlap. */
static yk_status hash_texts(const yk_schema *schema, cell *c, size_t rows)
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

/* NaN: missing. */
static inline double number_at(const parquet *s, const cell *c, size_t i)
{
    double v = c->values->real ? c->values->real[i] : (double)c->values->integer[i];
    for (size_t k = 0; k < s->nmissing; k++)
        v = v == s->missing[k] ? (double)NAN : v;
    return v;
}

static inline bool add_number(yk_row *w, const parquet *s, const cell *c, size_t i)
{
    const double v = number_at(s, c, i);
    return isnan(v) || (isfinite(v) && yk_row_scaled(w, s->tabular.schema, c->column, v));
}

/* Labels, and what is rare. */
static bool add_other(yk_row *w, yk_tabular *t, const cell *c, size_t i)
{
    const yk_parquet_values *v = c->values;
    if (!is_there(c, i))
        return c->column->role != YK_COLUMN_LABEL;
    if (v->code)
        return yk_row_text(w, t, c->column, v->text[v->code[i]].bytes, v->text[v->code[i]].n);
    return v->integer ? yk_row_integer(w, t, c->column, v->integer[i])
                      : yk_row_number(w, t, c->column, v->real[i]);
}

/* Row i of the batch. Returns the number of its first bad cell; nused: none is bad. */
static size_t add_cells(reader *r, parquet *s, yk_row *w, size_t i)
{
    const yk_schema *schema = s->tabular.schema;
    size_t k = 0;
    for (; k < s->nused; k++) {
        const cell *c = &r->cell[k];
        if (c->treatment == HASH) {
            if (c->now[i])
                yk_row_hash(w, schema, c->column, c->now[i]);
        } else if (c->treatment == NUMBER) {
            if (is_there(c, i) && !add_number(w, s, c, i))
                break;
        } else if (c->column && !add_other(w, &s->tabular, c, i)) {
            break;
        }
    }
    return k;
}

/* ---- rows */

static bool in_part(const parquet *s, const reader *r, size_t i)
{
    char buffer[40];
    size_t n;
    if (!s->part.on)
        return true;
    const char *text = cell_text(&r->cell[s->split_by], i, buffer, &n);
    return yk_split_has(&s->part, yk_split_of_text(text, n));
}

static yk_status bad_row(reader *r, size_t i, size_t k)
{
    parquet *s = (parquet *)r->base.source;
    char buffer[40], reason[400];
    size_t n;
    const char *text = cell_text(&r->cell[k], i, buffer, &n);
    yk_cell_fault(&s->tabular, r->cell[k].number, text, n, reason);
    return yk_source_bad(&s->base.base, s->base.files.path[r->block->table], r->block->row + r->row + i + 1,
                         yk_parquet_page(r->in, k), "%s", reason);
}

static yk_status next_batch(reader *r, const parquet *s)
{
    r->row += r->n;
    r->at = 0;
    yk_status st = yk_parquet_next(r->in, &r->n);
    for (size_t k = 0; k < s->nused && r->n && !st; k++)
        if (r->cell[k].treatment == HASH)
            st = hash_texts(s->tabular.schema, &r->cell[k], r->n);
    return st;
}

static yk_status carry_cells(reader *r, const parquet *s, size_t i)
{
    yk_status st = yk_carried_row(&r->carried, &s->tabular);
    for (size_t k = 0; k < s->nused && !st; k++) {
        char buffer[40];
        size_t n;
        const char *text = cell_text(&r->cell[k], i, buffer, &n);
        yk_carried_put(&r->carried, &s->tabular, s->used[k], text, n);
    }
    return st;
}

static const char *parquet_cell(const yk_reader *base, size_t i, size_t k)
{
    return yk_carried_cell(&((const reader *)base)->carried, &((const parquet *)base->source)->tabular, i, k);
}

static yk_status parquet_next(yk_reader *base, yk_rows *rows, size_t max, size_t *got_out)
{
    reader *r = (reader *)base;
    parquet *s = (parquet *)base->source;
    yk_row w = {.hash = r->hash};
    yk_status st = YK_OK;
    size_t got = 0;
    yk_carried_clear(&r->carried);
    while (got < max && !st) {
        if (r->at == r->n && ((st = next_batch(r, s)) || !r->n))
            break;
        const size_t i = r->at++;
        if (!in_part(s, r, i))
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

/* Reads rows of the columns that are used. The caller frees *cells_out, also after a failure. */
static yk_status open_cells(const parquet *s, const table *t, const block *b, cell **cells_out,
                            yk_parquet_reader **in_out)
{
    size_t *column = calloc(s->nused + 1, sizeof *column);
    cell *cells = *cells_out = calloc(s->nused + 1, sizeof *cells);
    yk_status st = column && cells ? YK_OK : yk_fail_memory(s->nused * sizeof *cells, "columns");
    for (size_t k = 0; k < s->nused && !st; k++)
        column[k] = t->column[s->used[k]];
    if (!st)
        st = yk_parquet_read(t->file, b->group, column, s->nused, b->first, b->rows, in_out);
    for (size_t k = 0; k < s->nused && !st; k++) {
        const yk_schema_column *c = s->tabular.column[s->used[k]];
        const yk_parquet_values *v = yk_parquet_values_of(*in_out, k);
        const bool hash = c && c->role == YK_COLUMN_CATEGORICAL && v->code;
        const bool number = c && c->role == YK_COLUMN_NUMERIC && !v->code;
        cells[k].column = c;
        cells[k].number = s->used[k];
        cells[k].values = v;
        cells[k].treatment = hash ? HASH : number ? NUMBER : OTHER;
    }
    free(column);
    return st;
}

static yk_status parquet_reader_open(yk_reader *base)
{
    const parquet *s = (const parquet *)base->source;
    reader *r = (reader *)base;
    r->block = &s->block[base->block];
    if (!(r->hash = malloc((s->tabular.schema->categories + 1) * sizeof *r->hash)))
        return yk_fail_memory(s->tabular.schema->categories * sizeof *r->hash, "hashes of a row");
    return open_cells(s, &s->table[r->block->table], r->block, &r->cell, &r->in);
}

static void parquet_reader_close(yk_reader *base)
{
    reader *r = (reader *)base;
    for (size_t k = 0; r->cell && k < ((const parquet *)base->source)->nused; k++)
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

/* ---- the pass that finds values and means */

/* A bad value is reported when rows are read. */
static yk_status fit_row(const parquet *s, const cell *cells, yk_fit *fit, char (*buffer)[40], size_t i)
{
    for (size_t k = 0; k < s->nused; k++) {
        const cell *c = &cells[k];
        size_t n = 0;
        const char *text = c->treatment == NUMBER ? "" : cell_text(c, i, buffer[k], &n);
        if (c->treatment != NUMBER && c->column)
            yk_fit_text(fit, c->number, text, n);
        else if (c->column && is_there(c, i) && !isinf(number_at(s, c, i)))
            yk_fit_number(fit, c->number, number_at(s, c, i));
    }
    return yk_fit_row(fit);
}

/* row: the number of the first row; NULL: all rows count, not only those of the source's part. */
static yk_status fit_table(const parquet *s, const table *t, uint64_t *row, yk_fit *fit, char (*buffer)[40])
{
    yk_status st = YK_OK;
    for (size_t g = 0; g < t->file->ngroups && !st; g++) {
        reader r = {0};
        const block all = {.group = g, .rows = t->file->group[g].rows};
        st = open_cells(s, t, &all, &r.cell, &r.in);
        while (!st && !(st = yk_parquet_next(r.in, &r.n)) && r.n)
            for (size_t i = 0; i < r.n && !st; i++)
                if (!row ||
                    (yk_split_has(&s->base.base.part, yk_split_of_row((*row)++)) && in_part(s, &r, i)))
                    st = fit_row(s, r.cell, fit, buffer, i);
        yk_parquet_reader_free(r.in);
        free(r.cell);
    }
    return st;
}

static yk_status pass(void *source, yk_fit *fit, const char *where)
{
    const parquet *s = source;
    yk_files others = {0};
    table *tables = s->table;
    char(*buffer)[40] = calloc(s->nused + 1, sizeof *buffer);
    yk_status st = !buffer ? yk_fail_memory(s->nused * sizeof *buffer, "texts")
                   : where ? yk_files_find(where, &others)
                           : YK_OK;
    if (!st && where)
        st = open_tables(s->tabular.own, &others, &tables);
    uint64_t row = 0;
    for (size_t i = 0; i < (where ? others.n : s->base.files.n) && !st; i++)
        st = fit_table(s, &tables[i], where ? NULL : &row, fit, buffer);
    if (!st && !yk_fit_rows(fit))
        st = yk_fail(YK_EDATA, "%s: no row from which to compute values and means", s->base.base.spec);
    if (where)
        close_tables(tables, others.n);
    yk_files_fini(&others);
    free(buffer);
    return st;
}

/* ---- the source */

/* The columns that are used can be read in all files. */
static yk_status choose_used(parquet *s, yk_spec *spec)
{
    const yk_tabular *t = &s->tabular;
    const char *by = yk_spec_text(spec, "split-by", NULL);
    size_t split_by = t->own->ncolumns;
    yk_status st = YK_OK;
    if (by && !s->base.base.part.on)
        return yk_fail(YK_EUSAGE, "%s: split-by needs split, such as split=0.9", spec->text);
    if (by && (st = yk_tabular_find(t, "split-by", by, &split_by)))
        return st;
    if (by) {
        s->part = s->base.base.part;
        s->base.base.part = (yk_split_range){0};
    }
    if (!(s->used = calloc(t->own->ncolumns + 1, sizeof *s->used)))
        return yk_fail_memory(t->own->ncolumns * sizeof *s->used, "columns");
    for (size_t i = 0; i < t->own->ncolumns && !st; i++) {
        bool used = t->column[i] || i == split_by;
        for (size_t k = 0; k < t->ncarry && !used; k++)
            used = t->carry[k] == i;
        if (!used)
            continue;
        if (i == split_by)
            s->split_by = s->nused;
        s->used[s->nused++] = i;
        for (size_t f = 0; f < s->base.files.n && !st; f++)
            st = yk_parquet_readable(s->table[f].file, s->table[f].column[i]);
    }
    return st;
}

/* The numbers in ?missing. */
static yk_status find_missing(parquet *s)
{
    const yk__names *words = &s->tabular.schema->missing;
    if (words->n && !(s->missing = calloc(words->n, sizeof *s->missing)))
        return yk_fail_memory(words->n * sizeof *s->missing, "missing values");
    for (size_t i = 0; i < words->n; i++)
        s->nmissing += yk_cell_number(words->name[i], strlen(words->name[i]), &s->missing[s->nmissing]);
    return YK_OK;
}

static yk_status parquet_open(yk_source *source, yk_spec *spec, yk_split split, const yk_source_options *o)
{
    parquet *s = (parquet *)source;
    uint64_t rows = 0;
    yk_status st;
    if ((st = yk_tabular_init(&s->tabular, source, spec, o)) ||
        (st = yk_files_find(spec->where, &s->base.files)) ||
        (st = open_tables(s->tabular.own, &s->base.files, &s->table)) ||
        (st = yk_tabular_columns(&s->tabular)) || (st = choose_used(s, spec)) || (st = find_missing(s)) ||
        (st = add_blocks(s)))
        return st;
    for (size_t i = 0; i < s->base.files.n; i++)
        rows += s->table[i].file->rows;
    source->files = s->base.files.n;
    source->bytes = source->disk_bytes = s->base.files.bytes;
    source->examples = source->skip_bad || s->part.on ? 0 : rows;
    return yk_tabular_finish(&s->tabular, rows, split, pass, s);
}

static void parquet_free(yk_source *source)
{
    parquet *s = (parquet *)source;
    close_tables(s->table, s->base.files.n);
    yk_tabular_fini(&s->tabular);
    free(s->block);
    free(s->used);
    free(s->missing);
    yk__file_free(source);
}

const yk_source_ops yk__parquet_source = {
    .name = "parquet",
    .usage = "parquet:FILES",
    .options = "split-by " YK_TABULAR_KEYS,
    .record = "row",
    .by_number = true,
    .source_size = sizeof(parquet),
    .reader_size = sizeof(reader),
    .open = parquet_open,
    .free = parquet_free,
    .reader_open = parquet_reader_open,
    .reader_close = parquet_reader_close,
    .reader_check = parquet_reader_check,
    .next = parquet_next,
    .cell = parquet_cell,
    .count = parquet_count,
};
