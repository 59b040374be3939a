#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define TEMP_TRIES   1000

struct yk_file {
    int fd;
    char *path;
    char *temp; /* what is really open, until the rename; NULL where the path itself is */
    yk_status status;
    int error; /* errno of the first failure, to say it again */
    const char *doing;
    uint64_t written;
    size_t filled;
    char buffer[BUFFER_BYTES];
};

static const char *remedy(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "the disk is full; free space or choose another --out";
    case EFBIG:
        return "the file would pass the size limit (ulimit -f); raise it or choose another --out";
    case EROFS:
    case EACCES:
    case EPERM:
        return "change its permissions or choose another --out";
    case ENOENT:
        return "create its folder first or choose another --out";
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
        return "a file or folder is in the way; move it or choose another --out";
    case EMFILE:
    case ENFILE:
        return "too many files are open (ulimit -n); raise the limit";
    case ENAMETOOLONG:
        return "choose a shorter name";
    case EIO:
        return "the device failed; look into the system's log (dmesg)";
    case EPIPE:
        return "the reader has gone";
    default:
        return "check the path, or choose another --out";
    }
}

yk_status yk_fail_path(const char *path, const char *doing, int error)
{
    return yk_fail(YK_ESYSTEM, "%s: %s: %s; %s", path, doing, strerror(error), remedy(error));
}

/* ---- opening */

static yk_file *file_new(const char *path)
{
    yk_file *f = malloc(sizeof *f);
    if (!f) {
        yk_fail_memory(sizeof *f, "a file's buffer");
        return NULL;
    }
    memset(f, 0, offsetof(yk_file, buffer));
    f->fd = -1;
    f->path = strdup(path);
    if (!f->path) {
        yk_fail_memory(strlen(path) + 1, "a path");
        free(f);
        return NULL;
    }
    return f;
}

static void file_free(yk_file *f)
{
    free(f->temp);
    free(f->path);
    free(f);
}

/* Opens PATH.PID-N.tmp with the first N that is free: a run that was killed may have left one behind. Not
 * mkstemp(), whose files only their owner may read, and the umask cannot be asked for without changing it. */
static int open_temp(yk_file *f)
{
    for (int n = 0; n < TEMP_TRIES; n++) {
        if (asprintf(&f->temp, "%s.%ld-%d.tmp", f->path, (long)getpid(), n) < 0) {
            f->temp = NULL;
            errno = ENOMEM;
            return -1;
        }
        int fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        int error = errno;
        free(f->temp);
        f->temp = NULL;
        errno = error;
        if (error != EEXIST)
            return -1;
    }
    return -1;
}

yk_status yk_file_create(const char *path, yk_file **out)
{
    *out = NULL;
    yk_file *f = file_new(path);
    if (!f)
        return YK_ESYSTEM;
    struct stat there;
    if (!stat(path, &there) && !S_ISREG(there.st_mode))
        f->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    else
        f->fd = open_temp(f);
    if (f->fd < 0) {
        yk_status st = yk_fail_path(path, "cannot create", errno);
        file_free(f);
        return st;
    }
    *out = f;
    return YK_OK;
}

yk_status yk_file_append(const char *path, yk_file **out)
{
    *out = NULL;
    yk_file *f = file_new(path);
    if (!f)
        return YK_ESYSTEM;
    f->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (f->fd < 0) {
        yk_status st = yk_fail_path(path, "cannot open for writing", errno);
        file_free(f);
        return st;
    }
    *out = f;
    return YK_OK;
}

/* ---- writing */

static yk_status fail(yk_file *f, const char *doing)
{
    f->error = errno;
    f->doing = doing;
    return f->status = yk_fail_path(f->path, doing, f->error);
}

/* The text of the first error may have been overwritten since: it is said again. */
static yk_status fail_again(const yk_file *f)
{
    return yk_fail_path(f->path, f->doing, f->error);
}

static yk_status write_out(yk_file *f, const char *p, size_t size)
{
    while (size > 0) {
        ssize_t n = write(f->fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(f, "cannot write");
        p += n;
        size -= (size_t)n;
    }
    return YK_OK;
}

yk_status yk_file_flush(yk_file *f)
{
    if (f->status)
        return fail_again(f);
    size_t size = f->filled;
    f->filled = 0;
    return write_out(f, f->buffer, size);
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
            return write_out(f, data, size);
    }
    if (size)
        memcpy(f->buffer + f->filled, data, size);
    f->filled += size;
    return YK_OK;
}

yk_status yk_file_print(yk_file *f, const char *format, ...)
{
    char small[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof small)
        return yk_file_write(f, small, (size_t)length);

    char *text = NULL;
    va_start(args, format);
    length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) {
        errno = ENOMEM;
        return fail(f, "cannot format text");
    }
    yk_status st = yk_file_write(f, text, (size_t)length);
    free(text);
    return st;
}

yk_status yk_file_zeros(yk_file *f, size_t size)
{
    static const char zeros[4096];
    yk_status st = YK_OK;
    while (!st && size > 0) {
        size_t n = size < sizeof zeros ? size : sizeof zeros;
        st = yk_file_write(f, zeros, n);
        size -= n;
    }
    return st;
}

uint64_t yk_file_written(const yk_file *f)
{
    return f->written;
}

/* ---- closing */

static yk_status sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return yk_dir_sync(".");
    char *folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (!folder)
        return yk_fail_memory(strlen(path), "a path");
    yk_status st = yk_dir_sync(folder);
    free(folder);
    return st;
}

/* Everything that can still fail, in the order that keeps the old file until the new one is on the disk. */
static yk_status finish(yk_file *f)
{
    yk_status st = yk_file_flush(f);
    /* A pipe or a terminal cannot be synced (EINVAL); only files that are renamed into place need it. */
    if (!st && f->temp && fsync(f->fd))
        st = fail(f, "cannot write");
    int closed = close(f->fd);
    f->fd = -1;
    if (!st && closed && errno != EINTR)
        st = fail(f, "cannot write");
    if (!st && f->temp) {
        if (rename(f->temp, f->path))
            return fail(f, "cannot rename the finished file into place");
        free(f->temp);
        f->temp = NULL;
        st = sync_folder_of(f->path);
    }
    return st;
}

yk_status yk_file_close(yk_file *f, yk_status so_far)
{
    if (!f)
        return so_far;
    yk_status st = so_far ? so_far : finish(f);
    if (f->fd >= 0) {
        /* A log keeps what it got before the error; a temporary file is thrown away. so_far's text stays. */
        for (size_t done = 0; !f->temp && !f->status && done < f->filled;) {
            ssize_t n = write(f->fd, f->buffer + done, f->filled - done);
            if (n <= 0)
                break;
            done += (size_t)n;
        }
        close(f->fd);
    }
    if (f->temp)
        unlink(f->temp);
    file_free(f);
    return st;
}

/* ---- folders */

yk_status yk_dir_make(const char *path)
{
    char *at = strdup(path);
    if (!at)
        return yk_fail_memory(strlen(path) + 1, "a path");
    yk_status st = YK_OK;
    size_t length = strlen(at);
    for (size_t i = 1; i <= length; i++) {
        if (at[i] != '/' && at[i] != '\0')
            continue;
        char cut = at[i];
        at[i] = '\0';
        struct stat there;
        /* Asked first, because a folder on a read-only or foreign part of the way cannot be made but may be
         * there; and again afterwards, because another process may have made it in between. */
        if (stat(at, &there) || !S_ISDIR(there.st_mode)) {
            int error = mkdir(at, 0777) ? errno : 0;
            if (error && (stat(at, &there) || !S_ISDIR(there.st_mode))) {
                st = yk_fail_path(at, "cannot create the folder", error);
                break;
            }
        }
        at[i] = cut;
    }
    free(at);
    return st;
}

yk_status yk_dir_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return yk_fail_path(path, "cannot open the folder", errno);
    yk_status st = YK_OK;
    /* Some network file systems cannot sync a folder and say EINVAL: then there is nothing to do. */
    if (fsync(fd) && errno != EINVAL && errno != ENOTSUP && errno != EBADF)
        st = yk_fail_path(path, "cannot sync the folder", errno);
    close(fd);
    return st;
}
