/* Removes points and rows without changing the shape of a line. */
#include "report/figure.h"

/* A line through the lowest and the highest point of each pixel column looks like one through all points: it keeps all
 * spikes. */
size_t yk_thin(void *rows, size_t n, size_t size, size_t x, size_t y, size_t max)
{
    char *p = rows;
    if (n <= max || n < 3)
        return n;
    const size_t columns = max < 4 ? 1 : (max - 2) / 2;
    const double first = yk_double_at(p, x),
                 width = (yk_double_at(p + (n - 1) * size, x) - first) / (double)columns;
    size_t kept = 1;
    for (size_t i = 1; i < n - 1;) {
        double column = 0.0;
        size_t low = i, high = i;
        for (size_t begin = i; i < n - 1; i++) {
            /* by number if all x are the same */
            double here = width > 0.0 ? floor((yk_double_at(p + i * size, x) - first) / width)
                                      : floor((double)i * (double)columns / (double)n);
            if (i == begin)
                column = here;
            else if (here > column)
                break;
            const double v = yk_double_at(p + i * size, y), lowest = yk_double_at(p + low * size, y),
                         highest = yk_double_at(p + high * size, y);
            low = v < lowest || isnan(lowest) ? i : low;
            high = v > highest || isnan(highest) ? i : high;
        }
        memmove(p + kept++ * size, p + (low < high ? low : high) * size, size);
        if (low != high)
            memmove(p + kept++ * size, p + (low < high ? high : low) * size, size);
    }
    memmove(p + kept++ * size, p + (n - 1) * size, size);
    return kept;
}

/* Bytes per point: its position in the drawing for each axis, and its numbers for the tooltip. */
static double weight(const yk_figure *f, const yk_series *s)
{
    const double axes = s->axes, band = s->n && s->point[s->n - 1].spread > 0.0 ? 24.0 : 0.0;
    return (f->kind == YK_LINES ? (11.0 + band) * axes : 0.0) + 7.0 * axes + 7.0;
}

void yk_figures_thin(yk_figures *fs, size_t bytes)
{
    enum { MAX = 1200, MIN = 24 };
    size_t points = MAX;
    for (;; points -= points / 8) { /* the more series, the fewer points of each */
        double sum = 0.0;
        for (size_t i = 0; i < fs->n; i++)
            for (size_t k = 0; k < fs->figure[i].n; k++) {
                const yk_series *s = &fs->figure[i].series[k];
                sum += (double)(s->n < points ? s->n : points) * weight(&fs->figure[i], s) + 300.0;
            }
        if (sum <= (double)bytes || points <= MIN)
            break;
    }
    for (size_t i = 0; i < fs->n; i++)
        for (size_t k = 0; k < fs->figure[i].n && fs->figure[i].kind == YK_LINES; k++) {
            yk_series *s = &fs->figure[i].series[k];
            s->n = yk_thin(s->point, s->n, sizeof *s->point, offsetof(yk_point, x), offsetof(yk_point, y),
                           points);
        }
}
