/* What the sources of encoded pictures (images:, tfrecord: with image/encoded) have in common: their options.
 *
 *     size=224, size=HEIGHTxWIDTH   to what the pictures are brought; left out: all have the first one's size, else it is
 *                                   an error that asks for `size`
 *     fit=crop|pad|resize           how, see format/image.h; left out: crop
 *     channels=1|3                  left out: 3, or where size is left out as well what the first picture has
 *
 *     yk_image_form form;
 *     st = yk__pictures_options(spec, &form);               // form.height is 0 where the first picture has to tell
 *     if (!form.height)
 *         st = yk__pictures_like(first, n, &form);
 *     yk__pictures_shape(source, &form);
 */
#ifndef YK_DATA_PICTURES_H
#define YK_DATA_PICTURES_H

#include "data/source.h"
#include "data/spec.h"
#include "format/image.h"

#define YK__PICTURES_KEYS "size fit channels" /* for yk_spec_check() */

yk_status yk__pictures_options(const yk_spec *spec, yk_image_form *out);

/* Takes over what the options left open from an encoded picture. */
yk_status yk__pictures_like(const uint8_t *bytes, size_t n, yk_image_form *form);

/* The source's kind, dim, height, width and channels. */
void yk__pictures_shape(yk_source *s, const yk_image_form *form);

/* Decodes into a new row and commits it. YK_EDATA: yk_error() is the reason, without file and record. */
yk_status yk__pictures_add(yk_image_decoder *d, const uint8_t *bytes, size_t n, const yk_image_form *form,
                           int32_t label, yk_rows *rows);

#endif
