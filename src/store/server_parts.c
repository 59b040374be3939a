/* What servers send each other: their parts of the parameters, for snapshots and to restore them; and messages of server 0, which
 * request a snapshot, end the job, or list the gradients that a round with a quorum uses. Gradients arrive at each server in
 * a different order: if each server used the first M, a step would use the gradients of different workers on different servers. */
#include "store/server_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A snapshot is of one round, but server 0 may be a round ahead of this server. Likewise, server 0 may have received all leave
 * messages while the last gradients are still in flight to this server. */
static bool snapshot_is_due(const yk_server *s)
{
    if (!s->snapshot.kind)
        return false;
    if (s->snapshot.flags & YK__LAST && !yk__all_have_left(s) &&
        yk_now() - s->snapshot_at < s->plan->leave_timeout)
        return false;
    return s->round >= s->snapshot.round && !s->awaits_squares;
}

/* Array `number` of a server's part, counted over all groups, in a store with all parameters, or with those of this server. Elements have 4 bytes, `width` per key. */
typedef struct {
    uint32_t *data;
    const yk_group *group;
    size_t width, n;     /* n: keys of the server, or floats of a dense group */
    const uint32_t *row; /* [n] their rows on the server; NULL: 0, 1, 2, ... */
} array;

/* False: there are no more. parts_some: only the weights, and of keyed groups only those that evaluations read. */
static bool array_of(const yk_server *s, yk_local *t, int server, int number, array *out)
{
    for (int g = 0; g < yk_local_groups(t); g++) {
        const yk_group *group = &s->config.group[g];
        const yk__key_list *read = s->parts_some && group->keyed ? &s->read[server] : NULL;
        uint32_t *touched = yk_local_raw(t, g).touched;
        const int floats = 1 + (s->parts_some ? 0 : yk_local_raw(t, g).rule->slots),
                  arrays = floats + (touched != NULL);
        if (number < arrays) {
            size_t begin;
            uint32_t *data = number < floats ? (uint32_t *)(void *)yk_copy_array(t, g, number) : touched;
            *out = (array){data, group, group->width,
                           read ? read->n : (size_t)yk_group_piece(group, server, &begin).keys,
                           read ? read->key : NULL};
            return true;
        }
        number -= arrays;
    }
    return false;
}

static void copy(uint32_t *there, uint32_t *here, size_t n, bool here_to_there)
{
    if (n == 1)
        *(here_to_there ? there : here) = *(here_to_there ? here : there);
    else
        memcpy(here_to_there ? there : here, here_to_there ? here : there, 4 * n);
}

/* Copies the part of a server from a store to `part`, or back; NULL: nothing. Returns its number of elements. */
static size_t copy_part(const yk_server *s, yk_local *t, int server, uint32_t *part, bool into_store)
{
    const bool own = t == s->config.table;
    size_t elements = 0;
    array a;
    for (int i = 0; array_of(s, t, server, i, &a); i++, elements += a.n * a.width) {
        const yk_group *g = a.group;
        uint32_t *here = part + elements;
        size_t begin;
        yk_group_piece(g, server, &begin);
        if (!part)
            continue;
        if (!g->keyed || (own && !a.row)) {
            copy(a.data + (own ? 0 : begin), here, a.n * a.width, into_store);
            continue;
        }
        for (size_t k = 0; k < a.n; k++, here += a.width) {
            const uint32_t row = a.row ? a.row[k] : (uint32_t)k;
            const uint64_t at =
                own ? row : yk__key_of(row, (uint32_t)(server - g->first_owner), (uint32_t)g->owners);
            if (own || at < g->keys)
                copy(a.data + at * a.width, here, a.width, into_store);
        }
    }
    return elements;
}

enum { MAX_ARRAYS = YK_MAX_GROUPS * (2 + YK_MAX_SLOTS) };

/* Allocates s->parts for the parts of servers first .. end - 1, one after the other. */
static yk_status allocate_parts(yk_server *s, yk_local *of, int first, int end)
{
    size_t elements = 16;
    for (int k = first; k < end; k++)
        elements += copy_part(s, of, k, NULL, false);
    return YK_RESERVE(s->parts, s->parts_cap, elements, "a snapshot") ||
                   YK_RESERVE(s->parts_op, s->parts_op_cap, (size_t)(end - first) * MAX_ARRAYS, "a snapshot")
               ? YK_ESYSTEM
               : YK_OK;
}

yk_status yk__snapshot_send(yk_server *s)
{
    if (!snapshot_is_due(s))
        return YK_OK;
    yk_local *t = s->config.table;
    yk_op op[MAX_ARRAYS];
    array a;
    int n = 0;
    yk_status st = s->parts_some ? allocate_parts(s, t, s->me, s->me + 1) : YK_OK;
    s->snapshot.kind = 0;
    if (!st && s->parts_some)
        copy_part(s, t, s->me, s->parts, false);
    size_t at = 0;
    for (; !st && array_of(s, t, s->me, n, &a); n++, at += a.n * a.width)
        st = yk_comm_send(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL,
                          s->parts_some ? s->parts + at : a.data, a.n * a.width * 4, &op[n]);
    return st ? st
              : yk_comm_wait(s->config.comm, op, n, s->plan->first_step_timeout, "a snapshot to be received");
}

/* Waits for other servers. Meanwhile, this process sends the queued messages of its workers, and heartbeats while it waits for
 * parts: another server may need them to end its round before it sends its part or receives a message of server 0. */
static yk_status wait_for_servers(yk_server *s, yk_op *op, int n, const char *failed)
{
    const yk_server_hooks *h = &s->hooks;
    const double began = yk_now();
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    yk_status st = YK_OK;
    for (int i = 0; !st && i < n;) {
        bool received, busy;
        if ((st = yk_comm_test(s->config.comm, &op[i], &received)))
            break;
        if (received) {
            i++;
            continue;
        }
        if (h->poll && (st = h->poll(h->context, &busy)))
            break;
        yk_wait_poll(&w);
        if (!yk_wait_is_check_due(&w))
            continue;
        if (h->on_tick &&
            op == s->parts_op) /* otherwise s->control is in use, and on_tick() may send another one */
            st = h->on_tick(h->context);
        if (!st && yk_comm_is_dead(s->config.comm, op[i].peer))
            st = yk_fail(YK_ELOST, "rank %d has died", op[i].peer);
        if (!st && yk_now() - began > s->plan->worker_timeout)
            st = yk_fail(YK_ELOST, "rank %d %s within %.1f s: it has died, is hung, or cannot be reached",
                         op[i].peer, failed, s->plan->worker_timeout);
    }
    return st;
}

/* Sends s->control, as a message of this kind, to all other servers. */
static yk_status send_to_all(yk_server *s, yk__up_kind kind, const char *failed)
{
    yk__control *message = &s->control;
    message->up.magic = YK__MAGIC;
    message->up.kind = (uint16_t)kind;
    message->up.round = s->round;
    const size_t bytes = sizeof message->up + message->up.npush * sizeof *message->peer;
    yk_status st = YK_OK;
    for (int i = 1; !st && i < s->plan->owners; i++) {
        yk_op op;
        st = yk_comm_send(s->config.comm, i, YK__TAG_CTRL, YK_PURPOSE_CONTROL, message, bytes, &op);
        if (!st)
            st = wait_for_servers(s, &op, 1, failed);
    }
    return st;
}

/* All parts are received at the same time: a server that waits until its own was received does not serve. */
yk_status yk_server_snapshot(yk_server *s, yk_local *whole, bool evaluates)
{
    s->parts_some = evaluates && s->read;
    s->control.up = (yk__up){
        .flags = (uint16_t)((yk__all_have_left(s) ? YK__LAST : 0) | (s->parts_some ? YK__EVALUATES : 0))};
    yk_status st = allocate_parts(s, whole, 0, s->plan->owners);
    if (!st)
        st = send_to_all(s, YK__UP_SNAPSHOT, "did not receive the request for a snapshot");
    uint32_t *at = st ? NULL : s->parts + copy_part(s, s->config.table, 0, s->parts, false);
    array a;
    int n = 0;
    for (int k = 1; !st && k < s->plan->owners; k++)
        for (int i = 0; !st && array_of(s, whole, k, i, &a); i++, at += a.n * a.width)
            st = yk_comm_recv(s->config.comm, k, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, at, 4 * a.n * a.width,
                              &s->parts_op[n++]);
    s->parts_steps = yk_local_steps(s->config.table);
    return st ? st : wait_for_servers(s, s->parts_op, n, "sent no snapshot");
}

void yk_server_assemble(const yk_server *s, yk_local *whole)
{
    uint32_t *at = s->parts;
    for (int k = 0; k < s->plan->owners; k++)
        at += copy_part(s, whole, k, at, true);
    yk_local_restore(whole, s->parts_steps);
}

/* ---- before the first step ---- */

/* Allocates the list of keys that evaluations read on a server. */
static yk_status allocate_read(yk_server *s, int server, size_t n)
{
    if (!s->read)
        s->read = yk_arena_alloc(&s->memory, (size_t)s->plan->owners, sizeof *s->read, "the test keys");
    if (!s->read)
        return YK_ESYSTEM;
    s->read[server].key = malloc(4 * n + 4);
    return s->read[server].key ? YK_OK : yk_fail_memory(4 * n, "the test keys");
}

/* Divides the keys that evaluations read among the servers. Not if decay may be pending (touched), which takes more than the
 * weights, or if the same key has different owners in different groups. */
static yk_status divide_keys(yk_server *s, yk_local *whole, const uint32_t *key, size_t n)
{
    const yk_group *by = NULL;
    uint32_t row;
    for (int g = 0; g < s->plan->ngroups; g++) {
        const yk_group *group = &s->config.group[g];
        if (yk_local_raw(whole, g).touched || (by && group->keyed && by->first_owner != group->first_owner))
            return YK_OK;
        by = group->keyed ? group : by;
    }
    yk_status st = YK_OK;
    for (int k = 0; !st && by && key && k < s->plan->owners; k++)
        st = allocate_read(s, k, n);
    for (size_t i = 0; !st && s->read && i < n; i++) {
        yk__key_list *l =
            &s->read[(uint32_t)by->first_owner + yk__server_of(key[i], (uint32_t)by->owners, &row)];
        l->key[l->n++] = row;
    }
    return st;
}

/* Server 0 and server k: sends or receives `bytes` bytes. */
static yk_status move(yk_server *s, int k, void *data, size_t bytes)
{
    return s->chief ? yk_comm_send_wait(s->config.comm, k, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, data, bytes,
                                        s->plan->first_step_timeout, "a server to receive its parameters")
                    : yk_comm_recv_wait(s->config.comm, 0, YK__TAG_SNAPSHOT, YK_PURPOSE_CONTROL, data, bytes,
                                        s->plan->first_step_timeout, "the parameters");
}

/* The part of server k: from s->parts on server 0, to its own table there. */
static yk_status move_part(yk_server *s, int k, uint64_t *steps)
{
    struct {
        uint64_t steps, read, keys; /* read: whether there is a list of keys */
    } head = {*steps, s->read != NULL, s->read ? s->read[k].n : 0};
    size_t at = 0;
    array a;
    yk_status st = move(s, k, &head, sizeof head);
    *steps = head.steps;
    for (int i = 0; !st && array_of(s, s->config.table, k, i, &a); i++, at += a.n * a.width)
        st = move(s, k, s->chief ? s->parts + at : a.data, 4 * a.n * a.width);
    if (st || !head.read || (!s->chief && (st = allocate_read(s, k, head.keys))))
        return st;
    s->read[k].n = (uint32_t)head.keys;
    return move(s, k, s->read[k].key, 4 * head.keys);
}

yk_status yk_server_scatter(yk_server *s, yk_local *whole, const uint32_t *key, size_t n)
{
    uint64_t steps = s->chief ? yk_local_steps(whole) : 0;
    s->parts_some = false;
    yk_status st = s->chief ? divide_keys(s, whole, key, n) : move_part(s, s->me, &steps);
    for (int k = 0; !st && s->chief && k < s->plan->owners; k++) {
        if ((st = allocate_parts(s, whole, k, k + 1)))
            break;
        copy_part(s, whole, k, s->parts, false);
        if (k == s->me)
            copy_part(s, s->config.table, k, s->parts, true);
        else
            st = move_part(s, k, &steps);
    }
    if (!st)
        yk_local_restore(s->config.table, steps);
    return st;
}

/* ---- messages of server 0 ---- */

yk_status yk_server_alive(yk_server *s)
{
    s->control.up = (yk__up){0};
    /* after the end they receive nothing */
    return s->over ? YK_OK : send_to_all(s, YK__UP_ALIVE, "did not receive a heartbeat");
}

yk_status yk_server_end(yk_server *s)
{
    if (!s->chief)
        return YK_OK;
    s->control.up = (yk__up){0};
    s->over = true;
    return send_to_all(s, YK__UP_END, "did not receive the end of the job");
}

yk_status yk__control_round(yk_server *s)
{
    yk__control *message = &s->control;
    message->up = (yk__up){0};
    for (int i = 0; i < s->nclients; i++)
        if (s->client[i].counts)
            message->peer[message->up.npush++] = (uint32_t)s->client[i].peer;
    return send_to_all(s, YK__UP_ROUND, "did not receive the list of workers of a round");
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

yk_status yk__control_receive(yk_server *s, bool *found)
{
    yk__control *message = &s->control;
    int peer;
    size_t bytes;
    if (s->chief || s->decided)
        return YK_OK;
    yk_status st = yk_comm_probe(s->config.comm, 0, YK__TAG_CTRL, found, &peer, &bytes);
    if (st || !*found)
        return st;
    const bool fits = bytes >= sizeof message->up && bytes <= sizeof *message;
    if (fits && (st = yk_comm_recv_wait(s->config.comm, 0, YK__TAG_CTRL, YK_PURPOSE_CONTROL, message, bytes,
                                        s->plan->control_timeout, "a message from server 0")))
        return st;
    if (!fits || bytes != sizeof message->up + message->up.npush * sizeof *message->peer)
        return yk_fail(YK_ELOST, "server 0 sent a malformed message of %zu bytes", bytes);
    s->control_at = yk_now();
    if (message->up.kind == YK__UP_ROUND)
        return handle_round(s);
    if (message->up.kind == YK__UP_ALIVE)
        return YK_OK;
    if (message->up.kind == YK__UP_SNAPSHOT) {
        s->snapshot = message->up;
        s->parts_some = s->read && message->up.flags & YK__EVALUATES;
        s->snapshot_at = yk_now();
    } else {
        s->over = true;
        s->over_at = yk_now();
    }
    return YK_OK;
}
