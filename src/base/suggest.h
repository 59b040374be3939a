/* "Did you mean ...?": the known name that is closest to a misspelled word.
 *
 * Example:
 *     static const char *const known[] = {"model", "mode", "momentum", NULL};
 *     const char *name = yk_suggest("modle", known, sizeof *known);
 *     if (name)
 *         printf("did you mean --%s?\n", name);     // --model
 */
#ifndef YK_BASE_SUGGEST_H
#define YK_BASE_SUGGEST_H

#include <stddef.h>

/* `table`: an array of structs of `size` bytes whose first member is a name; a NULL name ends it. NULL: no name is close enough.
 */
const char *yk_suggest(const char *word, const void *table, size_t size);

#endif
