/* Threads, mutexes and conditions of a process: those of pthreads, or those of a simulation (comm/sim.h).
 *
 *     yk_thread t;                               // stays where it is until it is joined
 *     int e = yk_thread_start(&t, run, context); // as pthread_create(): 0 or an errno value
 *     yk_mutex_lock(&m);
 *     while (!ready)
 *         yk_cond_wait(&changed, &m);            // may return early, as pthread_cond_wait()
 *     yk_mutex_unlock(&m);
 *     yk_thread_join(&t);
 *
 * Code that a simulated rank can reach uses these instead of pthreads. In a thread whose clock is simulated (base/clock.h), a new
 * thread is one more task of the simulation, and a thread that has to wait lets the others run. A real thread pays a load and a
 * branch. A mutex that is never held across a wait, a sleep, a yield or another lock may be a plain pthread_mutex_t.
 *
 * A thread starts with the file system (base/fs.h) and the log (base/log.h) of the thread that starts it, and with all signals blocked: they are for
 * the main thread.
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
    void *task; /* of the simulation; NULL: a real thread */
    void *(*run)(void *context);
    void *context;
    const yk_fs *fs;
    const yk_log *log;
} yk_thread;

int yk_thread_start(yk_thread *t, void *(*run)(void *context), void *context);
void yk_thread_join(yk_thread *t);
void *yk__thread_main(void *thread); /* for simulations: what the new thread runs */

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

static inline bool yk_mutex_try(yk_mutex *m) /* false: another thread has it */
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
bool yk_cond_wait_until(yk_cond *c, yk_mutex *m, uint64_t ns); /* a time of yk_now_ns(); false: it is over */
void yk_cond_broadcast(yk_cond *c);                            /* wakes all that wait */

/* Sleeps while *word is `value`, for at most so long; may return early. yk_unpark() wakes all that sleep on it. */
void yk_park(atomic_uint *word, unsigned value, uint64_t ns);
void yk_unpark(atomic_uint *word);

#endif
