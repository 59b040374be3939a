/* Directories, and files below a directory that yoke owns.
 *
 * Example:
 *     yk_status st = yk_dir_make_in("runs/a", "checkpoints/.saving");
 *     int fd = yk_open_in("runs/a", "metrics.jsonl", O_RDONLY); // -1: errno; ELOOP: a symbolic link
 *
 * `dir` is a path as the user gave it: symbolic links in it are followed. `name` is below `dir` and may have several
 * components ("checkpoints/step-7/DONE"). No component of it may be a link. Each component is opened relative to its
 * parent, so this holds even if a directory is replaced by a link at the same time. A link in a run directory therefore
 * never makes yoke write to, truncate or remove a file elsewhere.
 *
 * Any thread may call these. Functions that return a descriptor return -1 and set errno on failure; the caller closes it.
 */
#ifndef YK_BASE_DIR_H
#define YK_BASE_DIR_H

#include "base/status.h"
#include <limits.h>

/* A path as a value: yk_path_of("%s/step-%d", dir, 7).s. A path that is longer than PATH_MAX is cut, but stays too long
 * for system calls. */
typedef struct {
    char s[PATH_MAX + 256];
} yk_path;

yk_path yk_path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
yk_status yk_path_keep(const char *path, char **out); /* copies it; the caller frees the copy */

/* Like mkdir -p: not an error if the directory exists. The directory survives a power failure: its parent is synced. */
yk_status yk_dir_make(const char *path);
yk_status yk_dir_make_in(const char *dir, const char *name);

/* Syncs a directory, so that files that were created or renamed in it survive a power failure. */
yk_status yk_dir_sync(const char *path);
yk_status yk_dir_sync_of(const char *file); /* the directory that contains the file */

/* These open, in this order: the directory DIR/NAME (NULL: DIR itself); the directory that contains the last component of
 * NAME; a directory in an open directory. */
int yk_dir_open(const char *dir, const char *name);
int yk_dir_open_parent(const char *dir, const char *name, const char **last_out);
int yk_dir_open_at(int parent, const char *part);

/* Opens the file DIR/NAME; a new file gets mode 0666 minus the umask. */
int yk_open_in(const char *dir, const char *name, int flags);

/* Removes a file. A missing file is not an error; anything but a regular file is an error and is not removed. */
yk_status yk_remove_in(const char *dir, const char *name);

/* Removes the regular files of an open directory that match a pattern of the NULL-terminated list, and their temporary
 * files left behind by an interrupted write. A pattern "NAME/" matches directories: they are cleared in the same way,
 * by the patterns that begin with it, and removed if they are then empty. Everything else stays, including links.
 * Returns how many entries were removed, and sets errno: why a file could not be removed; 0: none failed.
 *
 *     static const char *const written[] = {"config.ini", "worker-[0-9]/", "worker-[0-9]/resources.jsonl", NULL};
 */
size_t yk_dir_clear(int fd, const char *const *patterns);
void yk_dir_clear_temporary(int fd, const char *const *patterns); /* only temporary files */

/* YK_ESYSTEM: "PATH: DOING: strerror; what to do". `doing` is a phrase such as "cannot write". */
yk_status yk_fail_path(const char *path, const char *doing, int error) __attribute__((cold));
yk_status yk_fail_in(const char *dir, const char *name, const char *doing, int error) __attribute__((cold));

#endif
