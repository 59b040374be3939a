/* The tables of one run: its metrics, workers, processes, traffic and alerts.
 *
 * Example:
 *     yk_compare compare = {.n = 0};                             // from yk_compare_make()
 *     yk_table t;
 *     yk_run_table_make(&compare, 0, YK_RUN_PROCESSES, &t);      // of run 0; t.id is "processes"
 *     yk_status st = t.status;
 *     yk_table_fini(&t);
 *
 * Not thread-safe.
 */
#ifndef YK_REPORT_RUN_TABLES_H
#define YK_REPORT_RUN_TABLES_H

#include "report/compare.h"

typedef enum {
    YK_RUN_METRICS,
    YK_RUN_CLASSES,
    YK_RUN_WORKERS,
    YK_RUN_PROCESSES,
    YK_RUN_TRAFFIC,
    YK_RUN_ALERTS,
    YK_RUN_SEARCH,
    YK_RUN_WEIGHTS,
    YK_RUN_TABLES
} yk_run_table;

/* `run` -1: one table of all runs, with their labels in the first column. */
void yk_run_table_make(const yk_compare *c, int run, yk_run_table which, yk_table *out);

#endif
