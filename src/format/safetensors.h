/* safetensors: named arrays in one file, which Python, Rust and others can read without running code from it.
 *
 *     | N: u64 LE | N bytes of JSON, padded with spaces | data of tensor 0 | data of tensor 1 | ...
 *                                                       ^ at a multiple of 64 bytes in files that yoke writes
 *     {"__metadata__":{"step":"1200"},
 *      "weight":{"dtype":"F32","shape":[10,784],"data_offsets":[0,31360]}, ...}     offsets are relative to the data
 *
 * Example:
 *     yk_tensor tensors[] = {
 *         {.name = "weight", .dtype = YK_DTYPE_F32, .rank = 2, .shape = {10, 784}, .data = weight}};
 *     yk_pair meta[] = {{"step", "1200"}};
 *     st = yk_safetensors_write("run", "model.safetensors", tensors, 1, meta, 1);
 *     yk_safetensors *s;
 *     st = yk_safetensors_open("run/model.safetensors", &s);
 *     const yk_tensor *t = yk_safetensors_find(s, "weight");   // borrowed from s; NULL: no such tensor
 *     memcpy(weight, t->data, t->bytes);
 *     yk_safetensors_free(s);
 *
 * The written file appears as a whole, or not at all. Reading maps the file and copies nothing. Files that yoke writes have
 * every tensor aligned to its element size, larger elements first; other files may not, so copy the data. A file that breaks a
 * rule of the format is YK_EDATA with path and reason. Any thread may use an open reader.
 */
#ifndef YK_FORMAT_SAFETENSORS_H
#define YK_FORMAT_SAFETENSORS_H

#include "base/arena.h"

#define YK_TENSOR_RANK_MAX 8

/* name, bytes of an element */
#define YK_DTYPE_LIST(X)                                                                                     \
    X(F64, 8)                                                                                                \
    X(I64, 8)                                                                                                \
    X(U64, 8)                                                                                                \
    X(F32, 4)                                                                                                \
    X(I32, 4)                                                                                                \
    X(U32, 4)                                                                                                \
    X(U8, 1)

typedef enum {
#define YK_DTYPE_ENUM(name, bytes) YK_DTYPE_##name,
    YK_DTYPE_LIST(YK_DTYPE_ENUM)
#undef YK_DTYPE_ENUM
} yk_dtype;

typedef struct {
    const char *name;
    yk_dtype dtype;
    size_t rank; /* 0 is a scalar: one element */
    uint64_t shape[YK_TENSOR_RANK_MAX];
    const void *data; /* borrowed; NULL: fill() provides it */

    /* Writing only: copies `bytes` bytes of the tensor, from byte `offset` on, to `to`. Called in order of offsets. */
    yk_status (*fill)(void *context, uint64_t offset, void *to, size_t bytes);
    void *context;

    uint64_t bytes; /* set by the reader; the writer computes it from the shape */
} yk_tensor;

typedef struct {
    const char *key, *value;
} yk_pair;

/* An open file. */
typedef struct {
    size_t n;
    yk_tensor *tensor; /* [n] in the order of the data */
    /* private: */
    yk_arena arena;
    const char *path;
    void *map;
    size_t size;
    struct json_t *header; /* owns the names of the tensors */
    const uint8_t *data;
    uint64_t data_size;
} yk_safetensors;

/* Names must be UTF-8, unique, and not "__metadata__"; otherwise YK_EUSAGE. */
yk_status yk_safetensors_write(const char *dir, const char *name, const yk_tensor *tensor, size_t n,
                               const yk_pair *meta, size_t nmeta);

yk_status yk_safetensors_open(const char *path, yk_safetensors **out);
void yk_safetensors_free(yk_safetensors *s); /* NULL is fine */

const yk_tensor *yk_safetensors_find(const yk_safetensors *s, const char *name);
const char *yk_safetensors_meta(const yk_safetensors *s, const char *key); /* NULL: no such key */

/* The tensor `name`, which must have this type and shape; otherwise YK_EDATA with file and difference. */
yk_status yk_safetensors_need(const yk_safetensors *s, const char *name, yk_dtype dtype, size_t rank,
                              const uint64_t *shape, const yk_tensor **out);

typedef struct {
    const char *name; /* "F32" */
    size_t bytes;
} yk_dtype_info;
extern const yk_dtype_info yk_dtypes[]; /* by yk_dtype */

#endif
