/* A renaming of keys that puts the most frequent ones first, so that the hottest keys are a prefix of the table.
 *
 *     yk_keymap map;
 *     st = yk_keymap_make(&sample, NULL, features, UINT32_MAX, 131072, &map); // counts keys in sampled rows
 *     inside = yk_keymap_in(&map, key);                                // the hottest key becomes 0
 *     yk_keymap_rows(&map, &rows);                                     // renames a whole block in place
 *     yk_keymap_restore(&map, w);                                      // w[inside] -> w[key], in place
 *
 * Only the keys that are put into order and those whose places they take are moved; every other key keeps its name, so
 * that the map is as large as the data's keys, not as the number of features. freq[i] is the expected sum of squared values of inside key i per example.
 * Read-only once made.
 */
#ifndef YK_BASE_KEYMAP_H
#define YK_BASE_KEYMAP_H

#include "base/rows.h"

typedef struct {
    uint32_t hot; /* keys 0 .. hot-1 are the most frequent ones, by falling frequency */
    float *freq;  /* [hot] */
    float norm;   /* the same, summed over all keys: the expected |x|^2 of an example */
    size_t slots; /* of the hash table below; 0: the identity */
    struct yk_keymap_slot {
        uint32_t from, to; /* key (UINT32_MAX: free), its new name */
    } * slot;
    size_t nmoves;
    uint32_t *outside, *inside; /* [nmoves] the same as a list */
} yk_keymap;

/* `all`, if not NULL: behind the hot keys come all others that occur in it, so that the part of the table that is used at all
 * lies together: a million clicks touch a million of 33 million weights. `extra_key` (a bias: in every example) is counted as frequent; UINT32_MAX: none. */
yk_status yk_keymap_make(const yk_rows *sample, const yk_rows *all, size_t nkeys, uint32_t extra_key,
                         uint32_t most_hot, yk_keymap *out);
void yk_keymap_fini(yk_keymap *map);

/* Where the search for a key begins. */
static inline size_t yk_keymap_slot_of(const yk_keymap *map, uint32_t key)
{
    return (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & (map->slots - 1);
}

static inline uint32_t yk_keymap_in(const yk_keymap *map, uint32_t key)
{
    if (!map->slots)
        return key;
    size_t mask = map->slots - 1;
    for (size_t at = yk_keymap_slot_of(map, key);; at = (at + 1) & mask) {
        if (map->slot[at].from == key)
            return map->slot[at].to;
        if (map->slot[at].from == UINT32_MAX)
            return key;
    }
}

yk_status yk_keymap_rows(const yk_keymap *map, yk_rows *rows);

/* Puts the elements of an array that is indexed by inside keys into the order of outside keys, and back. */
yk_status yk_keymap_restore(const yk_keymap *map, float *array, size_t width); /* floats per key */
yk_status yk_keymap_apply(const yk_keymap *map, float *array, size_t width);

#endif
