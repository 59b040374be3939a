#include "data/files.h"

#include "base/mem.h"
#include "base/rng.h"
#include "data/schema.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- directories */

/* Byte order: the order of the data must not depend on the user's locale. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Follows links. Most file systems store the type in the directory, which saves a system call per file. */
static bool is_of_type(DIR *d, const struct dirent *e, bool directory)
{
    struct stat s;
    if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
        return e->d_type == (directory ? DT_DIR : DT_REG);
    return fstatat(dirfd(d), e->d_name, &s, 0) == 0 && (directory ? S_ISDIR(s.st_mode) : S_ISREG(s.st_mode));
}

static yk_status fail_list(const char *path)
{
    return yk_fail(errno == EMFILE || errno == ENFILE ? YK_ESYSTEM : YK_EDATA,
                   "%s: cannot list the directory: %s", path, strerror(errno));
}

yk_status yk__names_add(yk__names *names, const char *name, size_t n)
{
    yk_status st = YK_RESERVE(names->name, names->cap, names->n + 1, "names");
    if (!st && !(names->name[names->n++] = strndup(name, n)))
        st = yk_fail_memory(n, "a name");
    return st;
}

yk_status yk__names_list(const char *path, bool directories, bool (*wanted)(const char *name), size_t max,
                         yk__names *out)
{
    *out = (yk__names){0};
    DIR *d = opendir(path);
    if (!d)
        return fail_list(path);
    yk_status st = YK_OK;
    const struct dirent *e;
    while (!st && out->n < max && (errno = 0, e = readdir(d))) {
        if (e->d_name[0] == '.' || (wanted && !wanted(e->d_name)) || !is_of_type(d, e, directories))
            continue;
        st = yk__names_add(out, e->d_name, strlen(e->d_name));
    }
    if (!st && out->n < max && errno)
        st = fail_list(path);
    closedir(d);
    if (st)
        yk__names_fini(out);
    else if (out->n)
        qsort(out->name, out->n, sizeof *out->name, compare_names);
    return st;
}

void yk__names_fini(yk__names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    *names = (yk__names){0};
}

bool yk__has_suffix(const char *name, const char *const *suffixes)
{
    const size_t n = strlen(name);
    for (; *suffixes; suffixes++) {
        const size_t m = strlen(*suffixes);
        if (n > m && !strcasecmp(name + n - m, *suffixes))
            return true;
    }
    return false;
}

char *yk__path_join(const char *directory, const char *name)
{
    size_t n = strlen(directory);
    char *path;
    if (asprintf(&path, "%s%s%s", directory, n && directory[n - 1] == '/' ? "" : "/", name) >= 0)
        return path;
    yk_fail_memory(n + strlen(name), "a file's name");
    return NULL;
}

bool yk__is_directory(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

yk_status yk__find_plain_or_gz(const char *directory, const char *name, char **path_out)
{
    for (int gz = 0; gz < 2; gz++) {
        if (asprintf(path_out, "%s/%s%s", directory, name, gz ? ".gz" : "") < 0)
            return yk_fail_memory(strlen(directory), "a file's name");
        if (access(*path_out, F_OK) == 0)
            return YK_OK;
        free(*path_out);
        *path_out = NULL;
    }
    return YK_OK;
}

/* ---- which files */

static yk_status add_path(yk_files *f, const char *path)
{
    yk_arena_print(&f->paths, "%s", path);
    f->path = yk_arena_texts(&f->paths);
    f->n = f->paths.n;
    return f->paths.status;
}

/* Other programs write files such as _SUCCESS, which are not data. */
static bool is_data(const char *name)
{
    return name[0] != '_';
}

static yk_status find_in_directory(const char *directory, yk_files *f)
{
    yk__names names;
    yk_status st = yk__names_list(directory, false, is_data, SIZE_MAX, &names);
    const size_t n = names.n;
    for (size_t i = 0; i < names.n && !st; i++) {
        char *path = yk__path_join(directory, names.name[i]);
        st = path ? add_path(f, path) : YK_ESYSTEM;
        free(path);
    }
    yk__names_fini(&names);
    if (!st && n == 0)
        st = yk_fail(YK_EDATA, "%s: no data files in this directory", directory);
    return st;
}

/* Ends glob() at a directory that cannot be listed. Missing ones do not match. */
static int is_unreadable(const char *path, int error)
{
    (void)path;
    errno = error;
    return error != ENOENT && error != ENOTDIR;
}

/* Files that match a pattern. */
static yk_status find_by_glob(const char *pattern, yk_files *f)
{
    glob_t g;
    struct stat s;
    if (!strpbrk(pattern, "*?[{") && stat(pattern, &s) && errno != ENOENT)
        return yk_fail(YK_EDATA, "%s: cannot read: %s", pattern, strerror(errno));
    int rc = glob(pattern, GLOB_NOSORT | GLOB_BRACE, is_unreadable, &g);
    if (rc == GLOB_NOSPACE)
        return yk_fail_memory(0, "a list of files");
    if (rc == GLOB_ABORTED)
        return yk_fail(YK_EDATA, "%s: cannot list the directory: %s", pattern, strerror(errno));
    if (rc)
        return YK_OK;
    const size_t before = f->n;
    yk_status st = YK_OK;
    for (size_t i = 0; i < g.gl_pathc && !st; i++)
        if (!yk__is_directory(g.gl_pathv[i]))
            st = add_path(f, g.gl_pathv[i]);
    globfree(&g);
    if (!st && f->n == before)
        st = yk_fail(YK_EDATA, "%s: the pattern matches directories only", pattern);
    return st;
}

/* Sets the states of the files from number `first` on. */
static yk_status measure(yk_files *f, size_t first)
{
    if (YK_RESERVE(f->state, f->state_cap, f->n, "file states"))
        return YK_ESYSTEM;
    for (size_t i = first; i < f->n; i++) {
        struct stat *const s = &f->state[i];
        if (stat(f->path[i], s) || access(f->path[i], R_OK))
            return yk_fail(YK_EDATA, "%s: cannot read: %s", f->path[i], strerror(errno));
        if (!S_ISREG(s->st_mode))
            return yk_fail(YK_EDATA,
                           "%s: not a regular file; to read a pipe, use standard input: libsvm:-, csv:-",
                           f->path[i]);
        if (s->st_size == 0)
            return yk_fail(YK_EDATA, "%s: is empty", f->path[i]);
        f->bytes += (uint64_t)s->st_size;
    }
    return YK_OK;
}

yk_status yk_files_add(yk_files *f, const char *path)
{
    yk_status st = add_path(f, path);
    return st ? st : measure(f, f->n - 1);
}

/* The first comma that is not in braces; NULL: none. */
static const char *find_comma(const char *p)
{
    int depth = 0;
    for (; *p && (*p != ',' || depth > 0); p++)
        depth += (*p == '{') - (*p == '}');
    return *p ? p : NULL;
}

/* Adds the files of one name or pattern, sorted; none if there are none. */
static yk_status find_one(const char *pattern, yk_files *f)
{
    struct stat s;
    const size_t before = f->n;
    yk_status st;
    if (stat(pattern, &s))
        st = find_by_glob(pattern, f);
    else if (S_ISDIR(s.st_mode))
        st = find_in_directory(pattern, f);
    else
        st = add_path(f, pattern);
    if (!st && f->n > before)
        qsort(f->path + before, f->n - before, sizeof *f->path, compare_names);
    return st;
}

/* Names the directory, because --resume and --join use the options of a run, perhaps in another directory. */
static yk_status fail_missing(const char *pattern)
{
    char directory[PATH_MAX];
    if (!*pattern)
        return yk_fail(YK_EUSAGE,
                       "the data spec has no file: write format:FILE, format:DIRECTORY or format:'PATTERN*'");
    const bool named = *pattern != '/' && getcwd(directory, sizeof directory);
    return yk_fail(YK_EDATA, "%s: no %s%s%s", pattern,
                   strpbrk(pattern, "*?[{") ? "file matches this pattern" : "such file or directory",
                   named ? " in " : "", named ? directory : "");
}

yk_status yk_files_require(const char *path)
{
    struct stat s;
    if (!stat(path, &s))
        return YK_OK;
    return errno == ENOENT ? fail_missing(path)
                           : yk_fail(YK_EDATA, "%s: cannot read: %s", path, strerror(errno));
}

/* One or several patterns, separated by commas. */
static yk_status find_several(const char *list, yk_files *f)
{
    yk_status st = YK_OK;
    for (const char *p = list, *comma; p && !st; p = comma ? comma + 1 : NULL) {
        comma = find_comma(p);
        char *pattern = comma ? strndup(p, (size_t)(comma - p)) : strdup(p);
        const size_t before = f->n;
        if (!pattern)
            return yk_fail_memory(strlen(p), "a file's name");
        if (!*pattern)
            st = yk_fail(YK_EUSAGE, "%s: a name is missing before or after a comma", list);
        else if (!(st = find_one(pattern, f)) && f->n == before)
            st = fail_missing(pattern);
        free(pattern);
    }
    return st;
}

/* Keeps the first of several names of one file. */
static yk_status drop_repeated(yk_files *f)
{
    yk_schema_values seen = {0};
    const size_t n = f->n;
    yk_status st = YK_OK;
    f->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct stat s = f->state[i];
        bool is_new = true;
        if (!st)
            st = yk_schema_value_add(&seen, yk_mix64(yk_mix64(s.st_dev) + s.st_ino) | 1, &is_new);
        if (!is_new) {
            f->bytes -= (uint64_t)s.st_size;
            continue;
        }
        char *const path = f->path[i];
        f->path[i] = f->path[f->n];
        f->path[f->n] = path;
        f->state[f->n++] = s;
    }
    yk_free(seen.slot);
    return st;
}

yk_status yk_files_find(const char *pattern, yk_files *out)
{
    *out = (yk_files){0};
    if (!*pattern)
        return fail_missing(pattern);
    if (!strcmp(pattern, YK_STDIN))
        return add_path(out, pattern);
    yk_status st = find_one(pattern, out);
    if (!st && !out->n)
        st = find_several(pattern, out);
    if (!st && !(st = measure(out, 0)))
        st = drop_repeated(out);
    if (st)
        yk_files_fini(out);
    return st;
}

yk_status yk_files_blocks(yk_files *f, uint64_t block_bytes)
{
    f->nblocks = 0;
    for (size_t i = 0; i < f->n; i++) {
        bool compressed = !f->state; /* standard input may be */
        yk_status st = f->state ? yk_input_compressed(f->path[i], &compressed) : YK_OK;
        if (st)
            return st;
        uint64_t size = f->state ? (uint64_t)f->state[i].st_size : 1;
        uint64_t step = compressed ? size : block_bytes;
        for (uint64_t begin = 0; begin < size; begin += step) {
            uint64_t end = compressed ? UINT64_MAX : size - begin > step ? begin + step : size;
            if ((st = YK_RESERVE(f->block, f->block_cap, f->nblocks + 1, "blocks of files")))
                return st;
            f->block[f->nblocks++] = (yk_file_block){i, f->path[i], begin, end};
            if (size - begin <= step)
                break; /* before begin + step can overflow */
        }
    }
    return YK_OK;
}

yk_status yk_files_unchanged(const yk_files *f, size_t file, const yk_input *in)
{
    return f->state ? yk_file_unchanged(f->path[file], &f->state[file], in->fd) : YK_OK;
}

void yk_files_fini(yk_files *f)
{
    yk_arena_free(&f->paths);
    free(f->state);
    free(f->block);
    *f = (yk_files){0};
}
