/* Who can reach a job that this machine alone runs: only this machine, unless the user says otherwise.
 *
 *     yk_network_confine(config, joinable);    // mpirun, ompi-server and ranks that are started from now on
 *
 * A confined process listens on the loopback address only (base/loopback.h). Jobs with --hosts or --hostfile, with
 * --network any, or with interfaces that the user chose for Open MPI (tcp_if_include, tcp_if_exclude) are not confined.
 */
#ifndef YK_CLI_NETWORK_H
#define YK_CLI_NETWORK_H

#include "train/config.h"

/* Changes this process's environment, which the ones that it starts inherit, where the job is local. `joinable`: mpirun talks
 * to a name server. */
void yk_network_confine(const yk_config *c, bool joinable);
bool yk_network_is_confined(void);

/* For mpirun's ranks, which need no library to be confined: "LD_PRELOAD=" and what it was before. */
void yk_network_preload_before(char *out, size_t size);

/* The address of the name server of a job, from the file RUN/join: for mpirun --ompi-server. A run directory may be somebody
 * else's: a name server on another machine is YK_EUSAGE unless `any`. */
yk_status yk_network_read_join(const char *path, bool any, char *out, size_t size);

/* No name of --hosts (a,b:2), or in a hostfile of Open MPI or MPICH, begins with '-': ssh would take it for an option, and
 * options of ssh run programs. */
yk_status yk_network_check_hosts(const char *hosts);
yk_status yk_network_check_hostfile(const char *path);

#endif
