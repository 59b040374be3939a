/* Watches the processes that mpirun started on this host, until training begins.
 *
 * Example:
 *     yk_ranks r = {.wanted = 4};
 *     pid_t mpirun = 4711;
 *     if (yk_ranks_missing(&r, mpirun))     // now and then: whether there are fewer than 4
 *         printf("%s has died\n", r.missing); // "rank 2"; "a process": it had not started this program yet
 *
 * If workers may be lost, mpirun says nothing when a process dies. During start-up, the others do not notice either: they
 * wait inside MPI until the start-up limit. As soon as one child of mpirun executes this program, all its children count as
 * processes of the job; for a job on other hosts, the children are other programs. Nothing is reported as missing before
 * that, or where the kernel does not list children. Main thread only.
 */
#ifndef YK_CLI_RANKS_H
#define YK_CLI_RANKS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

enum { YK_RANKS_MAX = 1024 };

typedef struct {
    struct {
        pid_t pid;
        int rank;
    } seen[YK_RANKS_MAX];
    int n, wanted;
    char missing[32];
} yk_ranks;

bool yk_ranks_missing(yk_ranks *r, pid_t mpirun);

#endif
