#include "report/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/number.h"
#include "config/option.h"
#include "format/ini.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CONFIG = 1 << 20, MAX_SUMMARY = 64 << 20 }; /* bytes */

const yk_stacked_phase yk_stacked[YK_PHASES] = {
    {YK_PHASE_COMPUTE, "computing"},
    {YK_PHASE_APPLY, "applying updates"},
    {YK_PHASE_INPUT, "waiting for input"},
    {YK_PHASE_PARAMETERS, "waiting for parameters"},
    {YK_PHASE_SENDING, "sending"},
    {YK_PHASE_WORKERS, "waiting for other workers"},
    {YK_PHASE_EVAL, "evaluating"},
    {YK_PHASE_CHECKPOINT, "saving checkpoints"},
    {YK_PHASE_OTHER, "other"},
    {YK_PHASE_WAITING, "server: waiting"},
    {YK_PHASE_RECEIVING, "server: receiving"},
    {YK_PHASE_LOOKUP, "server: looking up parameters"},
};

void yk_run_fini(yk_run *r)
{
    for (size_t i = 0; i < r->options; i++) {
        free(r->option[i].name);
        free(r->option[i].value);
    }
    for (size_t i = 0; i < r->logs; i++) {
        free(r->log[i].sample.row);
        free(r->log[i].alert);
    }
    free(r->path);
    free(r->name);
    free(r->option);
    free(r->train.row);
    free(r->eval.row);
    free(r->log);
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

/* The hosts are in a comment, since a file must not choose them (yk_config_save). */
static yk_status read_hosts(yk_run *r, char *comment)
{
    static const char begin[] = "; on the command line: --";
    static const unsigned host_flags = YK_OPT_STARTS_JOB | YK_OPT_SAVED | YK_OPT_COMMAND_LINE_ONLY;
    char *name = strncmp(comment, begin, strlen(begin)) ? NULL : comment + strlen(begin),
         *value = name ? strchr(name, ' ') : NULL;
    if (!value)
        return YK_OK;
    *value++ = '\0';
    const yk_option *o = yk_option_find(name);
    return o && (o->flags & host_flags) == host_flags ? add_option(r, name, value) : YK_OK;
}

static yk_status read_config(yk_run *r)
{
    char path[PATH_MAX];
    yk_ini in;
    if (!yk__run_path(r->path, "config.ini", path))
        return yk_fail_path(r->path, "cannot open", ENAMETOOLONG);
    yk_status st = yk_ini_open_regular(path, MAX_CONFIG, YK_INI_LENIENT | YK_INI_COMMENTS, &in);
    while (yk_ini_next(&in, &st))
        st = in.comment ? read_hosts(r, in.comment) : in.name ? add_option(r, in.name, in.value) : YK_OK;
    return yk_ini_close(&in, st);
}

/* ---- summary.json ---- */

/* Invalid JSON counts as missing: the run was killed while writing, or another program wrote the file. */
static yk_status read_summary(yk_run *r)
{
    int fd;
    yk_status st = yk__open_in(r->path, "summary.json", MAX_SUMMARY, &fd);
    if (fd >= 0) {
        r->summary = json_loadfd(fd, 0, NULL);
        close(fd);
    }
    if (r->summary && !json_is_object(r->summary)) {
        json_decref(r->summary);
        r->summary = NULL;
    }
    return st;
}

/* ---- worker-R/ ---- */

static int by_rank(const void *a, const void *b)
{
    return ((const yk_process_log *)a)->rank - ((const yk_process_log *)b)->rank;
}

static yk_status read_logs(yk_run *r)
{
    DIR *d = opendir(r->path);
    if (!d)
        return yk_fail_path(r->path, "cannot open the directory", errno);
    yk_status st = YK_OK;
    const struct dirent *e;
    while (!st && (e = readdir(d))) {
        uint64_t rank;
        const char *end = yk_digits_after("worker-", e->d_name, 9999999, &rank);
        if (!end || *end)
            continue;
        if ((st = YK_RESERVE(r->log, r->log_cap, r->logs + 1, "the logs of a run")))
            break;
        yk_process_log *w = &r->log[r->logs++];
        yk__process_log_init((int)rank, w);
        st = yk__process_log_read(r, w);
    }
    closedir(d);
    if (r->logs)
        qsort(r->log, r->logs, sizeof *r->log, by_rank);
    /* skip directories that only have TensorBoard events */
    size_t kept = 0;
    for (size_t i = 0; i < r->logs; i++)
        if (r->log[i].sample.n || r->log[i].alerts || r->log[i].host[0])
            r->log[kept++] = r->log[i];
    r->logs = kept;
    return st;
}

/* ---- metrics.jsonl ---- */

/* The first lines of a stream have no epoch (in old runs, 0), because its length is not known yet. Later lines tell the number of
 * examples per epoch, from which the missing epochs are computed. */
static void fill_epochs(yk_run *r)
{
    const yk_metrics *const all[] = {&r->train, &r->eval};
    double per_epoch = NAN;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < all[k]->n; i++)
            if (all[k]->row[i].epoch > 0.0)
                per_epoch = all[k]->row[i].examples / all[k]->row[i].epoch;
    if (!(per_epoch > 0.0))
        return;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < all[k]->n; i++)
            if (!(all[k]->row[i].epoch > 0.0))
                all[k]->row[i].epoch = all[k]->row[i].examples / per_epoch;
}

yk_status yk_run_load(yk_run *r)
{
    yk_status st = r->path && r->name ? read_config(r) : yk_fail_memory(64, "a run");
    if (!st)
        st = read_summary(r);
    if (!st)
        st = yk__run_metrics(r);
    if (!st)
        fill_epochs(r);
    return st ? st : read_logs(r);
}
