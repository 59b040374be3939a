/* Measures time and size of a report: build/bench_report [RUNS] [POINTS]. Defaults: 50 runs with 10,000 points each.
 *
 * Creates run directories in a temporary directory (POINTS lines of metrics, one in a hundred an evaluation, and a fifth as many
 * resource samples), writes the page, and removes everything:
 *
 *     50 runs x 10000 points: 135 MB read, 1.12 s, page 3.2 MB        2 busy cores
 */
#include "report/report.h"
#include "base/clock.h"
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char directory[] = "/tmp/yoke-bench-report-XXXXXX";
static double written;

static FILE *begin(int run, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/run-%d/%s", directory, run, name);
    return fopen(path, "w");
}

static int end(FILE *f)
{
    written += (double)ftell(f);
    return fclose(f);
}

static double noise(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 24) - 0.5;
}

static int make_run(int run, int points)
{
    char path[128];
    unsigned state = (unsigned)run;
    snprintf(path, sizeof path, "%s/run-%d", directory, run);
    if (mkdir(path, 0777))
        return -1;
    snprintf(path, sizeof path, "%s/run-%d/worker-0", directory, run);
    if (mkdir(path, 0777))
        return -1;
    FILE *f = begin(run, "config.ini");
    if (!f)
        return -1;
    fprintf(
        f, "model = softmax\ndata = synth:digits\nmode = %s\nworkers = %d\nbatch = %d\nlr = 0.1\nseed = %d\n",
        run % 2 ? "async" : "sync", 1 + run / 2 % 3, 5 << run / 6 % 4, run / 24);
    if (end(f) || !(f = begin(run, "metrics.jsonl")))
        return -1;
    for (int i = 1; i <= points; i++) {
        double t = 0.5 * i, loss = 0.3 + 2.0 * exp(-8.0 * i / points) + 0.05 * noise(&state);
        fprintf(
            f,
            "{\"kind\":\"train\",\"step\":%d,\"examples\":%d,\"epoch\":%.9g,\"seconds\":%.9g,\"loss\":%.9g,"
            "\"examples_per_second\":%.9g,\"steps_per_second\":%.9g,\"learning_rate\":0.1}\n",
            i * 400, i * 8000, i * 8000 / 60000.0, t + 0.01 * noise(&state), loss,
            16000.0 + 900.0 * noise(&state), 800.0 + 45.0 * noise(&state));
        if (i % 100 == 0)
            fprintf(
                f,
                "{\"kind\":\"eval\",\"step\":%d,\"examples\":%d,\"epoch\":%.9g,\"seconds\":%.9g,\"train_"
                "loss\":%.9g,"
                "\"test_loss\":%.9g,\"test_accuracy\":%.9g,\"test_auc\":null,\"majority_accuracy\":0.1135}\n",
                i * 400, i * 8000, i * 8000 / 60000.0, t, loss, loss * 1.1, 0.95 - 0.1 * loss);
    }
    if (end(f) || !(f = begin(run, "worker-0/resources.jsonl")))
        return -1;
    fprintf(f, "{\"kind\":\"host\",\"rank\":0,\"role\":\"worker\",\"host\":\"a\",\"cores\":2,\"memory_"
               "bytes\":8000000000}\n");
    for (int i = 1; i <= points / 5; i++)
        fprintf(f,
                "{\"kind\":\"sample\",\"seconds\":%.9g,\"cpu_user\":%.9g,\"cpu_system\":%.9g,\"cpu_host\":%."
                "9g,\"rss\":%d,"
                "\"rss_peak\":200000000,\"host_memory\":3000000000,\"net_in\":%.9g,\"net_out\":%.9g,\"lo_"
                "in\":0,\"lo_out\":0,\"sent\":0,"
                "\"received\":0,\"disk_read\":0,\"disk_written\":%.9g,\"switches\":120,\"switches_forced\":3,"
                "\"steps\":%d,\"phases\":"
                "{\"input\":%.9g,\"compute\":%.9g,\"apply\":%.9g}}\n",
                2.5 * i, 1.5 + 0.2 * noise(&state), 0.1 + 0.05 * noise(&state), 1.8 + 0.1 * noise(&state),
                150000000 + 997 * i, 800.0 + 700.0 * noise(&state), 600.0 + 500.0 * noise(&state),
                i % 50 ? 0.0 : 2e6, i * 2000, 0.25 * i, 2.0 * i, 0.25 * i);
    return end(f);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

int main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : 50, points = argc > 2 ? atoi(argv[2]) : 10000, failed = 0;
    if (runs < 1 || points < 1) {
        fprintf(stderr, "usage: bench_report [RUNS] [POINTS]\n");
        return 2;
    }
    if (!mkdtemp(directory)) {
        perror(directory);
        return 4;
    }
    for (int i = 0; i < runs && !failed; i++)
        failed = make_run(i, points);
    if (failed)
        perror("bench_report: the runs could not be made");
    double best = INFINITY;
    yk_report_result result = {0};
    char out[64], *paths[] = {directory};
    snprintf(out, sizeof out, "%s/report.html", directory);
    for (int i = 0; i < 3 && !failed; i++) {
        double start = yk_now();
        failed = yk_report_make(&(yk_report){.paths = paths, .n = 1, .out = out}, &result);
        best = fmin(best, yk_now() - start);
        free(result.out);
        if (failed)
            fprintf(stderr, "bench_report: %s\n", yk_error());
    }
    if (!failed)
        printf("%d runs x %d points: %.0f MB read, %.2f s, page %.1f MB\n", runs, points, written / 1e6, best,
               (double)result.bytes / 1e6);
    nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return failed ? 1 : 0;
}
