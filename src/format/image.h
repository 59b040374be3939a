/* Encoded pictures, JPEG or PNG as their bytes say, to planes of bytes of one size.
 *
 *     yk_image_decoder *d;
 *     st = yk_image_decoder_create(&d);
 *     yk_image_form form = {.height = 224, .width = 224, .channels = 3, .fit = YK_FIT_CROP};
 *     st = yk_image_decode(d, bytes, n, &form, pixels);      // [channels][height][width]; YK_EDATA: yk_error() is why
 *     yk_image_decoder_free(d);
 *
 * A picture of another shape is brought to the form:
 *
 *     CROP     scaled until it covers the form, what overhangs of the longer side is cut off at both ends
 *     PAD      scaled until it fits in, black around it
 *     RESIZE   stretched, each side by itself
 *     EXACT    not at all: a picture of another size is YK_EUSAGE
 *
 * The filter is that of resample.h. A JPEG that is at least twice as large as wanted is decoded at a half, a quarter or
 * an eighth of its size. Alpha is dropped, 16 bits become 8, gamma, colour profiles and EXIF orientation are ignored;
 * CMYK becomes RGB. Damage is an error with the library's own words, also where the library would go on with grey.
 *
 * Memory is bounded: no side above YK_IMAGE_SIDE, no more than YK_IMAGE_PIXELS; rows are used as they come, only a
 * progressive JPEG or an interlaced PNG is held whole. A decoder serves one thread at a time and any number of pictures.
 */
#ifndef YK_FORMAT_IMAGE_H
#define YK_FORMAT_IMAGE_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_IMAGE_SIDE   16384
#define YK_IMAGE_PIXELS ((uint64_t)1 << 27)

typedef enum { YK_FIT_CROP, YK_FIT_PAD, YK_FIT_RESIZE, YK_FIT_EXACT } yk_fit;

typedef struct {
    size_t height, width, channels; /* channels: 1 or 3 */
    yk_fit fit;
} yk_image_form;

typedef struct yk_image_decoder yk_image_decoder;

yk_status yk_image_decoder_create(yk_image_decoder **out);
void yk_image_decoder_free(yk_image_decoder *d); /* NULL is fine */

/* Whether the bytes begin like a JPEG or PNG file; 8 bytes are enough. */
bool yk_image_magic(const uint8_t *p, size_t n);

/* The picture's own shape, from its header; fit is EXACT. */
yk_status yk_image_measure(yk_image_decoder *d, const uint8_t *p, size_t n, yk_image_form *out);

/* On failure `planes` may hold part of the picture. */
yk_status yk_image_decode(yk_image_decoder *d, const uint8_t *p, size_t n, const yk_image_form *form,
                          uint8_t *planes);

/* How far into its bytes the last picture was read: near to the damage, where it failed. */
size_t yk_image_offset(const yk_image_decoder *d);

#endif
