#include "data/image_folder.h"

#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_image(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", NULL};
    return yk__has_ending(name, endings);
}

static bool has_directory(const char *directory, const char *name)
{
    char *path = yk__path_join(directory, name);
    bool there = path && yk__is_directory(path);
    free(path);
    return there;
}

static bool images_below(const char *directory)
{
    enum { MAX_TRIED = 20 }; /* some class directories may be empty */
    yk__names classes, one;
    bool found = false;
    if (yk__names_list(directory, true, NULL, MAX_TRIED, &classes))
        return false;
    for (size_t i = 0; i < classes.n && !found; i++) {
        char *path = yk__path_join(directory, classes.name[i]);
        if (path && !yk__names_list(path, false, is_image, 1, &one)) {
            found = one.n > 0;
            yk__names_fini(&one);
        }
        free(path);
    }
    yk__names_fini(&classes);
    return found;
}

bool yk__has_image_folders(const char *directory)
{
    char *train = yk__path_join(directory, "train");
    const bool found = images_below(directory) || (train && images_below(train));
    free(train);
    return found;
}

static yk_status add_file(yk_image_folder *f, uint32_t class, const char *name)
{
    size_t n = strlen(name) + 1;
    if (YK_RESERVE(f->file, f->file_cap, f->files + 1, "the list of images") ||
        YK_RESERVE(f->names, f->names_cap, f->names_size + n, "the names of images"))
        return YK_ESYSTEM;
    memcpy(f->names + f->names_size, name, n);
    f->file[f->files++] = (struct yk__image_file){f->names_size, class};
    f->names_size += n;
    return YK_OK;
}

static yk_status add_class(yk_image_folder *f, uint32_t class)
{
    char *path = yk__path_join(f->root, f->classes.name[class]);
    yk__names images;
    yk_status st = path ? yk__names_list(path, false, is_image, SIZE_MAX, &images) : YK_ESYSTEM;
    free(path);
    if (st)
        return st;
    for (size_t i = 0; i < images.n && !st; i++)
        st = add_file(f, class, images.name[i]);
    yk__names_fini(&images);
    return st;
}

/* Finds the directory of the split, and the directory whose subdirectories are the classes. */
static yk_status find_split(yk_image_folder *f, const char *directory, yk_split split, char **classes_out)
{
    bool splits = has_directory(directory, "train");
    const char *test = has_directory(directory, "test")  ? "test"
                       : has_directory(directory, "val") ? "val"
                                                         : NULL;
    f->has_test = splits && test;
    if (split == YK_SPLIT_TEST && splits && !test)
        return yk_fail(YK_EDATA, "%s: has train/, but neither test/ nor val/", directory);
    f->root =
        !splits ? strdup(directory) : yk__path_join(directory, split == YK_SPLIT_TRAIN ? "train" : test);
    *classes_out = !splits ? strdup(directory) : yk__path_join(directory, "train");
    return f->root && *classes_out ? YK_OK : yk_fail_memory(strlen(directory), "a file's name");
}

static yk_status list(yk_image_folder *f, const char *directory, yk_split split)
{
    char *classes_in = NULL;
    yk__names *classes = &f->classes, directories = {0};
    yk_status st = find_split(f, directory, split, &classes_in);
    if (!st)
        st = yk__names_list(classes_in, true, NULL, SIZE_MAX, classes);
    free(classes_in);
    if (!st)
        st = yk__names_list(f->root, true, NULL, SIZE_MAX, &directories);
    for (size_t i = 0, class = 0; i < directories.n && !st; i++) {
        while (class < classes->n && strcmp(classes->name[class], directories.name[i]) < 0)
            class ++;
        st = class < classes->n && !strcmp(classes->name[class], directories.name[i])
                 ? add_class(f, (uint32_t) class)
                 : yk_fail(YK_EDATA, "%s/%s: the training set has no class with this name", f->root,
                           directories.name[i]);
    }
    yk__names_fini(&directories);
    if (!st && f->files == 0)
        st = yk_fail(YK_EDATA, "%s: no images (.jpg, .jpeg, .png) in class directories", f->root);
    if (!st && classes->n > INT32_MAX / 2)
        st = yk_fail(YK_EDATA, "%s: too many classes: %zu directories", f->root, classes->n);
    return st;
}

yk_status yk_image_folder_list(const char *directory, yk_split split, yk_image_folder *out)
{
    *out = (yk_image_folder){0};
    yk_status st = list(out, directory, split);
    if (st)
        yk_image_folder_fini(out);
    return st;
}

void yk_image_folder_fini(yk_image_folder *f)
{
    yk__names_fini(&f->classes);
    free(f->root);
    free(f->file);
    free(f->names);
    *f = (yk_image_folder){0};
}

void yk_image_folder_path(const yk_image_folder *f, size_t file, char *path, size_t size)
{
    snprintf(path, size, "%s/%s/%s", f->root, f->classes.name[f->file[file].class],
             f->names + f->file[file].name);
}
