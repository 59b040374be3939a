/* The decoders behind image.h: JPEG with libjpeg-turbo (image_jpeg.c) and PNG with libpng (image_png.c). Each decodes row by row and passes
 * the shape, then the rows from top to bottom, to image.c, which scales them.
 *
 * Example:
 *     yk_png png = {0};
 *     yk_image_form shape;                           // fit is EXACT
 *     st = yk_png_open(&png, bytes, n, &shape);      // reads the header; bytes are borrowed
 *     st = yk_png_decode(&png, decoder);             // after open, once
 *     yk_png_close(&png);                            // after every open, even if it failed
 *     free(png.rows);
 *
 * Both libraries report errors with longjmp(), which never leaves these functions and never crosses a function of image.c.
 * libjpeg's warnings about pixels (missing data, invalid codes) are errors here; other warnings of libjpeg (extra bytes
 * between markers, an unknown version number) and all warnings of libpng are ignored. Every kind of PNG becomes 8-bit gray or
 * RGB: palettes are applied, alpha is dropped. One thread at a time.
 */
#ifndef YK_FORMAT_IMAGE_INTERNAL_H
#define YK_FORMAT_IMAGE_INTERNAL_H

#include "format/image.h"
#include <setjmp.h>

/* In image.c, called by the decoders: the shape, once, and then each row. An error of the first ends the decoding. A gray row is
 * [width]; a color row is [width][4], R G B and an unused byte, for vector code. */
yk_status yk__image_begin(yk_image_decoder *d, const yk_image_form *shape);
void yk__image_row(yk_image_decoder *d, const uint8_t *row);

typedef struct yk_jpeg yk_jpeg;

yk_jpeg *yk_jpeg_create(void);
void yk_jpeg_free(yk_jpeg *j); /* NULL is fine */

yk_status yk_jpeg_open(yk_jpeg *j, const uint8_t *p, size_t n, yk_image_form *out);

/* After open, once. shrink: 1, 2, 4 or 8; gray: one channel is enough. */
yk_status yk_jpeg_decode(yk_jpeg *j, unsigned shrink, bool gray, yk_image_decoder *d);

size_t yk_jpeg_offset(const yk_jpeg *j); /* bytes read so far */

typedef struct {
    void *read, *info; /* libpng's */
    const uint8_t *bytes;
    size_t size, offset;
    jmp_buf out;
    char text[200];
    uint8_t *rows; /* one, or all of an interlaced image; reused for the next image, freed by the caller */
    size_t rows_cap;
} yk_png;

yk_status yk_png_open(yk_png *png, const uint8_t *p, size_t n, yk_image_form *out);
yk_status yk_png_decode(yk_png *png, yk_image_decoder *d);
void yk_png_close(yk_png *png);

#endif
