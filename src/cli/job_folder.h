/* The folder of a launcher: what its job keeps on this machine while it runs, above all shared memory of killed processes.
 *
 *     char path[PATH_MAX];
 *     int lock;
 *     st = yk_job_folder_make(path, sizeof path, &lock);      // /dev/shm/yoke-XXXXXX
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

yk_status yk_job_folder_make(char *path, size_t size, int *lock_out);
void yk_job_folder_remove(const char *path, int lock);

#endif
