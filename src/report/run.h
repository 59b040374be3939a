/* A run directory, read: what a run was told, what it measured, how it ended.
 *
 *     yk_run r;
 *     if ((st = yk_run_load("runs/sync", "sync", &r)))    // memory or a file that cannot be read; else YK_OK
 *         return st;
 *     for (size_t i = 0; i < r.eval.n; i++)
 *         printf("%g %g\n", r.eval.row[i].epoch, r.eval.row[i].test_accuracy);
 *     yk_run_fini(&r);
 *
 *     RUN/config.ini                 -> r.option[]     name, value
 *     RUN/metrics.jsonl              -> r.train, r.eval
 *     RUN/summary.json               -> r.summary      NULL for a run that did not end, or an old one
 *     RUN/worker-R/resources.jsonl   -> r.worker[]     by rank
 *
 * Reading forgives: what is missing is NULL, 0 rows or not a number (NAN); a line that is no JSON object is counted in
 * bad_lines and left out (the last one of a run that was killed is often cut in half); a step that comes again, as after
 * a kill and --resume, replaces what was there from that step on. However long a log is, at most YK_RUN_ROWS rows of a
 * kind are kept: when it is full, of every four neighbours the two with the lowest and the highest loss (of samples:
 * CPU) stay. Means and peaks of samples are of all of them.
 *
 * A run directory is untrusted: its files are read only if they are regular files of bounded size (base/file.h).
 *
 * All is owned by the run. Read-only once loaded, by any number of threads.
 */
#ifndef YK_REPORT_RUN_H
#define YK_REPORT_RUN_H

#include "base/status.h"
#include "watch/phase.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define YK_RUN_ROWS    65536 /* divisible by 4 */
#define YK_RUN_OPTIONS 256   /* lines of a config.ini */

/* A line of metrics.jsonl; every field a double, which run_log.c relies on. */
typedef struct {
    double step, examples, epoch, seconds;
    double loss, examples_per_second, steps_per_second, learning_rate;        /* train */
    double train_loss, test_loss, test_accuracy, test_auc, majority_accuracy; /* eval */
} yk_metric;

/* The phases in the order in which a bar stacks them. */
typedef struct {
    yk_phase phase;
    const char *text; /* for people */
} yk_stacked_phase;

extern const yk_stacked_phase yk_stacked[YK_PHASES];

/* A sample of resources.jsonl: rates per second, memory in bytes, CPU in cores; every field a double. */
typedef struct {
    double seconds;
    double cpu_user, cpu_system, cpu_host;
    double rss, rss_peak, host_memory;
    double net_in, net_out, lo_in, lo_out;
    double sent, received; /* bytes so far, by the program itself */
    double disk_read, disk_written;
    double switches, switches_forced;
    double steps;
    double cpu;              /* user + system: filled in when read */
    double phase[YK_PHASES]; /* seconds so far */
} yk_run_sample;

typedef struct {
    char what[16]; /* cpu, memory, network, disk */
    double begin, seconds, level;
} yk_run_alert;

typedef struct {
    int rank;
    char role[16], host[64];
    double cores, memory, link; /* link: bytes per second of all interfaces */
    struct {
        yk_run_sample *row;
        size_t n, cap;
    } sample;
    yk_run_sample mean, peak, last; /* of all samples; NAN where there are none */
    yk_run_alert *alert;
    size_t alerts, alert_cap;
} yk_run_worker;

typedef struct {
    char *name, *value;
} yk_run_option;

typedef struct {
    yk_metric *row;
    size_t n, cap;
} yk_metrics;

typedef struct {
    char *path, *name;
    yk_run_option *option;
    size_t options, option_cap;
    yk_metrics train, eval;
    json_t *summary; /* or NULL */
    yk_run_worker *worker;
    size_t workers, worker_cap;
    size_t bad_lines; /* but for half a last line */
    bool thinned;     /* a log was too long to keep every line of it */
} yk_run;

yk_status yk_run_load(const char *path, const char *name, yk_run *out);
void yk_run_fini(yk_run *r);

const char *yk_run_get(const yk_run *r, const char *option); /* NULL: not in config.ini */

/* The folders of the runs at the paths: a path that holds metrics.jsonl is one; below any other, every folder that does,
 * sorted by name (numbers in names count as numbers). Names are as short as they can be while they differ. */
typedef struct {
    struct {
        char *path, *name;
    } * run;
    size_t n, cap;
} yk_run_list;

yk_status yk_runs_find(char *const *paths, size_t n, yk_run_list *out);
void yk_run_list_fini(yk_run_list *l);

/* Inside: the two logs. */
yk_status yk__run_metrics(yk_run *r);
yk_status yk__run_resources(yk_run *r, yk_run_worker *w);

#endif
