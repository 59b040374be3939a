/* Pictures of any size and number of classes that can be learned: they stand in for CIFAR-10 and ImageNet where nothing
 * is to be downloaded.
 *
 *     synth:images?size=32&classes=10&channels=3&examples=50000&test=10000&seed=1
 *
 * Each class has three kinds of object, each a smooth pattern of colours (value noise that repeats after 64 pixels at the
 * latest) seen through the soft outline of one of a few blobs. A picture is an object of its class, moved by up to a
 * fifth of the size, before a pattern that has nothing to do with the class, with its own contrast, brightness and noise:
 *
 *     pixel = contrast * (background + outline * (object - background)) + brightness + noise
 *
 * The amounts are tuned so that at size 32 with 10 classes a linear model gets about half of them right and a small
 * convolutional net nearly all.
 *
 *     yk_pictures *p = yk_pictures_create(&shape);              NULL: out of memory
 *     int class = yk_pictures_make(p, stream, pixels);          pixels: [channels][size][size]
 *     yk_free(p);
 *
 * Integers only: the same bytes on every platform. Pictures may be made by any number of threads.
 */
#ifndef YK_DATA_SYNTH_IMAGES_H
#define YK_DATA_SYNTH_IMAGES_H

#include <stdint.h>

#define YK_PICTURES_LEAST 16 /* pixels a side */
#define YK_PICTURES_MOST  512

typedef struct {
    uint32_t size;     /* height and width */
    uint32_t channels; /* 1 or 3 */
    uint32_t classes;  /* 2 .. 10000 */
    uint64_t seed;
} yk_pictures_shape;

typedef struct yk_pictures yk_pictures;

yk_pictures *yk_pictures_create(const yk_pictures_shape *shape);
int yk_pictures_make(const yk_pictures *p, uint64_t stream, uint8_t *pixels_out);

#endif
