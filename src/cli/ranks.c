#include "cli/ranks.h"

#include "base/file.h"
#include "base/number.h"
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The rank of a process that executes this program; -1: it executes another one, or has no rank. */
static int rank_of(pid_t pid)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="};
    char own[PATH_MAX] = "", exe[PATH_MAX] = "", path[64], text[65536];
    uint64_t rank;
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    if (readlink("/proc/self/exe", own, sizeof own - 1) <= 0 || readlink(path, exe, sizeof exe - 1) <= 0 ||
        strcmp(own, exe))
        return -1;
    if (!yk_file_text(text, sizeof text, "/proc/%ld/environ", (long)pid))
        return -1;
    for (size_t at = 0; at + 1 < sizeof text && text[at]; at += strlen(text + at) + 1)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const size_t n = strlen(names[i]);
            const char *end =
                strncmp(text + at, names[i], n) == 0 ? yk_digits(text + at + n, INT_MAX, &rank) : NULL;
            if (end && !*end)
                return (int)rank;
        }
    return -1;
}

static bool is_listed(const char *children, pid_t pid)
{
    for (uint64_t child; (children = yk_word_digits(children, 0, &child));)
        if ((pid_t)child == pid)
            return true;
    return false;
}

/* Remembers the rank of a process that executes this program. */
static bool remember(yk_ranks *r, pid_t pid)
{
    for (int i = 0; i < r->n; i++)
        if (r->seen[i].pid == pid)
            return true;
    const int rank = rank_of(pid);
    if (rank < 0 || r->n == YK_RANKS_MAX)
        return false;
    r->seen[r->n].pid = pid;
    r->seen[r->n++].rank = rank;
    return true;
}

bool yk_ranks_missing(yk_ranks *r, pid_t mpirun)
{
    char text[16384];
    int children = 0, ranks = 0;
    yk_file_text(text, sizeof text, "/proc/%ld/task/%ld/children", (long)mpirun, (long)mpirun);
    const char *at = text;
    for (uint64_t pid; (at = yk_word_digits(at, 0, &pid));) {
        children++;
        ranks += remember(r, (pid_t)pid);
    }
    snprintf(r->missing, sizeof r->missing, "a process");
    for (int i = 0; i < r->n; i++)
        if (!is_listed(text, r->seen[i].pid))
            snprintf(r->missing, sizeof r->missing, "rank %d", r->seen[i].rank);
    return ranks > 0 && children < r->wanted;
}
