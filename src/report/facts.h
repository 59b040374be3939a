/* The facts about a run: its options and its results, from whichever file of the run directory has them.
 *
 * Unknown numbers are NAN, unknown strings NULL. Strings are borrowed from the run. Thread-safe.
 *
 * Example:
 *     yk_facts f;
 *     yk_facts_of(&run, &f);
 *     printf("%g\n", f.test_accuracy);            // from summary.json, or else from the last evaluation
 */
#ifndef YK_REPORT_FACTS_H
#define YK_REPORT_FACTS_H

#include "format/json_value.h"
#include "report/run.h"
#include "report/text.h"
#include "train/metrics.h"
#include <math.h>
#include <string.h>

/* Where a curve stops improving. */
typedef struct {
    const char *what;   /* "test accuracy", "test AUC", "test loss"; NULL: there are too few evaluations */
    size_t offset;      /* of this quantity in yk_metric */
    double best;        /* the best value */
    double epoch, step; /* of the first evaluation as good as that, except for noise */
    double rest;        /* share of the run's time after it */
    bool reached;       /* enough of the run came after it to be sure */
} yk_plateau;

typedef struct {
    const char *model, *data, *mode, *optimizer; /* "": unknown */
    const char *staleness_by_group;              /* "keyed=8,dense=0"; NULL: one bound for all groups */
    double staleness, workers, ranks, servers, threads, batch, global_batch, lr, seed;
    double processes;                        /* that train: without dedicated servers */
    double epochs, steps, examples, seconds; /* done, not requested */
    double best_step, validation_loss;       /* of the best model by validation data; NaN: none */
    const yk_metric_kind *monitor;           /* by which it was selected; NULL: not known */
    double best_value;                       /* its value there */
    double steps_per_second, examples_per_second;
    double train_loss, test_loss, test_accuracy, test_error, test_auc, majority; /* error: 1 - accuracy */
    double best_loss, best_auc; /* possible, for generated data with known probabilities */
    double cpu, cores;          /* cores used, by all processes together; cores of the hosts */
    double memory_peak;         /* bytes, of all processes together */
    double network;             /* bytes per second of the busiest host, in its busier direction */
    double sent, received;      /* bytes, by the program itself */
    double to_target;  /* seconds until an evaluation reached the target of a comparison; NAN: never */
    double stale_mean; /* updates by others between reading and writing a parameter */
    const char *verdict, *bottleneck, *advice;
    double share;                              /* of the time that the bottleneck costs */
    bool ended, interrupted, diverged, failed; /* ended: it has a summary */
    const char *error;                         /* of a failed run */
    double phase[YK_PHASES];                   /* shares of the workers' time */
    yk_plateau plateau;
} yk_facts;

/* Rounds epochs to two decimals, to be printed with "%.6g". */
static inline double yk_round_epochs(double x)
{
    return round(x * 100.0) / 100.0;
}

/* The double at an offset (offsetof) of facts, metrics or samples. */
static inline double yk_double_at(const void *of, size_t offset)
{
    return *(const double *)((const char *)of + offset);
}

/* Thins n rows of `size` bytes, ascending by the double at offset x, to at most about `max`, in place: keeps the first and
 * the last, and those with the lowest and the highest double at offset y in each of max/2 equal parts of x. Returns how
 * many are left. */
size_t yk_thin(void *rows, size_t n, size_t size, size_t x, size_t y, size_t max);

static inline double yk_known_or(double x, double otherwise)
{
    return isfinite(x) ? x : otherwise;
}

/* "epoch 2.5", or "step 400" if the epoch is not known. Returns `out`. */
const char *yk_when_text(double epoch, double step, char out[32]);

/* Whether the name is in a list that ends with NULL. */
static inline bool yk_is_listed(const char *name, const char *const *list)
{
    while (*list && strcmp(name, *list))
        list++;
    return *list != NULL;
}

/* "cpu 77 %", from a summary; "": it has no bottleneck. Returns `out`. */
const char *yk_bottleneck_text(const json_t *summary, char out[48]);

/* The sum of a number of the processes on a host (NULL: of all); NAN: it is not known. A process that ran for a part of the time
 * counts for that part of a mean. */
double yk_sum_on_host(const yk_run *r, const char *host, const char *name);

void yk_facts_of(const yk_run *r, yk_facts *out);

void yk_plateau_find(const yk_metrics *eval, yk_plateau *out);

#endif
