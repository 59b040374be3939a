/* The kernels of linear.h, compiled once per instruction set. */
#include "kern/linear.h"

#include "kern/vmath.h"
#include <float.h>
#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

/* Prefetch distances in rows: for the start of a row, for its indices, and for the weights of those indices. Each needs the
 * result of the one before. */
enum { START_AHEAD = 24, INDEX_AHEAD = 12, WEIGHT_AHEAD = 6 };
enum { COLD_FROM = 1 << 18 }; /* keys are in order of frequency; this many weights are half of an L2 cache */

/* The first key whose weight is prefetched. An empty batch has no rows. */
static inline uint32_t cold_from(const yk_batch *b)
{
    return b->n && b->rows->raw_keys ? 0 : COLD_FROM;
}

#if defined(__ARM_FEATURE_SVE)
/* Offsets of the weights of a vector of entries; entries that are not in the mask `in` get the offset of key 0. */
static inline svint32_t sve_offsets(const yk_view *v, svbool_t in, const uint32_t *index)
{
    svuint32_t key = svld1_u32(in, index);
    svint32_t at = svreinterpret_s32_u32(key);
    return svadd_n_s32_m(svcmplt_n_u32(in, key, v->hot), at, v->shift);
}
#endif

#if defined(__aarch64__) && !defined(__ARM_FEATURE_SVE)
/* `copies` is a constant: whether this worker has its own copy of hot keys. If so, a conditional select of the table is cheaper
 * than computing the offset of each entry. */
static inline __attribute__((always_inline)) YK_RACY float dot_neon(const yk_view *v, const uint32_t *index,
                                                                    const float *value, size_t n, bool copies)
{
    const float *const shared = v->w, *const own = v->w + v->shift;
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    size_t e = 0;
#define WEIGHT(at) ((copies && index[at] < v->hot ? own : shared)[index[at]])
    if (value)
        for (; e + 4 <= n; e += 4) {
            a += WEIGHT(e) * value[e];
            b += WEIGHT(e + 1) * value[e + 1];
            c += WEIGHT(e + 2) * value[e + 2];
            d += WEIGHT(e + 3) * value[e + 3];
        }
    else
        for (; e + 4 <= n; e += 4) {
            a += WEIGHT(e);
            b += WEIGHT(e + 1);
            c += WEIGHT(e + 2);
            d += WEIGHT(e + 3);
        }
    for (; e < n; e++)
        a += WEIGHT(e) * (value ? value[e] : 1.0f);
#undef WEIGHT
    return (a + b) + (c + d);
}
#endif

static inline YK_RACY float dot(const yk_view *v, const uint32_t *index, const float *value, size_t n)
{
#if defined(__AVX512F__)
    __m512 sum = _mm512_setzero_ps();
    const __m512i hot = _mm512_set1_epi32((int)v->hot), shift = _mm512_set1_epi32(v->shift);
    for (size_t e = 0; e < n; e += 16) {
        __mmask16 in = n - e >= 16 ? 0xffff : (__mmask16)((1u << (n - e)) - 1);
        __m512i at = _mm512_maskz_loadu_epi32(in, index + e);
        at = _mm512_mask_add_epi32(at, _mm512_cmplt_epu32_mask(at, hot), at, shift);
        __m512 w = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), in, at, v->w, 4);
        __m512 x = value ? _mm512_maskz_loadu_ps(in, value + e) : _mm512_set1_ps(1.0f);
        sum = _mm512_fmadd_ps(w, x, sum);
    }
    return _mm512_reduce_add_ps(sum);
#elif defined(__ARM_FEATURE_SVE)
    svfloat32_t sum = svdup_n_f32(0.0f);
    for (size_t e = 0; e < n; e += svcntw()) {
        svbool_t in = svwhilelt_b32_u64(e, n);
        svfloat32_t w = svld1_gather_s32index_f32(in, v->w, sve_offsets(v, in, index + e));
        svfloat32_t x = value ? svld1_f32(in, value + e) : svdup_n_f32(1.0f);
        sum = svmla_f32_m(in, sum, w, x);
    }
    return svaddv_f32(svptrue_b32(), sum);
#elif defined(__aarch64__)
    return v->hot ? dot_neon(v, index, value, n, true) : dot_neon(v, index, value, n, false);
#else
    float sum[4] = {0};
    size_t e = 0;
    for (; e + 4 <= n; e += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += v->w[yk_view_at(v, index[e + j])] * (value ? value[e + j] : 1.0f);
    for (; e < n; e++)
        sum[0] += v->w[yk_view_at(v, index[e])] * (value ? value[e] : 1.0f);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
#endif
}

/* Offsets of the weights of up to 16 entries. */
static inline void offsets(const yk_view *v, const uint32_t *index, size_t n, int32_t *at)
{
#if defined(__AVX512F__)
    __mmask16 in = n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
    __m512i k = _mm512_maskz_loadu_epi32(in, index);
    __mmask16 hot = _mm512_cmplt_epu32_mask(k, _mm512_set1_epi32((int)v->hot));
    _mm512_storeu_si512(at, _mm512_mask_add_epi32(k, hot, k, _mm512_set1_epi32(v->shift)));
#elif defined(__ARM_FEATURE_SVE)
    for (size_t e = 0; e < n; e += svcntw()) {
        svbool_t in = svwhilelt_b32_u64(e, n);
        svst1_s32(in, at + e, sve_offsets(v, in, index + e));
    }
#else
    for (size_t e = 0; e < n; e++)
        at[e] = (int32_t)yk_view_at(v, index[e]);
#endif
}

/* Always inlined: gcc thinks that a function that only prefetches has no effect, and drops calls to it. */
#define PREFETCH static inline __attribute__((always_inline)) YK_RACY

/* Prefetches the cold weights of a later row, those of keys from `from` on. The others are in a cache, and prefetching them
 * as well costs more than all misses together. */
PREFETCH void prefetch_cold(const yk_view *v, uint32_t from, const uint32_t *index, size_t n)
{
#if defined(__AVX512F__)
    const __m512i cold = _mm512_set1_epi32((int)from);
    for (size_t e = 0; e < n; e += 16) {
        __mmask16 in = n - e >= 16 ? 0xffff : (__mmask16)((1u << (n - e)) - 1);
        __m512i k = _mm512_maskz_loadu_epi32(in, index + e);
        for (unsigned m = _mm512_mask_cmpge_epu32_mask(in, k, cold); m; m &= m - 1)
            __builtin_prefetch(v->w + index[e + (size_t)__builtin_ctz(m)], 1);
    }
#elif defined(__aarch64__)
    /* No mask to iterate over, and a branch here would be unpredictable: keys that are not cold prefetch `here` instead. */
    const float here = 0.0f, *const w = v->w;
    if (!from) {
        for (size_t e = 0; e < n; e++)
            __builtin_prefetch(w + index[e], 1);
        return;
    }
    for (size_t e = 0; e < n; e++) {
        const float *at = w + index[e];
        __builtin_prefetch(index[e] >= from ? at : &here, 1);
    }
#else
    (void)v, (void)from, (void)index, (void)n;
#endif
}

/* Every cache line of [begin, end). */
PREFETCH void prefetch_range(const void *begin, const void *end)
{
    for (const char *p = (const char *)((uintptr_t)begin & ~(uintptr_t)63); p < (const char *)end; p += 64)
        __builtin_prefetch(p);
}

/* Prefetches for the rows after row i of the batch, including the announced rows after the batch (b->ahead). */
PREFETCH void prefetch_ahead(const yk_view *v, uint32_t cold, const yk_batch *b, size_t i)
{
    const yk_rows *rows = b->rows;
    size_t end = b->n + b->ahead;
    if (i + START_AHEAD < end)
        __builtin_prefetch(rows->start + b->pick[i + START_AHEAD]);
    if (i + INDEX_AHEAD < end) {
        const uint64_t s = rows->start[b->pick[i + INDEX_AHEAD]],
                       e = rows->start[b->pick[i + INDEX_AHEAD] + 1];
        prefetch_range(rows->index + s, rows->index + e);
        __builtin_prefetch(rows->label + b->pick[i + INDEX_AHEAD]);
        if (rows->value)
            prefetch_range(rows->value + s, rows->value + e);
    }
    if (i + WEIGHT_AHEAD < end) {
        uint64_t s = rows->start[b->pick[i + WEIGHT_AHEAD]];
        prefetch_cold(v, cold, rows->index + s, rows->start[b->pick[i + WEIGHT_AHEAD] + 1] - s);
    }
}

static YK_RACY void margins(const yk_view *v, const yk_batch *b, float *z)
{
    const yk_rows *rows = b->rows;
    const uint32_t cold = cold_from(b);
    for (size_t i = 0; i < b->n; i++) {
        uint64_t s = rows->start[b->pick[i]];
        prefetch_ahead(v, cold, b, i);
        z[i] = dot(v, rows->index + s, rows->value ? rows->value + s : NULL, rows->start[b->pick[i] + 1] - s);
    }
}

/* Prefetches the weights of a row, to read them. Returns the largest index. */
PREFETCH uint32_t prefetch_row(const float *w, const uint32_t *index, size_t n)
{
    uint32_t largest = 0;
    for (size_t e = 0; e < n; e++)
        largest = index[e] > largest ? index[e] : largest;
    for (size_t e = 0; e < n; e++)
        __builtin_prefetch(w + index[e]);
    return largest;
}

static YK_RACY bool margins_unchecked(const yk_view *v, const yk_rows *rows, float *z)
{
    const uint64_t *start = rows->start;
    uint32_t infinite = 0;
    for (size_t ahead = 0; ahead < rows->n + WEIGHT_AHEAD; ahead++) {
        if (ahead < rows->n && start[ahead] < start[ahead + 1] &&
            prefetch_row(v->w, rows->index + start[ahead], (size_t)(start[ahead + 1] - start[ahead])) >=
                rows->dim)
            return false;
        if (ahead < WEIGHT_AHEAD)
            continue;
        const size_t i = ahead - WEIGHT_AHEAD;
        z[i] = dot(v, rows->index + start[i], rows->value ? rows->value + start[i] : NULL,
                   start[i + 1] - start[i]);
        infinite |= !(fabsf(z[i]) <= FLT_MAX);
    }
    return !infinite;
}

/* Four loads, then four stores: no two entries of a row are the same weight, but the processor does not know that, and a load
 * right after a store that may be to the same address stalls. */
static inline __attribute__((always_inline)) YK_RACY void add_at(float *w, const int32_t *at,
                                                                 const float *value, size_t n, float by)
{
    size_t j = 0;
    for (; j + 4 <= n; j += 4) {
        float a = w[at[j]] + (value ? by * value[j] : by);
        float b = w[at[j + 1]] + (value ? by * value[j + 1] : by);
        float c = w[at[j + 2]] + (value ? by * value[j + 2] : by);
        float d = w[at[j + 3]] + (value ? by * value[j + 3] : by);
        w[at[j]] = a;
        w[at[j + 1]] = b;
        w[at[j + 2]] = c;
        w[at[j + 3]] = d;
    }
    for (; j < n; j++)
        w[at[j]] += value ? by * value[j] : by;
}

static inline YK_RACY void add_row(const yk_view *v, const uint32_t *index, const float *value, size_t n,
                                   float by)
{
    if (!v->hot) { /* keys are offsets */
        add_at(v->w, (const int32_t *)index, value, n, by);
        return;
    }
    for (size_t e = 0; e < n; e += 16) {
        int32_t at[16];
        const size_t m = n - e < 16 ? n - e : 16;
        offsets(v, index + e, m, at);
        add_at(v->w, at, value ? value + e : NULL, m, by);
    }
}

/* The same with gather and scatter, for batches of one: the gather of the next example then waits for 3 stores instead of
 * 39. */
static inline YK_RACY void add_row_scatter(const yk_view *v, const uint32_t *index, const float *value,
                                           size_t n, float by)
{
#if defined(__AVX512F__)
    const __m512i hot = _mm512_set1_epi32((int)v->hot), shift = _mm512_set1_epi32(v->shift);
    for (size_t e = 0; e < n; e += 16) {
        __mmask16 in = n - e >= 16 ? 0xffff : (__mmask16)((1u << (n - e)) - 1);
        __m512i at = _mm512_maskz_loadu_epi32(in, index + e);
        at = _mm512_mask_add_epi32(at, _mm512_cmplt_epu32_mask(at, hot), at, shift);
        __m512 w = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), in, at, v->w, 4);
        __m512 x = value ? _mm512_maskz_loadu_ps(in, value + e) : _mm512_set1_ps(1.0f);
        _mm512_mask_i32scatter_ps(v->w, in, at, _mm512_fmadd_ps(_mm512_set1_ps(by), x, w), 4);
    }
#elif defined(__ARM_FEATURE_SVE)
    for (size_t e = 0; e < n; e += svcntw()) {
        svbool_t in = svwhilelt_b32_u64(e, n);
        svint32_t at = sve_offsets(v, in, index + e);
        svfloat32_t w = svld1_gather_s32index_f32(in, v->w, at);
        svfloat32_t x = value ? svld1_f32(in, value + e) : svdup_n_f32(1.0f);
        svst1_scatter_s32index_f32(in, v->w, at, svmla_n_f32_x(in, w, x, by));
    }
#else
    add_row(v, index, value, n, by);
#endif
}

static YK_RACY void add_rows(const yk_view *v, const yk_batch *b, const float *coef)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        const uint64_t s = rows->start[b->pick[i]], n = rows->start[b->pick[i] + 1] - s;
        const float *value = rows->value ? rows->value + s : NULL;
        if (b->n < 3)
            add_row_scatter(v, rows->index + s, value, n, coef[i]);
        else if (value)
            add_row(v, rows->index + s, value, n, coef[i]);
        else
            add_row(v, rows->index + s, NULL, n, coef[i]);
    }
}

/* The loss of one example, in scalars: with one or two examples, latency counts. */
static inline float logistic_one(float x, float y, float *err_out)
{
    if (!(fabsf(x) < 80.0f)) { /* large, infinite or NaN */
        *err_out = (x > 0.0f ? 1.0f : x < 0.0f ? 0.0f : x) - y;
        return x * (1.0f - 2.0f * y) > 0.0f ? fabsf(x) : x == x ? 0.0f : x;
    }
    const float t = -fabsf(x) * 1.44269504f, n = (t + 12582912.0f) - 12582912.0f;
    const float r = (-fabsf(x) - n * 0.693359375f) - n * -2.12194440e-4f;
    const float r2 = r * r; /* Estrin's scheme: a shorter dependency chain */
    const float low = (1.0f + r) + r2 * (0.5f + r * (1.0f / 6.0f));
    const float high = (1.0f / 24.0f + r * (1.0f / 120.0f)) + r2 * (1.0f / 720.0f + r * (1.0f / 5040.0f));
    int32_t exponent = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &exponent, sizeof power);
    const float e = (low + r2 * r2 * high) * power;
    *err_out = (x >= 0.0f ? 1.0f : e) / (1.0f + e) - y;
    /* log(1 + e), e in (0, 1]: 2 atanh(e / (2 + e)) */
    const float s = e / (2.0f + e), s2 = s * s;
    const float log1p_e =
        s *
        (2.0f + s2 * (2.0f / 3.0f +
                      s2 * (2.0f / 5.0f + s2 * (2.0f / 7.0f + s2 * (2.0f / 9.0f + s2 * (2.0f / 11.0f))))));
    const float against = x * (1.0f - 2.0f * y);
    return (against > 0.0f ? against : 0.0f) + log1p_e;
}

static double logistic_few(const float *z, const yk_batch *b, float *err)
{
    double total = 0.0;
    for (size_t i = 0; i < b->n; i++) {
        const float weight = yk_batch_weight(b, i);
        total += (double)weight * (double)logistic_one(z[i], (float)b->rows->label[b->pick[i]], &err[i]);
        err[i] *= weight;
    }
    return total;
}

static YK_RACY void sgd_steps(const yk_view *v, const yk_batch *b, uint32_t bias_key, float lr, float *loss)
{
    const yk_rows *rows = b->rows;
    /* keys without a copy in this worker may be in the cache of another core */
    const uint32_t cold = v->hot ? v->hot : cold_from(b);
    float *bias = bias_key != UINT32_MAX ? v->w + yk_view_at(v, bias_key) : NULL;
    for (size_t i = 0; i < b->n; i++) {
        const uint64_t s = rows->start[b->pick[i]], n = rows->start[b->pick[i] + 1] - s;
        const float *value = rows->value ? rows->value + s : NULL;
        prefetch_ahead(v, cold, b, i);
        float err, z = dot(v, rows->index + s, value, n) + (bias ? *bias : 0.0f);
        loss[i] = logistic_one(z, (float)rows->label[b->pick[i]], &err);
        add_row_scatter(v, rows->index + s, value, n, -lr * err);
        if (bias)
            *bias += -lr * err;
    }
}

static double logistic(const float *z, const yk_batch *b, float *err)
{
    if (b->n < 3)
        return logistic_few(z, b, err);
    const bool weighted = yk_batch_weighted(b);
    double total = 0.0;
    for (size_t i = 0; i < b->n; i += YK_VW) {
        size_t m = b->n - i < YK_VW ? b->n - i : YK_VW;
        float zs[YK_VW] = {0}, ys[YK_VW] = {0};
        for (size_t j = 0; j < m; j++) {
            zs[j] = z[i + j];
            ys[j] = (float)b->rows->label[b->pick[i + j]];
        }
        yk_vf x = yk_vload(zs), y = yk_vload(ys);
        yk_vf magnitude = (yk_vf)((yk_vi)x & 0x7fffffff);
        yk_vf e = yk_vexp(-magnitude); /* at most 1 */
        yk_vf p = yk_vselect(x >= 0.0f, yk_vset(1.0f), e) / (1.0f + e);
        p = yk_vselect(x == x, p, x);
        yk_vf against = x * (1.0f - 2.0f * y);
        yk_vf loss = yk_vmax(against, yk_vset(0.0f)) + yk_vlog(1.0f + e);
        loss = yk_vselect(x == x, loss, x);
        float errs[YK_VW], losses[YK_VW];
        yk_vstore(errs, p - y);
        yk_vstore(losses, loss);
        for (size_t j = 0; j < m; j++) {
            const float weight = weighted ? yk_batch_weight(b, i + j) : 1.0f;
            err[i + j] = weight * errs[j];
            total += (double)weight * (double)losses[j];
        }
    }
    return total;
}

/* ---- merging ---- */

#if defined(__AVX512F__)
/* The slots of 8 keys. A slot is key << 32 | stamp + index. */
typedef struct {
    __m512i index;
    __mmask8 taken, same; /* by a key of this batch; by this key */
} slots;

static inline slots read_slots(__m512i slot, __m512i key, __m512i stamp, __m512i cap)
{
    const __m512i low = _mm512_set1_epi64(UINT32_MAX);
    const __m512i index = _mm512_and_si512(_mm512_sub_epi64(slot, stamp), low);
    return (slots){index, _mm512_cmplt_epu64_mask(index, cap),
                   _mm512_cmpeq_epu64_mask(_mm512_srli_epi64(slot, 32), key)};
}

/* Stores the new ones of 8 keys. Where two of them found the same free slot, a scatter would overwrite the first. */
static inline void write_slots(yk_merger *m, __mmask8 fresh, __m512i at, __m512i slot)
{
    __mmask8 equal = _mm512_mask_cmpeq_epu64_mask(fresh, at, _mm512_alignr_epi64(at, at, 1)) |
                     _mm512_mask_cmpeq_epu64_mask(fresh, at, _mm512_alignr_epi64(at, at, 2)) |
                     _mm512_mask_cmpeq_epu64_mask(fresh, at, _mm512_alignr_epi64(at, at, 3)) |
                     _mm512_mask_cmpeq_epu64_mask(fresh, at, _mm512_alignr_epi64(at, at, 4));
    if (__builtin_expect(!equal, 1)) {
        _mm512_mask_i64scatter_epi64(m->slot, fresh, at, slot, 8);
        return;
    }
    uint64_t first[8], each[8];
    _mm512_storeu_si512(first, at);
    _mm512_storeu_si512(each, slot);
    for (unsigned left = fresh; left; left &= left - 1) {
        size_t to = first[__builtin_ctz(left)];
        while ((uint32_t)m->slot[to] - m->stamp < m->cap)
            to = (to + 1) & (m->slots - 1);
        m->slot[to] = each[__builtin_ctz(left)];
    }
}

/* 8 keys at a time. */
static void merge(yk_merger *m, const uint32_t *key, const float *value, float scale, size_t n)
{
    const __m512i stamp = _mm512_set1_epi64(m->stamp), cap = _mm512_set1_epi64((long long)m->cap),
                  last = _mm512_set1_epi64((long long)m->slots - 1), one = _mm512_set1_epi64(1),
                  factor = _mm512_set1_epi64((long long)YK__MERGER_FACTOR),
                  count = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m128i shift = _mm_cvtsi32_si128(m->shift);
    for (size_t e = 0; e < n; e += 8) {
        const __mmask8 in = n - e >= 8 ? 0xff : (__mmask8)((1u << (n - e)) - 1);
        const __m256i key32 = _mm256_maskz_loadu_epi32(in, key + e);
        const __m512i k = _mm512_cvtepu32_epi64(key32);
        __m512i at = _mm512_srl_epi64(_mm512_mullo_epi64(k, factor), shift);
        __m512i found = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), in, at, m->slot, 8);
        slots s = read_slots(found, k, stamp, cap);
        for (__mmask8 other; (other = in & s.taken & (__mmask8)~s.same);) {
            at = _mm512_and_si512(_mm512_mask_add_epi64(at, other, at, one), last);
            found = _mm512_mask_i64gather_epi64(found, other, at, m->slot, 8);
            s = read_slots(found, k, stamp, cap);
        }
        const __mmask8 known = in & s.taken, fresh = in & (__mmask8)~s.taken;
        const unsigned more = (unsigned)__builtin_popcount(fresh);
        __m256 x = value ? _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_maskz_loadu_ps(in, value + e))
                         : _mm256_set1_ps(scale);
        __asm__("" : "+v"(x)); /* no fused multiply-add */
        const __m256 sum =
            _mm256_add_ps(_mm512_mask_i64gather_ps(_mm256_setzero_ps(), known, s.index, m->value, 4), x);
        _mm512_mask_i64scatter_ps(m->value, known, s.index, sum, 4);
        if (!fresh)
            continue;
        const __mmask8 first = (__mmask8)((1u << more) - 1);
        _mm256_mask_storeu_ps(m->value + m->n, first, _mm256_maskz_compress_ps(fresh, sum));
        _mm256_mask_storeu_epi32(m->key + m->n, first, _mm256_maskz_compress_epi32(fresh, key32));
        const __m512i index =
            _mm512_maskz_expand_epi64(fresh, _mm512_add_epi64(_mm512_set1_epi64((long long)m->n), count));
        const __m512i slot = _mm512_or_si512(_mm512_slli_epi64(k, 32), _mm512_add_epi64(stamp, index));
        write_slots(m, fresh, at, slot);
        m->n += more;
    }
}
#else
#define merge yk_merger_add_all
#endif

const yk_linear_ops YK_ISA_NAME(yk_linear) = {margins,  margins_unchecked, add_rows,
                                              logistic, sgd_steps,         merge};
