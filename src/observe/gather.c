/* The end of a job: the chief gathers the reports of all ranks.
 *
 *     rank r    <- alive, alive ... ready | last telemetry ->                <- is a rank lost?
 *     rank 0    evaluates              -> | <- that of all ranks             ->
 *               one list: the ranks (a lost rank by its latest telemetry), then the workers that joined
 */
#include "observe/observe_internal.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_STATE = 12 };

/* Messages of the chief: it is alive; send the last telemetry; the run has ended, without or with a lost rank. */
static const char alive = 0, ready = 1, none_lost = 2, some_lost = 3;

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

void yk__count_traffic(const yk_observer *o, yk_process *p)
{
    const yk_comm_counts *counts = yk_comm_counted(o->c.comm);
    const yk_bytes all = yk__bytes_total(o->c.comm);
    memcpy(p->traffic, counts->traffic, sizeof p->traffic);
    memcpy(p->values_sent, counts->values_sent, sizeof p->values_sent);
    for (int i = 0; o->host_of && i < o->c.ranks; i++)
        if (o->host_of[i] < YK_MAX_HOSTS)
            p->sent_to[o->host_of[i]] += counts->sent_to[i];
    p->bytes_sent = all.sent;
    p->bytes_received = all.received;
    p->cpu_seconds = (double)clock() / CLOCKS_PER_SEC;
}

/* To all ranks that are not lost. A heartbeat is left out if the last one was not received yet. */
static yk_status send_state(yk_observer *o, const char *state)
{
    yk_comm *c = o->c.comm;
    yk_status st = YK_OK;
    if (!o->state_op && !(o->state_op = yk_alloc((size_t)o->c.ranks, sizeof *o->state_op, "the heartbeats")))
        return YK_ESYSTEM;
    for (int i = 1; !st && i < o->c.ranks; i++) {
        yk_op *op = &o->state_op[i];
        bool done = true;
        if (yk__telemetry_peer(o, i)->status.lost)
            continue;
        if (*state == alive)
            st = yk_comm_test(c, op, &done);
        else
            st = yk__telemetry_wait(o, i, op, "a heartbeat to be received");
        if (!st && done)
            st = yk_comm_send(c, i, TAG_STATE, YK_PURPOSE_CONTROL, state, 1, op);
    }
    return st;
}

/* The next state that is not a heartbeat. */
static yk_status receive_state(const yk_observer *o, const char *what, char *out)
{
    yk_status st = YK_OK;
    for (*out = alive; !st && *out == alive;)
        st = yk_comm_recv_wait(o->c.comm, 0, TAG_STATE, YK_PURPOSE_CONTROL, out, 1, o->c.plan->end_timeout,
                               what);
    return st;
}

yk_status yk_observer_alive(yk_observer *o)
{
    return send_state(o, &alive);
}

/* No message after the last telemetry is counted. */
static yk_status gather_on_chief(yk_observer *o, bool *lost, yk_observation *out)
{
    yk__telemetry_end(o);
    yk_status st = send_state(o, &ready);
    if (!st)
        st = yk__telemetry_receive_last(o);
    if (!st)
        st = yk__list_processes(o, out);
    for (int i = 1; !st && i < o->c.ranks; i++)
        *lost |= yk__telemetry_peer(o, i)->status.lost;
    if (!st)
        st = send_state(o, *lost ? &some_lost : &none_lost);
    for (int i = 1; !st && i < o->c.ranks; i++)
        st = yk__telemetry_wait(o, i, &o->state_op[i], "the end of the run to be received");
    return st;
}

yk_status yk_observer_gather(yk_observer *o, bool *lost, yk_observation *out)
{
    char state = none_lost;
    if (o->single_process)
        return YK_OK;
    if (o->c.rank == 0)
        return gather_on_chief(o, lost, out);
    if (o->c.joined) {
        yk__telemetry_send_last(o, o->c.plan->server_timeout);
        return YK_OK;
    }
    yk_status st = receive_state(o, "rank 0 to end the run", &state);
    if (!st)
        st = yk__telemetry_send_last(o, o->c.plan->end_timeout);
    if (!st)
        st = receive_state(o, "the reports of the other ranks", &state);
    *lost = state == some_lost;
    return st;
}
