#include "data/files.h"

#include "base/mem.h"
#include "format/input.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes `path` (malloc memory, NULL when that failed). */
static yk_status add_path(yk_files *f, char *path)
{
    if (!path)
        return yk_fail_memory(0, "a file's name");
    if (YK_RESERVE(f->path, f->path_cap, f->n + 1, "file names")) {
        free(path);
        return YK_ESYSTEM;
    }
    f->path[f->n++] = path;
    return YK_OK;
}

/* Hidden files and those that begin with '_' (_SUCCESS and its like) are left by other programs; they are no data. */
static yk_status find_in_directory(const char *directory, yk_files *f)
{
    DIR *d = opendir(directory);
    if (!d)
        return yk_fail(YK_EDATA, "%s: cannot be listed: %s", directory, strerror(errno));
    yk_status st = YK_OK;
    const struct dirent *e;
    while (!st && (errno = 0, e = readdir(d))) {
        if (e->d_name[0] == '.' || e->d_name[0] == '_')
            continue;
        char *path = NULL;
        struct stat s;
        size_t n = strlen(directory);
        if (asprintf(&path, "%s%s%s", directory, n && directory[n - 1] == '/' ? "" : "/", e->d_name) < 0)
            path = NULL;
        if (path && (stat(path, &s) || !S_ISREG(s.st_mode))) {
            free(path);
            continue;
        }
        st = add_path(f, path);
    }
    if (!st && errno)
        st = yk_fail(YK_EDATA, "%s: cannot be listed: %s", directory, strerror(errno));
    closedir(d);
    if (!st && f->n == 0)
        st = yk_fail(YK_EDATA, "%s: the directory holds no data files", directory);
    return st;
}

static yk_status find_by_glob(const char *pattern, yk_files *f)
{
    glob_t g;
    int rc = glob(pattern, GLOB_NOSORT | GLOB_BRACE, NULL, &g);
    if (rc == GLOB_NOSPACE)
        return yk_fail_memory(0, "a list of files");
    if (rc)
        return yk_fail(YK_EDATA, "%s: no such file%s", pattern,
                       strpbrk(pattern, "*?[{") ? " (nothing matches the pattern)" : "");
    yk_status st = YK_OK;
    for (size_t i = 0; i < g.gl_pathc && !st; i++) {
        struct stat s;
        if (stat(g.gl_pathv[i], &s) == 0 && S_ISDIR(s.st_mode))
            continue;
        st = add_path(f, strdup(g.gl_pathv[i]));
    }
    globfree(&g);
    if (!st && f->n == 0)
        st = yk_fail(YK_EDATA, "%s: the pattern matches directories only", pattern);
    return st;
}

/* By bytes and not by locale: the order of the data must not depend on the language of the user. */
static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sizes from file `first` on. */
static yk_status measure(yk_files *f, size_t first)
{
    if (YK_RESERVE(f->size, f->size_cap, f->n, "file sizes"))
        return YK_ESYSTEM;
    for (size_t i = first; i < f->n; i++) {
        struct stat s;
        if (stat(f->path[i], &s) || access(f->path[i], R_OK))
            return yk_fail(YK_EDATA, "%s: cannot be read: %s", f->path[i], strerror(errno));
        if (!S_ISREG(s.st_mode))
            return yk_fail(YK_EDATA, "%s: is not a regular file", f->path[i]);
        if (s.st_size == 0)
            return yk_fail(YK_EDATA, "%s: is empty", f->path[i]);
        f->size[i] = (uint64_t)s.st_size;
        f->bytes += f->size[i];
    }
    return YK_OK;
}

yk_status yk_files_add(yk_files *f, const char *path)
{
    yk_status st = add_path(f, strdup(path));
    return st ? st : measure(f, f->n - 1);
}

yk_status yk_files_find(const char *pattern, yk_files *out)
{
    *out = (yk_files){0};
    if (!*pattern)
        return yk_fail(
            YK_EUSAGE,
            "the data spec names no file: write format:FILE, format:DIRECTORY or format:'PATTERN*'");
    struct stat s;
    yk_status st;
    if (stat(pattern, &s))
        st = find_by_glob(pattern, out);
    else if (S_ISDIR(s.st_mode))
        st = find_in_directory(pattern, out);
    else
        st = add_path(out, strdup(pattern));
    if (!st) {
        qsort(out->path, out->n, sizeof *out->path, compare_paths);
        st = measure(out, 0);
    }
    if (st)
        yk_files_fini(out);
    return st;
}

yk_status yk_files_blocks(yk_files *f, uint64_t block_bytes, bool splittable)
{
    f->nblocks = 0;
    block_bytes = block_bytes ? block_bytes : YK_BLOCK_BYTES;
    for (size_t i = 0; i < f->n; i++) {
        bool compressed;
        yk_status st = yk_input_compressed(f->path[i], &compressed);
        if (st)
            return st;
        uint64_t size = f->size[i];
        uint64_t step = compressed || !splittable ? size : block_bytes;
        for (uint64_t begin = 0; begin < size; begin += step) {
            uint64_t end = compressed ? UINT64_MAX : size - begin > step ? begin + step : size;
            if ((st = YK_RESERVE(f->block, f->block_cap, f->nblocks + 1, "blocks of files")))
                return st;
            f->block[f->nblocks++] = (yk_file_block){f->path[i], begin, end};
            if (size - begin <= step)
                break; /* also where begin + step would not fit 64 bits */
        }
    }
    return YK_OK;
}

void yk_files_fini(yk_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->path[i]);
    free(f->path);
    free(f->size);
    free(f->block);
    *f = (yk_files){0};
}
