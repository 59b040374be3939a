#include "format/idx.h"

#include "base/mem.h"
#include "format/input.h"
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFLATE_MOST 1032 /* no byte of deflate makes more bytes than this */

bool yk_idx_magic(const uint8_t *p, size_t n)
{
    return n >= 4 && p[0] == 0 && p[1] == 0 && p[2] >= 0x08 && p[2] <= 0x0e && p[2] != 0x0a && p[3] >= 1 &&
           p[3] <= 8;
}

static size_t load_be32(const uint8_t *p)
{
    return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

/* Private and writable: floats are turned in place, in copies of the pages that the kernel makes. */
static yk_status map_file(const char *path, int fd, size_t size, uint8_t **out)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return yk_fail(YK_ESYSTEM, "%s: cannot be mapped: %s", path, strerror(errno));
    *out = p;
    return YK_OK;
}

/* The fast decompressor does not say where it met the damage; the slow one does, and this is the end anyway. */
static yk_status explain_damage(const char *path)
{
    yk_input *in;
    yk_status st = yk_input_open(path, 0, &in);
    if (st)
        return st;
    const uint8_t *p;
    size_t have;
    while (!(st = yk_input_peek(in, 1, &p, &have)) && have)
        yk_input_skip(in, have);
    yk_input_free(in);
    return st ? st : yk_fail(YK_EDATA, "%s: the gzip file is damaged", path);
}

/* All members of the gzip file one behind the other. Its last four bytes are the size of the last member, mostly the
 * only one; where that is not enough, room is doubled. */
static yk_status inflate_members(struct libdeflate_decompressor *d, const char *path, const uint8_t *in,
                                 size_t n, uint8_t **out, size_t *size_out)
{
    size_t most = n > SIZE_MAX / 4 / DEFLATE_MOST ? SIZE_MAX / 4 : n * DEFLATE_MOST;
    uint32_t last;
    memcpy(&last, in + n - 4, sizeof last);
    size_t room = last < most ? last : most, made = 0, at = 0;
    uint8_t *to = yk_alloc(room + 1, 1, "an idx file");
    if (!to)
        return YK_ESYSTEM;
    while (at < n) {
        size_t used, got;
        if (at && in[at] == 0) { /* padding */
            at++;
            continue;
        }
        enum libdeflate_result r =
            libdeflate_gzip_decompress_ex(d, in + at, n - at, to + made, room - made, &used, &got);
        if (r == LIBDEFLATE_INSUFFICIENT_SPACE && room < most) {
            size_t more = room < most / 2 ? 2 * room + 4096 : most;
            uint8_t *grown = yk_alloc(more + 1, 1, "an idx file");
            if (!grown) {
                yk_free(to);
                return YK_ESYSTEM;
            }
            memcpy(grown, to, made);
            yk_free(to);
            to = grown;
            room = more;
            continue;
        }
        if (r != LIBDEFLATE_SUCCESS) {
            yk_free(to);
            return explain_damage(path);
        }
        at += used;
        made += got;
    }
    *out = to;
    *size_out = made;
    return YK_OK;
}

static yk_status inflate_file(const char *path, const uint8_t *in, size_t n, uint8_t **out, size_t *size_out)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    if (!d)
        return yk_fail_memory(0, "a decompressor");
    yk_status st = n < 18 ? explain_damage(path) : inflate_members(d, path, in, n, out, size_out);
    libdeflate_free_decompressor(d);
    return st;
}

static yk_status bad(const char *path, size_t offset, const char *reason)
{
    return yk_fail(YK_EDATA, "%s: at byte %zu: %s", path, offset, reason);
}

static yk_status parse(const char *path, uint8_t *p, size_t n, yk_idx *out)
{
    if (n == 0)
        return yk_fail(YK_EDATA, "%s: is empty", path);
    if (n < 4 || !yk_idx_magic(p, n))
        return bad(path, 0, "wrong magic number: this is not an idx file");
    out->type = p[2];
    out->ndims = p[3];
    if (out->type != YK_IDX_U8 && out->type != YK_IDX_F32)
        return yk_fail(YK_EDATA,
                       "%s: at byte 2: elements of type %02x; only bytes (08) and floats (0d) are read", path,
                       out->type);
    if (out->ndims > 4)
        return yk_fail(YK_EDATA, "%s: at byte 3: %u dimensions are more than 4", path, out->ndims);
    out->header = 4 + 4 * (size_t)out->ndims;
    if (n < out->header)
        return bad(path, n, "truncated: the file ends inside of its header");
    out->stride = 1;
    bool too_large = false;
    for (unsigned i = 0; i < out->ndims; i++) {
        out->dim[i] = load_be32(p + 4 + 4 * i);
        if (i)
            too_large |= __builtin_mul_overflow(out->stride, out->dim[i], &out->stride);
    }
    size_t bytes, element = out->type == YK_IDX_U8 ? 1 : sizeof(float);
    too_large |= __builtin_mul_overflow(out->dim[0], out->stride, &bytes);
    too_large |= __builtin_mul_overflow(bytes, element, &bytes);
    if (too_large)
        return bad(path, 4, "the dimensions are larger than any file");
    if (bytes > n - out->header)
        return yk_fail(YK_EDATA,
                       "%s: at byte %zu: truncated: the header promises %zu bytes of elements, %zu are there",
                       path, n, bytes, n - out->header);
    if (bytes < n - out->header)
        return yk_fail(YK_EDATA, "%s: at byte %zu: %zu bytes more than the header says", path,
                       out->header + bytes, n - out->header - bytes);
    if (out->type == YK_IDX_U8)
        out->u8 = p + out->header;
    else
        out->f32 = (float *)(void *)(p + out->header); /* 4-aligned, as the header's length is */
    return YK_OK;
}

static void turn_floats(yk_idx *idx)
{
    for (size_t i = 0; i < idx->dim[0] * idx->stride; i++) {
        uint32_t v;
        memcpy(&v, idx->f32 + i, sizeof v);
        v = __builtin_bswap32(v);
        memcpy(idx->f32 + i, &v, sizeof v);
    }
}

yk_status yk_idx_load(const char *path, yk_idx *out)
{
    *out = (yk_idx){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat s;
    if (fd < 0 || fstat(fd, &s)) {
        yk_status st = yk_fail(YK_EDATA, "%s: cannot be read: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    uint8_t *p = NULL;
    size_t n = (size_t)s.st_size;
    yk_status st = YK_OK;
    if (!S_ISREG(s.st_mode))
        st = yk_fail(YK_EDATA, "%s: is %s", path, S_ISDIR(s.st_mode) ? "a directory" : "not a regular file");
    else if (n == 0)
        st = yk_fail(YK_EDATA, "%s: is empty", path);
    else
        st = map_file(path, fd, n, &p);
    close(fd);
    if (st)
        return st;
    if (n >= 2 && p[0] == 0x1f && p[1] == 0x8b) {
        uint8_t *whole = NULL;
        size_t size = 0;
        st = inflate_file(path, p, n, &whole, &size);
        munmap(p, n);
        p = whole;
        n = size;
    } else {
        out->mapped = n;
    }
    out->memory = p;
    if (!st)
        st = parse(path, p, n, out);
    if (st) {
        yk_idx_fini(out);
        return st;
    }
    if (out->f32)
        turn_floats(out);
    return YK_OK;
}

void yk_idx_fini(yk_idx *idx)
{
    if (idx->mapped)
        munmap(idx->memory, idx->mapped);
    else
        yk_free(idx->memory);
    *idx = (yk_idx){0};
}
