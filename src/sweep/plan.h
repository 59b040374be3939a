/* The runs of a sweep: every combination of the axes of its file, for every seed, as arguments of yoke train.
 *
 * A point is a combination; its repeats differ in their seeds. The runs are ordered by seed: all points with the first
 * seed, then all with the second. So early results cover all points, and a host that slows down affects all of them.
 *
 * A fixed number of examples is converted to steps. With E examples, batch b and N workers, a run takes E / (N b)
 * synchronous steps, E / (M b) steps with a quorum of M (M gradients per step), or E / b asynchronous steps (one
 * gradient per step; with local SGD, one of each worker of a process). The plan of the run (core/plan.h) has the number of
 * gradients per step.
 *
 * Example:
 *     yk_sweep_plan p;
 *     yk_status st = yk_sweep_plan_make("softmax.ini", false, NULL, 0, NULL, &p); // checks options and combinations
 *     for (size_t i = 0; !st && i < p.nruns; i++)
 *         printf("%s %s\n", p.run[i].directory, p.run[i].argument[0]);          // "--model=softmax"
 *     yk_sweep_plan_fini(&p);                                                 // even after a failure
 *
 * The plan owns everything; its texts and arrays are in the arena of the file. Not thread-safe.
 */
#ifndef YK_SWEEP_PLAN_H
#define YK_SWEEP_PLAN_H

#include "sweep/file.h"
#include "train/metrics.h"
#include "train/plan.h"
#include <jansson.h>

typedef enum {
    YK_SWEEP_NOT_RUN,
    YK_SWEEP_STOPPED,   /* or failed earlier; can be resumed if it has a checkpoint */
    YK_SWEEP_DIFFERENT, /* the run there has other options */
    YK_SWEEP_DONE,
    YK_SWEEP_FAILED,
    YK_SWEEP_DIVERGED /* counts as failed in all numbers. It is complete: it would diverge again */
} yk_sweep_state;

typedef struct {
    char *path;            /* run directory: "runs/softmax/batch-100_mode-sync_seed-1" */
    const char *directory; /* the last part of the path */
    char *label;           /* for messages: "batch=100 mode=sync seed=1" */
    char **argument;       /* of yoke train, without --out and options about output; ends with NULL */
    size_t arguments;
    const char **shown; /* [nshown] values of the options that vary; "-": left out. Borrowed from the file */
    yk_config config;   /* of the arguments */
    size_t point;
    int64_t repeat;        /* from 0 */
    int64_t epochs, steps; /* one of them is 0 */
    yk_plan plan; /* as yoke train will make it; with one worker if the number of processes is unknown */
    /* its result (sweep/dir.h) */
    yk_sweep_state state;
    json_t *summary; /* the object of yoke train --json; NULL: none. Owned */
    char *problem;   /* the error of a failed run. Owned */
    int rung;        /* search = halving: how often it was continued, plus 1; 0: it was not trained */
} yk_sweep_run;

typedef struct {
    yk_sweep_file file;
    char *path;         /* directory of the sweep */
    const char **shown; /* [nshown] names of the options that vary. Borrowed from the file */
    size_t nshown, npoints, nruns;
    const yk_metric_kind *monitor; /* of all runs, on the validation set; NULL: they have none, or differ */
    yk_sweep_run *run;             /* [nruns]; run[k * npoints + i] is repeat k of point i */
} yk_sweep_plan;

/* directory: of the sweep; NULL: runs/NAME, with `quick` runs/NAME-quick. */
yk_status yk_sweep_plan_make(const char *path, bool quick, const char *const *sets, size_t nsets,
                             const char *directory, yk_sweep_plan *out);
void yk_sweep_plan_fini(yk_sweep_plan *p);

/* One line per run, "DIRECTORY: ARGUMENTS": two plans are the same if their texts are. The caller frees it; NULL: out of
 * memory. */
char *yk_sweep_plan_text(const yk_sweep_plan *p);

/* Examples per step. */
double yk_sweep_examples_per_step(const yk_sweep_run *r);

/* The number of steps on a training set of this size; 0: unknown, as with a quorum, where the number of late gradients
 * is unknown. */
int64_t yk_sweep_run_steps(const yk_sweep_run *r, uint64_t examples);

#endif
