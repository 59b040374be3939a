#include "format/decoder.h"

#include <string.h>
#include <zstd.h>

enum { PROBE = 4 << 10 };

/* A TFRecord of 376 bytes starts like zlib (78 01), so the first bytes must also inflate. */
static bool inflates(const uint8_t *p, size_t n)
{
    uint8_t sink[1024];
    const char *why;
    size_t got;
    yk__decoder d;
    yk_status st = yk__decoder_init(&d, YK__ZLIB);
    for (d.next = p, d.left = n; !st && d.left && !d.between;)
        st = yk__decoder_run(&d, sink, sizeof sink, &got, &why);
    yk__decoder_fini(&d);
    return !st;
}

static bool begins(const uint8_t *p, size_t n, const char *magic, size_t length)
{
    return n >= length && !memcmp(p, magic, length);
}

yk__coding yk__coding_of(const uint8_t *p, size_t n)
{
    if (n >= 4 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8 && !(p[3] & 0xe0))
        return YK__GZIP;
    if (begins(p, n, "\x28\xb5\x2f\xfd", 4) ||
        (n >= 4 && (p[0] & 0xf0) == 0x50 && !memcmp(p + 1, "\x2a\x4d\x18", 3))) /* a skippable frame */
        return YK__ZSTD;
    if (begins(p, n, "\3757zXZ\0", 6))
        return YK__XZ;
    if (n >= 10 && begins(p, n, "BZh", 3) && !memcmp(p + 4, "1AY&SY", 6))
        return YK__BZIP2;
    const bool zlib = n >= 2 && (p[0] & 15) == Z_DEFLATED && (p[0] >> 4) <= 7 &&
                      (p[0] << 8 | p[1]) % 31 == 0 && !(p[1] & 0x20);
    return zlib && inflates(p, n < PROBE ? n : PROBE) ? YK__ZLIB : YK__PLAIN;
}

const char *yk__coding_other(yk__coding coding)
{
    return coding == YK__XZ ? "xzcat" : coding == YK__BZIP2 ? "bzcat" : NULL;
}

yk_status yk__decoder_init(yk__decoder *d, yk__coding coding)
{
    *d = (yk__decoder){.coding = coding};
    if (coding == YK__PLAIN)
        return YK_OK;
    const bool ok = coding == YK__ZSTD ? (d->zstd = ZSTD_createDCtx()) != NULL
                                       : inflateInit2(&d->z, coding == YK__GZIP ? 15 + 16 : 15) == Z_OK;
    return ok ? YK_OK : yk_fail_memory(PROBE, "a decompressor");
}

void yk__decoder_fini(yk__decoder *d)
{
    if (d->coding == YK__GZIP || d->coding == YK__ZLIB)
        inflateEnd(&d->z);
    ZSTD_freeDCtx(d->zstd);
}

static yk_status run_zstd(yk__decoder *d, uint8_t *out, size_t space, size_t *got_out, const char **why_out)
{
    ZSTD_inBuffer in = {d->next, d->left, 0};
    ZSTD_outBuffer to = {out, space, 0};
    const size_t rc = ZSTD_decompressStream(d->zstd, &to, &in);
    d->next += in.pos;
    d->left -= in.pos;
    d->between = rc == 0;
    d->pending = rc != 0 && to.pos == to.size;
    *got_out = to.pos;
    *why_out = ZSTD_isError(rc) ? ZSTD_getErrorName(rc) : NULL;
    return *why_out ? YK_EDATA : YK_OK;
}

/* Between members: skips padding and begins the next member, if there are bytes left. */
static yk_status next_member(yk__decoder *d, const char **why_out)
{
    for (; d->left && !d->zstd && !*d->next; d->left--) /* gzip files may be padded with zeros */
        d->next++;
    if (!d->left)
        return YK_OK;
    d->between = false;
    if (d->zstd) /* it begins the next frame, and checks it */
        return YK_OK;
    *why_out = d->coding != YK__GZIP || *d->next != 0x1f ? "uncompressed bytes after the compressed stream"
               : inflateReset(&d->z) != Z_OK             ? "cannot reset the decompressor"
                                                         : NULL;
    return *why_out ? YK_EDATA : YK_OK;
}

yk_status yk__decoder_run(yk__decoder *d, uint8_t *out, size_t space, size_t *got_out, const char **why_out)
{
    enum { MAX = 1 << 30 }; /* zlib counts in 32 bits */
    *got_out = 0;
    yk_status st = d->between ? next_member(d, why_out) : YK_OK;
    if (st || d->between)
        return st;
    if (d->zstd)
        return run_zstd(d, out, space, got_out, why_out);
    space = space < MAX ? space : MAX;
    const size_t part = d->left < MAX ? d->left : MAX;
    d->z.next_in = (uint8_t *)d->next;
    d->z.avail_in = (uInt)part;
    d->z.next_out = out;
    d->z.avail_out = (uInt)space;
    const int rc = inflate(&d->z, Z_NO_FLUSH);
    d->next = d->z.next_in;
    d->left -= part - d->z.avail_in;
    *got_out = space - d->z.avail_out;
    d->between = rc == Z_STREAM_END;
    if (rc == Z_OK || rc == Z_BUF_ERROR || rc == Z_STREAM_END)
        return YK_OK;
    *why_out = rc == Z_MEM_ERROR ? "out of memory while inflating"
               : d->z.msg        ? d->z.msg
                                 : "the compressed data is damaged";
    return rc == Z_MEM_ERROR ? YK_ESYSTEM : YK_EDATA;
}
