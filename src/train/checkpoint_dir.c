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

static yk_path step_path(const char *run_dir, uint64_t step)
{
    return yk_path_of("%s/%s/step-%" PRIu64, run_dir, top_name, step);
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
        st = measure(yk_path_of("%s/%s", directory, files[i]).s, &size, &crc);
        snprintf(out + strlen(out), LINE, "%s %" PRIu64 " %08x\n", files[i], size, crc);
    }
    return st;
}

static yk_status write_done(const char *run_dir)
{
    char text[2 * LINE];
    const yk_status st = done_text(yk_path_of("%s/" YK__SAVING, run_dir).s, text);
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
    char is[2 * LINE], text[1024];
    if (!read_text(yk_path_of("%s/DONE", directory).s, text, sizeof text))
        return no_done;
    return done_text(directory, is) || strncmp(text, is, strlen(is))
               ? "the size or checksum of a file differs from that in DONE"
               : NULL;
}

/* ---- the best checkpoint ---- */

/* The checkpoint that a file "best" names; false: it is not such a file. */
static bool named_by(const char *file, yk_path *out)
{
    char text[32] = "";
    uint64_t step = 0;
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    if (strcmp(name, "best") || !read_text(file, text, sizeof text))
        return false;
    const char *end = yk_digits_after("step-", text, UINT64_MAX, &step);
    *out = yk_path_of("%.*sstep-%" PRIu64, (int)(name - file), file, step);
    return end && !strcmp(end, "\n");
}

/* Whether checkpoints/best names a checkpoint, complete or not. *damage_out: what is wrong with the file or the checkpoint; NULL:
 * nothing, or there is no file. */
static bool find_best(const char *run_dir, yk_path *out, const char **damage_out)
{
    struct stat there;
    const yk_path file = yk_path_of("%s/%s", run_dir, best_name);
    const bool named = named_by(file.s, out);
    *damage_out = NULL;
    if (named)
        *damage_out = yk_sys->stat(AT_FDCWD, out->s, &there, 0) ? "it does not exist" : find_damage(out->s);
    else if (yk_sys->stat(AT_FDCWD, file.s, &there, AT_SYMLINK_NOFOLLOW) == 0)
        *damage_out = "it does not name a checkpoint";
    return named;
}

/* best 0: none any more, because the run is resumed without a validation set. */
yk_status yk__checkpoint_name_best(const char *run_dir, uint64_t best)
{
    yk_path old;
    const char *damage;
    if (best)
        return yk_file_save(run_dir, best_name, "step-%" PRIu64 "\n", best);
    return find_best(run_dir, &old, &damage) ? yk_remove_in(run_dir, best_name) : YK_OK;
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
    const yk_path path = step_path(run_dir, step);
    if (!st)
        st = write_done(run_dir);
    const int top = yk_dir_open(run_dir, top_name);
    if (!st && top < 0)
        st = yk_fail_in(run_dir, top_name, "cannot open the directory", errno);
    if (!st)
        st = rename_saved(top, run_dir, step, path.s);
    if (st && top >= 0)
        remove_checkpoint(top, run_dir, saving_name);
    if (!st)
        st = yk__checkpoint_name_best(run_dir, best);
    if (!st)
        remove_old(top, run_dir, step, best);
    yk_fs_close(top);
    if (st || !path_out)
        return st;
    free(*path_out);
    return yk_path_keep(path.s, path_out);
}

/* ---- finding ---- */

/* The steps of all checkpoints, complete or not, in descending order. Unlike when saving, links are followed. */
static size_t steps_in(const char *run_dir, uint64_t **out)
{
    const int top = yk_dir_open(yk_path_of("%s/%s", run_dir, top_name).s, NULL);
    const size_t n = list_steps(top, true, out);
    yk_fs_close(top);
    return n;
}

yk_status yk_checkpoint_find(const char *dir, char **path_out)
{
    yk_status st = YK_OK;
    uint64_t *step;
    *path_out = NULL;
    if (!find_damage(dir))
        return yk_path_keep(dir, path_out);
    const size_t n = steps_in(dir, &step);
    for (size_t i = 0; !st && !*path_out && i < n; i++) {
        const yk_path path = step_path(dir, step[i]);
        const char *damage = find_damage(path.s);
        if (damage)
            yk_warn("%s: skipping this checkpoint: %s", path.s, damage);
        else
            st = yk_path_keep(path.s, path_out);
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
        const yk_path path = step_path(run_dir, step[i]);
        const char *damage = find_damage(path.s);
        if (damage != no_done)
            st = yk_fail(YK_EUSAGE,
                         "%s is damaged: %s; restore the file, or remove this directory to start from the "
                         "beginning",
                         path.s, damage);
    }
    free(step);
    return st;
}

yk_status yk_checkpoint_best(const char *run_dir, char **path_out)
{
    const char *damage;
    yk_path path;
    const bool named = find_best(run_dir, &path, &damage);
    *path_out = NULL;
    if (damage)
        yk_warn("%s/%s: skipping the checkpoint of the best model%s%s: %s", run_dir, best_name,
                named ? ", " : "", named ? strrchr(path.s, '/') + 1 : "", damage);
    return damage || !named ? YK_OK : yk_path_keep(path.s, path_out);
}

bool yk__checkpoint_is_complete(const char *run_dir, uint64_t step)
{
    return !find_damage(step_path(run_dir, step).s);
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
    const bool own = yk_sys->stat(AT_FDCWD, yk_path_of("%s/" YK__MODEL_FILE, dir).s, &there, 0) == 0;
    const yk_path newest = own || !n ? yk_path_of("%s", dir) : step_path(dir, step[0]);
    const char *damage = own || n ? find_damage(newest.s) : NULL;
    st = damage ? yk_fail(YK_EUSAGE, "%s%s: no complete checkpoint: %s is %s: %s", option, dir, newest.s,
                          damage == no_done ? "incomplete" : "damaged", damage)
                : yk_fail(YK_EUSAGE, "%s%s: no complete checkpoint (checkpoints/step-N with a DONE file)",
                          option, dir);
    free(step);
    return st;
}

yk_status yk__checkpoint_require(const char *option, const char *dir, bool best, char **path_out)
{
    yk_path path;
    const bool named = named_by(dir, &path);
    *path_out = NULL;
    if (!named && yk__is_model_file(dir))
        return yk_path_keep(dir, path_out);
    const yk_status st = !named && best ? yk_checkpoint_best(dir, path_out) : YK_OK;
    return st || *path_out ? st : require_newest(option, named ? path.s : dir, path_out);
}
