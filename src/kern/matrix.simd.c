/* The kernels of matrix.h, compiled once per instruction set. */
#include "kern/matrix.h"

#include "kern/vmath.h"
#include "kern/wide.h"
#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

#if defined(__AVX512F__)
/* For processors that can compress bytes: compresses 64 pixels at a time, and converts only the non-zeros to columns and
 * floats. Returns the number of pixels processed; *n_out is the number of entries. */
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

/* Writes the non-zeros of a row to index[] and x[] and returns their number. Writes up to 16 entries beyond that. */
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
        for (size_t j = d; j < d + 8; j++) { /* no branches: zeros are hard to predict */
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

/* A block of a row of the matrix is 4, 8, 12 or 16 floats, as whole vectors (wide.h). No masks: a masked store that overlaps
 * the next load, which begins where the active lanes of the store end, cannot be forwarded and costs a dozen cycles. */

#if defined(__AVX512F__)
/* Up to 16 classes as one masked vector (masked loads are free, masked stores are not: see add_block). Four independent sums:
 * with two, additions would wait for each other. */
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

/* out[0 .. 4q) = bias + sum of x * W[column]; q is a constant at each call. Even and odd entries have separate sums. */
YK_ALWAYS_INLINE void sum_block(const float *W, size_t ld, int q, const float *bias, const uint32_t *column,
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

YK_ALWAYS_INLINE void add_block(float *G, size_t ld, int q, const uint32_t *column, const float *x, size_t n,
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

static double softmax(float *logits, size_t classes, size_t ld, const yk_batch *b, float *p)
{
    const bool weighted = yk_batch_weighted(b);
    double total = 0.0;
    for (size_t i = 0; i < b->n; i++) {
        float *row = logits + i * ld;
        int32_t y = b->rows->label[b->pick[i]];
        float max = row[0], sum = 0.0f, right = row[y];
        for (size_t c = 1; c < classes; c++)
            max = row[c] > max ? row[c] : max;
        for (size_t c = 0; c < ld; c += YK_VW) {
            size_t m = ld - c < YK_VW ? ld - c : YK_VW;
            float part[YK_VW] = {0};
            memcpy(part, row + c, m * sizeof *part);
            yk_vstore(part, yk_vexp(yk_vload(part) - max));
            for (size_t j = 0; j < m; j++) {
                row[c + j] = c + j < classes ? part[j] : 0.0f;
                sum += row[c + j];
            }
        }
        const float weight = weighted ? yk_batch_weight(b, i) : 1.0f;
        total += (double)weight * (double)(logf(sum) + (max - right));
        float by = 1.0f / sum;
        for (size_t c = 0; c < ld; c++)
            row[c] *= by;
        if (p)
            memcpy(p + i * classes, row, classes * sizeof *p);
        row[y] -= 1.0f;
        for (size_t c = 0; weighted && c < ld; c++)
            row[c] *= weight;
    }
    return total;
}

const yk_matrix_ops YK_ISA_NAME(yk_matrix) = {pack, rows_matrix, add_outer, softmax};
