/* The writer of safetensors.h. */
#include "format/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include <stdlib.h>
#include <string.h>

#define METADATA   "__metadata__"
#define DATA_ALIGN 64
#define FILL_CHUNK ((size_t)1 << 20)
#define OFFSET_MAX ((uint64_t)INT64_MAX)

typedef struct {
    const yk_tensor *tensor;
    uint64_t bytes;
    size_t number; /* as given: makes the sort stable */
} item;

/* Larger elements first: this aligns every tensor to its element size without gaps, which the format forbids. */
static int by_element(const void *a, const void *b)
{
    const item *x = a, *y = b;
    size_t i = yk_dtype_bytes(x->tensor->dtype), j = yk_dtype_bytes(y->tensor->dtype);
    if (i != j)
        return i > j ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static yk_status measure(const char *path, const yk_tensor *tensor, size_t n, item *items)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        const yk_tensor *t = &tensor[i];
        if (t->rank > YK_TENSOR_RANK_MAX)
            return yk_fail(YK_EUSAGE, "%s: tensor \"%s\" has more than %d dimensions", path, t->name,
                           YK_TENSOR_RANK_MAX);
        uint64_t bytes;
        if (!yk__tensor_bytes(t, &bytes) || __builtin_add_overflow(total, bytes, &total) ||
            total > OFFSET_MAX)
            return yk_fail(YK_EUSAGE, "%s: tensor \"%s\" is too large for a file", path, t->name);
        if (bytes && !t->data && !t->fill)
            return yk_fail(YK_EUSAGE, "%s: tensor \"%s\" has no data", path, t->name);
        items[i] = (item){t, bytes, i};
    }
    qsort(items, n, sizeof *items, by_element);
    return YK_OK;
}

/* ---- the header: {"__metadata__": {...}, name: {dtype, shape, data_offsets}, ...} in the order of the data */

/* Names of tensors and of metadata items must be unique and valid UTF-8. */
static yk_status check_name(const char *path, const char *what, const char *name, const char *other)
{
    if (!yk_is_utf8(name))
        return yk_fail(YK_EUSAGE, "%s: the name of a %s is not UTF-8", path, what);
    return strcmp(name, other) ? YK_OK
                               : yk_fail(YK_EUSAGE, "%s: two %ss are called \"%s\"", path, what, name);
}

static yk_status check_names(const char *path, const item *items, size_t n, const yk_pair *meta, size_t nmeta)
{
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < n; i++) {
        st = check_name(path, "tensor", items[i].tensor->name, METADATA);
        for (size_t k = 0; !st && k < i; k++)
            st = check_name(path, "tensor", items[i].tensor->name, items[k].tensor->name);
    }
    for (size_t i = 0; !st && i < nmeta; i++) {
        if (!yk_is_utf8(meta[i].value))
            st = yk_fail(YK_EUSAGE, "%s: metadata \"%s\" is not UTF-8", path, meta[i].key);
        for (size_t k = 0; !st && k < i; k++)
            st = check_name(path, "metadata item", meta[i].key, meta[k].key);
    }
    return st;
}

static void describe(yk_json *j, const item *it, uint64_t begin)
{
    yk_json_object(j, it->tensor->name);
    yk_json_text(j, "dtype", yk_dtype_name(it->tensor->dtype));
    yk_json_array(j, "shape");
    for (size_t k = 0; k < it->tensor->rank; k++)
        yk_json_int(j, NULL, (int64_t)it->tensor->shape[k]);
    yk_json_end(j);
    yk_json_array(j, "data_offsets");
    yk_json_int(j, NULL, (int64_t)begin);
    yk_json_int(j, NULL, (int64_t)(begin + it->bytes));
    yk_json_end(j);
    yk_json_end(j);
}

static yk_status make_header(const char *path, const item *items, size_t n, const yk_pair *meta, size_t nmeta,
                             char **text_out)
{
    yk_json j = {0};
    uint64_t begin = 0;
    yk_status st = check_names(path, items, n, meta, nmeta);
    if (st)
        return st;
    yk_json_object(&j, NULL);
    if (nmeta) {
        yk_json_object(&j, METADATA);
        for (size_t i = 0; i < nmeta; i++)
            yk_json_text(&j, meta[i].key, meta[i].value);
        yk_json_end(&j);
    }
    for (size_t i = 0; i < n; begin += items[i++].bytes)
        describe(&j, &items[i], begin);
    yk_json_end(&j);
    *text_out = yk_json_take(&j);
    return *text_out ? YK_OK : YK_ESYSTEM;
}

static yk_status write_header(yk_file *f, const char *text)
{
    size_t length = strlen(text);
    size_t padded = (8 + length + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN - 8;
    uint64_t n = padded;
    yk_status st = yk_file_write(f, &n, 8);
    if (!st)
        st = yk_file_write(f, text, length);
    if (!st)
        st = yk_file_print(f, "%*s", (int)(padded - length), "");
    return st;
}

/* ---- the data */

static yk_status write_filled(yk_file *f, const item *it, void *chunk)
{
    const yk_tensor *t = it->tensor;
    yk_status st = YK_OK;
    for (uint64_t at = 0; !st && at < it->bytes;) {
        size_t n = it->bytes - at < FILL_CHUNK ? (size_t)(it->bytes - at) : FILL_CHUNK;
        st = t->fill(t->context, at, chunk, n);
        if (!st)
            st = yk_file_write(f, chunk, n);
        at += n;
    }
    return st;
}

static yk_status write_data(yk_file *f, const item *items, size_t n)
{
    yk_status st = YK_OK;
    void *chunk = NULL;
    for (size_t i = 0; !st && i < n; i++) {
        const yk_tensor *t = items[i].tensor;
        if (t->data || !items[i].bytes) {
            st = yk_file_write(f, t->data, (size_t)items[i].bytes);
        } else if (chunk || (chunk = malloc(FILL_CHUNK))) {
            st = write_filled(f, &items[i], chunk);
        } else {
            st = yk_fail_memory(FILL_CHUNK, "a chunk of a tensor");
        }
    }
    free(chunk);
    return st;
}

yk_status yk_safetensors_write(const char *dir, const char *name, const yk_tensor *tensor, size_t n,
                               const yk_pair *meta, size_t nmeta)
{
    item *items = calloc(n + 1, sizeof *items);
    if (!items)
        return yk_fail_memory(n * sizeof *items, "a list of tensors");
    char *text = NULL;
    yk_file *f = NULL;
    yk_status st = measure(name, tensor, n, items);
    if (!st)
        st = make_header(name, items, n, meta, nmeta, &text);
    if (!st)
        st = yk_file_create_in(dir, name, &f);
    if (!st)
        st = write_header(f, text);
    if (!st)
        st = write_data(f, items, n);
    st = yk_file_close(f, st);
    free(text);
    free(items);
    return st;
}
