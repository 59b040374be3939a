/* The results of a sweep: mean and spread over the repeats of each point, printed, as CSV and as JSON.
 *
 * sweep.csv has one line per point: the options that vary, the numbers of done and failed runs, and NAME and NAME_spread of
 * each measure. runs.csv has one line per run. sweep.json has both, and all summaries:
 *
 *     {"name":..,"file":..,"repeats":3,"runs_in_all":60,"done":58,"failed":1,
 *      "points":[{"options":{"batch":"5"},"done":3,"failed":0,"test_loss":{"mean":0.3,"spread":0.001},..},..],
 *      "runs":[{"folder":..,"options":{..},"seed":1,"state":"done","error":null,..,"test_loss":0.3,..,"summary":{..}},..]}
 *
 * The spread is the sample standard deviation, unknown for a single run. Unknown values are empty in CSV and null in
 * JSON.
 *
 * Example:
 *     yk_sweep_run_take(&plan.run[0], summary);       // the others have not been trained yet
 *     yk_sweep_table_print(&plan, stdout);
 *     yk_status st = yk_sweep_table_save(&plan);      // sweep.csv, runs.csv and sweep.json
 *
 * Not thread-safe.
 */
#ifndef YK_SWEEP_TABLE_H
#define YK_SWEEP_TABLE_H

#include "sweep/plan.h"
#include <stdio.h>

/* What the runs of a point are ranked by: the value of --monitor on the validation set, else the test loss, else the training loss;
 * the sum over its runs, negated if higher is better. Infinity: a run has failed or has no result. */
double yk_sweep_point_loss(const yk_sweep_plan *p, size_t point);

/* Whether the monitored value is printed in percent, as other accuracies are. */
bool yk_sweep_in_percent(const yk_sweep_plan *p);

yk_status yk_sweep_table_print(const yk_sweep_plan *p, FILE *f);

/* sweep.json, on one line or indented; the caller frees it. NULL: out of memory. */
char *yk_sweep_table_json(const yk_sweep_plan *p, bool indent);

yk_status yk_sweep_table_save(const yk_sweep_plan *p);

#endif
