/* Keeping a process to this machine: with YK_LOOPBACK in the environment, a socket that would be bound to every address is
 * bound to the loopback address.
 *
 * Open MPI 4 listens on every address, in mpirun, ompi-server and each rank, and no option of it changes that
 * (oob_tcp_if_include and btl_tcp_if_include choose what is advertised, not what is listened on). So loopback.c defines
 * bind(), in front of the C library's. It is compiled twice:
 *
 *     into the program                             for its ranks
 *     as a library that is part of the program     the launcher preloads it into mpirun and ompi-server (cli/network.h)
 *
 * Bind in a way that the user asked for with:
 *
 *     yk_loopback_waive(true);                     // in this thread
 *     ...
 *     yk_loopback_waive(false);
 */
#ifndef YK_BASE_LOOPBACK_H
#define YK_BASE_LOOPBACK_H

#include <stdbool.h>

#define YK_LOOPBACK "YK_LOOPBACK" /* any value */

void yk_loopback_waive(bool on);

#endif
