#include "base/cgroup.h"

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Version 1 reports "no limit" as 2^63 rounded down to pages, so anything above this means no limit. */
static const double largest_limit = 1e17;

/* Reads word `n` after a name, such as "oom_kill ", which distinguishes it from "oom_kill_disable", or after the beginning of
 * the file (""). False: there is no such word, or it is not a number, such as "max". */
static bool read_word(const char *directory, const char *file, const char *name, int n, double *out)
{
    char text[4096];
    uint64_t number;
    yk_file_text(text, sizeof text, "%s/%s", directory, file);
    const char *at = strstr(text, name);
    if (!at || !yk_word_digits(at + strlen(name), n, &number))
        return false;
    *out = (double)number;
    return true;
}

static bool read_number(const char *directory, const char *file, double *out)
{
    return read_word(directory, file, "", 0, out);
}

static void lower(double *to, double limit)
{
    if (*to == 0.0 || limit < *to)
        *to = limit;
}

/* Bytes of files that the cgroup counts as used: the kernel frees them when memory runs out. */
static double file_cache(const char *directory)
{
    static const char *const name[][2] = {{"\ntotal_inactive_file ", "\ntotal_active_file "},
                                          {"\ninactive_file ", "\nactive_file "}};
    double inactive, active;
    for (int i = 0; i < 2; i++)
        if (read_word(directory, "memory.stat", name[i][0], 0, &inactive) &&
            read_word(directory, "memory.stat", name[i][1], 0, &active))
            return inactive + active;
    return 0.0;
}

/* Reads the limits in one directory. The versions differ only in the file names. */
static void read_limits(const char *directory, yk_limits *out)
{
    static const char *const memory[][2] = {{"memory.max", "memory.current"},
                                            {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    double quota, period, bytes, used, throttled;
    if (((read_number(directory, "cpu.max", &quota) && read_word(directory, "cpu.max", "", 1, &period)) ||
         (read_number(directory, "cpu.cfs_quota_us", &quota) &&
          read_number(directory, "cpu.cfs_period_us", &period))) &&
        quota > 0.0 && period > 0.0)
        lower(&out->cores, quota / period);
    if (read_word(directory, "cpu.stat", "throttled_usec ", 0, &throttled))
        out->throttled = fmax(out->throttled, throttled * 1e-6);
    else if (read_word(directory, "cpu.stat", "throttled_time ", 0, &throttled))
        out->throttled = fmax(out->throttled, throttled * 1e-9);
    for (int i = 0; i < 2; i++) {
        if (!read_number(directory, memory[i][0], &bytes) || !(bytes < largest_limit))
            continue;
        lower(&out->memory, bytes);
        if (read_number(directory, memory[i][1], &used))
            out->memory_left =
                fmin(out->memory_left, fmax(bytes - fmax(used - file_cache(directory), 0.0), 0.0));
    }
}

/* Reads SYS/fs/cgroup/CONTROLLER/PATH, its parent, and so on up to SYS/fs/cgroup/CONTROLLER. A parent counts the processes that
 * were killed in all its children, so only the first file counts. */
static void read_path(const char *sys, const char *controller, const char *path, yk_limits *out)
{
    bool counted = false;
    double kills;
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
        if (!counted && (read_word(directory, "memory.events", "oom_kill ", 0, &kills) ||
                         read_word(directory, "memory.oom_control", "oom_kill ", 0, &kills))) {
            out->oom_kills = (uint64_t)kills;
            counted = true;
        }
        if (n <= base)
            return;
        while (directory[n - 1] != '/')
            n--;
    }
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
        if (yk_list_has(controllers, "cpu"))
            read_path(sys, "/cpu", path, out);
        if (yk_list_has(controllers, "memory"))
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
    double kib;
    yk_cgroup_limits(proc, sys, &limits);
    if (read_word(proc, "meminfo", "MemAvailable:", 0, &kib))
        limits.memory_left = fmin(limits.memory_left, kib * 1024.0);
    return limits.memory_left;
}
