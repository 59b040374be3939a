#include "data/synth.h"

#include <string.h>

/* The streams of the test split: the upper half of the 2^64 streams of a seed. */
#define TEST_STREAM ((uint64_t)1 << 63)

yk_status yk__synth_common(yk_synth *s, size_t block, uint64_t examples, uint64_t test)
{
    yk_spec *spec = &s->base.parsed;
    const bool tests = s->base.split == YK_SPLIT_TEST;
    const uint64_t max = (uint64_t)1 << 40;
    examples = yk_spec_u64(spec, "examples", examples, 1, max);
    test = yk_spec_u64(spec, "test", examples < test ? examples : test, 1, max);
    s->seed = yk_spec_u64(spec, "seed", 1, 0, UINT64_MAX);
    s->stream = tests ? TEST_STREAM : 0;
    s->base.has_test = true;
    yk__set_rows(&s->base, tests ? test : examples, block);
    return spec->status;
}

static yk_status synth_row(yk_reader *r, yk_rows *rows)
{
    const yk_synth *s = (const yk_synth *)r->source;
    const uint64_t number = r->at++;
    r->ended = r->at == r->end;
    return s->make(s, number, rows);
}

static const struct {
    const char *name, *options;
    yk_status (*open)(yk_synth *s);
} kinds[] = {{"digits", "examples test seed", yk__synth_digits},
             {"ctr", "features nnz examples test seed positives interactions fields", yk__synth_ctr},
             {"images", "size classes channels examples test seed", yk__synth_images}};

static yk_status synth_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(spec->where, kinds[i].name)) {
            yk_status st = yk_spec_check(spec, kinds[i].options);
            return st ? st : kinds[i].open((yk_synth *)source);
        }
    return yk_fail(YK_EUSAGE, "%s: no such generator; use synth:digits, synth:ctr or synth:images",
                   spec->text);
}

const yk_source_ops yk__synth_source = {
    .name = "synth",
    .usage = "synth:digits, synth:ctr, synth:images",
    .source_size = sizeof(yk_synth),
    .open = synth_open,
    .row = synth_row,
    .two_sets = true,
};
