/* PNG row by row, through libpng: the one file that knows it. For image.c, which sees to sizes.
 *
 *     yk_png png = {0};
 *     st = yk_png_open(&png, bytes, n, &shape);      // reads the header; bytes are borrowed
 *     st = yk_png_decode(&png, &sink);               // after open, once
 *     yk_png_close(&png);                            // after every open, also one that failed
 *     free(png.whole);                               // the buffer for interlaced pictures, kept from one to the next
 *
 * All kinds of PNG arrive as 8-bit grey or RGB: palettes are looked up, alpha is dropped. libpng reports errors by a
 * jump: it never leaves these functions. What it only warns of (a wrong CRC of a chunk that holds no pixels) passes.
 */
#ifndef YK_FORMAT_PNG_H
#define YK_FORMAT_PNG_H

#include "base/status.h"
#include "format/picture.h"
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *read, *info; /* libpng's */
    const uint8_t *bytes;
    size_t size, offset;
    jmp_buf out;
    char text[200];
    uint8_t *whole; /* rows: one, or all of an interlaced picture */
    size_t whole_cap;
} yk_png;

yk_status yk_png_open(yk_png *png, const uint8_t *p, size_t n, yk_picture *out);
yk_status yk_png_decode(yk_png *png, const yk_picture_sink *sink);
void yk_png_close(yk_png *png);

#endif
