/* What a container lets this process have: CPU and memory limits of cgroups, version 1 and version 2.
 *
 *     yk_limits l;
 *     yk_cgroup_limits("/proc", "/sys", &l);
 *     if (l.cores > 0) ...                           // 0: no limit
 *
 * PROC/self/cgroup names this process's groups; the limit that counts is the smallest on the way from there to the root. In
 * a container the path may be one of the host that is not to be seen here: then the root's files are what there is.
 *
 *     0::/user/run            version 2    SYS/fs/cgroup/user/run/cpu.max         "150000 100000" or "max 100000"
 *                                          SYS/fs/cgroup/user/run/memory.max      bytes or "max"
 *     4:memory:/user/run      version 1    SYS/fs/cgroup/memory/user/run/memory.limit_in_bytes
 *     1:cpu,cpuacct:/         version 1    SYS/fs/cgroup/cpu/cpu.cfs_quota_us, cpu.cfs_period_us
 *
 * Any thread may call it. What cannot be read is no limit.
 */
#ifndef YK_WATCH_CGROUP_H
#define YK_WATCH_CGROUP_H

typedef struct {
    double cores;  /* CPU seconds per second */
    double memory; /* bytes */
} yk_limits;

void yk_cgroup_limits(const char *proc, const char *sys, yk_limits *out);

#endif
