/* The folder of a launcher: what its job keeps on this machine while it runs, above all shared memory of killed processes.
 *
 *     char path[PATH_MAX];
 *     int lock;
 *     st = yk_job_folder_make(4, path, sizeof path, &lock);   // /dev/shm/yoke-XXXXXX, for 4 processes
 *     ...
 *     yk_job_folder_remove(path, lock);
 *
 * A launcher that is killed cannot remove its folder; the next one that starts does. In each folder is a file that its
 * launcher has locked: the lock goes with the process, however it ends, so that a folder whose lock can be had is nobody's.
 * (A process number would do for that only until another process gets it, or sits in another container.)
 */
#ifndef YK_CLI_JOB_FOLDER_H
#define YK_CLI_JOB_FOLDER_H

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* In /dev/shm if it has enough space for this number of processes, else in TMPDIR. */
yk_status yk_job_folder_make(int64_t processes, char *path, size_t size, int *lock_out);
void yk_job_folder_remove(const char *path, int lock);

/* In a process of the job: ends it when the launcher has died. On other machines the folder does not exist and nothing
 * is watched: mpirun's daemons end the processes there. */
void yk_job_folder_watch(const char *path);

#endif
