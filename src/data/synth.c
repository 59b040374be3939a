#include "data/synth.h"

#include <stdlib.h>
#include <string.h>

/* The test half begins half-way through the 2^64 streams of a seed. */
#define TEST_STREAM ((uint64_t)1 << 63)

typedef struct {
    yk_reader base;
    uint64_t at, end; /* numbers of examples */
} synth_reader;

yk_status yk__synth_common(yk_synth *s, const yk_spec *spec, yk_split split, uint64_t examples, uint64_t test)
{
    const uint64_t most = (uint64_t)1 << 40;
    uint64_t training;
    yk_status st = yk_spec_u64(spec, "examples", examples, 1, most, &training);
    if (!st)
        st = yk_spec_u64(spec, "test", training < test ? training : test, 1, most, &test);
    if (!st)
        st = yk_spec_u64(spec, "seed", 1, 0, UINT64_MAX, &s->seed);
    if (st)
        return st;
    s->stream = split == YK_SPLIT_TEST ? TEST_STREAM : 0;
    s->base.examples = split == YK_SPLIT_TEST ? test : training;
    s->base.nblocks = (size_t)((s->base.examples + s->block - 1) / s->block);
    s->base.bytes = 0;
    return YK_OK;
}

static yk_status synth_read(yk_source *source, size_t block, yk_reader **out)
{
    const yk_synth *s = (const yk_synth *)source;
    synth_reader *r = calloc(1, sizeof *r);
    if (!r)
        return yk_fail_memory(sizeof *r, "a reader");
    r->base = (yk_reader){source, block};
    r->at = (uint64_t)block * s->block;
    r->end = source->examples - r->at > s->block ? r->at + s->block : source->examples;
    *out = &r->base;
    return YK_OK;
}

static yk_status synth_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    synth_reader *r = (synth_reader *)reader;
    const yk_synth *s = (const yk_synth *)reader->source;
    size_t got = 0;
    for (; got < max && r->at < r->end; got++, r->at++) {
        yk_status st = s->make(s, r->at, rows);
        if (st)
            return st;
    }
    *got_out = got;
    return YK_OK;
}

static void synth_reader_free(yk_reader *r)
{
    free(r);
}

static void synth_free(yk_source *source)
{
    yk_synth *s = (yk_synth *)source;
    if (s->done)
        s->done(s);
    free(s);
}

static const yk_source_ops synth_ops = {
    .name = "synth",
    .reader = synth_read,
    .next = synth_next,
    .reader_free = synth_reader_free,
    .free = synth_free,
};

yk_status yk_synth_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out)
{
    yk_synth *s = NULL;
    yk_status st;
    if (!strcmp(spec->where, "digits"))
        st = yk__synth_digits(spec, split, &s);
    else if (!strcmp(spec->where, "ctr"))
        st = yk__synth_ctr(spec, split, o, &s);
    else if (!strcmp(spec->where, "images"))
        st = yk__synth_images(spec, split, &s);
    else
        st = yk_fail(YK_EUSAGE, "%s: no such generator: synth:digits, synth:ctr and synth:images are known",
                     spec->text);
    if (st)
        return st;
    s->base.ops = &synth_ops;
    *out = &s->base;
    return YK_OK;
}
