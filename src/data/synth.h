/* Generated data: examples that are computed from (seed, split, number), so that a set needs no file and any
 * part of it can be made by itself, in any order, by any number of threads, with the same bytes on every
 * platform.
 *
 *     synth:digits?examples=60000&test=10000&seed=1     28 x 28 pixels (u8), ten classes            (synth_digits.h)
 *     synth:ctr?features=33762578&nnz=39&seed=1         sparse clicks with known probabilities      (synth_ctr.h)
 *     synth:images?size=32&classes=10&channels=3        pictures of any size (u8)                   (synth_images.h)
 *
 * Options of every kind: `examples` in the training half, `test` in the other (left out: as many as for
 * training, but at most the kind's default), `seed`. The halves are different streams of one seed: the same
 * writing styles, the same planted weights, other examples.
 *
 * A kind is a file that fills in this struct. To stay the same
 * everywhere it may use integers and + - * / sqrt of IEEE floats (the build forbids fused multiply-add), and
 * no function of libm beyond.
 */
#ifndef YK_DATA_SYNTH_H
#define YK_DATA_SYNTH_H

#include "data/formats.h"

typedef struct yk_synth {
    yk_source base;
    uint64_t seed;
    uint64_t stream; /* the first random stream of the split; example number i draws from stream + i */
    size_t block;    /* examples in a block */
    yk_status (*make)(const struct yk_synth *s, uint64_t number,
                      yk_rows *rows); /* appends one example; any thread */
    void *state;                      /* the kind's own; freed by yk_free() */
} yk_synth;

/* The options that all kinds share; sets examples, nblocks, bytes, seed and stream. `block` and base.kind are
 * set already. */
yk_status yk__synth_common(yk_synth *s, const yk_spec *spec, yk_split split, uint64_t examples,
                           uint64_t test);

yk_status yk__synth_digits(yk_synth *s, const yk_spec *spec, yk_split split);
yk_status yk__synth_images(yk_synth *s, const yk_spec *spec, yk_split split);
yk_status yk__synth_ctr(yk_synth *s, const yk_spec *spec, yk_split split, const yk_source_options *o);

#endif
