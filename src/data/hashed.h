/* Internal to data/: sorted indices of hashed values. If several hashes map to the same index, it is written once. Stateless.
 */
#ifndef YK_DATA_HASHED_H
#define YK_DATA_HASHED_H

#include <stddef.h>
#include <stdint.h>

/* Writes base + yk_key_id(hash[i], features) for all i to `out`, sorted, each index once. Returns their number. */
size_t yk__sort_hashes(const uint64_t *hash, size_t n, uint64_t features, uint32_t base, uint32_t *out);

#endif
