/* A text that grows: pages, pictures and tables are written into one, and go to a file at the end.
 *
 *     yk_text t = {0};
 *     yk_text_print(&t, "<td>%d", 7);
 *     yk_text_html(&t, name);                   // & < > " ' made harmless, bad UTF-8 replaced
 *     st = yk_text_save(&t, "run", "report.html");     // the first error of all these calls, or YK_OK
 *     yk_text_fini(&t);
 *
 * The first error sticks: later calls do nothing, so only the end has to be checked (yk_text_save or .status). What is in
 * it is owned by it and ends with a zero byte that n does not count. One thread at a time.
 */
#ifndef YK_REPORT_TEXT_H
#define YK_REPORT_TEXT_H

#include "base/status.h"
#include <stddef.h>

typedef struct {
    char *s; /* NULL while nothing was written */
    size_t n, cap;
    yk_status status;
} yk_text;

void yk_text_fini(yk_text *t);

void yk_text_put(yk_text *t, const char *s, size_t n);
void yk_text_add(yk_text *t, const char *s);
void yk_text_print(yk_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

void yk_text_html(yk_text *t, const char *s); /* for elements and for attributes in quotes */
void yk_text_csv(yk_text *t, const char *s);  /* one field, in quotes where it has to be (RFC 4180) */

/* At most `digits` significant ones, no zeros at the end, no "e" between 1e-4 and 1e15; what is not a number is
 * `none`. */
void yk_text_number(yk_text *t, double x, int digits, const char *none);

/* Writes it to `path`, whole or not at all (base/file.h). */
yk_status yk_text_save(const yk_text *t, const char *dir, const char *name); /* as yk_file_create_in() */

#endif
