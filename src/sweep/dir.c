#include "sweep/dir.h"

#include "base/log.h"
#include "base/text.h"
#include "format/json_value.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the saved plan */

/* Reads a text file; *found_out: whether there is one. */
static yk_status read_text(const char *path, yk_text *out, bool *found_out)
{
    FILE *f = fopen(path, "re");
    *found_out = f != NULL;
    if (!f)
        return errno == ENOENT ? YK_OK : yk_fail_path(path, "cannot read", errno);
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        yk_text_put(out, part, n);
    yk_text_add(out, "");
    yk_status st = ferror(f) ? yk_fail_path(path, "cannot read", errno) : out->status;
    fclose(f);
    return st;
}

static yk_status compare_plan(const yk_sweep_plan *plan, const char *was, const char *is, bool force)
{
    const char *directory = plan->path;
    if (strcmp(was, is) == 0)
        return YK_OK;
    int number = 1; /* of the first line that differs */
    const char *line = was;
    for (; *was && *was == *is; was++, is++)
        if (*was == '\n')
            number++, line = was + 1;
    const int length = (int)strcspn(line, ":\n");
    if (force) {
        yk_note("%s was started with a different plan (the first run that differs is %.*s); runs that did "
                "not change are kept",
                directory, length, line);
        return YK_OK;
    }
    return yk_fail(
        YK_EUSAGE,
        "%s: the sweep in %s was started with different runs (its run %d is '%.*s', with different options "
        "or at a different position). Choose another --out, or use --force: it keeps runs that did not "
        "change, and "
        "repeats the others. The old file is %s/sweep.ini",
        plan->file.path, directory, number, length, line, directory);
}

/* Whether the directory has files, but no sweep. */
static bool is_foreign(const char *path)
{
    DIR *d = opendir(path);
    bool empty = true, ours = false;
    for (struct dirent *e; d && (e = readdir(d));) {
        ours |= strcmp(e->d_name, "plan.txt") == 0;
        empty &=
            strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, "lock") == 0;
    }
    if (d)
        closedir(d);
    return !empty && !ours;
}

static yk_status save_plan(const yk_sweep_plan *plan, bool force)
{
    const char *directory = plan->path;
    char *is = yk_sweep_plan_text(plan);
    yk_text was = {0}, file = {0};
    bool found;
    yk_status st = is ? read_text(yk_path_of("%s/plan.txt", directory).s, &was, &found) : YK_ESYSTEM;
    if (!st && found)
        st = compare_plan(plan, was.s, is, force);
    if (!st && !(found && strcmp(was.s, is) == 0)) {
        /* first: without it, the directory has no sweep */
        st = yk_file_save(directory, "plan.txt", "%s", is);
        if (!st)
            st = read_text(plan->file.path, &file, &found);
        if (!st && found)
            st = yk_file_save(directory, "sweep.ini", "%s", file.s);
    }
    free(is);
    yk_text_fini(&was);
    yk_text_fini(&file);
    return st;
}

yk_status yk_sweep_dir_open(const yk_sweep_plan *plan, bool force, yk_lock **lock_out)
{
    *lock_out = NULL;
    yk_status st = yk_dir_make(plan->path);
    if (!st && is_foreign(plan->path))
        st = yk_fail(YK_EUSAGE, "%s: the directory is not empty, and has no sweep; choose another --out",
                     plan->path);
    if (!st)
        st = yk_lock_acquire(plan->path, 0.0, lock_out);
    return st ? st : save_plan(plan, force);
}

/* ---- runs */

/* Whether the run there is readable and has the options of the plan. any_length: except its epochs and steps. */
static bool has_options(const char *file, const yk_sweep_run *run, bool any_length)
{
    yk_config c;
    bool there;
    char *ignored = NULL;
    yk_config_init(&c);
    bool same = !yk_config_load_run(&c, file, &there, &ignored);
    if (any_length) {
        c.steps = run->config.steps;
        c.epochs = run->config.epochs;
    }
    if (yk_by_group_has(&run->config.lr, YK_ALL)) /* --lr auto: the run has the rate that was found */
        c.lr = run->config.lr;
    same = same && yk_config_same_run(&run->config, &c);
    yk_config_fini(&c);
    free(ignored);
    return same;
}

json_t *yk_sweep_run_json(const yk_sweep_run *run, const char *name)
{
    return json_load_file(yk_path_of("%s/%s", run->path, name).s, 0, NULL);
}

void yk_sweep_run_find(yk_sweep_run *run, bool any_length)
{
    const yk_path options = yk_path_of("%s/config.ini", run->path);
    yk_sweep_run_take(run, NULL);
    run->state = access(options.s, F_OK)                    ? YK_SWEEP_NOT_RUN
                 : !has_options(options.s, run, any_length) ? YK_SWEEP_DIFFERENT
                                                            : YK_SWEEP_STOPPED;
    json_t *summary = run->state == YK_SWEEP_STOPPED ? yk_sweep_run_json(run, "summary.json") : NULL;
    const char *state = yk_string_at(summary, "state");
    const bool failed = state && !strcmp(state, "failed") && yk_number_at(summary, "diverged") != 1.0;
    if (json_is_object(summary) && !failed && !(yk_number_at(summary, "interrupted") > 0.0))
        yk_sweep_run_take(run, json_incref(summary));
    json_decref(summary);
}

void yk_sweep_run_take(yk_sweep_run *run, json_t *summary)
{
    const char *error = yk_string_at(summary, "error");
    const bool diverged = yk_number_at(summary, "diverged") > 0.0,
               stopped = yk_number_at(summary, "interrupted") > 0.0;
    json_decref(run->summary);
    free(run->problem);
    run->state = diverged ? YK_SWEEP_DIVERGED : stopped ? YK_SWEEP_STOPPED : YK_SWEEP_DONE;
    run->problem = diverged && error ? strdup(error) : NULL;
    run->summary = diverged ? NULL : json_incref(summary); /* its values are not results */
    json_decref(summary);
}

bool yk_sweep_run_failed(const yk_sweep_run *run)
{
    return run->state == YK_SWEEP_FAILED || run->state == YK_SWEEP_DIVERGED;
}
