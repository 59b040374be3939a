/* A lock on a directory: at most one process, or one training of a process, writes there.
 *
 *     yk_lock *lock;
 *     if ((st = yk_lock_take("runs/a", 0.0, &lock)))     // YK_EUSAGE: "runs/a: in use by process 4711 on host b ..."
 *         return st;
 *     ...                                                // write
 *     yk_lock_release(lock);
 *
 * The lock is an fcntl() lock of an open file description (F_OFD_SETLK) on DIR/lock. It belongs to the yk_lock, not to the
 * process, so that two in one process exclude each other. The kernel releases it when the owner ends, however it ends, so a
 * lock is never stale. NFS servers see it, too. The file says who the owner is, for the message:
 *
 *     pid 4711
 *     host b
 *     since 2026-07-31T12:00:00Z
 *     boot 0f9e6c34-...         /proc/sys/kernel/random/boot_id
 *     start 123456              clock ticks between boot and the start of the process; tells a reused pid
 *
 * It stays, empty, after a release: removing it would allow two processes to lock two files of the same name.
 *
 * Some file systems have no locks (ENOLCK, ENOSYS, ...; Lustre mounted without flock). There, the text decides: the owner
 * is gone if it is on this host and its boot or its process is. Whether an owner on another host lives cannot be known; the
 * message says which file to remove. Two processes that start within some hundredths of a second are told apart by
 * looking again at who wrote last.
 *
 * Processes that only read take no lock. Any thread may call these.
 */
#ifndef YK_BASE_LOCK_H
#define YK_BASE_LOCK_H

#include "base/status.h"

typedef struct yk_lock yk_lock;

/* Tries for so many seconds. An owner that is ending (it was killed a moment ago) is waited for in any case, for
 * some seconds. */
yk_status yk_lock_take(const char *dir, double seconds, yk_lock **out);

/* The same without taking it and without writing anything: YK_OK if it is free, or if there is no such directory. */
yk_status yk_lock_check(const char *dir);

void yk_lock_release(yk_lock *lock); /* NULL is fine */

#endif
