/* The directory of a sweep. It has everything that is needed to continue after an interruption.
 *
 *     runs/softmax/plan.txt         the runs of the sweep; a sweep with other runs is rejected
 *                  sweep.ini        the file of the sweep when it was started
 *                  lock             held while a sweep runs
 *                  batch-5_seed-1/  a run directory of yoke train, with summary.json if it has ended, and log.txt, its
 *                                   stderr
 *                  sweep.csv, runs.csv, sweep.json, report.html
 *
 * Example:
 *     yk_lock *lock;
 *     yk_sweep_run_state state;
 *     json_t *summary = NULL;
 *     yk_status st = yk_sweep_dir_open("runs/softmax", &plan, false, &lock);
 *     if (!st)
 *         st = yk_sweep_dir_find("runs/softmax", &plan.run[0], false, &state, &summary);
 *     json_decref(summary);
 *     yk_lock_release(lock);
 *
 * Not thread-safe.
 */
#ifndef YK_SWEEP_DIR_H
#define YK_SWEEP_DIR_H

#include "base/lock.h"
#include "sweep/plan.h"
#include <jansson.h>

typedef enum {
    YK_SWEEP_RUN_MISSING,
    YK_SWEEP_RUN_INCOMPLETE, /* interrupted or failed; can be resumed if it has a checkpoint */
    YK_SWEEP_RUN_COMPLETE,   /* or diverged: it would diverge again */
    YK_SWEEP_RUN_DIFFERENT,  /* the run there has other options */
} yk_sweep_run_state;

/* Creates the directory, or opens that of an earlier sweep with the same plan (`force`: any plan), and locks it. The caller
 * releases the lock, even after a failure. */
yk_status yk_sweep_dir_open(const char *path, const yk_sweep_plan *plan, bool force, yk_lock **lock_out);

/* The state of a run. any_length: it may have fewer epochs or steps than planned (search = halving). *summary_out: the summary of
 * a complete run, a new reference; else NULL. */
yk_status yk_sweep_dir_find(const char *path, const yk_sweep_run *run, bool any_length,
                            yk_sweep_run_state *state_out, json_t **summary_out);

/* PATH/RUN/NAME, or PATH/RUN if the name is NULL; the caller frees it. NULL: out of memory. */
char *yk_sweep_dir_path(const char *path, const yk_sweep_run *run, const char *name);

#endif
