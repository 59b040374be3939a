/* Internal to data/: sorted indices of hashed values. Hashes with the same index yield one index. Stateless.
 */
#ifndef YK_DATA_HASHED_H
#define YK_DATA_HASHED_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = base + the index of a hash below `features`. Returns the number of distinct indices. */
size_t yk__sort_hashes(const uint64_t *hash, size_t n, uint64_t features, uint32_t base, uint32_t *out);

#endif
