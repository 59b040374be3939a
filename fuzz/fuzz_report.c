/* Arbitrary bytes as the files of two run directories: a page, never a crash.
 *
 * The input is split at zero bytes: metrics.jsonl, resources.jsonl, summary.json and config.ini of the first run, then
 * those of the second. Missing parts are missing files. */
#include "report/page.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 4, RUNS = 2 };

static const char *const files[FILES] = {"metrics.jsonl", "worker-0/resources.jsonl", "summary.json",
                                         "config.ini"};
static char directory[] = "/dev/shm/yoke-fuzz-report-XXXXXX";

static const char *path_of(int run, const char *file)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%d/%s", directory, run, file);
    return path;
}

static void clean(void)
{
    for (int r = 0; r < RUNS; r++) {
        for (int f = 0; f < FILES; f++)
            unlink(path_of(r, files[f]));
        rmdir(path_of(r, "worker-0"));
        rmdir(path_of(r, ""));
    }
    rmdir(directory);
}

static void put(int run, int file, const uint8_t *data, size_t size)
{
    int fd = open(path_of(run, files[file]), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

static void report(const yk_run *runs, size_t n)
{
    yk_facts facts[RUNS];
    yk_compare c;
    yk_warnings w;
    yk_figures fs;
    for (size_t i = 0; i < n; i++)
        yk_facts_of(&runs[i], &facts[i]);
    if (yk_compare_make(runs, facts, n, &c))
        return;
    if (!yk_warnings_make(&c, &w)) {
        if (!yk_figures_make(&c, &fs)) {
            yk_text page = {0}, csv = {0};
            for (size_t i = 0; i < fs.n; i++)
                yk_figure_csv(&fs.figure[i], &csv);
            yk_figures_thin(&fs, 100000);
            yk_page_write(&(yk_page){.compare = &c, .warnings = &w, .figures = &fs}, &page);
            if (!page.status && strlen(page.s) != page.n)
                abort();
            yk_text_fini(&page);
            yk_text_fini(&csv);
            yk_figures_fini(&fs);
        }
        yk_warnings_fini(&w);
    }
    yk_compare_fini(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        if (!mkdtemp(directory))
            abort();
        for (int r = 0; r < RUNS; r++)
            if (mkdir(path_of(r, ""), 0777) || mkdir(path_of(r, "worker-0"), 0777))
                abort();
        atexit(clean);
        ready = true;
    }
    for (int k = 0; k < RUNS * FILES; k++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size;
        put(k / FILES, k % FILES, data, n);
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
    yk_run runs[RUNS];
    size_t n = 0;
    for (int r = 0; r < RUNS; r++) {
        char name[8];
        snprintf(name, sizeof name, "%d", r);
        n += yk_run_load(path_of(r, ""), name, &runs[n]) == YK_OK;
    }
    if (n)
        report(runs, n);
    for (size_t i = 0; i < n; i++)
        yk_run_fini(&runs[i]);
    return 0;
}
