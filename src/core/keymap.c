#include "core/keymap.h"

#include "base/mem.h"
#include "base/team.h"
#include "core/keys.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char what[] = "the key remap";

typedef struct {
    uint32_t key;
    float weight; /* sum of squared values */
} counted;

static int by_descending_weight(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Lists the keys of the sample in descending order of weight. If all values are 1, a key that occurs only once is noise and is
 * left out. The memory depends on the keys in the sample, not on the number of keys. */
static yk_status count_keys(const yk_rows *sample, uint32_t extra_key, counted **list_out, size_t *n_out)
{
    enum { SOME = 4096 };
    size_t entries = sample->n ? (size_t)sample->start[sample->n] : 0, n = 0;
    yk_merger m = {0};
    yk_status st = yk_merger_reserve(&m, SOME);
    counted *list = NULL;
    for (size_t e = 0; !st && e < entries; e++) {
        float v = sample->value ? sample->value[e] : 1.0f;
        yk_merger_add(&m, sample->index[e], v * v);
        if (e % SOME == SOME - 1)
            st = yk_merger_grow(&m, SOME);
    }
    if (st)
        goto free_merger;
    list = malloc((m.n + 1) * sizeof *list);
    if (!list) {
        st = yk_fail_memory((m.n + 1) * sizeof *list, "counting keys");
        goto free_merger;
    }
    for (size_t i = 0; i < m.n; i++)
        if (m.value[i] > 1.0f || sample->value)
            list[n++] = (counted){m.key[i], m.value[i]};
    if (extra_key != UINT32_MAX && sample->n)
        list[n++] = (counted){extra_key, (float)sample->n};
    qsort(list, n, sizeof *list, by_descending_weight);
free_merger:
    yk_merger_fini(&m);
    *list_out = list;
    *n_out = n;
    return st;
}

enum { MAX_ORDERED = 1 << 22 }; /* keys that are moved, at most */

static void put(yk_keymap *map, uint32_t key, uint32_t id)
{
    size_t mask = map->slots - 1, at = yk_keymap_slot_of(map, key);
    while (map->slot[at].key != UINT32_MAX)
        at = (at + 1) & mask;
    map->move[map->nmoves++] = map->slot[at] = (struct yk_keymap_slot){key, id};
}

/* The i-th key of the list gets id i. A key below n that is not in the list gets one of the ids that keys of the list freed
 * at or above n; there are exactly as many of them. */
static yk_status assign_ids(yk_keymap *map, const counted *list, uint32_t n)
{
    uint8_t *stays = calloc(n ? n : 1, 1); /* keys below n that are in the list */
    if (!stays)
        return yk_fail_memory(n, what);
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].key < n)
            stays[list[i].key] = 1;
        if (list[i].key != i)
            put(map, list[i].key, i);
    }
    uint32_t displaced = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].key < n)
            continue;
        while (stays[displaced])
            displaced++;
        put(map, displaced++, list[i].key);
    }
    free(stays);
    return YK_OK;
}

/* Appends the keys that occur in `all` and are not in the list, in their order there. */
static yk_status add_other_keys(const yk_rows *all, size_t nkeys, counted **list, size_t *n)
{
    const size_t entries = all->n ? (size_t)all->start[all->n] : 0;
    size_t cap = *n;
    uint64_t *seen = yk_alloc(nkeys / 64 + 1, sizeof *seen, what);
    if (!seen)
        return YK_ESYSTEM;
    for (size_t i = 0; i < *n; i++)
        seen[(*list)[i].key / 64] |= UINT64_C(1) << (*list)[i].key % 64;
    yk_status st = YK_OK;
    for (size_t e = 0; !st && e < entries && *n < MAX_ORDERED; e++) {
        const uint32_t key = all->index[e];
        if (key >= nkeys || seen[key / 64] >> key % 64 & 1)
            continue;
        if ((st = YK_RESERVE(*list, cap, *n + 1, what)))
            break;
        (*list)[(*n)++] = (counted){key, 0.0f};
        seen[key / 64] |= UINT64_C(1) << key % 64;
    }
    yk_free(seen);
    return st;
}

/* Moves the most frequent keys, which the list begins with, to different cache lines, among rare keys. */
static void spread(counted *list, size_t n)
{
    enum { LINE = YK_ALIGN / sizeof(float), MOST_FREQUENT = 2048 };
    for (size_t i = n / LINE < MOST_FREQUENT ? n / LINE : MOST_FREQUENT; i-- > 1;) {
        const counted frequent = list[i];
        list[i] = list[i * LINE];
        list[i * LINE] = frequent;
    }
}

yk_status yk_keymap_make(const yk_rows *sample, const yk_rows *all, size_t nkeys, uint32_t extra_key,
                         uint32_t max_hot, yk_keymap *out)
{
    *out = (yk_keymap){0};
    counted *list;
    size_t found;
    yk_status st = count_keys(sample, extra_key, &list, &found);
    if (st)
        return st;
    uint32_t hot = (uint32_t)(found < max_hot ? found : max_hot);
    hot = nkeys < hot ? (uint32_t)nkeys : hot;
    out->hot = hot;
    found = all ? found : hot;
    found = found < MAX_ORDERED ? found : MAX_ORDERED;
    if (all && (st = add_other_keys(all, nkeys, &list, &found)))
        goto free_list;
    if (!max_hot)
        spread(list, found);
    for (size_t e = 0; sample->n && e < sample->start[sample->n]; e++)
        out->norm += (sample->value ? sample->value[e] * sample->value[e] : 1.0f) / (float)sample->n;
    out->slots = 64;
    while (out->slots < 4 * found)
        out->slots *= 2;
    out->freq = yk_alloc(hot + 1, sizeof *out->freq, what);
    out->slot = yk_alloc(out->slots, sizeof *out->slot, what);
    out->move = yk_alloc(2 * found + 1, sizeof *out->move, what);
    st = YK_ESYSTEM;
    if (out->freq && out->slot && out->move) {
        memset(out->slot, 0xff, out->slots * sizeof *out->slot);
        for (uint32_t i = 0; i < hot; i++)
            out->freq[i] = list[i].weight / (float)sample->n;
        st = assign_ids(out, list, (uint32_t)found);
    }
free_list:
    free(list);
    if (st)
        yk_keymap_fini(out);
    return st;
}

void yk_keymap_fini(yk_keymap *map)
{
    yk_free(map->freq);
    yk_free(map->slot);
    yk_free(map->move);
    *map = (yk_keymap){0};
}

typedef struct {
    const yk_keymap *map;
    uint32_t *index; /* [n] */
    size_t n;
    int threads;
} remap_job;

static yk_status remap_part(void *context, int me)
{
    enum { AHEAD = 16 };
    const remap_job *j = context;
    const size_t end = j->n * ((size_t)me + 1) / (size_t)j->threads;
    for (size_t e = j->n * (size_t)me / (size_t)j->threads; e < end; e++) {
        if (e + AHEAD < end)
            __builtin_prefetch(j->map->slot + yk_keymap_slot_of(j->map, j->index[e + AHEAD]));
        j->index[e] = yk_keymap_id(j->map, j->index[e]);
    }
    return YK_OK;
}

yk_status yk_keymap_rows(const yk_keymap *map, yk_rows *rows)
{
    if (!map->slots || rows->kind != YK_ROWS_SPARSE || rows->n == 0)
        return YK_OK;
    size_t entries = (size_t)rows->start[rows->n];
    if (rows->map &&
        mprotect(rows->map, rows->map_size, PROT_READ | PROT_WRITE)) /* private: pages are copied */
        return yk_fail(YK_ESYSTEM, "cannot make the mapped data cache writable: %s", strerror(errno));
    enum { MIN_ENTRIES = 1 << 20 };
    remap_job job = {map, rows->index, entries,
                     entries < MIN_ENTRIES ? 1 : yk_cores_for(entries / MIN_ENTRIES + 1)};
    return job.threads == 1 ? remap_part(&job, 0) : yk_team_once(job.threads, remap_part, &job);
}

/* Every element that is written is also read. */
yk_status yk_keymap_move(const yk_keymap *map, float *array, size_t width, bool to_keys)
{
    const struct yk_keymap_slot *m = map->move;
    const size_t n = map->nmoves;
    float *old = malloc((n * width + 1) * sizeof *old);
    if (!old)
        return yk_fail_memory(n * width * sizeof *old, what);
    for (size_t i = 0; i < n; i++)
        memcpy(old + i * width, array + (to_keys ? m[i].id : m[i].key) * width, width * sizeof *old);
    for (size_t i = 0; i < n; i++)
        memcpy(array + (to_keys ? m[i].key : m[i].id) * width, old + i * width, width * sizeof *old);
    free(old);
    return YK_OK;
}
