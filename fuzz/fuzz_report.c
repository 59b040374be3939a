/* Arbitrary bytes as the files of two run directories: a page, never a crash.
 *
 * The input is split at zero bytes: metrics.jsonl, resources.jsonl, summary.json and config.ini of the first run, then
 * those of the second. Missing parts are missing files. All inputs are read, but only some become a page, which takes twenty
 * times as long. */
#include "base/crc.h"
#include "memory.h"
#include "report/page.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 4, RUNS = 2, PAGES = 256 }; /* one page for so many inputs */

static const char *const files[RUNS][FILES] = {
    {"/run/0/metrics.jsonl", "/run/0/worker-0/resources.jsonl", "/run/0/summary.json", "/run/0/config.ini"},
    {"/run/1/metrics.jsonl", "/run/1/worker-0/resources.jsonl", "/run/1/summary.json", "/run/1/config.ini"}};

static void report(const yk_run *runs, size_t n)
{
    yk_compare c;
    yk_warnings w;
    yk_figures fs;
    if (yk_compare_make(runs, n, &c))
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
    yk_run runs[RUNS];
    size_t n = 0;
    const bool writes = yk_crc32c(data, size) % PAGES == 0;
    bool second = false;
    memory_begin();
    for (int k = 0; k < RUNS * FILES; k++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        const size_t bytes = end ? (size_t)(end - data) : size;
        memory_put(files[k / FILES][k % FILES], data, bytes);
        second |= k >= FILES && bytes;
        data += bytes + (end != NULL);
        size -= bytes + (end != NULL);
    }
    for (int r = 0; r < RUNS && (r == 0 || second); r++) {
        static const char *const path[RUNS] = {"/run/0", "/run/1"};
        runs[n] = (yk_run){.path = strdup(path[r]), .name = strdup(path[r] + 5)};
        if (yk_run_load(&runs[n]))
            yk_run_fini(&runs[n]);
        else
            n++;
    }
    memory_end();
    if (n && writes)
        report(runs, n);
    for (size_t i = 0; i < n; i++)
        yk_run_fini(&runs[i]);
    return 0;
}
