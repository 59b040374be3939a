#include "format/image_internal.h"
#include "format/resample.h"
#include <stdlib.h>
#include <string.h>

struct yk_image_decoder {
    yk_jpeg *jpeg;
    yk_png png;
    yk_resampler resampler;
    bool is_png; /* the last image */
    /* of the current image */
    const yk_image_form *form;
    uint8_t *planes;
};

yk_status yk_image_decoder_create(yk_image_decoder **out)
{
    yk_image_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return yk_fail_memory(sizeof *d, "an image decoder");
    if (!(d->jpeg = yk_jpeg_create())) {
        free(d);
        return YK_ESYSTEM;
    }
    *out = d;
    return YK_OK;
}

void yk_image_decoder_free(yk_image_decoder *d)
{
    if (!d)
        return;
    yk_jpeg_free(d->jpeg);
    yk_resampler_fini(&d->resampler);
    free(d->png.rows);
    free(d);
}

size_t yk_image_offset(const yk_image_decoder *d)
{
    return d->is_png ? d->png.offset : yk_jpeg_offset(d->jpeg);
}

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
    yk_frame f = {.width = p->width,
                  .height = p->height,
                  .channels = p->channels,
                  .region_width = (double)p->width,
                  .region_height = (double)p->height,
                  .out_width = w,
                  .out_height = h,
                  .out_channels = form->channels,
                  .box_w = w,
                  .box_h = h};
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

/* ---- decoding */

yk_status yk__image_begin(yk_image_decoder *d, const yk_image_form *shape)
{
    yk_frame f = frame_of(shape, d->form);
    return yk_resampler_begin(&d->resampler, &f, d->planes);
}

void yk__image_row(yk_image_decoder *d, const uint8_t *row)
{
    yk_resampler_row(&d->resampler, row);
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
    yk_status st = d->is_png ? yk_png_open(&d->png, p, n, out) : yk_jpeg_open(d->jpeg, p, n, out);
    if (!st)
        st = check_shape(out, form);
    if (st && d->is_png)
        yk_png_close(&d->png);
    return st;
}

yk_status yk_image_measure(yk_image_decoder *d, const uint8_t *p, size_t n, yk_image_form *out)
{
    yk_status st = open_image(d, p, n, NULL, out);
    if (!st && d->is_png)
        yk_png_close(&d->png);
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
        return yk_jpeg_decode(d->jpeg, shrink_of(&shape, form), form->channels == 1, d);
    st = yk_png_decode(&d->png, d);
    yk_png_close(&d->png);
    return st;
}
