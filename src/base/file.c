#include "base/file.h"

#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define TEMP_TRIES   1000

struct yk_file {
    int fd;
    int directory; /* contains `name` and `temp`; AT_FDCWD if the user gave the path */
    char *path;    /* for messages */
    const char *name;
    char *temp; /* the file that is open until the rename; NULL: the path itself is */
    yk_status status;
    int error; /* errno of the first failure, to report it again */
    const char *doing;
    uint64_t written;
    size_t filled;
    char buffer[BUFFER_BYTES];
};

/* ---- opening */

static void file_free(yk_file *f)
{
    yk_fs_close(f->directory);
    free(f->temp);
    free(f->path);
    free(f);
}

/* dir NULL: `name` is a path that the user gave. */
static yk_status file_new(const char *dir, const char *name, yk_file **out)
{
    *out = NULL;
    yk_file *f = malloc(sizeof *f);
    if (!f)
        return yk_fail_memory(sizeof *f, "a file's buffer");
    memset(f, 0, offsetof(yk_file, buffer));
    f->fd = -1;
    f->directory = AT_FDCWD;
    const size_t n = dir ? strlen(dir) : 0;
    if (asprintf(&f->path, "%s%s%s", dir ? dir : "", n && dir[n - 1] != '/' ? "/" : "", name) < 0) {
        free(f);
        return yk_fail_memory(strlen(name) + 1, "a path");
    }
    f->name = f->path;
    if (dir) {
        const char *last;
        f->directory = yk_dir_open_parent(dir, name, &last);
        f->name = f->path + strlen(f->path) - strlen(last);
        if (f->directory < 0) {
            yk_status st = yk_fail_path(f->path, "cannot create", errno);
            file_free(f);
            return st;
        }
    }
    *out = f;
    return YK_OK;
}

/* Takes the first free N: a killed run may have left a file behind. Not mkstemp(): its files are readable only by their
 * owner, and the umask cannot be read without changing it. */
static int open_temp(int directory, const char *name, mode_t mode, char **temp_out)
{
    for (int n = 0; n < TEMP_TRIES; n++) {
        if (asprintf(temp_out, "%s.%ld-%d.tmp", name, (long)getpid(), n) < 0) {
            *temp_out = NULL;
            errno = ENOMEM;
            return -1;
        }
        int fd = yk_sys->open(directory, *temp_out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0)
            return fd;
        int error = errno;
        free(*temp_out);
        *temp_out = NULL;
        errno = error;
        if (error != EEXIST)
            return -1;
    }
    return -1;
}

/* A file in a directory that yoke owns must be a regular file or missing; otherwise sets errno. */
static bool is_regular(const yk_file *f)
{
    struct stat there;
    if (yk_sys->stat(f->directory, f->name, &there, AT_SYMLINK_NOFOLLOW) || S_ISREG(there.st_mode))
        return true;
    errno = S_ISLNK(there.st_mode) ? ELOOP : EEXIST;
    return false;
}

static bool is_link(const char *path)
{
    struct stat there;
    return !yk_sys->stat(AT_FDCWD, path, &there, AT_SYMLINK_NOFOLLOW) && S_ISLNK(there.st_mode);
}

/* Whether it is the file behind standard output or standard error. */
static bool is_output(const struct stat *there)
{
    struct stat own;
    bool found = false;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        found |= !fstat(fd, &own) && own.st_dev == there->st_dev && own.st_ino == there->st_ino;
    return found;
}

bool yk_file_is_stream(const char *path)
{
    struct stat there;
    return !yk_sys->stat(AT_FDCWD, path, &there, 0) &&
           (!S_ISREG(there.st_mode) || (is_link(path) && is_output(&there)));
}

static yk_status open_file(const char *dir, const char *name, bool append, mode_t mode, yk_file **out)
{
    const int common = O_WRONLY | O_CLOEXEC | O_NOCTTY;
    const bool replaces = !append && (dir || !yk_file_is_stream(name));
    char target[PATH_MAX];
    yk_file *f;
    *out = NULL;
    if (replaces && !dir && is_link(name) && yk_sys->real_path(name, target))
        name = target;
    yk_status st = file_new(dir, name, &f);
    if (st)
        return st;
    if (dir && !is_regular(f))
        f->fd = -1;
    else if (append)
        f->fd = yk_sys->open(f->directory, f->name, common | O_CREAT | O_APPEND | O_NOFOLLOW, mode);
    else if (!replaces)
        f->fd = yk_sys->open(f->directory, f->name, common | O_APPEND, 0); /* of a file: `>> log.txt` */
    else
        f->fd = open_temp(f->directory, f->name, mode, &f->temp);
    if (f->fd < 0) {
        st = yk_fail_path(f->path, append ? "cannot open for writing" : "cannot create", errno);
        file_free(f);
        return st;
    }
    *out = f;
    return YK_OK;
}

yk_status yk_file_create_in(const char *dir, const char *name, yk_file **out)
{
    return open_file(dir, name, false, 0666, out);
}

yk_status yk_file_append_in(const char *dir, const char *name, yk_file **out)
{
    return open_file(dir, name, true, 0666, out);
}

/* ---- writing */

static yk_status fail(yk_file *f, const char *doing)
{
    f->error = errno;
    f->doing = doing;
    return f->status = yk_fail_path(f->path, doing, f->error);
}

/* The text of the first error may have been overwritten since. */
static yk_status fail_again(const yk_file *f)
{
    return yk_fail_path(f->path, f->doing, f->error);
}

enum { END = -1 };

/* Writes at an offset, or at the end. Returns -1 and sets errno on failure. */
static int write_all(int fd, const char *p, size_t size, off_t at)
{
    while (size > 0) {
        const ssize_t n = at == END ? yk_sys->write(fd, p, size) : pwrite(fd, p, size, at),
                      done = n > 0 ? n : 0;
        if (n < 0 && errno != EINTR)
            return -1;
        p += done;
        size -= (size_t)done;
        at += at == END ? 0 : done;
    }
    return 0;
}

static yk_status write_out(yk_file *f, const char *p, size_t size, off_t at)
{
    return write_all(f->fd, p, size, at) ? fail(f, "cannot write") : YK_OK;
}

yk_status yk_file_flush(yk_file *f)
{
    if (f->status)
        return fail_again(f);
    size_t size = f->filled;
    f->filled = 0;
    return write_out(f, f->buffer, size, END);
}

yk_status yk_file_write(yk_file *f, const void *data, size_t size)
{
    if (f->status)
        return fail_again(f);
    f->written += size;
    if (size > BUFFER_BYTES - f->filled) {
        yk_status st = yk_file_flush(f);
        if (st)
            return st;
        if (size >= BUFFER_BYTES)
            return write_out(f, data, size, END);
    }
    if (size)
        memcpy(f->buffer + f->filled, data, size);
    f->filled += size;
    return YK_OK;
}

yk_status yk_file_write_at(yk_file *f, const void *data, size_t size, uint64_t offset)
{
    if (f->status)
        return fail_again(f);
    f->written += size;
    return write_out(f, data, size, (off_t)offset);
}

static yk_status print(yk_file *f, const char *format, va_list args)
{
    char small[512], *text = NULL;
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, format, args);
    if (length >= (int)sizeof small)
        length = vasprintf(&text, format, again);
    va_end(again);
    if (length < 0) {
        errno = ENOMEM;
        return fail(f, "cannot format text");
    }
    yk_status st = yk_file_write(f, text ? text : small, (size_t)length);
    free(text);
    return st;
}

yk_status yk_file_print(yk_file *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const yk_status st = print(f, format, args);
    va_end(args);
    return st;
}

uint64_t yk_file_written(const yk_file *f)
{
    return f->written;
}

/* ---- closing */

/* Keeps the old file until the new one is on the disk. */
static yk_status finish(yk_file *f)
{
    yk_status st = yk_file_flush(f);
    /* A pipe or a terminal cannot be synced (EINVAL); only files that are renamed into place need it. */
    if (!st && f->temp && yk_sys->sync(f->fd))
        st = fail(f, "cannot write");
    int closed = yk_fs_close(f->fd);
    f->fd = -1;
    if (!st && closed && errno != EINTR)
        st = fail(f, "cannot write");
    if (!st && f->temp) {
        if (yk_sys->rename(f->directory, f->temp, f->directory, f->name))
            return fail(f, "cannot rename the finished file into place");
        free(f->temp);
        f->temp = NULL;
        st = yk_dir_sync_of(f->path);
    }
    return st;
}

yk_status yk_file_close(yk_file *f, yk_status so_far)
{
    if (!f)
        return so_far;
    yk_status st = so_far ? so_far : finish(f);
    if (f->fd >= 0) {
        /* A log keeps what was written before the error; a temporary file is removed. The text of so_far stays. */
        if (!f->temp && !f->status)
            write_all(f->fd, f->buffer, f->filled, END);
        yk_fs_close(f->fd);
    }
    if (f->temp)
        yk_sys->remove(f->directory, f->temp, 0);
    file_free(f);
    return st;
}

yk_status yk_file_save(const char *dir, const char *name, const char *format, ...)
{
    yk_file *f;
    yk_status st = yk_file_create_in(dir, name, &f);
    if (st)
        return st;
    va_list args;
    va_start(args, format);
    st = yk_file_close(f, print(f, format, args));
    va_end(args);
    return st;
}

yk_status yk_file_save_private(const char *dir, const char *name, const char *text)
{
    yk_file *f;
    const yk_status st = open_file(dir, name, false, 0600, &f);
    return st ? st : yk_file_close(f, yk_file_write(f, text, strlen(text)));
}

/* ---- untrusted files */

yk_status yk_file_open_regular(const char *path, uint64_t max, int *fd_out)
{
    struct stat s;
    *fd_out = -1;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return YK_OK;
    if (fd < 0 && errno != ELOOP && errno != ENXIO) /* a link, a socket */
        return yk_fail_path(path, "cannot open", errno);
    yk_status st = YK_OK;
    if (fd < 0 || fstat(fd, &s) || !S_ISREG(s.st_mode))
        st = yk_fail(YK_EDATA,
                     "%s: not a regular file (a link, a FIFO, a device or a directory); replace it with a "
                     "regular file",
                     path);
    else if ((uint64_t)s.st_size > max)
        st = yk_fail(YK_EDATA, "%s: too large: %lld bytes (at most %llu)", path, (long long)s.st_size,
                     (unsigned long long)max);
    if (st && fd >= 0)
        close(fd);
    else if (!st)
        *fd_out = fd;
    return st;
}

/* ---- small files */

bool yk_file_text(char *out, size_t size, const char *path_format, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, path_format);
    const int length = vsnprintf(path, sizeof path, path_format, args);
    va_end(args);
    const int fd = (size_t)length < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    size_t filled = 0;
    for (ssize_t n = 1; fd >= 0 && n > 0 && filled + 1 < size; filled += n > 0 ? (size_t)n : 0)
        n = read(fd, out + filled, size - 1 - filled);
    out[filled] = '\0';
    if (fd >= 0)
        close(fd);
    return filled > 0;
}
