/* A server's parameters as a whole: which part of all it has, snapshots to server 0, and the way back. */
#include "store/server_inside.h"

#include <stdlib.h>

void yk_server_piece(size_t nparams, bool sparse, int server, int servers, size_t *begin_out,
                     size_t *size_out)
{
    *begin_out = sparse ? 0 : yk__piece_begin(nparams, server, servers);
    *size_out = yk__piece_size(nparams, sparse, server, servers);
}

/* In synchronous mode server 0 may be the first to have all gradients of its round. Its snapshot must be of one round,
 * not of two. */
static bool snapshot_is_due(const yk_server *s)
{
    return s->snapshot_wanted && (!s->config.in_step || s->round >= s->snapshot_round);
}

yk_status yk__snapshot_out(yk_server *s)
{
    if (!snapshot_is_due(s))
        return YK_OK;
    s->snapshot_wanted = false;
    const yk_store_state state = yk_store_raw(s->config.table);
    const int slots = yk_store_rule(s->config.table)->slots;
    yk_op op[2 + YK_MAX_SLOTS];
    int n = 0;
    yk_status st = yk_comm_send(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, state.live.w,
                                s->piece * sizeof(float), &op[n++]);
    for (int i = 0; !st && i < slots; i++)
        st = yk_comm_send(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, state.live.s[i],
                          s->piece * sizeof(float), &op[n++]);
    if (!st && state.touched)
        st = yk_comm_send(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, state.touched,
                          s->piece * sizeof(uint32_t), &op[n++]);
    return st ? st : yk_comm_wait(s->config.comm, op, n, 60.0, "a snapshot to be taken");
}

/* A server's array into the whole one, or back. Both hold 4-byte elements. */
static void place(const yk_server *s, int server, uint32_t *part, uint32_t *whole, bool into_whole)
{
    const int servers = s->config.servers;
    const size_t n = yk__piece_size(s->config.nparams, s->config.sparse, server, servers);
    const size_t begin = s->config.sparse ? 0 : yk__piece_begin(s->config.nparams, server, servers);
    for (size_t i = 0; i < n; i++) {
        const size_t key =
            s->config.sparse ? yk__key_of((uint32_t)i, (uint32_t)server, (uint32_t)servers) : begin + i;
        if (key >= s->config.nparams)
            continue;
        if (into_whole)
            whole[key] = part[i];
        else
            part[i] = whole[key];
    }
}

/* The arrays of a store, by number; NULL behind the last. */
static uint32_t *array_of(yk_store *t, int number)
{
    const yk_store_state state = yk_store_raw(t);
    const int slots = yk_store_rule(t)->slots;
    if (number == 0)
        return (uint32_t *)(void *)state.live.w;
    if (number <= slots)
        return (uint32_t *)(void *)state.live.s[number - 1];
    return number == slots + 1 ? state.touched : NULL;
}

yk_status yk_server_snapshot(yk_server *s, yk_store *whole)
{
    const size_t bytes =
        yk__piece_size(s->config.nparams, s->config.sparse, s->config.servers - 1, s->config.servers) * 4 +
        64;
    uint32_t *part = s->config.servers > 1 ? malloc(bytes + 4 * s->piece) : NULL;
    yk_status st = YK_OK;
    if (s->config.servers > 1 && !part)
        return yk_fail_memory(bytes, "a snapshot");
    for (int a = 0; array_of(whole, a); a++)
        place(s, 0, array_of(s->config.table, a), array_of(whole, a), true);
    for (int k = 1; !st && k < s->config.servers; k++) {
        yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_SNAPSHOT, .round = s->round};
        yk_op op[2];
        st = yk_comm_send(s->config.comm, k, YK__TAG_UP, YK_FOR_CONTROL, &up, sizeof up, &op[0]);
        for (int a = 0; !st && array_of(whole, a); a++) {
            const size_t n = yk__piece_size(s->config.nparams, s->config.sparse, k, s->config.servers);
            st = yk_comm_recv(s->config.comm, k, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, part, n * 4, &op[1]);
            if (!st)
                st = yk_comm_wait(s->config.comm, op, 2, s->config.silence, "a snapshot");
            if (!st)
                place(s, k, part, array_of(whole, a), true);
        }
    }
    free(part);
    if (!st)
        yk_store_restore(whole, yk_store_steps(s->config.table));
    return st;
}

yk_status yk_server_spread(yk_server *s, yk_store *whole)
{
    yk_status st = YK_OK;
    uint64_t steps = whole ? yk_store_steps(whole) : 0;
    for (int k = 1; k < s->config.servers && s->chief && !st; k++) {
        const size_t n = yk__piece_size(s->config.nparams, s->config.sparse, k, s->config.servers);
        uint32_t *part = malloc(n * 4 + 64);
        yk_op op;
        if (!part)
            return yk_fail_memory(n * 4, "a server's part");
        if (!(st = yk_comm_send(s->config.comm, k, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, &steps, sizeof steps,
                                &op)))
            st = yk_comm_wait(s->config.comm, &op, 1, 60.0, "a server's part");
        for (int a = 0; !st && array_of(whole, a); a++) {
            place(s, k, part, array_of(whole, a), false);
            if (!(st = yk_comm_send(s->config.comm, k, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, part, n * 4, &op)))
                st = yk_comm_wait(s->config.comm, &op, 1, 60.0, "a server's part");
        }
        free(part);
    }
    if (s->chief) {
        for (int a = 0; !st && array_of(whole, a); a++)
            place(s, 0, array_of(s->config.table, a), array_of(whole, a), false);
    } else {
        yk_op op;
        if (!(st = yk_comm_recv(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, &steps, sizeof steps,
                                &op)))
            st = yk_comm_wait(s->config.comm, &op, 1, 120.0, "the parameters");
        for (int a = 0; !st && array_of(s->config.table, a); a++)
            if (!(st = yk_comm_recv(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL,
                                    array_of(s->config.table, a), s->piece * 4, &op)))
                st = yk_comm_wait(s->config.comm, &op, 1, 120.0, "the parameters");
    }
    if (!st)
        yk_store_restore(s->config.table, steps);
    return st;
}
