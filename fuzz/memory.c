#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 16, MAX_OPEN = 64, MAX_MAPS = 16, MAX_PATH = 256, FIRST_FD = 1 << 20 };

typedef struct {
    char path[MAX_PATH];
    const uint8_t *data; /* NULL: a directory, of a descriptor */
    size_t size;
} file;

static struct {
    bool on;
    file file[MAX_FILES];
    int nfiles;
    struct {
        bool used;
        file file;
        size_t at;
    } open[MAX_OPEN];
    void *map[MAX_MAPS];
    struct {
        file file;
        int next;
        struct dirent entry;
    } listing;
} memory;

void memory_begin(void)
{
    memory.on = true;
    memory.nfiles = 0;
}

void memory_put(const char *path, const void *data, size_t size)
{
    if (memory.nfiles == MAX_FILES || strlen(path) >= MAX_PATH)
        abort();
    file *f = &memory.file[memory.nfiles++];
    strcpy(f->path, path);
    f->data = data ? data : (const void *)"";
    f->size = size;
}

void memory_end(void)
{
    memory.on = false;
    for (int i = 0; i < MAX_OPEN; i++)
        if (memory.open[i].used)
            abort();
    for (int i = 0; i < MAX_MAPS; i++)
        if (memory.map[i])
            abort();
}

/* Whether `inner` is below the directory `path`; *rest_out: the rest of its name. */
static bool is_below(const char *path, const char *inner, const char **rest_out)
{
    const size_t n = strlen(path);
    *rest_out = inner + n + 1;
    return strncmp(inner, path, n) == 0 && inner[n] == '/';
}

/* A path with a single slash between names. */
static void join(int dir, const char *path, char out[MAX_PATH])
{
    const bool relative = path[0] != '/' && dir >= FIRST_FD;
    size_t n = 0;
    if (relative)
        n = (size_t)snprintf(out, MAX_PATH, "%s/", memory.open[dir - FIRST_FD].file.path);
    for (; *path && n < MAX_PATH - 1; path++)
        if (*path != '/' || !n || out[n - 1] != '/')
            out[n++] = *path;
    while (n > 1 && out[n - 1] == '/')
        n--;
    out[n] = '\0';
}

static bool find(int dir, const char *path, file *out)
{
    char full[MAX_PATH];
    const char *rest;
    join(dir, path, full);
    for (int i = 0; i < memory.nfiles; i++)
        if (strcmp(full, memory.file[i].path) == 0) {
            *out = memory.file[i];
            return true;
        } else if (is_below(full, memory.file[i].path, &rest)) {
            *out = (file){.size = 0};
            strcpy(out->path, full);
            return true;
        }
    errno = ENOENT;
    return false;
}

static bool is_ours(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + MAX_OPEN && memory.open[fd - FIRST_FD].used;
}

static int open_file(int dir, const char *path, int flags)
{
    file f;
    int i = 0;
    if (flags & (O_WRONLY | O_RDWR)) {
        errno = EROFS;
        return -1;
    }
    if (!find(dir, path, &f))
        return -1;
    if (flags & O_DIRECTORY && f.data) {
        errno = ENOTDIR;
        return -1;
    }
    while (i < MAX_OPEN && memory.open[i].used)
        i++;
    if (i == MAX_OPEN)
        abort();
    memory.open[i].used = true;
    memory.open[i].file = f;
    memory.open[i].at = 0;
    return FIRST_FD + i;
}

static int fill_stat(const file *f, struct stat *s)
{
    *s = (struct stat){.st_mode = f->data ? S_IFREG | 0644 : S_IFDIR | 0755,
                       .st_size = (off_t)f->size,
                       .st_nlink = 1,
                       .st_ino = f->data ? (ino_t)(uintptr_t)f->data : 1};
    return 0;
}

/* ---- descriptors */

#define WRAP(type, name, ...)                                                                                \
    type __real_##name(__VA_ARGS__);                                                                         \
    type __wrap_##name(__VA_ARGS__);                                                                         \
    type __wrap_##name(__VA_ARGS__)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return memory.on ? open_file(AT_FDCWD, path, flags) : __real_open(path, flags, mode);
}

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return memory.on ? open_file(dir, path, flags) : __real_openat(dir, path, flags, mode);
}

WRAP(int, close, int fd)
{
    if (!is_ours(fd))
        return __real_close(fd);
    memory.open[fd - FIRST_FD].used = false;
    return 0;
}

WRAP(ssize_t, pread, int fd, void *to, size_t n, off_t at)
{
    if (!is_ours(fd))
        return __real_pread(fd, to, n, at);
    const file *f = &memory.open[fd - FIRST_FD].file;
    const size_t begin = (size_t)at < f->size ? (size_t)at : f->size;
    n = n < f->size - begin ? n : f->size - begin;
    memcpy(to, f->data ? f->data + begin : (const void *)"", n);
    return (ssize_t)n;
}

WRAP(ssize_t, read, int fd, void *to, size_t n)
{
    if (!is_ours(fd))
        return __real_read(fd, to, n);
    size_t *at = &memory.open[fd - FIRST_FD].at;
    const ssize_t got = __wrap_pread(fd, to, n, (off_t)*at);
    *at += (size_t)got;
    return got;
}

WRAP(off_t, lseek, int fd, off_t at, int whence)
{
    if (!is_ours(fd))
        return __real_lseek(fd, at, whence);
    if (whence != SEEK_SET || at < 0)
        abort();
    memory.open[fd - FIRST_FD].at = (size_t)at;
    return at;
}

WRAP(int, fstat, int fd, struct stat *s)
{
    return is_ours(fd) ? fill_stat(&memory.open[fd - FIRST_FD].file, s) : __real_fstat(fd, s);
}

WRAP(int, fstatat, int dir, const char *path, struct stat *s, int flags)
{
    file f;
    if (flags & AT_EMPTY_PATH && !*path && is_ours(dir))
        return fill_stat(&memory.open[dir - FIRST_FD].file, s);
    if (!memory.on)
        return __real_fstatat(dir, path, s, flags);
    return find(dir, path, &f) ? fill_stat(&f, s) : -1;
}

WRAP(int, stat, const char *path, struct stat *s)
{
    return memory.on ? __wrap_fstatat(AT_FDCWD, path, s, 0) : __real_stat(path, s);
}

WRAP(int, lstat, const char *path, struct stat *s)
{
    return memory.on ? __wrap_fstatat(AT_FDCWD, path, s, 0) : __real_lstat(path, s);
}

WRAP(int, access, const char *path, int mode)
{
    file f;
    return memory.on ? (find(AT_FDCWD, path, &f) ? 0 : -1) : __real_access(path, mode);
}

/* ---- mappings */

WRAP(void *, mmap, void *where, size_t size, int protection, int flags, int fd, off_t at)
{
    int i = 0;
    if (!is_ours(fd))
        return __real_mmap(where, size, protection, flags, fd, at);
    const file *f = &memory.open[fd - FIRST_FD].file;
    while (i < MAX_MAPS && memory.map[i])
        i++;
    if (at || size != f->size || i == MAX_MAPS || posix_memalign(&memory.map[i], 64, size))
        abort();
    memcpy(memory.map[i], f->data, size);
    return memory.map[i];
}

WRAP(int, munmap, void *at, size_t size)
{
    for (int i = 0; at && i < MAX_MAPS; i++)
        if (memory.map[i] == at) {
            free(at);
            memory.map[i] = NULL;
            return 0;
        }
    return __real_munmap(at, size);
}

WRAP(int, mprotect, void *at, size_t size, int protection)
{
    for (int i = 0; at && i < MAX_MAPS; i++)
        if (memory.map[i] == at)
            return 0;
    return __real_mprotect(at, size, protection);
}

WRAP(int, madvise, void *at, size_t size, int advice)
{
    return memory.on ? 0 : __real_madvise(at, size, advice);
}

/* ---- streams, and libraries that read by themselves */

static ssize_t stream_read(void *cookie, char *to, size_t n)
{
    return __wrap_read((int)(intptr_t)cookie, to, n);
}

static int stream_close(void *cookie)
{
    return __wrap_close((int)(intptr_t)cookie);
}

WRAP(FILE *, fdopen, int fd, const char *mode)
{
    if (!is_ours(fd))
        return __real_fdopen(fd, mode);
    return fopencookie((void *)(intptr_t)fd, "r",
                       (cookie_io_functions_t){.read = stream_read, .close = stream_close});
}

WRAP(FILE *, fopen, const char *path, const char *mode)
{
    if (!memory.on)
        return __real_fopen(path, mode);
    const int fd = open_file(AT_FDCWD, path, mode[0] == 'r' ? O_RDONLY : O_WRONLY);
    return fd < 0 ? NULL : __wrap_fdopen(fd, mode);
}

WRAP(json_t *, json_loadfd, int fd, size_t flags, json_error_t *error)
{
    if (!is_ours(fd))
        return __real_json_loadfd(fd, flags, error);
    const file *f = &memory.open[fd - FIRST_FD].file;
    return json_loadb((const char *)f->data, f->size, flags, error);
}

/* ---- directories: one at a time */

WRAP(DIR *, opendir, const char *path)
{
    file f;
    if (!memory.on)
        return __real_opendir(path);
    if (!find(AT_FDCWD, path, &f) || f.data) {
        errno = f.data ? ENOTDIR : errno;
        return NULL;
    }
    memory.listing.file = f;
    memory.listing.next = 0;
    return (DIR *)&memory.listing;
}

WRAP(struct dirent *, readdir, DIR *d)
{
    const char *rest;
    if (d != (DIR *)&memory.listing)
        return __real_readdir(d);
    while (memory.listing.next < memory.nfiles) {
        if (!is_below(memory.listing.file.path, memory.file[memory.listing.next++].path, &rest))
            continue;
        struct dirent *e = &memory.listing.entry;
        *e = (struct dirent){.d_type = strchr(rest, '/') ? DT_DIR : DT_REG};
        snprintf(e->d_name, sizeof e->d_name, "%.*s", (int)strcspn(rest, "/"), rest);
        return e;
    }
    return NULL;
}

WRAP(int, closedir, DIR *d)
{
    return d == (DIR *)&memory.listing ? 0 : __real_closedir(d);
}

/* Patterns match nothing. */
WRAP(int, glob, const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *out)
{
    return memory.on ? GLOB_NOMATCH : __real_glob(pattern, flags, failed, out);
}
