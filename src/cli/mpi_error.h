/* Why MPI could not start, from MPI's own messages: they have dozens of lines, and the reason is in one or two.
 *
 * Example:
 *     const char text[] = "Framework: pml\nComponent: x\n";
 *     char reason[200];
 *     yk_mpi_error_reason(text, sizeof text - 1, reason, sizeof reason); // "the component 'x' of the framework 'pml' was not found"
 *
 * Any thread may call these.
 */
#ifndef YK_CLI_MPI_ERROR_H
#define YK_CLI_MPI_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a line or a message says that MPI_Init failed. */
bool yk_mpi_error_in_init(const char *text, size_t n);

/* The reason, from all messages of a job; "": no known reason was found. */
void yk_mpi_error_reason(const char *text, size_t n, char *out, size_t size);

#endif
