#include "base/file.h"
#include "format/cache.h"
#include "format/crc.h"
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Rows come one block at a time, but the file holds one array after the other: so each array has a buffer and
 * a place of its own, and the file is written at as many places as there are arrays. */
#define BUFFER_BYTES ((size_t)256 << 10)

typedef struct {
    uint64_t at;  /* bytes so far */
    uint32_t crc; /* of them, before the last inversion */
    size_t filled;
    char *buffer;
} stream;

struct yk_cache_writer {
    char *path, *temp;
    int fd;
    uint64_t rows, entries;
    yk_cache_shape shape;
    yk_cache_header header;
    stream array[YK_CACHE_ARRAYS];
};

static void writer_free(yk_cache_writer *w)
{
    for (int i = 0; i < YK_CACHE_ARRAYS; i++)
        free(w->array[i].buffer);
    free(w->temp);
    free(w->path);
    free(w);
}

yk_status yk_cache_create(const char *path, const yk_cache_shape *shape, yk_cache_writer **out)
{
    yk_cache_header header;
    yk_status st = yk__cache_layout(path, shape, &header);
    if (st)
        return st;
    struct stat there;
    if (!stat(path, &there) && !S_ISREG(there.st_mode)) /* a rename would replace the device or the pipe */
        return yk_fail(YK_EUSAGE, "%s: is not a regular file, and a cache has to be one; choose another path",
                       path);
    yk_cache_writer *w = calloc(1, sizeof *w);
    if (!w)
        return yk_fail_memory(sizeof *w, "writing a cache");
    w->header = header;
    w->shape = *shape;
    w->path = strdup(path);
    bool room = w->path;
    for (int i = 0; i < YK_CACHE_ARRAYS; i++) {
        w->array[i].crc = ~0u;
        if (yk__cache_array(&header, i)->size)
            room &= (w->array[i].buffer = malloc(BUFFER_BYTES)) != NULL;
    }
    if (!room) {
        st = yk_fail_memory(BUFFER_BYTES, "writing a cache");
        goto free_writer;
    }
    w->fd = yk_file_temp(AT_FDCWD, path, &w->temp);
    if (w->fd < 0) {
        st = yk_fail_path(path, "cannot create", errno);
        goto free_writer;
    }
    *out = w;
    return YK_OK;
free_writer:
    writer_free(w);
    return st;
}

static yk_status write_at(yk_cache_writer *w, const void *data, size_t size, uint64_t at)
{
    const char *p = data;
    while (size) {
        ssize_t n = pwrite(w->fd, p, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return yk_fail_path(w->path, "cannot write", errno);
        p += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return YK_OK;
}

static yk_status flush(yk_cache_writer *w, int array)
{
    stream *s = &w->array[array];
    uint64_t at = yk__cache_array(&w->header, array)->offset + s->at - s->filled;
    size_t size = s->filled;
    s->filled = 0;
    if (size == 0)
        return YK_OK;
    s->crc = crc32_iscsi((unsigned char *)s->buffer, (int)size, s->crc);
    return write_at(w, s->buffer, size, at);
}

static yk_status put(yk_cache_writer *w, int array, const void *data, size_t size)
{
    stream *s = &w->array[array];
    const char *p = data;
    while (size) {
        yk_status st;
        if (s->filled == BUFFER_BYTES && (st = flush(w, array)))
            return st;
        size_t n = BUFFER_BYTES - s->filled < size ? BUFFER_BYTES - s->filled : size;
        memcpy(s->buffer + s->filled, p, n);
        s->filled += n;
        s->at += n;
        p += n;
        size -= n;
    }
    return YK_OK;
}

/* So many elements of an array, or as often `otherwise` where the rows do not have it. */
static yk_status put_all(yk_cache_writer *w, int array, const void *data, const void *otherwise, size_t width,
                         uint64_t n)
{
    yk_status st = data ? put(w, array, data, (size_t)n * width) : YK_OK;
    for (uint64_t i = 0; !data && i < n && !st; i++)
        st = put(w, array, otherwise, width);
    return st;
}

static yk_status put_sparse(yk_cache_writer *w, const yk_rows *rows)
{
    const float one = 1.0f;
    const uint16_t no_field = 0;
    yk_status st = YK_OK;
    uint64_t first = rows->start[0], entries = rows->start[rows->n] - first;
    for (size_t i = 0; i < rows->n && !st; i++) {
        uint64_t start = w->entries + rows->start[i] - first;
        st = put(w, YK_CACHE_START, &start, sizeof start);
    }
    if (!st)
        st = put(w, YK_CACHE_INDEX, rows->index + first, (size_t)entries * sizeof *rows->index);
    if (!st && w->shape.has_value)
        st = put_all(w, YK_CACHE_VALUE, rows->value ? rows->value + first : NULL, &one, sizeof one, entries);
    if (!st && w->shape.has_field)
        st = put_all(w, YK_CACHE_FIELD, rows->field ? rows->field + first : NULL, &no_field, sizeof no_field,
                     entries);
    w->entries += entries;
    return st;
}

yk_status yk_cache_add(yk_cache_writer *w, const yk_rows *rows)
{
    if (rows->n == 0)
        return YK_OK;
    bool sparse = rows->kind == YK_ROWS_SPARSE;
    uint64_t entries = sparse ? rows->start[rows->n] - rows->start[0] : (uint64_t)rows->n * rows->dim;
    bool fits = rows->kind == w->shape.kind && rows->n <= w->shape.n - w->rows &&
                entries <= w->shape.entries - w->entries &&
                (sparse ? rows->dim <= w->shape.dim : rows->dim == w->shape.dim) &&
                (!rows->value || w->shape.has_value) && (!rows->field || w->shape.has_field) &&
                (rows->truth || !w->shape.has_truth);
    if (!fits)
        return yk_fail(YK_EDATA,
                       "%s: the data has changed while it was read: its second reading is not like the first",
                       w->path);
    yk_status st = put(w, YK_CACHE_LABEL, rows->label, rows->n * sizeof *rows->label);
    if (!st && w->shape.has_truth)
        st = put(w, YK_CACHE_TRUTH, rows->truth, rows->n * sizeof *rows->truth);
    if (!st && sparse) {
        st = put_sparse(w, rows);
    } else if (!st) {
        const void *data = rows->kind == YK_ROWS_U8 ? (const void *)rows->u8 : (const void *)rows->f32;
        st = put(w, YK_CACHE_DENSE, data, (size_t)entries * (rows->kind == YK_ROWS_U8 ? 1 : sizeof(float)));
        w->entries += entries;
    }
    w->rows += rows->n;
    return st;
}

/* The header goes in last: until then the file has no magic and is no cache, whatever happens. */
static yk_status finish(yk_cache_writer *w)
{
    yk_status st = YK_OK;
    if (w->rows != w->shape.n || w->entries != w->shape.entries)
        return yk_fail(
            YK_EDATA,
            "%s: the data has changed while it was read: its second reading is shorter than the first",
            w->path);
    if (w->shape.kind == YK_ROWS_SPARSE)
        st = put(w, YK_CACHE_START, &w->entries, sizeof w->entries);
    for (int i = 0; i < YK_CACHE_ARRAYS && !st; i++) {
        st = flush(w, i);
        yk_cache_array *array = yk__cache_array(&w->header, i);
        array->crc = array->size ? ~w->array[i].crc : 0;
    }
    w->header.crc = yk_crc32c(&w->header, offsetof(yk_cache_header, crc));
    if (!st)
        st = write_at(w, &w->header, sizeof w->header, 0);
    if (!st && fsync(w->fd))
        st = yk_fail_path(w->path, "cannot write", errno);
    return st;
}

yk_status yk_cache_close(yk_cache_writer *w, yk_status so_far)
{
    if (!w)
        return so_far;
    yk_status st = so_far ? so_far : finish(w);
    if (close(w->fd) && !st)
        st = yk_fail_path(w->path, "cannot write", errno);
    if (!st && rename(w->temp, w->path))
        st = yk_fail_path(w->path, "cannot rename the finished file into place", errno);
    if (st)
        unlink(w->temp);
    else
        st = yk_dir_sync_of(w->path);
    writer_free(w);
    return st;
}
