/* The JPEG decoder of image_internal.h, based on libjpeg-turbo. */
#include "format/image_internal.h"

#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h: the error numbers depend on its version */

/* A few kilobytes can require thousands of passes over a large image. Real progressive files have about ten. */
#define MAX_SCANS  200
#define MAX_WORK   ((uint64_t)1 << 31) /* pixels times scans */
#define COEF_BYTES (1024L << 20)       /* for the coefficients of a progressive image */

/* libjpeg-turbo writes aligned rows around the cache, and unaligned rows through it. The row is read immediately, so writing
 * through the cache makes decoding a third faster. */
#define OFF_ALIGNMENT 4

struct yk_jpeg {
    struct jpeg_decompress_struct z;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    char text[JMSG_LENGTH_MAX];
    const uint8_t *bytes;
    size_t size, offset;
    uint8_t *row;
    size_t row_cap;
};

static _Noreturn void jump_out(j_common_ptr z)
{
    yk_jpeg *j = z->client_data;
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
        jump_out(z);
    }
}

static void print_nothing(j_common_ptr z)
{
    (void)z;
}

static void limit_scans(j_common_ptr common)
{
    yk_jpeg *j = common->client_data;
    uint64_t scans = (uint64_t)j->z.input_scan_number;
    if (scans > MAX_SCANS || scans * j->z.image_width * j->z.image_height > MAX_WORK) {
        snprintf(j->text, sizeof j->text, "too many scans for a progressive JPEG of this size (at most %llu)",
                 (unsigned long long)scans - 1);
        longjmp(j->out, 1);
    }
}

/* Returns the error, and prepares the library for the next image. */
static yk_status damaged(yk_jpeg *j)
{
    if (j->errors.msg_code == JWRN_JPEG_EOF)
        j->offset = j->size; /* libjpeg counts whole blocks of pixels */
    else if (j->z.src)
        j->offset = j->size - j->z.src->bytes_in_buffer;
    bool memory = j->errors.msg_code == JERR_OUT_OF_MEMORY;
    jpeg_abort_decompress(&j->z);
    return memory ? yk_fail(YK_ESYSTEM, "decoding a JPEG: %s", j->text) : yk_fail(YK_EDATA, "%s", j->text);
}

static bool start(yk_jpeg *j)
{
    j->z.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = jump_out;
    j->errors.emit_message = handle_message;
    j->errors.output_message = print_nothing;
    j->z.client_data = j;
    if (setjmp(j->out)) {
        yk_fail(YK_ESYSTEM, "libjpeg: %s", j->text);
        return false;
    }
    jpeg_create_decompress(&j->z); /* keeps err and client_data */
    j->z.mem->max_memory_to_use = COEF_BYTES;
    j->progress.progress_monitor = limit_scans;
    j->z.progress = &j->progress;
    return true;
}

yk_jpeg *yk_jpeg_create(void)
{
    yk_jpeg *j = calloc(1, sizeof *j);
    if (!j) {
        yk_fail_memory(sizeof *j, "a JPEG decoder");
        return NULL;
    }
    if (!start(j)) {
        yk_jpeg_free(j);
        return NULL;
    }
    return j;
}

void yk_jpeg_free(yk_jpeg *j)
{
    if (!j)
        return;
    jpeg_destroy_decompress(&j->z);
    free(j->row);
    free(j);
}

size_t yk_jpeg_offset(const yk_jpeg *j)
{
    return j->offset;
}

yk_status yk_jpeg_open(yk_jpeg *j, const uint8_t *p, size_t n, yk_image_form *out)
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
static bool choose_colors(yk_jpeg *j, bool gray)
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

yk_status yk_jpeg_decode(yk_jpeg *j, unsigned shrink, bool gray, yk_image_decoder *d)
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
    if (st || (st = yk__image_begin(d, &shape))) {
        jpeg_abort_decompress(z);
        return st;
    }
    while (z->output_scanline < z->output_height) {
        JSAMPROW rows[1] = {j->row + OFF_ALIGNMENT};
        jpeg_read_scanlines(z, rows, 1);
        if (cmyk)
            cmyk_to_rgb(rows[0], z->output_width, z->saw_Adobe_marker);
        yk__image_row(d, rows[0]);
    }
    j->offset = j->size - z->src->bytes_in_buffer;
    jpeg_abort_decompress(z); /* ignores what follows the last row */
    return YK_OK;
}
