/* If MPI_Init() fails, it does not return: Open MPI calls _exit(), MPICH exit(). mpirun or MPI prints the reason, but not what to
 * do about it. So the program overrides _exit(): a process that ends during MPI_Init() reports an error like any other, and has the
 * exit status of a system error.
 *
 * Example:
 *     yk_mpi_exit_expect(true);
 *     // MPI_Init()
 *     yk_mpi_exit_expect(false);
 *
 * A job of yoke's own launcher needs no override: the launcher reads the messages of MPI (output_filter.h). Any thread may call it.
 */
#ifndef YK_CLI_MPI_EXIT_H
#define YK_CLI_MPI_EXIT_H

#include <stdbool.h>

void yk_mpi_exit_expect(bool on);
/* What _exit() calls; defined in main.c, so that only the program overrides it. */
_Noreturn void yk_mpi_exit(int status);

#endif
