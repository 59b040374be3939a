/* Trains the runs of a sweep one after the other, each as a child process (yoke train).
 *
 * Example:
 *     yk_sweep s = {.plan = plan, .path = path, .state = state, .result = result, .took = took};
 *     yk_status st = yk_sweep_train(&s); // YK_OK even after a signal (yk_cli_stop): result[i].state says what was run
 *
 * Complete runs are kept, stopped runs are resumed, the others are started. A failed run is a result. Three failed runs in
 * a row end the sweep unless keep_going; runs that diverged do not count. The results so far are saved every few seconds
 * and at the end (sweep.csv, runs.csv, sweep.json). The caller owns the members. Main thread only.
 *
 * search = halving: with R rungs, all combinations train for 1/2^R of their length (rung 1); the better half, by the loss on the
 * validation set, else the test set, else the training set, is resumed for twice as long (rung 2), and so on. RUN/rung-K.json is the
 * summary of a run at the end of rung K, so that an interrupted sweep can be continued.
 */
#ifndef YK_CLI_SWEEP_TRAIN_H
#define YK_CLI_SWEEP_TRAIN_H

#include "sweep/dir.h"
#include "sweep/table.h"

typedef struct {
    yk_sweep_plan plan;
    char *path; /* directory of the sweep, opened with sweep/dir.h */
    bool keep_going, force;
    yk_sweep_run_state *state; /* [nruns] before the sweep began */
    yk_sweep_result *result;   /* [nruns] */
    double *took;              /* [nruns] seconds, including loading; 0: not complete */
    size_t at;                 /* the current run */
    double began;              /* when it was started */
    size_t consecutive_failures;
    int64_t divisor; /* halving: runs are trained for this part of their length; 0: whole runs */
    bool searched;   /* halving: the last rung is complete */
} yk_sweep;

yk_status yk_sweep_train(yk_sweep *s);

/* Whether a run that was started has a checkpoint to resume from. */
bool yk_sweep_can_resume(const char *path, const yk_sweep_run *run, yk_sweep_run_state state);

#endif
