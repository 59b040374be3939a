/* Fewer points with the same shape. */
#include "report/figure.h"

#include <math.h>
#include <stdlib.h>

/* A line through the lowest and the highest point of every pixel column looks the same as one through all of them:
 * spikes stay, whatever lies between them. */
size_t yk_thin(const double *x, const double *y, size_t n, size_t points, size_t *keep_out)
{
    size_t kept = 0, columns = points < 4 ? 1 : (points - 2) / 2;
    if (n <= points || n < 3) {
        for (size_t i = 0; i < n; i++)
            keep_out[i] = i;
        return n;
    }
    double width = (x[n - 1] - x[0]) / (double)columns;
    keep_out[kept++] = 0;
    for (size_t i = 1; i < n - 1;) {
        /* by number where x does not say anything */
        double column =
            width > 0.0 ? floor((x[i] - x[0]) / width) : floor((double)i * (double)columns / (double)n);
        size_t low = i, high = i;
        for (; i < n - 1; i++) {
            double here =
                width > 0.0 ? floor((x[i] - x[0]) / width) : floor((double)i * (double)columns / (double)n);
            if (here > column)
                break;
            low = y[i] < y[low] ? i : low;
            high = y[i] > y[high] ? i : high;
        }
        keep_out[kept++] = low < high ? low : high;
        if (low != high)
            keep_out[kept++] = low < high ? high : low;
    }
    keep_out[kept++] = n - 1;
    return kept;
}

/* Bytes of a point: its place in each drawing of it, and its numbers for the hover. */
static double weight(const yk_figure *f, const yk_series *s)
{
    double axes = 0.0;
    for (int k = 0; k < YK_X_COUNT; k++)
        axes += s->x[k] != NULL;
    return (f->kind == YK_LINES ? 8.0 * axes : 0.0) + 7.0 * axes + 7.0;
}

static size_t first_axis(const yk_series *s)
{
    size_t k = 0;
    while (k < YK_X_COUNT - 1 && !s->x[k])
        k++;
    return k;
}

void yk_figures_thin(yk_figures *fs, size_t bytes)
{
    enum { MOST = 1200, FEWEST = 24 };
    size_t points = MOST, longest = 0;
    for (;; points -= points / 8 > 0 ? points / 8 : 1) { /* few series: all the detail; many: less of each */
        double sum = 0.0;
        for (size_t i = 0; i < fs->n; i++)
            for (size_t k = 0; k < fs->figure[i].n; k++) {
                const yk_series *s = &fs->figure[i].series[k];
                longest = s->n > longest ? s->n : longest;
                sum += (double)(s->n < points ? s->n : points) * weight(&fs->figure[i], s) + 300.0;
            }
        if (sum <= (double)bytes || points <= FEWEST)
            break;
    }
    size_t *keep = malloc((longest ? longest : 1) * sizeof *keep);
    if (!keep)
        return; /* it only gets larger */
    for (size_t i = 0; i < fs->n; i++)
        for (size_t k = 0; k < fs->figure[i].n; k++) {
            yk_series *s = &fs->figure[i].series[k];
            if (fs->figure[i].kind != YK_LINES || s->n <= points)
                continue;
            s->n = yk_thin(s->x[first_axis(s)], s->y, s->n, points, keep);
            for (size_t p = 0; p < s->n; p++) {
                s->y[p] = s->y[keep[p]];
                for (int a = 0; a < YK_X_COUNT; a++)
                    if (s->x[a])
                        s->x[a][p] = s->x[a][keep[p]];
            }
        }
    free(keep);
}
