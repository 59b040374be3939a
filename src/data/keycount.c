#include "data/keycount.h"

#include <stdlib.h>
#include <string.h>

#define PAGES     ((size_t)1 << 16)
#define PAGE      ((size_t)1 << 16)
#define MAX_SLOTS ((size_t)1 << 33) /* half full with 2^32 keys */

yk_status yk_keycount_init(yk_keycount *k)
{
    *k = (yk_keycount){.slots = 1024};
    k->page = calloc(PAGES, sizeof *k->page);
    k->large = calloc(k->slots, sizeof *k->large);
    if (k->page && k->large)
        return YK_OK;
    yk_keycount_fini(k);
    return yk_fail_memory(PAGES * sizeof *k->page, "counting features");
}

void yk_keycount_fini(yk_keycount *k)
{
    for (size_t i = 0; k->page && i < PAGES; i++)
        free(k->page[i]);
    free(k->page);
    free(k->large);
    *k = (yk_keycount){0};
}

/* The slot of the key, or the free slot for it. There is always a free one. */
static yk_key_count *find(yk_key_count *large, size_t slots, uint32_t key)
{
    size_t at = (size_t)(key * 0x9e3779b1u) & (slots - 1);
    while (large[at].count && large[at].key != key)
        at = (at + 1) & (slots - 1);
    return &large[at];
}

static yk_status grow(yk_keycount *k)
{
    size_t slots = 2 * k->slots;
    yk_key_count *large = slots > MAX_SLOTS ? NULL : calloc(slots, sizeof *large);
    if (!large)
        return yk_fail_memory((unsigned long long)slots * sizeof *large, "counting frequent features");
    for (size_t i = 0; i < k->slots; i++)
        if (k->large[i].count)
            *find(large, slots, k->large[i].key) = k->large[i];
    free(k->large);
    k->large = large;
    k->slots = slots;
    return YK_OK;
}

yk_status yk__keycount_add_slow(yk_keycount *k, uint32_t key)
{
    uint8_t **page = &k->page[key >> 16];
    if (!*page && !(*page = calloc(PAGE, 1)))
        return yk_fail_memory(PAGE, "counting features");
    uint8_t *count = *page + (key & 0xffff);
    if (*count < UINT8_MAX) {
        ++*count;
    } else {
        yk_key_count *slot = find(k->large, k->slots, key);
        if (!slot->count && 2 * (k->nlarge + 1) > k->slots) {
            yk_status st = grow(k);
            if (st)
                return st;
            slot = find(k->large, k->slots, key);
        }
        k->nlarge += !slot->count;
        slot->key = key;
        slot->count++;
    }
    k->total++;
    return YK_OK;
}

uint64_t yk_keycount_of(const yk_keycount *k, uint32_t key)
{
    const uint8_t *page = k->page[key >> 16];
    uint64_t count = page ? page[key & 0xffff] : 0;
    return count < UINT8_MAX ? count : count + find(k->large, k->slots, key)->count;
}

/* Inserts a key into the sorted leaders if it is frequent enough. Called with ascending keys, so that among equal counts
 * the smaller key comes first. */
static void add_leader(yk_key_ranking *r, uint32_t key, uint64_t count)
{
    size_t at = r->nleaders;
    while (at && r->leader[at - 1].count < count)
        at--;
    if (at == YK_KEYCOUNT_LEADERS)
        return;
    r->nleaders += r->nleaders < YK_KEYCOUNT_LEADERS;
    memmove(&r->leader[at + 1], &r->leader[at], (r->nleaders - at - 1) * sizeof r->leader[0]);
    r->leader[at] = (yk_key_count){key, count};
}

static int compare_descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Total occurrences of the `cut` most frequent keys. large: counts above 255, descending; with[c]: keys that occur c times. */
static uint64_t sum_of(uint64_t cut, const uint64_t *large, size_t nlarge, const uint64_t *with)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < nlarge && cut; i++, cut--)
        sum += large[i];
    for (uint64_t c = UINT8_MAX; c > 0 && cut; c--) {
        uint64_t n = with[c] < cut ? with[c] : cut;
        sum += n * c;
        cut -= n;
    }
    return sum;
}

yk_status yk_keycount_rank(const yk_keycount *k, const uint64_t *cut, size_t ncuts, yk_key_ranking *out)
{
    *out = (yk_key_ranking){0};
    uint64_t with[UINT8_MAX + 1] = {0}; /* with[c]: keys that occur c times */
    uint64_t *large = malloc((k->nlarge + 1) * sizeof *large);
    size_t nlarge = 0;
    if (!large)
        return yk_fail_memory((k->nlarge + 1) * sizeof *large, "ranking features");
    for (size_t p = 0; p < PAGES; p++) {
        for (size_t i = 0; k->page[p] && i < PAGE; i++) {
            if (!k->page[p][i])
                continue;
            uint32_t key = (uint32_t)(p * PAGE + i);
            uint64_t count = yk_keycount_of(k, key);
            out->distinct++;
            add_leader(out, key, count);
            if (count <= UINT8_MAX)
                with[count]++;
            else
                large[nlarge++] = count;
        }
    }
    qsort(large, nlarge, sizeof *large, compare_descending);
    for (size_t i = 0; i < ncuts && i < YK_KEYCOUNT_CUTS; i++)
        out->sum[i] = sum_of(cut[i], large, nlarge, with);
    free(large);
    return YK_OK;
}
