/* Writes run directories for tests of the report: the files of docs/file-formats.md with made-up numbers.
 *
 *     made m = made_run("sync-3");              // in the temporary directory; the fields are the options
 *     m.mode = "sync"; m.workers = 3;
 *     make_run(&m);
 *     yk_run r = load_made("sync-3");
 */
#ifndef YK_TESTS_RUN_MAKER_H
#define YK_TESTS_RUN_MAKER_H

#include "scratch.h"

#include "report/facts.h"
#include <math.h>
#include <sys/stat.h>

typedef struct {
    const char *name, *mode, *model, *data, *more_options, *more_summary;
    int workers, ranks, batch, seed, epochs, tests, lines, samples;
    double seconds, examples, top, majority, start_loss, end_loss;
    bool no_summary, no_config, no_resources;
} made;

static inline made made_run(const char *name)
{
    return (made){.name = name,
                  .mode = "sync",
                  .model = "softmax",
                  .data = "synth:digits",
                  .more_options = "",
                  .more_summary = "",
                  .workers = 1,
                  .ranks = 1,
                  .batch = 20,
                  .seed = 1,
                  .epochs = 10,
                  .tests = 10,
                  .lines = 40,
                  .samples = 40,
                  .seconds = 10.0,
                  .examples = 100000.0,
                  .top = 0.92,
                  .majority = 0.1,
                  .start_loss = 2.3,
                  .end_loss = 0.3};
}

static inline FILE *made_file(const char *name, const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", directory, name, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    return f;
}

static inline void made_directory(const char *name, const char *below)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", directory, name, below);
    for (char *s = path + strlen(directory) + 1; *s; s++)
        if (*s == '/') {
            *s = 0;
            mkdir(path, 0777);
            *s = '/';
        }
    mkdir(path, 0777);
}

static inline double made_steps(const made *m)
{
    return ceil(m->examples / (m->batch * (strcmp(m->mode, "sync") ? 1 : m->workers)));
}

static inline void make_metrics(const made *m)
{
    FILE *f = made_file(m->name, "metrics.jsonl");
    double steps = made_steps(m);
    int every = m->tests ? m->lines / m->tests : m->lines + 1;
    for (int i = 1; i <= m->lines; i++) {
        double part = (double)i / m->lines;
        double loss = m->end_loss + (m->start_loss - m->end_loss) * exp(-8.0 * part);
        if (m->end_loss > m->start_loss)
            loss = m->start_loss + (m->end_loss - m->start_loss) * part;
        fprintf(f,
                "{\"kind\":\"train\",\"step\":%.0f,\"examples\":%.0f,\"epoch\":%.6g,\"seconds\":%.6g,"
                "\"loss\":%.6g,"
                "\"examples_per_second\":%.6g,\"steps_per_second\":%.6g,\"learning_rate\":0.1}\n",
                floor(steps * part), floor(m->examples * part), m->epochs * part, m->seconds * part, loss,
                m->examples / m->seconds, steps / m->seconds);
        if (every && i % every == 0)
            fprintf(
                f,
                "{\"kind\":\"eval\",\"step\":%.0f,\"examples\":%.0f,\"epoch\":%.6g,\"seconds\":%.6g,\"train_"
                "loss\":%.6g,"
                "\"test_loss\":%.6g,\"test_accuracy\":%.6g,\"test_auc\":null,\"majority_accuracy\":%.6g}\n",
                floor(steps * part), floor(m->examples * part), m->epochs * part, m->seconds * part, loss,
                loss * 1.05, m->top * (1.0 - 0.5 * exp(-8.0 * part)), m->majority);
    }
    fclose(f);
}

static inline void make_resources(const made *m)
{
    for (int rank = 0; rank < m->ranks; rank++) {
        char file[64];
        snprintf(file, sizeof file, "worker-%d", rank);
        made_directory(m->name, file);
        snprintf(file, sizeof file, "worker-%d/resources.jsonl", rank);
        FILE *f = made_file(m->name, file);
        fprintf(f,
                "{\"kind\":\"host\",\"rank\":%d,\"role\":\"%s\",\"host\":\"node\",\"pid\":7,\"cores\":4,"
                "\"memory_bytes\":8e9,"
                "\"nic\":{\"eth0\":125000000,\"eth1\":125000000},\"interval\":0.25,\"began\":1700000000}\n",
                rank, rank ? "worker" : "chief");
        for (int i = 1; i <= m->samples; i++) {
            double t = m->seconds * i / m->samples;
            fprintf(f,
                    "{\"kind\":\"sample\",\"seconds\":%.6g,\"cpu_user\":0.8,\"cpu_system\":%.6g,\"cpu_host\":"
                    "%.6g,\"rss\":%d,"
                    "\"rss_peak\":3000000,\"host_memory\":1e9,\"net_in\":1000,\"net_out\":2000,\"lo_in\":0,"
                    "\"lo_out\":0,"
                    "\"sent\":%d,\"received\":%d,\"disk_read\":0,\"disk_written\":%d,\"switches\":10,"
                    "\"switches_forced\":1,"
                    "\"steps\":%d,\"phases\":{\"input\":%.6g,\"compute\":%.6g,\"workers\":%.6g}}\n",
                    t, i == 3 ? 0.4 : 0.1, 0.9 * m->ranks, 2000000 + i, 10 * i, 20 * i, i == 5 ? 500 : 0, i,
                    0.2 * t, 0.5 * t, 0.3 * t);
        }
        fprintf(f, "{\"kind\":\"alert\",\"what\":\"cpu\",\"begin\":2,\"seconds\":1.5,\"level\":0.97}\n");
        fclose(f);
    }
}

static inline void make_run(const made *m)
{
    made_directory(m->name, "");
    FILE *f;
    if (!m->no_config) {
        f = made_file(m->name, "config.ini");
        fprintf(f,
                "; yoke 0.1.0. Run it again: yoke train --config x/config.ini --out ANOTHER_DIR\n"
                "model = %s\ndata = %s\nmode = %s\nworkers = %d\nbatch = %d\nepochs = %d\nseed = %d\nlr = "
                "0.1\n%s",
                m->model, m->data, m->mode, m->workers, m->batch, m->epochs, m->seed, m->more_options);
        fclose(f);
    }
    make_metrics(m);
    if (!m->no_resources)
        make_resources(m);
    if (m->no_summary)
        return;
    f = made_file(m->name, "summary.json");
    double steps = made_steps(m), end = 1.0 - 0.5 * exp(-8.0);
    fprintf(
        f,
        "{\"model\":\"%s\",\"data\":\"%s\",\"mode\":\"%s\",\"staleness\":%s,\"workers\":%d,\"ranks\":%d,"
        "\"servers\":0,"
        "\"threads\":1,\"batch\":%d,\"global_batch\":%d,\"optimizer\":\"sgd\",\"lr\":0.1,\"epochs\":%d,"
        "\"steps\":%.0f,"
        "\"examples\":%.0f,\"seconds\":%.6g,\"steps_per_second\":%.6g,\"examples_per_second\":%.6g,\"train_"
        "loss\":%.6g,"
        "\"test_loss\":%.6g,\"test_accuracy\":%.6g,\"test_auc\":null,\"majority_accuracy\":%.6g,\"bytes_"
        "sent\":%d,"
        "\"bytes_received\":%d,\"peak_rss_bytes\":3000000,\"cpu_seconds\":%.6g,\"interrupted\":false%s}\n",
        m->model, m->data, m->mode, strcmp(m->mode, "sync") ? "null" : "0", m->workers, m->ranks, m->batch,
        m->batch * m->workers, m->epochs, steps, m->examples, m->seconds, steps / m->seconds,
        m->examples / m->seconds, m->end_loss, m->end_loss * 1.05, m->top * end, m->majority,
        m->ranks > 1 ? 4000 : 0, m->ranks > 1 ? 4000 : 0, m->seconds * 0.9, m->more_summary);
    fclose(f);
}

static inline yk_run load_made(const char *name)
{
    yk_run r = {.path = strdup(in_directory(name)), .name = strdup(name)};
    assert_int_equal(yk_run_load(&r), YK_OK);
    return r;
}

#endif
