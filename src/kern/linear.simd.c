/* The kernels of linear.h, compiled once per instruction set. */
#include "kern/linear.h"

#include "kern/vmath.h"
#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

/* How many rows ahead their starts, their indices and the weights behind those are fetched: each needs the one
 * before it to have arrived. */
enum { START_AHEAD = 24, INDEX_AHEAD = 12, WEIGHT_AHEAD = 6 };
enum {
    COLD_FROM = 1 << 18
}; /* keys are in order of frequency; this many weights are half of a level-2 cache */

/* ---- sparse rows against one weight per column ---- */

#if defined(__ARM_FEATURE_SVE)
/* Where the weights of the entries in a vector lie; those that `in` leaves out are key 0. */
static inline svint32_t sve_places(const yk_view *v, svbool_t in, const uint32_t *index)
{
    svuint32_t key = svld1_u32(in, index);
    svint32_t at = svreinterpret_s32_u32(key);
    return svadd_n_s32_m(svcmplt_n_u32(in, key, v->hot), at, v->shift);
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
        svfloat32_t w = svld1_gather_s32index_f32(in, v->w, sve_places(v, in, index + e));
        svfloat32_t x = value ? svld1_f32(in, value + e) : svdup_n_f32(1.0f);
        sum = svmla_f32_m(in, sum, w, x);
    }
    return svaddv_f32(svptrue_b32(), sum);
#elif defined(__aarch64__)
    /* One conditional select says from which table: less than working out each entry's place. */
    const float *const shared = v->w, *const own = v->w + v->shift;
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    size_t e = 0;
#define WEIGHT(at) ((index[at] < v->hot ? own : shared)[index[at]])
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

/* Where the weights of up to 16 entries lie. */
static inline void places(const yk_view *v, const uint32_t *index, size_t n, int32_t *at)
{
#if defined(__AVX512F__)
    __mmask16 in = n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
    __m512i k = _mm512_maskz_loadu_epi32(in, index);
    __mmask16 hot = _mm512_cmplt_epu32_mask(k, _mm512_set1_epi32((int)v->hot));
    _mm512_storeu_si512(at, _mm512_mask_add_epi32(k, hot, k, _mm512_set1_epi32(v->shift)));
#elif defined(__ARM_FEATURE_SVE)
    for (size_t e = 0; e < n; e += svcntw()) {
        svbool_t in = svwhilelt_b32_u64(e, n);
        svst1_s32(in, at + e, sve_places(v, in, index + e));
    }
#else
    for (size_t e = 0; e < n; e++)
        at[e] = (int32_t)yk_view_at(v, index[e]);
#endif
}

/* These are inlined by force: a function that only fetches has no effect that gcc can see, and it would drop the call. */
#define FETCH static inline __attribute__((always_inline)) YK_RACY

/* Fetches the weights of a row to come that are not hot: those are in a cache, and fetching them too costs more than
 * all misses together. Cold are keys from `from` on. */
FETCH void fetch_cold(const yk_view *v, uint32_t from, const uint32_t *index, size_t n)
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
    /* There is no mask to walk, and no branch here could be predicted: what is not cold fetches this place instead. */
    const float here = 0.0f, *const w = v->w;
    for (size_t e = 0; e < n; e++) {
        const float *at = w + index[e];
        __builtin_prefetch(index[e] >= from ? at : &here, 1);
    }
#else
    (void)v, (void)from, (void)index, (void)n;
#endif
}

/* Every cache line of [begin, end), the last one too. */
FETCH void fetch_range(const void *begin, const void *end)
{
    for (const char *p = (const char *)((uintptr_t)begin & ~(uintptr_t)63); p < (const char *)end; p += 64)
        __builtin_prefetch(p);
}

/* Reads rows that may not have arrived from memory yet: starts of the farthest, indices of the nearer ones. `i` may lie
 * in the part of pick that is only announced. */
FETCH void fetch_ahead(const yk_view *v, uint32_t cold, const yk_batch *b, size_t i)
{
    const yk_rows *rows = b->rows;
    size_t end = b->n + b->ahead;
    if (i + START_AHEAD < end)
        __builtin_prefetch(rows->start + b->pick[i + START_AHEAD]);
    if (i + INDEX_AHEAD < end) {
        const uint64_t s = rows->start[b->pick[i + INDEX_AHEAD]],
                       e = rows->start[b->pick[i + INDEX_AHEAD] + 1];
        fetch_range(rows->index + s, rows->index + e);
        __builtin_prefetch(rows->label + b->pick[i + INDEX_AHEAD]);
        if (rows->value)
            fetch_range(rows->value + s, rows->value + e);
    }
    if (i + WEIGHT_AHEAD < end) {
        uint64_t s = rows->start[b->pick[i + WEIGHT_AHEAD]];
        fetch_cold(v, cold, rows->index + s, rows->start[b->pick[i + WEIGHT_AHEAD] + 1] - s);
    }
}

static YK_RACY void margins(const yk_view *v, const yk_batch *b, float *z)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        uint64_t s = rows->start[b->pick[i]];
        fetch_ahead(v, COLD_FROM, b, i);
        z[i] = dot(v, rows->index + s, rows->value ? rows->value + s : NULL, rows->start[b->pick[i] + 1] - s);
    }
}

/* Four loads, then four stores: within a row no two entries are the same weight, but the processor does not know, and
 * a load right behind a store that might be to the same place makes it wait or start over. */
static inline YK_RACY void add_row(const yk_view *v, const uint32_t *index, const float *value, size_t n,
                                   float by)
{
    float *w = v->w;
    for (size_t e = 0; e < n; e += 16) {
        int32_t at[16];
        const size_t m = n - e < 16 ? n - e : 16;
        size_t j = 0;
        places(v, index + e, m, at);
        for (; j + 4 <= m; j += 4) {
            float a = w[at[j]] + (value ? by * value[e + j] : by);
            float b = w[at[j + 1]] + (value ? by * value[e + j + 1] : by);
            float c = w[at[j + 2]] + (value ? by * value[e + j + 2] : by);
            float d = w[at[j + 3]] + (value ? by * value[e + j + 3] : by);
            w[at[j]] = a;
            w[at[j + 1]] = b;
            w[at[j + 2]] = c;
            w[at[j + 3]] = d;
        }
        for (; j < m; j++)
            w[at[j]] += value ? by * value[e + j] : by;
    }
}

/* The same by gather and scatter, for batches of one: the next example's gather then waits for three stores, not for
 * thirty-nine. */
static inline YK_RACY void add_row_at_once(const yk_view *v, const uint32_t *index, const float *value,
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
        svint32_t at = sve_places(v, in, index + e);
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
            add_row_at_once(v, rows->index + s, value, n, coef[i]);
        else if (value)
            add_row(v, rows->index + s, value, n, coef[i]);
        else
            add_row(v, rows->index + s, NULL, n, coef[i]);
    }
}

/* One example's loss, in scalars: in batches of one or two what counts is how soon the error is known. */
static inline float logistic_one(float x, float y, float *err_out)
{
    if (!(fabsf(x) < 80.0f)) { /* far out, infinite or NaN */
        *err_out = (x > 0.0f ? 1.0f : x < 0.0f ? 0.0f : x) - y;
        return x * (1.0f - 2.0f * y) > 0.0f ? fabsf(x) : x == x ? 0.0f : x;
    }
    const float t = -fabsf(x) * 1.44269504f, n = (t + 12582912.0f) - 12582912.0f;
    const float r = (-fabsf(x) - n * 0.693359375f) - n * -2.12194440e-4f;
    const float r2 = r * r; /* Estrin's order: a shorter chain */
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
    for (size_t i = 0; i < b->n; i++)
        total += (double)logistic_one(z[i], (float)b->rows->label[b->pick[i]], &err[i]);
    return total;
}

static YK_RACY void descend(const yk_view *v, const yk_batch *b, uint32_t bias_key, float lr, float *loss)
{
    const yk_rows *rows = b->rows;
    /* what a worker with copies has none of may be in the cache of another core */
    const uint32_t cold = v->hot ? v->hot : COLD_FROM;
    float *bias = bias_key != UINT32_MAX ? v->w + yk_view_at(v, bias_key) : NULL;
    for (size_t i = 0; i < b->n; i++) {
        const uint64_t s = rows->start[b->pick[i]], n = rows->start[b->pick[i] + 1] - s;
        const float *value = rows->value ? rows->value + s : NULL;
        fetch_ahead(v, cold, b, i);
        float err, z = dot(v, rows->index + s, value, n) + (bias ? *bias : 0.0f);
        loss[i] = logistic_one(z, (float)rows->label[b->pick[i]], &err);
        add_row_at_once(v, rows->index + s, value, n, -lr * err);
        if (bias)
            *bias += -lr * err;
    }
}

static double logistic(const float *z, const yk_batch *b, float *err)
{
    if (b->n < 3)
        return logistic_few(z, b, err);
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
        yk_vf e = yk_vexp(-magnitude); /* never above 1 */
        yk_vf p = yk_vselect(x >= 0.0f, yk_vset(1.0f), e) / (1.0f + e);
        p = yk_vselect(x == x, p, x);
        yk_vf against = x * (1.0f - 2.0f * y);
        yk_vf loss = yk_vmax(against, yk_vset(0.0f)) + yk_vlog(1.0f + e);
        loss = yk_vselect(x == x, loss, x);
        float errs[YK_VW], losses[YK_VW];
        yk_vstore(errs, p - y);
        yk_vstore(losses, loss);
        for (size_t j = 0; j < m; j++) {
            err[i + j] = errs[j];
            total += (double)losses[j];
        }
    }
    return total;
}

/* ---- sparse rows against a matrix with a few weights per column ---- */

/* Appends the non-zeros of a row to index[] and x[]; returns their number. Writes up to 16 entries more than that. */
#if defined(__AVX512F__)
/* Where bytes themselves can be compressed: 64 pixels at a time, of which a few are left, as bytes; only these become
 * columns and floats. Returns how far it got; *n_out counts. */
__attribute__((target("avx512vbmi2"))) static size_t pack_bytes(const uint8_t *row, size_t dim, float scale,
                                                                uint32_t *index, float *x, size_t *n_out)
{
    static const uint8_t number[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                       32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                       48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    const __m512i lane = _mm512_loadu_si512(number);
    size_t n = 0, d = 0;
    for (; d + 64 <= dim; d += 64) {
        const __m512i bytes = _mm512_loadu_si512(row + d);
        const __mmask64 some = _mm512_test_epi8_mask(bytes, bytes);
        const size_t count = (size_t)__builtin_popcountll(some);
        uint8_t left[64], at[64];
        if (!count)
            continue;
        _mm512_storeu_si512(left, _mm512_maskz_compress_epi8(some, bytes));
        _mm512_storeu_si512(at, _mm512_maskz_compress_epi8(some, lane));
        for (size_t k = 0; k < count; k += 16) {
            const __m512i column = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(at + k)));
            const __m512i value = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(left + k)));
            _mm512_storeu_si512(index + n + k, _mm512_add_epi32(column, _mm512_set1_epi32((int)d)));
            _mm512_storeu_ps(x + n + k, _mm512_mul_ps(_mm512_cvtepi32_ps(value), _mm512_set1_ps(scale)));
        }
        n += count;
    }
    *n_out = n;
    return d;
}
#endif

static size_t pack_u8(const uint8_t *row, size_t dim, float scale, uint32_t *index, float *x)
{
    size_t n = 0, d = 0;
#if defined(__AVX512F__)
    if (__builtin_cpu_supports("avx512vbmi2"))
        d = pack_bytes(row, dim, scale, index, x, &n);
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (; d + 16 <= dim; d += 16) {
        __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(row + d)));
        __mmask16 some = _mm512_test_epi32_mask(bytes, bytes);
        __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(bytes), _mm512_set1_ps(scale));
        __m512i column = _mm512_add_epi32(lane, _mm512_set1_epi32((int)d));
        _mm512_storeu_si512(index + n, _mm512_maskz_compress_epi32(some, column));
        _mm512_storeu_ps(x + n, _mm512_maskz_compress_ps(some, f));
        n += (size_t)__builtin_popcount(some);
    }
#elif defined(__ARM_FEATURE_SVE)
    for (; d < dim; d += svcntw()) {
        svbool_t in = svwhilelt_b32_u64(d, dim);
        svuint32_t bytes = svld1ub_u32(in, row + d);
        svbool_t some = svcmpne_n_u32(in, bytes, 0);
        svfloat32_t f = svmul_n_f32_x(in, svcvt_f32_u32_x(in, bytes), scale);
        svst1_u32(svptrue_b32(), index + n, svcompact_u32(some, svindex_u32((uint32_t)d, 1)));
        svst1_f32(svptrue_b32(), x + n, svcompact_f32(some, f));
        n += svcntp_b32(in, some);
    }
#else
    for (; d + 8 <= dim; d += 8) {
        uint64_t eight;
        memcpy(&eight, row + d, 8);
        if (!eight)
            continue;
        for (size_t j = d; j < d + 8; j++) { /* without branches: which pixels are zero is hard to predict */
            index[n] = (uint32_t)j;
            x[n] = (float)row[j] * scale;
            n += row[j] != 0;
        }
    }
#endif
    for (; d < dim; d++) {
        index[n] = (uint32_t)d;
        x[n] = (float)row[d] * scale;
        n += row[d] != 0;
    }
    return n;
}

static size_t pack_f32(const float *row, size_t dim, uint32_t *index, float *x)
{
    size_t n = 0;
#if defined(__ARM_FEATURE_SVE)
    for (size_t d = 0; d < dim; d += svcntw()) {
        svbool_t in = svwhilelt_b32_u64(d, dim);
        svfloat32_t f = svld1_f32(in, row + d);
        svbool_t some = svcmpne_n_f32(in, f, 0.0f);
        svst1_u32(svptrue_b32(), index + n, svcompact_u32(some, svindex_u32((uint32_t)d, 1)));
        svst1_f32(svptrue_b32(), x + n, svcompact_f32(some, f));
        n += svcntp_b32(in, some);
    }
#else
    for (size_t d = 0; d < dim; d++) {
        index[n] = (uint32_t)d;
        x[n] = row[d];
        n += row[d] != 0.0f;
    }
#endif
    return n;
}

static void pack(const yk_batch *b, yk_rows *packed)
{
    const yk_rows *rows = b->rows;
    size_t n = 0;
    packed->start[0] = 0;
    for (size_t i = 0; i < b->n; i++) {
        size_t at = b->pick[i] * rows->dim;
        if (i + 1 < b->n + b->ahead) {
            const char *next = rows->kind == YK_ROWS_U8
                                   ? (const char *)(rows->u8 + b->pick[i + 1] * rows->dim)
                                   : (const char *)(rows->f32 + b->pick[i + 1] * rows->dim);
            for (size_t line = 0; line < 16; line++)
                __builtin_prefetch(next + 64 * line);
        }
        n += rows->kind == YK_ROWS_U8
                 ? pack_u8(rows->u8 + at, rows->dim, rows->scale, packed->index + n, packed->value + n)
                 : pack_f32(rows->f32 + at, rows->dim, packed->index + n, packed->value + n);
        packed->start[i + 1] = n;
        packed->label[i] = rows->label[b->pick[i]];
    }
    packed->n = b->n;
}

/* A piece of a row of the matrix: 4, 8, 12 or 16 floats, as whole vectors. No masks: a masked store that overlaps the next
 * load, which begins where the store's live lanes end, cannot be forwarded, and costs a dozen cycles each time. */
#if defined(__AVX__) || YK_VW == 8
enum { WIDE = 8 };
typedef float wide __attribute__((vector_size(32)));
#else
enum { WIDE = 4 };
typedef yk_v4 wide;
#endif

static inline wide load(const float *p)
{
    wide v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, wide v)
{
    memcpy(p, &v, sizeof v);
}

#define ALWAYS static inline __attribute__((always_inline))

/* out[0 .. 4q) = bias + sum of x * W[column]; q is a constant at each call. Two sums are under way for each piece. */
#if defined(__AVX512F__)
/* Up to 16 classes are one vector with a mask (reading, a mask costs nothing; writing, it does: add_block). Four sums at a
 * time: with two, a sum would wait for the one before. */
static void sum_few(const float *W, size_t ld, const float *bias, const uint32_t *column, const float *x,
                    size_t n, float *out)
{
    const __mmask16 some = (__mmask16)((1u << ld) - 1);
    __m512 sum[4] = {_mm512_maskz_loadu_ps(some, bias), _mm512_setzero_ps(), _mm512_setzero_ps(),
                     _mm512_setzero_ps()};
    size_t e = 0;
    for (; e + 4 <= n; e += 4)
        for (int k = 0; k < 4; k++)
            sum[k] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(some, W + (size_t)column[e + (size_t)k] * ld),
                                     _mm512_set1_ps(x ? x[e + (size_t)k] : 1.0f), sum[k]);
    for (; e < n; e++)
        sum[0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(some, W + (size_t)column[e] * ld),
                                 _mm512_set1_ps(x ? x[e] : 1.0f), sum[0]);
    _mm512_mask_storeu_ps(out, some,
                          _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}
#endif

ALWAYS void sum_block(const float *W, size_t ld, int q, const float *bias, const uint32_t *column,
                      const float *x, size_t n, float *out)
{
    const int wides = 4 * q / WIDE, rest = wides * WIDE;
    wide even[4] = {{0}}, odd[4] = {{0}};
    yk_v4 even4 = {0}, odd4 = {0};
    size_t e = 0;
    for (; e + 2 <= n; e += 2) {
        const float *a = W + (size_t)column[e] * ld, *b = W + (size_t)column[e + 1] * ld;
        float xa = x ? x[e] : 1.0f, xb = x ? x[e + 1] : 1.0f;
        for (int k = 0; k < wides; k++) {
            even[k] += xa * load(a + WIDE * k);
            odd[k] += xb * load(b + WIDE * k);
        }
        if (rest < 4 * q) {
            even4 += xa * yk_v4load(a + rest);
            odd4 += xb * yk_v4load(b + rest);
        }
    }
    if (e < n) {
        const float *a = W + (size_t)column[e] * ld;
        float xa = x ? x[e] : 1.0f;
        for (int k = 0; k < wides; k++)
            even[k] += xa * load(a + WIDE * k);
        if (rest < 4 * q)
            even4 += xa * yk_v4load(a + rest);
    }
    for (int k = 0; k < wides; k++)
        store(out + WIDE * k, load(bias + WIDE * k) + (even[k] + odd[k]));
    if (rest < 4 * q)
        yk_v4store(out + rest, yk_v4load(bias + rest) + (even4 + odd4));
}

ALWAYS void add_block(float *G, size_t ld, int q, const uint32_t *column, const float *x, size_t n,
                      const float *delta)
{
    const int wides = 4 * q / WIDE, rest = wides * WIDE;
    wide d[4] = {{0}};
    yk_v4 d4 = {0};
    for (int k = 0; k < wides; k++)
        d[k] = load(delta + WIDE * k);
    if (rest < 4 * q)
        d4 = yk_v4load(delta + rest);
    for (size_t e = 0; e < n; e++) {
        float *g = G + (size_t)column[e] * ld;
        float xe = x ? x[e] : 1.0f;
        for (int k = 0; k < wides; k++)
            store(g + WIDE * k, load(g + WIDE * k) + xe * d[k]);
        if (rest < 4 * q)
            yk_v4store(g + rest, yk_v4load(g + rest) + xe * d4);
    }
}

static void rows_matrix(const float *W, const float *bias, size_t ld, const yk_batch *b, float *logits)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        const uint64_t s = rows->start[b->pick[i]], n = rows->start[b->pick[i] + 1] - s;
        const uint32_t *column = rows->index + s;
        const float *x = rows->value ? rows->value + s : NULL;
#if defined(__AVX512F__)
        if (ld < 16) {
            sum_few(W, ld, bias, column, x, n, logits + i * ld);
            continue;
        }
#endif
        for (size_t c = 0; c < ld; c += 16) {
            float *out = logits + i * ld + c;
            if (ld - c >= 16)
                sum_block(W + c, ld, 4, bias + c, column, x, n, out);
            else if (ld - c == 12)
                sum_block(W + c, ld, 3, bias + c, column, x, n, out);
            else if (ld - c == 8)
                sum_block(W + c, ld, 2, bias + c, column, x, n, out);
            else
                sum_block(W + c, ld, 1, bias + c, column, x, n, out);
        }
    }
}

static void add_outer(float *G, size_t ld, const yk_batch *b, const float *delta)
{
    const yk_rows *rows = b->rows;
    for (size_t i = 0; i < b->n; i++) {
        const uint64_t s = rows->start[b->pick[i]], n = rows->start[b->pick[i] + 1] - s;
        const uint32_t *column = rows->index + s;
        const float *x = rows->value ? rows->value + s : NULL;
        for (size_t c = 0; c < ld; c += 16) {
            const float *d = delta + i * ld + c;
            if (ld - c >= 16)
                add_block(G + c, ld, 4, column, x, n, d);
            else if (ld - c == 12)
                add_block(G + c, ld, 3, column, x, n, d);
            else if (ld - c == 8)
                add_block(G + c, ld, 2, column, x, n, d);
            else
                add_block(G + c, ld, 1, column, x, n, d);
        }
    }
}

static double softmax(float *logits, size_t classes, size_t ld, const yk_batch *b)
{
    double total = 0.0;
    for (size_t i = 0; i < b->n; i++) {
        float *row = logits + i * ld;
        int32_t y = b->rows->label[b->pick[i]];
        float most = row[0], sum = 0.0f, right = row[y];
        for (size_t c = 1; c < classes; c++)
            most = row[c] > most ? row[c] : most;
        for (size_t c = 0; c < ld; c += YK_VW) {
            size_t m = ld - c < YK_VW ? ld - c : YK_VW;
            float part[YK_VW] = {0};
            memcpy(part, row + c, m * sizeof *part);
            yk_vstore(part, yk_vexp(yk_vload(part) - most));
            for (size_t j = 0; j < m; j++) {
                row[c + j] = c + j < classes ? part[j] : 0.0f;
                sum += row[c + j];
            }
        }
        total += (double)(logf(sum) + (most - right));
        float by = 1.0f / sum;
        for (size_t c = 0; c < ld; c++)
            row[c] *= by;
        row[y] -= 1.0f;
    }
    return total;
}

const yk_linear_ops YK_ISA_NAME(yk_linear) = {margins, add_rows,    logistic,  descend,
                                              pack,    rows_matrix, add_outer, softmax};
