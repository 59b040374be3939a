/* The results of a sweep: mean and spread over the repeats of each point, printed, as CSV and as JSON.
 *
 * sweep.csv has one line per point: the options that vary, the numbers of done and failed runs, and NAME and NAME_spread of
 * each measure. runs.csv has one line per run. sweep.json has both, and all summaries:
 *
 *     {"name":..,"file":..,"repeats":3,"runs_in_all":60,"done":58,"failed":1,
 *      "points":[{"options":{"batch":"5"},"done":3,"failed":0,"test_loss":{"mean":0.3,"spread":0.001},..},..],
 *      "runs":[{"folder":..,"options":{..},"seed":1,"state":"done","error":null,"summary":{..}},..]}
 *
 * The spread is the sample standard deviation, unknown for a single run. Unknown values are empty in CSV and null in
 * JSON.
 *
 * Example:
 *     yk_sweep_result *r = calloc(plan.nruns, sizeof *r);          // no run was started yet
 *     yk_sweep_result_take(&r[0], summary);                        // takes the summary of run 0
 *     yk_sweep_table_print(&plan, r, stdout);
 *     yk_status st = yk_sweep_table_save(&plan, r, "runs/softmax");     // sweep.csv, runs.csv and sweep.json
 *     yk_sweep_result_fini(&r[0]);
 *     free(r);
 *
 * Not thread-safe.
 */
#ifndef YK_SWEEP_TABLE_H
#define YK_SWEEP_TABLE_H

#include "sweep/plan.h"
#include <jansson.h>
#include <stdio.h>

typedef enum {
    YK_SWEEP_NOT_RUN,
    YK_SWEEP_DONE,
    YK_SWEEP_FAILED,
    YK_SWEEP_STOPPED,
    YK_SWEEP_DIVERGED /* counts as failed in all numbers */
} yk_sweep_state;

typedef struct {
    yk_sweep_state state;
    json_t *summary; /* the object of yoke train --json; NULL: none. Owned */
    char *problem;   /* the error of a failed run. Owned */
    int rung;        /* search = halving: how often it was continued, plus 1; 0: it was not trained */
} yk_sweep_result;

/* Takes ownership of the summary, and sets the state to done, stopped or diverged according to it. */
void yk_sweep_result_take(yk_sweep_result *r, json_t *summary);
void yk_sweep_result_fini(yk_sweep_result *r);

bool yk_sweep_result_failed(const yk_sweep_result *r); /* or diverged */

/* A number of the summary; NaN: none. */
double yk_sweep_result_number(const yk_sweep_result *r, const char *name);

void yk_sweep_table_print(const yk_sweep_plan *p, const yk_sweep_result *r, FILE *f);

/* sweep.json, on one line or indented; the caller frees it. NULL: out of memory. */
char *yk_sweep_table_json(const yk_sweep_plan *p, const yk_sweep_result *r, bool indent);

yk_status yk_sweep_table_save(const yk_sweep_plan *p, const yk_sweep_result *r, const char *directory);

#endif
