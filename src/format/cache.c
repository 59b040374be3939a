#include "format/cache.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/input.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 64
#define MAX_SIZE  ((uint64_t)1 << 62)

/* ---- the layout, for writing and for checking */

/* In the order of the file. A file has one of the dense arrays, or the sparse ones. */
static const struct {
    int array;    /* of yk_rows */
    bool real;    /* float */
    size_t entry; /* in the header */
    const char *name;
} arrays[] = {{YK_ROWS_PIXELS, false, offsetof(yk_cache_header, dense), "dense"},
              {YK_ROWS_FLOATS, true, offsetof(yk_cache_header, dense), "dense"},
              {YK_ROWS_LABEL, false, offsetof(yk_cache_header, label), "label"},
              {YK_ROWS_START, false, offsetof(yk_cache_header, start), "start"},
              {YK_ROWS_INDEX, false, offsetof(yk_cache_header, index), "index"},
              {YK_ROWS_VALUE, true, offsetof(yk_cache_header, value), "value"},
              {YK_ROWS_TRUTH, true, offsetof(yk_cache_header, truth), "truth"},
              {YK_ROWS_FIELD, false, offsetof(yk_cache_header, field), "field"},
              {YK_ROWS_WEIGHT, true, offsetof(yk_cache_header, weight), "weight"},
              {YK_ROWS_TARGET, true, offsetof(yk_cache_header, target), "target"}};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

static yk_cache_array *entry_of(const yk_cache_header *h, int i)
{
    return (yk_cache_array *)((char *)h + arrays[i].entry);
}

static size_t header_size(const yk_cache_header *h)
{
    return h->version >= 5 ? sizeof *h : YK_CACHE_HEADER;
}

static bool has(const yk_cache_shape *s, int array)
{
    return s->arrays >> array & 1;
}

yk_status yk__cache_layout(const char *path, yk_cache_shape *s)
{
    yk_cache_header *h = &s->header;
    const bool weighted = has(s, YK_ROWS_WEIGHT) || has(s, YK_ROWS_TARGET);
    memcpy(h->magic, YK_CACHE_MAGIC, sizeof h->magic);
    h->fields = has(s, YK_ROWS_FIELD) ? h->fields : 0;
    h->version = !has(s, YK_ROWS_FIELD) ? 1 : h->fields ? 3 : 2;
    if (weighted || h->schema_size)
        h->version = weighted ? 5 : 4;
    h->zero = 0;
    memset(h->more_zero, 0, sizeof h->more_zero);
    uint64_t at = header_size(h);
    for (int i = 0; i < ARRAYS; i++) {
        yk_cache_array *entry = entry_of(h, i);
        const int a = arrays[i].array;
        const size_t width = yk_rows_width((yk_rows_kind)h->kind, s->arrays, a);
        uint64_t size;
        if (h->n >= MAX_SIZE ||
            __builtin_mul_overflow(yk_rows_length(a, h->n, h->dim, h->entries), width, &size) ||
            size >= MAX_SIZE || at > MAX_SIZE - size)
            return yk_fail(YK_EDATA, "%s: %llu rows of %llu columns are too large for a file", path,
                           (unsigned long long)h->n, (unsigned long long)h->dim);
        if (a == YK_ROWS_FLOATS && !size) /* the entry is that of the pixels */
            continue;
        at = size ? YK_ROUND_UP(at, ALIGNMENT) : at;
        *entry = (yk_cache_array){.offset = size ? at : 0, .size = size, .crc = entry->crc};
        at += size;
    }
    h->file_size = h->schema_size ? YK_ROUND_UP(at, ALIGNMENT) + h->schema_size : at;
    return YK_OK;
}

/* ---- checking */

static bool is_plausible(const yk_cache_header *h)
{
    const bool sparse = h->kind == YK_ROWS_SPARSE, image = h->height || h->width || h->channels;
    const uint64_t max = sparse ? (uint64_t)UINT32_MAX + 1 : MAX_SIZE;
    const uint64_t plane = (uint64_t)h->height * h->width; /* fits in 64 bits, unlike the product of three */
    uint64_t product;
    if (h->kind > YK_ROWS_SPARSE || !h->n || !h->dim || h->dim > max || !h->classes ||
        h->classes > INT32_MAX || h->fields > UINT16_MAX + 1 || !isfinite(h->scale))
        return false;
    if (image && (!plane || !h->channels || h->dim % plane || h->dim / plane != h->channels))
        return false;
    return sparse || (!__builtin_mul_overflow(h->n, h->dim, &product) && product == h->entries);
}

/* The header must be exactly what the writer would write for this shape. */
static yk_status check_header(const char *path, const void *map, uint64_t file_size, yk_cache_shape *s)
{
    *s = (yk_cache_shape){0};
    yk_cache_header *const h = &s->header;
    memcpy(h, map, file_size < sizeof *h ? file_size : sizeof *h);
    if (file_size < YK_CACHE_HEADER)
        return yk_fail_at(path, file_size, "the file ends within its header (256 bytes)");
    if (memcmp(h->magic, YK_CACHE_MAGIC, sizeof h->magic))
        return yk_fail_at(path, 0, "not a binary cache: the magic is not " YK_CACHE_MAGIC);
    if (h->version < 1 || h->version > 5)
        return yk_fail_at(
            path, offsetof(yk_cache_header, version),
            "version %u of the cache, but only versions 1 to 5 can be read; convert the data again",
            h->version);
    if (h->crc != yk_crc32c(h, offsetof(yk_cache_header, crc)) ||
        (h->version >= 5 && h->more_crc != yk_crc32c(&h->weight, 2 * sizeof h->weight)))
        return yk_fail_at(path, offsetof(yk_cache_header, crc),
                          "the header is damaged: its checksum is wrong");
    if (h->file_size != file_size)
        return yk_fail_at(path, file_size < h->file_size ? file_size : h->file_size,
                          "the file has %llu bytes, but its header says %llu: it was truncated or extended",
                          (unsigned long long)file_size, (unsigned long long)h->file_size);
    if (!is_plausible(h))
        return yk_fail_at(path, offsetof(yk_cache_header, kind),
                          "the header is invalid: kind %u, %llu rows of %llu columns, %llu entries, %u "
                          "classes, %u fields, images of %ux%u pixels and %u channels, scale %g",
                          h->kind, (unsigned long long)h->n, (unsigned long long)h->dim,
                          (unsigned long long)h->entries, h->classes, h->fields, h->height, h->width,
                          h->channels, (double)h->scale);
    const size_t size = header_size(h);
    s->arrays = h->version == 2 || h->fields ? 1u << YK_ROWS_FIELD : 0;
    for (int i = 0; i < ARRAYS && arrays[i].entry < size; i++)
        s->arrays |= entry_of(h, i)->size ? 1u << arrays[i].array : 0;
    yk_cache_shape want = *s;
    const yk_status st = yk__cache_layout(path, &want);
    for (size_t at = 0; at < size && !st; at++)
        if (((const char *)h)[at] != ((const char *)&want.header)[at])
            return yk_fail_at(path, at, "the header does not match the arrays: the file is damaged");
    return st;
}

/* Checks what training relies on. Runs at memory speed. */
static yk_status check_rows(const char *path, const yk_cache_header *h, const yk_rows *rows)
{
    uint32_t largest = 0; /* negative labels become large */
    for (size_t i = 0; i < rows->n; i++)
        largest = (uint32_t)rows->label[i] > largest ? (uint32_t)rows->label[i] : largest;
    if (largest >= h->classes)
        return yk_fail_at(path, h->label.offset, "a label is not below the %u classes: the file is damaged",
                          h->classes);
    if (rows->kind != YK_ROWS_SPARSE)
        return YK_OK;
    bool descends = rows->start[0] != 0 || rows->start[rows->n] != h->entries;
    for (size_t i = 0; i < rows->n; i++)
        descends |= rows->start[i] > rows->start[i + 1];
    if (descends)
        return yk_fail_at(path, h->start.offset,
                          "the starts of rows do not ascend from 0 to %llu: the file is damaged",
                          (unsigned long long)h->entries);
    largest = 0;
    for (size_t i = 0; i < h->entries; i++)
        largest = rows->index[i] > largest ? rows->index[i] : largest;
    if (largest >= rows->dim && h->entries)
        return yk_fail_at(path, h->index.offset, "index %u is not below the %zu columns: the file is damaged",
                          largest, rows->dim);
    return YK_OK;
}

yk_status yk_cache_map(const char *path, yk_rows *rows, yk_cache_shape *shape)
{
    void *map = NULL;
    size_t size = 0;
    yk_status st = yk_map_file(path, &map, &size);
    if (st)
        return st;
    const yk_cache_header *h = &shape->header;
    if ((st = check_header(path, map, size, shape)))
        goto unmap;
    madvise(map, size, MADV_WILLNEED);
    yk_rows_init(rows, (yk_rows_kind)h->kind, (size_t)h->dim);
    rows->n = (size_t)h->n;
    rows->scale = h->scale;
    for (int i = 0; i < ARRAYS; i++)
        if (yk_rows_width(rows->kind, shape->arrays, arrays[i].array) && entry_of(h, i)->size)
            yk_rows_set(rows, arrays[i].array, (char *)map + entry_of(h, i)->offset);
    shape->schema = h->schema_size ? (const char *)map + size - h->schema_size : NULL;
    if (shape->schema && shape->schema[h->schema_size - 1])
        st = yk_fail_at(path, size, "the schema does not end with a zero byte: the file is damaged");
    if (st || (st = check_rows(path, h, rows)))
        goto unmap;
    rows->map = map;
    rows->map_size = size;
    return YK_OK;
unmap:
    munmap(map, size);
    *rows = (yk_rows){0};
    return st;
}

/* ---- what yk_cache_map() does not check */

yk_status yk_cache_check(const char *path, const yk_rows *rows)
{
    const yk_cache_header *h = rows->map;
    for (int i = 0; i < ARRAYS; i++) {
        const void *data = yk_rows_get(rows, arrays[i].array);
        if (data && yk_crc32c(data, (size_t)entry_of(h, i)->size) != entry_of(h, i)->crc)
            return yk_fail_at(path, entry_of(h, i)->offset, "the %s array is damaged: its checksum is wrong",
                              arrays[i].name);
    }
    const uint64_t at = h->file_size - h->schema_size;
    if (h->schema_size && yk_crc32c((const char *)rows->map + at, h->schema_size) != h->schema_crc)
        return yk_fail_at(path, at, "the schema is damaged: its checksum is wrong");
    return YK_OK;
}

static yk_status check_order(const char *path, const yk_rows *rows)
{
    const yk_cache_header *h = rows->map;
    for (size_t r = 0; r < rows->n && rows->kind == YK_ROWS_SPARSE; r++)
        for (uint64_t i = rows->start[r] + 1; i < rows->start[r + 1]; i++)
            if (rows->index[i - 1] > rows->index[i] ||
                (rows->index[i - 1] == rows->index[i] &&
                 (!rows->field || rows->field[i - 1] >= rows->field[i])))
                return yk_fail(YK_EDATA, "%s: record %zu at byte %llu: indices do not ascend", path, r + 1,
                               (unsigned long long)(h->index.offset + i * sizeof *rows->index));
    return YK_OK;
}

static yk_status check_floats(const char *path, const yk_rows *rows, int i)
{
    const yk_cache_array *entry = entry_of(rows->map, i);
    const float *v = yk_rows_get(rows, arrays[i].array);
    for (uint64_t k = 0; v && k < entry->size / sizeof *v; k++)
        if (!isfinite(v[k]) || (arrays[i].array == YK_ROWS_WEIGHT && v[k] < 0.0f))
            return yk_fail_at(path, entry->offset + k * sizeof *v, "%s %llu is not finite, or negative",
                              arrays[i].name, (unsigned long long)k);
    return YK_OK;
}

yk_status yk_cache_verify(const char *path)
{
    yk_rows rows;
    yk_cache_shape shape;
    yk_status st = yk_cache_map(path, &rows, &shape);
    if (st)
        return st;
    st = yk_cache_check(path, &rows);
    if (!st)
        st = check_order(path, &rows);
    for (int i = 0; i < ARRAYS && !st; i++)
        st = arrays[i].real ? check_floats(path, &rows, i) : YK_OK;
    yk_rows_fini(&rows);
    return st;
}

/* ---- writing */

/* Rows are added block by block, but the file stores one array after the other, so each array has its own cursor. Blocks
 * are large enough to be written without a buffer. */
struct yk_cache_writer {
    const char *path;
    yk_file *file;
    uint64_t rows, entries;
    yk_cache_shape shape;    /* checksums of arrays: of the bytes so far, before the final inversion */
    uint64_t filled[ARRAYS]; /* bytes so far */
    char *scratch;           /* starts of rows; values or fields that the rows do not store */
    size_t scratch_cap;
};

yk_status yk_cache_create(const char *path, const yk_cache_shape *shape, yk_cache_writer **out)
{
    yk_cache_shape whole = *shape;
    yk_status st = yk__cache_layout(path, &whole);
    if (st)
        return st;
    if (yk_file_is_stream(path))
        return yk_fail(YK_EUSAGE, "%s: a cache must be a regular file; choose another path", path);
    yk_cache_writer *w = calloc(1, sizeof *w);
    if (!w)
        return yk_fail_memory(sizeof *w, "writing a cache");
    w->path = path;
    w->shape = whole;
    for (int i = 0; i < ARRAYS; i++)
        entry_of(&w->shape.header, i)->crc = ~0u;
    if ((st = yk_file_create_in(NULL, path, &w->file)))
        free(w);
    else
        *out = w;
    return st;
}

static yk_status put(yk_cache_writer *w, int i, const void *data, size_t size)
{
    yk_cache_array *entry = entry_of(&w->shape.header, i);
    const uint64_t at = entry->offset + w->filled[i];
    w->filled[i] += size;
    entry->crc = yk_crc32c_add(entry->crc, data, size);
    return yk_file_write_at(w->file, data, size, at);
}

/* Array i of these rows. Where they do not store it, values and weights are 1, and fields 0. */
static yk_status put_array(yk_cache_writer *w, int i, const yk_rows *rows)
{
    const float one = 1.0f;
    const uint16_t no_field = 0;
    const int a = arrays[i].array;
    const size_t width = yk_rows_width(rows->kind, w->shape.arrays, a);
    const uint64_t first = rows->start ? rows->start[0] : 0, last = rows->start ? rows->start[rows->n] : 0;
    const size_t begin = (size_t)yk_rows_length(a, 0, rows->dim, first);
    size_t n = (size_t)yk_rows_length(a, rows->n, rows->dim, last) - begin;
    const char *data = yk_rows_get(rows, a);
    if (!width)
        return YK_OK;
    if (a == YK_ROWS_START)
        n = rows->n; /* the last one is that of the next rows */
    else if (data)
        return put(w, i, data + begin * width, n * width);
    if (YK_RESERVE(w->scratch, w->scratch_cap, n * width, "writing a cache"))
        return YK_ESYSTEM;
    for (size_t k = 0; k < n; k++) {
        const uint64_t start = a == YK_ROWS_START ? w->entries + rows->start[k] - first : 0;
        memcpy(w->scratch + k * width,
               a == YK_ROWS_START   ? (const void *)&start
               : a == YK_ROWS_FIELD ? (const void *)&no_field
                                    : &one,
               width);
    }
    return put(w, i, w->scratch, n * width);
}

yk_status yk_cache_add(yk_cache_writer *w, const yk_rows *rows)
{
    if (rows->n == 0)
        return YK_OK;
    const yk_cache_header *h = &w->shape.header;
    const bool sparse = rows->kind == YK_ROWS_SPARSE;
    const unsigned truth = 1u << YK_ROWS_TRUTH, none = ~(w->shape.arrays | truth);
    uint64_t entries = sparse ? rows->start[rows->n] - rows->start[0] : (uint64_t)rows->n * rows->dim;
    bool fits = rows->kind == h->kind && rows->n <= h->n - w->rows && entries <= h->entries - w->entries &&
                (sparse ? rows->dim <= h->dim : rows->dim == h->dim) && !(yk_rows_arrays(rows) & none) &&
                (rows->truth || !(w->shape.arrays & truth));
    if (!fits)
        return yk_fail(YK_EDATA, "%s: the data changed while it was converted: the two passes over it differ",
                       w->path);
    yk_status st = YK_OK;
    for (int i = 0; i < ARRAYS && !st; i++)
        st = put_array(w, i, rows);
    w->entries += entries;
    w->rows += rows->n;
    return st;
}

/* The header is written last: until then the file has no magic number and is not a cache. */
static yk_status finish(yk_cache_writer *w)
{
    yk_cache_header *h = &w->shape.header;
    yk_status st = YK_OK;
    if (w->rows != h->n || w->entries != h->entries)
        return yk_fail(YK_EDATA,
                       "%s: the data changed while it was converted: the second pass found fewer examples",
                       w->path);
    for (int i = 0; i < ARRAYS && !st; i++)
        if (arrays[i].array == YK_ROWS_START && h->start.size)
            st = put(w, i, &w->entries, sizeof w->entries);
    for (int i = 1; i < ARRAYS; i++) /* the two dense arrays have one entry */
        entry_of(h, i)->crc = entry_of(h, i)->size ? ~entry_of(h, i)->crc : 0;
    if (!st && h->schema_size) {
        h->schema_crc = yk_crc32c(w->shape.schema, h->schema_size);
        st = yk_file_write_at(w->file, w->shape.schema, h->schema_size, h->file_size - h->schema_size);
    }
    h->crc = yk_crc32c(h, offsetof(yk_cache_header, crc));
    h->more_crc = yk_crc32c(&h->weight, 2 * sizeof h->weight);
    return st ? st : yk_file_write_at(w->file, h, header_size(h), 0);
}

yk_status yk_cache_close(yk_cache_writer *w, yk_status so_far)
{
    if (!w)
        return so_far;
    const yk_status st = yk_file_close(w->file, so_far ? so_far : finish(w));
    free(w->scratch);
    free(w);
    return st;
}
