/* "Did you mean ...?": the known name that is closest to a misspelled word.
 *
 * Example:
 *     static const char *const known[] = {"model", "mode", "momentum"};
 *     yk_suggestion s = {.word = "modle"};
 *     for (int i = 0; i < 3; i++)
 *         yk_suggestion_try(&s, known[i]);
 *     if (s.name)
 *         printf("did you mean --%s?\n", s.name);     // --model
 */
#ifndef YK_CONFIG_SUGGEST_H
#define YK_CONFIG_SUGGEST_H

#include <stddef.h>

typedef struct {
    const char *word;
    const char *name; /* the closest so far, borrowed; NULL: none is close enough */
    size_t distance;  /* of that name: inserted, deleted, replaced and swapped characters */
} yk_suggestion;

void yk_suggestion_try(yk_suggestion *s, const char *name);

#endif
