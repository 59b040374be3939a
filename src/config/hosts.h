/* The hosts of a job, --hosts and --hostfile, and the number of its processes.
 *
 *     --hosts a,b:2,[fe80::1]:2    one process on a, two each on b and on an IPv6 address
 *     --hostfile FILE              lines of the form HOST slots=N, without slots one process; comments begin with # or //
 *
 * Example:
 *     int64_t processes;
 *     yk_status st = yk_job_processes(&config, &processes); // --hosts a,b:2: 3; no job: 1
 *     yk_host *host;
 *     size_t n;
 *     st = yk_job_hosts(&config, &host, &n);                // {"a", 1}, {"b", 2}; the caller frees it
 *
 * The launcher, sweeps and reports call these functions, so that they agree. Any thread may call them.
 */
#ifndef YK_CONFIG_HOSTS_H
#define YK_CONFIG_HOSTS_H

#include "base/status.h"
#include "config/config.h"

typedef struct {
    char name[256]; /* "": this host */
    int processes;
} yk_host;

/* Whether the user names the hosts of the job. Otherwise all of its processes are on this host. */
static inline bool yk_names_hosts(const yk_config *c)
{
    return c->hosts || c->hostfile;
}

/* Each host once. --launch N starts fewer processes than the hosts have slots. YK_EUSAGE: a malformed list, too few slots, a
 * hostfile that cannot be read, or a host name that begins with '-', which ssh would treat as an option, and ssh options can run
 * programs. */
yk_status yk_job_hosts(const yk_config *c, yk_host **out, size_t *n_out);

/* The number of processes that the launcher starts: 1 for a worker that joins a job, and if there is no launcher. */
yk_status yk_job_processes(const yk_config *c, int64_t *out);

#endif
