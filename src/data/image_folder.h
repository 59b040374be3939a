/* Lists the images in a directory of class directories (the layout of PyTorch's ImageFolder), with the class of each file.
 *
 *     DIRECTORY/cat/1.jpg  DIRECTORY/cat/2.png  DIRECTORY/dog/x.JPEG          a data set without splits
 *     DIRECTORY/train/cat/1.jpg ...  DIRECTORY/test/dog/x.JPEG                with splits; val/ is the same as test/
 *
 * Example:
 *     yk_image_folder f;
 *     char path[PATH_MAX];
 *     st = yk_image_folder_list("photos", YK_SPLIT_TRAIN, &f);
 *     for (size_t i = 0; i < f.files; i++) {
 *         yk_image_folder_path(&f, i, path, sizeof path);
 *         use(path, f.file[i].class);
 *     }
 *     yk_image_folder_fini(&f);
 *
 * Classes are numbered in the byte order of the directory names; with splits, those of the training split apply to both.
 * Images are files whose names end in .jpg, .jpeg or .png, in any case; all others and hidden files are ignored. The list
 * takes about 30 bytes per file. Any number of threads may read it.
 */
#ifndef YK_DATA_IMAGE_FOLDER_H
#define YK_DATA_IMAGE_FOLDER_H

#include "data/files.h"
#include "data/source.h"

typedef struct {
    char *root;        /* including the directory of the split */
    yk__names classes; /* of all splits */
    size_t files;
    struct yk__image_file {
        size_t name; /* where it begins in `names` */
        uint32_t class;
    } * file; /* [files] */
    char *names;
    bool has_test;
    size_t file_cap, names_size, names_cap;
} yk_image_folder;

yk_status yk_image_folder_list(const char *directory, yk_split split, yk_image_folder *out);
void yk_image_folder_fini(yk_image_folder *f);

/* Whether a subdirectory of `directory`, or of its train/, contains an image. Stops at the first one. */
bool yk__has_image_folders(const char *directory);

/* Truncates the path if `size` is too small. */
void yk_image_folder_path(const yk_image_folder *f, size_t file, char *path, size_t size);

#endif
