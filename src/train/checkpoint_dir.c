#include "train/checkpoint_dir.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "train/checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEEP = 2 };

static const char top_name[] = "checkpoints", saving_name[] = ".saving", best_name[] = "checkpoints/best";
static const char *const files[] = {YK__MODEL_FILE, YK__STATE_FILE};

char *yk__path(const char *format, ...)
{
    va_list args;
    char *path;
    va_start(args, format);
    if (vasprintf(&path, format, args) < 0) {
        path = NULL;
        yk_fail_memory(strlen(format), "a path");
    }
    va_end(args);
    return path;
}

static char *step_path(const char *run_dir, uint64_t step)
{
    return yk__path("%s/%s/step-%" PRIu64, run_dir, top_name, step);
}

/* ---- removing ---- */

/* Removes the files that yoke wrote, and the directory if it is then empty. Links and their targets are not touched. */
static void remove_checkpoint(int top, const char *run_dir, const char *name)
{
    /* DONE first, so that a partly removed checkpoint does not count as one */
    static const char *const done[] = {"DONE", NULL}, *const rest[] = {YK__MODEL_FILE, YK__STATE_FILE, NULL};
    const int fd = yk_dir_open_at(top, name);
    if (fd < 0)
        return;
    size_t removed = yk_dir_clear(fd, done);
    int why = errno;
    removed += yk_dir_clear(fd, rest);
    why = why ? why : errno;
    yk_fs_close(fd);
    if (yk_sys->remove(top, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return;
    const bool foreign = !why && (errno == ENOTEMPTY || errno == EEXIST);
    why = why ? why : errno;
    if (!foreign)
        yk_warn("%s/%s/%s: cannot remove this checkpoint: %s", run_dir, top_name, name, strerror(why));
    else if (removed)
        yk_warn("%s/%s/%s: kept, because it holds files that yoke did not write", run_dir, top_name, name);
}

/* Renames an entry that yoke did not create (a link, a file, a directory with foreign files) and that has the name of a
 * new checkpoint. */
static void move_aside(int top, const char *run_dir, const char *from, const char *name)
{
    struct stat there;
    char other[64];
    if (yk_sys->stat(top, from, &there, AT_SYMLINK_NOFOLLOW))
        return;
    for (int i = 1; i < 1000; i++) {
        snprintf(other, sizeof other, "%s.old-%d", name, i);
        if (yk_sys->stat(top, other, &there, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        if (yk_sys->rename(top, from, top, other) == 0)
            yk_warn("%s/%s/%s has the name of a new checkpoint: renamed to %s", run_dir, top_name, name,
                    other);
        return;
    }
}

static int by_descending_step(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* The N of all entries step-N of an open directory, in descending order; `links`: also of symbolic links. */
static size_t list_steps(int top, bool links, uint64_t **out)
{
    size_t n = 0, cap = 0;
    uint64_t *step = NULL;
    char **names = top < 0 ? NULL : yk_sys->list(top);
    for (char **at = names; at && *at; at++) {
        const char *name = *at;
        uint64_t s;
        struct stat there;
        const char *end = yk_digits_after("step-", name, UINT64_MAX, &s);
        if (!end || *end ||
            (!links && (yk_sys->stat(top, name, &there, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(there.st_mode))))
            continue;
        if (!YK_RESERVE(step, cap, n + 1, "checkpoints"))
            step[n++] = s;
    }
    yk_fs_list_free(names);
    if (n)
        qsort(step, n, sizeof *step, by_descending_step);
    *out = step;
    return n;
}

/* Keeps `newest`, the one before it, and the best one. Later ones were skipped as damaged when the run was resumed. */
static void remove_old(int top, const char *run_dir, uint64_t newest, uint64_t best)
{
    uint64_t *step;
    size_t n = list_steps(top, false, &step), kept = 0;
    for (size_t i = 0; i < n; i++) {
        char name[32];
        if ((step[i] <= newest && kept++ < KEEP) || (best && step[i] == best))
            continue;
        snprintf(name, sizeof name, "step-%" PRIu64, step[i]);
        remove_checkpoint(top, run_dir, name);
    }
    free(step);
}

/* ---- DONE ---- */

/* Size and checksum of a file, as recorded in DONE. */
static yk_status measure(const char *path, uint64_t *size_out, uint32_t *crc_out)
{
    struct stat info;
    int fd =
        yk_sys->open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0); /* does not block on a FIFO */
    if (fd < 0 || yk_sys->stat(fd, "", &info, AT_EMPTY_PATH) || !S_ISREG(info.st_mode)) {
        int e = fd < 0 ? errno : EINVAL;
        yk_fs_close(fd);
        return yk_fail_path(path, "cannot open", e);
    }
    *size_out = (uint64_t)info.st_size;
    *crc_out = 0;
    void *p = info.st_size ? yk_sys->map(fd, (size_t)info.st_size) : NULL;
    const int error = errno;
    yk_fs_close(fd);
    if (!p && info.st_size)
        return yk_fail_path(path, "cannot map", error);
    if (p)
        *crc_out = yk_crc32c(p, (size_t)info.st_size);
    yk_fs_unmap(p, (size_t)info.st_size);
    return YK_OK;
}

enum { LINE = 64 };

/* The contents of DONE: a line about each file. */
static yk_status done_text(const char *directory, char out[static 2 * LINE])
{
    yk_status st = YK_OK;
    *out = '\0';
    for (int i = 0; !st && i < 2; i++) {
        uint64_t size = 0;
        uint32_t crc = 0;
        char *path = yk__path("%s/%s", directory, files[i]);
        st = path ? measure(path, &size, &crc) : YK_ESYSTEM;
        snprintf(out + strlen(out), LINE, "%s %" PRIu64 " %08x\n", files[i], size, crc);
        free(path);
    }
    return st;
}

static yk_status write_done(const char *run_dir)
{
    char text[2 * LINE], *directory = yk__path("%s/" YK__SAVING, run_dir);
    const yk_status st = directory ? done_text(directory, text) : YK_ESYSTEM;
    free(directory);
    return st ? st : yk_file_save(run_dir, YK__SAVING "/DONE", "%s", text);
}

/* The start of a small file. False: it cannot be opened. */
static bool read_text(const char *path, char *text, size_t size)
{
    const int fd = yk_sys->open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    const ssize_t n = fd < 0 ? 0 : yk_sys->read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    yk_fs_close(fd);
    return fd >= 0;
}

static const char no_done[] = "it has no DONE file";

/* NULL: the directory is a complete and undamaged checkpoint. Otherwise, what is wrong with it. */
static const char *find_damage(const char *directory)
{
    char is[2 * LINE], text[1024], *path = yk__path("%s/DONE", directory);
    if (!path)
        return "out of memory";
    const bool there = read_text(path, text, sizeof text);
    free(path);
    if (!there)
        return no_done;
    return done_text(directory, is) || strncmp(text, is, strlen(is))
               ? "the size or checksum of a file differs from that in DONE"
               : NULL;
}

/* ---- the best checkpoint ---- */

/* The path of the checkpoint that a file "best" names; NULL: it is not such a file, or there is no memory. */
static char *named_by(const char *file)
{
    char text[32] = "";
    uint64_t step;
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    if (strcmp(name, "best") || !read_text(file, text, sizeof text))
        return NULL;
    const char *end = yk_digits_after("step-", text, UINT64_MAX, &step);
    return end && !strcmp(end, "\n") ? yk__path("%.*sstep-%" PRIu64, (int)(name - file), file, step) : NULL;
}

/* The checkpoint that checkpoints/best names, complete or not. *damage_out: what is wrong with the file or the checkpoint; NULL:
 * nothing, or there is no file. */
static yk_status find_best(const char *run_dir, char **path_out, const char **damage_out)
{
    struct stat there;
    char *file = yk__path("%s/%s", run_dir, best_name);
    *path_out = file ? named_by(file) : NULL;
    *damage_out = NULL;
    if (*path_out)
        *damage_out =
            yk_sys->stat(AT_FDCWD, *path_out, &there, 0) ? "it does not exist" : find_damage(*path_out);
    else if (file && yk_sys->stat(AT_FDCWD, file, &there, AT_SYMLINK_NOFOLLOW) == 0)
        *damage_out = "it does not name a checkpoint";
    free(file);
    return file ? YK_OK : YK_ESYSTEM;
}

/* best 0: none any more, because the run is resumed without a validation set. */
yk_status yk__checkpoint_name_best(const char *run_dir, uint64_t best)
{
    char *old = NULL;
    const char *damage;
    yk_status st = best ? yk_file_save(run_dir, best_name, "step-%" PRIu64 "\n", best)
                        : find_best(run_dir, &old, &damage);
    if (old)
        st = yk_remove_in(run_dir, best_name);
    free(old);
    return st;
}

/* ---- saving ---- */

void yk__checkpoint_clear(const char *run_dir)
{
    const int top = yk_dir_open(run_dir, top_name);
    if (top < 0)
        return;
    remove_checkpoint(top, run_dir, saving_name);
    yk_fs_close(top);
}

yk_status yk__checkpoint_begin(const char *run_dir)
{
    yk__checkpoint_clear(run_dir);
    return yk_dir_make_in(run_dir, YK__SAVING);
}

/* This step was saved before; then the run was resumed, or gradients arrived too late. Exchanges the two names, so that one
 * of the checkpoints always exists: .saving is then the old one. */
static bool replaces(int top, const char *name)
{
    struct stat there;
    return yk_sys->stat(top, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(there.st_mode) &&
           yk_sys->exchange(top, saving_name, name) == 0;
}

/* .saving becomes step-N. */
static yk_status rename_saved(int top, const char *run_dir, uint64_t step, const char *path)
{
    char name[32];
    snprintf(name, sizeof name, "step-%" PRIu64, step);
    const bool replaced = replaces(top, name);
    if (!replaced &&
        yk_sys->rename(top, saving_name, top, name)) { /* not every file system can exchange names */
        remove_checkpoint(top, run_dir, name);
        move_aside(top, run_dir, name, name);
        if (yk_sys->rename(top, saving_name, top, name))
            return yk_fail_path(path, "cannot rename the new checkpoint to this path", errno);
    }
    if (yk_sys->sync(top) && errno != EINVAL && errno != ENOTSUP && errno != EBADF) {
        const yk_status st = yk_fail_in(run_dir, top_name, "cannot sync the directory", errno);
        if (replaced) /* the caller removes .saving */
            yk_sys->exchange(top, saving_name, name);
        return st;
    }
    if (replaced) {
        remove_checkpoint(top, run_dir, saving_name);
        move_aside(top, run_dir, saving_name, name);
    }
    return YK_OK;
}

yk_status yk__checkpoint_end(const char *run_dir, uint64_t step, uint64_t best, yk_status st, char **path_out)
{
    char *path = step_path(run_dir, step);
    if (!st)
        st = path ? write_done(run_dir) : YK_ESYSTEM;
    const int top = yk_dir_open(run_dir, top_name);
    if (!st && top < 0)
        st = yk_fail_in(run_dir, top_name, "cannot open the directory", errno);
    if (!st)
        st = rename_saved(top, run_dir, step, path);
    if (st && top >= 0)
        remove_checkpoint(top, run_dir, saving_name);
    if (!st)
        st = yk__checkpoint_name_best(run_dir, best);
    if (!st)
        remove_old(top, run_dir, step, best);
    yk_fs_close(top);
    if (!st && path_out) {
        free(*path_out);
        *path_out = path;
        path = NULL;
    }
    free(path);
    return st;
}

/* ---- finding ---- */

/* The steps of all checkpoints, complete or not, in descending order. Unlike when saving, links are followed. */
static size_t steps_in(const char *run_dir, uint64_t **out)
{
    char *path = yk__path("%s/%s", run_dir, top_name);
    const int top = path ? yk_dir_open(path, NULL) : -1;
    const size_t n = list_steps(top, true, out);
    yk_fs_close(top);
    free(path);
    return n;
}

yk_status yk_checkpoint_find(const char *dir, char **path_out)
{
    yk_status st = YK_OK;
    uint64_t *step;
    *path_out = NULL;
    if (!find_damage(dir))
        return (*path_out = yk__path("%s", dir)) ? YK_OK : YK_ESYSTEM;
    const size_t n = steps_in(dir, &step);
    for (size_t i = 0; !st && !*path_out && i < n; i++) {
        char *path = step_path(dir, step[i]);
        const char *damage = path ? find_damage(path) : NULL;
        if (damage) {
            yk_warn("%s: skipping this checkpoint: %s", path, damage);
            free(path);
        } else {
            *path_out = path;
            st = path ? YK_OK : YK_ESYSTEM;
        }
    }
    free(step);
    return st;
}

yk_status yk__checkpoint_none(const char *run_dir)
{
    yk_status st = YK_OK;
    uint64_t *step;
    const size_t n = steps_in(run_dir, &step);
    for (size_t i = 0; !st && i < n; i++) {
        char *path = step_path(run_dir, step[i]);
        const char *damage = path ? find_damage(path) : no_done;
        if (damage != no_done)
            st = yk_fail(YK_EUSAGE,
                         "%s is damaged: %s; restore the file, or remove this directory to start from the "
                         "beginning",
                         path, damage);
        free(path);
    }
    free(step);
    return st;
}

yk_status yk_checkpoint_best(const char *run_dir, char **path_out)
{
    const char *damage;
    const yk_status st = find_best(run_dir, path_out, &damage);
    if (damage) {
        yk_warn("%s/%s: skipping the checkpoint of the best model%s%s: %s", run_dir, best_name,
                *path_out ? ", " : "", *path_out ? strrchr(*path_out, '/') + 1 : "", damage);
        free(*path_out);
        *path_out = NULL;
    }
    return st;
}

bool yk__checkpoint_is_complete(const char *run_dir, uint64_t step)
{
    char *path = step_path(run_dir, step);
    const bool complete = path && !find_damage(path);
    free(path);
    return complete;
}

bool yk__is_model_file(const char *path)
{
    struct stat there;
    return yk_sys->stat(AT_FDCWD, path, &there, 0) == 0 && S_ISREG(there.st_mode);
}

/* As yk__checkpoint_require(), of a directory that has no best checkpoint or is not asked for it. */
static yk_status require_newest(const char *option, const char *dir, char **path_out)
{
    struct stat there;
    yk_status st = yk_checkpoint_find(dir, path_out);
    if (st || *path_out)
        return st;
    if (yk_sys->stat(AT_FDCWD, dir, &there, 0))
        return yk_fail(YK_EUSAGE, "%s%s: cannot read: %s", option, *dir ? dir : "''", strerror(errno));
    uint64_t *step;
    const size_t n = steps_in(dir, &step);
    char *model = yk__path("%s/" YK__MODEL_FILE, dir), *newest = NULL;
    if (model && yk_sys->stat(AT_FDCWD, model, &there, 0) == 0)
        newest = yk__path("%s", dir);
    else if (n)
        newest = step_path(dir, step[0]);
    const char *damage = newest ? find_damage(newest) : NULL;
    st = damage ? yk_fail(YK_EUSAGE, "%s%s: no complete checkpoint: %s is %s: %s", option, dir, newest,
                          damage == no_done ? "incomplete" : "damaged", damage)
                : yk_fail(YK_EUSAGE, "%s%s: no complete checkpoint (checkpoints/step-N with a DONE file)",
                          option, dir);
    free(step);
    free(model);
    free(newest);
    return st;
}

yk_status yk__checkpoint_require(const char *option, const char *dir, bool best, char **path_out)
{
    char *named = named_by(dir);
    yk_status st = YK_OK;
    *path_out = NULL;
    if (!named && yk__is_model_file(dir))
        return (*path_out = yk__path("%s", dir)) ? YK_OK : YK_ESYSTEM;
    if (!named && best)
        st = yk_checkpoint_best(dir, path_out);
    if (!st && !*path_out)
        st = require_newest(option, named ? named : dir, path_out);
    free(named);
    return st;
}
