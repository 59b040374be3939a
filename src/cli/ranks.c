#include "cli/ranks.h"

#include "base/file.h"
#include "base/number.h"
#include <limits.h>
#include <stdbool.h>
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
    for (char *end; *children; children = end) {
        const long number = strtol(children, &end, 10);
        if (end == children)
            break;
        if (number == pid)
            return true;
    }
    return false;
}

static bool is_known(const yk_ranks *r, pid_t pid)
{
    for (int i = 0; i < r->n; i++)
        if (r->seen[i].pid == pid)
            return true;
    return false;
}

int yk_ranks_lost(yk_ranks *r, pid_t mpirun)
{
    char children[16384];
    yk_file_text(children, sizeof children, "/proc/%ld/task/%ld/children", (long)mpirun, (long)mpirun);
    for (int i = 0; i < r->n; i++)
        if (!is_listed(children, r->seen[i].pid))
            return r->seen[i].rank;
    char *end;
    for (const char *at = children; *at; at = end) {
        const pid_t pid = (pid_t)strtol(at, &end, 10);
        if (end == at)
            break;
        const int rank = is_known(r, pid) || r->n == YK_RANKS_MOST ? -1 : rank_of(pid);
        if (rank < 0)
            continue;
        r->seen[r->n].pid = pid;
        r->seen[r->n++].rank = rank;
    }
    return -1;
}
