/* Keeps a job that runs on this host unreachable from other hosts, unless the user wants it to be reachable.
 *
 * Example:
 *     yk_network_confine(&config, joinable); // applies to mpirun, ompi-server and ranks started after this call
 *
 * A confined process listens only on the loopback address (base/loopback.h). Jobs with --hosts or --hostfile, with
 * --network any, or with network interfaces chosen for Open MPI (tcp_if_include, tcp_if_exclude) are not confined. These
 * functions change the environment: main thread only.
 */
#ifndef YK_CLI_NETWORK_H
#define YK_CLI_NETWORK_H

#include "config/config.h"

/* If the job is local, changes the environment of this process, which its children inherit. `joinable`: mpirun connects
 * to a name server. */
void yk_network_confine(const yk_config *c, bool joinable);

/* The value of LD_PRELOAD before yk_network_confine(), for ranks, which do not need the preloaded library; NULL: the job is not
 * confined. */
const char *yk_network_original_preload(void);

/* Reads the address of the name server of a job from RUN/join, for mpirun --ompi-server. The run directory is untrusted:
 * a name server on another host is YK_EUSAGE unless `any`. */
yk_status yk_network_read_join(const char *path, bool any, char *out, size_t size);

/* Why workers cannot join a job that has no name server; `library`: its MPI, for example "Open MPI v5.0.7". */
void yk_network_join_obstacle(bool has_run_dir, const char *library, char *out, size_t size);

#endif
