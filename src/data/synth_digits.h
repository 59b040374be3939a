/* Digits that look handwritten: 28 x 28 pixels, ten classes. They replace a download where none is wanted.
 *
 *     uint8_t pixels[YK_DIGIT_PIXELS];
 *     int digit = yk_synth_digit(seed, stream, pixels);     // row by row, 0 is paper, 255 ink
 *
 * A digit is one of several skeletons of strokes (a spline through control points). The points are jittered,
 * the whole is turned, sheared, stretched and moved, drawn with a pen of random width, softness and ink, and
 * clutter and noise are laid over it. The amounts are tuned so that a linear model stays near 92 % and a
 * small convolutional net goes beyond 98 %, as on MNIST.
 *
 * Any thread; no state.
 */
#ifndef YK_DATA_SYNTH_DIGITS_H
#define YK_DATA_SYNTH_DIGITS_H

#include <stdint.h>

#define YK_DIGIT_SIDE   28
#define YK_DIGIT_PIXELS (YK_DIGIT_SIDE * YK_DIGIT_SIDE)

int yk_synth_digit(uint64_t seed, uint64_t stream, uint8_t pixels_out[YK_DIGIT_PIXELS]);

#endif
