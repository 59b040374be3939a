/* synth:ctr, clicks with known probabilities: sparse rows of `nnz` ones among `features` columns. The label is drawn with a
 * probability that the rows carry (yk_rows.truth), so the best possible log loss and AUC are known.
 *
 *     synth:ctr?features=33762578&nnz=39&examples=1000000&test=100000&positives=0.25&interactions=0&seed=1
 *
 * Each of the nnz fields has a range of columns, its categories. The ranges grow geometrically, from about three categories
 * to millions, in scrambled order. A row has exactly one category of each field:
 *
 *     columns | field 0 |f1|          field 2            |  field 3   | ...        row: one entry in each
 *
 * Within a field the categories follow a power law, with a different exponent for each field. Category ranks are grouped
 * in octaves of 1, 2, 4, 8 ... ranks. An alias table selects the octave, and the rank within it is uniform: a stepwise Zipf
 * distribution, in integer arithmetic. The columns of a field are a permutation of its ranks, so that the order of columns
 * does not reveal the ranks.
 *
 * Every column has a planted weight: a hash of its number, about normal. Rare categories have smaller weights, because
 * nothing could learn them. The label is 1 with probability sigmoid(bias + gain * sum of weights). Gain and bias are
 * calibrated on a sample when the source is opened, so that the logits have the same spread, and the labels the requested
 * fraction of positives, for every seed and given.
 *
 * With `interactions=S`, every column also has a planted vector of RANK numbers, and the logits get the products of all pairs
 * of vectors in a row: a factorization machine (Rendle 2010). Within a field the vectors have mean zero, so that a linear model
 * can explain almost nothing of these products. Their standard deviation is S times that of the linear part, which stays the
 * same, as do the rows. Only labels and probabilities depend on S.
 */
#include "base/perm.h"
#include "base/rng.h"
#include "data/exact.h"
#include "data/synth.h"
#include <math.h>
#include <string.h>

#define OCTAVES      32
#define SMALLEST     3.0 /* categories in the smallest field, if there are enough columns */
#define LOGIT_SPREAD 1.38
#ifdef YK_FUZZING
#define SAMPLE 64
#else
#define SAMPLE 8192
#endif
#define RANK      4
#define SAMPLE_AT ((uint64_t)1 << 62) /* streams of the sample: in neither split */

typedef struct {
    uint32_t first;      /* column */
    uint32_t categories; /* columns */
    uint32_t octaves;
    uint32_t factor, shift; /* rank r is column first + (r * factor + shift) mod categories */
    uint64_t reciprocal;    /* 2^64 / categories, rounded down: replaces the division of the modulo */
    /* The alias table of the octaves (Walker): slot i means octave i below below[i], and octave other[i] from there on. */
    uint32_t below[OCTAVES];
    uint8_t other[OCTAVES];
    uint32_t size[OCTAVES];  /* ranks in the octave; the first is 2^octave - 1 */
    int32_t weight[OCTAVES]; /* standard deviation of the weights of these ranks */
    double mean[RANK];       /* of the vectors, subtracted from each; 0 until it is known */
} field;

typedef struct {
    uint64_t features; /* nnz .. 2^32 - 1 */
    double positives;  /* fraction of examples with label 1 */
    /* Standard deviation of the pairwise part of the logits, relative to the linear one. 0: rows have no interactions. */
    double interactions;
    uint64_t weight_key, vector_key, draw_key;
    double gain, pair_gain, bias;
    uint32_t nnz;
    field f[];
} generator;

/* An integer, about normal: the sum of the four 16-bit parts of a hash, minus its mean. */
static int32_t normal_of(uint64_t hash)
{
    hash = (hash & 0x0000ffff0000ffffu) + ((hash >> 16) & 0x0000ffff0000ffffu);
    return (int32_t)((hash & 0xffffffffu) + (hash >> 32)) - 2 * 65535;
}

/* ---- the fields */

/* SMALLEST * (1 + ratio + ratio^2 + ...), nnz terms, but stops above 1e12. */
static double geometric_sum(double ratio, uint32_t nnz)
{
    double sum = 0.0, term = SMALLEST;
    for (uint32_t i = 0; i < nnz && sum < 1e12; i++, term *= ratio)
        sum += term;
    return sum;
}

/* Sizes that add up to `features`: geometric from SMALLEST where they fit, otherwise nearly equal. */
static void choose_sizes(const generator *c, uint32_t *size)
{
    double total = (double)c->features, low = 1.0, high = total;
    uint32_t n = c->nnz;
    uint64_t sum = 0;
    double term = SMALLEST;
    if (geometric_sum(1.0, n) >= total || n == 1) {
        high = 1.0;
        term = (double)(c->features / n);
    }
    for (int i = 0; i < 100 && high > 1.0; i++) {
        double mid = (low + high) / 2.0;
        *(geometric_sum(mid, n) < total ? &low : &high) = mid;
    }
    for (uint32_t i = 0; i < n; i++, term *= low) {
        uint64_t left = c->features - sum - (n - 1 - i); /* each remaining field needs at least one */
        size[i] = (uint32_t)(term < (double)left ? (uint64_t)term : left);
        sum += size[i];
    }
    size[n - 1] += (uint32_t)(c->features - sum);
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

/* Vose's method: fills slots below the mean from those above it. */
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
    /* probability of an octave relative to the one before: 2^(1 - exponent), exponents from 1.05 to 1.4 */
    double ratio = 0.76 + 0.21 * yk_rng_unit(r);
    double share[OCTAVES], part = 1.0;
    uint32_t importance = 128 + yk_rng_below(r, 128); /* some fields are more predictive than others */
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

/* A category that was drawn. */
typedef struct {
    uint32_t column, octave;
} category;

static category draw_category(const field *f, yk_rng *r)
{
    uint64_t u = yk_rng_u64(r);
    uint64_t slot = (u >> 32) * f->octaves;
    uint32_t o = (uint32_t)(slot >> 32);
    uint32_t stay = -(uint32_t)((uint32_t)slot < f->below[o]); /* a mask: a branch would be unpredictable */
    o = (o & stay) | (f->other[o] & ~stay);
    uint64_t rank = ((uint64_t)1 << o) - 1 + ((uint64_t)(uint32_t)u * f->size[o] >> 32);
    uint64_t x = rank * f->factor + f->shift;
    uint64_t q = (uint64_t)((unsigned __int128)x * f->reciprocal >> 64); /* the quotient or one less */
    uint64_t offset = x - q * f->categories;
    offset -= offset >= f->categories ? f->categories : 0;
    return (category){f->first + (uint32_t)offset, o};
}

/* The vector of a category. It shrinks with the square of the weights: a vector has more numbers to learn than a weight. */
static void vector_of(const generator *c, const field *f, category k, double out[RANK])
{
    const double scale = (double)f->weight[k.octave] * (double)f->weight[k.octave];
    for (uint64_t i = 0; i < RANK; i++)
        out[i] =
            (double)normal_of(yk_mix64(c->vector_key + k.column * (uint64_t)RANK + i)) * scale - f->mean[i];
}

/* The two parts of a logit, without their gains. */
typedef struct {
    double linear, pairs;
} score;

static score draw_row(const generator *c, yk_rng *r, uint32_t *index)
{
    int64_t weight = 0;
    double sum[RANK] = {0.0}, squares = 0.0, pairs = 0.0, v[RANK];
    for (uint32_t i = 0; i < c->nnz; i++) {
        const field *f = &c->f[i];
        const category k = draw_category(f, r);
        index[i] = k.column;
        weight += (int64_t)normal_of(yk_mix64(c->weight_key + k.column)) * f->weight[k.octave];
        if (c->interactions == 0.0)
            continue;
        vector_of(c, f, k, v);
        for (int d = 0; d < RANK; d++) {
            sum[d] += v[d];
            squares += v[d] * v[d];
        }
    }
    for (int d = 0; d < RANK; d++) /* the pairs are half of (sum v)^2 - sum v^2 */
        pairs += sum[d] * sum[d];
    return (score){(double)weight, (pairs - squares) / 2.0};
}

static double logit_of(const generator *c, score s)
{
    return s.linear * c->gain + s.pairs * c->pair_gain;
}

/* ---- calibration on a sample */

/* Finds the mean vector of field `i`. */
static void center_vectors(generator *c, uint32_t i)
{
    field *f = &c->f[i];
    yk_rng r = yk_rng_seed(c->draw_key, SAMPLE_AT + SAMPLE + i);
    double mean[RANK] = {0.0}, v[RANK];
    for (int k = 0; k < SAMPLE; k++) {
        vector_of(c, f, draw_category(f, &r), v);
        for (int d = 0; d < RANK; d++)
            mean[d] += v[d] / SAMPLE;
    }
    memcpy(f->mean, mean, sizeof mean);
}

static double spread_of(const double *x)
{
    double mean = 0.0, square = 0.0;
    for (int i = 0; i < SAMPLE; i++)
        mean += x[i] / SAMPLE;
    for (int i = 0; i < SAMPLE; i++)
        square += (x[i] - mean) * (x[i] - mean) / SAMPLE;
    return sqrt(square);
}

/* Sets the gains and the bias so that a sample has the right spread of logits and the right fraction of positives. */
static yk_status calibrate(generator *c, yk_arena *a)
{
    double *linear = yk_arena_alloc(a, SAMPLE, sizeof *linear, "a sample"),
           *pairs = yk_arena_alloc(a, SAMPLE, sizeof *pairs, "a sample");
    uint32_t *index = yk_arena_alloc(a, c->nnz, sizeof *index, "a sample");
    if (a->status)
        return a->status;
    for (uint32_t i = 0; c->interactions > 0.0 && i < c->nnz; i++)
        center_vectors(c, i);
    double mean = 0.0;
    for (int i = 0; i < SAMPLE; i++) {
        yk_rng r = yk_rng_seed(c->draw_key, SAMPLE_AT + (uint64_t)i);
        const score s = draw_row(c, &r, index);
        linear[i] = s.linear;
        pairs[i] = s.pairs;
        mean += linear[i] / SAMPLE;
    }
    const double spread = spread_of(linear), pair_spread = spread_of(pairs);
    c->gain = spread > 0.0 ? LOGIT_SPREAD / spread : 0.0;
    c->pair_gain = pair_spread > 0.0 ? c->interactions * LOGIT_SPREAD / pair_spread : 0.0;
    double *odds_against = linear; /* of each row without a bias: exp(-logit) */
    for (int i = 0; i < SAMPLE; i++)
        odds_against[i] = yk__exact_exp(-logit_of(c, (score){linear[i], pairs[i]}));
    double low = -40.0 - mean * c->gain, high = 40.0 - mean * c->gain;
    for (int k = 0; k < 40; k++) {
        double mid = (low + high) / 2.0, share = 0.0, factor = yk__exact_exp(-mid);
        for (int i = 0; i < SAMPLE; i++)
            share += 1.0 / (1.0 + odds_against[i] * factor);
        *(share < c->positives * SAMPLE ? &low : &high) = mid;
    }
    c->bias = (low + high) / 2.0;
    return YK_OK;
}

/* Makes the fields, whose layout depends on the shape, not on the seed. */
static yk_status make_fields(generator *c, uint64_t seed, yk_arena *a)
{
    uint32_t *size = yk_arena_alloc(a, c->nnz, sizeof *size, "generated fields");
    if (!size)
        return YK_ESYSTEM;
    c->weight_key = yk_mix64(seed + 0x5bf03635u);
    c->vector_key = yk_mix64(seed + 0x7061697273u);
    c->draw_key = seed;
    choose_sizes(c, size);
    yk_perm order = yk_perm_make(c->nnz, 0x636c69636bu);
    yk_rng r = yk_rng_seed(0x636c69636bu, c->nnz);
    uint32_t first = 0;
    for (uint32_t i = 0; i < c->nnz; i++) {
        uint32_t categories = size[yk_perm_at(&order, i)];
        make_field(&c->f[i], first, categories, &r);
        first += categories;
    }
    return calibrate(c, a);
}

static yk_status make_click(const yk_synth *s, uint64_t number, yk_rows *rows)
{
    const generator *c = s->state;
    uint32_t *index;
    float *value;
    uint16_t *of = NULL; /* field numbers */
    yk_status st = yk_rows_sparse(rows, c->nnz, &index, &value);
    if (st || (s->base.fields > 1 && (st = yk_rows_fields(rows, c->nnz, &of))))
        return st;
    for (uint32_t i = 0; of && i < c->nnz; i++)
        of[i] = (uint16_t)i;
    yk_rng r = yk_rng_seed(c->draw_key, s->stream + number);
    const double z = logit_of(c, draw_row(c, &r, index)) + c->bias, p = 1.0 / (1.0 + yk__exact_exp(-z));
    st = yk_rows_commit(rows, c->nnz, yk_rng_unit(&r) < p);
    return st ? st : yk_rows_set_truth(rows, (float)p);
}

yk_status yk__synth_ctr(yk_synth *s)
{
    yk_spec *spec = &s->base.parsed;
    const uint64_t wanted = s->base.options.features;
    yk_status st = yk__synth_common(s, 4096, 1000000, 100000);
    const uint32_t nnz = (uint32_t)yk_spec_u64(spec, "nnz", 39, 1, 4096);
    const uint64_t features = yk_spec_u64(spec, "features", wanted ? wanted : 33762578, 1, UINT32_MAX);
    const double positives = yk_spec_real(spec, "positives", 0.25, 0.001, 0.999),
                 interactions = yk_spec_real(spec, "interactions", 0.0, 0.0, 100.0);
    const bool fields = yk__spec_fields(&s->base);
    if (st || (st = spec->status))
        return st;
    if (features < nnz)
        return yk_fail(YK_EUSAGE, "%s: %llu feature%s too few for nnz=%u: each field needs at least one",
                       spec->text, (unsigned long long)features, features == 1 ? " is" : "s are", nnz);
    s->make = make_click;
    s->base.kind = YK_ROWS_SPARSE;
    s->base.dim = (size_t)features;
    s->base.classes = 2;
    s->base.fields = fields ? nnz : 1;
    generator *c = s->state =
        yk_arena_alloc(&s->base.arena, 1, sizeof *c + nnz * sizeof *c->f, "generated fields");
    if (!c)
        return YK_ESYSTEM;
    *c = (generator){.features = features, .nnz = nnz, .positives = positives, .interactions = interactions};
    return make_fields(c, s->seed, &s->base.arena);
}
