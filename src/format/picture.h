/* What the decoders of pictures hand over: the shape, then the rows from top to bottom. Plain data.
 *
 *     yk_picture_sink sink = {take_shape, take_row, context};
 *     st = yk_png_decode(&png, &sink);
 *
 * The decoders jump out of their libraries on damage, past the sink's functions but never out of them.
 */
#ifndef YK_FORMAT_PICTURE_H
#define YK_FORMAT_PICTURE_H

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t width, height, channels; /* channels: 1 or 3 */
} yk_picture;

typedef struct {
    yk_status (*begin)(void *context, const yk_picture *shape); /* once; an error ends the decoding */
    void (*row)(void *context, const uint8_t *row); /* grey: [width]; colours: [width][4], R G B and a
                                                                 * byte that means nothing, for the sake of vectors */
    void *context;
} yk_picture_sink;

#endif
