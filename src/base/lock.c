#include "base/lock.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/number.h"
#include "base/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char name[] = "lock";
static const double ending_seconds = 10.0; /* a killed process may have a lot of memory to free */
static const double min_seconds = 0.1;     /* between a signal and its effect */
static const double recheck_seconds =
    0.1; /* without locks: time in which a competing process writes its text */

struct yk_lock {
    int fd;
};

typedef struct {
    long pid; /* 0: not known */
    char host[256], since[32], boot[64];
    uint64_t start;
} owner;

typedef enum { GONE, ENDING, ALIVE, UNKNOWN } condition;

/* ---- owners */

typedef struct {
    char state;
    uint64_t flags, pending, start;
} process;

/* From /proc/PID/stat, see proc(5); the name in parentheses may contain anything. */
static bool read_process(long pid, process *out)
{
    char text[1024];
    yk_file_text(text, sizeof text, "/proc/%ld/stat", pid);
    const char *at = strrchr(text, ')');
    const char *state = yk_word(at, 1); /* field 3 of the line */
    out->state = state ? *state : 0;
    return yk_word_digits(at, 7, &out->flags) && yk_word_digits(at, 20, &out->start) &&
           yk_word_digits(at, 29, &out->pending);
}

static void read_self(owner *out)
{
    const time_t now = (time_t)yk_wall();
    struct tm tm;
    process self = {0};
    *out = (owner){.pid = (long)getpid()};
    if (gethostname(out->host, sizeof out->host - 1) || !*out->host)
        strcpy(out->host, "localhost");
    gmtime_r(&now, &tm);
    strftime(out->since, sizeof out->since, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (!yk_file_text(out->boot, sizeof out->boot, "/proc/sys/kernel/random/boot_id"))
        strcpy(out->boot, "unknown");
    out->boot[strcspn(out->boot, "\n")] = '\0';
    if (read_process(out->pid, &self))
        out->start = self.start;
}

static condition condition_of(const owner *o)
{
    enum { EXITING = 4 }; /* PF_EXITING of the kernel */
    owner self;
    process p;
    read_self(&self);
    if (!o->pid || strcmp(o->host, self.host))
        return UNKNOWN;
    if (strcmp(o->boot, self.boot))
        return GONE; /* the host was rebooted */
    if (!read_process(o->pid, &p))
        return kill((pid_t)o->pid, 0) && errno == ESRCH ? GONE : UNKNOWN;
    if (o->start && p.start != o->start)
        return GONE; /* the pid was reused */
    const bool killed = p.pending >> (SIGKILL - 1) & 1;
    return p.state == 'Z' || p.state == 'X' || p.flags & EXITING || killed ? ENDING : ALIVE;
}

/* ---- the text */

static void write_owner(int fd, const owner *o)
{
    char text[512];
    const int n = snprintf(text, sizeof text, "pid %ld\nhost %s\nsince %s\nboot %s\nstart %llu\n", o->pid,
                           o->host, o->since, o->boot, (unsigned long long)o->start);
    /* With locks, only the message needs this text. Without locks, it is read back to decide who owns the directory. */
    if (yk_sys->truncate(fd, 0) || yk_sys->write(fd, text, (size_t)n) != n)
        return;
}

/* Copies the rest of a line that begins with `label`. Returns the next line; NULL: it is another line, or too long. */
static const char *read_line(const char *text, const char *label, char *out, size_t size)
{
    const size_t skip = strlen(label), n = text ? strcspn(text, "\n") : 0;
    if (n <= skip || n - skip >= size || text[n] != '\n' || strncmp(text, label, skip))
        return NULL;
    memcpy(out, text + skip, n - skip);
    out[n - skip] = '\0';
    return text + n + 1;
}

static void read_owner(int fd, owner *out)
{
    char text[512], pid[24];
    const ssize_t n = yk_sys->read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    *out = (owner){0};
    uint64_t number;
    const char *at = read_line(text, "pid ", pid, sizeof pid);
    at = read_line(at, "host ", out->host, sizeof out->host);
    at = read_line(at, "since ", out->since, sizeof out->since);
    at = read_line(at, "boot ", out->boot, sizeof out->boot);
    if (at && yk_digits_after("start ", at, UINT64_MAX, &out->start) && yk_digits(pid, LONG_MAX, &number))
        out->pid = (long)number;
    else
        *out = (owner){0};
}

/* Whether another program wrote the file. After a power failure, yoke's own may have zeros instead of text. */
static bool is_foreign(int fd)
{
    char text[4];
    const ssize_t n = yk_sys->read(fd, text, sizeof text);
    return n > 0 && text[0] && memcmp(text, "pid ", (size_t)n);
}

static yk_status fail_owned(const char *dir, const owner *o, bool has_locks)
{
    char remedy[320] = "";
    if (!has_locks)
        snprintf(remedy, sizeof remedy, " If that process has ended, remove %.200s/%s.", dir, name);
    if (!o->pid)
        return yk_fail(YK_EUSAGE,
                       "%s: in use by another process; wait for it to end, or choose another --out.%s", dir,
                       remedy);
    return yk_fail(
        YK_EUSAGE,
        "%s: in use by process %ld on host %s since %s; wait for it to end, stop it (kill %ld), or "
        "choose another --out.%s",
        dir, o->pid, o->host, o->since, o->pid, remedy);
}

/* ---- the lock */

/* Makes this process the owner. Without locks, the last writer is the owner. */
static yk_status claim(int fd, const char *dir, bool has_locks)
{
    owner self, last;
    read_self(&self);
    write_owner(fd, &self);
    if (has_locks)
        return YK_OK;
    yk_sleep(recheck_seconds);
    read_owner(fd, &last);
    return last.pid == self.pid && last.start == self.start && strcmp(last.host, self.host) == 0
               ? YK_OK
               : fail_owned(dir, &last, false);
}

/* Waits until the lock is free or the time is over. *has_locks_out: whether this file system has locks. */
static yk_status wait_for(int fd, const char *dir, double seconds, bool take, bool *has_locks_out)
{
    yk_wait w = yk_wait_every(0.01, 0.0);
    seconds = seconds > min_seconds ? seconds : min_seconds;
    for (;;) {
        owner o;
        const int error = yk_sys->lock(fd, take);
        *has_locks_out = error != ENOLCK && error != ENOSYS && error != EOPNOTSUPP &&
                         error != EINVAL; /* EINVAL: Linux < 3.15 */
        if (error == 0)
            return YK_OK;
        if (error != EAGAIN && *has_locks_out)
            return yk_fail_in(dir, name, "cannot lock", error);
        read_owner(fd, &o);
        const condition is = condition_of(&o);
        if (!*has_locks_out && (!o.pid || is == GONE))
            return YK_OK;
        w.seconds = is == ENDING && ending_seconds > seconds ? ending_seconds : seconds;
        if (!yk_wait_poll(&w))
            return fail_owned(dir, &o, *has_locks_out);
    }
}

yk_status yk_lock_acquire(const char *dir, double seconds, yk_lock **out)
{
    *out = NULL;
    bool has_locks;
    const int fd = yk_open_in(dir, name, O_RDWR | O_CREAT | O_APPEND);
    if (fd < 0)
        return yk_fail_in(dir, name, "cannot open", errno);
    yk_status st = is_foreign(fd) ? yk_fail(YK_EUSAGE,
                                            "%s: the file %s there was not written by yoke and would be "
                                            "replaced; choose another directory",
                                            dir, name)
                                  : wait_for(fd, dir, seconds, true, &has_locks);
    if (!st)
        st = claim(fd, dir, has_locks);
    yk_lock *lock = st ? NULL : malloc(sizeof *lock);
    if (!st && !lock)
        st = yk_fail_memory(sizeof *lock, "a lock");
    if (st) {
        yk_fs_close(fd);
        return st;
    }
    lock->fd = fd;
    *out = lock;
    return YK_OK;
}

yk_status yk_lock_check(const char *dir)
{
    bool has_locks;
    const int fd = yk_open_in(dir, name, O_RDONLY | O_NONBLOCK); /* O_NONBLOCK: do not block on a FIFO */
    if (fd < 0)
        return errno == ELOOP ? yk_fail_in(dir, name, "cannot open", errno)
                              : YK_OK; /* taking the lock reports other errors */
    const yk_status st = wait_for(fd, dir, 0.0, false, &has_locks);
    yk_fs_close(fd);
    return st;
}

bool yk_lock_covers(const yk_lock *lock, const char *dir)
{
    struct stat held, there;
    const int fd = yk_dir_open(dir, NULL);
    const bool same = fd >= 0 && !yk_sys->stat(lock->fd, "", &held, AT_EMPTY_PATH) &&
                      !yk_sys->stat(fd, name, &there, AT_SYMLINK_NOFOLLOW) && held.st_dev == there.st_dev &&
                      held.st_ino == there.st_ino;
    yk_fs_close(fd);
    return same;
}

void yk_lock_release(yk_lock *lock)
{
    if (!lock)
        return;
    if (yk_sys->truncate(lock->fd,
                         0)) /* on failure the file names an owner that has ended, which is harmless */
        errno = 0;
    yk_fs_close(lock->fd);
    free(lock);
}
