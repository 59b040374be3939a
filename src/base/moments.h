/* Mean and standard deviation of numbers that arrive one by one. Numbers that are not finite do not count.
 *
 * Example:
 *     yk_moments m = {0};
 *     yk_moments_add(&m, 0.91);
 *     yk_moments_add(&m, 0.93);
 *     double mean = yk_moments_mean(&m), deviation = yk_moments_deviation(&m, 2);
 *
 * Plain data for one thread.
 */
#ifndef YK_BASE_MOMENTS_H
#define YK_BASE_MOMENTS_H

#include <math.h>

typedef struct {
    double n, mean, squares; /* squares: of the differences from the mean */
} yk_moments;

static inline void yk_moments_add(yk_moments *m, double x)
{
    if (!isfinite(x))
        return;
    const double before = x - m->mean;
    m->mean += before / ++m->n;
    m->squares += before * (x - m->mean);
}

static inline double yk_moments_mean(const yk_moments *m) /* NaN: of no number */
{
    return m->n > 0.0 ? m->mean : (double)NAN;
}

/* Of a sample; NaN: of fewer than `min` numbers, at least 2. */
static inline double yk_moments_deviation(const yk_moments *m, int min)
{
    return m->n >= min ? sqrt(m->squares / (m->n - 1.0)) : (double)NAN;
}

#endif
