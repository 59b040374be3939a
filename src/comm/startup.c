#include "comm/startup.h"

#include "base/clock.h"
#include "base/sync.h"
#include "comm/comm_internal.h"
#include <stdlib.h>
#include <string.h>

struct yk_startup {
    yk_startup_config config;
    yk_thread thread;
    yk_mutex lock; /* held while the thread acts; changing the state waits for it */
    yk_cond changed;
    yk_startup_state state;
    double entered;
    yk_comm *comm;
    bool over;
};

static const double poll_every = 0.05, notify_every = 1.0;

/* Whether this process must end now; only in states in which the main thread cannot do it. */
static yk_status must_end(const yk_startup *s, double now)
{
    if (s->state == YK_STARTUP_WAITING)
        return YK_OK;
    if (*s->config.stop)
        return yk_fail(YK_EINTERRUPTED, "stopped by a signal before training began");
    if (s->state == YK_STARTUP_BLOCKED && now - s->entered > s->config.limit)
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
        const bool native = s->comm && s->comm->ops && s->comm->ops->lost;
        yk_status st = must_end(s, now);
        if (st && s->state == YK_STARTUP_BUSY && native)
            yk_comm_abort(s->comm, yk_status_exit(st)); /* the other ranks need not guess why it ends */
        if (!st && s->state == YK_STARTUP_BUSY && s->comm)
            st = yk__heartbeat(s->comm, now);
        if (st && (must_end(s, now) || native) && s->config.end_process)
            s->config.end_process(st); /* with MPI, the main thread reports the error when it sends */
        if (s->state != YK_STARTUP_BLOCKED && s->config.alive && now - notified > notify_every) {
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

void yk_startup_attach(yk_startup *s, yk_comm *comm)
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

bool yk_startup_stopped(const yk_startup *s)
{
    return s && *s->config.stop;
}

double yk_startup_timeout(const yk_startup *s)
{
    return s ? s->config.limit : 0.0;
}
