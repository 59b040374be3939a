/* What a rank knows about the other processes of a job without messages: their hosts and process ids, and whether they are
 * alive. */
#include "comm/comm_internal.h"

#include "base/file.h"
#include "base/number.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- which processes are dead: the kernel knows those on this host ---- */

/* Identifies this host together with one of its namespaces. */
static uint64_t host_id(const char *name_space)
{
    char text[256];
    uint64_t hash = 14695981039346656037u;
    yk_file_text(text, 64, "/proc/sys/kernel/random/boot_id");
    size_t n = strlen(text);
    const ssize_t more = readlink(name_space, text + n, sizeof text - n);
    n += more > 0 ? (size_t)more : 0;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

uint64_t yk__host_id(void)
{
    return host_id("/proc/self/ns/pid") ^ 3 * host_id("/proc/self/ns/net");
}

/* YOKE_SHARED_MEMORY=0, or a user who excludes shared memory from the transports of Open MPI. */
bool yk__wants_messages(void)
{
    if (yk_env_number("YOKE_SHARED_MEMORY", 1) == 0)
        return true;
    const char *btl = getenv("OMPI_MCA_btl");
    return btl && *btl != '^' && !strstr(btl, "vader") && !strstr(btl, "sm");
}

yk_status yk__exchange_addresses(yk_comm *c, double timeout)
{
    yk__address mine = {0}; /* 0 where ranks are not processes: the kernel does not know their state */
    if (c->processes) {
        mine = (yk__address){getpid(), host_id("/proc/self/ns/pid"),
                             yk__wants_messages() ? 0 : host_id("/proc/self/ns/net")};
        gethostname(mine.name, sizeof mine.name - 1);
    }
    c->address = calloc((size_t)c->size, sizeof *c->address);
    if (!c->address)
        return yk_fail_memory((size_t)c->size * sizeof *c->address, "the processes");
    return yk_comm_all_gather(c, &mine, sizeof mine, c->address, timeout, "all processes to start");
}

bool yk_comm_on_one_host(const yk_comm *c)
{
    const yk__address *first = c->address;
    bool all = first->network != 0;
    for (int r = 1; r < c->size; r++)
        all &= first[r].host == first->host && first[r].network == first->network;
    return all;
}

int yk_comm_ranks_here(const yk_comm *c, int first, int count)
{
    int n = 0;
    for (int r = first; c->processes && r < first + count; r++)
        n += c->address[r].host == c->address[c->rank].host;
    return n;
}

int64_t yk_comm_pid(const yk_comm *c, int peer)
{
    return c->address[peer].pid;
}

bool yk_comm_is_lost(const yk_comm *c, int peer)
{
    if (peer == c->rank)
        return false;
    const yk_transport t = yk__route(c, &peer);
    return t.ops && t.ops->lost && t.ops->lost(t.self, peer);
}

char yk_comm_state(const yk_comm *c, int peer)
{
    char text[512];
    if (yk_comm_is_lost(c, peer))
        return 'X';
    if (!c->address || peer >= c->size || c->address[peer].host != c->address[c->rank].host ||
        !c->address[peer].pid) /* not exchanged yet */
        return 0;
    if (!yk_file_text(text, sizeof text, "/proc/%lld/stat", (long long)c->address[peer].pid))
        return 'X';
    const char *state = strrchr(text, ')');
    return !state || strlen(state) < 3 ? 0 : state[2] == 'Z' ? 'X' : state[2];
}

/* A transport that detects deaths does so without reading a file for each peer. */
bool yk_comm_is_dead(const yk_comm *c, int peer)
{
    const bool detects = peer >= c->size || c->ops->lost;
    return detects ? yk_comm_is_lost(c, peer) : yk_comm_state(c, peer) == 'X';
}

/* "rank 2" in "rank 2 has died" and in "ranks 1, 2 did not send", but not in "rank 21". */
static bool mentions(const char *text, int rank)
{
    uint64_t named;
    for (const char *at = text; (at = strstr(at, "rank"));) {
        at += at[4] == 's' ? 5 : 4;
        for (const char *next = at; *at == ' ' && (next = yk_digits(at + 1, INT_MAX, &named));) {
            if (named == (uint64_t)rank)
                return true;
            at = next + (*next == ',');
        }
    }
    return false;
}

yk_status yk_comm_explain(const yk_comm *c, yk_status st)
{
    char ranks[512] = "";
    for (int i = 0; st == YK_ELOST && i < c->size && strlen(ranks) < sizeof ranks - 80; i++) {
        const char state = yk_comm_state(c, i), *host = c->address ? c->address[i].name : "";
        const bool lost = state == 'X' || state == 'T', named = mentions(yk_error(), i);
        char *to = ranks + strlen(ranks);
        const size_t size = sizeof ranks - strlen(ranks);
        if (lost && !named)
            snprintf(to, size, "%srank %d is %s", *ranks ? ", " : "", i, state == 'X' ? "dead" : "stopped");
        else if (named && *host && strcmp(host, c->address[c->rank].name) && !strstr(yk_error(), host))
            snprintf(to, size, "%srank %d runs on host %s", *ranks ? ", " : "", i, host);
    }
    return *ranks ? yk_fail(st, "%s (%s)", yk_error(), ranks) : st;
}

yk_status yk__find_dead(const yk_comm *c, const yk_op *op, int n, bool thorough, bool stopped_too,
                        const char *what)
{
    for (int i = 0; i < n; i++) {
        const char state = !op[i].active ? 0
                           : thorough    ? yk_comm_state(c, op[i].peer)
                                         : (char)(yk_comm_is_lost(c, op[i].peer) ? 'X' : 0);
        if (state != 'X' && !(state == 'T' && stopped_too))
            continue;
        const yk_status st = yk_comm_check(c);
        return st ? st
                  : yk_fail(YK_ELOST, "rank %d %s (while waiting for %s)", yk__rank_of(c, op[i].peer),
                            state == 'X' ? "has died" : "was stopped by a signal", what);
    }
    return YK_OK;
}
