/* The sum of 61 M floats (alexnet's gradient) over two ranks: yoke's exchange and MPI_Allreduce alternate, best of five.
 *
 *     mpirun -n 2 build/bench_allreduce          {"floats":61100840,"yoke_seconds":0.2,"mpi_seconds":0.2}
 */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "store/exchange.h"
#include <mpi.h>
#include <stdio.h>

enum { FLOATS = 61100840, ROUNDS = 5 };

int main(void)
{
    yk_comm *c;
    yk_exchange *x;
    float *a = yk_alloc(FLOATS, sizeof *a, "a gradient"), *b = yk_alloc(FLOATS, sizeof *b, "a gradient");
    if (!a || !b || yk_comm_start(NULL, NULL, 30.0, &c) || yk_exchange_create(c, FLOATS, 60.0, 60.0, &x)) {
        fprintf(stderr, "%s\n", yk_error());
        return 1;
    }
    double ours = 1e9, theirs = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        yk_round round;
        for (size_t k = 0; k < FLOATS; k++)
            a[k] = b[k] = (float)(k % 1000);
        yk_grad g = {.examples = 1, .group = {{.dense = a}}};
        MPI_Barrier(MPI_COMM_WORLD);
        double began = yk_now();
        if (yk_exchange_sum(x, &g, 0, NULL, &round)) {
            fprintf(stderr, "%s\n", yk_error());
            return 1;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double now = yk_now();
        ours = now - began < ours ? now - began : ours;
        began = now;
        MPI_Allreduce(MPI_IN_PLACE, b, FLOATS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        now = yk_now();
        theirs = now - began < theirs ? now - began : theirs;
        for (size_t k = 0; k < FLOATS; k += 997)
            if (a[k] != b[k]) {
                fprintf(stderr, "element %zu: %g, not %g\n", k, (double)a[k], (double)b[k]);
                return 1;
            }
    }
    if (yk_comm_rank(c) == 0)
        printf("{\"floats\":%d,\"yoke_seconds\":%.4f,\"mpi_seconds\":%.4f}\n", FLOATS, ours, theirs);
    yk_exchange_free(x);
    yk_free(a);
    yk_free(b);
    yk_comm_stop(c, true);
    return 0;
}
