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

/* A large message takes much longer than a small one: a fast link is measured with the larger ones. */
enum { TAG_PROBE = 14, PROBES = 8, LARGE = 3, MOST_NUMBERS = 10000 };
static const size_t large_bytes = 256 << 10, larger_bytes = 4 << 20;
static const double fast = 2e-3; /* seconds */

/* The sizes of the probes that a rank sends: small, large and, on a fast link, larger ones. */
typedef struct {
    double small, large, larger; /* seconds, of the fastest probe of each size */
} probe_times;

static size_t size_of_probe(int i, const probe_times *t)
{
    if (i < PROBES)
        return sizeof(uint64_t);
    return i < PROBES + LARGE ? large_bytes : t->large - t->small < fast ? larger_bytes : sizeof(uint64_t);
}

static double rate_of(const probe_times *t)
{
    return isfinite(t->larger) ? (double)larger_bytes / fmax(t->larger - t->small, 1e-6)
                               : (double)large_bytes / fmax(t->large - t->small, 1e-6);
}

/* Sends one probe to `peer`, and receives its clock. */
static yk_status ask(yk_comm *c, int peer, const char *buf, size_t bytes, uint64_t *theirs)
{
    yk_op op[2];
    memset(op, 0, sizeof op);
    yk_status st = yk_comm_recv(c, peer, TAG_PROBE, YK_FOR_CONTROL, theirs, sizeof *theirs, &op[0]);
    if (!st)
        st = yk_comm_send(c, peer, TAG_PROBE, YK_FOR_CONTROL, buf, bytes, &op[1]);
    return st ? st : yk_comm_wait(c, op, 2, 60.0, "the reply to a probe");
}

static yk_status reply(yk_comm *c, int peer, char *buf)
{
    yk_op op;
    memset(&op, 0, sizeof op);
    yk_status st = yk_comm_recv(c, peer, TAG_PROBE, YK_FOR_CONTROL, buf, larger_bytes, &op);
    if (!st)
        st = yk_comm_wait(c, &op, 1, 60.0, "a probe");
    const uint64_t now = yk_now_ns();
    if (!st)
        st = yk_comm_send(c, peer, TAG_PROBE, YK_FOR_CONTROL, &now, sizeof now, &op);
    return st ? st : yk_comm_wait(c, &op, 1, 60.0, "the reply to a probe");
}

/* Rank `from` measures the round trip of small messages and of large ones to rank `to`, which replies. */
static yk_status probe(yk_observer *o, int from, int to, char *buf, probe_times *t, int64_t *offset_out)
{
    yk_comm *c = o->c.comm;
    yk_status st = YK_OK;
    *t = (probe_times){HUGE_VAL, HUGE_VAL, HUGE_VAL};
    for (int i = 0; !st && i < PROBES + 2 * LARGE; i++) {
        uint64_t theirs = 0;
        if (o->c.rank != from) {
            st = reply(c, from, buf);
            continue;
        }
        const size_t bytes = size_of_probe(i, t);
        const uint64_t began = yk_now_ns();
        st = ask(c, to, buf, bytes, &theirs);
        const uint64_t ended = yk_now_ns();
        const double took = (double)(ended - began) * 1e-9;
        if (bytes == larger_bytes)
            t->larger = fmin(t->larger, took);
        else if (bytes == large_bytes)
            t->large = fmin(t->large, took);
        else if (took < t->small) {
            t->small = took;
            *offset_out = (int64_t)(theirs - began - (ended - began) / 2);
        }
    }
    return st;
}

/* A hash of the name of this host. */
static uint64_t host_hash(void)
{
    char name[256] = "";
    uint64_t hash = 14695981039346656037u;
    gethostname(name, sizeof name - 1);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

/* The first rank on a host other than the chief's; -1: none. */
static int first_elsewhere(const uint64_t *host, int n)
{
    for (int i = 1; i < n; i++)
        if (host[i] != host[0])
            return i;
    return -1;
}

/* Every host measures the link to the chief. Hosts other than the chief's also measure the link to each other: if only the
 * links to the chief are slow, its own link is. One rank per host is enough. */
static yk_status probe_peers(yk_observer *o, char *buf)
{
    const int n = o->c.ranks;
    uint64_t *host = yk_alloc((size_t)n, sizeof *host, "the hosts of the ranks"), mine = host_hash();
    yk_op *op = host ? yk_alloc((size_t)n, sizeof *op, "the hosts of the ranks") : NULL;
    yk_status st = op ? YK_OK : YK_ESYSTEM;
    probe_times t;
    int64_t ignored;
    if (!st && o->c.rank == 0) {
        host[0] = mine;
        for (int i = 1; !st && i < n; i++)
            st = yk_comm_recv(o->c.comm, i, TAG_PROBE, YK_FOR_CONTROL, &host[i], sizeof *host, &op[i]);
        if (!st)
            st = yk_comm_wait(o->c.comm, op, n, 60.0, "the hosts of the ranks");
    } else if (!st) {
        st = yk_comm_send(o->c.comm, 0, TAG_PROBE, YK_FOR_CONTROL, &mine, sizeof mine, &op[0]);
        if (!st)
            st = yk_comm_wait(o->c.comm, op, 1, 60.0, "the hosts of the ranks");
    }
    if (!st)
        st = yk_comm_broadcast(o->c.comm, host, (size_t)n * sizeof *host, 120.0, "the hosts of the ranks");
    const int to = st ? -1 : first_elsewhere(host, n);
    for (int i = to + 1; !st && to >= 0 && i < n; i++) {
        bool first = host[i] != host[0] && host[i] != host[to];
        for (int k = 0; k < i; k++)
            first &= host[k] != host[i];
        if (!first || (o->c.rank != i && o->c.rank != to))
            continue;
        st = probe(o, i, to, buf, &t, &ignored);
        if (!st && o->c.rank == i)
            o->self.peer_rate = rate_of(&t);
    }
    yk_free(op);
    yk_free(host);
    return st;
}

static yk_status probe_all(yk_observer *o)
{
    char *buf = calloc(1, larger_bytes);
    yk_status st = buf ? YK_OK : yk_fail_memory(larger_bytes, "a probe");
    probe_times t;
    for (int i = 1; !st && i < o->c.ranks; i++) {
        if (o->c.rank != 0 && o->c.rank != i)
            continue;
        st = probe(o, i, 0, buf, &t, &o->clock_offset);
        if (!st && o->c.rank == i) {
            o->self.round_trip = t.small;
            o->self.link_rate = rate_of(&t);
        }
    }
    if (!st)
        st = probe_peers(o, buf);
    free(buf);
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
    st = probe_all(o);
    uint64_t zero = yk_now_ns();
    if (!st)
        st = yk_comm_broadcast(c->comm, &zero, sizeof zero, seconds, "the probes of the other ranks");
    o->clock_zero = zero;
    return st ? st : find_first_of_host(o);
}
