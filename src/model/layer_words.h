/* Numbers among the words of a layer, read strictly: digits and nothing else, within bounds.
 *
 *     if (!yk__word_number(word[0], strlen(word[0]), 1, YK__MOST_OUTPUTS, &l->count))
 *         return "dense needs the number of outputs, as in: dense 120";
 *
 * (scanf takes "-6" for a size of 2^64 - 6, and strtoul "2x" for a 2.) The bounds keep every product of sizes far from
 * overflow; what is too large for memory or for 32-bit offsets is refused when shapes are known.
 */
#ifndef YK_MODEL_LAYER_WORDS_H
#define YK_MODEL_LAYER_WORDS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    YK__MOST_OUTPUTS = 1 << 24,
    YK__MOST_KERNEL = 64,
    YK__MOST_STRIDE = 64,
    YK__MOST_PAD = 255,
    YK__MOST_WINDOW = 1 << 20
};

static inline bool yk__word_number(const char *word, size_t length, size_t least, size_t most, size_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        n = 10 * n + (size_t)(word[i] - '0');
        if (n > most)
            return false;
    }
    *out = n;
    return length > 0 && n >= least;
}

/* "5x3" */
static inline bool yk__word_size(const char *word, size_t most, size_t *height_out, size_t *width_out)
{
    const char *x = strchr(word, 'x');
    return x && yk__word_number(word, (size_t)(x - word), 1, most, height_out) &&
           yk__word_number(x + 1, strlen(x + 1), 1, most, width_out);
}

/* "/2" */
static inline bool yk__word_stride(const char *word, size_t most, size_t *out)
{
    return word[0] == '/' && yk__word_number(word + 1, strlen(word + 1), 1, most, out);
}

static inline bool yk__word_real(const char *word, float *out)
{
    char *end;
    *out = strtof(word, &end);
    return end != word && !*end && isfinite(*out);
}

#endif
