/* The text of --model: named lists of layers, and the parts of a list. Used for networks and for sums of branches.
 *
 *     conv 6 5x5 same, relu, dense 10        linear + fm 8 + (embed 8, dense 1)
 *
 * Example:
 *     char *list;
 *     yk__list_part part;
 *     yk_status st = yk__list_expand("lenet5", 10, &list);  // "conv 6 5x5 same, relu, ..., dense 10"
 *     if (!st)
 *         st = yk__list_part_init(list, 0, 15, &part);           // "conv", "6", "5x5", "same"
 *     if (!st && !part.n)
 *         st = yk__list_error(list, part.begin, "empty layer");
 *
 * Thread-safe. The caller frees the list and part.copy with free().
 */
#ifndef YK_MODEL_LAYER_LIST_H
#define YK_MODEL_LAYER_LIST_H

#include "base/status.h"

#define YK__BLANKS " \t\n"

/* Whether this is the name of a network or of a sum of branches; "fm:16" is one, too. */
bool yk__list_is_named(const char *text);

/* Whether it is a sum of branches, which it is by its first word, or such a name. */
bool yk__list_is_branches(const char *text);

bool yk__list_is_word(const char *text); /* without blanks and commas */

/* The list of a name, or a copy of the text. outputs: those of a network. The caller frees it. */
yk_status yk__list_expand(const char *text, size_t outputs, char **out);

/* YK_EUSAGE: the text is a word that was meant as the name of a model. */
yk_status yk__list_unknown(const char *text);

/* YK_EUSAGE: quotes the list, with a caret below position `at`. */
yk_status yk__list_error(const char *list, size_t at, const char *why);

enum { YK__MAX_WORDS = 8 };

/* A part of a list as words. */
typedef struct {
    size_t begin, end; /* in the list, without blanks around it */
    int n;             /* words; if there are too many, YK__MAX_WORDS + 1 */
    char *word[YK__MAX_WORDS];
    char *copy; /* owned; free() it */
} yk__list_part;

/* The part [begin, end). */
yk_status yk__list_part_init(const char *list, size_t begin, size_t end, yk__list_part *out);

static inline size_t yk__list_word_at(const yk__list_part *part, int word)
{
    return part->begin + (size_t)(part->word[word] - part->copy);
}

#endif
