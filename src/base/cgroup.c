#include "base/cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Version 1 reports "no limit" as 2^63 rounded to pages, so anything above this is no limit. */
static const double most_memory = 1e17;

/* Reads up to two numbers from the start of the file; returns how many there are. */
static int read_numbers(const char *folder, const char *file, double *first, double *second)
{
    char path[PATH_MAX];
    FILE *f =
        (size_t)snprintf(path, sizeof path, "%s/%s", folder, file) < sizeof path ? fopen(path, "re") : NULL;
    const int n = f ? fscanf(f, "%lf %lf", first, second) : 0;
    if (f)
        fclose(f);
    return n;
}

static void lower(double *to, double limit)
{
    if (*to == 0.0 || limit < *to)
        *to = limit;
}

/* Reads one folder of either version; only the file names differ. */
static void take_limits(const char *folder, yk_limits *out)
{
    static const char *const memory[][2] = {{"memory.max", "memory.current"},
                                            {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    double quota, period, none, bytes, used;
    if ((read_numbers(folder, "cpu.max", &quota, &period) == 2 ||
         (read_numbers(folder, "cpu.cfs_quota_us", &quota, &none) == 1 &&
          read_numbers(folder, "cpu.cfs_period_us", &period, &none) == 1)) &&
        quota > 0.0 && period > 0.0)
        lower(&out->cores, quota / period);
    for (int i = 0; i < 2; i++) {
        if (read_numbers(folder, memory[i][0], &bytes, &none) < 1 || !(bytes < most_memory))
            continue;
        lower(&out->memory, bytes);
        if (read_numbers(folder, memory[i][1], &used, &none) == 1)
            out->memory_left = fmin(out->memory_left, fmax(bytes - used, 0.0));
    }
}

/* Looks in SYS/fs/cgroup/CONTROLLER/PATH, its parent, and so on up to SYS/fs/cgroup/CONTROLLER. */
static void walk(const char *sys, const char *controller, const char *path, yk_limits *out)
{
    char folder[PATH_MAX];
    const size_t base = (size_t)snprintf(folder, sizeof folder, "%s/fs/cgroup%s", sys, controller);
    if (base >= sizeof folder || strlen(path) >= sizeof folder - base)
        return;
    strcpy(folder + base, path);
    for (size_t n = strlen(folder);;) {
        while (n > base && folder[n - 1] == '/')
            n--;
        folder[n] = '\0';
        take_limits(folder, out);
        if (n <= base)
            return;
        while (folder[n - 1] != '/')
            n--;
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
    char line[PATH_MAX];
    *out = (yk_limits){.memory_left = HUGE_VAL};
    FILE *f =
        (size_t)snprintf(line, sizeof line, "%s/self/cgroup", proc) < sizeof line ? fopen(line, "re") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        path[strcspn(path, "\n")] = '\0';
        if (*path != '/' || strstr(path, "/.."))
            path[0] = '\0'; /* not visible in this namespace */
        if (!*controllers)
            walk(sys, "", path, out);
        if (names(controllers, "cpu"))
            walk(sys, "/cpu", path, out);
        if (names(controllers, "memory"))
            walk(sys, "/memory", path, out);
    }
    if (f)
        fclose(f);
}

double yk_memory_available(const char *proc, const char *sys)
{
    yk_limits limits;
    char line[PATH_MAX];
    double kib;
    yk_cgroup_limits(proc, sys, &limits);
    FILE *f =
        (size_t)snprintf(line, sizeof line, "%s/meminfo", proc) < sizeof line ? fopen(line, "re") : NULL;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1)
            limits.memory_left = fmin(limits.memory_left, kib * 1024.0);
    if (f)
        fclose(f);
    return limits.memory_left;
}
