/* Readers that several formats share: of files in blocks, and of rows that are in memory (formats.h). */
#include "data/formats.h"

void yk__set_images(yk_source *s, size_t height, size_t width, size_t channels)
{
    s->kind = YK_ROWS_U8;
    s->height = height;
    s->width = width;
    s->channels = channels;
    s->dim = height * width * channels;
}

void yk__set_rows(yk_source *s, uint64_t rows, uint64_t block_rows)
{
    s->examples = s->rows = rows;
    s->block_rows = block_rows;
    s->nblocks = (size_t)((rows + block_rows - 1) / block_rows);
}

yk_status yk__file_blocks(yk_source *s, uint64_t block_bytes)
{
    const yk_status st = yk_files_blocks(&s->files, block_bytes);
    s->nblocks = s->files.nblocks;
    return st;
}

yk_status yk__file_reader_open(yk_reader *r, uint64_t bytes_before)
{
    r->range = &r->source->files.block[r->block];
    yk_status st = yk_input_open(r->range->path, r->range->begin - bytes_before, &r->in);
    if (st)
        return st;
    r->in->expected = r->range->end;
    return yk_files_unchanged(&r->source->files, r->range->file, r->in);
}

void yk__cached_open(yk_source *s, const yk_rows *rows)
{
    s->memory = rows;
    s->kind = rows->kind;
    s->dim = rows->dim;
    yk__set_rows(s, rows->n, 4096);
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
