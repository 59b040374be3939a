/* The figures and tables of a report as files.
 *
 *     st = yk_export_csv(&figures, &compare, "figures");    // accuracy.csv, table-batch.csv, ...; all points
 *     st = yk_export_svg(&figures, "figures");              // accuracy-epoch.svg, cpu.svg, ...; needs nothing
 *     st = yk_export_png(&figures, "figures");              // the same as pictures, by rsvg-convert or chromium
 *
 * Folders are made where they are missing; files of the same name are replaced. A figure that can be drawn by step, epoch
 * and seconds is three files.
 */
#ifndef YK_REPORT_EXPORT_H
#define YK_REPORT_EXPORT_H

#include "report/figure.h"

yk_status yk_export_csv(const yk_figures *fs, const yk_compare *c, const char *folder);
yk_status yk_export_svg(const yk_figures *fs, const char *folder);

/* YK_ESYSTEM with what to install where there is no converter. */
yk_status yk_export_png(const yk_figures *fs, const char *folder);

#endif
