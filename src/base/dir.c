#include "base/dir.h"

#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

yk_path yk_path_of(const char *format, ...)
{
    yk_path path;
    va_list args;
    va_start(args, format);
    vsnprintf(path.s, sizeof path.s, format, args);
    va_end(args);
    return path;
}

yk_status yk_path_keep(const char *path, char **out)
{
    *out = strdup(path);
    return *out ? YK_OK : yk_fail_memory(strlen(path), "a path");
}

/* ---- errors */

static const char *remedy(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "the disk is full; free space or choose another --out";
    case EFBIG:
        return "the file would exceed the size limit (ulimit -f); raise the limit or choose another --out";
    case EROFS:
    case EACCES:
    case EPERM:
        return "change its permissions or choose another --out";
    case ENOENT:
        return "create its directory first or choose another --out";
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
        return "a file or directory with this name exists; move it or choose another --out";
    case ELOOP:
        return "yoke does not write through links inside a run directory; remove the link or choose another "
               "--out";
    case EMFILE:
    case ENFILE:
        return "too many files are open (ulimit -n); raise the limit";
    case ENOMEM:
        return "out of memory; close other programs";
    case ENAMETOOLONG:
        return "choose a shorter name";
    case EIO:
        return "the device failed; check the system log (dmesg)";
    case EPIPE:
        return "the reader closed the pipe";
    default:
        return "check the path, or choose another --out";
    }
}

yk_status yk_fail_path(const char *path, const char *doing, int error)
{
    return yk_fail(YK_ESYSTEM, "%s: %s: %s; %s", path, doing,
                   error == ELOOP ? "it is a symbolic link" : strerror(error), remedy(error));
}

yk_status yk_fail_in(const char *dir, const char *name, const char *doing, int error)
{
    return yk_fail_path(yk_path_of("%s/%s", dir, name).s, doing, error);
}

/* ---- opening */

static int open_at(int parent, const char *part, int flags)
{
    struct stat there;
    const int fd = yk_sys->open(parent, part, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0666);
    int error = errno;
    /* for a link, the system reports ENOTDIR as well */
    if (fd < 0 && error == ENOTDIR && !yk_sys->stat(parent, part, &there, AT_SYMLINK_NOFOLLOW) &&
        S_ISLNK(there.st_mode))
        error = ELOOP;
    errno = error;
    return fd;
}

int yk_dir_open_at(int parent, const char *part)
{
    return open_at(parent, part, O_RDONLY | O_DIRECTORY);
}

/* Returns `fd`, closes `parent`, and keeps errno. */
static int opened(int parent, int fd)
{
    const int error = errno;
    yk_fs_close(parent);
    errno = error;
    return fd;
}

/* Some network file systems cannot sync a directory and return EINVAL, and a read-only one has nothing to sync: these are not
 * errors here. */
static int sync_dir(int fd)
{
    return yk_sys->sync(fd) && errno != EINVAL && errno != ENOTSUP && errno != EBADF && errno != EROFS ? -1
                                                                                                       : 0;
}

/* Creates a directory, which then survives a power failure. Not an error if it exists. */
static int make_at(int parent, const char *part)
{
    if (yk_sys->make_dir(parent, part, 0777))
        return errno == EEXIST ? 0 : -1;
    return sync_dir(parent);
}

/* Opens the directory that contains the last component of `name`. `make`: creates missing parents. */
static int open_parent(const char *dir, const char *name, bool make, const char **last_out)
{
    int at = yk_sys->open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    for (const char *slash; at >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        char part[NAME_MAX + 1];
        const size_t n = (size_t)(slash - name);
        int next = -1;
        snprintf(part, sizeof part, "%.*s", (int)n, name);
        if (n > NAME_MAX)
            errno = ENAMETOOLONG;
        else if (!make || !make_at(at, part))
            next = yk_dir_open_at(at, part);
        at = opened(at, next);
    }
    *last_out = name;
    return at;
}

int yk_dir_open_parent(const char *dir, const char *name, const char **last_out)
{
    return open_parent(dir, name, false, last_out);
}

int yk_dir_open(const char *dir, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY;
    return name ? yk_open_in(dir, name, flags) : yk_sys->open(AT_FDCWD, dir, flags | O_CLOEXEC, 0);
}

int yk_open_in(const char *dir, const char *name, int flags)
{
    const char *last;
    const int parent = open_parent(dir, name, false, &last);
    return opened(parent, parent < 0 ? -1 : open_at(parent, last, flags));
}

/* ---- making */

static bool is_dir(const char *path)
{
    struct stat there;
    return !yk_sys->stat(AT_FDCWD, path, &there, 0) && S_ISDIR(there.st_mode);
}

yk_status yk_dir_make(const char *path)
{
    char *at = strdup(path);
    if (!at)
        return yk_fail_memory(strlen(path) + 1, "a path");
    yk_status st = YK_OK;
    const size_t length = strlen(at);
    size_t known = 0; /* length of the path of the last directory that existed */
    for (size_t i = 1; !st && i <= length; i++) {
        if ((at[i] != '/' && at[i] != '\0') || at[i - 1] == '/')
            continue;
        const char cut = at[i];
        at[i] = '\0';
        /* Check first: a parent that is read-only or owned by someone else cannot be created, but may exist. Check
         * again afterwards: another process may have created it in between. */
        const bool made = !is_dir(at) && !yk_sys->make_dir(AT_FDCWD, at, 0777);
        const int error = errno;
        if (!made && !is_dir(at))
            st = yk_fail_path(at, "cannot create the directory", error);
        else if (made) /* it survives a power failure once its parent is synced */
            st = yk_dir_sync_of(at);
        else
            known = i;
        at[i] = cut;
    }
    if (known && !st) { /* the process that created it may have been killed before it synced the parent */
        at[known] = '\0';
        st = yk_dir_sync_of(at);
    }
    free(at);
    return st;
}

yk_status yk_dir_make_in(const char *dir, const char *name)
{
    const char *last;
    const int parent = open_parent(dir, name, true, &last);
    int fd = -1;
    if (parent >= 0 && !make_at(parent, last))
        fd = yk_dir_open_at(parent, last);
    if (opened(parent, fd) < 0)
        return yk_fail_in(dir, name, "cannot create the directory", errno);
    yk_fs_close(fd);
    return YK_OK;
}

yk_status yk_dir_sync(const char *path)
{
    int fd = yk_sys->open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 && errno == EACCES) /* it can be written to, but not read */
        return YK_OK;
    if (fd < 0)
        return yk_fail_path(path, "cannot open the directory", errno);
    yk_status st = YK_OK;
    if (sync_dir(fd))
        st = yk_fail_path(path, "cannot sync the directory", errno);
    yk_fs_close(fd);
    return st;
}

yk_status yk_dir_sync_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *directory = slash ? strndup(file, slash == file ? 1 : (size_t)(slash - file)) : strdup(".");
    if (!directory)
        return yk_fail_memory(strlen(file), "a path");
    yk_status st = yk_dir_sync(directory);
    free(directory);
    return st;
}

/* ---- removing */

yk_status yk_remove_in(const char *dir, const char *name)
{
    const char *last;
    struct stat there;
    const int parent = open_parent(dir, name, false, &last);
    int error = parent < 0 || yk_sys->stat(parent, last, &there, AT_SYMLINK_NOFOLLOW) ? errno : 0;
    if (!error && !S_ISREG(there.st_mode))
        error = S_ISLNK(there.st_mode) ? ELOOP : EISDIR;
    if (!error && yk_sys->remove(parent, last, 0))
        error = errno;
    yk_fs_close(parent);
    return error && error != ENOENT ? yk_fail_in(dir, name, "cannot remove", error) : YK_OK;
}

/* Whether the entry NAME of directory `prefix` ("", or ending with a slash) matches a pattern followed by `tail`: "", "/"
 * or the suffix of a temporary file (base/file.h). */
static bool matches(const char *const *patterns, const char *prefix, const char *name, const char *tail)
{
    char path[PATH_MAX], pattern[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", prefix, name);
    for (; *patterns; patterns++) {
        const size_t n = strlen(*patterns);
        const bool directory = n && (*patterns)[n - 1] == '/';
        if (directory != (*tail == '/'))
            continue;
        snprintf(pattern, sizeof pattern, "%.*s%s", (int)(n - directory), *patterns, directory ? "" : tail);
        if (fnmatch(pattern, path, FNM_PATHNAME) == 0)
            return true;
    }
    return false;
}

static size_t clear(int fd, const char *const *patterns, const char *prefix, bool temporary_only)
{
    size_t removed = 0;
    int failed = 0;
    char **names = yk_sys->list(fd);
    for (char **name = names; name && *name; name++) {
        struct stat there;
        if (yk_sys->stat(fd, *name, &there, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISREG(there.st_mode) && ((!temporary_only && matches(patterns, prefix, *name, "")) ||
                                       matches(patterns, prefix, *name, ".[0-9]*-[0-9]*.tmp"))) {
            const bool gone = yk_sys->remove(fd, *name, 0) == 0;
            removed += gone;
            failed = gone ? failed : errno;
        } else if (S_ISDIR(there.st_mode) && matches(patterns, prefix, *name, "/")) {
            char below[PATH_MAX];
            const int length = snprintf(below, sizeof below, "%s%s/", prefix, *name);
            const int inner = length < (int)sizeof below ? yk_dir_open_at(fd, *name) : -1;
            if (inner < 0)
                continue;
            removed += clear(inner, patterns, below, temporary_only);
            failed = errno ? errno : failed;
            yk_fs_close(inner);
            removed += !temporary_only && yk_sys->remove(fd, *name, AT_REMOVEDIR) == 0;
        }
    }
    yk_fs_list_free(names);
    errno = failed;
    return removed;
}

size_t yk_dir_clear(int fd, const char *const *patterns)
{
    return clear(fd, patterns, "", false);
}

void yk_dir_clear_temporary(int fd, const char *const *patterns)
{
    clear(fd, patterns, "", true);
}
