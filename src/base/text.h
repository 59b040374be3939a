/* A growable string: pages, tables, JSON, protobuf messages.
 *
 * Example:
 *     yk_text t = {0};
 *     yk_text_print(&t, "<td>%d", 7);
 *     yk_text_add(&t, "</td>");
 *     char *s = yk_text_take(&t); // the caller frees it; NULL: out of memory
 *
 * The first error is kept: later calls do nothing, so one check at the end is enough (yk_text_take or .status). The text is
 * owned, and ends with a zero byte that n does not include. One thread at a time.
 */
#ifndef YK_BASE_TEXT_H
#define YK_BASE_TEXT_H

#include "base/status.h"

typedef struct {
    char *s; /* NULL: nothing was written yet */
    size_t n, cap;
    yk_status status;
} yk_text;

void yk_text_fini(yk_text *t);

void yk_text_put(yk_text *t, const void *bytes, size_t n);
void yk_text_add(yk_text *t, const char *s);
void yk_text_print(yk_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Begins an item of a list for people, "a, b, c, ...", in a text that contains nothing else. false: the list is long enough. */
bool yk_text_item(yk_text *t);

/* Adds s, escaped: replaces each ASCII character for which `replace` returns a string by that string, and other control characters
 * and invalid UTF-8 by U+FFFD. */
void yk_text_escape(yk_text *t, const char *s, const char *(*replace)(char c));

/* Adds a field of a CSV file, quoted if necessary (RFC 4180). A field that a spreadsheet would interpret as a formula, because it
 * begins with = + - @ and is not a number, is prefixed with "'". */
void yk_text_csv(yk_text *t, const char *s);

/* Adds a word of a shell command, in single quotes if necessary. */
void yk_text_shell(yk_text *t, const char *s);

/* Adds a table in columns, two blanks apart. rows: lines of at most YK_TEXT_COLUMNS cells with tabs between them; a line "-" is a rule.
 * align: '<' or '>' for each column. Resets rows. */
enum { YK_TEXT_COLUMNS = 96 };
void yk_text_columns(yk_text *t, yk_text *rows, const char *align);

char *yk_text_take(yk_text *t); /* also resets t */

bool yk_list_has(const char *list, const char *word); /* in "one,two" or "one, two" */

#endif
