/* Internal to data/: indices of hashed values, sorted. Two hashes with the same index become one index. No state.
 */
#ifndef YK_DATA_HASHED_H
#define YK_DATA_HASHED_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = base + the index of a hash below `features`. Returns how many are left. */
size_t yk__sort_hashes(const uint64_t *hash, size_t n, uint64_t features, uint32_t base, uint32_t *out);

#endif
