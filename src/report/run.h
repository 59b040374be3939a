/* A run directory, read into memory: options, measurements, results.
 *
 *     RUN/config.ini                 -> r.options      an object
 *     RUN/metrics.jsonl              -> r.train, r.eval
 *     RUN/summary.json               -> r.summary      NULL if the run did not end, or for old versions
 *     RUN/worker-R/resources.jsonl   -> r.log[]        by rank
 *     both of them                   -> r.processes    as in summary.json; what it lacks is taken from the logs
 *
 * Missing data is not an error: it is NULL, 0 rows or NAN. A line that is not a JSON object is counted in bad_lines and
 * skipped (the last line of a killed run is often incomplete). If a step is logged again, after a kill and --resume, it
 * replaces all rows from that step on. At most YK_RUN_ROWS rows of a kind are kept: a longer log is thinned
 * repeatedly to the lowest and the highest loss (of samples: CPU) of each part of it. Means and peaks are over all samples.
 *
 * A run directory is untrusted: only regular files of bounded size are read (base/file.h).
 *
 * Example:
 *     yk_run r = {.path = strdup("runs/sync"), .name = strdup("sync")};
 *     yk_status st = yk_run_load(&r);                           // fails if out of memory, or if a file is unreadable
 *     for (size_t i = 0; !st && i < r.eval.n; i++)
 *         printf("%g %g\n", r.eval.row[i].epoch, r.eval.row[i].test_accuracy);
 *     yk_run_fini(&r);                                          // even after a failure
 *
 * The run owns everything. After loading, any number of threads may read it.
 */
#ifndef YK_REPORT_RUN_H
#define YK_REPORT_RUN_H

#include "watch/phase.h"
#include <jansson.h>

#define YK_RUN_ROWS    65536
#define YK_RUN_OPTIONS 256 /* lines of a config.ini */
#define YK_RUN_NICS    8   /* network interfaces of a host */

/* A line of metrics.jsonl: the fields of all lines, of lines about training, and of evaluations. */
#define YK_METRIC_FIELDS(X)                                                                                  \
    X(step), X(examples), X(epoch), X(seconds), X(loss), X(examples_per_second), X(steps_per_second),        \
        X(learning_rate), X(dense_learning_rate), X(learning_rate_2), X(learning_rate_3),                    \
        X(learning_rate_4), X(train_loss), X(test_loss), X(test_accuracy), X(test_auc),                      \
        X(majority_accuracy), X(validation_loss)
#define YK__NAME(name) name
typedef struct {
    double YK_METRIC_FIELDS(YK__NAME);
} yk_metric;

/* A sample of resources.jsonl: rates per second, memory in bytes, CPU in cores. Every field is a double. sent, received: bytes
 * since the start, by the program itself. */
#define YK_SAMPLE_FIELDS(X)                                                                                  \
    X(seconds), X(cpu_user), X(cpu_system), X(cpu_host), X(rss), X(rss_peak), X(net_in), X(net_out),         \
        X(sent), X(received), X(sent_rate), X(received_rate), X(disk_read), X(disk_written), X(switches),    \
        X(switches_forced), X(steps)
typedef struct {
    double YK_SAMPLE_FIELDS(YK__NAME);
    double cpu;                 /* user + system, computed */
    double phase[YK_PHASES];    /* seconds since the start */
    double nic[YK_RUN_NICS][2]; /* interfaces of the host: in, out */
} yk_run_sample;

/* The resources.jsonl of a process. */
typedef struct {
    int rank;
    char role[16], host[64];
    double cores, memory, link; /* of its host; link: bytes per second of all interfaces */
    int nics;
    char nic[YK_RUN_NICS][16]; /* their names */
    struct {
        yk_run_sample *row;
        size_t n, cap;
    } sample;
    yk_run_sample mean, peak, last; /* of all samples; NAN: none */
    json_t *alerts;                 /* an array of the lines */
} yk_process_log;

typedef struct {
    yk_metric *row;
    size_t n, cap;
} yk_metrics;

typedef struct {
    char *path, *name;
    json_t *options; /* texts; NULL: none */
    yk_metrics train, eval;
    json_t *summary;   /* or NULL */
    json_t *processes; /* an array */
    yk_process_log *log;
    size_t logs, log_cap;
    size_t bad_lines; /* except for an incomplete last line */
    bool thinned;     /* a log was too long to keep every line */
} yk_run;

yk_status yk_run_load(yk_run *r); /* `path` and `name` are set, the rest is 0 */
void yk_run_fini(yk_run *r);

const char *yk_run_get(const yk_run *r, const char *option); /* the value in config.ini; NULL: not set */

bool yk_is_run(const char *path); /* it is a run directory */

/* The run directories at the paths, not loaded: a directory with metrics.jsonl is one; any other is searched recursively, in
 * natural order (run-2 before run-10). Names are the shortest unique suffixes of the paths. */
typedef struct {
    yk_run *run;
    size_t n, cap;
} yk_run_list;

yk_status yk_runs_find(char *const *paths, size_t n, yk_run_list *out);
void yk_run_list_fini(yk_run_list *l);

#endif
