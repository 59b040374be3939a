/* Random numbers that are the same on every platform: integer arithmetic only, and exact conversions.
 *
 * Example:
 *     yk_rng r = yk_rng_seed(seed, stream); // streams of one seed are independent
 *     uint64_t u = yk_rng_u64(&r);
 *     uint32_t k = yk_rng_below(&r, 10); // 0..9, without bias
 *
 * The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). Its state is a
 * counter, so element n of a stream can be computed without the ones before it. A generator is plain data for one thread.
 */
#ifndef YK_BASE_RNG_H
#define YK_BASE_RNG_H

#include <stdint.h>

typedef struct {
    uint64_t state;
} yk_rng;

/* The finalizer of SplitMix64: a good hash of 64 bits. */
static inline uint64_t yk_mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t yk_rng_u64(yk_rng *r)
{
    return yk_mix64(r->state += 0x9e3779b97f4a7c15u);
}

static inline yk_rng yk_rng_seed(uint64_t seed, uint64_t stream)
{
    return (yk_rng){yk_mix64(yk_mix64(seed + 0x9e3779b97f4a7c15u) + stream * 0xd1342543de82ef95u)};
}

/* Uniform in [0, n), n > 0 (Lemire 2019). */
static inline uint32_t yk_rng_below(yk_rng *r, uint32_t n)
{
    uint64_t m = (uint64_t)(uint32_t)(yk_rng_u64(r) >> 32) * n;
    if ((uint32_t)m < n) {
        uint32_t threshold = -n % n;
        while ((uint32_t)m < threshold)
            m = (uint64_t)(uint32_t)(yk_rng_u64(r) >> 32) * n;
    }
    return (uint32_t)(m >> 32);
}

/* Uniform in [0, 1) with 53 bits. */
static inline double yk_rng_unit(yk_rng *r)
{
    return (double)(yk_rng_u64(r) >> 11) * 0x1p-53;
}

/* Roughly normal (Irwin-Hall of 12, exact arithmetic): mean 0, variance 1, within +-6. */
static inline double yk_rng_normal(yk_rng *r)
{
    uint64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t u = yk_rng_u64(r);
        sum += (u >> 32) + (u & 0xffffffffu);
    }
    return (double)sum * 0x1p-32 - 6.0;
}

#endif
