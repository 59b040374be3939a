/* The hosts of a job, --hosts and --hostfile, and the number of its processes.
 *
 *     --hosts a,b:2        one process on a, two on b
 *     --hostfile FILE      lines of the form HOST slots=N; comments begin with # or //
 *
 * Example:
 *     int64_t processes;
 *     yk_status st = yk_job_processes(&config, &processes); // --hosts a,b:2: 3; no job: 1
 *
 * The launcher, sweeps and reports call this function, so that they agree. Any thread may call it.
 */
#ifndef YK_CONFIG_HOSTS_H
#define YK_CONFIG_HOSTS_H

#include "base/status.h"
#include "config/config.h"
#include <stdbool.h>
#include <stdint.h>

/* Whether the user names the hosts of the job. Otherwise all of its processes are on this host, unless a batch system or
 * mpirun's own options determine the hosts. */
static inline bool yk_names_hosts(const yk_config *c)
{
    return c->hosts || c->hostfile;
}

/* The number of processes that the launcher starts: 1 for a worker that joins a job, and if there is no launcher. 0: unknown,
 * because the hostfile is empty or has a line without slots=N; mpirun then decides. YK_EUSAGE: a malformed list, a hostfile that
 * cannot be read, or a host name that begins with '-', which ssh would treat as an option, and ssh options can run programs. */
yk_status yk_job_processes(const yk_config *c, int64_t *out);

#endif
