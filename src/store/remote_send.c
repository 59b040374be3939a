/* Messages of a client to servers: each channel queues them, and the thread that pumps sends them. */
#include "store/remote_internal.h"

#include "base/wait.h"

/* Sends queued messages in order, and counts those that are done. */
static yk_status send_queued(yk_remote *r, yk__queue *queue, yk__connection *to)
{
    const unsigned queued = atomic_load_explicit(&queue->queued, memory_order_acquire);
    unsigned done = atomic_load_explicit(&queue->done, memory_order_relaxed);
    yk_status st = YK_OK;
    for (; !st && queue->sent != queued; queue->sent++) {
        struct yk__message *l = &queue->message[queue->sent % YK__QUEUE_SIZE];
        st = yk_comm_send(r->config.comm, to->peer, YK__TAG_UP, l->purpose, l->data, l->bytes, &l->op);
        const yk__up *up = (const yk__up *)(const void *)l->data;
        to->left += up->kind == YK__UP_LEAVE;
        if (!st && l->pull_bytes)
            yk_comm_change_purpose(r->config.comm, false, l->purpose, YK_PURPOSE_PULL, l->pull_bytes, 0);
        if (!st && up->npush) {
            const yk__layout layout =
                yk__layout_of(r->config.group, r->config.ngroups, r->config.arrays, (int)(to - r->server));
            yk__count_values(r->config.comm, &layout, l->pushed_keys);
        }
    }
    for (bool gone = true; !st && gone && done != queue->sent;) {
        st = yk_comm_test(r->config.comm, &queue->message[done % YK__QUEUE_SIZE].op, &gone);
        if (!st && gone) {
            atomic_store_explicit(&queue->done, ++done, memory_order_release);
            atomic_fetch_sub_explicit(&r->waiting, 1, memory_order_relaxed);
        }
    }
    return st;
}

yk_status yk__remote_send_queued(yk_remote *r)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < r->config.channels; i++)
        for (int k = 0; !st && k < r->config.servers; k++)
            st = send_queued(r, &r->channel[i].queue[k], &r->server[k]);
    return st;
}

/* Waits until at most `max` messages are queued. */
static yk_status drain(yk_remote *r, yk__queue *queue, unsigned max, int server)
{
    yk_wait w = yk_wait_begin(r->config.wait, r->config.timeout);
    while (atomic_load(&queue->queued) - atomic_load_explicit(&queue->done, memory_order_acquire) > max) {
        bool busy;
        yk_status st = r->config.driven ? YK_OK : yk_remote_pump(r, &busy);
        if (st)
            return st;
        if (atomic_load(&r->failed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (!yk_wait_poll(&w))
            return yk_fail(YK_ELOST, "server %d (rank %d) did not receive a message within %.1f s", server,
                           r->server[server].peer, r->config.timeout);
    }
    return YK_OK;
}

yk_status yk__remote_drain(yk_remote *r, int channel, int server)
{
    return drain(r, &r->channel[channel].queue[server], 0, server);
}

yk_status yk__remote_message(yk_remote *r, int channel, int server, size_t bytes, yk_purpose purpose,
                             yk__up **out)
{
    yk__queue *queue = &r->channel[channel].queue[server];
    yk_status st = drain(r, queue, YK__QUEUE_SIZE - 1, server);
    if (st)
        return st;
    struct yk__message *l = &queue->message[atomic_load(&queue->queued) % YK__QUEUE_SIZE];
    if (YK_RESERVE(l->data, l->cap, bytes + 16, "a message"))
        return YK_ESYSTEM;
    l->bytes = bytes;
    l->purpose = purpose;
    l->pull_bytes = 0;
    *out = (yk__up *)(void *)l->data;
    return YK_OK;
}

yk_status yk__remote_queue(yk_remote *r, int channel, int server)
{
    yk__queue *queue = &r->channel[channel].queue[server];
    atomic_fetch_add_explicit(&r->waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->activity, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&queue->queued, 1, memory_order_release);
    return r->config.driven ? YK_OK : send_queued(r, queue, &r->server[server]);
}
