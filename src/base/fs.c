#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Thread_local const yk_fs *own; /* NULL: the system calls */

void yk_fs_set(const yk_fs *fs)
{
    own = fs;
}

const yk_fs *yk_fs_get(void)
{
    return own;
}

int yk_fs_open(int dir, const char *path, int flags, mode_t mode)
{
    return own ? own->open(own->self, dir, path, flags, mode) : openat(dir, path, flags, mode);
}

int yk_fs_close(int fd)
{
    if (fd < 0)
        return 0;
    return own ? own->close(own->self, fd) : close(fd);
}

ssize_t yk_fs_read(int fd, void *buf, size_t n)
{
    return own ? own->read(own->self, fd, buf, n) : pread(fd, buf, n, 0);
}

ssize_t yk_fs_write(int fd, const void *buf, size_t n)
{
    return own ? own->write(own->self, fd, buf, n) : write(fd, buf, n);
}

int yk_fs_sync(int fd)
{
    return own ? own->sync(own->self, fd) : fsync(fd);
}

int yk_fs_stat(int dir, const char *path, struct stat *s, int flags)
{
    return own ? own->stat(own->self, dir, path, s, flags) : fstatat(dir, path, s, flags);
}

int yk_fs_make_dir(int dir, const char *path, mode_t mode)
{
    return own ? own->make_dir(own->self, dir, path, mode) : mkdirat(dir, path, mode);
}

int yk_fs_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    return own ? own->rename(own->self, from_dir, from, to_dir, to) : renameat(from_dir, from, to_dir, to);
}

int yk_fs_exchange(int dir, const char *a, const char *b)
{
    return own ? own->exchange(own->self, dir, a, b) : renameat2(dir, a, dir, b, RENAME_EXCHANGE);
}

int yk_fs_remove(int dir, const char *path, int flags)
{
    return own ? own->remove(own->self, dir, path, flags) : unlinkat(dir, path, flags);
}

void *yk_fs_map(int fd, size_t size)
{
    if (own)
        return own->map(own->self, fd, size);
    void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

void yk_fs_unmap(void *at, size_t size)
{
    if (at && own)
        own->unmap(own->self, at, size);
    else if (at)
        munmap(at, size);
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

int yk_fs_lock(int fd, bool take)
{
    return own ? own->lock(own->self, fd, take) : lock_system(fd, take);
}

int yk_fs_truncate(int fd, off_t size)
{
    return own ? own->truncate(own->self, fd, size) : ftruncate(fd, size);
}

char *yk_fs_real_path(const char *path, char *out)
{
    return own ? own->real_path(own->self, path, out) : realpath(path, out);
}

bool yk_fs_can_write(const char *path)
{
    return own ? own->can_write(own->self, path) : access(path, W_OK) == 0;
}

void yk_fs_list_free(char **names)
{
    for (char **n = names; n && *n; n++)
        free(*n);
    free(names);
}

static char **list_system(int dir)
{
    const int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* closedir() takes it */
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char **names = d ? calloc(1, sizeof *names) : NULL;
    size_t n = 0;
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; names && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char **more = realloc(names, (n + 2) * sizeof *names);
        names = more ? more : names;
        if (!more || !(names[n] = strdup(e->d_name))) {
            names[n] = NULL;
            yk_fs_list_free(names);
            names = NULL;
            errno = ENOMEM;
            break;
        }
        names[++n] = NULL;
    }
    const int error = errno;
    if (d)
        closedir(d);
    errno = error;
    return names;
}

char **yk_fs_list(int dir)
{
    return own ? own->list(own->self, dir) : list_system(dir);
}
