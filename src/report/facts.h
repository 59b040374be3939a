/* One line about a run: what was asked for and what came of it, wherever in the run directory it is written.
 *
 *     yk_facts f;
 *     yk_facts_of(&run, &f);
 *     f.test_accuracy                     // of summary.json; of the last test where there is none; NAN where unknown
 *     yk_run_key(&run, except, &text);    // two runs with the same key were told the same, but for `except`
 *
 * Numbers that are not known are NAN, texts NULL (borrowed from the run).
 */
#ifndef YK_REPORT_FACTS_H
#define YK_REPORT_FACTS_H

#include "report/run.h"
#include "report/text.h"
#include <string.h>

/* Where a curve stops getting better (flat.c). */
typedef struct {
    bool known;                  /* there are enough tests to say */
    const char *what;            /* "test accuracy", "test AUC", "test loss" */
    bool share;                  /* it is one of 0 to 1, more is better */
    double best;                 /* the best value */
    size_t at;                   /* the first test as good as that, but for noise */
    double epoch, step, seconds; /* of that test */
    double rest;                 /* part of the run's time after it */
    bool flat;                   /* enough of the run came after it to say "no better after" */
    bool worse;                  /* the test loss rose again, by more than noise: */
    double low, low_epoch, last;
} yk_flat;

typedef struct {
    const char *model, *data, *mode, *optimizer;
    double staleness, workers, ranks, servers, threads, batch, global_batch, lr, seed;
    double epochs, steps, examples, seconds; /* done, not asked for */
    double steps_per_second, examples_per_second;
    double train_loss, test_loss, test_accuracy, test_auc, majority;
    double best_loss, best_auc;  /* possible, where the data was made with known probabilities */
    double cpu, cpu_peak, cores; /* cores used, of all processes together; that there are */
    double memory, memory_peak;  /* bytes, of all processes together */
    double network, disk;        /* bytes per second, in and out */
    double sent, received;       /* by the program itself */
    double stale_mean;           /* updates by others between reading and writing */
    const char *verdict, *bottleneck, *advice;
    double share;                              /* of the time that the bottleneck costs */
    bool ended, interrupted, diverged, failed; /* ended: it has left a summary */
    const char *error;                         /* of one that failed */
    double phase[YK_PHASES];                   /* part of the workers' time; NAN: not known */
    yk_flat flat;
} yk_facts;

/* The double at an offset (offsetof) of a struct: of facts, metrics or samples. */
static inline double yk_double_at(const void *of, size_t offset)
{
    return *(const double *)((const char *)of + offset);
}

/* Is the name in a list that ends with NULL? */
static inline bool yk_is_listed(const char *name, const char *const *list)
{
    while (*list && strcmp(name, *list))
        list++;
    return *list != NULL;
}

void yk_facts_of(const yk_run *r, yk_facts *out);

/* Whether runs that differ in this option are different configurations. Unknown options, of other versions, count. Not the
 * staleness: yk_mode_text() has it. */
bool yk__changes_results(const char *option);

/* The options that change results, one a line, without those in which repeats may differ (seed, epochs, steps) and without
 * `except`, a list that ends with NULL. */
void yk_run_key(const yk_run *r, const yk_facts *f, const char *const *except, yk_text *out);

/* An option that is known as a fact, with so many digits, into out ("": it is not known); false: it is no such option. */
#define YK_OPTION_ROOM 256
bool yk_facts_option(const yk_facts *f, const char *name, int digits, char *out);

/* "sync", "async", "stale 8"; into `out`. */
void yk_mode_text(const yk_facts *f, char *out /* [32] */);

/* Seconds until a test showed this accuracy or more; NAN: never. */
double yk_run_reaches(const yk_run *r, double accuracy);

void yk_flat_find(const yk_metrics *eval, yk_flat *out);

/* A number in summary.json by its path, "resources.cpu.mean"; NAN. */
double yk_summary_number(const yk_run *r, const char *path);
const char *yk_summary_text(const yk_run *r, const char *path);
const json_t *yk_summary_at(const json_t *from, const char *path);

#endif
