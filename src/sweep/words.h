/* Lines of a sweep's file cut into words, in place: parts of the text become strings of their own.
 *
 *     char *part[8], line[] = "sync 1 | \"a | b\" 2";
 *     n = yk__cut_choices(line, 8, part);              // 2: {"sync 1 ", " \"a | b\" 2"}
 *     n = yk__cut_words(part[1], false, 8, part);      // 2: {"a | b", "2"}
 *
 * Double quotes hold together what is between them. What is pointed to is borrowed from the text.
 */
#ifndef YK_SWEEP_WORDS_H
#define YK_SWEEP_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* "text" without its quotes, where they are around all of it. */
char *yk__unquote(char *text);

/* Cuts at each | outside of quotes, into `most` parts at most; 0: there are more. */
size_t yk__cut_choices(char *text, size_t most, char **choice);

/* Cuts at blanks outside of quotes and, if asked to, at commas; words lose their quotes. Returns how many there are, of
 * which the first `most` are kept. */
size_t yk__cut_words(char *text, bool commas, size_t most, char **word);

#endif
