/* The products of block.h, compiled once per instruction set. A tile of sums stays in registers, so that each load serves
 * several multiplications (16 lanes are Q registers: 1 zmm, 2 ymm, or 4 of NEON or SSE):
 *
 *                       avx512, sve512    avx2             sve256          neon             sse
 *     mul    m x p      6 x 4 (24 sums)   6 x 1 (12)       6 x 2 (24)      6 x 1 (24)       2 x 1 (8)
 *     outer  m x k      4 x 6 (24)        3 x 4 (12)       4 x 6 (24)      4 x 6 (24)       2 x 4 (8)
 *
 * Terms are processed KC at a time, so that the vectors of a tile stay in the L1 cache while all rows of A are processed.
 */
#include "kern/block.h"

#include "kern/vmath.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
typedef svfloat32_t sve __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { MR = 6, NR = 4, OM = 4, OK = 6 };
#elif defined(__AVX2__)
enum { MR = 6, NR = 1, OM = 3, OK = 4 };
#elif defined(__aarch64__)
enum { MR = 6, NR = YK_VW / 4, OM = 4, OK = 6 };
#else
enum { MR = 2, NR = 1, OM = 2, OK = 4 };
#endif
enum { KC = 160, Q = YK_LANES / YK_VW };
enum { KC_UNCACHED = 32 }; /* rows of 4096 floats map to the same few cache sets, which hold no more */
enum { MANY_ROWS = 64, GROUP = 512 }; /* GROUP vectors of B are half of an L1 cache */

/* outer processes the Q vectors of a pixel one at a time on arm64, where the sums of one vector need all registers. */
#if !defined(__aarch64__)
#define PIECEWISE YK_UNROLLED
#elif defined(__clang__)
#define PIECEWISE _Pragma("clang loop unroll(disable)")
#else
#define PIECEWISE _Pragma("GCC unroll 1")
#endif

/* sum + a * b, always fused: left to itself, the compiler fuses in one tile and not in the next, and results would depend on
 * how the work is divided. */
YK_ALWAYS_INLINE yk_vf multiply_add(yk_vf a, yk_vf b, yk_vf sum)
{
#if defined(__AVX512F__)
    return (yk_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif defined(__FMA__)
    return (yk_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#elif defined(__ARM_FEATURE_SVE)
    const sve r = svmla_f32_x(svptrue_b32(), (sve)sum, (sve)a, (sve)b);
    return (yk_vf)r;
#elif defined(__aarch64__)
    return (yk_vf)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
#else
    return sum + a * b;
#endif
}

/* A scalar in all lanes. SVE has a load for this, which the compiler only uses for the intrinsic. */
YK_ALWAYS_INLINE yk_vf broadcast(const float *p)
{
#if defined(__ARM_FEATURE_SVE)
    const sve r = svdup_n_f32(*p);
    return (yk_vf)r;
#else
    return yk_vset(*p);
#endif
}

/* Keeps v in a register. With three uses or fewer gcc loads it again for each, and loads become the bottleneck. */
YK_ALWAYS_INLINE yk_vf in_register(yk_vf v)
{
#if defined(__x86_64__)
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* One tile, terms k_begin .. k_end; mr, nr and ahead are constants at each call. `ahead`: prefetches the vectors of the next
 * tile. */
YK_ALWAYS_INLINE void tile(const yk_block_mul *w, int mr, int nr, bool ahead, size_t m, size_t p,
                           size_t k_begin, size_t k_end)
{
    yk_vf sum[MR][NR * Q];
    const float *a = w->a + (int64_t)m * w->a_m;
    const float *b[NR];
    float *c[NR];
    YK_UNROLLED
    for (int j = 0; j < nr; j++) {
        b[j] = w->b + w->b_p[p + (size_t)j];
        c[j] = w->c + (int64_t)m * w->c_m + w->c_p[p + (size_t)j];
    }
    YK_UNROLLED
    for (int i = 0; i < mr; i++) {
        YK_UNROLLED
        for (int j = 0; j < nr * Q; j++)
            sum[i][j] = k_begin || w->add ? yk_vload(c[j / Q] + i * w->c_m + j % Q * YK_VW)
                                          : yk_vset(w->bias ? w->bias[m + (size_t)i] : 0.0f);
    }
    for (size_t k = k_begin; k < k_end; k++) {
        yk_vf x[NR * Q];
        const float *ak = a + w->a_k[k];
        YK_UNROLLED
        for (int j = 0; j < nr * Q; j++)
            x[j] = yk_vload(b[j / Q] + w->b_k[k] + j % Q * YK_VW);
        if (ahead) {
            YK_UNROLLED
            for (int j = 0; j < nr; j++)
                __builtin_prefetch(b[j] + w->b_k[k] + nr * YK_LANES, 0, 2);
        }
        YK_UNROLLED
        for (int i = 0; i < mr; i++) {
            const yk_vf weight = broadcast(ak + i * w->a_m);
            YK_UNROLLED
            for (int j = 0; j < nr * Q; j++)
                sum[i][j] = multiply_add(weight, x[j], sum[i][j]);
        }
    }
    YK_UNROLLED
    for (int i = 0; i < mr; i++) {
        YK_UNROLLED
        for (int j = 0; j < nr * Q; j++)
            yk_vstore(c[j / Q] + i * w->c_m + j % Q * YK_VW, sum[i][j]);
    }
}

YK_ALWAYS_INLINE void tile_rows(const yk_block_mul *w, int nr, size_t m, size_t m_end, size_t p,
                                size_t k_begin, size_t k_end)
{
    if (nr == NR && w->uncached && m + MR <= m_end) {
        tile(w, MR, nr, true, m, p, k_begin, k_end);
        m += MR;
    }
    for (; m + MR <= m_end; m += MR)
        tile(w, MR, nr, false, m, p, k_begin, k_end);
    switch (m_end - m) {
    case 5: /* a constant below MR for every MR */
        tile(w, MR > 5 ? 5 : 1, nr, false, m, p, k_begin, k_end);
        break;
    case 4:
        tile(w, MR > 4 ? 4 : 1, nr, false, m, p, k_begin, k_end);
        break;
    case 3:
        tile(w, MR > 3 ? 3 : 1, nr, false, m, p, k_begin, k_end);
        break;
    case 2:
        tile(w, MR > 2 ? 2 : 1, nr, false, m, p, k_begin, k_end);
        break;
    case 1:
        tile(w, 1, nr, false, m, p, k_begin, k_end);
        break;
    default:
        break;
    }
}

/* Separate functions, here and below: in a single one the compiler runs out of registers for addresses. */
#define TILES(name, nr)                                                                                      \
    static __attribute__((noinline)) void name(const yk_block_mul *w, size_t m, size_t m_end, size_t p,      \
                                               size_t k_begin, size_t k_end)                                 \
    {                                                                                                        \
        tile_rows(w, nr, m, m_end, p, k_begin, k_end);                                                       \
    }
TILES(pixels_1, 1)
TILES(pixels_2, NR > 2 ? 2 : NR)
TILES(pixels_3, NR > 3 ? 3 : NR)
TILES(pixels_4, NR)

static void tiles(const yk_block_mul *w, size_t m, size_t m_end, size_t p, size_t p_end, size_t k_begin,
                  size_t k_end)
{
    static void (*const pixels[])(const yk_block_mul *, size_t, size_t, size_t, size_t,
                                  size_t) = {NULL, pixels_1, pixels_2, pixels_3, pixels_4};
    for (size_t n; p < p_end; p += n) {
        n = p_end - p < NR ? p_end - p : NR;
        pixels[n](w, m, m_end, p, k_begin, k_end);
    }
}

/* Chooses the order of tiles so that arrays too large for a cache are read and written once, in memory order. The sums do not
 * depend on it: each adds its terms from the first to the last. */
static void mul(const yk_block_mul *w, size_t m_begin, size_t m_end, size_t p_begin, size_t p_end)
{
    if (p_end - p_begin <= NR) { /* dense, forward: rows of A are long, B is a few vectors wide */
        tiles(w, m_begin, m_end, p_begin, p_end, 0, w->k);
        return;
    }
    if (w->k <= KC && m_end - m_begin > MANY_ROWS) { /* dense, gradient: C is large, its rows are long */
        size_t wide = GROUP / (w->k + 1) / NR * NR;
        wide = wide < NR ? NR : wide;
        for (size_t p = p_begin; p < p_end; p += wide) {
            const size_t stop = p + wide < p_end ? p + wide : p_end;
            for (size_t m = m_begin; m < m_end; m += MR)
                tiles(w, m, m + MR < m_end ? m + MR : m_end, p, stop, 0, w->k);
        }
        return;
    }
    const size_t kc = w->uncached ? KC_UNCACHED : KC;
    for (size_t k = 0; k == 0 || k < w->k; k += kc) /* without terms, the bias is still written */
        tiles(w, m_begin, m_end, p_begin, p_end, k, k + kc < w->k ? k + kc : w->k);
}

YK_ALWAYS_INLINE float lane_sum(yk_vf v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#elif defined(__ARM_FEATURE_SVE)
    return svaddv_f32(svptrue_b32(), (sve)v);
#elif defined(__aarch64__)
    return vaddvq_f32((float32x4_t)v);
#else
    float lane[YK_VW];
    yk_vstore(lane, v);
    for (int half = YK_VW / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
#endif
}

/* D(m + i, k + j) += sum of the lanes of sum[i][j]. */
YK_ALWAYS_INLINE void add_sums(const yk_block_outer *w, int om, int ok, size_t m, size_t k, yk_vf sum[OM][OK])
{
#if defined(__aarch64__)
    /* Through memory: with 24 reductions at once the compiler runs out of registers and spills the sums in the loop
     * before. */
    float part[OM][OK][YK_VW];
    YK_UNROLLED
    for (int i = 0; i < om; i++) {
        YK_UNROLLED
        for (int j = 0; j < ok; j++)
            yk_vstore(part[i][j], sum[i][j]);
    }
    PIECEWISE
    for (int i = 0; i < om; i++) {
        PIECEWISE
        for (int j = 0; j < ok; j++)
            w->d[((int64_t)m + i) * w->d_m + (int64_t)k + j] += lane_sum(yk_vload(part[i][j]));
    }
#else
    YK_UNROLLED
    for (int i = 0; i < om; i++) {
        YK_UNROLLED
        for (int j = 0; j < ok; j++)
            w->d[((int64_t)m + i) * w->d_m + (int64_t)k + j] += lane_sum(sum[i][j]);
    }
#endif
}

/* Sums over pixels p_begin .. p_end of om rows by ok terms. */
YK_ALWAYS_INLINE void outer_tile(const yk_block_outer *w, int om, int ok, size_t m, size_t k, size_t p_begin,
                                 size_t p_end)
{
    yk_vf sum[OM][OK];
    const float *y[OM], *x[OK];
    YK_UNROLLED
    for (int i = 0; i < om; i++) {
        y[i] = w->y + ((int64_t)m + i) * w->y_m;
        YK_UNROLLED
        for (int j = 0; j < ok; j++)
            sum[i][j] = yk_vset(0.0f);
    }
    YK_UNROLLED
    for (int j = 0; j < ok; j++)
        x[j] = w->x + w->x_k[k + (size_t)j];
    for (size_t p = p_begin; p < p_end; p++) {
        PIECEWISE
        for (int q = 0; q < Q; q++) {
            yk_vf yv[OM];
            YK_UNROLLED
            for (int i = 0; i < om; i++)
                yv[i] = yk_vload(y[i] + w->y_p[p] + q * YK_VW);
            YK_UNROLLED
            for (int j = 0; j < ok; j++) {
                const yk_vf xv = in_register(yk_vload(x[j] + w->x_p[p] + q * YK_VW));
                YK_UNROLLED
                for (int i = 0; i < om; i++)
                    sum[i][j] = multiply_add(yv[i], xv, sum[i][j]);
            }
        }
    }
    add_sums(w, om, ok, m, k, sum);
}

/* Tiles of OK terms, and some of OK - 1 where several single terms would remain: 27 = 5 + 5 + 5 + 6 + 6. */
YK_ALWAYS_INLINE void outer_terms(const yk_block_outer *w, int om, size_t m, size_t k, size_t k_end, size_t p,
                                  size_t p_end)
{
    const size_t left = (k_end - k) % OK, smaller = left > 1 ? OK - left : 0, after = k + smaller * (OK - 1);
    for (; after <= k_end && k < after; k += OK - 1)
        outer_tile(w, om, OK - 1, m, k, p, p_end);
    for (; k + OK <= k_end; k += OK)
        outer_tile(w, om, OK, m, k, p, p_end);
    for (; k < k_end; k++)
        outer_tile(w, om, 1, m, k, p, p_end);
}

#define ROWS(name, om)                                                                                       \
    static __attribute__((noinline)) void name(const yk_block_outer *w, size_t m, size_t k, size_t k_end,    \
                                               size_t p, size_t p_end)                                       \
    {                                                                                                        \
        outer_terms(w, om, m, k, k_end, p, p_end);                                                           \
    }
ROWS(rows_1, 1)
ROWS(rows_2, OM > 2 ? 2 : OM)
ROWS(rows_3, OM > 3 ? 3 : OM)
ROWS(rows_4, OM)

static void outer(const yk_block_outer *w, size_t m_begin, size_t m_end, size_t k_begin, size_t k_end)
{
    static void (*const rows[])(const yk_block_outer *, size_t, size_t, size_t, size_t,
                                size_t) = {NULL, rows_1, rows_2, rows_3, rows_4};
    for (size_t i = 0; i < yk_block_pieces(w->p); i++)
        for (size_t m = m_begin, n; m < m_end; m += n) {
            n = m_end - m < OM ? m_end - m : OM;
            rows[n](w, m, k_begin, k_end, yk_block_piece(w->p, i), yk_block_piece(w->p, i + 1));
        }
}

/* Several rows at a time: within a row, each addition waits for the previous one. */
YK_ALWAYS_INLINE void sum_rows(const yk_block_outer *w, int rows, size_t m, float *s)
{
    yk_vf all[OM][Q];
    const float *y = w->y + (int64_t)m * w->y_m;
    YK_UNROLLED
    for (int i = 0; i < rows; i++) {
        YK_UNROLLED
        for (int q = 0; q < Q; q++)
            all[i][q] = yk_vset(0.0f);
    }
    for (size_t p = 0; p < w->p; p++) {
        YK_UNROLLED
        for (int i = 0; i < rows; i++) {
            YK_UNROLLED
            for (int q = 0; q < Q; q++)
                all[i][q] += yk_vload(y + i * w->y_m + w->y_p[p] + q * YK_VW);
        }
    }
    YK_UNROLLED
    for (int i = 0; i < rows; i++) {
        YK_UNROLLED
        for (int q = 1; q < Q; q++)
            all[i][0] += all[i][q];
        s[m + (size_t)i] += lane_sum(all[i][0]);
    }
}

static void sum(const yk_block_outer *w, size_t m_begin, size_t m_end, float *s)
{
    size_t m = m_begin;
    for (; m + OM <= m_end; m += OM)
        sum_rows(w, OM, m, s);
    for (; m < m_end; m++)
        sum_rows(w, 1, m, s);
}

const yk_block_ops YK_ISA_NAME(yk_block) = {mul, outer, sum};
