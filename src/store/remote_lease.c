/* The other messages of a client: it joins, leases examples, and leaves. */
#include "store/remote_internal.h"

#include "base/wait.h"
#include <string.h>

/* Between two requests for examples that others may return. There is no limit on how long that takes: a stream may last
 * for hours. But each request has a deadline (yk__remote_wait()), and server 0 declares workers lost. */
static const double retry_seconds = 0.02;

/* ---- joining ---- */

yk_status yk_remote_join(yk_remote *r, uint64_t identity)
{
    const yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_JOIN, .identity = identity};
    yk_status st = YK_OK;
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk_wait w = yk_wait_begin(r->config.wait, r->config.timeout);
        st = yk_comm_send_wait(r->config.comm, r->server[k].peer, YK__TAG_UP, YK_PURPOSE_CONTROL, &up,
                               sizeof up, r->config.timeout, "a server to receive the join request");
        for (r->join_replies = 0; !st && !r->join_replies;) {
            bool busy;
            st = yk_remote_pump(r, &busy);
            if (!st && !r->join_replies && !yk_wait_poll(&w))
                st = yk_fail(YK_ELOST, "server %d did not answer the join request within %.0f s", k,
                             r->config.timeout);
        }
    }
    return st;
}

/* ---- examples ---- */

/* Sends a control message to servers first .. end - 1. */
static yk_status send_control(yk_remote *r, int channel, int first, int end, const yk__up *message)
{
    yk_status st = YK_OK;
    for (int k = first; !st && k < end; k++) {
        yk__up *up;
        if ((st = yk__remote_message(r, channel, k, sizeof *up, YK_PURPOSE_CONTROL, &up)))
            break;
        *up = *message;
        up->magic = YK__MAGIC;
        st = yk__remote_queue(r, channel, k);
    }
    return st;
}

/* Server 0 will answer the next message with a lease for this thread. */
static void expect_lease(yk_remote *r, int thread)
{
    r->leases[thread].ready = false;
    atomic_store(&r->leases[thread].pending, true);
    if (atomic_fetch_add(&r->server[0].pending_answers, 1) == 0 && !r->config.driven)
        r->server[0].last_message = 0.0; /* the timeout starts with the next check */
}

/* `up`: the rest of the request. */
static yk_status request_lease(yk_remote *r, int thread, bool idle, yk__up up)
{
    const int channel = r->config.channels > 1 ? thread : 0;
    up.kind = YK__UP_LEASE;
    up.flags = idle ? YK__IDLE : 0;
    up.thread = (uint32_t)thread;
    yk_mutex_lock(&r->channel[channel].lock); /* the threads of a channel share its messages */
    expect_lease(r, thread);
    yk_status st = send_control(r, channel, 0, 1, &up);
    up.kind = YK__UP_ALIVE; /* tells the other servers that this thread is idle */
    if (!st && idle)
        st = send_control(r, channel, 1, r->config.servers, &up);
    yk_mutex_unlock(&r->channel[channel].lock);
    return st;
}

yk_status yk_remote_lease(yk_remote *r, int thread, yk_lease *out, uint64_t *unit_out)
{
    yk__leases *t = &r->leases[thread];
    yk_status st = YK_OK;
    *out = (yk_lease){0};
    for (;;) {
        if (!atomic_load(&t->pending) && !t->ready)
            st = request_lease(r, thread, t->idle, (yk__up){0});
        if (!st)
            st = yk__remote_wait(r, NULL, &t->pending, "examples");
        if (st)
            return st;
        if (t->lease.begin == t->lease.end)
            break;
        t->ready = false;
        if (t->leased_by < atomic_load(&r->incarnation)) /* it was revoked in the meantime */
            continue;
        *out = t->lease;
        *unit_out = t->unit;
        t->used_by = t->leased_by;
        return request_lease(r, thread, false, (yk__up){0}); /* in advance */
    }
    t->ready = !t->later; /* no examples are left: do not ask again */
    return YK_OK;
}

yk_status yk_remote_stream(yk_remote *r, int thread, const uint64_t last[YK_CURSOR_SIZE], int *number,
                           uint64_t cursor[YK_CURSOR_SIZE])
{
    yk__leases *t = &r->leases[thread];
    yk__up up = {.stream = (uint64_t)(*number + 1), .next_epoch = cursor[0]};
    memcpy(up.last, last, sizeof up.last);
    do { /* again if it was revoked in the meantime */
        yk_status st = request_lease(r, thread, t->idle, up);
        if (!st)
            st = yk__remote_wait(r, NULL, &t->pending, "a stream");
        if (st)
            return st;
        up = (yk__up){0};
    } while (t->stream >= 0 && t->leased_by < atomic_load(&r->incarnation));
    t->used_by = t->leased_by;
    *number = t->stream;
    memcpy(cursor, t->cursor, sizeof t->cursor);
    return YK_OK;
}

bool yk_remote_orphans(const yk_remote *r)
{
    return atomic_load_explicit(&r->orphans, memory_order_relaxed);
}

/* Whether this worker must leave the job that it joined. */
static bool is_leaving(const yk_remote *r)
{
    return r->config.leave && *r->config.leave;
}

/* Whether the channel of these threads has announced batches: it got examples since this step began. */
static bool has_batches(const yk_remote *r, int first)
{
    const int channel = r->config.channels > 1 ? first : 0;
    return yk_remote_added(r, channel) > 0 || yk_remote_outstanding(r, channel) > 0;
}

void yk_remote_out_of_examples(yk_remote *r, int first, int end, yk_step_result *out)
{
    const bool has = has_batches(r, first);
    bool later = false;
    for (int i = first; i < end; i++)
        later |= r->leases[i].later;
    later &= !is_leaving(r);
    *out = (yk_step_result){.pending = has || later, .over = !has && !later};
    if (later && !has)
        yk_sleep(retry_seconds);
}

void yk_remote_end_step(yk_remote *r, int first, int end, bool stop, yk_step_result *out)
{
    out->action = stop ? YK_ACTION_STOP : YK_ACTION_CONTINUE;
    out->over |= stop || is_leaving(r);
    out->pending &= !out->over;
    for (int i = first; i < end; i++)
        r->leases[i].idle =
            out->pending && !has_batches(r, first); /* servers do not wait for an idle thread */
}

bool yk_remote_revoked(const yk_remote *r, int thread)
{
    return atomic_load(&r->incarnation) > r->leases[thread].used_by;
}

yk_status yk_remote_leave(yk_remote *r, int channel)
{
    const yk__up up = {.kind = YK__UP_LEAVE, .thread = (uint32_t)channel};
    const int first = r->config.channels > 1 ? channel : 0,
              end = r->config.channels > 1 ? first + 1 : r->config.threads;
    yk_remote_answer unused;
    yk_status st = YK_OK;
    /* answers may wait for the steps of other workers, and theirs for steps of this one, which takes no more */
    for (int i = first; !st && i < end && yk_remote_outstanding(r, channel) > 0; i++) {
        const yk__up idle = {.kind = YK__UP_ALIVE, .flags = YK__IDLE, .thread = (uint32_t)i};
        st = send_control(r, channel, 0, r->config.servers, &idle);
    }
    while (!st && yk_remote_outstanding(r, channel) > 0)
        st = yk_remote_await(r, channel, &unused);
    /* a lease that was requested in advance is answered, too */
    for (int i = first; !st && i < end; i++)
        st = yk__remote_wait(r, NULL, &r->leases[i].pending, "examples");
    if (!st) {
        expect_lease(r, first);
        st = send_control(r, channel, 0, r->config.servers, &up);
    }
    for (int k = 0; !st && k < r->config.servers; k++)
        st = yk__remote_drain(r, channel, k);
    /* heartbeats of server 0 may be in flight: its answer comes after them */
    return st ? st
              : yk__remote_wait(r, NULL, &r->leases[first].pending, "server 0 to receive the leave message");
}
