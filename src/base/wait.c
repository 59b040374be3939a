#include "base/wait.h"

#include "base/clock.h"
#include <math.h>
#include <stdatomic.h>

/* The share of a core that this process has. */
static _Atomic double share = 1.0;

/* Naps get longer, up to 1 ms: 2 % of the wait so far. With more than 8 processes per core, they are longer still: a
 * poll takes longer if there are more peers, so processes that only poll would use all the time of the cores. */
static double nap_of(const yk_wait *w)
{
    const double nap = fmax(0.02 * (double)(yk_now_ns() - w->began) * 1e-9, 50e-6),
                 crowd = 1.0 / (8.0 * atomic_load(&share)), longest = 20e-3;
    return crowd <= 1.0 ? fmin(nap, 1e-3) : fmin(nap * crowd * crowd, longest);
}

void yk_wait_set_share(double cores)
{
    atomic_store(&share, cores < 1.0 ? cores : 1.0);
}

yk_wait yk_wait_begin(yk_wait_kind kind, double seconds)
{
    static const struct {
        unsigned spins, yields;
    } turns[] = {[YK_WAIT_THREADS] = {400, 4000},
                 [YK_WAIT_OVERSUBSCRIBED] = {0, 40},
                 [YK_WAIT_RANKS] = {0, 2000},
                 [YK_WAIT_MEMORY] = {200, 20000}};
    const unsigned yields = (unsigned)(atomic_load(&share) * turns[kind].yields);
    const bool processes = kind == YK_WAIT_RANKS || kind == YK_WAIT_MEMORY;
    return (yk_wait){.spins = turns[kind].spins,
                     .yields = yields,
                     .yield_ns = processes ? (uint64_t)yields * 4000 : UINT64_MAX,
                     .seconds = seconds};
}

yk_wait yk_wait_every(double pause, double seconds)
{
    return (yk_wait){.pause = pause, .seconds = seconds};
}

bool yk_wait_spin(yk_wait *w)
{
    const bool real = yk_clock_is_real();
    w->polls += real && w->pause == 0.0 ? 1 : 256; /* a simulated iteration takes longer */
    if (w->polls <= w->spins && real) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
        return true;
    }
    const uint64_t now = yk_now_ns();
    if (!w->began)
        w->began = now;
    if (w->polls - w->spins > w->yields || now - w->began > w->yield_ns || !real)
        return false;
    yk_yield();
    return true;
}

bool yk_wait_expired(const yk_wait *w)
{
    return w->began && (double)(yk_now_ns() - w->began) * 1e-9 > w->seconds;
}

bool yk_wait_poll(yk_wait *w)
{
    if (!yk_wait_spin(w)) {
        if (yk_clock_is_real() || w->pause > 0.0)
            yk_sleep(w->pause > 0.0 ? w->pause : nap_of(w));
        else
            yk_yield(); /* for as long as the simulation chooses */
    }
    return !yk_wait_is_check_due(w) || !yk_wait_expired(w);
}

void yk_sleep(double seconds)
{
    yk_sleep_ns((uint64_t)(seconds * 1e9));
}
