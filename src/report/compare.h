/* Several runs compared: the tables that people make by hand, and the main results.
 *
 * Runs that differ only in the seed are repeats: they are one row, with mean and standard deviation. There is a table if
 * runs differ in what it compares, and are otherwise the same:
 *
 *     runs       all runs
 *     batch      batch size: time, accuracy, CPU, memory, network
 *     workers    number of workers: speed-up and efficiency, compared with one worker or the fewest
 *     modes      synchronous and asynchronous (or bounded staleness)
 *
 * Speed is examples per second. A speed-up says nothing about the time to an accuracy; that has its own column.
 *
 * Example:
 *     yk_compare c;
 *     yk_status st = yk_compare_make(runs, facts, n, &c);      // borrows runs and facts
 *     for (size_t i = 0; !st && i < c.highlights; i++)         // "Highest accuracy", "91.74 %", "sync-1; lowest ..."
 *         printf("%s: %s\n", c.highlight[i].title, c.highlight[i].value);
 *     if (!st)
 *         yk_compare_fini(&c);
 *
 * One thread.
 */
#ifndef YK_REPORT_COMPARE_H
#define YK_REPORT_COMPARE_H

#include "report/facts.h"
#include "report/table.h"

/* Runs with equal keys have the same options, except for the seed and those named here. */
enum {
    YK_KEY_ALL,
    YK_KEY_EXCEPT_BATCH,
    YK_KEY_EXCEPT_WORKERS,
    YK_KEY_EXCEPT_MODE,
    YK_KEY_EXCEPT_WORKERS_MODE,
    YK_KEYS
};

/* Runs with the same options: repeats. */
typedef struct {
    size_t *run; /* [n], owned by the comparison */
    size_t n;
    char *key[YK_KEYS]; /* yk_run_key() */
} yk_config_group;

typedef struct {
    const yk_run *run;     /* [n] */
    const yk_facts *facts; /* [n] */
    size_t n;
    yk_config_group *group; /* in the order of their first runs */
    size_t groups;
    size_t *members;
    bool epochs_differ;
    double target; /* an accuracy that most runs reach, or NAN */
    yk_table table[4];
    size_t tables;
    struct {
        char title[64], value[64], text[256];
    } highlight[6];
    size_t highlights;
} yk_compare;

yk_status yk_compare_make(const yk_run *runs, const yk_facts *facts, size_t n, yk_compare *out);
void yk_compare_fini(yk_compare *c);

const yk_table *yk_compare_table(const yk_compare *c, const char *id); /* NULL: none */
bool yk_same_data(const yk_compare *c);                                /* all runs use the same data */

/* The mean and, if spread_out is not NULL, the standard deviation of a fact over the runs of a group, by its offset in
 * yk_facts; YK_TO_TARGET: the seconds to c->target. The deviation of one run is NAN. Failed runs do not count, unless all
 * failed. */
#define YK_TO_TARGET (sizeof(yk_facts) + 64)
double yk_group_mean(const yk_compare *c, const yk_config_group *g, size_t offset, double *spread_out);

/* The names of at most `max` options in which the runs differ, those that people vary most first, and then NULL.
 * Returns how many. The names are borrowed. */
size_t yk_compare_varying(const yk_compare *c, const char **names_out /* [max + 1] */, size_t max);

/* The value of an option of run i: of its facts, or else of its config.ini; "": not set. */
void yk_option_text(const yk_compare *c, size_t i, const char *name, char *out /* [YK_OPTION_SIZE] */);

/* Internal. */
yk_status yk__groups_make(yk_compare *c);
void yk__compare_highlights(yk_compare *c);

#endif
