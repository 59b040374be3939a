/* Makes a process reachable from this host only: with YK_LOOPBACK in the environment, a socket that would be bound
 * to all addresses is bound to the loopback address.
 *
 * Open MPI 4 listens on all addresses, in mpirun, ompi-server and each rank, and has no option to change that
 * (oob_tcp_if_include and btl_tcp_if_include choose what it advertises, not where it listens). So loopback.c overrides
 * bind() of the C library. It is compiled twice:
 *
 *     into the program                        for its ranks
 *     as a library embedded in the program    the launcher preloads it into mpirun and ompi-server (cli/network.h)
 *
 * To bind to an address that the user chose, suspend the override in this thread.
 *
 * Example:
 *     yk_loopback_suspend(true);
 *     bind(fd, address, size);
 *     yk_loopback_suspend(false);
 */
#ifndef YK_BASE_LOOPBACK_H
#define YK_BASE_LOOPBACK_H

#include <stdbool.h>

#define YK_LOOPBACK "YK_LOOPBACK" /* any value */

void yk_loopback_suspend(bool on);

#endif
