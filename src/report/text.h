/* Texts of pages, pictures and tables (base/text.h): escaped, and into a file at the end.
 *
 *     yk_text_html(&t, name);                          // & < > " ' made harmless, bad UTF-8 replaced
 *     st = yk_text_save(&t, "run", "report.html");     // the first error of all these calls, or YK_OK
 */
#ifndef YK_REPORT_TEXT_H
#define YK_REPORT_TEXT_H

#include "base/text.h"

void yk_text_html(yk_text *t, const char *s); /* for elements and for attributes in quotes */
void yk_text_csv(yk_text *t, const char *s);  /* one field, in quotes where it has to be (RFC 4180) */

/* At most `digits` significant ones, no zeros at the end, no "e" between 1e-4 and 1e15; what is not a number is
 * `none`. */
void yk_text_number(yk_text *t, double x, int digits, const char *none);

/* Writes it to a file, whole or not at all, as yk_file_create_in(). */
yk_status yk_text_save(const yk_text *t, const char *dir, const char *name);

#endif
