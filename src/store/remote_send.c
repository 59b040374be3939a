/* Messages of a client to servers: each lane leaves them in rings, and the thread that pumps hands them over. */
#include "store/remote_internal.h"

#include "base/wait.h"

/* The thread that pumps: hands over what is queued, in order, and notes what has left. */
static yk_status send_queued(yk_remote *r, yk__ring *ring, int peer)
{
    const unsigned queued = atomic_load_explicit(&ring->queued, memory_order_acquire);
    unsigned done = atomic_load_explicit(&ring->done, memory_order_relaxed);
    yk_status st = YK_OK;
    for (; !st && ring->sent != queued; ring->sent++) {
        struct yk__letter *l = &ring->letter[ring->sent % YK__RING];
        st = yk_comm_send(r->config.comm, peer, YK__TAG_UP, l->purpose, l->data, l->bytes, &l->op);
        if (!st && l->pull_bytes)
            yk_comm_recount(r->config.comm, false, l->purpose, YK_FOR_PULL, l->pull_bytes, 0);
    }
    for (bool gone = true; !st && gone && done != ring->sent;) {
        st = yk_comm_test(r->config.comm, &ring->letter[done % YK__RING].op, &gone);
        if (!st && gone) {
            atomic_store_explicit(&ring->done, ++done, memory_order_release);
            atomic_fetch_sub_explicit(&r->waiting, 1, memory_order_relaxed);
        }
    }
    return st;
}

yk_status yk__remote_send_queued(yk_remote *r)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < r->config.lanes; i++)
        for (int k = 0; !st && k < r->config.servers; k++)
            st = send_queued(r, &r->lane[i].ring[k], r->line[k].peer);
    return st;
}

/* Until a message can be queued, or all have left. */
static yk_status drain(yk_remote *r, yk__ring *ring, unsigned most, int server)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, r->config.timeout);
    while (atomic_load(&ring->queued) - atomic_load_explicit(&ring->done, memory_order_acquire) > most) {
        bool busy;
        yk_status st = r->config.driven ? YK_OK : yk_remote_pump(r, &busy);
        if (st)
            return st;
        if (atomic_load(&r->failed))
            return yk_fail(YK_ESTOP, "another thread stopped the run");
        if (!yk_wait_turn(&w))
            return yk_fail(YK_ELOST, "server %d (rank %d) did not receive a message within %.1f s", server,
                           r->line[server].peer, r->config.timeout);
    }
    return YK_OK;
}

yk_status yk__remote_drain(yk_remote *r, int lane, int server)
{
    return drain(r, &r->lane[lane].ring[server], 0, server);
}

yk_status yk__remote_letter(yk_remote *r, int lane, int server, size_t bytes, yk_purpose purpose,
                            yk__up **out)
{
    yk__ring *ring = &r->lane[lane].ring[server];
    yk_status st = drain(r, ring, YK__RING - 1, server);
    if (st)
        return st;
    struct yk__letter *l = &ring->letter[atomic_load(&ring->queued) % YK__RING];
    char *grown = yk_grow(l->data, &l->cap, bytes + 16, 1, "a message");
    if (!grown)
        return YK_ESYSTEM;
    l->data = grown;
    l->bytes = bytes;
    l->purpose = purpose;
    l->pull_bytes = 0;
    *out = (yk__up *)(void *)grown;
    return YK_OK;
}

yk_status yk__remote_post(yk_remote *r, int lane, int server)
{
    yk__ring *ring = &r->lane[lane].ring[server];
    atomic_fetch_add_explicit(&r->waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->activity, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&ring->queued, 1, memory_order_release);
    return r->config.driven ? YK_OK : send_queued(r, ring, r->line[server].peer);
}
