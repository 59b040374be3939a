/* Before the first step: the run directory, and the latency and bandwidth to the chief. */
#include "observe/observer_internal.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "observe/lines.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_PROBE = 14, PROBES = 8, PROBE_BYTES = 256 << 10, MOST_NUMBERS = 10000 };

/* Rank `other` measures the round trip of small messages and of large ones; rank 0 replies. */
static yk_status probe(yk_observer *o, int other, char *buf)
{
    yk_comm *c = o->c.comm;
    const bool asks = o->c.rank == other;
    const int peer = asks ? 0 : other;
    double best = HUGE_VAL, large = HUGE_VAL;
    int64_t offset = 0;
    yk_status st = YK_OK;
    for (int i = 0; !st && i < PROBES + 2; i++) {
        const size_t bytes = i < PROBES ? sizeof(uint64_t) : PROBE_BYTES;
        yk_op op[2];
        memset(op, 0, sizeof op);
        const uint64_t began = yk_now_ns();
        if (asks) { /* sends `bytes`; receives the clock of rank 0 */
            uint64_t theirs = 0;
            if (!(st = yk_comm_recv(c, peer, TAG_PROBE, YK_FOR_CONTROL, &theirs, sizeof theirs, &op[0])) &&
                !(st = yk_comm_send(c, peer, TAG_PROBE, YK_FOR_CONTROL, buf, bytes, &op[1])))
                st = yk_comm_wait(c, op, 2, 60.0, "the reply to a probe");
            const uint64_t ended = yk_now_ns();
            const double took = (double)(ended - began) * 1e-9;
            if (i < PROBES && took < best) {
                best = took;
                offset = (int64_t)(theirs - began - (ended - began) / 2);
            } else if (i >= PROBES) {
                large = fmin(large, took);
            }
        } else {
            if (!(st = yk_comm_recv(c, peer, TAG_PROBE, YK_FOR_CONTROL, buf, PROBE_BYTES, &op[0])))
                st = yk_comm_wait(c, op, 1, 60.0, "a probe");
            uint64_t now = yk_now_ns();
            if (!st && !(st = yk_comm_send(c, peer, TAG_PROBE, YK_FOR_CONTROL, &now, sizeof now, &op[1])))
                st = yk_comm_wait(c, op + 1, 1, 60.0, "the reply to a probe");
        }
    }
    if (asks && !st) {
        o->self.round_trip = best;
        o->self.link_rate = PROBE_BYTES / fmax(large - best, 1e-6);
        o->clock_offset = offset;
    }
    return st;
}

/* Finds the lowest rank of each network namespace. */
static yk_status find_first_of_host(yk_observer *o)
{
    const size_t n = (size_t)o->c.ranks;
    uint64_t mine = yk_network_id("/proc"), *all = yk_alloc(n, sizeof *all, "the hosts of the ranks");
    if (!all)
        return YK_ESYSTEM;
    yk_status st = yk_comm_gather(o->c.comm, &mine, sizeof mine, all, 120.0, "the hosts of the ranks");
    if (!st)
        st = yk_comm_broadcast(o->c.comm, all, n * sizeof *all, 120.0, "the hosts of the ranks");
    o->first_of_host = true;
    for (int i = 0; i < o->c.rank; i++)
        o->first_of_host &= all[i] != mine;
    yk_free(all);
    return st;
}

/* A process that joins creates the first free worker-N in the run directory, if it can write there. The last line of
 * metrics.jsonl says how long the run has lasted. */
static yk_status take_number(yk_observer *o)
{
    char path[4096], folder[4096 + 32], line[1024];
    if (!realpath(o->c.config->join, path) || access(path, W_OK))
        return YK_OK;
    yk_lines_last(path, "metrics.jsonl", "seconds", line, sizeof line);
    const double seconds = yk_line_number(line, "seconds");
    o->earlier_seconds = seconds > 0.0 ? seconds : 0.0;
    for (o->number = 1; o->number < MOST_NUMBERS; o->number++) {
        snprintf(folder, sizeof folder, "%s/worker-%d", path, o->number);
        if (yk_fs_make_dir(AT_FDCWD, folder, 0777) == 0)
            return (o->shared_dir = strdup(path)) ? YK_OK : yk_fail_memory(strlen(path), "a path");
        if (errno != EEXIST)
            break;
    }
    return YK_OK;
}

yk_status yk__link_open(yk_observer *o)
{
    const yk_observer_config *c = &o->c;
    const double seconds = 120.0;
    char path[4096] = "";
    if (o->alone)
        return YK_OK;
    if (c->joined)
        return take_number(o);
    if (c->rank == 0 && c->run_dir && !realpath(c->run_dir, path))
        path[0] = '\0';
    yk_status st = yk_comm_broadcast(c->comm, path, sizeof path, seconds, "the run directory");
    if (st)
        return st;
    if (c->rank > 0 && path[0] && access(path, W_OK) == 0 && !(o->shared_dir = strdup(path)))
        return yk_fail_memory(strlen(path), "a path");
    char *buf = calloc(1, PROBE_BYTES);
    if (!buf)
        return yk_fail_memory(PROBE_BYTES, "a probe");
    for (int i = 1; !st && i < c->ranks; i++)
        if (c->rank == 0 || c->rank == i)
            st = probe(o, i, buf);
    free(buf);
    uint64_t zero = yk_now_ns();
    if (!st)
        st = yk_comm_broadcast(c->comm, &zero, sizeof zero, seconds, "the probes of the other ranks");
    o->clock_zero = zero;
    return st ? st : find_first_of_host(o);
}
