#include "comm/startup.h"

#include "base/clock.h"
#include "comm/comm_inside.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct yk_startup {
    yk_startup_config config;
    pthread_t thread;
    pthread_mutex_t lock; /* held while the thread acts; changing the state waits for it */
    pthread_cond_t changed;
    yk_startup_state state;
    const char *what;
    double entered;
    yk_comm *comm;
    bool over, watched; /* watched: the thread runs */
};

static const double look_every = 0.05, tell_every = 1.0;

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
            "%s did not return within %.0f s: another process of the job has died, hangs, or cannot "
            "be reached; for a job that starts slowly, raise --deadline (the limit is 8 times that)",
            s->what, s->config.limit);
    return YK_OK;
}

static void sleep_a_little(yk_startup *s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(look_every * 1e9);
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

static void *watch(void *context)
{
    yk_startup *s = context;
    double told = 0.0;
    pthread_mutex_lock(&s->lock);
    while (!s->over) {
        const double now = yk_now();
        const yk_status st = must_end(s, now);
        if (st && s->config.end_process)
            s->config.end_process(st);
        if (s->state == YK_STARTUP_BUSY && s->comm)
            yk__heartbeat(s->comm, now); /* the main thread reports the error when it sends */
        if (s->state != YK_STARTUP_BLOCKED && s->config.alive && now - told > tell_every) {
            told = now;
            s->config.alive(s->config.context);
        }
        sleep_a_little(s);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

yk_status yk_startup_begin(const yk_startup_config *config, yk_startup **out)
{
    yk_startup *s = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "the start-up");
    s->config = *config;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigset_t all, before; /* signals are for the main thread */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    /* With a simulated clock only waits take time, and they check signals and limits themselves. */
    s->watched = yk_clock_is_real();
    const int e = s->watched ? pthread_create(&s->thread, NULL, watch, s) : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e) {
        free(s);
        return yk_fail(YK_ESYSTEM, "cannot start a thread for the start-up: %s", strerror(e));
    }
    *out = s;
    return YK_OK;
}

void yk_startup_enter(yk_startup *s, yk_startup_state state, const char *what)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->state = state;
    s->what = what;
    s->entered = yk_now();
    pthread_mutex_unlock(&s->lock);
}

void yk_startup_attach(yk_startup *s, yk_comm *comm)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->comm = comm;
    pthread_mutex_unlock(&s->lock);
}

void yk_startup_end(yk_startup *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->watched)
        pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool yk_startup_stopped(const yk_startup *s)
{
    return s && *s->config.stop;
}

double yk_startup_limit(const yk_startup *s)
{
    return s ? s->config.limit : 0.0;
}
