/* The sum of 61 M floats (alexnet's gradient) over all processes, best of five, in seconds.
 *
 *     build/bench_allreduce 2                             {"floats":61100840,"seconds":0.2,"transport":"shared memory"}
 *     YOKE_SHARED_MEMORY=0 build/bench_allreduce 2        over TCP
 *     mpirun -n 2 build/bench_allreduce                   over MPI
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/number.h"
#include "comm/comm.h"
#include "comm/native.h"
#include "comm/rendezvous.h"
#include "store/exchange.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOATS = 61100840, ROUNDS = 5 };

static yk_status measure(yk_comm *c, float *a, double *best)
{
    yk_exchange *x;
    yk_status st = yk_exchange_create(c, FLOATS, 60.0, 60.0, &x);
    for (int i = 0; !st && i < ROUNDS; i++) {
        yk_round round;
        for (size_t k = 0; k < FLOATS; k++)
            a[k] = (float)(k % 1000);
        yk_grad g = {.examples = 1, .group = {{.dense = a}}};
        st = yk_comm_barrier(c, 60.0, "the gradients");
        const double began = yk_now();
        if (!st)
            st = yk_exchange_sum(x, &g, 0, NULL, &round);
        if (!st)
            st = yk_comm_barrier(c, 60.0, "the sums");
        const double seconds = yk_now() - began;
        *best = seconds < *best ? seconds : *best;
        for (size_t k = 0; !st && k < FLOATS; k += 997)
            if (a[k] != (float)(k % 1000) * (float)yk_comm_size(c))
                st = yk_fail(YK_EDATA, "element %zu is %g", k, (double)a[k]);
    }
    yk_exchange_free(x);
    return st;
}

static int run_rank(void)
{
    yk_comm *c;
    double best = 1e9;
    float *a = yk_alloc(FLOATS, sizeof *a, "a gradient");
    yk_status st = a ? yk_comm_start(NULL, NULL, 30.0, &c) : YK_ESYSTEM;
    if (!st)
        st = measure(c, a, &best);
    if (st)
        fprintf(stderr, "%s\n", yk_error());
    else if (yk_comm_rank(c) == 0)
        printf("{\"floats\":%d,\"seconds\":%.4f,\"transport\":\"%s\"}\n", FLOATS, best, yk_comm_library(c));
    yk_free(a);
    if (!st)
        yk_comm_stop(c, true);
    return st ? 1 : 0;
}

/* Starts `n` processes like the launcher, which uses TCP where memory is not shared. */
static int run_ranks(int n)
{
    const bool tcp = yk_env_number("YOKE_SHARED_MEMORY", 1) == 0;
    char master[64], token[YK_TOKEN_TEXT];
    int failed = 0, status, listener = -1;
    if (tcp && (yk_token_create(token) || yk_socket_listen("127.0.0.1:0", &listener)))
        return 1;
    if (tcp) {
        snprintf(master, sizeof master, "127.0.0.1:%d", yk_socket_port(listener));
        yk_env_set_number("YOKE_LISTEN_FD", listener);
        setenv("YOKE_TOKEN", token, 1);
    } else {
        snprintf(master, sizeof master, "unix:bench-allreduce-%d", (int)getpid());
    }
    setenv("YOKE_MASTER", master, 1);
    yk_env_set_number("YOKE_SIZE", n);
    yk_env_set_number("YOKE_LOCAL_SIZE", n);
    for (int rank = 0; rank < n; rank++) {
        yk_env_set_number("YOKE_RANK", rank);
        yk_env_set_number("YOKE_LOCAL_RANK", rank);
        if (fork() == 0)
            return run_rank();
    }
    while (wait(&status) > 0)
        failed |= status;
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    uint64_t n = 2;
    if (argc > 1 && !yk_digits(argv[1], 64, &n))
        return 2;
    return yk_comm_expected().size ? run_rank() : run_ranks((int)n);
}
