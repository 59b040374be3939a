/* What the runs of a sweep came to: mean and spread over the repeats of each point, as a table for people, as CSV for
 * spreadsheets and as JSON for programs.
 *
 *     yk_sweep_result *r = calloc(plan.nruns, sizeof *r);          // all not run yet
 *     yk_sweep_result_take(&r[i], json);                           // json, the summary of run i, is taken
 *     yk_sweep_table_print(&plan, r, stdout);
 *     st = yk_sweep_table_save(&plan, r, "runs/softmax");          // sweep.csv, runs.csv and sweep.json
 *     yk_sweep_result_fini(&r[i]);
 *
 * sweep.csv has a line for each point: the options that vary, how many runs are done and failed, then NAME and
 * NAME_spread of each measure. runs.csv has a line for each run. sweep.json holds both, and every summary whole:
 *
 *     {"name":..,"file":..,"repeats":3,"runs_in_all":60,"done":58,"failed":1,
 *      "points":[{"options":{"batch":"5"},"done":3,"failed":0,"test_loss":{"mean":0.3,"spread":0.001},..},..],
 *      "runs":[{"folder":..,"options":{..},"seed":1,"state":"done","error":null,"summary":{..}},..]}
 *
 * The spread is the standard deviation (n - 1 below the line), null of a single run. What is not known is empty in
 * CSV and null in JSON. One thread.
 */
#ifndef YK_SWEEP_TABLE_H
#define YK_SWEEP_TABLE_H

#include "sweep/plan.h"
#include <jansson.h>
#include <stdio.h>

typedef enum { YK_SWEEP_NOT_RUN, YK_SWEEP_DONE, YK_SWEEP_FAILED, YK_SWEEP_STOPPED } yk_sweep_state;

typedef struct {
    yk_sweep_state state;
    json_t *summary; /* the object of yoke train --json; NULL: none. Owned */
    char *problem;   /* failed: why. Owned */
} yk_sweep_result;

/* It is done, or was stopped, as the summary says, which is taken. */
void yk_sweep_result_take(yk_sweep_result *r, json_t *summary);
void yk_sweep_result_fini(yk_sweep_result *r);

/* A number of the summary by its name; NaN: not there. */
double yk_sweep_result_number(const yk_sweep_result *r, const char *name);

void yk_sweep_table_print(const yk_sweep_plan *p, const yk_sweep_result *r, FILE *f);

/* The whole as JSON, on one line or indented; the caller frees. NULL: out of memory. */
char *yk_sweep_table_json(const yk_sweep_plan *p, const yk_sweep_result *r, bool indent);

yk_status yk_sweep_table_save(const yk_sweep_plan *p, const yk_sweep_result *r, const char *folder);

#endif
