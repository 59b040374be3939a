/* Readers that several formats share: of files in blocks, and of rows that are in memory (formats.h). */
#include "data/formats.h"

yk_status yk__file_blocks(yk__file_source *s, uint64_t block_bytes)
{
    yk_status st = yk_files_blocks(&s->files, block_bytes);
    s->base.nblocks = s->files.nblocks;
    s->base.bytes = s->base.disk_bytes = s->files.bytes;
    s->base.files = s->files.n;
    return st;
}

void yk__file_free(yk_source *source)
{
    yk_files_fini(&((yk__file_source *)source)->files);
}

yk_status yk__file_reader_open(yk_reader *reader)
{
    yk__file_reader *r = (yk__file_reader *)reader;
    r->block = &((const yk__file_source *)reader->source)->files.block[reader->block];
    yk_status st = yk_input_open(r->block->path, r->block->begin, &r->in);
    if (st)
        return st;
    yk_input_expect(r->in, r->block->end);
    return yk__file_reader_check(reader);
}

yk_status yk__file_reader_check(const yk_reader *reader)
{
    const yk__file_reader *r = (const yk__file_reader *)reader;
    return yk_files_unchanged(&((const yk__file_source *)reader->source)->files, r->block->file, r->in);
}

void yk__file_reader_close(yk_reader *reader)
{
    yk_input_free(((yk__file_reader *)reader)->in);
}

enum { CACHED_BLOCK = 4096 };

void yk__cached_open(yk_source *s, const yk_rows *rows)
{
    s->memory = rows;
    s->kind = rows->kind;
    s->examples = s->rows = rows->n;
    s->dim = rows->dim;
    s->block_rows = CACHED_BLOCK;
    s->nblocks = (rows->n + CACHED_BLOCK - 1) / CACHED_BLOCK;
}

size_t yk__cached_part(yk_reader *r, size_t max, size_t *first_out)
{
    *first_out = (size_t)r->at;
    r->at = r->end - r->at < max ? r->end : r->at + max;
    return (size_t)r->at - *first_out;
}

yk_status yk__cached_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    size_t first;
    *got_out = yk__cached_part(reader, max, &first);
    size_t row = rows->n;
    const yk_source *s = reader->source;
    const yk_status st = yk_rows_append(rows, s->memory, first, *got_out);
    return st || !s->by_position ? st : yk_positions_number(s->positions, rows, &row);
}
