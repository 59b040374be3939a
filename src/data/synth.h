/* Generated data (synth:KIND). Every example follows from (seed, split, number) alone. So a data set needs no file, any part
 * of it can be generated in any order by any number of threads, and it has the same bytes on every platform.
 *
 *     synth:digits?examples=60000&test=10000&seed=1     28 x 28 pixels (u8), ten classes            (synth_digits.c)
 *     synth:ctr?features=33762578&nnz=39&seed=1         sparse clicks with known probabilities      (synth_ctr.c)
 *     synth:images?size=32&classes=10&channels=3        images of any size (u8)                     (synth_images.c)
 *
 * All kinds have the options `examples` (of the training split), `test` (of the test split; default: as many as in the
 * training split, but at most the default of the kind) and `seed`. The splits are different random streams of one seed:
 * the same writing styles and planted weights, but different examples.
 *
 * To add a kind, write a file that fills in yk_synth, and add it to the table in synth.c. To produce the same bytes
 * everywhere it may use integers and + - * / sqrt of IEEE floats (the build disables fused multiply-add), but no other
 * function of libm.
 *
 * The generators below can also be used directly. Any thread may draw examples.
 *
 * Example:
 *     const yk_synth_ctr_shape shape = {.features = 1000, .nnz = 39, .positives = 0.25, .seed = 1};
 *     yk_synth_ctr *ctr = yk_synth_ctr_create(&shape);          // NULL: out of memory
 *     uint32_t index[39];
 *     float probability;
 *     bool click = yk_synth_ctr_draw(ctr, 0, index, &probability);
 *     yk_free(ctr);
 */
#ifndef YK_DATA_SYNTH_H
#define YK_DATA_SYNTH_H

#include "base/mem.h"
#include "data/formats.h"

typedef struct yk_synth {
    yk_source base;
    uint64_t seed;
    uint64_t stream; /* the first random stream of the split; example number i uses stream + i */
    size_t block;    /* examples in a block */
    /* Appends one example; any thread. */
    yk_status (*make)(const struct yk_synth *s, uint64_t number, yk_rows *rows);
    void *state; /* of the kind; freed with yk_free() */
} yk_synth;

/* Reads the options that all kinds share; sets examples, nblocks, seed and stream. Set `block` before. */
yk_status yk__synth_common(yk_synth *s, yk_spec *spec, yk_split split, uint64_t examples, uint64_t test);

yk_status yk__synth_digits(yk_synth *s, yk_spec *spec, yk_split split, const yk_source_options *o);
yk_status yk__synth_images(yk_synth *s, yk_spec *spec, yk_split split, const yk_source_options *o);
yk_status yk__synth_ctr(yk_synth *s, yk_spec *spec, yk_split split, const yk_source_options *o);

/* ---- digits */

#define YK_SYNTH_DIGIT_SIDE   28
#define YK_SYNTH_DIGIT_PIXELS (YK_SYNTH_DIGIT_SIDE * YK_SYNTH_DIGIT_SIDE)

/* Draws a digit, row by row; 0 is background, 255 is ink. Returns which digit it is. */
int yk_synth_digit(uint64_t seed, uint64_t stream, uint8_t pixels_out[YK_SYNTH_DIGIT_PIXELS]);

/* ---- clicks */

typedef struct {
    uint64_t features; /* nnz .. 2^32 - 1 */
    uint32_t nnz;
    double positives; /* fraction of examples with label 1 */
    /* Standard deviation of the pairwise part of the logits, relative to the linear part. */
    double interactions;
    uint64_t seed;
} yk_synth_ctr_shape;

typedef struct yk_synth_ctr yk_synth_ctr;

yk_synth_ctr *yk_synth_ctr_create(const yk_synth_ctr_shape *shape);

/* index_out: [nnz], ascending; p_out: the probability of a click. Returns whether it is a click. */
bool yk_synth_ctr_draw(const yk_synth_ctr *c, uint64_t stream, uint32_t *index_out, float *p_out);

/* ---- images */

#define YK_SYNTH_IMAGE_SIDE_MIN 16
#define YK_SYNTH_IMAGE_SIDE_MAX 512

typedef struct {
    uint32_t size;     /* height and width */
    uint32_t channels; /* 1 or 3 */
    uint32_t classes;  /* 2 .. 10000 */
    uint64_t seed;
} yk_synth_images_shape;

typedef struct yk_synth_images yk_synth_images;

yk_synth_images *yk_synth_images_create(const yk_synth_images_shape *shape);

/* pixels_out: [channels][size][size]. Returns the class. */
int yk_synth_images_draw(const yk_synth_images *images, uint64_t stream, uint8_t *pixels_out);

#endif
