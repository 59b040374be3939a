/* Parses the numbers in the description of a layer, within bounds.
 *
 * Example:
 *     if (!yk__arg_count(arg[0], 1, YK__MAX_OUTPUTS, &count))
 *         error = "dense needs the number of outputs, as in: dense 120";
 *
 * The bounds keep every product of sizes far from overflow. Sizes that are too large for memory or for 32-bit offsets
 * are rejected later, once shapes are known. The functions are pure.
 */
#ifndef YK_MODEL_LAYER_ARGS_H
#define YK_MODEL_LAYER_ARGS_H

#include "base/number.h"
#include <math.h>

enum {
    YK__MAX_OUTPUTS = 1 << 24,
    YK__MAX_KERNEL = 64,
    YK__MAX_STRIDE = 64,
    YK__MAX_PAD = 255,
    YK__MAX_WINDOW = 1 << 20
};

static inline bool yk__arg_count(const char *arg, size_t min, size_t max, size_t *out)
{
    uint64_t n = 0;
    const char *end = yk_digits(arg, max, &n);
    *out = n;
    return end && !*end && n >= min;
}

/* "5x3" */
static inline bool yk__arg_size(const char *arg, size_t max, size_t *height_out, size_t *width_out)
{
    uint64_t height = 0;
    const char *x = yk_digits(arg, max, &height);
    *height_out = height;
    return x && *x == 'x' && height && yk__arg_count(x + 1, 1, max, width_out);
}

/* "/2" */
static inline bool yk__arg_stride(const char *arg, size_t max, size_t *out)
{
    return arg[0] == '/' && yk__arg_count(arg + 1, 1, max, out);
}

static inline bool yk__arg_float(const char *arg, float *out)
{
    double x = 0.0;
    const char *end = yk_decimal(arg, &x);
    *out = (float)x;
    return end && !*end && isfinite(*out);
}

#endif
