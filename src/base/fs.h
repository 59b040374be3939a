/* The part of the file system API that checkpoints need: the system calls that read and write run directories.
 *
 * Example:
 *     const int fd = yk_sys->open(AT_FDCWD, "a", O_WRONLY | O_CREAT, 0666); // like openat(): -1 and errno
 *     yk_sys->write(fd, data, n);
 *     yk_fs_close(fd);
 *
 * Each member does what the call in its comment does. Note that read() begins at offset 0 each time, and that lock() returns an errno
 * value. Tests and simulations can replace the file system of a thread
 * with yk_fs_set() (tests/fs_memory.h). Its descriptors are valid only for these functions, so code that such tests
 * cover must not use other calls.
 */
#ifndef YK_BASE_FS_H
#define YK_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef struct {
    int (*open)(int dir, const char *path, int flags, mode_t mode); /* openat() */
    int (*close)(int fd);
    ssize_t (*read)(int fd, void *buf, size_t n); /* pread() at offset 0 */
    ssize_t (*write)(int fd, const void *buf, size_t n);
    int (*sync)(int fd);                                                       /* fsync() */
    int (*stat)(int dir, const char *path, struct stat *s, int flags);         /* fstatat() */
    int (*make_dir)(int dir, const char *path, mode_t mode);                   /* mkdirat() */
    int (*rename)(int from_dir, const char *from, int to_dir, const char *to); /* renameat() */
    int (*exchange)(int dir, const char *a, const char *b); /* renameat2(): RENAME_EXCHANGE */
    int (*remove)(int dir, const char *path, int flags);    /* unlinkat() */
    void *(*map)(int fd, size_t size); /* mmap() of a whole file, read-only; NULL: errno */
    int (*unmap)(void *at, size_t size);
    /* The names in an open directory except . and .., in any order, terminated by NULL; NULL: errno. */
    char **(*list)(int dir);
    /* Locks (base/lock.h): 0, or an errno value; EAGAIN: another open file description has the lock. */
    int (*lock)(int fd, bool take);                  /* fcntl() with F_OFD_SETLK, or F_OFD_GETLK */
    int (*truncate)(int fd, off_t size);             /* ftruncate() */
    char *(*real_path)(const char *path, char *out); /* realpath(): PATH_MAX bytes */
    bool (*can_write)(const char *path);             /* access() with W_OK */
    void *self; /* the state of a replacement, which it finds through yk_sys->self */
} yk_fs;

/* The file system of this thread: by default, the system calls. */
extern _Thread_local const yk_fs *yk_sys;

void yk_fs_set(const yk_fs *fs); /* of this thread (borrowed); NULL: the system calls */

int yk_fs_close(int fd);                 /* does nothing if fd is negative */
void yk_fs_unmap(void *at, size_t size); /* NULL is fine */
void yk_fs_list_free(char **names);

#endif
