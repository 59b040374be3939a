#include "cli/job_dir.h"

#include "base/sync.h"
#include "base/wait.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static const char prefix[] = "yoke-";
/* The name distinguishes these directories from run directories, which may also be called yoke-X. */
static const char lock_name[] = "launcher.lock";

/* -1: there is none. */
static int open_lock(const char *directory)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", directory, lock_name);
    return open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
}

/* The launcher holds the lock for as long as it lives. */
static void wait_for_launcher(int lock)
{
    while (flock(lock, LOCK_SH) && errno == EINTR)
        ;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s, (void)kind, (void)f;
    remove(path);
    return 0;
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_if_stale(const char *path)
{
    struct stat s;
    if (lstat(path, &s) || !S_ISDIR(s.st_mode) ||
        s.st_uid != geteuid()) /* other users may write to /dev/shm, too */
        return;
    const int fd = open_lock(path);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_all(path);
    close(fd);
}

/* Removes the directories of launchers that have died. */
static void remove_stale(const char *base)
{
    char path[PATH_MAX];
    DIR *d = opendir(base);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, prefix, sizeof prefix - 1) == 0 &&
            snprintf(path, sizeof path, "%s/%s", base, e->d_name) < (int)sizeof path)
            remove_if_stale(path);
    if (d)
        closedir(d);
}

/* The file gets its name after it is locked, so no other launcher sees it unlocked. */
static int lock_directory(const char *path)
{
    char new[PATH_MAX + 32], name[PATH_MAX + 32];
    snprintf(new, sizeof new, "%s/%s.new", path, lock_name);
    snprintf(name, sizeof name, "%s/%s", path, lock_name);
    const int fd = open(new, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) ||
                    rename(new, name))) { /* without a lock file the directory is never stale */
        close(fd);
        return -1;
    }
    return fd;
}

/* Open MPI's files for n processes take about 8 + 4 n MB; without enough space, processes crash or hang. */
static bool has_space(const char *base, int64_t processes)
{
    struct statvfs fs;
    const uint64_t wanted = (16 + 8 * (uint64_t)processes) << 20;
    return statvfs(base, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= wanted;
}

/* ---- the cleaner ---- */

static int remove_unless_lock(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s, (void)kind;
    if (f->level > 1 || (f->level == 1 && strcmp(path + f->base, lock_name)))
        remove(path);
    return 0;
}

/* The environment of every process of the job contains the path of a file in the directory (job_status.h). */
static bool belongs_to_job(const char *pid, const char *path)
{
    char file[64 + NAME_MAX], *variable = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(file, sizeof file, "/proc/%s/environ", pid);
    FILE *f = fopen(file, "re");
    while (f && !found && getdelim(&variable, &size, '\0', f) > 0)
        found = strstr(variable, path);
    free(variable);
    if (f)
        fclose(f);
    return found;
}

static bool job_exists(const char *path)
{
    bool found = false;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = *e->d_name >= '1' && *e->d_name <= '9' && belongs_to_job(e->d_name, path);
    if (d)
        closedir(d);
    return found;
}

/* Waits until the launcher has died. The processes of its job notice that, too, but until they end, they may create files, or
 * even the directory itself. So the directory and its lock file are removed last, when they have ended or after 10 s: a process
 * that has only just started finds that the lock is free, and ends. */
static void clean(const char *path)
{
    const int fd = open_lock(path);
    if (fd < 0)
        return;
    wait_for_launcher(fd);
    yk_wait w = yk_wait_every(0.01, 10.0);
    do
        nftw(path, remove_unless_lock, 16, FTW_DEPTH | FTW_PHYS);
    while (job_exists(path) && yk_wait_poll(&w));
    remove_all(path);
}

/* Starts the process that removes the directory if the launcher is killed. It has no files of the launcher open, because
 * they may be pipes that somebody reads until their end, and ignores the signals of the terminal. */
static pid_t start_cleaner(const char *path)
{
    const pid_t pid = fork();
    if (pid)
        return pid;
    setsid();
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_IGN);
    close_range(0, ~0u, 0);
    clean(path);
    _exit(0);
}

yk_status yk_job_dir_create(int64_t processes, yk_job_dir *out)
{
    const char *other = getenv("TMPDIR"), *base[] = {"/dev/shm", other && *other ? other : "/tmp"};
    char *path = out->path;
    const size_t size = sizeof out->path;
    out->lock = -1;
    out->cleaner = -1;
    for (int i = 0; i < 2; i++) {
        remove_stale(base[i]);
        if (i == 0 && !has_space(base[i], processes))
            continue;
        snprintf(path, size, "%s/%sXXXXXX", base[i], prefix);
        if (mkdtemp(path)) {
            out->lock = lock_directory(path);
            if (out->lock >= 0)
                out->cleaner = start_cleaner(path);
            return YK_OK;
        }
    }
    yk_status st = yk_fail(YK_ESYSTEM, "%s: cannot create the directory: %s", path, strerror(errno));
    *path = '\0';
    return st;
}

void yk_job_dir_remove(yk_job_dir *d)
{
    if (d->cleaner > 0) {
        kill(d->cleaner, SIGKILL);
        waitpid(d->cleaner, NULL, 0);
    }
    remove_all(d->path);
    if (d->lock >= 0)
        close(d->lock);
}

static void *end_with_launcher(void *fd)
{
    wait_for_launcher((int)(intptr_t)fd);
    _exit(1);
}

void yk_job_dir_watch(const char *path)
{
    static yk_thread thread; /* never joined */
    const int fd = open_lock(path);
    if (fd >= 0 && yk_thread_start(&thread, end_with_launcher, (void *)(intptr_t)fd))
        close(fd);
}
