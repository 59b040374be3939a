/* Simulates a job in one process: ranks exchange simulated messages in simulated time, controlled by a seed.
 *
 * Example:
 *     yk_sim_rank ranks[2];
 *     yk_sim_result r;
 *     // rank_main() calls yk_comm_start() as usual: code above transport.h runs unchanged
 *     yk_status st = yk_sim_run(&(yk_sim_config){.ranks = 2, .seed = 7}, rank_main, context, ranks, &r);
 *
 * Each rank is a thread with a clock (base/clock.h) and a transport (comm/transport.h) of its own, and so are the threads that
 * it starts (base/sync.h). Only one of all these tasks runs at a time, the one with the earliest time, until it sleeps, yields,
 * waits for another one or ends. So a run depends on the seed alone, and hours of waiting take no time:
 *
 *     rank 0   compute | wait: yield ...................... | compute         its time: 0 us, then that of the next message
 *     rank 1           | compute, send | sleep 60 s         |                 its time: 0 us, then 60 s
 *
 * - Computing takes no simulated time. Each reading of the clock takes 20 ns, so that a loop that polls the clock ends.
 * - The time of day is also simulated; every run begins on the same date.
 * - yk_yield() advances the time to the next message or to the next event in the rank, by at most 1 us, then 4, 16 ... up to
 *   50 ms. An event: a message is received, or a thread wakes up.
 * - A task that waits for a mutex, a condition or a thread runs again within 20 us after it is woken.
 * - A message takes a random time within the limits below. Messages between two ranks with the same tag stay in order;
 *   others may not, as in MPI.
 * - A send of up to `eager` bytes is done immediately. A longer one is done when it is received, and is read from the sender's
 *   buffer only then.
 * - If all tasks wait for each other, all ranks end as YK_SIM_STUCK.
 * - Ranks can be killed, paused and signaled at given times. Messages to a paused rank arrive, and its clock keeps running.
 * - The threads of a rank end with its main thread. A rank that was killed, or has ended, sends and receives nothing more.
 *   What it sent before arrives, except for what was still in its own buffers.
 *
 * Workers can join: the linker replaces yk_native_listen() and yk_native_connect() (--wrap). A rank cannot open a real socket,
 * which would outlive it.
 *
 * Threads that a rank starts in another way use the real clock and must not send or receive.
 */
#ifndef YK_TESTS_SIM_H
#define YK_TESTS_SIM_H

#include "base/status.h"
#include "comm/transport.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_SIM_MAX_RANKS = 64 };

typedef enum {
    YK_SIM_KILL,  /* like SIGKILL */
    YK_SIM_PAUSE, /* like SIGSTOP, and SIGCONT after some seconds */
    YK_SIM_SIGNAL /* its handler sets a flag */
} yk_sim_action;

typedef struct {
    double at; /* simulated seconds */
    yk_sim_action action;
    int rank;                    /* -1: all ranks of the job */
    double seconds;              /* YK_SIM_PAUSE */
    volatile sig_atomic_t *flag; /* YK_SIM_SIGNAL */
} yk_sim_event;

typedef struct {
    int ranks;
    int joiners; /* processes that are not part of the job: their numbers are `ranks` and above */
    uint64_t seed;
    double min_delay, max_delay; /* latency of a message in seconds; both 0: 10 us to 1 ms */
    size_t eager;                /* bytes; 0: 4096 */
    double max_seconds;          /* simulated; ranks still running then are killed; 0: a day */
    const yk_sim_event *event;   /* [events], in the order of their times; borrowed */
    int events;
    /* Messages, events and ends of ranks as text; NULL: none. */
    void (*trace)(void *context, double seconds, int rank, const char *text);
    /* Called when a rank sends a message, with the context of rank_main(); NULL: none. */
    void (*sends)(void *context, int from, int to, int tag, const void *data, size_t bytes);
} yk_sim_config;

typedef enum { YK_SIM_RETURNED, YK_SIM_KILLED, YK_SIM_ABORTED, YK_SIM_STUCK } yk_sim_end;

typedef struct {
    yk_sim_end end;
    yk_status status; /* if it returned */
    char error[512];
    double seconds; /* simulated, when it ended */
} yk_sim_rank;

typedef struct {
    double seconds; /* simulated, when the last one ended */
    uint64_t messages, bytes;
    bool timed_out;  /* max_seconds */
    uint64_t digest; /* of the schedule: the same for the same seed */
} yk_sim_result;

/* Runs until all ranks and joiners have ended, and fills in `ranks` [config->ranks + joiners] and `out`. An error means
 * that the job could not be run. */
yk_status yk_sim_run(const yk_sim_config *config, yk_status (*rank_main)(void *context, int rank),
                     void *context, yk_sim_rank *ranks, yk_sim_result *out);

double yk_sim_now(void); /* simulated seconds; called by a rank */

void yk_sim_transport(yk_transport *out); /* of the rank that calls it */

/* Called by a rank: ends another rank, or itself, immediately, like SIGKILL. Its memory is leaked. */
void yk_sim_kill(int rank);

#endif
