/* JPEG is decoded with libjpeg-turbo and PNG with libpng, row by row; the rows are scaled as they come (resample.h).
 *
 * Both libraries report errors with longjmp(), which never leaves the functions that call setjmp(). libjpeg's warnings about
 * pixels (missing data, invalid codes) are errors here; other warnings of libjpeg (extra bytes between markers, an unknown
 * version number) and all warnings of libpng are ignored. Every kind of PNG becomes 8-bit gray or RGB: palettes are applied,
 * alpha is dropped. */
#include "format/image.h"

#include "base/mem.h"
#include "format/resample.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include <jerror.h> /* after jpeglib.h: the error numbers depend on its version */

/* A few kilobytes can require thousands of passes over a large image. Real progressive files have about ten. */
#define MAX_SCANS  200
#define MAX_WORK   ((uint64_t)1 << 31) /* pixels times scans */
#define COEF_BYTES (1024L << 20)       /* for the coefficients of a progressive image */

/* libjpeg-turbo writes aligned rows around the cache, and unaligned rows through it. The row is read immediately, so writing
 * through the cache makes decoding a third faster. */
#define OFF_ALIGNMENT 4

typedef struct {
    struct jpeg_decompress_struct z;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    char text[JMSG_LENGTH_MAX];
    const uint8_t *bytes;
    size_t size, offset;
    uint8_t *row;
    size_t row_cap;
} jpeg_source;

typedef struct {
    png_structp read;
    png_infop info;
    const uint8_t *bytes;
    size_t size, offset;
    jmp_buf out;
    char text[200];
    uint8_t *rows; /* one, or all of an interlaced image; reused for the next image */
    size_t rows_cap;
} png_source;

struct yk_image_decoder {
    jpeg_source jpeg;
    png_source png;
    yk_resampler resampler;
    bool is_png; /* the last image */
    /* of the current image */
    const yk_image_form *form;
    uint8_t *planes;
};

/* ---- fitting an image to the form */

/* from * to / per, rounded, at least 1 and at most `max`. */
static size_t scaled(size_t from, size_t to, size_t per, size_t max)
{
    size_t n = (2 * from * to + per) / (2 * per);
    n = n < 1 ? 1 : n;
    return n < max ? n : max;
}

static yk_frame frame_of(const yk_image_form *p, const yk_image_form *form)
{
    size_t w = form->width, h = form->height;
    yk_frame f = {*p, *form, 0.0, 0.0, (double)p->width, (double)p->height, 0, 0, w, h};
    bool wider = p->width * h > w * p->height; /* than the form */
    if (form->fit == YK_FIT_CROP && wider) {
        f.region_width = (double)(p->height * w) / (double)h;
        f.left = ((double)p->width - f.region_width) / 2.0;
    } else if (form->fit == YK_FIT_CROP) {
        f.region_height = (double)(p->width * h) / (double)w;
        f.top = ((double)p->height - f.region_height) / 2.0;
    } else if (form->fit == YK_FIT_PAD && wider) {
        f.box_h = scaled(p->height, w, p->width, h);
        f.box_y = (h - f.box_h) / 2;
    } else if (form->fit == YK_FIT_PAD) {
        f.box_w = scaled(p->width, h, p->height, w);
        f.box_x = (w - f.box_w) / 2;
    }
    return f;
}

/* How much a JPEG can be shrunk while it is decoded, without being enlarged afterwards. */
static unsigned shrink_of(const yk_image_form *p, const yk_image_form *form)
{
    yk_frame f = frame_of(p, form);
    unsigned shrink = 8;
    while (shrink > 1 &&
           (f.region_width / shrink < (double)f.box_w || f.region_height / shrink < (double)f.box_h))
        shrink /= 2;
    return shrink;
}

static yk_status check_shape(const yk_image_form *p, const yk_image_form *form)
{
    if (p->width == 0 || p->height == 0)
        return yk_fail(YK_EDATA, "the image is empty (%zu x %zu pixels)", p->height, p->width);
    if (p->width > YK_IMAGE_SIDE || p->height > YK_IMAGE_SIDE ||
        (uint64_t)p->width * p->height > YK_IMAGE_PIXELS)
        return yk_fail(YK_EDATA,
                       "the image is too large: %zu x %zu pixels (at most %d per side, %llu in total)",
                       p->height, p->width, YK_IMAGE_SIDE, (unsigned long long)YK_IMAGE_PIXELS);
    if (form && form->fit == YK_FIT_EXACT && (p->width != form->width || p->height != form->height))
        return yk_fail(YK_EUSAGE,
                       "the image has %zu x %zu pixels, but the others have %zu x %zu: choose one size for "
                       "all images, for "
                       "example ?size=%zu",
                       p->height, p->width, form->height, form->width, form->height);
    return YK_OK;
}

/* The decoders pass the shape, once, and then each row. A gray row is [width]; a color row is [width][4], R G B and an unused byte,
 * for vector code. */
static yk_status begin_image(yk_image_decoder *d, const yk_image_form *shape)
{
    yk_frame f = frame_of(shape, d->form);
    return yk_resampler_begin(&d->resampler, &f, d->planes);
}

static void put_row(yk_image_decoder *d, const uint8_t *row)
{
    yk_resampler_row(&d->resampler, row);
}

/* ---- JPEG */

static _Noreturn void jump_out_of_jpeg(j_common_ptr z)
{
    jpeg_source *j = z->client_data;
    z->err->format_message(z, j->text);
    longjmp(j->out, 1);
}

static void handle_message(j_common_ptr z, int level)
{
    if (level >= 0)
        return; /* tracing */
    switch (z->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
        return;
    default:
        jump_out_of_jpeg(z);
    }
}

static void print_nothing(j_common_ptr z)
{
    (void)z;
}

static void limit_scans(j_common_ptr common)
{
    jpeg_source *j = common->client_data;
    uint64_t scans = (uint64_t)j->z.input_scan_number;
    if (scans > MAX_SCANS || scans * j->z.image_width * j->z.image_height > MAX_WORK) {
        snprintf(j->text, sizeof j->text, "too many scans for a progressive JPEG of this size (at most %llu)",
                 (unsigned long long)scans - 1);
        longjmp(j->out, 1);
    }
}

/* Returns the error, and prepares the library for the next image. */
static yk_status damaged(jpeg_source *j)
{
    if (j->errors.msg_code == JWRN_JPEG_EOF)
        j->offset = j->size; /* libjpeg counts whole blocks of pixels */
    else if (j->z.src)
        j->offset = j->size - j->z.src->bytes_in_buffer;
    bool memory = j->errors.msg_code == JERR_OUT_OF_MEMORY;
    jpeg_abort_decompress(&j->z);
    return memory ? yk_fail(YK_ESYSTEM, "decoding a JPEG: %s", j->text) : yk_fail(YK_EDATA, "%s", j->text);
}

static yk_status start_jpeg(jpeg_source *j)
{
    j->z.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = jump_out_of_jpeg;
    j->errors.emit_message = handle_message;
    j->errors.output_message = print_nothing;
    j->z.client_data = j;
    if (setjmp(j->out))
        return yk_fail(YK_ESYSTEM, "libjpeg: %s", j->text);
    jpeg_create_decompress(&j->z); /* keeps err and client_data */
    j->z.mem->max_memory_to_use = COEF_BYTES;
    j->progress.progress_monitor = limit_scans;
    j->z.progress = &j->progress;
    return YK_OK;
}

static yk_status open_jpeg(jpeg_source *j, const uint8_t *p, size_t n, yk_image_form *out)
{
    j->bytes = p;
    j->size = n;
    j->offset = 0;
    j->errors.msg_code = 0;
    jpeg_abort_decompress(&j->z); /* of which only the header was read */
    if (setjmp(j->out))
        return damaged(j);
    jpeg_mem_src(&j->z, p, n);
    jpeg_read_header(&j->z, TRUE);
    j->offset = n - j->z.src->bytes_in_buffer;
    *out =
        (yk_image_form){j->z.image_height, j->z.image_width, j->z.num_components == 1 ? 1 : 3, YK_FIT_EXACT};
    return YK_OK;
}

/* Chooses the output colors; libjpeg converts most color spaces. */
static bool choose_colors(jpeg_source *j, bool gray)
{
    struct jpeg_decompress_struct *z = &j->z;
    switch (z->jpeg_color_space) {
    case JCS_GRAYSCALE:
        z->out_color_space = JCS_GRAYSCALE;
        return true;
    case JCS_YCbCr:
        z->out_color_space = gray ? JCS_GRAYSCALE : JCS_EXT_RGBX;
        return true;
    case JCS_RGB:
        z->out_color_space = JCS_EXT_RGBX;
        return true;
    case JCS_CMYK:
    case JCS_YCCK:
        z->out_color_space = JCS_CMYK;
        return true;
    default:
        return false;
    }
}

/* In place. Adobe's programs store inverted values, and add a marker to the file. */
static void cmyk_to_rgb(uint8_t *row, size_t width, bool inverted)
{
    uint8_t flip = inverted ? 0 : 255;
    for (size_t x = 0; x < width; x++) {
        uint8_t *p = row + 4 * x;
        unsigned k = p[3] ^ flip;
        for (int c = 0; c < 3; c++)
            p[c] = (uint8_t)(((p[c] ^ flip) * k + 127) / 255);
    }
}

/* After open, once. shrink: 1, 2, 4 or 8; gray: one channel is enough. */
static yk_status decode_jpeg(jpeg_source *j, unsigned shrink, bool gray, yk_image_decoder *d)
{
    struct jpeg_decompress_struct *z = &j->z;
    if (!choose_colors(j, gray)) {
        jpeg_abort_decompress(z);
        return yk_fail(YK_EDATA,
                       "unsupported JPEG color space with %d components: neither grayscale, RGB nor CMYK",
                       z->num_components);
    }
    if (setjmp(j->out))
        return damaged(j);
    z->scale_num = 1;
    z->scale_denom = shrink;
    z->dct_method = JDCT_ISLOW; /* the only method with the same results on all platforms */
    jpeg_start_decompress(z);
    bool cmyk = z->out_color_space == JCS_CMYK;
    yk_image_form shape = {z->output_height, z->output_width, z->output_components == 1 ? 1 : 3,
                           YK_FIT_EXACT};
    size_t need = (size_t)z->output_width * (size_t)z->output_components + OFF_ALIGNMENT;
    yk_status st = YK_RESERVE(j->row, j->row_cap, need, "a row of an image");
    if (st || (st = begin_image(d, &shape))) {
        jpeg_abort_decompress(z);
        return st;
    }
    while (z->output_scanline < z->output_height) {
        JSAMPROW rows[1] = {j->row + OFF_ALIGNMENT};
        jpeg_read_scanlines(z, rows, 1);
        if (cmyk)
            cmyk_to_rgb(rows[0], z->output_width, z->saw_Adobe_marker);
        put_row(d, rows[0]);
    }
    j->offset = j->size - z->src->bytes_in_buffer;
    jpeg_abort_decompress(z); /* ignores what follows the last row */
    return YK_OK;
}

/* ---- PNG */

static _Noreturn void jump_out_of_png(png_structp read, png_const_charp text)
{
    png_source *png = png_get_error_ptr(read);
    snprintf(png->text, sizeof png->text, "%s", text);
    longjmp(png->out, 1);
}

static void ignore_warning(png_structp read, png_const_charp text)
{
    (void)read, (void)text;
}

static void read_bytes(png_structp read, png_bytep to, size_t n)
{
    png_source *png = png_get_io_ptr(read);
    if (n > png->size - png->offset) {
        png->offset = png->size;
        png_error(read, "the PNG file is truncated");
    }
    memcpy(to, png->bytes + png->offset, n);
    png->offset += n;
}

static yk_status open_png(png_source *png, const uint8_t *p, size_t n, yk_image_form *out)
{
    png->bytes = p;
    png->size = n;
    png->offset = 0;
    png->info = NULL;
    png->read = png_create_read_struct(PNG_LIBPNG_VER_STRING, png, jump_out_of_png, ignore_warning);
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

static yk_status decode_png(png_source *png, yk_image_decoder *d)
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
    yk_status st = begin_image(d, &shape);
    if (st)
        return st;
    memset(png->rows, 0, rows * stride);
    for (int pass = 0; pass < passes; pass++) /* each pass sets more pixels of the same rows */
        for (size_t y = 0; y < shape.height; y++) {
            uint8_t *row = png->rows + (passes > 1 ? y * stride : 0);
            png_read_row(read, row, NULL);
            if (pass == passes - 1)
                put_row(d, row);
        }
    return YK_OK;
}

static void close_png(png_source *png)
{
    png_destroy_read_struct(&png->read, &png->info, NULL);
}

/* ---- all images */

yk_status yk_image_decoder_create(yk_image_decoder **out)
{
    yk_image_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return yk_fail_memory(sizeof *d, "an image decoder");
    const yk_status st = start_jpeg(&d->jpeg);
    if (st)
        yk_image_decoder_free(d);
    else
        *out = d;
    return st;
}

void yk_image_decoder_free(yk_image_decoder *d)
{
    if (!d)
        return;
    jpeg_destroy_decompress(&d->jpeg.z);
    free(d->jpeg.row);
    yk_resampler_fini(&d->resampler);
    free(d->png.rows);
    free(d);
}

size_t yk_image_offset(const yk_image_decoder *d)
{
    return d->is_png ? d->png.offset : d->jpeg.offset;
}

/* Reads the header; after YK_OK a PNG must be closed. */
static yk_status open_image(yk_image_decoder *d, const uint8_t *p, size_t n, const yk_image_form *form,
                            yk_image_form *out)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    d->is_png = n < sizeof jpeg || memcmp(p, jpeg, sizeof jpeg);
    if (d->is_png && (n < sizeof png || memcmp(p, png, sizeof png))) {
        d->png.offset = 0; /* nothing was read */
        return yk_fail(YK_EDATA, n ? "neither a JPEG nor a PNG image" : "an empty image");
    }
    yk_status st = d->is_png ? open_png(&d->png, p, n, out) : open_jpeg(&d->jpeg, p, n, out);
    if (!st)
        st = check_shape(out, form);
    if (st && d->is_png)
        close_png(&d->png);
    return st;
}

yk_status yk_image_measure(yk_image_decoder *d, const uint8_t *p, size_t n, yk_image_form *out)
{
    yk_status st = open_image(d, p, n, NULL, out);
    if (!st && d->is_png)
        close_png(&d->png);
    return st;
}

yk_status yk_image_decode(yk_image_decoder *d, const uint8_t *p, size_t n, const yk_image_form *form,
                          uint8_t *planes)
{
    yk_image_form shape;
    yk_status st = open_image(d, p, n, form, &shape);
    if (st)
        return st;
    d->form = form;
    d->planes = planes;
    if (!d->is_png)
        return decode_jpeg(&d->jpeg, shrink_of(&shape, form), form->channels == 1, d);
    st = decode_png(&d->png, d);
    close_png(&d->png);
    return st;
}
