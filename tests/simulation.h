/* For tests of simulated jobs (sim.h).
 *
 *     static yk_status rank_main(void *context, int rank) { TRY(...); WANT(x == 3); return YK_OK; }
 *     const yk_sim_result r = simulate(2, seed, rank_main, context);       // all ranks return YK_OK
 *     simulate_as(&config, rank_main, context, &r);                        // ranks[] says how they ended
 */
#ifndef YK_TESTS_SIMULATION_H
#define YK_TESTS_SIMULATION_H

#include "training.h"

#include "sim.h"
#include <time.h>

/* In a rank, where cmocka cannot be called: fails the rank. */
#define WANT(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return yk_fail(YK_EDATA, "line %d: %s", __LINE__, #condition);                                   \
    } while (0)
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        yk_status try_status = (call);                                                                       \
        if (try_status)                                                                                      \
            return try_status;                                                                               \
    } while (0)

static inline double real_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static yk_sim_rank ranks[YK_SIM_MAX_RANKS];
static const volatile sig_atomic_t no_signal;

static inline void simulate_as(const yk_sim_config *config, yk_status (*rank_main)(void *, int),
                               void *context, yk_sim_result *out)
{
    assert_int_equal(yk_sim_run(config, rank_main, context, ranks, out), YK_OK);
}

static inline void assert_returned(int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        if (ranks[i].status || ranks[i].end != YK_SIM_RETURNED)
            fail_msg("seed %llu: rank %d ended as %d: %s", (unsigned long long)seed, i, (int)ranks[i].end,
                     ranks[i].error);
}

/* All ranks return OK. */
static inline yk_sim_result simulate(int n, uint64_t seed, yk_status (*rank_main)(void *, int), void *context)
{
    yk_sim_result r;
    simulate_as(&(yk_sim_config){.ranks = n, .seed = seed}, rank_main, context, &r);
    assert_returned(n, seed);
    return r;
}

#endif
