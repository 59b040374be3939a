/* Decodes JPEG and PNG images, recognized by their first bytes, to planes of bytes of a given size.
 *
 * Example:
 *     yk_image_decoder *d;
 *     yk_image_form form = {.height = 224, .width = 224, .channels = 3, .fit = YK_FIT_CROP};
 *     st = yk_image_decoder_create(&d);
 *     st = yk_image_decode(d, bytes, n, &form, planes);      // [channels][height][width]; YK_EDATA: see yk_error()
 *     yk_image_decoder_free(d);
 *
 * An image of another shape is fitted to the form:
 *
 *     CROP     scaled to cover the form; what exceeds it is cut off equally at both ends
 *     PAD      scaled to fit into the form, with black borders
 *     RESIZE   stretched; the aspect ratio may change
 *     EXACT    not fitted: an image of another size is YK_EUSAGE
 *
 * resample.h describes the filter. A JPEG that is at least twice as large as the form is decoded at 1/2, 1/4 or 1/8 of its
 * size. Alpha is dropped, 16 bits become 8, CMYK becomes RGB; gamma, color profiles and EXIF orientation are ignored. Damage
 * is an error with the library's message, even where the library would continue with gray pixels.
 *
 * Memory is bounded: at most YK_IMAGE_SIDE pixels per side and YK_IMAGE_PIXELS in total. Rows are processed one by one; only
 * a progressive JPEG or an interlaced PNG is held as a whole. A decoder decodes any number of images, in one thread at a time.
 */
#ifndef YK_FORMAT_IMAGE_H
#define YK_FORMAT_IMAGE_H

#include "base/status.h"

#define YK_IMAGE_SIDE   16384
#define YK_IMAGE_PIXELS ((uint64_t)1 << 27)

typedef enum { YK_FIT_CROP, YK_FIT_PAD, YK_FIT_RESIZE, YK_FIT_EXACT } yk_fit;
#define YK_FIT_NAMES "crop pad resize"

typedef struct {
    size_t height, width, channels; /* channels: 1 or 3 */
    yk_fit fit;
} yk_image_form;

typedef struct yk_image_decoder yk_image_decoder;

yk_status yk_image_decoder_create(yk_image_decoder **out);
void yk_image_decoder_free(yk_image_decoder *d); /* NULL is fine */

/* The shape of an image, from its header; fit is EXACT. */
yk_status yk_image_measure(yk_image_decoder *d, const uint8_t *p, size_t n, yk_image_form *out);

/* On failure `planes` may hold part of the image. */
yk_status yk_image_decode(yk_image_decoder *d, const uint8_t *p, size_t n, const yk_image_form *form,
                          uint8_t *planes);

/* How far the bytes of the last image were read: after a failure this is near the damage. */
size_t yk_image_offset(const yk_image_decoder *d);

#endif
