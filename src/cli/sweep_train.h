/* The runs of a sweep, one after the other, each a yoke train of its own.
 *
 *     yk_sweep s = {.plan = plan, .path = "runs/softmax", .result = zeros, .took = zeros};
 *     st = yk_sweep_train(&s);             // ends early, without an error, when a signal came (yk_cli_stop)
 *     s.result[i].state                      // done, failed, stopped or not run
 *
 * Runs that are done already are only looked up, half done ones are resumed, others are begun. A run that fails is a
 * result; three in a row that failed, and not by diverging, end the sweep unless keep_going. The figures so far are
 * saved every few seconds and at the end (sweep.csv, runs.csv, sweep.json). One thread.
 */
#ifndef YK_CLI_SWEEP_TRAIN_H
#define YK_CLI_SWEEP_TRAIN_H

#include "sweep/folder.h"
#include "sweep/table.h"

typedef struct {
    yk_sweep_plan plan;
    char *path; /* of the sweep's folder, which is open (sweep/folder.h) */
    bool keep_going, force;
    yk_sweep_result *result; /* [nruns] */
    double *took;            /* [nruns] seconds, with loading; 0: not done */
    size_t at;               /* the run that is under way */
    double began;            /* it */
    size_t found, failed_in_a_row;
} yk_sweep;

yk_status yk_sweep_train(yk_sweep *s);

/* Whether a run that was begun has a checkpoint to go on from. */
bool yk_sweep_can_resume(const char *path, const yk_sweep_run *run, yk_sweep_run_state state);

#endif
