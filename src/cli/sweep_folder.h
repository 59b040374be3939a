/* The folder of a sweep, in which it is found again after an interruption.
 *
 *     runs/softmax/plan.txt         the runs as they were begun; a sweep that would make others does not go on here
 *                  sweep.ini        the file as it was then
 *                  lock             held while a sweep is at work
 *                  batch-5_seed-1/  a run directory of yoke train, with summary.json when it is done, and log.txt: what
 *                                   it said on stderr
 *                  sweep.csv, runs.csv, sweep.json, report.html
 *
 *     yk_sweep_folder f;
 *     st = yk_sweep_folder_open("runs/softmax", &plan, false, &f);
 *     st = yk_sweep_folder_look(f.path, &plan.run[i], &seen, &summary);   // done, half done, ...
 *     yk_sweep_folder_close(&f);                                          // in any case
 *
 * One thread.
 */
#ifndef YK_CLI_SWEEP_FOLDER_H
#define YK_CLI_SWEEP_FOLDER_H

#include "base/lock.h"
#include "sweep/plan.h"
#include <jansson.h>

typedef struct {
    const char *path; /* borrowed */
    yk_lock *lock;
} yk_sweep_folder;

typedef enum {
    YK_RUN_ABSENT, /* nothing there */
    YK_RUN_BEGUN,  /* but nothing was saved: to be begun anew */
    YK_RUN_SAVED,  /* to be resumed */
    YK_RUN_DONE,
    YK_RUN_OTHER, /* a run with other options */
} yk_run_seen;

/* Makes it, or takes it up again where its plan is the same; `force`: also where it is not. */
yk_status yk_sweep_folder_open(const char *path, const yk_sweep_plan *plan, bool force, yk_sweep_folder *out);
void yk_sweep_folder_close(yk_sweep_folder *f);

/* *summary_out: of a run that is done, a new reference; else NULL. */
yk_status yk_sweep_folder_look(const char *path, const yk_sweep_run *run, yk_run_seen *seen_out,
                               json_t **summary_out);

/* PATH/RUN/NAME, PATH/RUN with NULL as the name; the caller frees it. NULL: out of memory, described. */
char *yk_sweep_folder_path(const char *path, const yk_sweep_run *run, const char *name);

#endif
