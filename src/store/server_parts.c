/* The parts of the parameters on servers: snapshots to server 0, and restoring them. */
#include "store/server_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

yk_group yk_server_piece(const yk_group *g, int server, size_t *begin_out)
{
    uint64_t begin;
    yk_group piece = *g;
    piece.keys = yk__piece(g, server, &begin);
    *begin_out = (size_t)begin;
    return piece;
}

/* In synchronous mode, server 0 may be ahead of this one by a round, but a snapshot must be of one round. Likewise, server 0 may
 * have received all leave messages while the last gradients are still in flight to this server. */
static bool snapshot_is_due(const yk_server *s)
{
    if (!s->snapshot_wanted)
        return false;
    if (s->snapshot_last && !yk__all_have_left(s) && yk_now() - s->snapshot_at < s->config.leave_timeout)
        return false;
    return !s->config.synchronous || s->round >= s->snapshot_round;
}

/* Array `number` of a store, counted over all groups; false: there are no more. Elements have 4 bytes, `width` per key. */
typedef struct {
    uint32_t *data;
    int group;
    size_t width;
} array;

static bool array_of(yk_local *t, int number, array *out)
{
    for (int g = 0; g < yk_local_groups(t); g++) {
        uint32_t *touched = yk_local_raw(t, g).touched;
        const int floats = yk_delta_arrays(t, g), arrays = floats + (touched != NULL);
        if (number < arrays) {
            uint32_t *data = number < floats ? (uint32_t *)(void *)yk_delta_array(t, g, number) : touched;
            *out = (array){data, g, yk_local_group_of(t, g)->width};
            return true;
        }
        number -= arrays;
    }
    return false;
}

/* The number of elements of an array on a server. */
static size_t piece_of(const yk_server *s, int server, const array *a)
{
    uint64_t begin;
    return (size_t)yk__piece(&s->config.group[a->group], server, &begin) * a->width;
}

yk_status yk__snapshot_send(yk_server *s)
{
    enum { MAX = YK_MAX_GROUPS * (2 + YK_MAX_SLOTS) };
    if (!snapshot_is_due(s))
        return YK_OK;
    s->snapshot_wanted = false;
    yk_op op[MAX];
    array a;
    int n = 0;
    yk_status st = YK_OK;
    for (; !st && array_of(s->config.table, n, &a); n++)
        st = yk_comm_send(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, a.data,
                          piece_of(s, s->me, &a) * 4, &op[n]);
    return st ? st
              : yk_comm_wait(s->config.comm, op, n, s->config.first_timeout, "a snapshot to be received");
}

/* Copies a server's array into the whole array, or back. */
static void copy_range(const yk_server *s, int server, uint32_t *part, const array *whole, bool into_whole)
{
    const yk_group *g = &s->config.group[whole->group];
    uint64_t begin;
    const uint64_t n = yk__piece(g, server, &begin);
    if (!g->keyed) {
        memcpy(into_whole ? whole->data + begin : part, into_whole ? part : whole->data + begin, n * 4);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t key =
            yk__key_of((uint32_t)i, (uint32_t)(server - g->first_owner), (uint32_t)g->owners);
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

/* Copies the parts of all servers into `whole`, or back. */
static void copy_parts(const yk_server *s, yk_local *whole, bool into_whole)
{
    uint32_t *at = s->parts;
    array a;
    for (int k = 0; k < s->config.servers; k++)
        for (int i = 0; array_of(whole, i, &a); i++) {
            copy_range(s, k, at, &a, into_whole);
            at += piece_of(s, k, &a);
        }
}

/* Copies the part of server 0 itself into s->parts, or back. Returns its number of elements. */
static size_t copy_own(const yk_server *s, bool into_parts)
{
    uint32_t *at = s->parts;
    array a;
    for (int i = 0; array_of(s->config.table, i, &a); i++) {
        const size_t n = piece_of(s, 0, &a);
        memcpy(into_parts ? at : a.data, into_parts ? a.data : at, 4 * n);
        at += n;
    }
    return (size_t)(at - s->parts);
}

/* Allocates the arrays of all servers, one server after the other. */
static yk_status allocate_parts(yk_server *s, yk_local *whole)
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

/* Waits for a request to be sent and for its answer. Meanwhile this process sends heartbeats and checks those of servers. */
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
        yk_wait_poll(&w);
        if (!yk_wait_is_check_due(&w))
            continue;
        if (h->on_tick)
            st = h->on_tick(h->context);
        if (!st && yk_now() - began > s->config.timeout)
            st = yk_fail(YK_ELOST,
                         "rank %d sent no snapshot within %.1f s: it has died, is hung, or cannot be reached",
                         op[1].peer, s->config.timeout);
    }
    return st;
}

yk_status yk_server_snapshot(yk_server *s, yk_local *whole)
{
    yk_status st = allocate_parts(s, whole);
    uint32_t *at = st ? NULL : s->parts + copy_own(s, true);
    array a;
    for (int k = 1; !st && k < s->config.servers; k++) {
        yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_SNAPSHOT, .round = s->round};
        up.flags = yk__all_have_left(s) ? YK__LAST : 0;
        yk_op op[2];
        st = yk_comm_send(s->config.comm, k, YK__TAG_CTRL, YK_PURPOSE_CONTROL, &up, sizeof up, &op[0]);
        for (int i = 0; !st && array_of(whole, i, &a); i++) {
            const size_t n = piece_of(s, k, &a);
            st = yk_comm_recv(s->config.comm, k, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, at, 4 * n, &op[1]);
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
    copy_parts(s, whole, true);
    yk_local_restore(whole, s->parts_steps);
}

static yk_status send_parts(yk_server *s, yk_local *whole, uint64_t steps)
{
    yk_status st = allocate_parts(s, whole);
    if (st)
        return st;
    copy_parts(s, whole, false);
    uint32_t *at = s->parts + copy_own(s, false);
    for (int k = 1; !st && k < s->config.servers; k++) {
        array a;
        st = yk_comm_send_wait(s->config.comm, k, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, &steps, sizeof steps,
                               s->config.first_timeout, "a server to receive its parameters");
        for (int i = 0; !st && array_of(whole, i, &a); i++) {
            const size_t n = piece_of(s, k, &a);
            st = yk_comm_send_wait(s->config.comm, k, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, at, 4 * n,
                                   s->config.first_timeout, "a server to receive its parameters");
            at += n;
        }
    }
    return st;
}

static yk_status receive_part(yk_server *s, uint64_t *steps)
{
    array a;
    yk_status st = yk_comm_recv_wait(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, steps,
                                     sizeof *steps, s->config.first_timeout, "the parameters");
    for (int i = 0; !st && array_of(s->config.table, i, &a); i++)
        st = yk_comm_recv_wait(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, a.data,
                               piece_of(s, s->me, &a) * 4, s->config.first_timeout, "the parameters");
    return st;
}

yk_status yk_server_scatter(yk_server *s, yk_local *whole)
{
    uint64_t steps = s->chief ? yk_local_steps(whole) : 0;
    yk_status st = s->chief ? send_parts(s, whole, steps) : receive_part(s, &steps);
    if (!st)
        yk_local_restore(s->config.table, steps);
    return st;
}
