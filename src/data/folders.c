#include "data/folders.h"

#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct {
    size_t n, cap;
    char **name;
} names;

static void free_names(names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
    *l = (names){0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_picture(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && !strcasecmp(name + n - m, endings[i]))
            return true;
    }
    return false;
}

/* Links are followed; a million files are not all asked what they are where the directory has told already. */
static bool is_kind(DIR *d, const struct dirent *e, bool folder)
{
    struct stat s;
    if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
        return e->d_type == (folder ? DT_DIR : DT_REG);
    return fstatat(dirfd(d), e->d_name, &s, 0) == 0 && (folder ? S_ISDIR(s.st_mode) : S_ISREG(s.st_mode));
}

/* The folders of `path`, or the pictures in it, sorted. most: enough are so many, in no order. */
static yk_status list_names(const char *path, bool folders, size_t most, names *out)
{
    *out = (names){0};
    DIR *d = opendir(path);
    if (!d)
        return yk_fail(errno == EMFILE || errno == ENFILE ? YK_ESYSTEM : YK_EDATA, "%s: cannot be listed: %s",
                       path, strerror(errno));
    yk_status st = YK_OK;
    const struct dirent *e;
    while (!st && out->n < most && (errno = 0, e = readdir(d))) {
        if (e->d_name[0] == '.' || (!folders && !is_picture(e->d_name)) || !is_kind(d, e, folders))
            continue;
        st = YK_RESERVE(out->name, out->cap, out->n + 1, "file names");
        if (!st && !(out->name[out->n++] = strdup(e->d_name)))
            st = yk_fail_memory(strlen(e->d_name), "a file's name");
    }
    if (!st && out->n < most && errno)
        st = yk_fail(YK_EDATA, "%s: cannot be listed: %s", path, strerror(errno));
    closedir(d);
    if (st)
        free_names(out);
    else if (out->n)
        qsort(out->name, out->n, sizeof *out->name, compare_names);
    return st;
}

static char *joined(const char *directory, const char *name)
{
    size_t n = strlen(directory);
    char *path;
    if (asprintf(&path, "%s%s%s", directory, n && directory[n - 1] == '/' ? "" : "/", name) < 0) {
        yk_fail_memory(n + strlen(name), "a file's name");
        return NULL;
    }
    return path;
}

static bool has_folder(const char *directory, const char *name)
{
    char *path = joined(directory, name);
    struct stat s;
    bool there = path && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    free(path);
    return there;
}

/* ---- a look */

static bool pictures_below(const char *directory)
{
    enum { LOOKED_AT = 20 }; /* some classes may be empty, all of them hardly */
    names classes, one;
    bool found = false;
    if (list_names(directory, true, LOOKED_AT, &classes))
        return false;
    for (size_t i = 0; i < classes.n && !found; i++) {
        char *path = joined(directory, classes.name[i]);
        if (path && !list_names(path, false, 1, &one)) {
            found = one.n > 0;
            free_names(&one);
        }
        free(path);
    }
    free_names(&classes);
    return found;
}

bool yk_folders_in(const char *directory)
{
    struct stat s;
    if (stat(directory, &s) || !S_ISDIR(s.st_mode))
        return false;
    if (pictures_below(directory))
        return true;
    char *train = joined(directory, "train");
    bool found = train && has_folder(directory, "train") && pictures_below(train);
    free(train);
    return found;
}

/* ---- the whole list */

static yk_status add_file(yk_folders *f, uint32_t class, const char *name)
{
    size_t n = strlen(name) + 1;
    if (YK_RESERVE(f->of_class, f->file_cap, f->files + 1, "a list of pictures") ||
        YK_RESERVE(f->name_at, f->at_cap, f->files + 1, "a list of pictures") ||
        YK_RESERVE(f->names, f->names_cap, f->names_size + n, "names of pictures"))
        return YK_ESYSTEM;
    memcpy(f->names + f->names_size, name, n);
    f->of_class[f->files] = class;
    f->name_at[f->files++] = f->names_size;
    f->names_size += n;
    return YK_OK;
}

static yk_status add_class(yk_folders *f, const char *name)
{
    char *const *found =
        !f->classes ? NULL : bsearch(&name, f->class_name, f->classes, sizeof *f->class_name, compare_names);
    if (!found)
        return yk_fail(YK_EDATA, "%s/%s: the training half has no class of that name", f->root, name);
    char *path = joined(f->root, name);
    names pictures;
    yk_status st = path ? list_names(path, false, SIZE_MAX, &pictures) : YK_ESYSTEM;
    free(path);
    if (st)
        return st;
    for (size_t i = 0; i < pictures.n && !st; i++)
        st = add_file(f, (uint32_t)(found - f->class_name), pictures.name[i]);
    free_names(&pictures);
    return st;
}

/* The folder of the half, and that which the classes are named in. */
static yk_status find_half(yk_folders *f, const char *directory, yk_split split, char **classes_out)
{
    bool halves = has_folder(directory, "train");
    const char *test = has_folder(directory, "test") ? "test" : has_folder(directory, "val") ? "val" : NULL;
    f->has_test = halves && test;
    if (split == YK_SPLIT_TEST && halves && !test)
        return yk_fail(YK_EDATA, "%s: has train/, but neither test/ nor val/", directory);
    f->root = !halves ? strdup(directory) : joined(directory, split == YK_SPLIT_TRAIN ? "train" : test);
    *classes_out = !halves ? strdup(directory) : joined(directory, "train");
    return f->root && *classes_out ? YK_OK : yk_fail_memory(strlen(directory), "a file's name");
}

static yk_status list(yk_folders *f, const char *directory, yk_split split)
{
    char *classes_in = NULL;
    names classes = {0}, folders = {0};
    yk_status st = find_half(f, directory, split, &classes_in);
    if (!st)
        st = list_names(classes_in, true, SIZE_MAX, &classes);
    free(classes_in);
    f->classes = classes.n;
    f->class_name = classes.name; /* taken */
    if (!st)
        st = list_names(f->root, true, SIZE_MAX, &folders);
    for (size_t i = 0; i < folders.n && !st; i++)
        st = add_class(f, folders.name[i]);
    free_names(&folders);
    if (!st && f->files == 0)
        st = yk_fail(YK_EDATA,
                     "%s: there are no pictures (.jpg, .jpeg, .png) in folders of it, one for each class",
                     f->root);
    if (!st && f->classes > INT32_MAX / 2)
        st = yk_fail(YK_EDATA, "%s: %zu folders are too many classes", f->root, f->classes);
    return st;
}

yk_status yk_folders_list(const char *directory, yk_split split, yk_folders *out)
{
    *out = (yk_folders){0};
    yk_status st = list(out, directory, split);
    if (st)
        yk_folders_fini(out);
    return st;
}

void yk_folders_fini(yk_folders *f)
{
    for (size_t i = 0; i < f->classes; i++)
        free(f->class_name[i]);
    free(f->class_name);
    free(f->root);
    free(f->of_class);
    free(f->name_at);
    free(f->names);
    *f = (yk_folders){0};
}

void yk_folders_path(const yk_folders *f, size_t file, char *path, size_t size)
{
    snprintf(path, size, "%s/%s/%s", f->root, f->class_name[f->of_class[file]], f->names + f->name_at[file]);
}
