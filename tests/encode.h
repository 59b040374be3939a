/* Encoded images for the tests of decoders and sources: an image given by a formula, as JPEG and PNG of every kind.
 *
 *     size_t n = encode_jpeg(40, 30, &(jpeg_kind){.components = 3, .quality = 95}, bytes, sizeof bytes);
 *     size_t m = encode_png(40, 30, &(png_kind){.color = PNG_COLOR_TYPE_RGB, .depth = 8}, bytes, sizeof bytes);
 */
#ifndef YK_TESTS_ENCODE_H
#define YK_TESTS_ENCODE_H

#include "scratch.h"

#include <stdbool.h>

#include <jpeglib.h>
#include <png.h>

/* The value of channel c at (x, y) of an image of w x h pixels: smooth, and different in all directions. */
static inline uint8_t pixel_at(size_t x, size_t y, size_t c, size_t w, size_t h)
{
    double u = ((double)x + 0.5) / (double)w, v = ((double)y + 0.5) / (double)h;
    double value = c == 0 ? u : c == 1 ? v * v : 0.25 + 0.5 * u * v;
    return (uint8_t)(20.0 + 210.0 * value);
}

typedef struct {
    int components; /* 1, 3, or 4 for CMYK as Adobe stores it */
    int quality;
    bool progressive;
} jpeg_kind;

static inline size_t encode_jpeg(size_t w, size_t h, const jpeg_kind *kind, uint8_t *out, size_t room)
{
    struct jpeg_compress_struct z;
    struct jpeg_error_mgr errors;
    unsigned char *made = NULL;
    unsigned long size = 0;
    z.err = jpeg_std_error(&errors);
    jpeg_create_compress(&z);
    jpeg_mem_dest(&z, &made, &size);
    z.image_width = (JDIMENSION)w;
    z.image_height = (JDIMENSION)h;
    z.input_components = kind->components;
    z.in_color_space = kind->components == 1 ? JCS_GRAYSCALE : kind->components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&z);
    jpeg_set_quality(&z, kind->quality, TRUE);
    if (kind->progressive)
        jpeg_simple_progression(&z);
    z.write_Adobe_marker = kind->components == 4;
    jpeg_start_compress(&z, TRUE);
    uint8_t *row = malloc(w * 4);
    assert_non_null(row);
    for (size_t y = 0; y < h; y++) {
        for (size_t x = 0; x < w; x++)
            for (int c = 0; c < kind->components; c++) /* CMYK: inverted, no black */
                row[x * (size_t)kind->components + (size_t)c] =
                    c == 3 ? 255 : pixel_at(x, y, (size_t)c, w, h);
        jpeg_write_scanlines(&z, (JSAMPROW[]){row}, 1);
    }
    jpeg_finish_compress(&z);
    jpeg_destroy_compress(&z);
    free(row);
    assert_true(size <= room);
    memcpy(out, made, size);
    free(made);
    return size;
}

typedef struct {
    int color; /* PNG_COLOR_TYPE_... */
    int depth;
    bool interlaced;
} png_kind;

typedef struct {
    uint8_t *to;
    size_t n, room;
} png_space;

static inline void take_png(png_structp png, png_bytep bytes, size_t n)
{
    png_space *s = png_get_io_ptr(png);
    assert_true(n <= s->room - s->n);
    memcpy(s->to + s->n, bytes, n);
    s->n += n;
}

/* A palette image has the index x + y and a palette of grays and blues. */
static inline void png_pixel(uint8_t *p, size_t x, size_t y, size_t w, size_t h, const png_kind *kind)
{
    size_t colors = kind->color & PNG_COLOR_MASK_COLOR ? 3 : 1;
    if (kind->color == PNG_COLOR_TYPE_PALETTE) {
        *p = (uint8_t)(x + y);
        return;
    }
    for (size_t c = 0; c < colors; c++) {
        *p++ = pixel_at(x, y, c, w, h);
        if (kind->depth == 16)
            *p++ = 0x80;
    }
    if (kind->color & PNG_COLOR_MASK_ALPHA)
        memset(p, (int)(x % 256), kind->depth == 16 ? 2 : 1);
}

static inline size_t encode_png(size_t w, size_t h, const png_kind *kind, uint8_t *out, size_t room)
{
    png_space space = {out, 0, room};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_non_null(info);
    png_set_write_fn(png, &space, take_png, NULL);
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, kind->depth, kind->color,
                 kind->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_color palette[256];
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(png_byte)i, (png_byte)i, (png_byte)(255 - i)};
    if (kind->color == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 256);
    png_write_info(png, info);
    uint8_t *pixels = calloc(w * h, 8), **rows = malloc(h * sizeof *rows);
    assert_true(pixels && rows);
    size_t channels =
        kind->color == PNG_COLOR_TYPE_PALETTE
            ? 1
            : (kind->color & PNG_COLOR_MASK_COLOR ? 3u : 1u) + (kind->color & PNG_COLOR_MASK_ALPHA ? 1u : 0u);
    size_t step = channels * (size_t)kind->depth / 8;
    for (size_t y = 0; y < h; y++) {
        rows[y] = pixels + y * w * step;
        for (size_t x = 0; x < w; x++)
            png_pixel(rows[y] + x * step, x, y, w, h, kind);
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(pixels);
    free(rows);
    return space.n;
}

#endif
