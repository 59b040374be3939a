/* A folder of class folders with pictures in them, listed: which file is of which class.
 *
 *     DIRECTORY/cat/1.jpg  DIRECTORY/cat/2.png  DIRECTORY/dog/x.JPEG          one set
 *     DIRECTORY/train/cat/1.jpg ...  DIRECTORY/test/dog/x.JPEG                a set of two halves; val/ is as good as test/
 *
 *     yk_folders f;
 *     st = yk_folders_list("photos", YK_SPLIT_TRAIN, &f);
 *     yk_folders_path(&f, i, path, sizeof path), yk_folders_class(&f, i)      // i < f.files
 *     yk_folders_fini(&f);
 *
 * Classes are the names of the folders, sorted by bytes; in a set of two halves those of the training half count for
 * both. Pictures are files whose names end in .jpg, .jpeg or .png, in any case; others, and hidden ones, are passed over.
 * A list takes about 30 bytes a file. Read by any number of threads.
 */
#ifndef YK_DATA_FOLDERS_H
#define YK_DATA_FOLDERS_H

#include "data/source.h"

typedef struct {
    char *root;        /* with the half's folder */
    size_t classes;    /* of the whole set */
    char **class_name; /* [classes] */
    size_t files;
    uint32_t *of_class; /* [files] */
    size_t *name_at;    /* [files] in `names` */
    char *names;
    bool has_test;
    size_t file_cap, at_cap, names_size, names_cap;
} yk_folders;

yk_status yk_folders_list(const char *directory, yk_split split, yk_folders *out);
void yk_folders_fini(yk_folders *f);

/* Whether there is a picture in a folder of `directory`, or of its train/. Stops at the first. */
bool yk_folders_in(const char *directory);

/* Cut off where `size` is too small. */
void yk_folders_path(const yk_folders *f, size_t file, char *path, size_t size);

#endif
