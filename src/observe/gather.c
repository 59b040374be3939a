/* The end of a job: the chief gathers the reports of all ranks.
 *
 *     rank r    last telemetry         <- alive, alive ... ready | report ->             <- is a rank lost?
 *     rank 0    receives all of them   evaluates           ->    | <- reports of all     ->
 *               one list: the ranks (a lost rank by its last telemetry), then the workers that joined
 */
#include "observe/observe_internal.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_REPORT = 13, TAG_READY = 12 };

static double timeout_of(const yk_observer *o)
{
    return o->c.rank == 0 ? o->c.plan->report_timeout : o->c.plan->end_timeout;
}

static const char alive = 0, ready = 1, none_lost = 0, some_lost = 1;

yk_bytes yk__bytes_total(const yk_comm *c)
{
    const yk_traffic *traffic = yk_comm_counted(c)->traffic;
    yk_bytes all = {0};
    for (int p = 0; p < YK_PURPOSES; p++) {
        all.sent += traffic[p].sent;
        all.received += traffic[p].received;
    }
    return all;
}

void yk__report_make(const yk_observer *o, const yk_process *self, yk_rank_report *out)
{
    *out = (yk_rank_report){.process = *self,
                            .host = o->host_of ? o->host_of[o->c.rank] : -1,
                            .cpu_seconds = (double)clock() / CLOCKS_PER_SEC};
    memcpy(out->traffic, yk_comm_counted(o->c.comm)->traffic, sizeof out->traffic);
    for (int i = 0; o->host_of && i < o->c.ranks; i++)
        if (o->host_of[i] < YK_MAX_HOSTS)
            out->sent_to[o->host_of[i]] += yk_comm_counted(o->c.comm)->sent_to[i];
    memcpy(out->values_sent, yk_comm_counted(o->c.comm)->values_sent, sizeof out->values_sent);
    const yk_bytes all = yk__bytes_total(o->c.comm);
    out->process.bytes_sent = all.sent;
    out->process.bytes_received = all.received;
}

static bool is_lost(const yk_observer *o, int rank)
{
    const yk__peer *p = yk__telemetry_peer(o, rank);
    return p && p->status.lost;
}

/* Whether the job still succeeds if this rank is lost now, after the last step. */
static bool may_be_lost(const yk_observer *o, int rank)
{
    return o->c.plan->survives_loss && rank >= o->c.plan->servers && yk__telemetry_peer(o, rank);
}

/* The chief waits until a rank has received a message, or is lost and not needed. */
static yk_status wait_for(yk_observer *o, int rank, yk_op *op, const char *what)
{
    const yk_status st = yk_comm_wait(o->c.comm, op, 1, timeout_of(o), what);
    return st == YK_ELOST && may_be_lost(o, rank) ? YK_OK : st;
}

static bool is_received(const yk_rank_report *r)
{
    return r->process.role[0];
}

/* To all ranks that are not lost. A heartbeat is left out if the last one was not received yet. */
static yk_status send_state(yk_observer *o, const char *state)
{
    yk_comm *c = o->c.comm;
    yk_status st = YK_OK;
    if (!o->alive_op && !(o->alive_op = yk_alloc((size_t)o->c.ranks, sizeof *o->alive_op, "the heartbeats")))
        return YK_ESYSTEM;
    for (int i = 1; !st && i < o->c.ranks; i++) {
        yk_op *op = &o->alive_op[i];
        bool done = true;
        if (is_lost(o, i))
            continue;
        st = state == &ready ? wait_for(o, i, op, "a heartbeat to be received") : yk_comm_test(c, op, &done);
        if (!st && done)
            st = yk_comm_send(c, i, TAG_READY, YK_PURPOSE_CONTROL, state, 1, op);
    }
    return st;
}

yk_status yk_observer_alive(yk_observer *o)
{
    return send_state(o, &alive);
}

/* The chief sends `ready`; the others wait for it. After that, no message is counted in the reports. */
static yk_status wait_until_ready(yk_observer *o)
{
    if (o->c.rank == 0) {
        yk_status st = send_state(o, &ready);
        for (int i = 1; !st && i < o->c.ranks; i++)
            st = wait_for(o, i, &o->alive_op[i], "the last heartbeat to be received");
        return st;
    }
    for (char state = alive; state != ready;) {
        const yk_status st = yk_comm_recv_wait(o->c.comm, 0, TAG_READY, YK_PURPOSE_CONTROL, &state, 1,
                                               timeout_of(o), "rank 0 to end the run");
        if (st)
            return st;
    }
    return YK_OK;
}

/* If the rank is lost and the job succeeds without it, there is no report. The receive is posted only after the report has arrived:
 * a rank that was merely stopped for too long must not write into memory that has been freed. */
static yk_status receive_report(yk_observer *o, int rank, yk_rank_report *out)
{
    yk_comm *c = o->c.comm;
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, timeout_of(o));
    for (bool found = !may_be_lost(o, rank); !found;) {
        /* before the probe, which then finds a report that was sent before the rank died */
        const bool dead = yk_comm_is_dead(c, rank);
        int peer;
        size_t bytes;
        const yk_status st = yk_comm_probe(c, rank, TAG_REPORT, &found, &peer, &bytes);
        if (st)
            return st;
        if (found || (!dead && yk_wait_poll(&w)))
            continue;
        yk__telemetry_peer(o, rank)->status.lost = true;
        yk_note("rank %d was lost after the last step: its part of the report is incomplete", rank);
        return YK_OK;
    }
    return yk_comm_recv_wait(c, rank, TAG_REPORT, YK_PURPOSE_CONTROL, out, sizeof *out, timeout_of(o),
                             "the reports of the ranks");
}

/* The chief receives the reports of all ranks that are not lost, then tells them whether a rank is lost. */
static yk_status receive_reports(yk_observer *o, bool *lost, yk_op *op, yk_rank_report *report)
{
    yk_status st = YK_OK;
    for (int i = 1; !st && i < o->c.ranks; i++) {
        if (!is_lost(o, i))
            st = receive_report(o, i, &report[i]);
        *lost |= is_lost(o, i);
    }
    for (int i = 1; !st && i < o->c.ranks; i++)
        if (is_received(&report[i]))
            st = yk_comm_send(o->c.comm, i, TAG_REPORT, YK_PURPOSE_CONTROL, *lost ? &some_lost : &none_lost,
                              1, &op[i]);
    for (int i = 1; !st && i < o->c.ranks; i++)
        st = wait_for(o, i, &op[i], "the replies to the reports");
    return st;
}

/* Adds the last telemetry of lost ranks and, after the ranks, of the workers that joined. */
static void add_telemetry(yk_observer *o, yk_rank_report *report, int *n)
{
    for (int i = 0; i < o->telemetry.npeers; i++) {
        const yk__peer *p = o->telemetry.peer[i];
        if (p->peer >= o->c.ranks) {
            if (p->known)
                report[(*n)++] = p->newest.report;
            continue;
        }
        yk_rank_report *r = &report[p->peer];
        if (!is_received(r) && p->known)
            *r = p->newest.report;
        else
            yk__telemetry_count_last(o, p->peer, &r->process.phases);
        r->process.lost = p->status.lost;
    }
}

static yk_status gather_on_chief(yk_observer *o, const yk_rank_report *mine, bool *lost,
                                 yk_rank_report **reports_out, int *n_out)
{
    const size_t max = (size_t)o->c.ranks + (size_t)o->telemetry.npeers;
    yk_op *op = yk_alloc((size_t)o->c.ranks, sizeof *op, "the reports");
    yk_rank_report *all = op ? yk_alloc(max, sizeof *all, "the reports") : NULL;
    yk_status st = all ? receive_reports(o, lost, op, all) : YK_ESYSTEM;
    yk_free(op);
    if (st) {
        yk_free(all);
        return st;
    }
    all[0] = *mine;
    *n_out = o->c.ranks;
    add_telemetry(o, all, n_out);
    *reports_out = all;
    return YK_OK;
}

yk_status yk_observer_gather(yk_observer *o, bool *lost, yk_rank_report **reports_out, int *n_out)
{
    yk_rank_report mine;
    char flag = (char)*lost;
    *reports_out = NULL;
    *n_out = 0;
    if (o->single_process)
        return YK_OK;
    if (o->c.rank != 0)
        yk__telemetry_send_last(o);
    if (o->c.joined)
        return YK_OK;
    if (o->c.rank == 0)
        yk__telemetry_receive_last(o);
    yk_status st = wait_until_ready(o);
    if (st)
        return st;
    yk__report_make(o, &o->self, &mine);
    if (o->c.rank == 0)
        return gather_on_chief(o, &mine, lost, reports_out, n_out);
    st = yk_comm_send_wait(o->c.comm, 0, TAG_REPORT, YK_PURPOSE_CONTROL, &mine, sizeof mine, timeout_of(o),
                           "the report of this rank to be received");
    if (!st)
        st = yk_comm_recv_wait(o->c.comm, 0, TAG_REPORT, YK_PURPOSE_CONTROL, &flag, 1, timeout_of(o),
                               "the reply to the report of this rank");
    *lost = flag;
    return st;
}

yk_status yk_observer_reports(yk_observer *o, yk_rank_report **reports_out, int *n_out)
{
    int others;
    *reports_out = NULL;
    *n_out = 0;
    if (!o || !o->started || o->single_process)
        return YK_OK;
    yk__telemetry *telemetry = yk__telemetry_copy(o, &others);
    yk_rank_report *all = yk_alloc((size_t)others + 1, sizeof *all, "the reports");
    if (all) {
        yk__report_make(o, &o->self, &all[0]);
        for (int i = 0; i < others; i++)
            all[i + 1] = telemetry[i].report;
        *reports_out = all;
        *n_out = others + 1;
    }
    free(telemetry);
    return all ? YK_OK : YK_ESYSTEM;
}
