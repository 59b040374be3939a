/* Compares several runs: the tables that people otherwise make by hand, and the main results.
 *
 * Runs that differ only in the seed are repeats: they form one row, with mean and standard deviation. A table is made if
 * runs differ in what it compares and are otherwise the same:
 *
 *     runs       all runs: results
 *     batch      batch size: time, accuracy, CPU, memory, network
 *     workers    number of workers: speedup and efficiency, compared with one worker or the fewest
 *     modes      sync and async (or bounded staleness), with the same numbers of workers and processes
 *     resources  use of CPU, memory, network and disk, by host and batch size
 *     traffic-between-hosts
 *     machines   the hosts: CPU, memory, operating system, versions
 *
 * Speed is examples per second. A speedup says nothing about the time to reach an accuracy, which has its own column.
 *
 * Example:
 *     yk_compare c;
 *     yk_status st = yk_compare_make(runs, n, &c);             // borrows the runs
 *     for (size_t i = 0; !st && i < c.highlights; i++)         // "Highest accuracy", "91.74 %", "sync-1; worst ..."
 *         printf("%s: %s\n", c.highlight[i].title, c.highlight[i].value);
 *     if (!st)
 *         yk_compare_fini(&c);
 *
 * Not thread-safe.
 */
#ifndef YK_REPORT_COMPARE_H
#define YK_REPORT_COMPARE_H

#include "base/arena.h"
#include "base/moments.h"
#include "report/facts.h"
#include "report/table.h"

#define YK_MAX_VARYING       48
#define YK_MAX_LABEL_OPTIONS 12 /* options that distinguish runs */
#define YK_LABEL_SIZE        128
#define YK_MAX_CURVES        6 /* in a plot */
#define YK_MAX_DETAILED      4 /* runs whose metrics and weights are shown: a page with more would be long */
#define YK_MIN_REPEATS       3 /* fewer have no standard deviation */

/* Options: bit k is varying[k]. */
typedef uint64_t yk_option_set;
#define YK_OPTION_SCALING                                                                                    \
    ((yk_option_set)1 << YK_MAX_VARYING) /* the way to add workers: an option only of figures */

/* Runs with the same options: repeats. They are one curve: the mean. */
typedef struct {
    size_t *run; /* [n] */
    size_t n;
    /* The options in which it differs from other groups, "sync, 2 workers", or its name. */
    char label[YK_LABEL_SIZE];
    size_t panel, line; /* its plot and its curve (color) there */
} yk_config_group;

/* The tables of a run. */
typedef enum {
    YK_RUN_METRICS,
    YK_RUN_CLASSES,
    YK_RUN_WORKERS,
    YK_RUN_PROCESSES,
    YK_RUN_TRAFFIC,
    YK_RUN_ALERTS,
    YK_RUN_SEARCH,
    YK_RUN_WEIGHTS,
    YK_RUN_TABLES
} yk_run_table;

typedef struct {
    const yk_run *run; /* [n], borrowed */
    yk_facts *facts;   /* [n] */
    size_t n;
    yk_config_group *group; /* in the order of their first runs */
    size_t groups;
    size_t *members, *group_of;   /* [n]; the group of a run */
    char (*label)[YK_LABEL_SIZE]; /* [n], of the runs: that of the group, and the seed */
    /* The options in which the runs differ, in the order of labels, then NULL. Borrowed from the runs. */
    const char *varying[YK_MAX_VARYING + 2];
    size_t options;
    size_t (*value)[YK_MAX_VARYING + 1]; /* [n] of each option: the first run with the same value */
    yk_option_set identity;              /* options in which groups differ: without those of repeats */
    yk_option_set in_labels;             /* the others follow from these */
    yk_option_set words;                 /* not numbers */
    /* With more than YK_MAX_CURVES groups, curves are drawn as small multiples: a panel for each value of some options
     * ("batch 5"), and in each the same lines ("sync, 2 workers"), in the same colors. */
    char (*panel)[YK_LABEL_SIZE];
    char (*line)[YK_LABEL_SIZE];
    size_t panels, lines;
    bool epochs_differ;
    bool mixed; /* runs differ in the number of processes, and in that of workers per process */
    const yk_metric_kind *monitor; /* of all runs that have a validation set; NULL: none, or they differ */
    double target;                 /* an accuracy that most runs reach, or NAN */
    yk_table table[7 + YK_RUN_TABLES]; /* those of the comparison, then those of all runs */
    size_t tables;
    struct {
        char title[64], value[64], text[256];
    } highlight[6];
    size_t highlights;
    yk_arena arena; /* owns the arrays */
} yk_compare;

yk_status yk_compare_make(const yk_run *runs, size_t n, yk_compare *out);
void yk_compare_fini(yk_compare *c);

const yk_table *yk_compare_table(const yk_compare *c, const char *id); /* NULL: none */

/* The mean and, if spread_out is not NULL, the standard deviation of a fact over the runs of a group. `offset`: that of the
 * fact in yk_facts. The deviation of fewer than three runs is NAN. Failed runs do not count, unless all runs failed. */
double yk_group_mean(const yk_compare *c, const yk_config_group *g, size_t offset, double *spread_out);

/* The value of an option of run i: from its facts, or else from its config.ini; "": not set. mode: "sync", "async", "stale 8".
 * scaling: "threads of 1 process", "2 workers per process". Returns `out`. */
#define YK_OPTION_SIZE 256
const char *yk_option_text(const yk_compare *c, size_t i, const char *name, char *out /* [YK_OPTION_SIZE] */);

/* A table of a run. run -1: of all runs, with their labels in the first column. */
void yk_run_table_make(const yk_compare *c, int run, yk_run_table which, yk_table *out);

/* Internal. A table. */
typedef struct yk__table_kind yk__table_kind;
struct yk__table_kind {
    /* no rows: there is no table */
    void (*fill)(yk_compare *c, const yk__table_kind *kind, yk_table *t);
    unsigned results;                       /* the columns: one of the bits in compare.c */
    const char *id, *title, *note, *except; /* except: options that are not shown, "mode,servers" */
};
/* A column, and its name in an object of the summary. */
typedef struct {
    yk_column column;
    const char *name;
} yk__member;
void yk__put_members(yk_table *t, const yk__member *m, size_t n, const json_t *object);

/* Columns for the options that vary, without `except`; returns how many. Then the cells of a run, if these columns are next. */
size_t yk__add_options(const yk_compare *c, yk_table *t, const char *except);
void yk__put_options(const yk_compare *c, yk_table *t, size_t run);
void yk__fill_by_host(yk_compare *c, const yk__table_kind *kind, yk_table *t);
void yk__fill_machines(yk_compare *c, const yk__table_kind *kind, yk_table *t);

/* These do nothing after an error of the arena. */
void yk__find_varying(yk_compare *c);
void yk__groups_make(yk_compare *c);
bool yk__all_failed(const yk_compare *c, const yk_config_group *g);

/* Sets `target`, and the times to it: the highest accuracy that three quarters of the runs reach, rounded down to half a
 * point; NAN if they use different data. */
void yk__find_target(yk_compare *c);

/* Whether labels and tables show the names of the runs: names that people chose are short, but those of a sweep list all
 * options. */
bool yk__shows_names(const yk_compare *c);

/* "": all runs of the group are complete; "failed", "1 of 3 failed". Returns `out`. */
const char *yk__group_status(const yk_compare *c, const yk_config_group *g, char *out /* [64] */);

void yk__labels_make(yk_compare *c);

/* "batch 5", "2 workers", "async": an option and its value, for labels. */
void yk__option_phrase(const char *name, const char *value, char *out, size_t size);

/* The options of this list ("batch,lr") in which groups differ; all others. */
yk_option_set yk__options_in(const yk_compare *c, const char *list);
yk_option_set yk__options_except(const yk_compare *c, const char *list);

/* Whether runs a and b have the same values of these options. */
bool yk__options_same(const yk_compare *c, size_t a, size_t b, yk_option_set which);

/* Of those in `which`, the options whose values name the panels of a plot of these runs: the fewest panels with at most
 * YK_MAX_CURVES different runs each. 0: one panel is enough, or no choice helps. */
yk_status yk__options_for_panels(const yk_compare *c, const size_t *run, size_t n, yk_option_set which,
                                 yk_option_set *out);

/* "batch 5, 2 workers": these options of a run. */
void yk__options_join(const yk_compare *c, size_t run, yk_option_set which, char *out /* [YK_LABEL_SIZE] */);

/* The index of a text in a list, to which it is added if necessary. */
size_t yk__index_of(char (*list)[YK_LABEL_SIZE], size_t *n, const char *text);

/* Options that people change together with the batch size; with the number of workers. */
#define YK__BATCH_OPTIONS  "batch,lr"
#define YK__WORKER_OPTIONS "workers,processes,lr"

#endif
