#include "base/sync.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local const yk_clock *yk__thread_clock;

/* ---- threads ---- */

void *yk__thread_main(void *thread)
{
    const yk_thread *t = thread;
    yk_fs_set(t->fs);
    yk_log_set(t->log);
    return t->run(t->context);
}

int yk_thread_start(yk_thread *t, void *(*run)(void *context), void *context)
{
    const yk_clock *clock = yk__thread_clock;
    sigset_t all, before;
    *t = (yk_thread){.run = run, .context = context, .fs = yk_sys, .log = yk_log_get()};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int e = clock ? clock->start(clock->self, t) : pthread_create(&t->thread, NULL, yk__thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

void yk_thread_join(yk_thread *t)
{
    if (t->task)
        yk__thread_clock->join(yk__thread_clock->self, t->task);
    else
        pthread_join(t->thread, NULL);
}

/* ---- mutexes and conditions ---- */

void yk_mutex_init(yk_mutex *m)
{
    pthread_mutex_init(m, NULL);
}

void yk_mutex_destroy(yk_mutex *m)
{
    pthread_mutex_destroy(m);
}

void yk_cond_init(yk_cond *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void yk_cond_destroy(yk_cond *c)
{
    pthread_cond_destroy(c);
}

static void block(const void *on, uint64_t until)
{
    yk__thread_clock->block(yk__thread_clock->self, on, until);
}

void yk__mutex_lock_simulated(yk_mutex *m)
{
    while (pthread_mutex_trylock(m))
        block(m, UINT64_MAX);
}

/* No wake-up is lost: no other task runs before block(). */
static void wait_simulated(yk_cond *c, yk_mutex *m, uint64_t until)
{
    yk_mutex_unlock(m);
    block(c, until);
    yk_mutex_lock(m);
}

void yk_cond_wait(yk_cond *c, yk_mutex *m)
{
    if (yk_clock_is_real())
        pthread_cond_wait(c, m);
    else
        wait_simulated(c, m, UINT64_MAX);
}

bool yk_cond_wait_until(yk_cond *c, yk_mutex *m, uint64_t ns)
{
    const struct timespec until = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    if (yk_clock_is_real())
        return pthread_cond_timedwait(c, m, &until) == 0;
    wait_simulated(c, m, ns);
    return yk_now_ns() < ns;
}

void yk_cond_broadcast(yk_cond *c)
{
    if (yk_clock_is_real())
        pthread_cond_broadcast(c);
    else
        yk__thread_clock->wake(yk__thread_clock->self, c);
}

/* ---- futexes ---- */

void yk_park(atomic_uint *word, unsigned value, uint64_t ns)
{
    const struct timespec nap = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    if (yk_clock_is_real())
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &nap, NULL, 0);
    else if (atomic_load(word) == value)
        block(word, yk_now_ns() + ns);
}

void yk_unpark(atomic_uint *word)
{
    if (yk_clock_is_real())
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    else
        yk__thread_clock->wake(yk__thread_clock->self, word);
}
