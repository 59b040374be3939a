/* Reads the rows of parquet:FILES; see parquet.h. */
#include "data/parquet.h"

#include <stdlib.h>

static yk_status decode(void *reader, size_t *n_out)
{
    return yk_parquet_next(((yk__parquet_rows *)reader)->in, n_out);
}

static yk_status bad_row(void *reader, uint64_t row, size_t k, const char *reason)
{
    const yk__parquet_rows *r = reader;
    yk__parquet *s = (yk__parquet *)r->base.source;
    return yk_source_bad(&s->base.base, s->base.files.path[r->block->table], r->block->row + row + 1,
                         yk_parquet_page(r->in, k), "%s", reason);
}

yk_status yk__parquet_rows_open(yk__parquet *s, const yk__parquet_table *t, yk__parquet_rows *r)
{
    const yk__cell_table *table = &s->cells;
    const yk__parquet_block *b = r->block;
    size_t *column = calloc(table->nused + 1, sizeof *column);
    r->cells = (yk__cells){.table = &s->cells, .decode = decode, .bad = bad_row};
    yk_status st =
        column ? yk__cells_open(&r->cells) : yk_fail_memory(table->nused * sizeof *column, "columns");
    for (size_t k = 0; k < table->nused && !st; k++)
        column[k] = t->column[table->used[k]];
    if (!st)
        st = yk_parquet_read(t->file, b->group, column, table->nused, b->first, b->rows, &r->in);
    for (size_t k = 0; k < table->nused && !st; k++)
        yk__cells_bind(&r->cells, k, yk_parquet_values_of(r->in, k));
    free(column);
    return st;
}

void yk__parquet_rows_close(yk__parquet_rows *r)
{
    yk__cells_close(&r->cells);
    yk_parquet_reader_free(r->in);
}

static yk_status parquet_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out)
{
    return yk__cells_next(&((yk__parquet_rows *)r)->cells, r, rows, max, got_out);
}

static const char *parquet_cell(const yk_reader *r, size_t i, size_t k)
{
    return yk__cells_carried(&((const yk__parquet_rows *)r)->cells, i, k);
}

static yk_status parquet_count(yk_reader *r, uint64_t *out)
{
    *out =
        r->source->skip_bad ? UINT64_MAX : ((yk__parquet_rows *)r)->block->rows; /* bad rows have no number */
    return YK_OK;
}

static yk_status parquet_reader_open(yk_reader *base)
{
    yk__parquet *s = (yk__parquet *)base->source;
    yk__parquet_rows *r = (yk__parquet_rows *)base;
    r->block = &s->block[base->block];
    return yk__parquet_rows_open(s, &s->table[r->block->table], r);
}

static void parquet_reader_close(yk_reader *base)
{
    yk__parquet_rows_close((yk__parquet_rows *)base);
}

static yk_status parquet_reader_check(const yk_reader *base)
{
    return yk_parquet_unchanged(((const yk__parquet_rows *)base)->in);
}

const yk_source_ops yk__parquet_source = {
    .name = "parquet",
    .usage = "parquet:FILES",
    .options = "split-by " YK_TABULAR_KEYS,
    .record = "row",
    .by_number = true,
    .source_size = sizeof(yk__parquet),
    .reader_size = sizeof(yk__parquet_rows),
    .open = yk__parquet_open,
    .free = yk__parquet_free,
    .reader_open = parquet_reader_open,
    .reader_close = parquet_reader_close,
    .reader_check = parquet_reader_check,
    .next = parquet_next,
    .cell = parquet_cell,
    .count = parquet_count,
};
