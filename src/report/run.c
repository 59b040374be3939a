#include "report/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/number.h"
#include "format/ini.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_OF_CONFIG = 1 << 20, MOST_OF_SUMMARY = 64 << 20 }; /* bytes */

const yk_stacked_phase yk_stacked[YK_PHASES] = {
    {YK_PHASE_COMPUTE, "computing"},
    {YK_PHASE_APPLY, "applying updates"},
    {YK_PHASE_INPUT, "waiting for input"},
    {YK_PHASE_PARAMETERS, "waiting for parameters"},
    {YK_PHASE_SENDING, "sending"},
    {YK_PHASE_WORKERS, "waiting for other workers"},
    {YK_PHASE_EVAL, "testing"},
    {YK_PHASE_CHECKPOINT, "saving"},
    {YK_PHASE_OTHER, "other"},
};

void yk_run_fini(yk_run *r)
{
    for (size_t i = 0; i < r->options; i++) {
        free(r->option[i].name);
        free(r->option[i].value);
    }
    for (size_t i = 0; i < r->workers; i++) {
        free(r->worker[i].sample.row);
        free(r->worker[i].alert);
    }
    free(r->path);
    free(r->name);
    free(r->option);
    free(r->train.row);
    free(r->eval.row);
    free(r->worker);
    json_decref(r->summary);
    *r = (yk_run){0};
}

const char *yk_run_get(const yk_run *r, const char *option)
{
    for (size_t i = 0; i < r->options; i++)
        if (!strcmp(r->option[i].name, option))
            return r->option[i].value;
    return NULL;
}

/* ---- config.ini ---- */

static yk_status add_option(yk_run *r, const char *name, const char *value)
{
    if (r->options == YK_RUN_OPTIONS)
        return yk_fail(YK_EDATA, "more than %d options", YK_RUN_OPTIONS);
    if (YK_RESERVE(r->option, r->option_cap, r->options + 1, "options of a run"))
        return YK_ESYSTEM;
    yk_run_option *o = &r->option[r->options++];
    o->name = strdup(name);
    o->value = strdup(value);
    return o->name && o->value ? YK_OK : yk_fail_memory(64, "an option of a run");
}

static yk_status read_config(yk_run *r)
{
    char *path;
    yk_ini in;
    if (asprintf(&path, "%s/config.ini", r->path) < 0)
        return yk_fail_memory(64, "a path");
    yk_status st = yk_ini_open_plain(path, MOST_OF_CONFIG, YK_INI_LENIENT, &in);
    while (yk_ini_next(&in, &st))
        if (in.name)
            st = add_option(r, in.name, in.value);
    st = yk_ini_close(&in, st);
    free(path);
    return st;
}

/* ---- summary.json ---- */

/* Invalid JSON counts as missing: the run was killed while writing, or another program wrote there. */
static yk_status read_summary(yk_run *r)
{
    char *path;
    if (asprintf(&path, "%s/summary.json", r->path) < 0)
        return yk_fail_memory(64, "a path");
    int fd;
    yk_status st = yk_file_open_plain(path, MOST_OF_SUMMARY, &fd);
    if (fd >= 0) {
        r->summary = json_loadfd(fd, 0, NULL);
        close(fd);
    }
    if (r->summary && !json_is_object(r->summary)) {
        json_decref(r->summary);
        r->summary = NULL;
    }
    free(path);
    return st;
}

/* ---- worker-R/ ---- */

static int by_rank(const void *a, const void *b)
{
    return ((const yk_run_worker *)a)->rank - ((const yk_run_worker *)b)->rank;
}

static yk_status read_workers(yk_run *r)
{
    DIR *d = opendir(r->path);
    if (!d)
        return yk_fail_path(r->path, "cannot open the folder", errno);
    yk_status st = YK_OK;
    const struct dirent *e;
    while (!st && (e = readdir(d))) {
        uint64_t rank;
        const char *end = strncmp(e->d_name, "worker-", 7) ? NULL : yk_digits(e->d_name + 7, 9999999, &rank);
        if (!end || *end)
            continue;
        if ((st = YK_RESERVE(r->worker, r->worker_cap, r->workers + 1, "the workers of a run")))
            break;
        yk_run_worker *w = &r->worker[r->workers++];
        *w = (yk_run_worker){.rank = (int)rank};
        st = yk__run_resources(r, w);
    }
    closedir(d);
    if (r->workers)
        qsort(r->worker, r->workers, sizeof *r->worker, by_rank);
    /* A folder with TensorBoard's events only says nothing here. */
    size_t kept = 0;
    for (size_t i = 0; i < r->workers; i++)
        if (r->worker[i].sample.n || r->worker[i].alerts || r->worker[i].host[0])
            r->worker[kept++] = r->worker[i];
    r->workers = kept;
    return st;
}

yk_status yk_run_load(const char *path, const char *name, yk_run *out)
{
    *out = (yk_run){.path = strdup(path), .name = strdup(name)};
    yk_status st = YK_OK;
    if (!out->path || !out->name)
        st = yk_fail_memory(strlen(path) + strlen(name), "a run");
    if (!st)
        st = read_config(out);
    if (!st)
        st = read_summary(out);
    if (!st)
        st = yk__run_metrics(out);
    if (!st)
        st = read_workers(out);
    if (st)
        yk_run_fini(out);
    return st;
}
