/* Numbers among the words of a layer, within bounds.
 *
 *     if (!yk__word_number(word[0], 1, YK__MOST_OUTPUTS, &l->count))
 *         return "dense needs the number of outputs, as in: dense 120";
 *
 * The bounds keep every product of sizes far from overflow; sizes that are too large for memory or for 32-bit offsets
 * are refused once shapes are known.
 */
#ifndef YK_MODEL_LAYER_WORDS_H
#define YK_MODEL_LAYER_WORDS_H

#include "base/number.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    YK__MOST_OUTPUTS = 1 << 24,
    YK__MOST_KERNEL = 64,
    YK__MOST_STRIDE = 64,
    YK__MOST_PAD = 255,
    YK__MOST_WINDOW = 1 << 20
};

static inline bool yk__word_number(const char *word, size_t least, size_t most, size_t *out)
{
    uint64_t n = 0;
    const char *end = yk_digits(word, most, &n);
    *out = n;
    return end && !*end && n >= least;
}

/* "5x3" */
static inline bool yk__word_size(const char *word, size_t most, size_t *height_out, size_t *width_out)
{
    uint64_t height = 0;
    const char *x = yk_digits(word, most, &height);
    *height_out = height;
    return x && *x == 'x' && height && yk__word_number(x + 1, 1, most, width_out);
}

/* "/2" */
static inline bool yk__word_stride(const char *word, size_t most, size_t *out)
{
    return word[0] == '/' && yk__word_number(word + 1, 1, most, out);
}

static inline bool yk__word_real(const char *word, float *out)
{
    double x = 0.0;
    const char *end = yk_decimal(word, &x);
    *out = (float)x;
    return end && !*end && isfinite(*out);
}

#endif
