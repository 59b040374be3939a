/* What the cgroups of this process let it have: CPU time and memory, version 1 and version 2.
 *
 *     yk_limits l;
 *     yk_cgroup_limits("/proc", "/sys", &l);
 *     if (l.cores > 0) ...                           // 0: no limit
 *
 * PROC/self/cgroup names this process's groups; the limit that counts is the smallest on the way from there to the root. In
 * a container the path may be one of the host that is not to be seen here: then the root's files are what there is.
 *
 *     0::/user/run            version 2    SYS/fs/cgroup/user/run/cpu.max            "150000 100000" or "max 100000"
 *                                          SYS/fs/cgroup/user/run/memory.max         bytes or "max"
 *                                          SYS/fs/cgroup/user/run/memory.current     bytes
 *     4:memory:/user/run      version 1    SYS/fs/cgroup/memory/user/run/memory.limit_in_bytes, memory.usage_in_bytes
 *     1:cpu,cpuacct:/         version 1    SYS/fs/cgroup/cpu/cpu.cfs_quota_us, cpu.cfs_period_us
 *
 * Any thread may call these. What cannot be read is no limit.
 */
#ifndef YK_BASE_CGROUP_H
#define YK_BASE_CGROUP_H

typedef struct {
    double cores;       /* CPU seconds per second; 0: no limit */
    double memory;      /* bytes; 0: no limit */
    double memory_left; /* bytes that may still be taken; HUGE_VAL: no limit */
} yk_limits;

void yk_cgroup_limits(const char *proc, const char *sys, yk_limits *out);

/* Bytes that this process can still take: what the machine has left, or less where a cgroup allows less. */
double yk_memory_available(const char *proc, const char *sys);

#endif
