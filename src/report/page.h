/* The page: one HTML file that needs no other file, network or font. It is complete without JavaScript. Each figure and table has its
 * CSV beside it, hidden: page.js reads and saves it.
 *
 *     verdict            the bottleneck of a run, or the main results of several; the main numbers
 *     warnings
 *     runs               the table of all runs, if there are several
 *     curves             loss, accuracy, speed by step, epoch, examples or seconds: one drawing for each; one is visible
 *     metrics            of the test set at the end, if there are few runs: calibration, confusion matrix
 *     comparisons        batch sizes, workers, modes, with their plots
 *     time, resources    phases, staleness; CPU, memory, network, disk
 *     each run           its processes, alerts and options, and the command to run it again
 *
 * observe/page.css and page.js are compiled into the program.
 *
 * Example:
 *     yk_text page = {0};
 *     yk_page_write(&(yk_page){"batch sizes", NULL, &compare, &warnings, &figures}, &page);
 *     yk_status st = yk_text_save(&page, "run", "report.html");
 *     yk_text_fini(&page);
 *
 * Everything is borrowed. Not thread-safe.
 */
#ifndef YK_REPORT_PAGE_H
#define YK_REPORT_PAGE_H

#include "report/figure.h"
#include "report/warning.h"

typedef struct {
    const char *title;     /* NULL: the name of the only run, or the directory, or the number of runs */
    const char *directory; /* the name of the directory that has all runs, such as a sweep; NULL: none */
    const yk_compare *compare;
    const yk_warnings *warnings;
    const yk_figures *figures;
} yk_page;

void yk_page_write(const yk_page *p, yk_text *out);

#endif
