/* Heartbeats during start-up. Until training begins, every rank sends heartbeats to rank 0, and rank 0 to every rank.
 *
 * So a rank can wait for as long as others load their data, and a rank that has died or hangs is still detected: rank 0
 * notices the missing heartbeats of the others and ends the job; the others notice those of rank 0.
 *
 * They are not counted as traffic: the last ones arrive when nobody receives them any more. */
#include "comm/comm_internal.h"

#include "base/clock.h"
#include <math.h>
#include <stdlib.h>

static const double beat_every = 0.25;

/* Rank 0 exchanges heartbeats with all ranks, the others only with rank 0. */
static bool exchanges(const yk_comm *c, int peer)
{
    return peer != c->rank && (c->rank == 0 || peer == 0);
}

static yk_status handle(yk_comm *c, double now)
{
    for (;;) {
        const yk_transport t = {c->ops, c->self};
        yk_arrival there;
        bool found = false;
        const int code = c->ops->probe(c->self, YK_ANY, YK__TAG_HEARTBEAT, &found, &there);
        if (code)
            return yk__transport_error(c, code, "cannot receive a heartbeat", YK_ANY);
        const yk_status st = found ? yk__receive(&t, &there, YK__TAG_HEARTBEAT, NULL) : YK_OK;
        if (st || !found)
            return st;
        c->last_heartbeat[there.peer] = now;
    }
}

static yk_status send(yk_comm *c)
{
    int code = 0;
    for (int i = 0; !code && i < c->size; i++) {
        bool done = true;
        size_t bytes;
        if (c->heartbeat[i])
            code = c->ops->test(c->self, &c->heartbeat[i], &done, &bytes);
        if (!code && done && exchanges(c, i))
            code = c->ops->send(c->self, i, YK__TAG_HEARTBEAT, c, 0, &c->heartbeat[i]);
    }
    return code ? yk__transport_error(c, code, "cannot send a heartbeat", YK_ANY) : YK_OK;
}

yk_status yk__heartbeat(yk_comm *c, double now)
{
    if (!c->limit || c->size == 1)
        return YK_OK;
    yk_status st = handle(c, now);
    if (!st && now - c->heartbeat_at > beat_every) {
        c->heartbeat_at = now;
        st = send(c);
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
    c->heartbeat = calloc((size_t)c->size, sizeof *c->heartbeat);
    if (!c->last_heartbeat || !c->heartbeat)
        return yk_fail_memory((size_t)c->size * sizeof *c->heartbeat, "the heartbeats");
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

yk_status yk_comm_ready(yk_comm *c)
{
    const bool waits = c->limit > 0.0 && c->size > 1;
    const yk_status st = waits ? yk_comm_barrier(c, c->limit, "all processes to be ready to train") : YK_OK;
    yk_startup_attach(c->startup, NULL);
    c->limit = 0.0;
    c->startup = NULL;
    return st;
}
