/* Options of the sources of encoded images (images:, tfrecord: with image/encoded).
 *
 *     size=224, size=HEIGHTxWIDTH   the size to which images are scaled; default: the size of the first image, and any
 *                                   other size is an error
 *     fit=crop|pad|resize           how, see format/image.h; default: crop
 *     channels=1|3                  default: 3; without `size`: those of the first image
 *
 * By default, all three are those of the model (yk_source_options.images), if it was trained on images that were scaled.
 *
 * Example:
 *     yk_image_form form;
 *     st = yk__image_options(source, &form); // form.height is 0 if the first image decides
 *     if (!st && !form.height)
 *         st = yk__image_form_like(first, n, &form);
 *     yk__set_images(source, form.height, form.width, form.channels);
 *
 * Thread-safe.
 */
#ifndef YK_DATA_IMAGE_OPTIONS_H
#define YK_DATA_IMAGE_OPTIONS_H

#include "data/formats.h"
#include "format/image.h"

#define YK__IMAGE_KEYS "size fit channels" /* for yk_spec_check() */

/* Reads the options of the source's spec. */
yk_status yk__image_options(yk_source *source, yk_image_form *out);

/* Takes the shape from an encoded image, unless the options set it. */
yk_status yk__image_form_like(const uint8_t *bytes, size_t n, yk_image_form *form);

/* Decodes an image into a new row. YK_EDATA: yk_error() is the reason, without file and record. */
yk_status yk__image_add(yk_image_decoder *d, const uint8_t *bytes, size_t n, const yk_image_form *form,
                        int32_t label, yk_rows *rows);

#endif
