/* The folder of a sweep: it has all that is needed to go on after an interruption.
 *
 *     runs/softmax/plan.txt         the runs of the sweep; a sweep with other runs is refused
 *                  sweep.ini        the file of the sweep when it began
 *                  lock             held while a sweep runs
 *                  batch-5_seed-1/  a run directory of yoke train, with summary.json when it is done, and log.txt, its
 *                                   stderr
 *                  sweep.csv, runs.csv, sweep.json, report.html
 *
 *     yk_sweep_folder f;
 *     st = yk_sweep_folder_open("runs/softmax", &plan, false, &f);
 *     st = yk_sweep_folder_find(f.path, &plan.run[i], &state, &summary);   // done, begun, ...
 *     yk_sweep_folder_close(&f);                                           // in any case
 *
 * One thread.
 */
#ifndef YK_SWEEP_FOLDER_H
#define YK_SWEEP_FOLDER_H

#include "base/lock.h"
#include "sweep/plan.h"
#include <jansson.h>

typedef struct {
    const char *path; /* borrowed */
    yk_lock *lock;
} yk_sweep_folder;

typedef enum {
    YK_SWEEP_RUN_ABSENT,
    YK_SWEEP_RUN_BEGUN, /* it was stopped, or failed; it can be resumed if it has a checkpoint */
    YK_SWEEP_RUN_COMPLETE,
    YK_SWEEP_RUN_OTHER, /* the run there has other options */
} yk_sweep_run_state;

/* Creates the folder, or opens the one of an earlier sweep with the same plan; `force`: with any plan. Takes the lock. */
yk_status yk_sweep_folder_open(const char *path, const yk_sweep_plan *plan, bool force, yk_sweep_folder *out);
void yk_sweep_folder_close(yk_sweep_folder *f);

/* What there is of a run. *summary_out: that of a complete run, a new reference; else NULL. */
yk_status yk_sweep_folder_find(const char *path, const yk_sweep_run *run, yk_sweep_run_state *state_out,
                               json_t **summary_out);

/* PATH/RUN/NAME, PATH/RUN with NULL as the name; the caller frees it. NULL: out of memory, described. */
char *yk_sweep_folder_path(const char *path, const yk_sweep_run *run, const char *name);

#endif
