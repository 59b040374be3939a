/* Controls who can reach a job that runs on this machine only: nobody else, unless the user says otherwise.
 *
 *     yk_network_confine(config, joinable);    // applies to mpirun, ompi-server and ranks started from now on
 *
 * A confined process listens on the loopback address only (base/loopback.h). Jobs with --hosts or --hostfile, with
 * --network any, or with interfaces that the user chose for Open MPI (tcp_if_include, tcp_if_exclude) are not confined.
 */
#ifndef YK_CLI_NETWORK_H
#define YK_CLI_NETWORK_H

#include "config/config.h"

/* If the job is local, changes the environment of this process, which its children inherit. `joinable`: mpirun talks to
 * a name server. */
void yk_network_confine(const yk_config *c, bool joinable);
bool yk_network_is_confined(void);

/* For ranks, which need no preloaded library: "LD_PRELOAD=" and its previous value. */
void yk_network_preload_before(char *out, size_t size);

/* The address of the name server of a job, from the file RUN/join: for mpirun --ompi-server. The run directory is
 * untrusted: a name server on another machine is YK_EUSAGE unless `any`. */
yk_status yk_network_read_join(const char *path, bool any, char *out, size_t size);

/* Refuses host names in --hosts (a,b:2) and in hostfiles that begin with '-': ssh would take them for options, and
 * options of ssh can run programs. */
yk_status yk_network_check_hosts(const char *hosts);
yk_status yk_network_check_hostfile(const char *path);

#endif
