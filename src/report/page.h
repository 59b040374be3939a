/* The page: one HTML file that needs nothing else, neither network nor font nor script to be read.
 *
 *     yk_text t = {0};
 *     yk_page_write(&(yk_page){"batch sizes", &compare, &guards, &figures}, &t);
 *     st = yk_text_save(&t, "run", "report.html");
 *
 *     verdict            what held it back, or what the comparison shows; the main numbers
 *     guards             before you conclude
 *     runs               the table of all (several runs)
 *     curves             loss, accuracy, speed by step, epoch or seconds: three drawings of each, one of which is shown
 *     comparisons        batch sizes, workers, modes, with their plots
 *     resources, phases, staleness
 *     each run           its processes, alerts, configuration, and how to run it again
 *     #data              the points of all plots, for page.js: values under the mouse
 *
 * page.css and page.js are files of this folder, compiled into the program. All is borrowed.
 */
#ifndef YK_REPORT_PAGE_H
#define YK_REPORT_PAGE_H

#include "report/compare.h"
#include "report/figure.h"
#include "report/guard.h"
#include "report/text.h"

typedef struct {
    const char *title; /* NULL: by the runs */
    const yk_compare *compare;
    const yk_guards *guards;
    const yk_figures *figures;
} yk_page;

void yk_page_write(const yk_page *p, yk_text *out);

/* The page's title: what was asked for, or the name of the only run, or their number. */
void yk_page_title(const yk_page *p, char *out /* [256] */);

/* Inside: pieces. */
void yk__page_table(const yk_table *t, const yk_compare *c, yk_text *out);
void yk__page_figure(const yk_figure *f, const yk_compare *c, yk_text *out);
void yk__page_legend(const yk_compare *c, yk_text *out);
void yk__page_key(const yk_compare *c, int run,
                  yk_text *out); /* a bit of the run's line; nothing for one run */
void yk__page_data(const yk_figures *fs, yk_text *out);
void yk__page_run(const yk_page *p, size_t i, yk_text *out);
void yk__page_verdict(const yk_run *r, const yk_facts *f, yk_text *out);

#endif
