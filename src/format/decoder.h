/* Internal to format/: decompresses the bytes of a file (input.h): gzip, zlib and Zstandard. bzip2 and xz are only detected.
 *
 * Example:
 *     yk__decoder d;
 *     yk_status st = yk__decoder_init(&d, yk__coding_of(first, n));
 *     d.next = first;                                                  // borrowed
 *     d.left = n;
 *     st = yk__decoder_run(&d, out, sizeof out, &got, &why);           // why: if st is not YK_OK
 *     yk__decoder_fini(&d);
 *
 * A file may have several members (frames), one after the other. One thread at a time.
 */
#ifndef YK_FORMAT_DECODER_H
#define YK_FORMAT_DECODER_H

#include "base/status.h"
#include <zlib.h>

typedef enum { YK__PLAIN, YK__GZIP, YK__ZLIB, YK__ZSTD, YK__BZIP2, YK__XZ } yk__coding;

typedef struct {
    yk__coding coding;
    const uint8_t *next; /* compressed bytes that have not been used yet; borrowed */
    size_t left;
    bool between; /* at the end of a member */
    bool pending; /* there may be more output without more input */
    z_stream z;
    struct ZSTD_DCtx_s *zstd; /* NULL: another coding */
} yk__decoder;

/* Detects the coding from the first bytes of a file: a few thousand, if it has that many. */
yk__coding yk__coding_of(const uint8_t *p, size_t n);

/* For codings that yoke cannot read: the program that decompresses them to a pipe, such as "xzcat"; NULL: yoke reads it. */
const char *yk__coding_other(yk__coding coding);

yk_status yk__decoder_init(yk__decoder *d, yk__coding coding);
void yk__decoder_fini(yk__decoder *d);

/* Decompresses some of d->left bytes (not 0 unless d->pending) into at most `space` bytes; between members it skips
 * padding and begins the next one. YK_EDATA, YK_ESYSTEM: *why_out is the
 * reason. */
yk_status yk__decoder_run(yk__decoder *d, uint8_t *out, size_t space, size_t *got_out, const char **why_out);

#endif
