/* A key remap: gives each key an internal id, so that the most frequent keys are the first ones of the parameter table.
 *
 * Example:
 *     yk_keymap map;
 *     yk_status st = yk_keymap_make(&sample, NULL, features, UINT32_MAX, 131072, &map); // counts keys in sampled rows
 *     uint32_t id = yk_keymap_id(&map, key); // the most frequent key has id 0
 *     st = yk_keymap_rows(&map, &rows);      // replaces the keys of a block with their ids
 *     st = yk_keymap_move(&map, w, 1, true); // w[id] becomes w[key], in place
 *
 * Only the most frequent keys, and the keys whose slots they take, are moved. Every other key is its own id, so the size
 * of the map depends on the keys in the data, not on the number of features. freq[i] is the expected sum of squared values
 * of id i per example. Any thread may read a map; it does not change after yk_keymap_make().
 */
#ifndef YK_CORE_KEYMAP_H
#define YK_CORE_KEYMAP_H

#include "core/rows.h"

typedef struct {
    uint32_t hot; /* ids 0 .. hot-1 are the most frequent keys, in descending order of frequency */
    float *freq;  /* [hot] */
    float norm;   /* the sum over all keys: the expected |x|^2 of an example */
    size_t slots; /* of the hash table below; 0: the identity */
    struct yk_keymap_slot {
        uint32_t key, id; /* key: UINT32_MAX: free */
    } * slot, *move;      /* move: [nmoves] the same as a list */
    size_t nmoves;
} yk_keymap;

/* `all`, if not NULL: the other keys that occur in it follow the hot ones, so that the used part of the table is contiguous:
 * a million clicks touch a million of 33 million weights. With max_hot = 0 and `all`, the most frequent keys do not come first,
 * but each in another cache line: workers that have no copies of them do not write to each other's lines. `extra_key` (a bias) occurs in every example; UINT32_MAX: none. */
yk_status yk_keymap_make(const yk_rows *sample, const yk_rows *all, size_t nkeys, uint32_t extra_key,
                         uint32_t max_hot, yk_keymap *out);
void yk_keymap_fini(yk_keymap *map);

/* The slot at which the search for a key begins. */
static inline size_t yk_keymap_slot_of(const yk_keymap *map, uint32_t key)
{
    return (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & (map->slots - 1);
}

static inline uint32_t yk_keymap_id(const yk_keymap *map, uint32_t key)
{
    if (!map->slots)
        return key;
    size_t mask = map->slots - 1;
    for (size_t at = yk_keymap_slot_of(map, key);; at = (at + 1) & mask) {
        if (map->slot[at].key == key)
            return map->slot[at].id;
        if (map->slot[at].key == UINT32_MAX)
            return key;
    }
}

yk_status yk_keymap_rows(const yk_keymap *map, yk_rows *rows);

/* Reorders an array that is indexed by internal ids to be indexed by keys (to_keys), or back. width: floats per key. */
yk_status yk_keymap_move(const yk_keymap *map, float *array, size_t width, bool to_keys);

#endif
