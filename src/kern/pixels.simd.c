/* The kernels of pixels.h, compiled once per instruction set. The sums of CLASSES classes and 16 columns stay in registers:
 *
 *     avx512, sve512    10 x 1         avx2    5 x 2         sve256    10 x 2         neon    5 x 4         sse    4 x 4
 */
#include "kern/pixels.h"

#include "kern/vmath.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { Q = YK_SPAN / YK_VW };
#if defined(__AVX512F__) || defined(__ARM_FEATURE_SVE)
enum { CLASSES = 10 };
#elif defined(__AVX2__) || defined(__aarch64__)
enum { CLASSES = 5 };
#else
enum { CLASSES = 4 }; /* more sums than its 16 registers hold; still cheaper than reading the pixels again */
#endif

/* Classes are processed CLASSES at a time, then 4, then one by one. */
static size_t classes_at_once(size_t classes)
{
    return classes >= CLASSES ? CLASSES : classes >= 4 ? 4 : 1;
}

/* YK_VW pixels as floats. */
YK_ALWAYS_INLINE yk_vf from_bytes(const uint8_t *p)
{
#if defined(__AVX512F__)
    return (yk_vf)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif defined(__AVX2__)
    return (yk_vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#else
    typedef uint8_t bytes __attribute__((vector_size(YK_VW)));
    bytes v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, yk_vf);
#endif
}

/* out[c] = the sum of the lanes of v[c][0]. */
YK_ALWAYS_INLINE void lane_sums(yk_vf v[CLASSES][Q], int n, float *out)
{
#if defined(__AVX512F__)
    /* Four vectors at a time, so that they share shuffles. */
    __m512 part[4];
    YK_UNROLLED
    for (int k = 0; k < 4; k++) {
        __m512 x[4];
        YK_UNROLLED
        for (int j = 0; j < 4; j++)
            x[j] = 4 * k + j < n ? (__m512)v[4 * k + j][0] : _mm512_setzero_ps();
        const __m512d ab = (__m512d)(_mm512_unpacklo_ps(x[0], x[1]) + _mm512_unpackhi_ps(x[0], x[1]));
        const __m512d cd = (__m512d)(_mm512_unpacklo_ps(x[2], x[3]) + _mm512_unpackhi_ps(x[2], x[3]));
        part[k] = (__m512)_mm512_unpacklo_pd(ab, cd) + (__m512)_mm512_unpackhi_pd(ab, cd);
    }
    const __m512 low =
        _mm512_shuffle_f32x4(part[0], part[1], 0x88) + _mm512_shuffle_f32x4(part[0], part[1], 0xdd);
    const __m512 high =
        _mm512_shuffle_f32x4(part[2], part[3], 0x88) + _mm512_shuffle_f32x4(part[2], part[3], 0xdd);
    _mm512_mask_storeu_ps(out, (__mmask16)((1u << n) - 1),
                          _mm512_shuffle_f32x4(low, high, 0x88) + _mm512_shuffle_f32x4(low, high, 0xdd));
#else
    for (int c = 0; c < n; c++) {
        float lane[YK_VW];
        yk_vstore(lane, v[c][0]);
        for (int half = YK_VW / 2; half; half /= 2)
            for (int l = 0; l < half; l++)
                lane[l] += lane[l + half];
        out[c] = lane[0];
    }
#endif
}

/* ---- logits ---- */

/* A bit for each of n <= 64 spans: whether it is not black. */
YK_ALWAYS_INLINE uint64_t nonzero_spans(const uint8_t *p, size_t n)
{
    uint64_t some = 0;
    size_t s = 0;
#if defined(__AVX512F__)
    for (; s + 4 <= n; s += 4) {
        const __m512i four = _mm512_loadu_si512(p + s * YK_SPAN);
        uint64_t halves = _mm512_test_epi64_mask(four, four); /* two bits per span */
        some |= (uint64_t)_pext_u32((uint32_t)(halves | halves >> 1), 0x55) << s;
    }
#endif
    for (; s < n; s++) {
        uint64_t half[2];
        memcpy(half, p + s * YK_SPAN, sizeof half);
        some |= (uint64_t)((half[0] | half[1]) != 0) << s;
    }
    return some;
}

/* One example, and the list in which its spans are recorded. */
typedef struct {
    const uint8_t *row;
    const float *w; /* transposed weights of the first class to compute */
    size_t padded;
    uint8_t *bytes;
    uint32_t *offset, *end; /* NULL: already recorded */
    uint32_t at;            /* offset of the example in Z */
} example;

YK_ALWAYS_INLINE void add_span(const example x, const uint8_t *span, size_t s, int nc, yk_vf sum[CLASSES][Q])
{
    YK_UNROLLED
    for (int q = 0; q < Q; q++) {
        const yk_vf pixel = from_bytes(span + q * YK_VW);
        YK_UNROLLED
        for (int c = 0; c < nc; c++)
            sum[c][q] += pixel * yk_vload(x.w + (size_t)c * x.padded + s * YK_SPAN + q * YK_VW);
    }
    if (x.end) {
        const size_t e = x.end[s]++;
        memcpy(x.bytes + e * YK_SPAN, span, YK_SPAN);
        x.offset[e] = x.at;
    }
}

YK_ALWAYS_INLINE void sum_classes(const example x, size_t dim, int nc, float scale, const float *bias,
                                  float *z)
{
    const size_t whole = dim / YK_SPAN;
    yk_vf sum[CLASSES][Q] = {0};
    float total[CLASSES];
    for (size_t first = 0; first < whole; first += 64) {
        const size_t n = whole - first < 64 ? whole - first : 64;
        for (uint64_t some = nonzero_spans(x.row + first * YK_SPAN, n); some; some &= some - 1) {
            const size_t s = first + (size_t)__builtin_ctzll(some);
            add_span(x, x.row + s * YK_SPAN, s, nc, sum);
        }
    }
    if (whole * YK_SPAN < dim) {
        uint8_t rest[YK_SPAN] = {0};
        memcpy(rest, x.row + whole * YK_SPAN, dim - whole * YK_SPAN);
        if (nonzero_spans(rest, 1))
            add_span(x, rest, whole, nc, sum);
    }
    YK_UNROLLED
    for (int c = 0; c < nc; c++) {
        YK_UNROLLED
        for (int q = 1; q < Q; q++)
            sum[c][0] += sum[c][q];
        sum[c][0] *= scale;
    }
    lane_sums(sum, nc, total);
    YK_UNROLLED
    for (int c = 0; c < nc; c++)
        z[c * YK_SPAN] = bias[c] + total[c];
}

static void logits(const float *transposed, const float *bias, size_t classes, const yk_batch *b,
                   yk_spans *spans, float *Z)
{
    const yk_rows *rows = b->rows;
    const size_t dim = rows->dim, padded = YK_PIXELS_PADDED(dim);
    for (size_t s = 0; s < YK_PIXELS_SPANS(dim); s++)
        spans->end[s] = (uint32_t)(s * spans->max);
    for (size_t i = 0; i < b->n; i++) {
        example x = {.row = rows->u8 + b->pick[i] * dim,
                     .w = transposed,
                     .padded = padded,
                     .bytes = spans->bytes,
                     .offset = spans->offset,
                     .end = spans->end,
                     .at = (uint32_t)(i / YK_SPAN * classes * YK_SPAN + i % YK_SPAN)};
        float *z = Z + x.at;
        size_t c = 0;
        if (i + 2 < b->n + b->ahead)
            for (size_t at = 0; at < dim && at < 1024; at += 64)
                __builtin_prefetch(rows->u8 + b->pick[i + 2] * dim + at);
        for (size_t n; c < classes; c += n, x.w += n * padded, x.end = NULL) {
            n = classes_at_once(classes - c);
            const float *from = bias + c;
            float *to = z + c * YK_SPAN;
            if (n == CLASSES)
                sum_classes(x, dim, CLASSES, rows->scale, from, to);
            else if (n == 4)
                sum_classes(x, dim, 4, rows->scale, from, to);
            else
                sum_classes(x, dim, 1, rows->scale, from, to);
        }
    }
}

/* ---- outer ---- */

/* Transposes 4 x 4 floats. */
YK_ALWAYS_INLINE void transpose_4(const float *in, size_t in_ld, float *out, size_t out_ld)
{
    const yk_v4 a = yk_v4load(in), b = yk_v4load(in + in_ld), c = yk_v4load(in + 2 * in_ld),
                d = yk_v4load(in + 3 * in_ld);
    const yk_v4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    yk_v4store(out, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    yk_v4store(out + out_ld, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    yk_v4store(out + 2 * out_ld, __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5));
    yk_v4store(out + 3 * out_ld, __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
}

/* The gradient of nc classes for the features of span s, from all examples whose span s is not black. */
YK_ALWAYS_INLINE void sum_columns(const float *D, const yk_spans *spans, size_t s, size_t width, int nc,
                                  float scale, size_t ld, float *G)
{
    yk_vf sum[CLASSES][Q] = {0};
    float part[CLASSES][YK_SPAN] = {{0}};
    for (size_t e = s * spans->max; e < spans->end[s]; e++) {
        const float *by = D + spans->offset[e];
        YK_UNROLLED
        for (int q = 0; q < Q; q++) {
            const yk_vf pixel = from_bytes(spans->bytes + e * YK_SPAN + q * YK_VW);
            YK_UNROLLED
            for (int c = 0; c < nc; c++)
                sum[c][q] += pixel * by[c * YK_SPAN];
        }
    }
    YK_UNROLLED
    for (int c = 0; c < nc; c++) {
        YK_UNROLLED
        for (int q = 0; q < Q; q++)
            yk_vstore(part[c] + q * YK_VW, sum[c][q] * scale);
    }
    size_t c = 0;
    for (; c + 4 <= (size_t)nc && width == YK_SPAN; c += 4)
        for (size_t k = 0; k < YK_SPAN; k += 4)
            transpose_4(part[c] + k, YK_SPAN, G + k * ld + c, ld);
    for (; c < (size_t)nc; c++)
        for (size_t k = 0; k < width; k++)
            G[k * ld + c] = part[c][k];
}

static void outer(const float *D, size_t classes, const yk_rows *rows, const yk_spans *spans, size_t ld,
                  float *G)
{
    for (size_t s = 0; s < YK_PIXELS_SPANS(rows->dim); s++) {
        const size_t d = s * YK_SPAN, width = rows->dim - d < YK_SPAN ? rows->dim - d : YK_SPAN;
        for (size_t c = 0, n; c < classes; c += n) {
            n = classes_at_once(classes - c);
            const float *by = D + c * YK_SPAN;
            float *to = G + d * ld + c;
            if (n == CLASSES)
                sum_columns(by, spans, s, width, CLASSES, rows->scale, ld, to);
            else if (n == 4)
                sum_columns(by, spans, s, width, 4, rows->scale, ld, to);
            else
                sum_columns(by, spans, s, width, 1, rows->scale, ld, to);
        }
    }
}

static void transpose(const float *W, size_t dim, size_t ld, size_t classes, float *transposed)
{
    const size_t padded = YK_PIXELS_PADDED(dim);
    size_t c = 0;
    for (; c + 4 <= classes; c += 4) {
        size_t d = 0;
        for (; d + 4 <= dim; d += 4)
            transpose_4(W + d * ld + c, ld, transposed + c * padded + d, padded);
        for (; d < padded; d++)
            for (size_t k = c; k < c + 4; k++)
                transposed[k * padded + d] = d < dim ? W[d * ld + k] : 0.0f;
    }
    for (; c < classes; c++)
        for (size_t d = 0; d < padded; d++)
            transposed[c * padded + d] = d < dim ? W[d * ld + c] : 0.0f;
}

const yk_pixels_ops YK_ISA_NAME(yk_pixels) = {transpose, logits, outer};
