/* Directories, and files below a directory that yoke owns.
 *
 *     st = yk_dir_make_in("runs/a", "checkpoints/.saving");
 *     int fd = yk_open_in("runs/a", "metrics.jsonl", O_RDONLY);        // -1: errno; ELOOP: it is a link
 *
 * `dir` is a path as the user gave it: symbolic links in it are followed. `name` is below `dir` and may have several
 * parts ("checkpoints/step-7/DONE"). No part of it is reached through a link. Each part is opened relative to the one
 * above it, so this holds even if somebody replaces a directory by a link meanwhile. A link in a run directory therefore
 * never makes yoke write to, truncate or remove a file elsewhere.
 *
 * Any thread may call these. Functions that return a descriptor return -1 and set errno where they fail; the caller closes it.
 */
#ifndef YK_BASE_DIR_H
#define YK_BASE_DIR_H

#include "base/status.h"
#include <stddef.h>

/* mkdir -p. A directory that exists already is fine. */
yk_status yk_dir_make(const char *path);
yk_status yk_dir_make_in(const char *dir, const char *name);

/* Makes what was renamed or created in a directory survive a power cut. */
yk_status yk_dir_sync(const char *path);

/* The directory DIR/NAME (NULL: DIR itself); the directory that holds the last part of NAME; one part of an open directory. */
int yk_dir_open(const char *dir, const char *name);
int yk_dir_open_parent(const char *dir, const char *name, const char **last_out);
int yk_dir_open_at(int parent, const char *part);

/* The file DIR/NAME; one that is created has mode 0666, less the umask. */
int yk_open_in(const char *dir, const char *name, int flags);

/* Removes a file; one that is missing is fine. Anything but a regular file stays, and is an error. */
yk_status yk_remove_in(const char *dir, const char *name);

/* Removes the regular files of an open directory that match a pattern of the list, which ends with NULL, and temporary
 * files of them that an interrupted write left behind. A pattern "NAME/" names directories: they are cleared likewise, by
 * the patterns that begin with it, and removed if they are empty then. Everything else stays, links too. Returns how many
 * entries were removed.
 *
 *     static const char *const written[] = {"config.ini", "worker-[0-9]/", "worker-[0-9]/resources.jsonl", NULL};
 */
size_t yk_dir_clear(int fd, const char *const *patterns);

/* YK_ESYSTEM: "PATH: DOING: what errno says; the remedy". `doing` is like "cannot write". */
yk_status yk_fail_path(const char *path, const char *doing, int error) __attribute__((cold));
yk_status yk_fail_in(const char *dir, const char *name, const char *doing, int error) __attribute__((cold));

#endif
