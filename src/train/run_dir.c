#include "train/run_dir.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/fs.h"
#include "base/number.h"
#include "train/checkpoint_dir.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* When a job is restarted, the chief of the previous attempt may not have exited yet. */
static const double restart_seconds = 10.0;

static const char *const checkpoints[] = {"checkpoints/",
                                          "checkpoints/best",
                                          "checkpoints/.saving/",
                                          "checkpoints/step-[0-9]*/",
                                          "checkpoints/*/DONE",
                                          "checkpoints/*/model.safetensors",
                                          "checkpoints/*/state.safetensors",
                                          NULL};

/* log.txt and rung-N-epochs.json are written by sweeps. */
static const char *const written[] = {"config.ini",
                                      "metrics.jsonl",
                                      "summary.json",
                                      "trace.json",
                                      "report.html",
                                      "log.txt",
                                      "rung-[0-9]*.json",
                                      "join",
                                      "events.out.tfevents.*",
                                      "worker-[0-9]*/",
                                      "worker-[0-9]*/resources.jsonl",
                                      "worker-[0-9]*/events.out.tfevents.*",
                                      NULL};

/* What only the owner of the lock writes, unlike report.html. */
static const char *const locked[] = {
    "config.ini", "metrics.jsonl", "summary.json",     "trace.json",     "join",
    "lock",       "checkpoints/",  "checkpoints/best", "worker-[0-9]*/", "worker-[0-9]*/resources.jsonl",
    NULL};

/* ---- checks ---- */

/* An entry that yoke writes to must be missing or of the kind that yoke creates. */
static yk_status check_entry(int fd, const char *dir, const char *below, const char *entry, mode_t kind)
{
    struct stat there;
    char name[NAME_MAX + 32];
    if (yk_sys->stat(fd, entry, &there, AT_SYMLINK_NOFOLLOW) || (there.st_mode & S_IFMT) == kind)
        return YK_OK;
    snprintf(name, sizeof name, "%s%s", below, entry);
    return yk_fail_in(dir, name, "cannot be used", S_ISLNK(there.st_mode) ? ELOOP : EEXIST);
}

static yk_status check_entries(const char *dir)
{
    yk_status st = YK_OK;
    const int fd = yk_dir_open(dir, NULL), saving = yk_dir_open(dir, "checkpoints");
    char **names = fd < 0 ? NULL : yk_sys->list(fd), directory[NAME_MAX + 2];
    for (char **name = names; !st && name && *name; name++) {
        snprintf(directory, sizeof directory, "%s/", *name);
        for (const char *const *pattern = locked; !st && *pattern; pattern++)
            if (fnmatch(*pattern, *name, FNM_PATHNAME) == 0)
                st = check_entry(fd, dir, "", *name, S_IFREG);
            else if (fnmatch(*pattern, directory, FNM_PATHNAME) == 0)
                st = check_entry(fd, dir, "", *name, S_IFDIR);
    }
    yk_fs_list_free(names);
    if (!st && saving >= 0)
        st = check_entry(saving, dir, "checkpoints/", ".saving", S_IFDIR);
    yk_fs_close(fd);
    yk_fs_close(saving);
    return st;
}

yk_status yk_run_dir_check(const char *dir)
{
    const yk_status st = check_entries(dir);
    return st ? st : yk_lock_check(dir);
}

/* ---- creating and clearing ---- */

yk_status yk_run_dir_acquire(const char *dir, yk_lock **out)
{
    *out = NULL;
    yk_status st = yk_dir_make(dir);
    if (!st)
        st = yk_lock_acquire(dir, yk_env_number("YK_RESTARTS", 0) > 0 ? restart_seconds : 0.0, out);
    if (!st && (st = check_entries(dir))) {
        yk_lock_release(*out);
        *out = NULL;
    }
    const int fd = st ? -1 : yk_dir_open(dir, NULL);
    if (fd >= 0) { /* what a process that was killed left behind */
        yk_dir_clear_temporary(fd, locked);
        yk__checkpoint_clear(dir);
        yk_fs_close(fd);
    }
    return st;
}

yk_status yk_run_dir_verify(const char *dir, const yk_lock *lock)
{
    if (!lock || yk_lock_covers(lock, dir))
        return YK_OK;
    return yk_fail(YK_ESYSTEM,
                   "%s: the run directory was moved, removed or replaced during the run, so nothing more is "
                   "written there; to continue the run, use --resume with its new path",
                   dir);
}

yk_status yk_run_dir_choose(const char *out, const char *model, char **dir_out)
{
    char when[32], number[16] = "";
    const time_t now = (time_t)yk_wall();
    struct tm tm;
    if (out)
        return yk_path_keep(out, dir_out);
    *dir_out = NULL;
    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", &tm);
    const char *name = strpbrk(model, " ,/") ? "net" : model; /* a layer list cannot be a directory name */
    yk_status st = yk_dir_make("runs");
    for (int n = 2; !st; n++) {
        const yk_path dir = yk_path_of("runs/%.40s-%s-%d%s", name, when, (int)getpid(), number);
        snprintf(number, sizeof number, "-%d", n);
        if (yk_sys->make_dir(AT_FDCWD, dir.s, 0777) == 0) {
            st = yk_dir_sync("runs"); /* the new directory survives a power failure */
            return st ? st : yk_path_keep(dir.s, dir_out);
        }
        if (errno != EEXIST)
            st = yk_fail_path(dir.s, "cannot create the directory", errno);
    }
    return st;
}

yk_status yk_run_dir_clear(const char *parent, const char *name, bool checkpoints_only)
{
    const int fd = yk_dir_open(parent, name);
    if (fd < 0)
        return errno == ENOENT ? YK_OK : yk_fail_in(parent, name, "cannot open the run directory", errno);
    yk_dir_clear(fd, checkpoints);
    if (!checkpoints_only)
        yk_dir_clear(fd, written);
    yk_fs_close(fd);
    return YK_OK;
}
