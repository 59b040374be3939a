/* The cgroup limits of this process: CPU time and memory, for cgroup versions 1 and 2; and processes that the kernel killed
 * because of them.
 *
 * Example:
 *     yk_limits l;
 *     yk_cgroup_limits("/proc", "/sys", &l);
 *     if (l.cores > 0) // 0: no limit
 *         threads = (int)l.cores;
 *
 * PROC/self/cgroup names the cgroups of this process. The effective limit is the smallest one from there up to the root.
 * In a container, that path may belong to the host and not be visible: then only the files of the root are read.
 *
 *     0::/user/run            version 2    SYS/fs/cgroup/user/run/cpu.max            "150000 100000" or "max 100000"
 *                                          SYS/fs/cgroup/user/run/memory.max         bytes or "max"
 *                                          SYS/fs/cgroup/user/run/memory.current     bytes
 *                                          SYS/fs/cgroup/user/run/memory.stat        "inactive_file 4096", among other lines
 *                                          SYS/fs/cgroup/user/run/memory.events      "oom_kill 2", among other lines
 *                                          SYS/fs/cgroup/user/run/cpu.stat           "throttled_usec 1200", among other lines
 *     4:memory:/user/run      version 1    SYS/fs/cgroup/memory/user/run/memory.limit_in_bytes, memory.usage_in_bytes,
 *                                          memory.stat ("total_inactive_file"), memory.oom_control
 *     1:cpu,cpuacct:/         version 1    SYS/fs/cgroup/cpu/cpu.cfs_quota_us, cpu.cfs_period_us,
 *                                          cpu.stat ("throttled_time", ns)
 *
 * Any thread may call these. A file that cannot be read means no limit.
 */
#ifndef YK_BASE_CGROUP_H
#define YK_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    double cores;  /* CPU seconds per second; 0: no limit */
    double memory; /* bytes; 0: no limit */
    double
        memory_left; /* bytes that can still be allocated, also instead of cached files; HUGE_VAL: no limit */
    /* Processes that the kernel has killed since the cgroup was created, because it reached its memory limit. */
    uint64_t oom_kills;
    double throttled; /* seconds so far in which the limit kept threads from running, summed over cores */
} yk_limits;

void yk_cgroup_limits(const char *proc, const char *sys, yk_limits *out);

/* Whether the kernel has killed processes since `before` because memory ran out. `text` then says so, and what to do. */
bool yk_cgroup_killed(const yk_limits *before, const yk_limits *now, char *text, size_t size);

/* Bytes that this process can still allocate: the memory available on the host, or less if a cgroup allows less. */
double yk_memory_available(const char *proc, const char *sys);

#endif
