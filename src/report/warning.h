/* The warnings at the top of a report: reasons why its numbers may not mean what a reader thinks.
 *
 * There is one group per kind of warning (observe/warnings.h), with an item for each run that it is about (busy hosts: one
 * item for all runs). Each run has written the warnings about itself to its summary.json. The report adds those about runs
 * that failed or are incomplete, and about comparisons. Runs of yoke 0.1.0 wrote plain strings without a kind ("guards"):
 * these are in the group YK_WARNING_OTHER.
 *
 * Example:
 *     yk_warnings w;
 *     yk_status st = yk_warnings_make(&compare, &w);
 *     for (size_t i = 0; !st && i < YK_WARNING_KINDS; i++)
 *         printf("%s: %zu warnings\n", yk_warning_texts[i].title, w.group[i].items);
 *     yk_warnings_fini(&w);
 *
 * The warnings own their texts; the comparison is borrowed only during the call. Not thread-safe.
 */
#ifndef YK_REPORT_WARNING_H
#define YK_REPORT_WARNING_H

#include "observe/warnings.h"
#include "report/compare.h"

typedef struct {
    struct {
        int run; /* -1: all runs */
        char *text;
    } * item;
    size_t items, cap;
} yk_warning_group;

typedef struct {
    yk_warning_group group[YK_WARNING_KINDS];
    size_t n;         /* groups that are not empty */
    yk_status status; /* the first error */
} yk_warnings;

yk_status yk_warnings_make(const yk_compare *c, yk_warnings *out);
void yk_warnings_fini(yk_warnings *w);

#endif
