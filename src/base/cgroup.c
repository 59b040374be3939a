#include "base/cgroup.h"

#include "base/file.h"
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Version 1 reports "no limit" as 2^63 rounded down to pages, so anything above this means no limit. */
static const double largest_limit = 1e17;

/* Reads up to two numbers from the start of a file. Returns how many it found. */
static int read_numbers(const char *directory, const char *file, double *first, double *second)
{
    char text[64];
    return yk_file_text(text, sizeof text, "%s/%s", directory, file) ? sscanf(text, "%lf %lf", first, second)
                                                                     : 0;
}

static void lower(double *to, double limit)
{
    if (*to == 0.0 || limit < *to)
        *to = limit;
}

static double read_throttled(const char *directory)
{
    static const struct {
        const char *name;
        double seconds;
    } unit[] = {{"throttled_usec ", 1e-6}, {"throttled_time ", 1e-9}};
    char text[1024];
    double n;
    yk_file_text(text, sizeof text, "%s/cpu.stat", directory);
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(text, unit[i].name);
        if (at && sscanf(at + strlen(unit[i].name), "%lf", &n) == 1)
            return n * unit[i].seconds;
    }
    return 0.0;
}

/* Reads the limits in one directory. The versions differ only in the file names. */
static void read_limits(const char *directory, yk_limits *out)
{
    static const char *const memory[][2] = {{"memory.max", "memory.current"},
                                            {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    double quota, period, none, bytes, used;
    if ((read_numbers(directory, "cpu.max", &quota, &period) == 2 ||
         (read_numbers(directory, "cpu.cfs_quota_us", &quota, &none) == 1 &&
          read_numbers(directory, "cpu.cfs_period_us", &period, &none) == 1)) &&
        quota > 0.0 && period > 0.0)
        lower(&out->cores, quota / period);
    out->throttled = fmax(out->throttled, read_throttled(directory));
    for (int i = 0; i < 2; i++) {
        if (read_numbers(directory, memory[i][0], &bytes, &none) < 1 || !(bytes < largest_limit))
            continue;
        lower(&out->memory, bytes);
        if (read_numbers(directory, memory[i][1], &used, &none) == 1)
            out->memory_left = fmin(out->memory_left, fmax(bytes - used, 0.0));
    }
}

/* The number after "oom_kill" in a file, at the beginning of a line. */
static bool read_kills(const char *directory, const char *file, uint64_t *out)
{
    char text[512];
    unsigned long long n;
    if (!yk_file_text(text, sizeof text, "%s/%s", directory, file))
        return false;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (sscanf(line, "oom_kill %llu", &n) == 1) {
            *out = n;
            return true;
        }
    return false;
}

/* Reads SYS/fs/cgroup/CONTROLLER/PATH, its parent, and so on up to SYS/fs/cgroup/CONTROLLER. A parent counts the processes that
 * were killed in all its children, so only the first file counts. */
static void read_path(const char *sys, const char *controller, const char *path, yk_limits *out)
{
    bool counted = false;
    char directory[PATH_MAX];
    const size_t base = (size_t)snprintf(directory, sizeof directory, "%s/fs/cgroup%s", sys, controller);
    if (base >= sizeof directory || strlen(path) >= sizeof directory - base)
        return;
    strcpy(directory + base, path);
    for (size_t n = strlen(directory);;) {
        while (n > base && directory[n - 1] == '/')
            n--;
        directory[n] = '\0';
        read_limits(directory, out);
        counted = counted || read_kills(directory, "memory.events", &out->oom_kills) ||
                  read_kills(directory, "memory.oom_control", &out->oom_kills);
        if (n <= base)
            return;
        while (directory[n - 1] != '/')
            n--;
    }
}

/* Whether a comma-separated list has the controller. */
static bool has_controller(const char *list, const char *controller)
{
    const size_t n = strlen(controller);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, controller, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

void yk_cgroup_limits(const char *proc, const char *sys, yk_limits *out)
{
    char text[4 * PATH_MAX], *rest;
    *out = (yk_limits){.memory_left = HUGE_VAL};
    yk_file_text(text, sizeof text, "%s/self/cgroup", proc);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        if (*path != '/' || strstr(path, "/.."))
            path[0] = '\0'; /* not visible in this namespace */
        if (!*controllers)
            read_path(sys, "", path, out);
        if (has_controller(controllers, "cpu"))
            read_path(sys, "/cpu", path, out);
        if (has_controller(controllers, "memory"))
            read_path(sys, "/memory", path, out);
    }
}

bool yk_cgroup_killed(const yk_limits *before, const yk_limits *now, char *text, size_t size)
{
    char limit[48] = "";
    if (now->oom_kills <= before->oom_kills)
        return false;
    const uint64_t n = now->oom_kills - before->oom_kills;
    if (now->memory > 0.0)
        snprintf(limit, sizeof limit, " (limit: %.0f MB)", now->memory * 1e-6);
    snprintf(text, size,
             "out of memory: the kernel killed %llu process%s because the cgroup reached its memory limit%s; "
             "raise the limit of the container or batch job, or use less memory: a smaller --batch, fewer "
             "--workers or processes, --stream always",
             (unsigned long long)n, n == 1 ? "" : "es", limit);
    return true;
}

double yk_memory_available(const char *proc, const char *sys)
{
    yk_limits limits;
    char text[8192];
    double kib;
    yk_cgroup_limits(proc, sys, &limits);
    yk_file_text(text, sizeof text, "%s/meminfo", proc);
    const char *available = strstr(text, "MemAvailable:");
    if (available && sscanf(available, "MemAvailable: %lf", &kib) == 1)
        limits.memory_left = fmin(limits.memory_left, kib * 1024.0);
    return limits.memory_left;
}
