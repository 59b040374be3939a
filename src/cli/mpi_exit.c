#include "cli/mpi_exit.h"

#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool expected;

static _Noreturn void end(int status)
{
    for (;;)
        syscall(SYS_exit_group, status);
}

/* Does not return if MPI_Init() has failed. */
static void report(void)
{
    char text[400];
    if (!atomic_exchange(&expected, false))
        return;
    snprintf(text, sizeof text,
             "rank %d: MPI could not start (MPI_Init failed); the messages of MPI say why; check the "
             "parameters of mpirun and "
             "those in the environment (OMPI_MCA_...), or let yoke choose them: yoke train --launch %d",
             yk_comm_expected_rank(), yk_comm_expected());
    yk_report_error(text);
    end(yk_status_exit(YK_ESYSTEM));
}

void yk_mpi_exit_expect(bool on)
{
    static atomic_bool registered;
    if (on && !atomic_exchange(&registered, true))
        atexit(report);
    atomic_store(&expected, on);
}

void yk_mpi_exit(int status)
{
    report();
    end(status);
}
