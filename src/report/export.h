/* Writes the figures and tables of a report to files.
 *
 * Creates the directory if necessary, and replaces files of the same name. A figure that can be drawn by step, epoch,
 * examples and seconds becomes four files.
 *
 * Example:
 *     yk_status st = yk_export_csv(&figures, &compare, "figures");      // test-accuracy.csv, table-batch.csv, ...; all points
 *     st = yk_export_svg(&figures, "figures");                          // test-accuracy-by-epoch.svg, memory-over-time.svg, ...
 *     st = yk_export_tables(&compare, YK_FORMAT_LATEX, &text);          // all tables, as one text
 *     st = yk_export_png(&figures, "figures");                          // needs rsvg-convert or chromium
 *
 * Not thread-safe.
 */
#ifndef YK_REPORT_EXPORT_H
#define YK_REPORT_EXPORT_H

#include "report/figure.h"
#include "report/report.h"

yk_status yk_export_csv(const yk_figures *fs, const yk_compare *c, const char *dir);
yk_status yk_export_tables(const yk_compare *c, yk_format format, yk_text *out); /* LATEX or MARKDOWN */
yk_status yk_export_svg(const yk_figures *fs, const char *dir);

/* YK_ESYSTEM if no converter is installed. */
yk_status yk_export_png(const yk_figures *fs, const char *dir);

#endif
