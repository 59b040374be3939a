/* Splits lines of a sweep file into words, in place.
 *
 * Example:
 *     char *part[8], line[] = "sync 1 | \"a | b\" 2";
 *     size_t n = yk__split_choices(line, 8, part);        // 2: {"sync 1 ", " \"a | b\" 2"}
 *     n = yk__split_words(part[1], false, 8, part);       // 2: {"a | b", "2"}
 *
 * Text in double quotes stays together. The parts are borrowed from the text. Thread-safe.
 */
#ifndef YK_SWEEP_WORDS_H
#define YK_SWEEP_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Removes the double quotes around a string. */
char *yk__unquote(char *text);

/* Splits at each | outside of quotes. Returns the number of parts; 0: more than `max`. */
size_t yk__split_choices(char *text, size_t max, char **choice);

/* Splits at blanks outside of quotes, and optionally at commas, and removes quotes. Returns the number of words, of which
 * it stores the first `max`. */
size_t yk__split_words(char *text, bool commas, size_t max, char **word);

#endif
