/* The directory of a launcher: temporary files of its job on this host, such as shared memory that killed processes left
 * behind.
 *
 * Example:
 *     yk_job_dir d;
 *     yk_status st = yk_job_dir_create(4, &d); // /dev/shm/yoke-XXXXXX, for 4 processes
 *     if (!st)
 *         yk_job_dir_remove(&d);
 *
 * A launcher that is killed cannot remove its directory. A child process, the cleaner, removes it instead, when the processes
 * of the job have ended or 10 s after the launcher died. If the cleaner is killed, too, the next launcher removes it. Each
 * directory has a lock file, which its launcher keeps locked. The kernel releases the lock when the process ends, so a
 * directory that can be locked is stale. (A process id would not do: it may be reused, or belong to another container.) Main
 * thread only.
 */
#ifndef YK_CLI_JOB_DIR_H
#define YK_CLI_JOB_DIR_H

#include "base/status.h"
#include <limits.h>
#include <sys/types.h>

typedef struct {
    char path[PATH_MAX]; /* "": none */
    int lock;
    pid_t cleaner; /* -1: none */
} yk_job_dir;

/* Makes it in /dev/shm if there is enough space for this number of processes, else in TMPDIR. */
yk_status yk_job_dir_create(int64_t processes, yk_job_dir *out);
void yk_job_dir_remove(yk_job_dir *d);

/* In a process of the job: ends the process when the launcher dies. On other hosts, where the directory does not exist, the
 * daemons of mpirun do that. */
void yk_job_dir_watch(const char *path);

#endif
