/* safetensors: named arrays in one file, the form that Python, Rust and others read without running code.
 *
 *     | N: u64 LE | N bytes of JSON, padded with spaces | data of tensor 0 | data of tensor 1 | ...
 *                                                       ^ a multiple of 64 bytes into the file (ours)
 *     {"__metadata__":{"step":"1200"},
 *      "weight":{"dtype":"F32","shape":[10,784],"data_offsets":[0,31360]}, ...}     offsets count from the data
 *
 * Writing (the whole file appears at once, or not at all):
 *
 *     yk_tensor t[] = {{.name = "weight", .dtype = YK_DTYPE_F32, .rank = 2, .shape = {10, 784}, .data = w}};
 *     yk_pair meta[] = {{"step", "1200"}};
 *     st = yk_safetensors_write("run", "model.safetensors", t, 1, meta, 1);
 *
 * Reading (by mmap: nothing is copied, nothing is loaded before it is touched):
 *
 *     yk_safetensors *s;
 *     st = yk_safetensors_open("model.safetensors", &s);
 *     const yk_tensor *t = yk_safetensors_find(s, "weight");   // borrowed from s; NULL: no such tensor
 *     memcpy(w, t->data, t->bytes);
 *     yk_safetensors_free(s);
 *
 * Our files keep every tensor aligned to its element's size, larger elements first; those of others may not, so
 * copy out of t->data unless yk_tensor_aligned(t). A file that breaks a rule of the format is YK_EDATA with its path
 * and the reason. Readers may be shared between threads once open.
 */
#ifndef YK_FORMAT_SAFETENSORS_H
#define YK_FORMAT_SAFETENSORS_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    const void *data; /* borrowed; or NULL, and then: */

    /* Writing only: puts `bytes` bytes of the tensor, from byte `offset` on, into `to`. Called in order. */
    yk_status (*fill)(void *user, uint64_t offset, void *to, size_t bytes);
    void *user;

    uint64_t bytes; /* set by the reader; the writer computes it from the shape */
} yk_tensor;

typedef struct {
    const char *key, *value;
} yk_pair;

typedef struct yk_safetensors yk_safetensors;

/* Names are UTF-8, each once, not "__metadata__"; breaking that is our own mistake and YK_EUSAGE. */
yk_status yk_safetensors_write(const char *dir, const char *name, const yk_tensor *tensor, size_t n,
                               const yk_pair *meta, size_t nmeta);

yk_status yk_safetensors_open(const char *path, yk_safetensors **out);
void yk_safetensors_free(yk_safetensors *s); /* NULL is fine */

size_t yk_safetensors_count(const yk_safetensors *s);
const yk_tensor *yk_safetensors_at(const yk_safetensors *s, size_t i); /* in the order of the data */
const yk_tensor *yk_safetensors_find(const yk_safetensors *s, const char *name);
const char *yk_safetensors_meta(const yk_safetensors *s, const char *key); /* NULL: no such key */

/* The tensor called `name` with exactly that type and shape; anything else is YK_EDATA, naming file and difference. */
yk_status yk_safetensors_need(const yk_safetensors *s, const char *name, yk_dtype dtype, size_t rank,
                              const uint64_t *shape, const yk_tensor **out);

const char *yk_dtype_name(yk_dtype dtype); /* "F32" */
size_t yk_dtype_bytes(yk_dtype dtype);
bool yk_tensor_aligned(const yk_tensor *t);

#endif
