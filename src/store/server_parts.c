/* A server's parameters as a whole: which part of all it has, snapshots to server 0, and the way back. */
#include "store/server_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

yk_group yk_server_piece(const yk_group *g, int server, int servers, size_t *begin_out)
{
    uint64_t begin;
    yk_group piece = *g;
    piece.keys = yk__piece(g, server, servers, &begin);
    *begin_out = (size_t)begin;
    return piece;
}

/* In synchronous mode server 0 may be the first to have all gradients of its round. Its snapshot must be of one round,
 * not of two. Likewise it may be the first to have heard that all clients leave, and their last gradients are still on the way
 * to this one. */
static bool snapshot_is_due(const yk_server *s)
{
    const double most = yk__leave_seconds < s->config.timeout / 2 ? yk__leave_seconds : s->config.timeout / 2;
    if (!s->snapshot_wanted)
        return false;
    if (s->snapshot_last && !yk__all_have_left(s) && yk_now() - s->snapshot_at < most)
        return false;
    return !s->config.synchronous || s->round >= s->snapshot_round;
}

/* The arrays of a store, by number, over all groups; false behind the last. Elements are of 4 bytes, `width` per key. */
typedef struct {
    uint32_t *data;
    int group;
    size_t width;
} array;

static bool array_of(yk_local *t, int number, array *out)
{
    for (int g = 0; g < yk_local_groups(t); g++) {
        const yk_local_state state = yk_local_raw(t, g);
        const int slots = yk_local_rule(t, g)->slots, arrays = 1 + slots + (state.touched != NULL);
        if (number >= arrays) {
            number -= arrays;
            continue;
        }
        const float *floats = number == 0 ? state.live.w : number <= slots ? state.live.s[number - 1] : NULL;
        *out =
            (array){floats ? (uint32_t *)(void *)floats : state.touched, g, yk_local_group_of(t, g)->width};
        return true;
    }
    return false;
}

/* Elements of an array on a server. */
static size_t piece_of(const yk_server *s, int server, const array *a)
{
    uint64_t begin;
    return (size_t)yk__piece(&s->config.group[a->group], server, s->config.servers, &begin) * a->width;
}

yk_status yk__snapshot_out(yk_server *s)
{
    enum { MOST = YK_MAX_GROUPS * (2 + YK_MAX_SLOTS) };
    if (!snapshot_is_due(s))
        return YK_OK;
    s->snapshot_wanted = false;
    yk_op op[MOST];
    array a;
    int n = 0;
    yk_status st = YK_OK;
    for (; !st && array_of(s->config.table, n, &a); n++)
        st = yk_comm_send(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, a.data,
                          piece_of(s, s->me, &a) * 4, &op[n]);
    return st ? st : yk_comm_wait(s->config.comm, op, n, 60.0, "a snapshot to be received");
}

/* A server's array into the whole one, or back. */
static void copy_range(const yk_server *s, int server, uint32_t *part, const array *whole, bool into_whole)
{
    const yk_group *g = &s->config.group[whole->group];
    const int servers = s->config.servers;
    uint64_t begin;
    const uint64_t n = yk__piece(g, server, servers, &begin);
    if (!g->keyed && whole->width == 1) {
        memcpy(into_whole ? whole->data + begin : part, into_whole ? part : whole->data + begin, n * 4);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t key =
            g->keyed ? yk__key_of((uint32_t)i, (uint32_t)server, (uint32_t)servers) : begin + i;
        uint32_t *there = whole->data + key * whole->width, *here = part + i * whole->width;
        if (key >= g->keys)
            continue;
        if (whole->width == 1 && into_whole)
            *there = *here;
        else if (whole->width == 1)
            *here = *there;
        else
            memcpy(into_whole ? there : here, into_whole ? here : there, whole->width * 4);
    }
}

/* Room for the largest array of a server. */
static uint32_t *make_room(const yk_server *s, yk_local *whole)
{
    size_t most = 16;
    array a;
    for (int i = 0; array_of(whole, i, &a); i++)
        for (int k = 0; k < s->config.servers; k++)
            most = piece_of(s, k, &a) > most ? piece_of(s, k, &a) : most;
    uint32_t *room = malloc(4 * most);
    if (!room)
        yk_fail_memory(4 * most, "a server's part");
    return room;
}

static void place_own(yk_server *s, yk_local *whole)
{
    array mine, all;
    for (int i = 0; array_of(whole, i, &all) && array_of(s->config.table, i, &mine); i++)
        copy_range(s, 0, mine.data, &all, false);
}

/* Room for the arrays of all servers, one server after the other. */
static yk_status room_for_parts(yk_server *s, yk_local *whole)
{
    size_t elements = 0;
    array a;
    for (int k = 0; k < s->config.servers; k++)
        for (int i = 0; array_of(whole, i, &a); i++)
            elements += piece_of(s, k, &a);
    if (!s->parts && !(s->parts = malloc(4 * elements + 64)))
        return yk_fail_memory(4 * elements, "a snapshot");
    return YK_OK;
}

/* The request to a server, and its answer. Meanwhile this process sends heartbeats, and looks for servers that have died. */
static yk_status wait_for_part(yk_server *s, yk_op op[2])
{
    const yk_server_hooks *h = &s->config.hooks;
    const double began = yk_now();
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    yk_status st = YK_OK;
    bool sent = false, received = false;
    while (!st && !(sent && received)) {
        if ((st = yk_comm_test(s->config.comm, &op[0], &sent)) ||
            (st = yk_comm_test(s->config.comm, &op[1], &received)) || (sent && received))
            break;
        yk_wait_turn(&w);
        if (!yk_wait_polls(&w))
            continue;
        if (h->now_and_then)
            st = h->now_and_then(h->context);
        if (!st && yk_now() - began > s->config.timeout)
            st = yk_fail(YK_ELOST,
                         "rank %d sent no snapshot within %.1f s: it has died, hangs, or cannot be reached",
                         op[1].peer, s->config.timeout);
    }
    return st;
}

yk_status yk_server_snapshot(yk_server *s, yk_local *whole)
{
    yk_status st = room_for_parts(s, whole);
    uint32_t *at = s->parts;
    array a;
    for (int i = 0; !st && array_of(s->config.table, i, &a); i++) {
        memcpy(at, a.data, 4 * piece_of(s, 0, &a));
        at += piece_of(s, 0, &a);
    }
    for (int k = 1; !st && k < s->config.servers; k++) {
        yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_SNAPSHOT, .round = s->round};
        up.flags = yk__all_have_left(s) ? YK__LAST : 0;
        yk_op op[2];
        st = yk_comm_send(s->config.comm, k, YK__TAG_CTRL, YK_FOR_CONTROL, &up, sizeof up, &op[0]);
        for (int i = 0; !st && array_of(whole, i, &a); i++) {
            const size_t n = piece_of(s, k, &a);
            st = yk_comm_recv(s->config.comm, k, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, at, 4 * n, &op[1]);
            if (!st)
                st = wait_for_part(s, op);
            at += n;
        }
    }
    s->parts_steps = yk_local_steps(s->config.table);
    return st;
}

void yk_server_assemble(const yk_server *s, yk_local *whole)
{
    uint32_t *at = s->parts;
    array a;
    for (int k = 0; k < s->config.servers; k++)
        for (int i = 0; array_of(whole, i, &a); i++) {
            copy_range(s, k, at, &a, true);
            at += piece_of(s, k, &a);
        }
    yk_local_restore(whole, s->parts_steps);
}

static yk_status give_part(yk_server *s, yk_local *whole, int k, uint32_t *part, uint64_t steps)
{
    yk_op op;
    array a;
    yk_status st =
        yk_comm_send(s->config.comm, k, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, &steps, sizeof steps, &op);
    if (!st)
        st = yk_comm_wait(s->config.comm, &op, 1, 60.0, "a server's part");
    for (int i = 0; !st && array_of(whole, i, &a); i++) {
        copy_range(s, k, part, &a, false);
        if (!(st = yk_comm_send(s->config.comm, k, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, part,
                                piece_of(s, k, &a) * 4, &op)))
            st = yk_comm_wait(s->config.comm, &op, 1, 60.0, "a server's part");
    }
    return st;
}

static yk_status take_part(yk_server *s, uint64_t *steps)
{
    yk_op op;
    array a;
    yk_status st =
        yk_comm_recv(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, steps, sizeof *steps, &op);
    if (!st)
        st = yk_comm_wait(s->config.comm, &op, 1, 120.0, "the parameters");
    for (int i = 0; !st && array_of(s->config.table, i, &a); i++)
        if (!(st = yk_comm_recv(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_FOR_CONTROL, a.data,
                                piece_of(s, s->me, &a) * 4, &op)))
            st = yk_comm_wait(s->config.comm, &op, 1, 120.0, "the parameters");
    return st;
}

yk_status yk_server_scatter(yk_server *s, yk_local *whole)
{
    uint64_t steps = whole ? yk_local_steps(whole) : 0;
    uint32_t *part = s->chief ? make_room(s, whole) : NULL;
    yk_status st = s->chief && !part ? YK_ESYSTEM : YK_OK;
    for (int k = 1; !st && k < s->config.servers && s->chief; k++)
        st = give_part(s, whole, k, part, steps);
    if (!st && s->chief)
        place_own(s, whole);
    else if (!st)
        st = take_part(s, &steps);
    free(part);
    if (!st)
        yk_local_restore(s->config.table, steps);
    return st;
}
