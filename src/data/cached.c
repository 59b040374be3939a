#include "data/formats.h"
#include <stdlib.h>

typedef struct {
    yk_reader base;
    size_t at, end; /* rows */
} cached_reader;

yk_status yk__cached_read(yk_source *source, size_t block, yk_reader **out)
{
    const size_t n = source->cached->n, begin = block * YK__CACHED_BLOCK;
    cached_reader *r = calloc(1, sizeof *r);
    if (!r)
        return yk_fail_memory(sizeof *r, "a reader");
    r->base = (yk_reader){source, block};
    r->at = begin;
    r->end = source->nblocks > 1 && n - begin > YK__CACHED_BLOCK ? begin + YK__CACHED_BLOCK : n;
    *out = &r->base;
    return YK_OK;
}

yk_status yk__cached_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    cached_reader *r = (cached_reader *)reader;
    const size_t n = r->end - r->at < max ? r->end - r->at : max;
    *got_out = 0;
    yk_status st = yk_rows_append(rows, reader->source->cached, r->at, n);
    if (st)
        return st;
    r->at += n;
    *got_out = n;
    return YK_OK;
}

void yk__cached_reader_free(yk_reader *reader)
{
    free(reader);
}
