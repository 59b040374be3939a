/* Several runs side by side: the tables that people make by hand, and what can be said of them in a sentence.
 *
 *     yk_compare c;
 *     st = yk_compare_make(runs, facts, n, &c);     // borrows runs and facts
 *     c.table[i]                                    // some of: runs, batch, workers, modes
 *     c.say[i].title, .value, .text                 // "Highest accuracy", "91.74 %", "sync-1; lowest ..."
 *     yk_compare_fini(&c);
 *
 * Runs that were told the same but for the seed are repeats: they are one row, with mean and deviation. A table is made
 * where what it compares differs between runs that are otherwise alike:
 *
 *     batch      batch size x time x accuracy x CPU x memory x network
 *     workers    workers x speed-up x efficiency; against one worker, or the fewest of the same kind
 *     modes      synchronous against asynchronous (and against bounded staleness)
 *
 * Speed is examples per second; a speed-up says nothing about how soon a loss is reached, which has a column of its own
 * (seconds to an accuracy that most of the runs reach).
 */
#ifndef YK_REPORT_COMPARE_H
#define YK_REPORT_COMPARE_H

#include "report/facts.h"
#include "report/table.h"

/* Alike in everything; but for the batch; but for the number of workers; but for the mode; but for both of these. */
enum { YK_ALIKE, YK_BUT_BATCH, YK_BUT_WORKERS, YK_BUT_MODE, YK_BUT_BOTH, YK_ALIKE_KINDS };

/* Runs that were told the same. */
typedef struct {
    size_t *run; /* [n], owned by the comparison */
    size_t n;
    char *alike[YK_ALIKE_KINDS]; /* keys (yk_run_key) */
} yk_config_group;

typedef struct {
    const yk_run *run;     /* [n] */
    const yk_facts *facts; /* [n] */
    size_t n;
    yk_config_group *group; /* by first run */
    size_t groups;
    size_t *members;
    double target;         /* accuracy that most of the runs reach, or NAN */
    char to_target[3][32]; /* titles that the tables borrow: a comparison is not copied */
    yk_table table[4];
    size_t tables;
    struct {
        const char *title;
        char value[64], text[256];
    } say[6];
    size_t says;
    char soonest[32]; /* a title among them */
} yk_compare;

yk_status yk_compare_make(const yk_run *runs, const yk_facts *facts, size_t n, yk_compare *out);
void yk_compare_fini(yk_compare *c);

/* Mean and deviation of a fact over a group; the deviation is NAN for one run. */
double yk_group_mean(const yk_compare *c, const yk_config_group *g, size_t offset, double *spread_out);

/* Options in which the runs differ, those that people vary most first; names are borrowed. At most `room`. */
size_t yk_compare_varying(const yk_compare *c, const char **names_out, size_t room);

/* How run i was told this option (as in config.ini; of what is known as a fact, that), into out; "" where it was not. */
void yk_option_text(const yk_compare *c, size_t i, const char *name, char *out);

/* Inside. */
yk_status yk__groups_make(yk_compare *c);
double yk__group_reaches(const yk_compare *c, const yk_config_group *g, double *spread_out);
void yk__compare_say(yk_compare *c);

#endif
