/* Opens parquet:FILES: files, columns, blocks, and the pass that finds means and values; see parquet.h. */
#include "data/parquet.h"

#include "base/mem.h"
#include <stdlib.h>

/* A block repeats the dictionaries of its row group, and shares pages with its neighbors. A damaged file may claim many rows. */
enum { BLOCK_ROWS = 1 << 18, MAX_BLOCKS = 4096 };

/* ---- files */

static void close_tables(yk__parquet_table *t, size_t n)
{
    for (size_t i = 0; t && i < n; i++) {
        yk_parquet_free(t[i].file);
        free(t[i].column);
    }
    free(t);
}

/* Finds the columns of the first file, by name. */
static yk_status match_columns(const yk_schema *own, yk__parquet_table *t)
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
static yk_status open_tables(yk_schema *own, const yk_files *files, yk__parquet_table **out)
{
    yk__parquet_table *t = calloc(files->n, sizeof *t);
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

static yk_status add_blocks(yk__parquet *s)
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
                s->block[s->base.base.nblocks++] = (yk__parquet_block){i, g, first, rows, row};
            }
    }
    return YK_OK;
}

/* ---- the pass that finds values and means */

/* row: the number of the first row; NULL: all rows count, not only those of the source's part. */
static yk_status fit_table(yk__parquet *s, const yk__parquet_table *t, uint64_t *row, yk_fit *fit)
{
    yk_status st = YK_OK;
    for (size_t g = 0; g < t->file->ngroups && !st; g++) {
        const yk__parquet_block all = {.group = g, .rows = t->file->group[g].rows};
        yk__parquet_rows r = {.block = &all};
        if (!(st = yk__parquet_rows_open(s, t, &r)))
            st = yk__cells_fit(&r.cells, &r, row, fit);
        yk__parquet_rows_close(&r);
    }
    return st;
}

static yk_status pass(void *source, yk_fit *fit, const char *where)
{
    yk__parquet *s = source;
    yk_files others = {0};
    yk__parquet_table *tables = where ? NULL : s->table;
    yk_status st = where ? yk_files_find(where, &others) : YK_OK;
    if (!st && where)
        st = open_tables(s->cells.tabular.own, &others, &tables);
    uint64_t row = 0;
    for (size_t i = 0; i < (where ? others.n : s->base.files.n) && !st; i++)
        st = fit_table(s, &tables[i], where ? NULL : &row, fit);
    if (!st && !yk_fit_rows(fit))
        st = yk_fail(YK_EDATA, "%s: no rows to compute means and values from", s->base.base.spec);
    if (where)
        close_tables(tables, others.n);
    yk_files_fini(&others);
    return st;
}

/* ---- the source */

/* The columns that are used can be read in all files. */
static yk_status check_used(const yk__parquet *s)
{
    yk_status st = YK_OK;
    for (size_t k = 0; k < s->cells.nused; k++)
        for (size_t f = 0; f < s->base.files.n && !st; f++)
            st = yk_parquet_readable(s->table[f].file, s->table[f].column[s->cells.used[k]]);
    return st;
}

yk_status yk__parquet_open(yk_source *source, yk_spec *spec, yk_split split, const yk_source_options *o)
{
    yk__parquet *s = (yk__parquet *)source;
    uint64_t rows = 0;
    yk_status st;
    if ((st = yk_tabular_init(&s->cells.tabular, source, spec, o)) ||
        (st = yk_files_find(spec->where, &s->base.files)) ||
        (st = open_tables(s->cells.tabular.own, &s->base.files, &s->table)) ||
        (st = yk_tabular_columns(&s->cells.tabular)) || (st = yk__cell_table_choose(&s->cells)) ||
        (st = check_used(s)) || (st = add_blocks(s)))
        return st;
    for (size_t i = 0; i < s->base.files.n; i++)
        rows += s->table[i].file->rows;
    source->files = s->base.files.n;
    source->bytes = source->disk_bytes = s->base.files.bytes;
    source->examples = source->skip_bad || s->cells.part.on ? 0 : rows;
    return yk_tabular_finish(&s->cells.tabular, rows, split, pass, s);
}

void yk__parquet_free(yk_source *source)
{
    yk__parquet *s = (yk__parquet *)source;
    close_tables(s->table, s->base.files.n);
    yk__cell_table_fini(&s->cells);
    free(s->block);
    yk__file_free(source);
}
