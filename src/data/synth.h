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
 * Example:
 *     yk_source *s;
 *     st = yk_source_open("synth:ctr?features=1000", YK_SPLIT_TRAIN, NULL, &s);
 *     const yk_synth *synth = (const yk_synth *)s;
 *     st = synth->make(synth, 17, &rows);                       // appends example number 17
 *     yk_source_free(s);
 */
#ifndef YK_DATA_SYNTH_H
#define YK_DATA_SYNTH_H

#include "base/mem.h"
#include "data/formats.h"

typedef struct yk_synth {
    yk_source base;
    uint64_t seed;
    uint64_t stream; /* the first random stream of the split; example number i uses stream + i */
    /* Appends one example; any thread. */
    yk_status (*make)(const struct yk_synth *s, uint64_t number, yk_rows *rows);
    void *state; /* of the kind, in base.arena */
} yk_synth;

/* Reads the options that all kinds share, of a split with blocks of this many examples. */
yk_status yk__synth_common(yk_synth *s, size_t block, uint64_t examples, uint64_t test);

yk_status yk__synth_digits(yk_synth *s);
yk_status yk__synth_images(yk_synth *s);
yk_status yk__synth_ctr(yk_synth *s);

#endif
