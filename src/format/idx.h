/* idx files: one array of bytes or floats, the format of MNIST; plain or gzip.
 *
 *     0    2      3       4                     4 + 4 * ndims
 *     | 00 | type | ndims | dim[0] ... u32 BE   | elements, row by row        type: 08 u8, 0d f32 (big endian)
 *
 *     yk_idx images;
 *     st = yk_idx_load(path, &images);          // header checked against the size; a plain file is mapped
 *     images.u8[r * images.stride + c]          // images.dim[0] rows; .f32 where .type is YK_IDX_F32
 *     yk_idx_fini(&images);
 *
 * Floats come in the byte order of the machine. What is wrong with a file is YK_EDATA with path, offset and reason.
 * Loaded by one thread, then read (or written, the file does not change) by any.
 */
#ifndef YK_FORMAT_IDX_H
#define YK_FORMAT_IDX_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_IDX_U8 = 0x08, YK_IDX_F32 = 0x0d };

typedef struct {
    unsigned type;
    unsigned ndims; /* 1 .. 4 */
    size_t dim[4];
    size_t stride; /* elements of a row: dim[1] * dim[2] * ... */
    uint8_t *u8;   /* [dim[0]][stride] or NULL */
    float *f32;    /* the other */
    size_t header; /* bytes before the elements */
    void *memory;  /* owned: the whole file */
    size_t mapped; /* its length where it is a mapping, else 0 */
} yk_idx;

yk_status yk_idx_load(const char *path, yk_idx *out);
void yk_idx_fini(yk_idx *idx);

/* Whether a file with these first bytes may be an idx file. */
bool yk_idx_magic(const uint8_t *p, size_t n);

#endif
