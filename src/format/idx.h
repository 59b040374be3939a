/* idx files: one array of bytes or floats, the format of MNIST; plain or gzip.
 *
 *     0    2      3       4                     4 + 4 * ndims
 *     | 00 | type | ndims | dim[0] ... u32 BE   | elements, row by row        type: 08 u8, 0d f32 (big endian)
 *
 * Example:
 *     yk_idx images;
 *     st = yk_idx_load("train-images-idx3-ubyte.gz", &images);
 *     uint8_t pixel = images.u8[7 * images.stride + 300];     // images.dim[0] rows; f32 if type is YK_IDX_F32
 *     yk_idx_fini(&images);
 *
 * A plain file is mapped. Floats are converted to the byte order of the host. Errors are YK_EDATA with path, offset and
 * reason. One thread loads the array; any thread may then read or write it, and the file does not change.
 */
#ifndef YK_FORMAT_IDX_H
#define YK_FORMAT_IDX_H

#include "base/status.h"

enum { YK_IDX_U8 = 0x08, YK_IDX_F32 = 0x0d };

typedef struct {
    unsigned type;
    unsigned ndims; /* 1 .. 4 */
    size_t dim[4];
    size_t stride; /* elements of a row: dim[1] * dim[2] * ... */
    uint8_t *u8;   /* [dim[0]][stride] or NULL */
    float *f32;    /* the same, or NULL */
    size_t header; /* bytes before the elements */
    void *memory;  /* owned: the whole file */
    size_t mapped; /* its length if it is a mapping, else 0 */
} yk_idx;

yk_status yk_idx_load(const char *path, yk_idx *out);
void yk_idx_fini(yk_idx *idx);

/* Whether a file with these first bytes may be an idx file. */
bool yk_idx_magic(const uint8_t *p, size_t n);

#endif
