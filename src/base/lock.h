/* A lock on a directory: at most one process, or one training run in a process, writes there.
 *
 * Example:
 *     yk_lock *lock;
 *     yk_status st = yk_lock_acquire("runs/a", 0.0, &lock); // YK_EUSAGE: "runs/a: in use by process 4711 on host b ..."
 *     if (st)
 *         return st;
 *     write_files("runs/a");
 *     yk_lock_release(lock);
 *
 * The lock is an fcntl() lock of an open file description (F_OFD_SETLK) on DIR/lock. It belongs to the yk_lock, not to the
 * process, so two locks in one process exclude each other. The kernel releases it when the owner ends, however it ends, so a
 * lock is never stale. It works on NFS as well. The file names the owner, for the error message:
 *
 *     pid 4711
 *     host b
 *     since 2026-07-31T12:00:00Z
 *     boot 0f9e6c34-...         /proc/sys/kernel/random/boot_id
 *     start 123456              clock ticks from boot to the start of the process; detects a reused pid
 *
 * After a release the file stays, empty: if it were removed, two processes could lock two files of the same name.
 *
 * Some file systems have no locks (ENOLCK, ENOSYS, ...; Lustre mounted without flock). There, the contents of the file decide:
 * an owner on this host is gone if its process has ended or the host was rebooted. Whether an owner on another host is
 * alive is unknown; the error message says which file to remove. If two processes start at almost the same time, each
 * reads the file again after a moment, and the last writer wins.
 *
 * Processes that only read take no lock. Any thread may call these.
 */
#ifndef YK_BASE_LOCK_H
#define YK_BASE_LOCK_H

#include "base/status.h"

typedef struct yk_lock yk_lock;

/* Tries for `seconds`. Always waits a few seconds for an owner that was killed and is about to end. */
yk_status yk_lock_acquire(const char *dir, double seconds, yk_lock **out);

/* Checks the lock without taking it and without writing: YK_OK if it is free or the directory does not exist. */
yk_status yk_lock_check(const char *dir);

/* Whether `dir` is still the directory that was locked: it was not moved, removed or replaced since then. */
bool yk_lock_covers(const yk_lock *lock, const char *dir);

void yk_lock_release(yk_lock *lock); /* NULL is fine */

#endif
