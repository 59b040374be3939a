#include "comm/startup.h"

#include "base/clock.h"
#include "comm/comm_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double poll_every = 0.05, notify_every = 1.0, beat_every = 0.25;

/* ---- heartbeats ---- */

/* Until training begins, every rank sends heartbeats to rank 0, and rank 0 to every rank.
 *
 * So a rank can wait for as long as others load their data, and a rank that has died or hangs is still detected: rank 0
 * notices the missing heartbeats of the others and ends the job; the others notice those of rank 0.
 *
 * They are not counted as traffic: the last ones arrive when nobody receives them any more. */

/* Rank 0 exchanges heartbeats with all ranks, the others only with rank 0. */
static bool exchanges(const yk_comm *c, int peer)
{
    return peer != c->rank && (c->rank == 0 || peer == 0);
}

static yk_status receive_heartbeats(yk_comm *c, double now)
{
    for (int from;;) {
        const yk_status st = yk__receive_empty(c, YK__RANKS, YK__TAG_HEARTBEAT, &from);
        if (st || from < 0)
            return st;
        c->heartbeat[from].at = now;
    }
}

static yk_status send_heartbeats(yk_comm *c)
{
    const yk_transport *t = &c->transport[YK__RANKS];
    int code = 0;
    for (int i = 0; !code && i < c->size; i++) {
        bool done = true;
        size_t bytes;
        if (c->heartbeat[i].request)
            code = t->ops->test(t->self, &c->heartbeat[i].request, &done, &bytes);
        if (!code && done && exchanges(c, i))
            code = t->ops->send(t->self, i, YK__TAG_HEARTBEAT, c, 0, &c->heartbeat[i].request);
    }
    return code ? yk__transport_error(c, code, "cannot send a heartbeat", YK_ANY) : YK_OK;
}

yk_status yk__heartbeat(yk_comm *c, double now)
{
    if (!c->heartbeat || c->size == 1)
        return YK_OK;
    yk_status st = receive_heartbeats(c, now);
    if (!st && now - c->heartbeat_at > beat_every) {
        c->heartbeat_at = now;
        st = send_heartbeats(c);
    }
    return st;
}

bool yk__missed_heartbeats(const yk_comm *c, int rank, double began, double now)
{
    const double margin =
        c->rank == 0 ? 0.0 : 1.0; /* rank 0 can name the missing rank, so it times out first */
    return exchanges(c, rank) && now - fmax(began, c->heartbeat[rank].at) > c->startup->config.limit + margin;
}

yk_status yk__heartbeats_begin(yk_comm *c, yk_startup *startup)
{
    if (!(c->heartbeat = calloc((size_t)c->size, sizeof *c->heartbeat)))
        return yk_fail_memory((size_t)c->size * sizeof *c->heartbeat, "the heartbeats");
    c->startup = startup;
    c->heartbeat_at = yk_now();
    return YK_OK;
}

yk_status yk_comm_ready(yk_comm *c)
{
    const bool waits = c->startup && c->size > 1;
    const yk_status st =
        waits ? yk_comm_barrier(c, c->startup->config.limit, "all processes to be ready to train") : YK_OK;
    yk__startup_attach(c->startup, NULL);
    free(c->heartbeat);
    c->heartbeat = NULL;
    c->startup = NULL;
    return st;
}

/* ---- the thread ---- */

/* Whether this process must end now; only in states in which the main thread cannot do it. */
static yk_status must_end(const yk_startup *s, double now)
{
    if (s->state == YK_STARTUP_WAITING)
        return YK_OK;
    if (*s->config.stop)
        return yk_fail(YK_EINTERRUPTED, "stopped by a signal before training began");
    const bool in_mpi_init = s->comm && !s->comm->size && s->comm->transport[YK__RANKS].ops->mpi;
    if (in_mpi_init && now - s->entered > s->config.limit)
        return yk_fail(
            YK_ELOST,
            "MPI_Init did not return within %.0f s: another process of the job has died, is hung, or cannot "
            "be reached; for a job that starts slowly, raise --deadline (the limit is 8 times "
            "--deadline, but at least 60 s)",
            s->config.limit);
    return YK_OK;
}

static void *watch(void *context)
{
    yk_startup *s = context;
    double notified = 0.0;
    yk_mutex_lock(&s->lock);
    while (!s->over) {
        const double now = yk_now();
        const bool native = s->comm && s->comm->transport[YK__RANKS].ops->lost;
        yk_status st = must_end(s, now);
        if (st && s->state == YK_STARTUP_BUSY && native)
            yk_comm_abort(s->comm, yk_status_exit(st)); /* the other ranks need not guess why it ends */
        if (!st && s->state == YK_STARTUP_BUSY && s->comm)
            st = yk__heartbeat(s->comm, now);
        if (st && (must_end(s, now) || native) && s->config.end_process)
            s->config.end_process(st); /* with MPI, the main thread reports the error when it sends */
        if (s->config.alive && now - notified > notify_every) {
            notified = now;
            s->config.alive(s->config.context);
        }
        yk_cond_wait_until(&s->changed, &s->lock, yk_now_ns() + (uint64_t)(poll_every * 1e9));
    }
    yk_mutex_unlock(&s->lock);
    return NULL;
}

yk_status yk_startup_begin(const yk_startup_config *config, yk_startup **out)
{
    yk_startup *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "the start-up");
    s->config = *config;
    yk_mutex_init(&s->lock);
    yk_cond_init(&s->changed);
    const int e = yk_thread_start(&s->thread, watch, s);
    if (e) {
        free(s);
        return yk_fail(YK_ESYSTEM, "cannot start the start-up thread: %s", strerror(e));
    }
    *out = s;
    return YK_OK;
}

void yk_startup_enter(yk_startup *s, yk_startup_state state)
{
    if (!s)
        return;
    yk_mutex_lock(&s->lock);
    s->state = state;
    s->entered = yk_now();
    yk_mutex_unlock(&s->lock);
}

void yk__startup_attach(yk_startup *s, yk_comm *comm)
{
    if (!s)
        return;
    yk_mutex_lock(&s->lock);
    s->comm = comm;
    yk_mutex_unlock(&s->lock);
}

void yk_startup_end(yk_startup *s)
{
    if (!s)
        return;
    yk_mutex_lock(&s->lock);
    s->over = true;
    yk_cond_broadcast(&s->changed);
    yk_mutex_unlock(&s->lock);
    yk_thread_join(&s->thread);
    yk_cond_destroy(&s->changed);
    yk_mutex_destroy(&s->lock);
    free(s);
}
