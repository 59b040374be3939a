/* Decompression of Parquet pages: Snappy, gzip and Zstandard; see parquet.h. */
#include "format/parquet_internal.h"
#include "format/wire.h"
#include <libdeflate.h>
#include <string.h>
#include <zstd.h>

/* ---- Snappy: the length of the data as a varint, then elements
 *
 *     | n - 1 : 6, 0 : 2 | n bytes                              literal; n - 1 of 60 to 63: it is in the next 1 to 4 bytes
 *     | offset >> 8 : 3, n - 4 : 3, 1 : 2 | offset |            copy n bytes from `offset` bytes before
 *     | n - 1 : 6, 2 : 2 | offset: 2 bytes |
 *     | n - 1 : 6, 3 : 2 | offset: 4 bytes |
 */

/* The header of an element; false: it is malformed. *offset_out is 0 for a literal. */
static inline bool snappy_element(const uint8_t **p, const uint8_t *end, size_t *n_out, size_t *offset_out)
{
    const uint8_t tag = *(*p)++;
    const size_t left = (size_t)(end - *p), kind = tag & 3;
    const size_t extra = kind == 0 ? (tag >> 2 < 60 ? 0 : (size_t)(tag >> 2) - 59) : kind == 3 ? 4 : kind;
    if (extra > left)
        return false;
    uint64_t more = 0;
    for (size_t i = 0; i < extra; i++)
        more |= (uint64_t)(*p)[i] << 8 * i;
    *p += extra;
    *n_out = kind == 1            ? 4 + (size_t)(tag >> 2 & 7)
             : kind == 0 && extra ? (size_t)more + 1
                                  : (size_t)(tag >> 2) + 1;
    *offset_out = kind == 0 ? 0 : kind == 1 ? (size_t)(tag >> 5) << 8 | (size_t)more : (size_t)more;
    return kind == 0 || more || (kind == 1 && tag >> 5);
}

/* Copies n bytes that may overlap: the pattern before `to` repeats. */
static inline void copy_back(uint8_t *to, size_t offset, size_t n, size_t space)
{
    const uint8_t *const from = to - offset;
    if (offset >= 16 && space >= n + 16) {
        for (size_t i = 0; i < n; i += 16)
            memcpy(to + i, from + i, 16);
    } else if (offset >= n) {
        memcpy(to, from, n);
    } else {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

static bool snappy(const uint8_t *p, size_t size, uint8_t *to, size_t space)
{
    const uint8_t *const end = p + size, *const first = to;
    uint64_t length;
    if (!(p = yk__wire_varint(p, end, &length)) || length != space)
        return false;
    while (p < end) {
        size_t n, offset;
        if (!snappy_element(&p, end, &n, &offset) || n > space || offset > (size_t)(to - first))
            return false;
        if (offset) {
            copy_back(to, offset, n, space);
        } else {
            if (n > (size_t)(end - p))
                return false;
            if (n <= 16 && end - p >= 16 && space >= 16)
                memcpy(to, p, 16);
            else
                memcpy(to, p, n);
            p += n;
        }
        to += n;
        space -= n;
    }
    return space == 0;
}

/* ---- all codecs */

/* Members of gzip one after the other, or zlib. */
static bool inflate_all(struct libdeflate_decompressor *d, const uint8_t *from, size_t n, uint8_t *to,
                        size_t size)
{
    size_t used, got;
    if (n >= 2 && from[0] != 0x1f)
        return libdeflate_zlib_decompress(d, from, n, to, size, NULL) == LIBDEFLATE_SUCCESS;
    for (; n; from += used, n -= used, to += got, size -= got)
        if (libdeflate_gzip_decompress_ex(d, from, n, to, size, &used, &got) != LIBDEFLATE_SUCCESS)
            return false;
    return size == 0;
}

bool yk__pq_can_expand(int codec, size_t n, size_t size)
{
    /* Snappy makes 64 bytes of 3, deflate 258 of 2 bits, Zstandard a block of 128 KiB of 4 bytes. */
    const size_t most = codec == YK__PQ_RAW      ? 1
                        : codec == YK__PQ_SNAPPY ? 22
                        : codec == YK__PQ_GZIP   ? 1032
                                                 : 32768;
    return size / most <= n;
}

yk_status yk__pq_decompress(yk__pq_codecs *c, int codec, const uint8_t *from, size_t n, uint8_t *to,
                            size_t size)
{
    bool ok = true;
    if (codec == YK__PQ_RAW || !size) {
        memcpy(to, from, size);
    } else if (codec == YK__PQ_SNAPPY) {
        ok = snappy(from, n, to, size);
    } else if (codec == YK__PQ_GZIP) {
        if (!c->deflate && !(c->deflate = libdeflate_alloc_decompressor()))
            return yk_fail_memory(32 << 10, "a decompressor");
        ok = inflate_all(c->deflate, from, n, to, size);
    } else {
        if (!c->zstd && !(c->zstd = ZSTD_createDCtx()))
            return yk_fail_memory(160 << 10, "a decompressor");
        ok = ZSTD_decompressDCtx(c->zstd, to, size, from, n) == size;
    }
    return ok ? YK_OK : yk_fail(YK_EDATA, "the compressed data is damaged (%s)", yk__pq_codec_name(codec));
}

void yk__pq_codecs_fini(yk__pq_codecs *c)
{
    libdeflate_free_decompressor(c->deflate);
    ZSTD_freeDCtx(c->zstd);
}
