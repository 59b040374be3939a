/* The run directory: what yoke writes there, and which process may write.
 *
 * Example:
 *     yk_lock *lock = NULL;
 *     yk_status st = yk_run_dir_check("runs/a");           // before anything is loaded or launched; writes nothing
 *     if (!st)
 *         st = yk_run_dir_acquire("runs/a", &lock);           // creates it if missing; only the chief does this
 *     yk_lock_release(lock);
 *
 * Only one run at a time writes to a run directory (base/lock.h). In a job of several processes the chief holds the
 * lock; the other ranks, and workers that joined, write only their worker-N/.
 *
 * RUN may be a symbolic link; what yoke writes in it may not (base/dir.h). Checkpoints that were moved elsewhere and linked
 * as checkpoints/step-N are an exception: they are read, and never removed.
 */
#ifndef YK_TRAIN_RUN_DIR_H
#define YK_TRAIN_RUN_DIR_H

#include "base/lock.h"
#include "base/status.h"

/* YK_ESYSTEM: a link or another kind of file has the name of a file that yoke writes; YK_EUSAGE: another process is writing
 * there. A missing directory is not an error. */
yk_status yk_run_dir_check(const char *dir);

yk_status yk_run_dir_acquire(const char *dir, yk_lock **out);

/* Before a run writes: YK_ESYSTEM if the directory was moved, removed or replaced since the lock was acquired. Another run may
 * write there now. lock NULL: always YK_OK. */
yk_status yk_run_dir_verify(const char *dir, const yk_lock *lock);

/* A copy of `out`, or, if that is NULL, the name of a new directory: runs/MODEL-TIME-PID; if it exists, a number is appended. The
 * caller frees the name. */
yk_status yk_run_dir_choose(const char *out, const char *model, char **dir_out);

/* Removes what yoke wrote in the run directory PARENT/NAME, or its checkpoints only. The directory, the lock, links and
 * foreign files stay. The caller must hold the lock, or know that no other process writes there. */
yk_status yk_run_dir_clear(const char *parent, const char *name, bool checkpoints_only);

#endif
