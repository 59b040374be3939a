/* Run directories to a page, and to files beside it: what `yoke report` does.
 *
 *     yk_report r = {.paths = argv, .n = argc, .out = "report.html"};
 *     yk_report_result result;
 *     st = yk_report_make(&r, &result);
 *
 * A path is a run directory, or a folder with some below it (run.h). Runs are read by several threads; the rest is done by
 * the calling one.
 */
#ifndef YK_REPORT_REPORT_H
#define YK_REPORT_REPORT_H

#include "base/status.h"
#include <stddef.h>

/* What the drawings and their data may take together; the rest of a page (tables, style, script) is small. */
#define YK_REPORT_BYTES 3200000

typedef struct {
    char *const *paths;
    size_t n;
    const char *out;             /* the page; NULL: report.html in the first path */
    const char *csv, *svg, *png; /* folders; NULL: none */
    const char *title;           /* NULL: by the runs */
} yk_report;

typedef struct {
    char *out; /* owned by the caller: free() */
    size_t runs, figures, guards, bytes;
} yk_report_result;

yk_status yk_report_make(const yk_report *r, yk_report_result *out);

#endif
