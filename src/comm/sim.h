/* A job in one process: ranks on simulated messages and simulated time, decided by a seed.
 *
 *     static yk_status rank_main(void *context, int rank)
 *     {
 *         yk_comm *c;
 *         yk_status st = yk_comm_start(YK_COMM_SINGLE, NULL, &c);      // as ever: comm.h does not know
 *         ...
 *     }
 *     yk_sim_rank ranks[2];
 *     yk_sim_result r;
 *     st = yk_sim_run(&(yk_sim_config){.ranks = 2, .seed = 7}, rank_main, context, ranks, &r);
 *
 * Each rank is a thread with a clock (base/clock.h) and a transport (comm/transport.h) of its own. Only one of them runs at
 * a time, the one whose time is least, until it sleeps, yields or ends. So a run depends on the seed alone, and hours of
 * waiting take no time:
 *
 *     rank 0   compute | wait: yield ...................... | compute         its time: 0 us, then that of the next message
 *     rank 1           | compute, send | sleep 60 s         |                 its time: 0 us, then 60 s
 *
 * - Computing takes no simulated time; each look at the clock takes 20 ns, so that a loop until a time ends.
 * - yk_yield() passes the time until the next message arrives, at most 1 us, then 2, 4 ... up to a millisecond.
 * - A message takes a random time within the limits below. Those of two ranks with the same tag stay in order; nothing else
 *   is in order, as in MPI.
 * - A send of up to `eager` bytes is done at once. A longer one is done when it is received, and is read from the sender's
 *   buffer only then.
 * - A rank that was killed, or has ended, sends and receives nothing more. What it sent before arrives, except for what was
 *   still in its own buffers.
 *
 * Threads that a rank starts by itself keep the real clock and must not send or receive. Nobody can join such a job.
 */
#ifndef YK_COMM_SIM_H
#define YK_COMM_SIM_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_SIM_MOST_RANKS = 64 };

typedef struct {
    int ranks;
    uint64_t seed;
    double least_delay, most_delay; /* seconds of a message; both 0: 10 us to 1 ms */
    size_t eager;                   /* bytes; 0: 4096 */
    double most_seconds;            /* simulated; whoever still runs then is killed; 0: a day */
} yk_sim_config;

typedef enum { YK_SIM_RETURNED, YK_SIM_KILLED, YK_SIM_ABORTED } yk_sim_end;

typedef struct {
    yk_sim_end end;
    yk_status status; /* of one that returned */
    char error[512];
    double seconds; /* simulated, when it ended */
} yk_sim_rank;

typedef struct {
    double seconds; /* simulated, when the last one ended */
    uint64_t messages, bytes;
    uint64_t digest; /* of who ran when: the same for the same seed */
} yk_sim_result;

/* Until all ranks have ended. `ranks` [config->ranks] and `out` are written. Not OK: it could not be run. */
yk_status yk_sim_run(const yk_sim_config *config, yk_status (*rank_main)(void *context, int rank),
                     void *context, yk_sim_rank *ranks, yk_sim_result *out);

/* From within a rank: another one, or itself, ends now, as by SIGKILL: what it allocated is lost. */
void yk_sim_kill(int rank);

#endif
