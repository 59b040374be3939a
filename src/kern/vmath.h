/* Vectors of floats in GNU C, as wide as the instruction set that the including X.simd.c is compiled for, with exp and log.
 * The relative error is below 3e-7 over the whole range; exp saturates instead of overflowing.
 *
 * Example:
 *     for (size_t i = 0; i < n; i += YK_VW)                  // softplus of n floats, n a multiple of YK_VW
 *         yk_vstore(x + i, yk_vlog(1.0f + yk_vexp(yk_vload(x + i))));
 */
#ifndef YK_KERN_VMATH_H
#define YK_KERN_VMATH_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define YK_VW 16
#elif defined(__AVX2__)
#define YK_VW 8
#elif defined(__ARM_FEATURE_SVE)
#define YK_VW (__ARM_FEATURE_SVE_BITS / 32)
#else
#define YK_VW 4
#endif

#define YK_ALWAYS_INLINE static inline __attribute__((always_inline))

/* Loops over a tile of sums are unrolled; otherwise the compiler keeps the sums in memory. */
#if defined(__clang__)
#define YK_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define YK_UNROLLED _Pragma("GCC unroll 16")
#endif

typedef float yk_vf __attribute__((vector_size(YK_VW * 4)));
typedef int32_t yk_vi __attribute__((vector_size(YK_VW * 4)));
typedef float yk_v4 __attribute__((vector_size(16)));

static inline yk_vf yk_vset(float x)
{
    return x - (yk_vf){0};
}

static inline yk_vf yk_vload(const float *p)
{
    yk_vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void yk_vstore(float *p, yk_vf v)
{
    memcpy(p, &v, sizeof v);
}

static inline yk_v4 yk_v4load(const float *p)
{
    yk_v4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void yk_v4store(float *p, yk_v4 v)
{
    memcpy(p, &v, sizeof v);
}

static inline yk_vf yk_vselect(yk_vi mask, yk_vf yes, yk_vf no)
{
    return (yk_vf)((mask & (yk_vi)yes) | (~mask & (yk_vi)no));
}

static inline yk_vf yk_vmax(yk_vf a, yk_vf b)
{
    return yk_vselect(a > b, a, b);
}

static inline yk_vf yk_vmin(yk_vf a, yk_vf b)
{
    return yk_vselect(a < b, a, b);
}

/* 2^n * 2^f with |f| <= 1/2; 2^f by its Taylor polynomial in f ln 2. NaN stays NaN. */
static inline yk_vf yk_vexp(yk_vf x)
{
    yk_vf t = x * 1.44269504f;
    t = yk_vselect(t < 127.0f, t, yk_vselect(t >= 127.0f, yk_vset(127.0f), t));
    t = yk_vselect(t < -126.0f, yk_vset(-126.0f), t);
    yk_vf rounded = (t + 12582912.0f) - 12582912.0f; /* 1.5 * 2^23: rounds to the nearest integer */
    /* x - n ln 2, with ln 2 in two parts so that no digits are lost */
    yk_vf r = (x - rounded * 0.693359375f) - rounded * -2.12194440e-4f;
    r = yk_vmin(yk_vmax(r, yk_vset(-0.35f)), yk_vset(0.35f));
    r = yk_vselect(x == x, r, x);
    yk_vf p = 1.0f / 5040.0f + r * (1.0f / 40320.0f);
    p = 1.0f / 720.0f + r * p;
    p = 1.0f / 120.0f + r * p;
    p = 1.0f / 24.0f + r * p;
    p = 1.0f / 6.0f + r * p;
    p = 0.5f + r * p;
    p = 1.0f + r * p;
    p = 1.0f + r * p;
    yk_vi n = __builtin_convertvector(yk_vselect(rounded == rounded, rounded, yk_vset(0.0f)), yk_vi);
    return p * (yk_vf)((n + 127) << 23);
}

/* For normal positive x = 2^n m: n ln 2 + ln m, and ln m = 2 atanh((m - 1) / (m + 1)). */
static inline yk_vf yk_vlog(yk_vf x)
{
    yk_vi bits = (yk_vi)x;
    yk_vi exponent = (bits - 0x3f3504f3) >> 23; /* so that m lies between sqrt(1/2) and sqrt(2) */
    yk_vf m = (yk_vf)(bits - (exponent << 23));
    yk_vf s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
    yk_vf p = 2.0f / 7.0f + s2 * (2.0f / 9.0f);
    p = 2.0f / 5.0f + s2 * p;
    p = 2.0f / 3.0f + s2 * p;
    p = 2.0f + s2 * p;
    return __builtin_convertvector(exponent, yk_vf) * 0.693147181f + s * p;
}

#endif
