#include "data/keycount.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define PAGES ((size_t)1 << 16)
#define PAGE  ((size_t)1 << 16)
#define SMALL 256 /* most keys occur less often: sum_of() */

yk_status yk_keycount_init(yk_keycount *k)
{
    *k = (yk_keycount){.page = calloc(PAGES, sizeof *k->page)};
    return k->page ? YK_OK : yk_fail_memory(PAGES * sizeof *k->page, "counting features");
}

void yk_keycount_fini(yk_keycount *k)
{
    for (size_t i = 0; k->page && i < PAGES; i++)
        free(k->page[i]);
    free(k->page);
    *k = (yk_keycount){0};
}

yk_status yk__keycount_add_page(yk_keycount *k, uint32_t key)
{
    uint32_t **page = &k->page[key >> 16];
    *page = calloc(PAGE, sizeof **page);
    return *page ? YK_OK : yk_fail_memory(PAGE * sizeof **page, "counting features");
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

/* Total occurrences of the `cut` most frequent keys. large: counts from SMALL on, descending; with[c]: keys that occur c times. */
static uint64_t sum_of(uint64_t cut, const uint64_t *large, size_t nlarge, const uint64_t *with)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < nlarge && cut; i++, cut--)
        sum += large[i];
    for (uint64_t c = SMALL - 1; c > 0 && cut; c--) {
        uint64_t n = with[c] < cut ? with[c] : cut;
        sum += n * c;
        cut -= n;
    }
    return sum;
}

yk_status yk_keycount_rank(const yk_keycount *k, const uint64_t *cut, size_t ncuts, yk_key_ranking *out)
{
    *out = (yk_key_ranking){0};
    uint64_t with[SMALL] = {0}; /* with[c]: keys that occur c times */
    uint64_t *large = NULL;
    size_t nlarge = 0, cap = 0;
    yk_status st = YK_OK;
    for (size_t p = 0; !st && p < PAGES; p++)
        for (size_t i = 0; !st && k->page[p] && i < PAGE; i++) {
            const uint32_t count = k->page[p][i];
            if (!count)
                continue;
            out->distinct++;
            add_leader(out, (uint32_t)(p * PAGE + i), count);
            if (count < SMALL)
                with[count]++;
            else if (!(st = YK_RESERVE(large, cap, nlarge + 1, "ranking features")))
                large[nlarge++] = count;
        }
    if (nlarge)
        qsort(large, nlarge, sizeof *large, compare_descending);
    for (size_t i = 0; i < ncuts && i < YK_KEYCOUNT_CUTS; i++)
        out->sum[i] = sum_of(cut[i], large, nlarge, with);
    free(large);
    return st;
}
