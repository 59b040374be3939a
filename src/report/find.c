/* Finds run directories and names them. */
#include "report/run.h"

#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH = 8 /* directories below a path */, MAX_PLAN = 64 << 20 /* bytes */ };

void yk_run_list_fini(yk_run_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        yk_run_fini(&l->run[i]);
    free(l->run);
    *l = (yk_run_list){0};
}

static bool is_run(const char *path)
{
    char log[PATH_MAX];
    struct stat s;
    return yk__run_path(path, "metrics.jsonl", log) && stat(log, &s) == 0 && S_ISREG(s.st_mode);
}

/* Adds a path from realpath(), unless it is in the list. */
static yk_status add(yk_run_list *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->run[i].path, path))
            return YK_OK;
    if (YK_RESERVE(l->run, l->cap, l->n + 1, "the list of runs"))
        return YK_ESYSTEM;
    l->run[l->n] = (yk_run){.path = strdup(path)};
    return l->run[l->n++].path ? YK_OK : yk_fail_memory(strlen(path), "a path");
}

static int wanted(const struct dirent *e)
{
    /* checkpoints and hidden directories have no runs */
    return e->d_name[0] != '.' && strcmp(e->d_name, "checkpoints");
}

typedef struct {
    struct dirent **entry;
    int n, next;
} ordering;

/* The directory of a sweep lists its runs in plan.txt, one "NAME: OPTIONS" per line. They come first, in that order. */
static yk_status order_by_plan(void *context, char *line, size_t size, bool whole)
{
    ordering *o = context;
    int at = o->next;
    (void)size, (void)whole;
    line[strcspn(line, ":")] = '\0';
    while (at < o->n && strcmp(o->entry[at]->d_name, line))
        at++;
    if (at < o->n) {
        struct dirent *found = o->entry[at];
        memmove(o->entry + o->next + 1, o->entry + o->next, (size_t)(at - o->next) * sizeof found);
        o->entry[o->next++] = found;
    }
    return YK_OK;
}

static yk_status walk(yk_run_list *l, const char *path, int depth, bool *found_out)
{
    struct dirent **entry;
    if (is_run(path)) {
        *found_out = true;
        return add(l, path);
    }
    if (depth == 0)
        return YK_OK;
    int n = scandir(path, &entry, wanted, versionsort);
    if (n < 0)
        return errno == ENOTDIR ? YK_OK : yk_fail_path(path, "cannot read the directory", errno);
    yk_status st = YK_OK;
    /* without it: by name */
    yk__each_line(path, "plan.txt", MAX_PLAN, order_by_plan, &(ordering){entry, n, 0});
    for (int i = 0; i < n; i++) {
        char below[PATH_MAX];
        struct stat s;
        if (!st && yk__run_path(path, entry[i]->d_name, below) && lstat(below, &s) == 0 && S_ISDIR(s.st_mode))
            st = walk(l, below, depth - 1, found_out);
        free(entry[i]);
    }
    free(entry);
    return st;
}

/* The last components of a path. */
static const char *tail(const char *path, int parts)
{
    const char *s = path + strlen(path);
    while (s > path && parts > 0)
        if (*--s == '/' && --parts == 0)
            return s + 1;
    return s;
}

/* Names all runs by the last components of their paths, as many as necessary to be unique. */
static yk_status name_all(yk_run_list *l)
{
    int parts = 1;
    for (bool clash = true; clash && parts < 32; parts += clash) {
        clash = false;
        for (size_t i = 0; i < l->n && !clash; i++)
            for (size_t k = 0; k < i && !clash; k++)
                clash = !strcmp(tail(l->run[i].path, parts), tail(l->run[k].path, parts));
    }
    for (size_t i = 0; i < l->n; i++)
        if (!(l->run[i].name = strdup(tail(l->run[i].path, parts))))
            return yk_fail_memory(64, "the name of a run");
    return YK_OK;
}

yk_status yk_runs_find(char *const *paths, size_t n, yk_run_list *out)
{
    *out = (yk_run_list){0};
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < n; i++) {
        char *path = realpath(paths[i], NULL);
        struct stat s;
        if (!path || stat(path, &s)) {
            st = yk_fail(YK_EUSAGE, "%s: %s; give a run directory (the --out of yoke train)", paths[i],
                         strerror(errno));
        } else if (!S_ISDIR(s.st_mode)) {
            st = yk_fail(YK_EUSAGE, "%s: not a directory; give a run directory (the --out of yoke train)",
                         paths[i]);
        } else {
            bool found = false;
            st = walk(out, path, DEPTH, &found);
            if (!st && !found)
                st = yk_fail(YK_EUSAGE,
                             "%s: no run directory here or below (no metrics.jsonl); give the --out of yoke "
                             "train, or a directory above it",
                             paths[i]);
        }
        free(path);
    }
    if (!st)
        st = name_all(out);
    if (st)
        yk_run_list_fini(out);
    return st;
}
