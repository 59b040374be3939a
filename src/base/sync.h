/* Threads, mutexes and condition variables: those of pthreads, or those of a simulation (tests/sim.h).
 *
 * Example:
 *     yk_thread t;                               // must not move until it is joined
 *     int e = yk_thread_start(&t, run, context); // like pthread_create(): 0 or an errno value
 *     yk_mutex_lock(&m);
 *     while (!ready)
 *         yk_cond_wait(&changed, &m); // may return early, like pthread_cond_wait()
 *     yk_mutex_unlock(&m);
 *     yk_thread_join(&t);
 *
 * Code that runs in a simulated rank uses these instead of pthreads. In a thread whose clock is simulated (base/clock.h), a
 * new thread is a task of the simulation, and a thread that waits lets the others run. For a real thread this costs a load
 * and a branch. A mutex that is never held across a wait, a sleep, a yield or another lock may be a plain pthread_mutex_t.
 *
 * A thread starts with the file system (base/fs.h) and the log (base/log.h) of the thread that starts it, and with all signals
 * blocked: the main thread receives them.
 */
#ifndef YK_BASE_SYNC_H
#define YK_BASE_SYNC_H

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct yk_thread {
    pthread_t thread;
    void *task; /* the task of a simulation; NULL: a real thread */
    void *(*run)(void *context);
    void *context;
    const yk_fs *fs;
    const yk_log *log;
} yk_thread;

int yk_thread_start(yk_thread *t, void *(*run)(void *context), void *context);
void yk_thread_join(yk_thread *t);
void *yk__thread_main(void *thread); /* for simulations: the start routine of a new thread */

typedef pthread_mutex_t yk_mutex;
typedef pthread_cond_t yk_cond;

void yk_mutex_init(yk_mutex *m);
void yk_mutex_destroy(yk_mutex *m);
void yk_cond_init(yk_cond *c);
void yk_cond_destroy(yk_cond *c);

void yk__mutex_lock_simulated(yk_mutex *m);

static inline void yk_mutex_lock(yk_mutex *m)
{
    if (__builtin_expect(yk_clock_is_real(), 1))
        pthread_mutex_lock(m);
    else
        yk__mutex_lock_simulated(m);
}

static inline bool yk_mutex_trylock(yk_mutex *m) /* false: it is locked */
{
    return pthread_mutex_trylock(m) == 0;
}

static inline void yk_mutex_unlock(yk_mutex *m)
{
    pthread_mutex_unlock(m);
    if (__builtin_expect(!yk_clock_is_real(), 0))
        yk__thread_clock->wake(yk__thread_clock->self, m);
}

void yk_cond_wait(yk_cond *c, yk_mutex *m);
bool yk_cond_wait_until(yk_cond *c, yk_mutex *m, uint64_t ns); /* a time of yk_now_ns(); false: timeout */
void yk_cond_broadcast(yk_cond *c);                            /* wakes all waiting threads */

/* A futex: sleeps while *word is `value`, for at most `ns`; may return early. yk_unpark() wakes all threads that sleep. */
void yk_park(atomic_uint *word, unsigned value, uint64_t ns);
void yk_unpark(atomic_uint *word);

#endif
