/* Texts of pages, drawings and tables (base/text.h), with escapes.
 *
 * Example:
 *     yk_html(&text, "<td title=\"%s\">%zu", name, count);          // the name is escaped
 *     yk_status st = yk_text_save(&text, "run", "report.html");      // the first error of all these calls
 *
 * Use yk_html() for everything that is not a constant: names and values come from untrusted files. One thread per text.
 */
#ifndef YK_REPORT_TEXT_H
#define YK_REPORT_TEXT_H

#include "base/text.h"

/* Like yk_text_print(), but arguments of %s are escaped, for elements and for attributes in quotes; invalid UTF-8 is
 * replaced. Conversions: s, d, zu, f, g, % with a width or precision in digits. */
void yk_html(yk_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* With at most `digits` significant digits, without trailing zeros, without an exponent between 1e-4 and 1e15; nothing if it is
 * not finite. */
void yk_text_number(yk_text *t, double x, int digits);

/* Writes the text to a file as a whole (yk_file_create_in()). */
yk_status yk_text_save(const yk_text *t, const char *dir, const char *name);

#endif
