#include "format/safetensors.h"

#include "base/file.h"
#include "base/fs.h"
#include "base/json.h"
#include "format/input.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define METADATA   "__metadata__"
#define DATA_ALIGN 64
#define FILL_CHUNK ((size_t)1 << 20)
#define OFFSET_MAX ((uint64_t)INT64_MAX)
#define HEADER_MAX 100000000u /* set by the format, so that a wrong file is not parsed for minutes */

const yk_dtype_info yk_dtypes[] = {
#define ROW(name, bytes) {#name, bytes},
    YK_DTYPE_LIST(ROW)
#undef ROW
};

#define DTYPES (sizeof yk_dtypes / sizeof yk_dtypes[0])

/* The bytes of the data according to the shape; false: they do not fit into a file. */
static bool bytes_of(const yk_tensor *t, uint64_t *out)
{
    bool fits = true;
    *out = yk_dtypes[t->dtype].bytes;
    for (size_t i = 0; i < t->rank; i++)
        fits = fits && t->shape[i] <= INT64_MAX && !__builtin_mul_overflow(*out, t->shape[i], out);
    return fits;
}

/* ---- reading the header */

static yk_status parse_entry(const yk_safetensors *s, const char *name, json_t *entry, yk_tensor *t)
{
    const char *dtype;
    json_t *shape, *side;
    json_int_t begin, end;
    json_error_t error;
    size_t i, d = 0;
    if (json_unpack_ex(entry, &error, 0, "{s:s, s:o, s:[I,I!]}", "dtype", &dtype, "shape", &shape,
                       "data_offsets", &begin, &end))
        return yk_fail(YK_EDATA, "tensor \"%s\" needs a dtype, a shape and data_offsets of two numbers: %s",
                       name, error.text);
    while (d < DTYPES && strcmp(dtype, yk_dtypes[d].name))
        d++;
    if (d == DTYPES)
        return yk_fail(
            YK_EDATA,
            "tensor \"%s\" has unsupported dtype %.20s; F64, I64, U64, F32, I32, U32 and U8 are supported",
            name, dtype);
    *t = (yk_tensor){.name = name, .dtype = (yk_dtype)d, .rank = json_array_size(shape)};
    if (!json_is_array(shape))
        return yk_fail(YK_EDATA, "the shape of tensor \"%s\" is not an array", name);
    if (t->rank > YK_TENSOR_RANK_MAX)
        return yk_fail(YK_EDATA, "tensor \"%s\" has %zu dimensions, more than %d", name, t->rank,
                       YK_TENSOR_RANK_MAX);
    json_array_foreach(shape, i, side)
    {
        if (!json_is_integer(side) || json_integer_value(side) < 0)
            return yk_fail(YK_EDATA, "dimension %zu of tensor \"%s\" is not a non-negative integer", i, name);
        t->shape[i] = (uint64_t)json_integer_value(side);
    }
    if (!bytes_of(t, &t->bytes))
        return yk_fail(YK_EDATA, "the shape of tensor \"%s\" is too large for a file", name);
    if (begin < 0 || end < begin || (uint64_t)end > s->data_size)
        return yk_fail(YK_EDATA,
                       "tensor \"%s\" has data_offsets [%lld, %lld), but there are %llu bytes of data", name,
                       (long long)begin, (long long)end, (unsigned long long)s->data_size);
    if ((uint64_t)(end - begin) != t->bytes)
        return yk_fail(
            YK_EDATA,
            "tensor \"%s\" has %llu bytes according to its shape, but %llu according to its data_offsets",
            name, (unsigned long long)t->bytes, (unsigned long long)(end - begin));
    t->data = s->data + begin;
    return YK_OK;
}

static int by_offset(const void *a, const void *b)
{
    const yk_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

static yk_status parse_entries(yk_safetensors *s)
{
    const size_t n = json_object_size(s->header) + 1;
    if (!(s->tensor = yk_arena_alloc(&s->arena, n, sizeof *s->tensor, "a list of tensors")))
        return YK_ESYSTEM;
    const char *name;
    json_t *entry;
    json_object_foreach(s->header, name, entry)
    {
        if (!strcmp(name, METADATA))
            continue;
        const yk_status st = parse_entry(s, name, entry, &s->tensor[s->n++]);
        if (st)
            return st;
    }
    /* Every byte of the data belongs to exactly one tensor: no gaps, no overlaps. */
    qsort(s->tensor, s->n, sizeof *s->tensor, by_offset);
    const uint8_t *at = s->data;
    for (size_t i = 0; i < s->n; i++) {
        if ((const uint8_t *)s->tensor[i].data != at)
            return yk_fail(YK_EDATA,
                           "tensor \"%s\" begins at byte %td of the data, expected %td (a gap or an overlap)",
                           s->tensor[i].name, (const uint8_t *)s->tensor[i].data - s->data, at - s->data);
        at += s->tensor[i].bytes;
    }
    if ((uint64_t)(at - s->data) != s->data_size)
        return yk_fail(YK_EDATA, "the tensors end at byte %td of %llu bytes of data", at - s->data,
                       (unsigned long long)s->data_size);
    return YK_OK;
}

static yk_status parse(yk_safetensors *s)
{
    const uint8_t *bytes = s->map;
    if (s->size < 8)
        return yk_fail(YK_EDATA, "the file has only %zu bytes; the header length alone takes 8", s->size);
    uint64_t n;
    memcpy(&n, bytes, 8);
    if (n > HEADER_MAX || n > s->size - 8)
        return yk_fail(YK_EDATA,
                       "a header of %llu bytes does not fit (the file has %zu bytes; at most %u are allowed)",
                       (unsigned long long)n, s->size, HEADER_MAX);
    const char *text = (const char *)bytes + 8;
    size_t length = n;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (length < 2 || text[0] != '{' || text[length - 1] != '}')
        return yk_fail(YK_EDATA, "its header is not a JSON object");
    s->data = bytes + 8 + n;
    s->data_size = s->size - 8 - n;

    json_error_t error;
    s->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!s->header)
        return yk_fail(YK_EDATA, "its header, byte %d: %s", error.position, error.text);
    json_t *meta = json_object_get(s->header, METADATA), *value;
    const char *key;
    if (meta && !json_is_object(meta))
        return yk_fail(YK_EDATA, "__metadata__ is not an object");
    json_object_foreach(meta, key, value)
    {
        if (!json_is_string(value))
            return yk_fail(YK_EDATA, "\"%s\" of __metadata__ is not a string", key);
    }
    return parse_entries(s);
}

/* ---- reading */

yk_status yk_safetensors_open(const char *path, yk_safetensors **out)
{
    *out = NULL;
    yk_safetensors *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "a safetensors reader");
    s->path = yk_arena_print(&s->arena, "%s", path);
    yk_status st = s->path ? yk_map_file(path, &s->map, &s->size) : YK_ESYSTEM;
    if (!st && (st = parse(s)) == YK_EDATA)
        yk_fail(st, "%s: not a valid safetensors file: %s", path, yk_error());
    if (st)
        yk_safetensors_free(s);
    else
        *out = s;
    return st;
}

void yk_safetensors_free(yk_safetensors *s)
{
    if (!s)
        return;
    yk_fs_unmap(s->map, s->size);
    json_decref(s->header);
    yk_arena_free(&s->arena);
    free(s);
}

/* ---- access */

const yk_tensor *yk_safetensors_find(const yk_safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->tensor[i].name, name))
            return &s->tensor[i];
    return NULL;
}

const char *yk_safetensors_meta(const yk_safetensors *s, const char *key)
{
    return json_string_value(json_object_get(json_object_get(s->header, METADATA), key));
}

static void shape_text(const yk_tensor *t, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "%s[", yk_dtypes[t->dtype].name);
    for (size_t i = 0; i < t->rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%llu", i ? "," : "", (unsigned long long)t->shape[i]);
    if (at < size)
        snprintf(text + at, size - at, "]");
}

yk_status yk_safetensors_need(const yk_safetensors *s, const char *name, yk_dtype dtype, size_t rank,
                              const uint64_t *shape, const yk_tensor **out)
{
    *out = NULL;
    const yk_tensor *t = yk_safetensors_find(s, name);
    if (!t)
        return yk_fail(YK_EDATA, "%s: has no tensor \"%s\"; it belongs to another model or version", s->path,
                       name);
    bool same = t->dtype == dtype && t->rank == rank;
    for (size_t i = 0; same && i < rank; i++)
        same = t->shape[i] == shape[i];
    if (!same) {
        yk_tensor want = {.dtype = dtype, .rank = rank < YK_TENSOR_RANK_MAX ? rank : YK_TENSOR_RANK_MAX};
        memcpy(want.shape, shape, want.rank * sizeof *shape);
        char is[256], should[256];
        shape_text(t, is, sizeof is);
        shape_text(&want, should, sizeof should);
        return yk_fail(YK_EDATA, "%s: tensor \"%s\" is %s, but %s is needed; it belongs to another model",
                       s->path, name, is, should);
    }
    *out = t;
    return YK_OK;
}

/* ---- writing */

/* Larger elements first: this aligns every tensor to its element size without gaps, which the format forbids. */
static yk_status arrange(const char *path, const yk_tensor *tensor, size_t n, const yk_tensor **order)
{
    uint64_t total = 0, bytes;
    for (size_t width = 8, k = 0; width; width /= 2)
        for (size_t i = 0; i < n; i++)
            if (yk_dtypes[tensor[i].dtype].bytes == width)
                order[k++] = &tensor[i];
    for (const yk_tensor *t = tensor; t < tensor + n; t++) {
        if (t->rank > YK_TENSOR_RANK_MAX)
            return yk_fail(YK_EUSAGE, "%s: tensor \"%s\" has more than %d dimensions", path, t->name,
                           YK_TENSOR_RANK_MAX);
        if (!bytes_of(t, &bytes) || __builtin_add_overflow(total, bytes, &total) || total > OFFSET_MAX)
            return yk_fail(YK_EUSAGE, "%s: tensor \"%s\" is too large for a file", path, t->name);
        if (bytes && !t->data && !t->fill)
            return yk_fail(YK_EUSAGE, "%s: tensor \"%s\" has no data", path, t->name);
    }
    return YK_OK;
}

/* Adds to the header or to its metadata. Takes `value`. Names must be unique and valid UTF-8. */
static yk_status add(const char *path, json_t *object, const char *what, const char *name, json_t *value)
{
    yk_status st = YK_OK;
    if (!yk_is_utf8(name))
        st = yk_fail(YK_EUSAGE, "%s: the name of a %s is not UTF-8", path, what);
    else if (json_object_get(object, name))
        st = yk_fail(YK_EUSAGE, "%s: two %ss are called \"%s\"", path, what, name);
    if (st)
        json_decref(value);
    else if (json_object_set_new(object, name, value))
        st = yk_fail_memory(strlen(name), "the header of a file");
    return st;
}

/* {"__metadata__": {...}, name: {dtype, shape, data_offsets}, ...} in the order of the data */
static yk_status make_header(const char *path, const yk_tensor **tensor, size_t n, const yk_pair *meta,
                             size_t nmeta, char **text_out)
{
    json_t *all = json_object(), *pairs = json_object();
    yk_status st = add(path, all, "tensor", METADATA, pairs);
    for (size_t i = 0; !st && i < nmeta; i++)
        st = yk_is_utf8(meta[i].value)
                 ? add(path, pairs, "metadata item", meta[i].key, json_string(meta[i].value))
                 : yk_fail(YK_EUSAGE, "%s: metadata \"%s\" is not UTF-8", path, meta[i].key);
    uint64_t begin = 0, bytes;
    for (size_t i = 0; !st && i < n; begin += bytes, i++) {
        const yk_tensor *t = tensor[i];
        json_t *shape = json_array();
        bytes_of(t, &bytes);
        for (size_t k = 0; k < t->rank; k++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[k]));
        st = add(path, all, "tensor", t->name,
                 json_pack("{s:s, s:o, s:[I,I]}", "dtype", yk_dtypes[t->dtype].name, "shape", shape,
                           "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes)));
    }
    if (!st && !nmeta)
        json_object_del(all, METADATA);
    if (!st && !(*text_out = json_dumps(all, JSON_COMPACT)))
        st = yk_fail_memory(n * sizeof *tensor, "the header of a file");
    json_decref(all);
    return st;
}

static yk_status write_tensor(yk_file *f, const yk_tensor *t, char chunk[FILL_CHUNK])
{
    yk_status st = YK_OK;
    uint64_t bytes;
    bytes_of(t, &bytes);
    for (uint64_t at = 0, n; !st && at < bytes; at += n) {
        n = bytes - at < FILL_CHUNK ? bytes - at : FILL_CHUNK;
        if (!t->data)
            st = t->fill(t->context, at, chunk, (size_t)n);
        if (!st)
            st = yk_file_write(f, t->data ? (const char *)t->data + at : chunk, (size_t)n);
    }
    return st;
}

yk_status yk_safetensors_write(const char *dir, const char *name, const yk_tensor *tensor, size_t n,
                               const yk_pair *meta, size_t nmeta)
{
    const yk_tensor **order = calloc(n + 1, sizeof *order);
    char *text = NULL, *chunk = malloc(FILL_CHUNK);
    yk_file *f = NULL;
    yk_status st =
        order && chunk ? arrange(name, tensor, n, order) : yk_fail_memory(FILL_CHUNK, "a file of tensors");
    if (!st)
        st = make_header(name, order, n, meta, nmeta, &text);
    if (!st)
        st = yk_file_create_in(dir, name, &f);
    const size_t length = text ? strlen(text) : 0;
    const uint64_t padded = (8 + length + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN - 8;
    if (!st && !(st = yk_file_write(f, &padded, 8)) && !(st = yk_file_write(f, text, length)))
        st = yk_file_print(f, "%*s", (int)(padded - length), "");
    for (size_t i = 0; i < n && !st; i++)
        st = write_tensor(f, order[i], chunk);
    st = yk_file_close(f, st);
    free(text);
    free(chunk);
    free(order);
    return st;
}
