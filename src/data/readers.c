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

yk_status yk__cached_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    yk__cached_reader *r = (yk__cached_reader *)reader;
    const yk_rows *all = reader->source->cached;
    const size_t begin = reader->block * YK__CACHED_BLOCK + r->at;
    size_t n = all->n - begin;
    if (reader->source->nblocks > 1 && n > YK__CACHED_BLOCK - r->at)
        n = YK__CACHED_BLOCK - r->at;
    n = n < max ? n : max;
    yk_status st = yk_rows_append(rows, all, begin, n);
    if (st)
        return st;
    r->at += n;
    *got_out = n;
    return YK_OK;
}
