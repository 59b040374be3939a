/* JPEG row by row, through libjpeg-turbo: the one file that knows it. For image.c, which sees to sizes.
 *
 *     yk_jpeg *j = yk_jpeg_create();                               // NULL: out of memory
 *     st = yk_jpeg_open(j, bytes, n, &shape);                      // reads the header; bytes are borrowed
 *     st = yk_jpeg_decode(j, 2, false, &sink);                     // at a half of its size
 *     yk_jpeg_free(j);
 *
 * libjpeg reports errors by a jump out of its depths: it never leaves these functions. What libjpeg only warns of
 * (missing data, broken codes) is an error here as well; what hurts no pixel (stray bytes between markers, an odd
 * version number) is not. One thread at a time.
 */
#ifndef YK_FORMAT_JPEG_H
#define YK_FORMAT_JPEG_H

#include "base/status.h"
#include "format/picture.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk_jpeg yk_jpeg;

yk_jpeg *yk_jpeg_create(void);
void yk_jpeg_free(yk_jpeg *j); /* NULL is fine */

yk_status yk_jpeg_open(yk_jpeg *j, const uint8_t *p, size_t n, yk_picture *out);

/* After open, once. shrink: 1, 2, 4 or 8; grey: one channel is enough. */
yk_status yk_jpeg_decode(yk_jpeg *j, unsigned shrink, bool grey, const yk_picture_sink *sink);

size_t yk_jpeg_offset(const yk_jpeg *j); /* bytes read so far */

#endif
