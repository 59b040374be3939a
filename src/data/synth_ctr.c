#include "data/synth_ctr.h"

#include "base/mem.h"
#include "base/perm.h"
#include "base/rng.h"
#include "data/exact.h"
#include "data/synth.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OCTAVES      32
#define SMALLEST     3.0 /* categories in the smallest field, where there is room */
#define LOGIT_SPREAD 1.38
#define SAMPLE       8192
#define SAMPLE_AT    ((uint64_t)1 << 62) /* streams of the sample: neither training nor test */

typedef struct {
    uint32_t first;      /* column */
    uint32_t categories; /* columns */
    uint32_t octaves;
    uint32_t factor, shift; /* rank r lies in column first + (r * factor + shift) mod categories */
    uint64_t reciprocal;    /* 2^64 / categories, rounded down: the modulo without a division */
    uint32_t
        below[OCTAVES]; /* the octaves' table (Walker's alias method): slot i stands for itself below this */
    uint8_t other[OCTAVES];  /* ... and for that octave above it */
    uint32_t size[OCTAVES];  /* ranks in the octave; they begin at 2^octave - 1 */
    int32_t weight[OCTAVES]; /* the spread of the weights of these ranks */
} field;

struct yk_ctr {
    uint64_t weight_key, draw_key;
    double gain, bias;
    uint32_t nnz;
    field f[];
};

static double sigmoid(double z)
{
    return 1.0 / (1.0 + yk__exact_exp(-z));
}

/* Roughly normal in whole numbers: the sum of four 16-bit parts of a hash, less its mean. */
static int32_t bell_of(uint64_t hash)
{
    hash = (hash & 0x0000ffff0000ffffu) + ((hash >> 16) & 0x0000ffff0000ffffu);
    return (int32_t)((hash & 0xffffffffu) + (hash >> 32)) - 2 * 65535;
}

/* ---- the fields */

/* SMALLEST * (1 + ratio + ratio^2 + ...), nnz terms, held at something large */
static double geometric_sum(double ratio, uint32_t nnz)
{
    double sum = 0.0, term = SMALLEST;
    for (uint32_t i = 0; i < nnz && sum < 1e12; i++, term *= ratio)
        sum += term;
    return sum;
}

/* Sizes that add up to `features`: geometric from SMALLEST where they fit, otherwise nearly equal. */
static void choose_sizes(const yk_ctr_shape *shape, uint32_t *size)
{
    double total = (double)shape->features, low = 1.0, high = total;
    uint32_t n = shape->nnz;
    uint64_t sum = 0;
    double term = SMALLEST;
    if (geometric_sum(1.0, n) >= total || n == 1) {
        high = 1.0;
        term = (double)(shape->features / n);
    }
    for (int i = 0; i < 100 && high > 1.0; i++) {
        double mid = (low + high) / 2.0;
        *(geometric_sum(mid, n) < total ? &low : &high) = mid;
    }
    for (uint32_t i = 0; i < n; i++, term *= low) {
        uint64_t left = shape->features - sum - (n - 1 - i); /* one at least for each of the rest */
        size[i] = (uint32_t)(term < (double)left ? (uint64_t)term : left);
        sum += size[i];
    }
    size[n - 1] += (uint32_t)(shape->features - sum);
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Vose's method: slots below the mean are filled up from those above it. */
static void make_alias(field *f, const double *share)
{
    double left[OCTAVES];
    uint8_t small[OCTAVES], large[OCTAVES];
    uint32_t nsmall = 0, nlarge = 0;
    double sum = 0.0;
    for (uint32_t i = 0; i < f->octaves; i++)
        sum += share[i];
    for (uint32_t i = 0; i < f->octaves; i++) {
        left[i] = share[i] / sum * (double)f->octaves;
        f->below[i] = UINT32_MAX;
        f->other[i] = (uint8_t)i;
        if (left[i] < 1.0)
            small[nsmall++] = (uint8_t)i;
        else
            large[nlarge++] = (uint8_t)i;
    }
    while (nsmall && nlarge) {
        uint8_t s = small[--nsmall], l = large[nlarge - 1];
        f->below[s] = (uint32_t)(left[s] * 0x1p32);
        f->other[s] = l;
        left[l] -= 1.0 - left[s];
        if (left[l] < 1.0) {
            nlarge--;
            small[nsmall++] = l;
        }
    }
}

static void make_field(field *f, uint32_t first, uint32_t categories, yk_rng *r)
{
    f->first = first;
    f->categories = categories;
    f->reciprocal = categories > 1 ? UINT64_MAX / categories : UINT64_MAX;
    f->factor = (uint32_t)((double)categories * 0.6180339887498949) | 1;
    while (common_divisor(f->factor, categories) != 1)
        f->factor++;
    f->shift = yk_rng_below(r, categories);
    /* from one octave to the next: 2^(1 - exponent), exponents from 1.05 to 1.4 */
    double ratio = 0.76 + 0.21 * yk_rng_unit(r);
    double share[OCTAVES], part = 1.0;
    uint32_t importance = 128 + yk_rng_below(r, 128); /* some fields tell more than others */
    for (uint64_t begin = 0; begin < categories; begin += begin + 1) {
        uint64_t whole = begin + 1, rest = categories - begin;
        uint32_t o = f->octaves++;
        f->size[o] = (uint32_t)(rest < whole ? rest : whole);
        share[o] = part * ((double)f->size[o] / (double)whole);
        part *= ratio;
        f->weight[o] = (int32_t)(importance * 64 / (8 + o));
    }
    make_alias(f, share);
}

/* ---- drawing */

/* One category: which column, and its weight. */
static uint32_t draw_category(const yk_ctr *c, const field *f, yk_rng *r, int64_t *weight)
{
    uint64_t u = yk_rng_u64(r);
    uint64_t slot = (u >> 32) * f->octaves;
    uint32_t o = (uint32_t)(slot >> 32);
    uint32_t stay =
        -(uint32_t)((uint32_t)slot < f->below[o]); /* a mask: as a branch it would be a coin toss */
    o = (o & stay) | (f->other[o] & ~stay);
    uint64_t rank = ((uint64_t)1 << o) - 1 + ((uint64_t)(uint32_t)u * f->size[o] >> 32);
    uint64_t x = rank * f->factor + f->shift;
    uint64_t q = (uint64_t)((unsigned __int128)x * f->reciprocal >> 64); /* the quotient or one less */
    uint64_t place = x - q * f->categories;
    place -= place >= f->categories ? f->categories : 0;
    uint32_t column = f->first + (uint32_t)place;
    *weight += (int64_t)bell_of(yk_mix64(c->weight_key + column)) * f->weight[o];
    return column;
}

static int64_t draw_row(const yk_ctr *c, yk_rng *r, uint32_t *index)
{
    int64_t weight = 0;
    for (uint32_t i = 0; i < c->nnz; i++)
        index[i] = draw_category(c, &c->f[i], r, &weight);
    return weight;
}

bool yk_ctr_example(const yk_ctr *c, uint64_t stream, uint32_t *index_out, float *p_out)
{
    yk_rng r = yk_rng_seed(c->draw_key, stream);
    double p = sigmoid((double)draw_row(c, &r, index_out) * c->gain + c->bias);
    *p_out = (float)p;
    return yk_rng_unit(&r) < p;
}

/* Gain and bias: the spread of the logits and the share of positives, on a sample. */
static yk_status calibrate(yk_ctr *c, double positives)
{
    double *sum = yk_alloc(SAMPLE, sizeof *sum, "a sample");
    uint32_t *index = yk_alloc(c->nnz, sizeof *index, "a sample");
    if (!sum || !index) {
        yk_free(sum);
        yk_free(index);
        return YK_ESYSTEM;
    }
    double mean = 0.0, square = 0.0;
    for (int i = 0; i < SAMPLE; i++) {
        yk_rng r = yk_rng_seed(c->draw_key, SAMPLE_AT + (uint64_t)i);
        sum[i] = (double)draw_row(c, &r, index);
        mean += sum[i] / SAMPLE;
    }
    for (int i = 0; i < SAMPLE; i++)
        square += (sum[i] - mean) * (sum[i] - mean) / SAMPLE;
    c->gain = square > 0.0 ? LOGIT_SPREAD / sqrt(square) : 0.0;
    double low = -40.0 - mean * c->gain, high = 40.0 - mean * c->gain;
    for (int k = 0; k < 40; k++) {
        double mid = (low + high) / 2.0, share = 0.0;
        for (int i = 0; i < SAMPLE; i++)
            share += sigmoid(sum[i] * c->gain + mid);
        *(share < positives * SAMPLE ? &low : &high) = mid;
    }
    c->bias = (low + high) / 2.0;
    yk_free(sum);
    yk_free(index);
    return YK_OK;
}

yk_ctr *yk_ctr_create(const yk_ctr_shape *shape)
{
    yk_ctr *c = yk_alloc(1, sizeof *c + shape->nnz * sizeof *c->f, "generated fields");
    uint32_t *size = yk_alloc(shape->nnz, sizeof *size, "generated fields");
    if (!c || !size)
        goto fail;
    c->nnz = shape->nnz;
    c->weight_key = yk_mix64(shape->seed + 0x5bf03635u);
    c->draw_key = shape->seed;
    choose_sizes(shape, size);
    /* Which field has which size does not depend on the seed: one shape, one layout of the columns. */
    yk_perm order = yk_perm_make(shape->nnz, 0x636c69636bu);
    yk_rng r = yk_rng_seed(0x636c69636bu, shape->nnz);
    uint32_t first = 0;
    for (uint32_t i = 0; i < shape->nnz; i++) {
        uint32_t categories = size[yk_perm_at(&order, i)];
        make_field(&c->f[i], first, categories, &r);
        first += categories;
    }
    if (calibrate(c, shape->positives))
        goto fail;
    yk_free(size);
    return c;
fail:
    yk_free(c);
    yk_free(size);
    return NULL;
}

/* ---- as a source */

static yk_status make_click(const yk_synth *s, uint64_t number, yk_rows *rows)
{
    const yk_ctr *c = s->state;
    uint32_t *index;
    float *value, p;
    yk_status st = yk_rows_sparse(rows, c->nnz, &index, &value);
    if (st)
        return st;
    bool click = yk_ctr_example(c, s->stream + number, index, &p);
    return yk_rows_commit_truth(rows, c->nnz, click, p);
}

yk_status yk__synth_ctr(yk_synth *s, const yk_spec *spec, yk_split split, const yk_source_options *o)
{
    uint64_t nnz, features;
    double positives;
    yk_status st = yk_spec_check(spec, "features nnz examples test seed positives");
    if (!st)
        st = yk_spec_u64(spec, "nnz", 39, 1, 4096, &nnz);
    if (!st)
        st = yk_spec_u64(spec, "features", o && o->features ? o->features : 33762578, 1, UINT32_MAX,
                         &features);
    if (!st)
        st = yk_spec_real(spec, "positives", 0.25, 0.001, 0.999, &positives);
    if (st)
        return st;
    if (features < nnz)
        return yk_fail(YK_EUSAGE,
                       "%s: %llu features are too few for nnz=%llu: each entry of a row needs one of its own",
                       spec->text, (unsigned long long)features, (unsigned long long)nnz);
    s->block = 4096;
    s->make = make_click;
    s->base.kind = YK_ROWS_SPARSE;
    s->base.dim = (size_t)features;
    s->base.classes = 2;
    if ((st = yk__synth_common(s, spec, split, 1000000, 100000)))
        return st;
    const yk_ctr_shape shape = {features, (uint32_t)nnz, positives, s->seed};
    return (s->state = yk_ctr_create(&shape)) ? YK_OK : YK_ESYSTEM;
}
