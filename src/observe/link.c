/* Before the first step: the run directory, and the latency and bandwidth to the chief. */
#include "observe/observe_internal.h"

#include "observe/lines.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Probes: round trips of small messages; then large messages in each direction; on a fast link or on busy hosts, also larger ones,
 * because a rate is accurate only if a large message takes much longer than a small one. */
enum { TAG_PROBE = 14, PROBES = 8, LARGE = 2, MAX_NUMBERS = 10000 };
static const size_t large_bytes = 512 << 10, larger_bytes = 4 << 20;
static const double fast = 2e-3; /* seconds */
static const double much_longer = 4.0;

typedef enum { SMALL, THERE, BACK, LARGER_THERE, LARGER_BACK, PROBE_KINDS } probe_kind;

/* Seconds, of the fastest probe of each kind. */
typedef struct {
    double best[PROBE_KINDS];
    double usual; /* mean of the small ones, except the first, which waits for the peer to be ready */
} probe_times;

/* The bytes of a message in the direction of `there` or its answer. */
static size_t bytes_of(probe_kind kind, bool back, const probe_times *t)
{
    const size_t small = sizeof(uint64_t[2]);
    if (kind == SMALL || back != (kind == BACK || kind == LARGER_BACK))
        return small;
    if (kind == THERE || kind == BACK)
        return large_bytes;
    return t->best[back ? BACK : THERE] - t->best[SMALL] < fmax(fast, much_longer * t->usual) ? larger_bytes
                                                                                              : small;
}

/* Bytes per second of the slower direction. */
static double rate_of(const probe_times *t)
{
    double rate = HUGE_VAL;
    for (int back = 0; back < 2; back++) {
        const bool larger = bytes_of(back ? LARGER_BACK : LARGER_THERE, back, t) == larger_bytes;
        const probe_kind kind = larger ? back ? LARGER_BACK : LARGER_THERE : back ? BACK : THERE;
        rate = fmin(rate, (double)bytes_of(kind, back, t) / fmax(t->best[kind] - t->best[SMALL], 1e-6));
    }
    return rate;
}

/* Sends a probe to `peer`, which says how many bytes to answer; the answer begins with the clock of the peer. */
static yk_status ask(const yk_observer *o, int peer, char *buf, size_t there, size_t back, uint64_t *theirs)
{
    yk_comm *c = o->c.comm;
    const uint64_t wanted = back;
    yk_op op[2];
    memset(op, 0, sizeof op);
    memcpy(buf, &wanted, sizeof wanted);
    char *in = buf + larger_bytes;
    yk_status st = yk_comm_recv(c, peer, TAG_PROBE, YK_PURPOSE_CONTROL, in, back, &op[0]);
    if (!st)
        st = yk_comm_send(c, peer, TAG_PROBE, YK_PURPOSE_CONTROL, buf, there, &op[1]);
    if (!st)
        st = yk_comm_wait(c, op, 2, o->c.plan->startup_timeout, "the reply to a probe");
    memcpy(theirs, in, sizeof *theirs);
    return st;
}

static yk_status reply(const yk_observer *o, int peer, char *buf)
{
    yk_comm *c = o->c.comm;
    uint64_t wanted;
    yk_status st = yk_comm_recv_wait(c, peer, TAG_PROBE, YK_PURPOSE_CONTROL, buf, larger_bytes,
                                     o->c.plan->startup_timeout, "a probe");
    if (st)
        return st;
    const uint64_t now = yk_now_ns();
    memcpy(&wanted, buf, sizeof wanted);
    memcpy(buf, &now, sizeof now);
    if (wanted < sizeof now || wanted > larger_bytes)
        return yk_fail(YK_ELOST, "rank %d sent a malformed probe", peer);
    return yk_comm_send_wait(c, peer, TAG_PROBE, YK_PURPOSE_CONTROL, buf, (size_t)wanted,
                             o->c.plan->startup_timeout, "the reply to a probe");
}

/* Rank `from` measures the round trip of small messages and, if `large`, of large ones to rank `to`, which replies. */
static yk_status probe(yk_observer *o, int from, int to, bool large, char *buf, probe_times *t,
                       int64_t *offset_out)
{
    yk_status st = YK_OK;
    for (int k = 0; k < PROBE_KINDS; k++)
        t->best[k] = HUGE_VAL;
    t->usual = 0.0;
    for (int i = 0; !st && i < PROBES + (large ? (PROBE_KINDS - 1) * LARGE : 0); i++) {
        uint64_t theirs = 0;
        if (o->c.rank != from) {
            st = reply(o, from, buf);
            continue;
        }
        const probe_kind kind = i < PROBES ? SMALL : (probe_kind)(THERE + (i - PROBES) / LARGE);
        const uint64_t began = yk_now_ns();
        st = ask(o, to, buf, bytes_of(kind, false, t), bytes_of(kind, true, t), &theirs);
        const uint64_t ended = yk_now_ns();
        const double took = (double)(ended - began) * 1e-9;
        if (kind == SMALL && took < t->best[SMALL])
            *offset_out = (int64_t)(theirs - began - (ended - began) / 2);
        t->best[kind] = fmin(t->best[kind], took);
        t->usual += kind == SMALL && i ? took / (PROBES - 1) : 0.0;
    }
    return st;
}

/* Where a rank runs. */
typedef struct {
    char host[65];
    uint64_t network; /* yk_network_id() */
} location;

/* Numbers the hosts in the order of their ranks. */
static yk_status number_hosts(yk_observer *o, const location *all)
{
    int hosts = 0;
    o->host_of = yk_alloc((size_t)o->c.ranks, sizeof *o->host_of, "the hosts of the ranks");
    for (int i = 0; o->host_of && i < o->c.ranks; i++) {
        int first = 0; /* the first rank on this host */
        while (strcmp(all[first].host, all[i].host))
            first++;
        o->host_of[i] = first < i ? o->host_of[first] : hosts++;
    }
    o->base.host = o->host_of ? o->host_of[o->c.rank] : -1;
    return o->host_of ? YK_OK : YK_ESYSTEM;
}

/* The first rank on the same host, in the same network namespace. */
static int first_of(const location *all, int rank)
{
    for (int i = 0; all[rank].network && i < rank; i++)
        if (all[i].network == all[rank].network && !strcmp(all[i].host, all[rank].host))
            return i;
    return rank;
}

/* One rank of each host measures: the round trip to the chief (for its clock), the rate of the link to the chief, and the rate of the link to
 * the first other host. If only the links to the chief are slow, the chief's own link is the slow one. */
static yk_status probe_hosts(yk_observer *o, const location *all, char *buf)
{
    yk_status st = YK_OK;
    int other = 0, hosts = 1; /* other: the first rank on another host than the chief */
    probe_times t;
    int64_t ignored;
    for (int i = 1; !st && i < o->c.ranks; i++) {
        const bool first = o->host_of[i] == hosts;
        hosts += first;
        if (!first && first_of(all, i) < i)
            continue;
        if (o->c.rank == 0 || o->c.rank == i)
            st = probe(o, i, 0, first, buf, &t, &o->clock_offset);
        if (!st && o->c.rank == i) {
            o->base.round_trip = t.best[SMALL];
            o->base.link_rate = first ? rate_of(&t) : 0.0;
        }
        if (!st && first && other && (o->c.rank == i || o->c.rank == other))
            st = probe(o, i, other, true, buf, &t, &ignored);
        if (!st && first && other && o->c.rank == i)
            o->base.peer_rate = rate_of(&t);
        other = first && !other ? i : other;
    }
    return st;
}

/* Ranks that have not probed use the clock offset of the first rank of their host. */
static yk_status share_clocks(yk_observer *o, const location *all)
{
    int64_t *offset = yk_alloc((size_t)o->c.ranks, sizeof *offset, "the clocks of the ranks");
    yk_status st = offset ? yk_comm_all_gather(o->c.comm, &o->clock_offset, sizeof *offset, offset,
                                               o->c.plan->startup_timeout, "the probes of the other ranks")
                          : YK_ESYSTEM;
    if (!st)
        o->clock_offset = offset[first_of(all, o->c.rank)];
    yk_free(offset);
    return st;
}

static yk_status probe_all(yk_observer *o)
{
    char *buf = calloc(2, larger_bytes); /* for both directions */
    location *all = yk_alloc((size_t)o->c.ranks, sizeof *all, "the hosts of the ranks");
    yk_status st = !buf ? yk_fail_memory(2 * larger_bytes, "a probe") : all ? YK_OK : YK_ESYSTEM;
    location mine = {.network = yk_network_id("/proc")};
    gethostname(mine.host, sizeof mine.host - 1);
    if (!st)
        st = yk_comm_all_gather(o->c.comm, &mine, sizeof mine, all, o->c.plan->first_step_timeout,
                                "the hosts of the ranks");
    if (!st)
        st = number_hosts(o, all);
    if (!st)
        st = probe_hosts(o, all, buf);
    if (!st)
        st = share_clocks(o, all);
    o->first_of_host = true;
    for (int i = 0; !st && i < o->c.rank; i++)
        o->first_of_host &= all[i].network != all[o->c.rank].network;
    const yk_bytes bytes = yk__bytes_total(o->c.comm);
    o->base.probe_bytes = bytes.sent + bytes.received;
    if (st)
        yk_comm_abandon(o->c.comm);
    yk_free(all);
    free(buf);
    return st;
}

/* A process that joins creates the first free worker-N in the run directory, if it can write there. The last line of
 * metrics.jsonl says how long the run has lasted. */
static yk_status choose_number(yk_observer *o)
{
    char path[PATH_MAX], line[1024];
    if (!yk_sys->real_path(o->c.config->join, path) || !yk_sys->can_write(path))
        return YK_OK;
    yk_lines_last(path, "metrics.jsonl", "seconds", line, sizeof line);
    const double seconds = yk_line_number(line, "seconds");
    o->c.earlier_seconds = seconds > 0.0 ? seconds : 0.0;
    for (o->base.rank = 1; o->base.rank < MAX_NUMBERS; o->base.rank++) {
        if (yk_sys->make_dir(AT_FDCWD, yk_path_of("%s/worker-%d", path, o->base.rank).s, 0777) == 0)
            return yk_path_keep(path, &o->shared_dir);
        if (errno != EEXIST)
            break;
    }
    return YK_OK;
}

yk_status yk__link_open(yk_observer *o)
{
    const yk_observer_config *c = &o->c;
    const double seconds = c->plan->first_step_timeout;
    char path[4096] = "";
    if (o->single_process)
        return YK_OK;
    if (c->joined)
        return choose_number(o);
    if (c->rank == 0 && c->run_dir && !yk_sys->real_path(c->run_dir, path))
        path[0] = '\0';
    yk_status st = yk_comm_broadcast(c->comm, path, sizeof path, seconds, "the run directory");
    if (st)
        return st;
    if (c->rank > 0 && path[0] && yk_sys->can_write(path))
        st = yk_path_keep(path, &o->shared_dir);
    if (!st)
        st = probe_all(o);
    uint64_t zero = yk_now_ns();
    if (!st)
        st = yk_comm_broadcast(c->comm, &zero, sizeof zero, seconds, "the probes of the other ranks");
    o->clock_zero = zero;
    return st;
}
