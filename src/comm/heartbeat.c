/* Heartbeats during start-up. Until training begins, every rank sends heartbeats to rank 0, and rank 0 to every rank.
 *
 * So a rank can wait for as long as others load their data, and a rank that has died or hangs is still detected: rank 0
 * notices the missing heartbeats of the others and ends the job; the others notice those of rank 0.
 *
 * The last heartbeat is marked. Both sides wait for it, so that every byte sent is received and counted. Rank 0 sends its
 * last one when it has received those of all others: so no rank starts to train while rank 0 still waits for another. */
#include "comm/comm_internal.h"

#include "base/clock.h"
#include "base/wait.h"
#include <math.h>
#include <stdlib.h>

enum { ORDINARY, LAST };
static const double beat_every = 0.25;

/* Rank 0 exchanges heartbeats with all ranks, the others only with rank 0. */
static bool exchanges(const yk_comm *c, int peer)
{
    return peer != c->rank && (c->rank == 0 || peer == 0);
}

static yk_status handle(yk_comm *c, double now)
{
    for (;;) {
        yk_arrival there;
        uint64_t beat;
        bool found = false;
        int code = c->ops->probe(c->self, YK_ANY, YK__TAG_HEARTBEAT, &found, &there);
        if (!code && !found)
            return YK_OK;
        if (!code)
            code = c->ops->recv_matched(c->self, there.peer, YK__TAG_HEARTBEAT, &beat, sizeof beat);
        if (code)
            return yk__transport_error(c, code, "cannot receive a heartbeat", YK_ANY);
        yk_traffic *t = &c->counts.traffic[YK_PURPOSE_CONTROL];
        t->received += sizeof beat;
        t->messages_received++;
        c->last_heartbeat[there.peer] = beat == LAST ? HUGE_VAL : now; /* it sends no more */
        c->final_heartbeats += beat == LAST;
    }
}

static yk_status send(yk_comm *c, uint64_t *beat)
{
    yk_status st = YK_OK;
    for (int i = 0; !st && i < c->size; i++) {
        bool done;
        if (exchanges(c, i) && !(st = yk_comm_test(c, &c->heartbeat_op[i], &done)) && done)
            st = yk_comm_send(c, i, YK__TAG_HEARTBEAT, YK_PURPOSE_CONTROL, beat, sizeof *beat,
                              &c->heartbeat_op[i]);
    }
    return st;
}

yk_status yk__heartbeat(yk_comm *c, double now)
{
    if (!c->limit || c->size == 1)
        return YK_OK;
    yk_status st = handle(c, now);
    if (!st && now - c->heartbeat_at > beat_every) {
        c->heartbeat_at = now;
        st = send(c, &c->beat[ORDINARY]);
    }
    return st;
}

bool yk__missed_heartbeats(const yk_comm *c, int peer, double began, double now)
{
    const int sender = c->rank == 0 ? peer : 0;
    const double margin =
        c->rank == 0 ? 0.0 : 1.0; /* rank 0 can name the missing rank, so it times out first */
    if (c->last_heartbeat && peer < c->size && sender != c->rank)
        began = fmax(began, c->last_heartbeat[sender]);
    return now - began > c->limit + margin;
}

yk_status yk__heartbeats_begin(yk_comm *c, yk_startup *startup)
{
    c->last_heartbeat = calloc((size_t)c->size, sizeof *c->last_heartbeat);
    c->heartbeat_op = calloc((size_t)c->size, sizeof *c->heartbeat_op);
    if (!c->last_heartbeat || !c->heartbeat_op)
        return yk_fail_memory((size_t)c->size * sizeof *c->heartbeat_op, "the heartbeats");
    c->beat[LAST] = LAST;
    c->startup = startup;
    c->limit = yk_startup_timeout(startup);
    c->heartbeat_at = yk_now();
    yk_startup_attach(startup, c);
    return YK_OK;
}

yk_status yk__check_heartbeats(const yk_comm *c, double began, double now)
{
    for (int i = 0; c->limit > 0.0 && i < c->size; i++)
        if (exchanges(c, i) && yk__missed_heartbeats(c, i, began, now))
            return yk_fail(YK_ELOST,
                           "no heartbeat from rank %d for %.0f s: it has died, is hung, or cannot be reached",
                           i, c->limit);
    return YK_OK;
}

static yk_status wait_for_last(yk_comm *c, int wanted)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL);
    const double began = yk_now();
    while (c->final_heartbeats < wanted) {
        const double now = yk_now();
        yk_status st = yk__heartbeat(c, now);
        if (!st)
            st = yk__check_heartbeats(c, began, now);
        if (st)
            return st;
        if (c->final_heartbeats < wanted &&
            yk_startup_stopped(c->startup)) /* else others may train already */
            return yk_fail(YK_EINTERRUPTED, "stopped by a signal before training began");
        yk_wait_poll(&w);
    }
    return YK_OK;
}

/* None will come, and the limit applies to the next wait. */
static void forget_heartbeats(yk_comm *c)
{
    for (int i = 0; i < c->size; i++)
        c->last_heartbeat[i] = 0.0;
}

yk_status yk_comm_ready(yk_comm *c)
{
    const int wanted = c->size == 1 ? 0 : c->rank == 0 ? c->size - 1 : 1;
    if (c->limit == 0.0)
        return YK_OK;
    yk_startup_attach(c->startup, NULL);
    yk_status st = c->rank == 0 ? wait_for_last(c, wanted) : YK_OK;
    c->heartbeat_at = HUGE_VAL; /* no more ordinary heartbeats */
    if (c->rank == 0)
        forget_heartbeats(c);
    if (!st)
        st = yk_comm_wait(c, c->heartbeat_op, c->size, c->limit, "a heartbeat to be received");
    if (!st && !(st = send(c, &c->beat[LAST])))
        st = wait_for_last(c, wanted);
    forget_heartbeats(c);
    if (!st)
        st = yk_comm_wait(c, c->heartbeat_op, c->size, c->limit, "the last startup heartbeat to be received");
    c->limit = 0.0;
    c->startup = NULL;
    return st;
}
