#include "watch/cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond this, version 1 means "no limit" (it says 2^63, rounded to pages). */
static const double most_memory = 1e17;

/* The file's first line; false where there is none. */
static bool read_line(const char *folder, const char *file, char *line, size_t size)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, file) >= sizeof path)
        return false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool ok = fgets(line, (int)size, f) != NULL;
    fclose(f);
    return ok;
}

static void lower(double *to, double limit)
{
    if (limit > 0.0 && (*to == 0.0 || limit < *to))
        *to = limit;
}

static void cpu_v2(const char *folder, yk_limits *out)
{
    char line[128];
    double quota, period;
    if (read_line(folder, "cpu.max", line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2 &&
        period > 0.0 && isfinite(quota)) /* "max" is no number */
        lower(&out->cores, quota / period);
}

static void memory_v2(const char *folder, yk_limits *out)
{
    char line[128];
    double bytes;
    if (read_line(folder, "memory.max", line, sizeof line) && sscanf(line, "%lf", &bytes) == 1 &&
        bytes < most_memory)
        lower(&out->memory, bytes);
}

static void cpu_v1(const char *folder, yk_limits *out)
{
    char line[128];
    double quota, period;
    if (read_line(folder, "cpu.cfs_quota_us", line, sizeof line) && sscanf(line, "%lf", &quota) == 1 &&
        quota > 0.0 && read_line(folder, "cpu.cfs_period_us", line, sizeof line) &&
        sscanf(line, "%lf", &period) == 1 && period > 0.0)
        lower(&out->cores, quota / period);
}

static void memory_v1(const char *folder, yk_limits *out)
{
    char line[128];
    double bytes;
    if (read_line(folder, "memory.limit_in_bytes", line, sizeof line) && sscanf(line, "%lf", &bytes) == 1 &&
        bytes < most_memory)
        lower(&out->memory, bytes);
}

/* Looks in ROOT/PATH, its parent, and so on up to ROOT. */
static void walk(const char *root, const char *path, void (*look)(const char *folder, yk_limits *out),
                 yk_limits *out)
{
    char folder[PATH_MAX];
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", root, path) >= sizeof folder)
        return;
    const size_t base = strlen(root);
    for (;;) {
        size_t n = strlen(folder);
        while (n > base && folder[n - 1] == '/')
            folder[--n] = '\0';
        look(folder, out);
        if (n <= base)
            return;
        while (n > base && folder[n - 1] != '/')
            n--;
        folder[n] = '\0';
    }
}

static bool names(const char *list, const char *controller)
{
    const size_t n = strlen(controller);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, controller, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

void yk_cgroup_limits(const char *proc, const char *sys, yk_limits *out)
{
    char file[PATH_MAX], root[PATH_MAX], line[PATH_MAX];
    *out = (yk_limits){0};
    if ((size_t)snprintf(file, sizeof file, "%s/self/cgroup", proc) >= sizeof file)
        return;
    FILE *f = fopen(file, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        path[strcspn(path, "\n")] = '\0';
        if (*path != '/' || strstr(path, "/.."))
            path[0] = '\0'; /* outside of what is to be seen here */
        if (!*controllers && (size_t)snprintf(root, sizeof root, "%s/fs/cgroup", sys) < sizeof root) {
            walk(root, path, cpu_v2, out);
            walk(root, path, memory_v2, out);
        }
        if (names(controllers, "cpu") &&
            (size_t)snprintf(root, sizeof root, "%s/fs/cgroup/cpu", sys) < sizeof root)
            walk(root, path, cpu_v1, out);
        if (names(controllers, "memory") &&
            (size_t)snprintf(root, sizeof root, "%s/fs/cgroup/memory", sys) < sizeof root)
            walk(root, path, memory_v1, out);
    }
    if (f)
        fclose(f);
}
