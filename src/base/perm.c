#include "base/perm.h"

#include "base/rng.h"
#include <math.h>

yk_perm yk_perm_make(uint64_t n, uint64_t seed)
{
    yk_perm p = {.n = n};
    uint64_t a = (uint64_t)sqrt((double)n);
    a = a < 1 ? 1 : a;
    p.a = (uint32_t)a;
    p.b = (uint32_t)((n + a - 1) / a);
    yk_rng r = yk_rng_seed(seed, 0x7065726d);
    for (int i = 0; i < YK_PERM_ROUNDS; i++)
        p.key[i] = yk_rng_u64(&r);
    return p;
}

/* The round function, with a value in [0, n). Two multiplications mix the few bits of an index well enough. */
static inline uint32_t mixed(uint32_t x, uint64_t key, uint32_t n)
{
    uint64_t hash = (x + key) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 32)) * 0xd1342543de82ef95u;
    return (uint32_t)(((hash >> 32) * n) >> 32);
}

static inline uint32_t add_mod(uint32_t x, uint32_t y, uint32_t n)
{
    uint64_t sum = (uint64_t)x + y;
    return (uint32_t)(sum >= n ? sum - n : sum);
}

uint64_t yk_perm_at(const yk_perm *p, uint64_t i)
{
    do {
        uint32_t left = (uint32_t)(i / p->b), right = (uint32_t)(i % p->b); /* left < a, right < b */
        for (int r = 0; r < YK_PERM_ROUNDS; r += 2) {
            left = add_mod(left, mixed(right, p->key[r], p->a), p->a);
            right = add_mod(right, mixed(left, p->key[r + 1], p->b), p->b);
        }
        i = (uint64_t)left * p->b + right;
    } while (i >= p->n);
    return i;
}

uint64_t yk_perm_find(const yk_perm *p, uint64_t value)
{
    do {
        uint32_t left = (uint32_t)(value / p->b), right = (uint32_t)(value % p->b);
        for (int r = YK_PERM_ROUNDS; r > 0; r -= 2) {
            right = add_mod(right, p->b - mixed(left, p->key[r - 1], p->b), p->b);
            left = add_mod(left, p->a - mixed(right, p->key[r - 2], p->a), p->a);
        }
        value = (uint64_t)left * p->b + right;
    } while (value >= p->n);
    return value;
}
