#include "base/suggest.h"

#include <string.h>

enum { LONGEST = 31 };

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The optimal string alignment distance: one for each character inserted, deleted or replaced, and for two neighbors
 * swapped. */
static size_t distance(const char *a, const char *b)
{
    const size_t m = strlen(a), n = strlen(b);
    size_t d[LONGEST + 1][LONGEST + 1]; /* [i][j]: of the first i characters of a and j of b */
    if (m > LONGEST || n > LONGEST)
        return m + n;
    for (size_t i = 0; i <= m; i++)
        for (size_t j = 0; j <= n; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = min(min(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[m][n];
}

const char *yk_suggest(const char *word, const void *table, size_t size)
{
    const size_t m = strlen(word), limit = (m + 2) / 3;
    size_t least = limit + 1;
    const char *best = NULL, *name;
    for (const char *at = table; (name = *(const char *const *)at); at += size) {
        const size_t n = strlen(name);
        if (m > n + limit || n > m + limit) /* the distance is at least that */
            continue;
        const size_t d = distance(word, name);
        if (d < least) {
            least = d;
            best = name;
        }
    }
    return best;
}
