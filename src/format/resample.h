/* Brings a picture to the size that a model wants, row by row as a decoder hands them over, so that a photograph of a
 * hundred megapixels never lies in memory.
 *
 *     yk_resampler r = {0};
 *     st = yk_resampler_begin(&r, &frame, planes);     // frame: how the picture lies in the output
 *     for (y = 0; y < height; y++)
 *         yk_resampler_row(&r, row);                   // [width] of 1 or 4 bytes, as picture.h says
 *     yk_resampler_fini(&r);                           // once; begin may be called any number of times before
 *
 * The filter is a triangle, as wide as the pixels of the coarser side: bilinear where a picture grows, an average over
 * all of the covered pixels where it shrinks (Pillow calls it BILINEAR, PyTorch "bilinear, antialias"). It is done in
 * floats with + - * / in one order: the same bytes on every platform.
 *
 *     the decoded picture                    the output, planes of [height][width]
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

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t width, height, channels;    /* of the decoded picture; channels: 1 or 3 */
    double left, top, wide, high;      /* the region of it that is shown */
    size_t out_width, out_height;      /* of the output */
    size_t out_channels;               /* 1 or 3: grey is repeated, colours are weighed into grey */
    size_t box_x, box_y, box_w, box_h; /* where the region goes; around it everything is black */
} yk_frame;

typedef struct yk__axis {
    size_t n;
    struct yk__taps {
        uint32_t first, count; /* source pixels */
        size_t at;             /* their weights */
    } * taps;                  /* [n] */
    float *weight;
    size_t taps_cap, weight_cap;
} yk__axis;

typedef struct {
    yk_frame frame;
    uint8_t *planes;
    yk__axis x, y;
    float *wide;   /* one source row: [width][lanes] */
    float *line;   /* one source row, brought to the box's width: [box_w][lanes] */
    float *sums;   /* [ring][box_w][lanes], rows of the box that are being added up */
    size_t lanes;  /* of a pixel: 1, or 4 for three colours */
    bool as_it_is; /* nothing to resample */
    size_t ring, wide_cap, line_cap, sums_cap;
    size_t source_row; /* the next one to come */
    size_t box_row;    /* the first that is not complete */
} yk_resampler;

yk_status yk_resampler_begin(yk_resampler *r, const yk_frame *frame, uint8_t *planes);
void yk_resampler_row(yk_resampler *r, const uint8_t *row);
void yk_resampler_fini(yk_resampler *r);

#endif
