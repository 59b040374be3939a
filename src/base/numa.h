/* NUMA nodes, and binding this process to some of them. A core reads the memory of its own node faster than that of another.
 * Linux allocates memory on the node of the core that first writes to it, so a process that stays on one node has its
 * memory there.
 *
 * Example:
 *     yk_numa numa;
 *     cpu_set_t own;
 *     yk_numa_read("/sys", &numa);            // tests pass their own directories
 *     if (yk_numa_part(&numa, 1, 2, &own))    // process 1 of 2 on a host with 2 nodes: the cores of node 1
 *         sched_setaffinity(0, sizeof own, &own); // also for threads that are created later
 *
 *     SYS/devices/system/node/node0/cpulist       0-7,16-23
 *
 * Any thread may call these. A node whose file cannot be read is skipped.
 */
#ifndef YK_BASE_NUMA_H
#define YK_BASE_NUMA_H

#include <sched.h>
#include <stdbool.h>

enum { YK_NUMA_MAX = 64 };

typedef struct {
    int nodes; /* nodes that have cores; 0: unknown */
    cpu_set_t cores[YK_NUMA_MAX];
} yk_numa;

void yk_numa_read(const char *sys, yk_numa *out);

/* Removes the cores that are not in `allowed`, and the nodes that have none left. Returns whether any were removed. */
bool yk_numa_restrict(yk_numa *numa, const cpu_set_t *allowed);

/* The cores of process number `process` of `processes` on a host: those of one node or, if there are more nodes than
 * processes, those of its share of the nodes. Returns false if there is only one process or one node. */
bool yk_numa_part(const yk_numa *numa, int process, int processes, cpu_set_t *out);

#endif
