#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the system calls ---- */

static int open_system(int dir, const char *path, int flags, mode_t mode)
{
    return openat(dir, path, flags, mode);
}

static ssize_t read_system(int fd, void *buf, size_t n)
{
    return pread(fd, buf, n, 0);
}

static int exchange_system(int dir, const char *a, const char *b)
{
    return renameat2(dir, a, dir, b, RENAME_EXCHANGE);
}

static void *map_system(int fd, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int lock_system(int fd, bool take)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int got;
    while ((got = fcntl(fd, take ? F_OFD_SETLK : F_OFD_GETLK, &l)) && errno == EINTR)
        continue;
    if (got)
        return errno == EACCES ? EAGAIN : errno;
    return take || l.l_type == F_UNLCK ? 0 : EAGAIN;
}

static bool can_write_system(const char *path)
{
    return access(path, W_OK) == 0;
}

static int is_entry(const struct dirent *e)
{
    return strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
}

static char **list_system(int dir)
{
    struct dirent **entry;
    const int n = scandirat(dir, ".", &entry, is_entry, NULL);
    char **names = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *names);
    bool failed = !names;
    for (int i = 0; i < n; i++) {
        failed = failed || !(names[i] = strdup(entry[i]->d_name));
        free(entry[i]);
    }
    if (n < 0)
        return NULL;
    free(entry);
    if (!failed)
        return names;
    yk_fs_list_free(names);
    errno = ENOMEM;
    return NULL;
}

static const yk_fs system_calls = {.open = open_system,
                                   .close = close,
                                   .read = read_system,
                                   .write = write,
                                   .sync = fsync,
                                   .stat = fstatat,
                                   .make_dir = mkdirat,
                                   .rename = renameat,
                                   .exchange = exchange_system,
                                   .remove = unlinkat,
                                   .map = map_system,
                                   .unmap = munmap,
                                   .list = list_system,
                                   .lock = lock_system,
                                   .truncate = ftruncate,
                                   .real_path = realpath,
                                   .can_write = can_write_system};

/* ---- the file system of a thread ---- */

_Thread_local const yk_fs *yk_sys = &system_calls;

void yk_fs_set(const yk_fs *fs)
{
    yk_sys = fs ? fs : &system_calls;
}

int yk_fs_close(int fd)
{
    return fd < 0 ? 0 : yk_sys->close(fd);
}

void yk_fs_unmap(void *at, size_t size)
{
    if (at)
        yk_sys->unmap(at, size);
}

void yk_fs_list_free(char **names)
{
    for (char **n = names; n && *n; n++)
        free(*n);
    free(names);
}
