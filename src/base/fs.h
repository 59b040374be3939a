/* The part of the file system API that checkpoints need: the system calls that read and write run directories.
 *
 * Example:
 *     const int fd = yk_fs_open(AT_FDCWD, "a", O_WRONLY | O_CREAT, 0666); // like openat(): -1 and errno
 *     yk_fs_write(fd, data, n);
 *     yk_fs_close(fd);
 *
 * They behave like the system calls of the same names. Tests and simulations can replace the file system of a thread
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
    int (*open)(void *self, int dir, const char *path, int flags, mode_t mode); /* openat() */
    int (*close)(void *self, int fd);
    ssize_t (*read)(void *self, int fd, void *buf, size_t n); /* pread() at offset 0 */
    ssize_t (*write)(void *self, int fd, const void *buf, size_t n);
    int (*sync)(void *self, int fd); /* fsync() */
    /* fstatat(); with AT_EMPTY_PATH, fstat() */
    int (*stat)(void *self, int dir, const char *path, struct stat *s, int flags);
    int (*make_dir)(void *self, int dir, const char *path, mode_t mode);                   /* mkdirat() */
    int (*rename)(void *self, int from_dir, const char *from, int to_dir, const char *to); /* renameat() */
    int (*exchange)(void *self, int dir, const char *a, const char *b); /* renameat2(): RENAME_EXCHANGE */
    int (*remove)(void *self, int dir, const char *path, int flags);    /* unlinkat() */
    void *(*map)(void *self, int fd, size_t size); /* mmap() of a whole file, read-only; NULL: errno */
    void (*unmap)(void *self, void *at, size_t size);
    /* The names in an open directory except . and .., in any order, terminated by NULL. */
    char **(*list)(void *self, int dir);
    /* Locks (base/lock.h): 0, or an errno value; EAGAIN: another open file description has the lock. */
    int (*lock)(void *self, int fd, bool take);      /* fcntl() with F_OFD_SETLK, or F_OFD_GETLK */
    int (*truncate)(void *self, int fd, off_t size); /* ftruncate() */
    char *(*real_path)(void *self, const char *path, char *out); /* realpath(): PATH_MAX bytes */
    bool (*can_write)(void *self, const char *path);             /* access() with W_OK */
    void *self;
} yk_fs;

/* Sets the file system of this thread (borrowed); NULL: the system calls. */
void yk_fs_set(const yk_fs *fs);
const yk_fs *yk_fs_get(void); /* of this thread; NULL: the system calls */

int yk_fs_open(int dir, const char *path, int flags, mode_t mode);
int yk_fs_close(int fd); /* does nothing if fd is negative */
ssize_t yk_fs_read(int fd, void *buf, size_t n);
ssize_t yk_fs_write(int fd, const void *buf, size_t n);
int yk_fs_sync(int fd);
int yk_fs_stat(int dir, const char *path, struct stat *s, int flags);
int yk_fs_make_dir(int dir, const char *path, mode_t mode);
int yk_fs_rename(int from_dir, const char *from, int to_dir, const char *to);
int yk_fs_exchange(int dir, const char *a, const char *b);
int yk_fs_remove(int dir, const char *path, int flags);
void *yk_fs_map(int fd, size_t size);
void yk_fs_unmap(void *at, size_t size); /* NULL is fine */
int yk_fs_lock(int fd, bool take);
int yk_fs_truncate(int fd, off_t size);
char *yk_fs_real_path(const char *path, char *out);
bool yk_fs_can_write(const char *path);
char **yk_fs_list(int dir); /* NULL: errno */
void yk_fs_list_free(char **names);

#endif
