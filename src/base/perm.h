/* A random permutation of 0..n-1 that needs no memory: element i is computed.
 *
 * Example:
 *     yk_perm p = yk_perm_make(n, yk_mix64(seed) + epoch);
 *     for (uint64_t i = 0; i < n; i++)
 *         use(yk_perm_at(&p, i)); // each of 0..n-1 exactly once
 *
 * So a worker can start anywhere in an epoch (its share of the data, a resumed run), and workers do not wait for a shuffle.
 * It is a Feistel network over a x b >= n (Black and Rogaway 2002, "Ciphers with arbitrary finite domains", method 3) that
 * is applied again while a result is not below n (cycle walking). A permutation is plain data; any thread may read it.
 */
#ifndef YK_BASE_PERM_H
#define YK_BASE_PERM_H

#include <stdint.h>

#define YK_PERM_ROUNDS 4

typedef struct {
    uint64_t n;
    uint32_t a, b;
    uint64_t key[YK_PERM_ROUNDS];
} yk_perm;

yk_perm yk_perm_make(uint64_t n, uint64_t seed); /* n < 2^62 */
uint64_t yk_perm_at(const yk_perm *p, uint64_t i);
uint64_t yk_perm_find(const yk_perm *p, uint64_t value); /* the i with yk_perm_at(p, i) == value */

#endif
