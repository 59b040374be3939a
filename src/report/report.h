/* Makes a page, and files, from run directories: `yoke report`.
 *
 * A path is a run directory, or a directory with some below it (run.h).
 *
 * Example:
 *     yk_report report = {.paths = argv, .n = 2, .out = "report.html"};
 *     yk_report_result result;
 *     yk_status st = yk_report_make(&report, &result);
 *     free(result.out);
 *
 * Called by one thread; it starts threads that read the runs.
 */
#ifndef YK_REPORT_REPORT_H
#define YK_REPORT_REPORT_H

#include "base/status.h"

/* The size of all drawings and their data; the rest of a page (tables, style, script) is small. */
#define YK_REPORT_BYTES 3200000

typedef enum {
    YK_FORMAT_HTML,
    YK_FORMAT_LATEX,
    YK_FORMAT_MARKDOWN
} yk_format; /* the last two: tables only */

typedef struct {
    char *const *paths;
    size_t n;
    yk_format format;
    /* NULL: report.html (.tex, .md) in the path; for several paths, a new compare.html (.tex, .md) in the current directory */
    const char *out;
    const char *csv, *svg, *png; /* directories; NULL: none */
    const char *title;           /* NULL: from the runs (page.h) */
} yk_report;

typedef struct {
    char *out; /* owned by the caller, even after a failure: free() */
    size_t runs, figures, warnings, bytes;
} yk_report_result;

yk_status yk_report_make(const yk_report *r, yk_report_result *out);

#endif
