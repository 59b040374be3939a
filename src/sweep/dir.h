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
 *     yk_status st = yk_sweep_dir_open(&plan, false, &lock);
 *     if (!st)
 *         yk_sweep_run_find(&plan.run[0], false); // its state, and its summary if it is complete
 *     yk_lock_release(lock);
 *
 * Not thread-safe.
 */
#ifndef YK_SWEEP_DIR_H
#define YK_SWEEP_DIR_H

#include "base/lock.h"
#include "sweep/plan.h"

/* Creates the directory, or opens that of an earlier sweep with the same plan (`force`: any plan), and locks it. The caller
 * releases the lock, even after a failure. */
yk_status yk_sweep_dir_open(const yk_sweep_plan *plan, bool force, yk_lock **lock_out);

/* Sets the result of a run to what its directory tells. any_length: it may have fewer epochs or steps than planned (search =
 * halving). */
void yk_sweep_run_find(yk_sweep_run *run, bool any_length);

/* A JSON file of the run directory; NULL: there is none. */
json_t *yk_sweep_run_json(const yk_sweep_run *run, const char *name);

/* Sets the result to a summary (NULL: none), which it takes: done, stopped or diverged. */
void yk_sweep_run_take(yk_sweep_run *run, json_t *summary);

bool yk_sweep_run_failed(const yk_sweep_run *run); /* or diverged */

#endif
