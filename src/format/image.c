/* JPEG is decoded with libjpeg-turbo and PNG with libpng, row by row; the rows are scaled as they come (resample.h). A gray row is
 * [width]; a color row is [width][4], R G B and an unused byte, for vector code.
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

struct yk_image_decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    png_structp png; /* NULL: the image is a JPEG */
    png_infop info;
    jmp_buf out;
    char text[JMSG_LENGTH_MAX];
    const uint8_t *bytes;
    size_t size, offset;
    uint8_t *rows; /* one, or all of an interlaced PNG; reused for the next image */
    size_t rows_cap;
    yk_resampler resampler;
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
                       "all images, for example ?size=%zu",
                       p->height, p->width, form->height, form->width, form->height);
    return YK_OK;
}

/* ---- JPEG */

static _Noreturn void jump_out_of_jpeg(j_common_ptr z)
{
    yk_image_decoder *d = z->client_data;
    z->err->format_message(z, d->text);
    longjmp(d->out, 1);
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
    yk_image_decoder *d = common->client_data;
    uint64_t scans = (uint64_t)d->jpeg.input_scan_number;
    if (scans > MAX_SCANS || scans * d->jpeg.image_width * d->jpeg.image_height > MAX_WORK) {
        snprintf(d->text, sizeof d->text, "too many scans for a progressive JPEG of this size (at most %llu)",
                 (unsigned long long)scans - 1);
        longjmp(d->out, 1);
    }
}

/* Returns the error, and prepares the library for the next image. */
static yk_status damaged(yk_image_decoder *d)
{
    if (d->errors.msg_code == JWRN_JPEG_EOF)
        d->offset = d->size; /* libjpeg counts whole blocks of pixels */
    else if (d->jpeg.src)
        d->offset = d->size - d->jpeg.src->bytes_in_buffer;
    bool memory = d->errors.msg_code == JERR_OUT_OF_MEMORY;
    jpeg_abort_decompress(&d->jpeg);
    return memory ? yk_fail(YK_ESYSTEM, "decoding a JPEG: %s", d->text) : yk_fail(YK_EDATA, "%s", d->text);
}

static yk_status start_jpeg(yk_image_decoder *d)
{
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = jump_out_of_jpeg;
    d->errors.emit_message = handle_message;
    d->errors.output_message = print_nothing;
    d->jpeg.client_data = d;
    if (setjmp(d->out))
        return yk_fail(YK_ESYSTEM, "libjpeg: %s", d->text);
    jpeg_create_decompress(&d->jpeg); /* keeps err and client_data */
    d->jpeg.mem->max_memory_to_use = COEF_BYTES;
    d->progress.progress_monitor = limit_scans;
    d->jpeg.progress = &d->progress;
    return YK_OK;
}

static yk_status open_jpeg(yk_image_decoder *d, yk_image_form *out)
{
    struct jpeg_decompress_struct *z = &d->jpeg;
    d->errors.msg_code = 0;
    jpeg_abort_decompress(z); /* of which only the header was read */
    if (setjmp(d->out))
        return damaged(d);
    jpeg_mem_src(z, d->bytes, d->size);
    jpeg_read_header(z, TRUE);
    d->offset = d->size - z->src->bytes_in_buffer;
    *out = (yk_image_form){z->image_height, z->image_width, z->num_components == 1 ? 1 : 3, YK_FIT_EXACT};
    return YK_OK;
}

/* Chooses the output colors; libjpeg converts most color spaces. */
static bool choose_colors(struct jpeg_decompress_struct *z, bool gray)
{
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

/* After open, once. in: the shape of the image. */
static yk_status decode_jpeg(yk_image_decoder *d, const yk_image_form *in, const yk_image_form *form,
                             uint8_t *planes)
{
    struct jpeg_decompress_struct *z = &d->jpeg;
    if (!choose_colors(z, form->channels == 1)) {
        jpeg_abort_decompress(z);
        return yk_fail(YK_EDATA,
                       "unsupported JPEG color space with %d components: neither grayscale, RGB nor CMYK",
                       z->num_components);
    }
    if (setjmp(d->out))
        return damaged(d);
    z->scale_num = 1;
    z->scale_denom = shrink_of(in, form);
    z->dct_method = JDCT_ISLOW; /* the only method with the same results on all platforms */
    jpeg_start_decompress(z);
    const yk_image_form shape = {z->output_height, z->output_width, z->output_components == 1 ? 1 : 3,
                                 YK_FIT_EXACT};
    size_t need = (size_t)z->output_width * (size_t)z->output_components + OFF_ALIGNMENT;
    yk_status st = YK_RESERVE(d->rows, d->rows_cap, need, "a row of an image");
    if (st || (st = yk_resampler_begin(&d->resampler, frame_of(&shape, form), planes))) {
        jpeg_abort_decompress(z);
        return st;
    }
    while (z->output_scanline < z->output_height) {
        JSAMPROW rows[1] = {d->rows + OFF_ALIGNMENT};
        jpeg_read_scanlines(z, rows, 1);
        if (z->out_color_space == JCS_CMYK)
            cmyk_to_rgb(rows[0], z->output_width, z->saw_Adobe_marker);
        yk_resampler_row(&d->resampler, rows[0]);
    }
    d->offset = d->size - z->src->bytes_in_buffer;
    jpeg_abort_decompress(z); /* ignores what follows the last row */
    return YK_OK;
}

/* ---- PNG */

static _Noreturn void jump_out_of_png(png_structp read, png_const_charp text)
{
    yk_image_decoder *d = png_get_error_ptr(read);
    snprintf(d->text, sizeof d->text, "%s", text);
    longjmp(d->out, 1);
}

static void ignore_warning(png_structp read, png_const_charp text)
{
    (void)read, (void)text;
}

static void read_bytes(png_structp read, png_bytep to, size_t n)
{
    yk_image_decoder *d = png_get_io_ptr(read);
    if (n > d->size - d->offset) {
        d->offset = d->size;
        png_error(read, "the PNG file is truncated");
    }
    memcpy(to, d->bytes + d->offset, n);
    d->offset += n;
}

static yk_status open_png(yk_image_decoder *d, yk_image_form *out)
{
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, jump_out_of_png, ignore_warning);
    if (!d->png || !(d->info = png_create_info_struct(d->png)))
        return yk_fail_memory(1024, "a PNG decoder");
    if (setjmp(d->out))
        return yk_fail(YK_EDATA, "%s", d->text);
    png_set_read_fn(d->png, d, read_bytes);
    png_set_user_limits(d->png, YK_IMAGE_SIDE, YK_IMAGE_SIDE);
    /* limits texts and profiles, which are not used */
    png_set_chunk_malloc_max(d->png, (png_alloc_size_t)1 << 20);
    png_read_info(d->png, d->info);
    const bool color = png_get_color_type(d->png, d->info) & PNG_COLOR_MASK_COLOR;
    *out = (yk_image_form){png_get_image_height(d->png, d->info), png_get_image_width(d->png, d->info),
                           color ? 3 : 1, YK_FIT_EXACT};
    return YK_OK;
}

static yk_status decode_png(yk_image_decoder *d, const yk_image_form *in, const yk_image_form *form,
                            uint8_t *planes)
{
    if (setjmp(d->out))
        return yk_fail(YK_EDATA, "%s", d->text);
    png_set_expand(d->png);
    png_set_scale_16(d->png);
    png_set_strip_alpha(d->png);
    const size_t lanes = in->channels == 3 ? 4 : 1;
    if (lanes == 4)
        png_set_filler(d->png, 0xff, PNG_FILLER_AFTER);
    const int passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    const size_t stride = png_get_rowbytes(d->png, d->info), rows = passes > 1 ? in->height : 1;
    if (stride != in->width * lanes)
        return yk_fail(YK_EDATA, "unsupported PNG layout: %d channels, %zu bytes per row",
                       png_get_channels(d->png, d->info), stride);
    yk_status st = YK_RESERVE(d->rows, d->rows_cap, rows * stride, "the rows of a PNG");
    if (st || (st = yk_resampler_begin(&d->resampler, frame_of(in, form), planes)))
        return st;
    memset(d->rows, 0, rows * stride);
    for (int pass = 0; pass < passes; pass++) /* each pass sets more pixels of the same rows */
        for (size_t y = 0; y < in->height; y++) {
            uint8_t *row = d->rows + (passes > 1 ? y * stride : 0);
            png_read_row(d->png, row, NULL);
            if (pass == passes - 1)
                yk_resampler_row(&d->resampler, row);
        }
    return YK_OK;
}

static void close_png(yk_image_decoder *d)
{
    if (d->png)
        png_destroy_read_struct(&d->png, &d->info, NULL); /* sets them to NULL */
}

/* ---- all images */

yk_status yk_image_decoder_create(yk_image_decoder **out)
{
    yk_image_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return yk_fail_memory(sizeof *d, "an image decoder");
    const yk_status st = start_jpeg(d);
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
    jpeg_destroy_decompress(&d->jpeg);
    yk_resampler_fini(&d->resampler);
    free(d->rows);
    free(d);
}

size_t yk_image_offset(const yk_image_decoder *d)
{
    return d->offset;
}

/* Reads the header. A PNG must be closed, even after a failure. */
static yk_status open_image(yk_image_decoder *d, const uint8_t *p, size_t n, const yk_image_form *form,
                            yk_image_form *out)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const bool is_jpeg = n >= sizeof jpeg && !memcmp(p, jpeg, sizeof jpeg);
    d->bytes = p;
    d->size = n;
    d->offset = 0;
    if (!is_jpeg && (n < sizeof png || memcmp(p, png, sizeof png)))
        return yk_fail(YK_EDATA, n ? "neither a JPEG nor a PNG image" : "an empty image");
    const yk_status st = is_jpeg ? open_jpeg(d, out) : open_png(d, out);
    return st ? st : check_shape(out, form);
}

yk_status yk_image_measure(yk_image_decoder *d, const uint8_t *p, size_t n, yk_image_form *out)
{
    const yk_status st = open_image(d, p, n, NULL, out);
    close_png(d);
    return st;
}

yk_status yk_image_decode(yk_image_decoder *d, const uint8_t *p, size_t n, const yk_image_form *form,
                          uint8_t *planes)
{
    yk_image_form shape;
    yk_status st = open_image(d, p, n, form, &shape);
    if (!st)
        st = (d->png ? decode_png : decode_jpeg)(d, &shape, form, planes);
    close_png(d);
    return st;
}
