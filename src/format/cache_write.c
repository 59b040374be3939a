/* The writer of cache.h. */
#include "base/crc.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/cache.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Rows are added block by block, but the file stores one array after the other, so each array has its own cursor. Blocks
 * are large enough to be written without a buffer. */
struct yk_cache_writer {
    char *path, *temp;
    int fd;
    uint64_t rows, entries;
    yk_cache_shape shape;
    yk_cache_head head;
    struct {
        uint64_t at;  /* bytes so far */
        uint32_t crc; /* of these, before the final inversion */
    } array[YK_CACHE_ARRAYS];
    char *scratch; /* starts of rows; values or fields that the rows do not store */
    size_t scratch_cap;
};

static void writer_free(yk_cache_writer *w)
{
    free(w->scratch);
    free(w->temp);
    free(w->path);
    free(w);
}

yk_status yk_cache_create(const char *path, const yk_cache_shape *shape, yk_cache_writer **out)
{
    yk_cache_head head;
    yk_status st = yk__cache_layout(path, shape, &head);
    if (st)
        return st;
    struct stat old;
    if (!stat(path, &old) && !S_ISREG(old.st_mode)) /* a rename would replace the device or the pipe */
        return yk_fail(YK_EUSAGE, "%s: a cache must be a regular file; choose another path", path);
    yk_cache_writer *w = calloc(1, sizeof *w);
    if (!w || !(w->path = strdup(path))) {
        free(w);
        return yk_fail_memory(sizeof *w + strlen(path), "writing a cache");
    }
    w->head = head;
    w->shape = *shape;
    for (int i = 0; i < YK_CACHE_ARRAYS; i++)
        w->array[i].crc = ~0u;
    w->fd = yk_file_temp(AT_FDCWD, path, 0666, &w->temp);
    if (w->fd < 0) {
        st = yk_fail_path(path, "cannot create", errno);
        writer_free(w);
        return st;
    }
    *out = w;
    return YK_OK;
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

static yk_status put(yk_cache_writer *w, int array, const void *data, size_t size)
{
    const uint64_t at = yk__cache_array(&w->head.header, array)->offset + w->array[array].at;
    w->array[array].at += size;
    w->array[array].crc = yk_crc32c_add(w->array[array].crc, data, size);
    return write_at(w, data, size, at);
}

/* n elements of an array, or n times `otherwise` if the rows do not have it. */
static yk_status put_all(yk_cache_writer *w, int array, const void *data, const void *otherwise, size_t width,
                         size_t n)
{
    if (!data) {
        if (YK_RESERVE(w->scratch, w->scratch_cap, n * width, "writing a cache"))
            return YK_ESYSTEM;
        for (size_t i = 0; i < n; i++)
            memcpy(w->scratch + i * width, otherwise, width);
    }
    return put(w, array, data ? data : w->scratch, n * width);
}

static yk_status put_sparse(yk_cache_writer *w, const yk_rows *rows)
{
    const float one = 1.0f;
    const uint16_t no_field = 0;
    const uint64_t first = rows->start[0];
    const size_t entries = (size_t)(rows->start[rows->n] - first);
    if (YK_RESERVE(w->scratch, w->scratch_cap, rows->n * sizeof first, "writing a cache"))
        return YK_ESYSTEM;
    for (size_t i = 0; i < rows->n; i++) {
        const uint64_t start = w->entries + rows->start[i] - first;
        memcpy(w->scratch + i * sizeof start, &start, sizeof start);
    }
    yk_status st = put(w, YK_CACHE_START, w->scratch, rows->n * sizeof first);
    if (!st)
        st = put(w, YK_CACHE_INDEX, rows->index + first, entries * sizeof *rows->index);
    if (!st && w->shape.has_value)
        st = put_all(w, YK_CACHE_VALUE, rows->value ? rows->value + first : NULL, &one, sizeof one, entries);
    if (!st && w->shape.has_field)
        st = put_all(w, YK_CACHE_FIELD, rows->field ? rows->field + first : NULL, &no_field, sizeof no_field,
                     entries);
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
                (rows->truth || !w->shape.has_truth) && (!rows->weight || w->shape.has_weight) &&
                (rows->target || !w->shape.has_target);
    if (!fits)
        return yk_fail(YK_EDATA, "%s: the data changed while it was converted: the two passes over it differ",
                       w->path);
    yk_status st = put(w, YK_CACHE_LABEL, rows->label, rows->n * sizeof *rows->label);
    if (!st && w->shape.has_truth)
        st = put(w, YK_CACHE_TRUTH, rows->truth, rows->n * sizeof *rows->truth);
    const float one = 1.0f;
    if (!st && w->shape.has_weight)
        st = put_all(w, YK_CACHE_WEIGHT, rows->weight, &one, sizeof one, rows->n);
    if (!st && w->shape.has_target)
        st = put(w, YK_CACHE_TARGET, rows->target, rows->n * sizeof *rows->target);
    if (!st && sparse)
        st = put_sparse(w, rows);
    else if (!st && rows->kind == YK_ROWS_U8)
        st = put(w, YK_CACHE_DENSE, rows->u8, (size_t)entries);
    else if (!st)
        st = put(w, YK_CACHE_DENSE, rows->f32, (size_t)entries * sizeof *rows->f32);
    w->entries += entries;
    w->rows += rows->n;
    return st;
}

/* The header is written last: until then the file has no magic number and is not a cache. */
static yk_status finish(yk_cache_writer *w)
{
    yk_status st = YK_OK;
    if (w->rows != w->shape.n || w->entries != w->shape.entries)
        return yk_fail(YK_EDATA,
                       "%s: the data changed while it was converted: the second pass found fewer examples",
                       w->path);
    if (w->shape.kind == YK_ROWS_SPARSE)
        st = put(w, YK_CACHE_START, &w->entries, sizeof w->entries);
    for (int i = 0; i < yk__cache_arrays(&w->head.header); i++) {
        yk_cache_array *array = yk__cache_array(&w->head.header, i);
        array->crc = array->size ? ~w->array[i].crc : 0;
    }
    if (!st && w->shape.schema_size) {
        w->head.header.schema_crc = yk_crc32c(w->shape.schema, w->shape.schema_size);
        st = write_at(w, w->shape.schema, w->shape.schema_size,
                      w->head.header.file_size - w->shape.schema_size);
    }
    w->head.header.crc = yk_crc32c(&w->head.header, offsetof(yk_cache_header, crc));
    w->head.crc = yk_crc32c(w->head.more, sizeof w->head.more);
    if (!st)
        st = write_at(w, &w->head, yk__cache_head_size(&w->head.header), 0);
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
