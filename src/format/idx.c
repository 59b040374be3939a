#include "format/idx.h"

#include "base/mem.h"
#include "format/input.h"
#include <errno.h>
#include <libdeflate.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_DEFLATE 1032 /* the largest compression ratio of deflate */

bool yk_idx_magic(const uint8_t *p, size_t n)
{
    return n >= 4 && p[0] == 0 && p[1] == 0 && p[2] >= 0x08 && p[2] <= 0x0e && p[2] != 0x0a && p[3] >= 1 &&
           p[3] <= 8;
}

/* With libdeflate, which is several times as fast as zlib. It needs to know the size, which is in the last four bytes of a gzip
 * file with one member. NULL: not such a file, or damaged. */
static uint8_t *inflate_fast(const uint8_t *in, size_t n, size_t *size_out)
{
    uint32_t size;
    memcpy(&size, in + n - sizeof size, sizeof size);
    if (n < 18 || size / MAX_DEFLATE > n)
        return NULL;
    size_t used;
    uint8_t *to = yk_alloc((size_t)size + 1, 1, "an idx file");
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    const bool ok =
        to && d && libdeflate_gzip_decompress_ex(d, in, n, to, size, &used, size_out) == LIBDEFLATE_SUCCESS &&
        used == n;
    libdeflate_free_decompressor(d);
    if (ok)
        return to;
    yk_free(to);
    return NULL;
}

/* The magic is checked before the whole file is decompressed, which takes up to a thousand times its size. yk_input reads any gzip
 * file, and reports where it is damaged. */
static yk_status inflate_file(const char *path, const uint8_t *file, size_t n, uint8_t **out,
                              size_t *size_out)
{
    yk_input *in;
    const uint8_t *p;
    size_t have;
    yk_status st = yk_input_open(path, 0, &in);
    if (st)
        return st;
    st = yk_input_peek(in, 4, &p, &have);
    if (!st && have && !yk_idx_magic(p, have))
        st = yk_fail_at(path, 0, "wrong magic number: not an idx file");
    if (!st && !(*out = inflate_fast(file, n, size_out)) &&
        !(st = yk_input_peek(in, SIZE_MAX, &p, size_out))) {
        if ((*out = yk_alloc(*size_out + 1, 1, "an idx file")))
            memcpy(*out, p, *size_out);
        else
            st = YK_ESYSTEM;
    }
    yk_input_free(in);
    return st;
}

static yk_status parse(const char *path, uint8_t *p, size_t n, yk_idx *out)
{
    if (n == 0)
        return yk_fail(YK_EDATA, "%s: is empty", path); /* once decompressed */
    if (!yk_idx_magic(p, n))
        return yk_fail_at(path, 0, "wrong magic number: not an idx file");
    out->type = p[2];
    out->ndims = p[3];
    if (out->type != YK_IDX_U8 && out->type != YK_IDX_F32)
        return yk_fail_at(
            path, 2, "unsupported element type %02x; only bytes (08) and floats (0d) can be read", out->type);
    if (out->ndims > 4)
        return yk_fail_at(path, 3, "%u dimensions, but at most 4 are supported", out->ndims);
    out->header = 4 + 4 * (size_t)out->ndims;
    if (n < out->header)
        return yk_fail_at(path, n, "truncated: the file ends within its header");
    out->stride = 1;
    bool too_large = false;
    for (unsigned i = 0; i < out->ndims; i++) {
        uint32_t side;
        memcpy(&side, p + 4 + 4 * i, sizeof side);
        out->dim[i] = __builtin_bswap32(side);
        if (i)
            too_large |= __builtin_mul_overflow(out->stride, out->dim[i], &out->stride);
    }
    size_t bytes, element = out->type == YK_IDX_U8 ? 1 : sizeof(float);
    too_large |= __builtin_mul_overflow(out->dim[0], out->stride, &bytes);
    too_large |= __builtin_mul_overflow(bytes, element, &bytes);
    if (too_large)
        return yk_fail_at(path, 4, "the dimensions are too large for a file");
    if (bytes > n - out->header)
        return yk_fail_at(path, n, "truncated: %zu bytes of elements expected, but only %zu found", bytes,
                          n - out->header);
    if (bytes < n - out->header)
        return yk_fail_at(path, out->header + bytes, "%zu byte%s more than the header says",
                          n - out->header - bytes, yk_plural(n - out->header - bytes));
    if (out->type == YK_IDX_U8)
        out->u8 = p + out->header;
    else
        out->f32 = (float *)(void *)(p + out->header); /* 4-aligned, as the header's length is */
    return YK_OK;
}

yk_status yk_idx_load(const char *path, yk_idx *out)
{
    *out = (yk_idx){0};
    void *map = NULL;
    size_t n = 0;
    yk_status st = yk_map_file(path, &map, &n);
    if (st)
        return st;
    uint8_t *p = map;
    if (n >= 4 && p[0] == 0x1f && p[1] == 0x8b) {
        size_t size = 0;
        st = inflate_file(path, map, n, &p, &size);
        munmap(map, n);
        out->memory = st ? NULL : p;
        n = size;
    } else {
        out->memory = map;
        out->mapped = n;
        /* Floats are swapped in place: the kernel copies the pages, the file does not change. */
        if (mprotect(map, n, PROT_READ | PROT_WRITE))
            st = yk_fail(YK_ESYSTEM, "%s: cannot map %zu bytes: %s", path, n, strerror(errno));
    }
    if (!st)
        st = parse(path, p, n, out);
    if (st)
        yk_idx_fini(out);
    for (size_t i = 0; !st && out->f32 && i < out->dim[0] * out->stride; i++) {
        uint32_t v;
        memcpy(&v, out->f32 + i, sizeof v);
        v = __builtin_bswap32(v);
        memcpy(out->f32 + i, &v, sizeof v);
    }
    return st;
}

void yk_idx_fini(yk_idx *idx)
{
    if (idx->mapped)
        munmap(idx->memory, idx->mapped);
    else
        yk_free(idx->memory);
    *idx = (yk_idx){0};
}
