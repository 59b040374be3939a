/* parquet:FILES (format/parquet.h).
 *
 * The columns of the files become those of the schema (cells.h), by name. Columns that cannot be read are an error, unless they
 * are not used. A block is a row group, or a part of a large one, so that a file with one row group can be read by several
 * threads. A reader is used by one thread.
 */
#include "base/mem.h"
#include "data/cells.h"
#include <stdlib.h>

/* A block repeats the dictionaries of its row group, and shares pages with its neighbors. A damaged file may claim many rows. */
enum { BLOCK_ROWS = 1 << 18, MAX_BLOCKS = 4096 };

typedef struct {
    yk_parquet *file;
    size_t *column; /* [nused] where the used columns of the first file are in this one */
} table;

typedef struct {
    size_t table, group;
    uint64_t first, rows; /* of the row group */
    uint64_t row;         /* number of the first row in its file */
} block;

typedef struct {
    yk__cell_table cells;
    table *table; /* [files] */
    block *block; /* [nblocks] */
    size_t block_cap;
} parquet_source;

/* Reads rows of a block, of the columns that are used. */
typedef struct {
    yk__cell_reader base;
    yk_parquet_reader *in;
} parquet_reader;

/* ---- files */

/* Opens all files, and adds the columns of the first one to the schema. */
static yk_status open_tables(parquet_source *s)
{
    yk_source *base = &s->cells.tabular.base;
    const yk_files *files = &base->files;
    yk_schema *own = s->cells.tabular.own;
    yk_status st = YK_OK;
    if (!(s->table = yk_arena_alloc(&base->arena, files->n, sizeof *s->table, "files")))
        return YK_ESYSTEM;
    for (size_t i = 0; i < files->n && !st; i++)
        st = yk_parquet_open(files->path[i], &s->table[i].file);
    own->header = true;
    const yk_parquet *first = s->table->file;
    for (size_t i = 0; !st && i < first->ncolumns; i++) {
        const yk_parquet_column *c = &first->column[i];
        st = yk_schema_add(own, c->name, strlen(c->name), c->type,
                           c->kind == YK_PARQUET_TEXT ? YK_COLUMN_CATEGORICAL : YK_COLUMN_NUMERIC);
    }
    return st;
}

static yk_status add_blocks(parquet_source *s)
{
    yk_source *base = &s->cells.tabular.base;
    for (size_t i = 0; i < base->files.n; i++) {
        const yk_parquet *f = s->table[i].file;
        uint64_t row = 0;
        for (size_t g = 0; g < f->ngroups; g++)
            for (uint64_t first = 0, rows; first < f->group[g].rows; first += rows, row += rows) {
                const uint64_t all = f->group[g].rows, left = all - first;
                rows = all / MAX_BLOCKS < BLOCK_ROWS ? BLOCK_ROWS : all / MAX_BLOCKS + 1;
                rows = left < rows + rows / 2 ? left : rows;
                if (YK_RESERVE(s->block, s->block_cap, base->nblocks + 1, "blocks"))
                    return YK_ESYSTEM;
                s->block[base->nblocks++] = (block){i, g, first, rows, row};
            }
    }
    return YK_OK;
}

/* ---- rows */

static yk_status decode(yk__cell_reader *r, size_t *n_out)
{
    return yk_parquet_next(((parquet_reader *)r)->in, n_out);
}

static yk_status parquet_reader_open(yk_reader *base)
{
    parquet_source *s = (parquet_source *)base->source;
    parquet_reader *r = (parquet_reader *)base;
    yk__cells *cells = &r->base.cells;
    const block *b = &s->block[base->block];
    const table *t = &s->table[b->table];
    base->end = b->rows;
    *cells = (yk__cells){
        .table = &s->cells, .decode = decode, .file = base->source->files.path[b->table], .row = b->row + 1};
    yk_status st = yk__cells_open(&r->base);
    if (!st)
        st = yk_parquet_read(t->file, b->group, t->column, s->cells.nused, b->first, b->rows, &r->in);
    for (size_t k = 0; k < s->cells.nused && !st; k++)
        yk__cells_bind(cells, k, yk_parquet_values_of(r->in, k));
    return st;
}

static void parquet_reader_close(yk_reader *base)
{
    parquet_reader *r = (parquet_reader *)base;
    yk__cells_close(&r->base.cells);
    yk_parquet_reader_free(r->in);
}

static yk_status parquet_reader_check(const yk_reader *r)
{
    return yk_parquet_unchanged(((const parquet_reader *)r)->in);
}

/* ---- the source */

/* Column k of a file, and the same one of the first file. An option that names a column may say that both are texts, or both numbers;
 * but categories are not both true and 1. */
static yk_status compare_type(const yk__cell_table *cells, const yk_schema_column *own, const yk_parquet *f,
                              size_t k)
{
    const parquet_source *s = (const parquet_source *)cells;
    const yk_parquet *first = s->table->file;
    const size_t i = (size_t)(own - cells->tabular.own->column);
    const yk_parquet_column *a = &first->column[i], *b = &f->column[k];
    const yk_schema_column *used = cells->tabular.column[i];
    const bool category = used && used->role == YK_COLUMN_CATEGORICAL,
               one_text = (a->kind == YK_PARQUET_TEXT) != (b->kind == YK_PARQUET_TEXT),
               one_boolean = (a->form == YK_PARQUET_BOOLEAN) != (b->form == YK_PARQUET_BOOLEAN);
    if (!yk__time_differs(b->type, a->type) && (one_text ? own->chosen : !category || !one_boolean))
        return YK_OK;
    return yk_fail(YK_EDATA,
                   "%s: the column '%s' has the type %s, but %s in %s: convert it in one of the files",
                   f->path, own->name, b->type, a->type, first->path);
}

/* Finds the columns that are used in a file, by name. They can be read, and mean the same as in the first file. */
static yk_status match_columns(yk__cell_table *cells, table *t)
{
    const yk_parquet *f = t->file;
    yk_status st = YK_OK;
    if (!(t->column =
              yk_arena_alloc(&cells->tabular.base.arena, cells->nused + 1, sizeof *t->column, "columns")))
        return YK_ESYSTEM;
    for (size_t i = 0; i < cells->nused && !st; i++) {
        const size_t number = cells->used[i];
        const yk_schema_column *own = &cells->tabular.own->column[number];
        size_t k = number < f->ncolumns && !strcmp(f->column[number].name, own->name) ? number : 0;
        while (k < f->ncolumns && strcmp(f->column[k].name, own->name))
            k++;
        if (k == f->ncolumns)
            return yk_fail(YK_EDATA, "%s: the column '%s' is missing; all files need the same columns",
                           f->path, own->name);
        t->column[i] = k;
        if (!(st = yk_parquet_readable(f, k)))
            st = compare_type(cells, own, f, k);
    }
    return st;
}

static yk_status parquet_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    parquet_source *s = (parquet_source *)source;
    uint64_t rows = 0;
    yk_status st;
    if ((st = yk_tabular_init(&s->cells.tabular)) || (st = yk_files_find(spec->where, &source->files)) ||
        (st = open_tables(s)) || (st = yk_tabular_columns(&s->cells.tabular)) ||
        (st = yk__cell_table_choose(&s->cells)) || (st = add_blocks(s)))
        return st;
    for (size_t i = 0; i < source->files.n && !st; i++) {
        rows += s->table[i].file->rows;
        st = match_columns(&s->cells, &s->table[i]);
    }
    if (st)
        return st;
    source->examples = source->options.skip_bad || s->cells.tabular.part.on ? 0 : rows;
    return yk_tabular_finish(&s->cells.tabular, rows);
}

static void parquet_free(yk_source *source)
{
    parquet_source *s = (parquet_source *)source;
    for (size_t i = 0; s->table && i < source->files.n; i++)
        yk_parquet_free(s->table[i].file);
    yk_tabular_free(source);
    free(s->block);
}

const yk_source_ops yk__parquet_source = {
    .name = "parquet",
    .options = "split-by " YK_TABULAR_KEYS,
    .record = "row",
    .by_number = true,
    .has_texts = true,
    .source_size = sizeof(parquet_source),
    .reader_size = sizeof(parquet_reader),
    .open = parquet_open,
    .free = parquet_free,
    .reader_open = parquet_reader_open,
    .reader_close = parquet_reader_close,
    .reader_check = parquet_reader_check,
    .next = yk__cells_next,
};
