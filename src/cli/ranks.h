/* Watches the processes that mpirun started on this host, until training begins.
 *
 * Example:
 *     yk_ranks r = {0};
 *     pid_t mpirun = 4711;
 *     int rank = yk_ranks_lost(&r, mpirun); // now and then; -1: none has ended
 *
 * If workers may be lost, mpirun says nothing when a process dies. During start-up the others cannot notice either: they wait
 * inside MPI for the start-up limit. The processes are the children of mpirun that execute this program. Where the kernel
 * does not list children, and on other hosts, nothing is found. Main thread only.
 */
#ifndef YK_CLI_RANKS_H
#define YK_CLI_RANKS_H

#include <sys/types.h>

enum { YK_RANKS_MOST = 1024 };

typedef struct {
    struct {
        pid_t pid;
        int rank;
    } seen[YK_RANKS_MOST];
    int n;
} yk_ranks;

int yk_ranks_lost(yk_ranks *r, pid_t mpirun);

#endif
