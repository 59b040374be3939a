#include "format/cache.h"

#include "base/crc.h"
#include "format/input.h"
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 64
#define MAX_SIZE  ((uint64_t)1 << 62)

static const char *const array_name[YK_CACHE_ARRAYS] = {"dense", "label", "start",  "index", "value",
                                                        "truth", "field", "weight", "target"};

/* ---- the layout, for writing and for checking */

/* *size_out is 0 if the shape has no such array. False: too large. */
static bool array_size(const yk_cache_shape *s, int array, uint64_t *size_out)
{
    const bool sparse = s->kind == YK_ROWS_SPARSE;
    const struct {
        bool exists;
        uint64_t count, width;
    } of[YK_CACHE_ARRAYS] = {[YK_CACHE_DENSE] = {!sparse, s->entries, s->kind == YK_ROWS_U8 ? 1 : 4},
                             [YK_CACHE_LABEL] = {true, s->n, 4},
                             [YK_CACHE_START] = {sparse, s->n + 1, 8},
                             [YK_CACHE_INDEX] = {sparse, s->entries, 4},
                             [YK_CACHE_VALUE] = {sparse && s->has_value, s->entries, 4},
                             [YK_CACHE_TRUTH] = {s->has_truth, s->n, 4},
                             [YK_CACHE_FIELD] = {sparse && s->has_field, s->entries, 2},
                             [YK_CACHE_WEIGHT] = {s->has_weight, s->n, 4},
                             [YK_CACHE_TARGET] = {s->has_target, s->n, 4}};
    *size_out = 0;
    return !of[array].exists ||
           (s->n < MAX_SIZE && !__builtin_mul_overflow(of[array].count, of[array].width, size_out) &&
            *size_out < MAX_SIZE);
}

yk_status yk__cache_layout(const char *path, const yk_cache_shape *s, yk_cache_head *head)
{
    yk_cache_header *out = &head->header;
    memset(head, 0, sizeof *head);
    memcpy(out->magic, YK_CACHE_MAGIC, sizeof out->magic);
    out->version = s->has_weight || s->has_target ? 5
                   : s->schema_size               ? 4
                   : !s->has_field                ? 1
                   : s->fields                    ? 3
                                                  : 2;
    out->kind = s->kind;
    out->n = s->n;
    out->dim = s->dim;
    out->entries = s->entries;
    out->classes = s->classes;
    out->scale = s->scale;
    out->height = s->height;
    out->width = s->width;
    out->channels = s->channels;
    out->fields = s->has_field ? s->fields : 0;
    uint64_t at = yk__cache_head_size(out);
    for (int i = 0; i < YK_CACHE_ARRAYS; i++) {
        uint64_t size;
        if (!array_size(s, i, &size) || at > MAX_SIZE - size)
            return yk_fail(YK_EDATA, "%s: %llu rows of %llu columns are too large for a file", path,
                           (unsigned long long)s->n, (unsigned long long)s->dim);
        if (size == 0)
            continue;
        at = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        yk__cache_array(out, i)->offset = at;
        yk__cache_array(out, i)->size = size;
        at += size;
    }
    if (s->schema_size)
        at = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + s->schema_size;
    out->schema_size = s->schema_size;
    out->file_size = at;
    return YK_OK;
}

/* ---- checking */

/* Checks every field of the header: it must be exactly what the writer would write. */
static yk_status check_header(const char *path, const yk_cache_header *h, uint64_t file_size,
                              yk_cache_shape *s)
{
    if (memcmp(h->magic, YK_CACHE_MAGIC, sizeof h->magic))
        return yk_fail_at(path, 0, "not a binary cache: the magic is not " YK_CACHE_MAGIC);
    if (h->version < 1 || h->version > 5)
        return yk_fail_at(path, offsetof(yk_cache_header, version),
                          "version %u of the cache, but only versions 1 to 5 can be read; convert the data "
                          "again",
                          h->version);
    const yk_cache_head *head = (const yk_cache_head *)h;
    if (h->crc != yk_crc32c(h, offsetof(yk_cache_header, crc)) ||
        (h->version >= 5 &&
         (file_size < sizeof *head || head->crc != yk_crc32c(head->more, sizeof head->more) ||
          head->zero[0] || head->zero[1] || head->zero[2])))
        return yk_fail_at(path, offsetof(yk_cache_header, crc),
                          "the header is damaged: its checksum is wrong");
    if (h->file_size != file_size)
        return yk_fail_at(path, file_size < h->file_size ? file_size : h->file_size,
                          "the file has %llu bytes, but its header says %llu: it was truncated or extended",
                          (unsigned long long)file_size, (unsigned long long)h->file_size);
    if (h->kind > YK_ROWS_SPARSE)
        return yk_fail_at(path, offsetof(yk_cache_header, kind), "unknown kind of rows");
    if (h->n == 0 || h->dim == 0)
        return yk_fail_at(path, offsetof(yk_cache_header, n), "no examples");
    if (h->classes == 0 || h->classes > INT32_MAX)
        return yk_fail_at(path, offsetof(yk_cache_header, classes), "invalid number of classes");
    uint64_t max = h->kind == YK_ROWS_SPARSE ? (uint64_t)UINT32_MAX + 1 : MAX_SIZE, product;
    if (h->dim > max)
        return yk_fail_at(path, offsetof(yk_cache_header, dim), "too many columns");
    if (h->kind != YK_ROWS_SPARSE &&
        (__builtin_mul_overflow(h->n, h->dim, &product) || product != h->entries))
        return yk_fail_at(path, offsetof(yk_cache_header, entries), "entries are not rows times columns");
    if (h->version < 5 && (h->version == 4) != (h->schema_size != 0))
        return yk_fail_at(path, offsetof(yk_cache_header, schema_size), "invalid size of the schema");
    if ((h->version < 4 && (h->version == 3) != (h->fields != 0)) || h->fields > UINT16_MAX + 1)
        return yk_fail_at(path, offsetof(yk_cache_header, fields), "invalid number of fields");
    if (!isfinite(h->scale))
        return yk_fail_at(path, offsetof(yk_cache_header, scale), "the scale is not finite");
    /* the product of two 32-bit numbers fits in 64 bits; the third is checked by division */
    uint64_t plane = (uint64_t)h->height * h->width;
    if ((h->height || h->width || h->channels) &&
        (!plane || !h->channels || h->dim % plane || h->dim / plane != h->channels))
        return yk_fail_at(path, offsetof(yk_cache_header, height),
                          "height, width and channels do not fit the columns");
    *s = (yk_cache_shape){.kind = (yk_rows_kind)h->kind,
                          .n = h->n,
                          .dim = h->dim,
                          .entries = h->entries,
                          .classes = h->classes,
                          .scale = h->scale,
                          .height = h->height,
                          .width = h->width,
                          .channels = h->channels,
                          .has_value = h->array[YK_CACHE_VALUE].size != 0,
                          .has_truth = h->array[YK_CACHE_TRUTH].size != 0,
                          .has_field = h->version < 4 ? h->version > 1 : h->field.size != 0,
                          .has_weight = h->version >= 5 && head->more[0].size,
                          .has_target = h->version >= 5 && head->more[1].size,
                          .fields = h->fields,
                          .schema_size = h->schema_size};
    yk_cache_head wanted;
    const yk_cache_header *const want = &wanted.header;
    yk_status st = yk__cache_layout(path, s, &wanted);
    if (st)
        return st;
    if (want->version != h->version)
        return yk_fail_at(path, offsetof(yk_cache_header, version), "the version does not match the arrays");
    for (int i = 0; i < yk__cache_arrays(h); i++)
        if (yk__cache_array(h, i)->offset != yk__cache_array(want, i)->offset ||
            yk__cache_array(h, i)->size != yk__cache_array(want, i)->size)
            return yk_fail_at(path, yk__cache_entry(i), "wrong offset or size of the %s array",
                              array_name[i]);
    if (want->file_size != file_size)
        return yk_fail_at(path, offsetof(yk_cache_header, file_size), "the arrays do not fill the file");
    return YK_OK;
}

/* Checks what training relies on. Runs at memory speed. */
static yk_status check_rows(const char *path, const yk_cache_header *h, const yk_rows *rows)
{
    uint32_t largest = 0; /* negative labels become large */
    for (size_t i = 0; i < rows->n; i++)
        largest = (uint32_t)rows->label[i] > largest ? (uint32_t)rows->label[i] : largest;
    if (largest >= h->classes)
        return yk_fail_at(path, h->array[YK_CACHE_LABEL].offset,
                          "a label is not below the %u classes: the file is damaged", h->classes);
    if (rows->kind != YK_ROWS_SPARSE)
        return YK_OK;
    bool descends = rows->start[0] != 0 || rows->start[rows->n] != h->entries;
    for (size_t i = 0; i < rows->n; i++)
        descends |= rows->start[i] > rows->start[i + 1];
    if (descends)
        return yk_fail_at(path, h->array[YK_CACHE_START].offset,
                          "the starts of rows do not ascend from 0 to %llu: the file is damaged",
                          (unsigned long long)h->entries);
    largest = 0;
    for (size_t i = 0; i < h->entries; i++)
        largest = rows->index[i] > largest ? rows->index[i] : largest;
    if (largest >= rows->dim && h->entries)
        return yk_fail_at(path, h->array[YK_CACHE_INDEX].offset,
                          "index %u is not below the %zu columns: the file is damaged", largest, rows->dim);
    return YK_OK;
}

static void point_into(yk_rows *rows, const yk_cache_header *h, char *map)
{
    void *at[YK_CACHE_ARRAYS] = {NULL};
    for (int i = 0; i < yk__cache_arrays(h); i++)
        at[i] = yk__cache_array(h, i)->size ? map + yk__cache_array(h, i)->offset : NULL;
    if (rows->kind == YK_ROWS_U8)
        rows->u8 = at[YK_CACHE_DENSE];
    else if (rows->kind == YK_ROWS_F32)
        rows->f32 = at[YK_CACHE_DENSE];
    rows->label = at[YK_CACHE_LABEL];
    rows->start = at[YK_CACHE_START];
    rows->index = at[YK_CACHE_INDEX];
    rows->value = at[YK_CACHE_VALUE];
    rows->truth = at[YK_CACHE_TRUTH];
    rows->field = at[YK_CACHE_FIELD];
    rows->weight = at[YK_CACHE_WEIGHT];
    rows->target = at[YK_CACHE_TARGET];
}

yk_status yk_cache_map(const char *path, yk_rows *rows, yk_cache_shape *shape)
{
    void *map = NULL;
    size_t size = 0;
    yk_status st = yk_map_file(path, &map, &size);
    if (st)
        return st;
    const yk_cache_header *h = map;
    if (size < YK_CACHE_HEADER)
        st = yk_fail_at(path, size, "the file ends within its header (256 bytes)");
    if (st || (st = check_header(path, h, size, shape)))
        goto unmap;
    madvise(map, size, MADV_WILLNEED);
    yk_rows_init(rows, shape->kind, (size_t)shape->dim);
    rows->n = (size_t)shape->n;
    rows->scale = shape->scale;
    point_into(rows, h, map);
    shape->schema = shape->schema_size ? (const char *)map + size - shape->schema_size : NULL;
    if (shape->schema && shape->schema[shape->schema_size - 1])
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

static yk_status check_floats(const char *path, const yk_cache_header *h, int array, const float *v,
                              uint64_t n)
{
    for (uint64_t i = 0; v && i < n; i++)
        if (!isfinite(v[i]) || (array == YK_CACHE_WEIGHT && v[i] < 0.0f))
            return yk_fail_at(path, yk__cache_array(h, array)->offset + i * sizeof *v,
                              "%s %llu is not finite, or negative", array_name[array], (unsigned long long)i);
    return YK_OK;
}

yk_status yk_cache_check(const char *path, const yk_rows *rows)
{
    for (int i = 0; i < yk__cache_arrays(rows->map); i++) {
        const yk_cache_array *array = yk__cache_array(rows->map, i);
        const char *at = (const char *)rows->map + array->offset;
        if (array->size && yk_crc32c(at, (size_t)array->size) != array->crc)
            return yk_fail_at(path, array->offset, "the %s array is damaged: its checksum is wrong",
                              array_name[i]);
    }
    const yk_cache_header *h = rows->map;
    const uint64_t at = h->file_size - h->schema_size;
    if (h->schema_size && yk_crc32c((const char *)rows->map + at, h->schema_size) != h->schema_crc)
        return yk_fail_at(path, at, "the schema is damaged: its checksum is wrong");
    return YK_OK;
}

yk_status yk_cache_verify(const char *path)
{
    yk_rows rows;
    yk_cache_shape shape;
    yk_status st = yk_cache_map(path, &rows, &shape);
    if (st)
        return st;
    const yk_cache_header *h = rows.map;
    st = yk_cache_check(path, &rows);
    for (size_t r = 0; r < rows.n && shape.kind == YK_ROWS_SPARSE && !st; r++)
        for (uint64_t i = rows.start[r] + 1; i < rows.start[r + 1] && !st; i++)
            if (rows.index[i - 1] > rows.index[i] ||
                (rows.index[i - 1] == rows.index[i] && (!rows.field || rows.field[i - 1] >= rows.field[i])))
                st = yk_fail(YK_EDATA, "%s: record %zu at byte %llu: indices do not ascend", path, r + 1,
                             (unsigned long long)(h->array[YK_CACHE_INDEX].offset + i * sizeof *rows.index));
    if (!st)
        st = check_floats(path, h, YK_CACHE_VALUE, rows.value, shape.entries);
    if (!st)
        st = check_floats(path, h, YK_CACHE_TRUTH, rows.truth, shape.n);
    if (!st)
        st = check_floats(path, h, YK_CACHE_WEIGHT, rows.weight, shape.n);
    if (!st)
        st = check_floats(path, h, YK_CACHE_TARGET, rows.target, shape.n);
    if (!st)
        st = check_floats(path, h, YK_CACHE_DENSE, rows.f32, shape.entries);
    yk_rows_fini(&rows);
    return st;
}
