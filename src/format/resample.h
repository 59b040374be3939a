/* Scales an image row by row, as a decoder delivers it, so that even a very large photo is never held in memory as a whole.
 *
 * Example:
 *     yk_resampler r = {0};
 *     st = yk_resampler_begin(&r, frame, planes);      // frame: which region of the image goes where in the output
 *     for (size_t y = 0; y < frame.in.height; y++)
 *         yk_resampler_row(&r, row);                   // [width] of 1 or 4 bytes, see image.c
 *     yk_resampler_fini(&r);                           // once; begin may be called for many images before
 *
 * The filter is a triangle that extends one pixel of the coarser image (input or output) to each side: bilinear when
 * enlarging, a weighted average over all covered pixels when shrinking (Pillow's BILINEAR, PyTorch's "bilinear" with
 * antialias). It uses floats with + - * / in a fixed order: the same bytes on every platform.
 *
 *     the decoded image                    the output, planes of [height][width]
 *     +---------------------+                +-----------------+
 *     |    +-----------+    |                |   . black .     |
 *     |    | region    |    |   --------->   | +-------------+ |
 *     |    +-----------+    |                | | box         | |
 *     +---------------------+                +-----------------+
 *
 * `planes` is borrowed until the last row. One thread at a time.
 */
#ifndef YK_FORMAT_RESAMPLE_H
#define YK_FORMAT_RESAMPLE_H

#include "format/image.h"

typedef struct {
    yk_image_form in, out; /* the decoded image and the output; gray is repeated, colors become gray */
    double left, top, region_width, region_height; /* the region of it that is used */
    size_t box_x, box_y, box_w, box_h;             /* where the region goes; black around it */
} yk_frame;

typedef struct yk__axis {
    size_t n;
    struct yk__taps {
        uint32_t first, count; /* source pixels */
        size_t at;             /* index of the first weight */
    } * taps;                  /* [n] */
    float *weight;
    size_t taps_cap, weight_cap;
} yk__axis;

typedef struct {
    yk_frame frame;
    uint8_t *planes;
    yk__axis x, y;
    float *wide;    /* one source row: [width][lanes] */
    float *line;    /* one source row, scaled to the width of the box: [box_w][lanes] */
    float *sums;    /* [ring][box_w][lanes], incomplete rows of the box */
    size_t lanes;   /* of a pixel: 1, or 4 for colors */
    bool same_size; /* nothing to resample */
    size_t ring, wide_cap, line_cap, sums_cap;
    size_t source_row; /* the next one */
    size_t box_row;    /* the first incomplete one */
} yk_resampler;

yk_status yk_resampler_begin(yk_resampler *r, yk_frame frame, uint8_t *planes);
void yk_resampler_row(yk_resampler *r, const uint8_t *row);
void yk_resampler_fini(yk_resampler *r);

#endif
