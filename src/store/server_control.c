/* Messages from server 0 to the other servers: they request a snapshot, end the job, or, with a quorum, list the gradients that
 * a round uses. Gradients arrive at each server in a different order: if each server used the first M, a step would use the
 * gradients of different workers on different servers. */
#include "store/server_internal.h"

#include "base/clock.h"

/* Sends s->control to all other servers. */
static yk_status send_to_all(yk_server *s, const char *what)
{
    const yk__control *message = &s->control;
    const size_t bytes = sizeof message->up + message->up.npush * sizeof *message->peer;
    yk_status st = YK_OK;
    for (int i = 1; !st && i < s->config.servers; i++)
        st = yk_comm_send_wait(s->config.comm, i, YK__TAG_CTRL, YK_PURPOSE_CONTROL, message, bytes,
                               s->config.control_timeout, what);
    return st;
}

yk_status yk_server_alive(yk_server *s)
{
    s->control.up = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_ALIVE};
    /* after the end they receive nothing */
    return s->over ? YK_OK : send_to_all(s, "a server to receive a heartbeat");
}

yk_status yk_server_end(yk_server *s)
{
    if (!s->chief)
        return YK_OK;
    s->control.up = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_END};
    s->over = true;
    return send_to_all(s, "a server to receive the end of the job");
}

yk_status yk__control_round(yk_server *s)
{
    yk__control *message = &s->control;
    message->up = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_ROUND, .round = s->round};
    for (int i = 0; i < s->nclients; i++)
        if (s->client[i].counts)
            message->peer[message->up.npush++] = (uint32_t)s->client[i].peer;
    return send_to_all(s, "a server to receive the workers of a round");
}

static yk_status handle_round(yk_server *s)
{
    const yk__control *message = &s->control;
    if (message->up.round != s->round)
        return yk_fail(YK_ELOST, "server 0 closed round %llu, but server %d is in round %llu",
                       (unsigned long long)message->up.round, s->me, (unsigned long long)s->round);
    for (uint32_t k = 0; k < message->up.npush; k++)
        for (int i = 0; i < s->nclients; i++)
            s->client[i].counts |= (uint32_t)s->client[i].peer == message->peer[k];
    s->decided = true;
    return YK_OK;
}

yk_status yk__control_handle(yk_server *s, size_t bytes)
{
    yk__control *message = &s->control;
    if (bytes < sizeof message->up || bytes > sizeof *message)
        return yk_fail(YK_ELOST, "server 0 sent a malformed message of %zu bytes", bytes);
    yk_status st = yk_comm_recv_wait(s->config.comm, 0, YK__TAG_CTRL, YK_PURPOSE_CONTROL, message, bytes,
                                     s->config.control_timeout, "a message from server 0");
    if (st)
        return st;
    if (bytes != sizeof message->up + message->up.npush * sizeof *message->peer)
        return yk_fail(YK_ELOST, "server 0 sent a malformed message of %zu bytes", bytes);
    s->control_at = yk_now();
    if (message->up.kind == YK__UP_ROUND)
        return handle_round(s);
    if (message->up.kind == YK__UP_ALIVE)
        return YK_OK;
    if (message->up.kind == YK__UP_SNAPSHOT) {
        s->snapshot_wanted = true;
        s->snapshot_last = (message->up.flags & YK__LAST) != 0;
        s->parts_some = s->read && message->up.flags & YK__EVALUATES;
        s->snapshot_round = message->up.round;
        s->snapshot_at = yk_now();
    } else {
        s->over = true;
        s->over_at = yk_now();
    }
    return YK_OK;
}
