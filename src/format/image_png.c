/* The PNG decoder of image_internal.h, based on libpng. */
#include "format/image_internal.h"

#include "base/mem.h"
#include <stdio.h>
#include <string.h>

#include <png.h>

static _Noreturn void jump_out(png_structp read, png_const_charp text)
{
    yk_png *png = png_get_error_ptr(read);
    snprintf(png->text, sizeof png->text, "%s", text);
    longjmp(png->out, 1);
}

static void ignore_warning(png_structp read, png_const_charp text)
{
    (void)read, (void)text;
}

static void read_bytes(png_structp read, png_bytep to, size_t n)
{
    yk_png *png = png_get_io_ptr(read);
    if (n > png->size - png->offset) {
        png->offset = png->size;
        png_error(read, "the PNG file is truncated");
    }
    memcpy(to, png->bytes + png->offset, n);
    png->offset += n;
}

yk_status yk_png_open(yk_png *png, const uint8_t *p, size_t n, yk_image_form *out)
{
    png->bytes = p;
    png->size = n;
    png->offset = 0;
    png->info = NULL;
    png->read = png_create_read_struct(PNG_LIBPNG_VER_STRING, png, jump_out, ignore_warning);
    if (!png->read || !(png->info = png_create_info_struct(png->read)))
        return yk_fail_memory(1024, "a PNG decoder");
    if (setjmp(png->out))
        return yk_fail(YK_EDATA, "%s", png->text);
    png_structp read = png->read;
    png_infop info = png->info;
    png_set_read_fn(read, png, read_bytes);
    png_set_user_limits(read, YK_IMAGE_SIDE, YK_IMAGE_SIDE);
    png_set_chunk_malloc_max(read,
                             (png_alloc_size_t)1 << 20); /* limits texts and profiles, which are not used */
    png_read_info(read, info);
    int color = png_get_color_type(read, info);
    *out = (yk_image_form){png_get_image_height(read, info), png_get_image_width(read, info),
                           color == PNG_COLOR_TYPE_GRAY || color == PNG_COLOR_TYPE_GRAY_ALPHA ? 1 : 3,
                           YK_FIT_EXACT};
    return YK_OK;
}

yk_status yk_png_decode(yk_png *png, yk_image_decoder *d)
{
    png_structp read = png->read;
    png_infop info = png->info;
    if (setjmp(png->out))
        return yk_fail(YK_EDATA, "%s", png->text);
    png_set_expand(read);
    png_set_scale_16(read);
    png_set_strip_alpha(read);
    size_t lanes = png_get_color_type(read, info) & PNG_COLOR_MASK_COLOR ? 4 : 1;
    if (lanes == 4)
        png_set_filler(read, 0xff, PNG_FILLER_AFTER);
    int passes = png_set_interlace_handling(read);
    png_read_update_info(read, info);
    yk_image_form shape = {png_get_image_height(read, info), png_get_image_width(read, info),
                           lanes == 4 ? 3 : 1, YK_FIT_EXACT};
    size_t stride = png_get_rowbytes(read, info);
    if (stride != shape.width * lanes)
        return yk_fail(YK_EDATA, "unsupported PNG layout: %d channels, %zu bytes per row",
                       png_get_channels(read, info), stride);
    size_t rows = passes > 1 ? shape.height : 1;
    if (YK_RESERVE(png->rows, png->rows_cap, rows * stride, "the rows of a PNG"))
        return YK_ESYSTEM;
    yk_status st = yk__image_begin(d, &shape);
    if (st)
        return st;
    memset(png->rows, 0, rows * stride);
    for (int pass = 0; pass < passes; pass++) /* each pass sets more pixels of the same rows */
        for (size_t y = 0; y < shape.height; y++) {
            uint8_t *row = png->rows + (passes > 1 ? y * stride : 0);
            png_read_row(read, row, NULL);
            if (pass == passes - 1)
                yk__image_row(d, row);
        }
    return YK_OK;
}

void yk_png_close(yk_png *png)
{
    png_structp read = png->read;
    png_infop info = png->info;
    png_destroy_read_struct(&read, &info, NULL);
    png->read = png->info = NULL;
}
