/* `images:DIRECTORY`: JPEG and PNG images in class directories (the layout of PyTorch's ImageFolder), scaled to one size
 * (image_options.h).
 *
 *     DIRECTORY/cat/1.jpg  DIRECTORY/cat/2.png  DIRECTORY/dog/x.JPEG          a data set without splits
 *     DIRECTORY/train/cat/1.jpg ...  DIRECTORY/test/dog/x.JPEG                with splits; val/ is the same as test/
 *
 * Classes are numbered in the byte order of the directory names; with splits, those of the training split apply to both, and a model
 * keeps them for other data.
 * Images are files whose names end in .jpg, .jpeg or .png, in any case; all others and hidden files are ignored. The list
 * takes about 30 bytes per file.
 *
 * The files are listed class by class, and a stream is shuffled only within windows. So blocks take the files in a fixed
 * random order: every block is a sample of all classes. A reader opens and decodes one file at a time, in the thread that
 * reads.
 */
#include "base/mem.h"
#include "base/perm.h"
#include "data/image_options.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_FILES 32
#define ORDER_SEED  0x70696374u
#define MAX_FILE    ((uint64_t)512 << 20)

typedef struct {
    size_t name; /* where it begins in `names` */
    uint32_t class;
} listed_file;

/* The images of a split. */
typedef struct {
    yk_source base;
    char *root; /* including the directory of the split */
    size_t files;
    listed_file *file; /* [files] */
    size_t file_cap;
    yk_text names; /* each with a zero byte at its end */
    yk_perm order;
    yk_image_form form;
} image_source;

typedef struct {
    yk_reader base;
    yk_image_decoder *decoder;
    uint8_t *bytes; /* of one file */
    size_t cap;
} image_reader;

/* ---- which files */

static bool is_image(const char *name)
{
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png", NULL};
    return yk__has_suffix(name, suffixes);
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
    if (!yk__is_directory(directory) || yk__names_list(directory, true, NULL, MAX_TRIED, &classes))
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

/* A subdirectory of it, or of its train/, has an image. Stops at the first one. */
static bool has_image_folders(const char *directory)
{
    char *train = yk__path_join(directory, "train");
    const bool found = images_below(directory) || (train && images_below(train));
    free(train);
    return found;
}

static yk_status add_file(image_source *s, uint32_t class, const char *name)
{
    if (YK_RESERVE(s->file, s->file_cap, s->files + 1, "the list of images"))
        return YK_ESYSTEM;
    s->file[s->files++] = (listed_file){s->names.n, class};
    yk_text_put(&s->names, name, strlen(name) + 1);
    return s->names.status;
}

static yk_status add_class(image_source *s, uint32_t class)
{
    char *path = yk__path_join(s->root, s->base.names.name[class]);
    yk__names images;
    yk_status st = path ? yk__names_list(path, false, is_image, SIZE_MAX, &images) : YK_ESYSTEM;
    free(path);
    if (st)
        return st;
    for (size_t i = 0; i < images.n && !st; i++)
        st = add_file(s, class, images.name[i]);
    yk__names_fini(&images);
    return st;
}

/* Finds the directory of the split, and the directory whose subdirectories are the classes. */
static yk_status find_split(image_source *s, char **classes_out)
{
    const char *directory = s->base.parsed.where;
    const yk_split split = s->base.split;
    bool splits = has_directory(directory, "train");
    const char *test = has_directory(directory, "test")  ? "test"
                       : has_directory(directory, "val") ? "val"
                                                         : NULL;
    s->base.has_test = splits && test;
    if (split == YK_SPLIT_TEST && splits && !test)
        return yk_fail(YK_EDATA, "%s: has train/, but neither test/ nor val/", directory);
    s->root =
        !splits ? strdup(directory) : yk__path_join(directory, split == YK_SPLIT_TRAIN ? "train" : test);
    *classes_out = !splits ? strdup(directory) : yk__path_join(directory, "train");
    return s->root && *classes_out ? YK_OK : yk_fail_memory(strlen(directory), "a file's name");
}

/* Of the training data. For predictions, there may be other directories. */
static yk_status find_classes(image_source *s, const char *directory)
{
    const yk_source_options *o = &s->base.options;
    const yk__names *known = o->images && !o->unlabeled ? &o->images->classes : &(yk__names){0};
    yk_status st = YK_OK;
    if (!known->n)
        return yk__names_list(directory, true, NULL, SIZE_MAX, &s->base.names);
    for (size_t i = 0; i < known->n && !st; i++)
        st = yk__names_add(&s->base.names, known->name[i], strlen(known->name[i]));
    return st;
}

/* For predictions, without directories of classes, the directory itself may have images. */
static yk_status list_images(image_source *s)
{
    char *classes_in = NULL;
    yk__names *classes = &s->base.names, directories = {0};
    const bool known = s->base.options.images && !s->base.options.unlabeled;
    yk_status st = find_split(s, &classes_in);
    if (!st)
        st = find_classes(s, classes_in);
    free(classes_in);
    if (!st)
        st = yk__names_list(s->root, true, NULL, SIZE_MAX, &directories);
    for (size_t i = 0, class = 0; i < directories.n && !st; i++) {
        while (class < classes->n && strcmp(classes->name[class], directories.name[i]) < 0)
            class ++;
        st = class < classes->n && !strcmp(classes->name[class], directories.name[i])
                 ? add_class(s, (uint32_t) class)
                 : yk_fail(YK_EDATA, "%s/%s: the %s has no class with this name", s->root,
                           directories.name[i], known ? "model" : "training data");
    }
    yk__names_fini(&directories);
    if (!st && s->base.options.unlabeled && !classes->n && !(st = yk__names_add(classes, ".", 1)))
        st = add_class(s, 0);
    if (!st && s->files == 0)
        st = yk_fail(YK_EDATA, "%s: no images (.jpg, .jpeg, .png) in class directories", s->root);
    if (!st && classes->n > INT32_MAX / 2)
        st = yk_fail(YK_EDATA, "%s: too many classes: %zu directories", s->root, classes->n);
    return st;
}

/* Truncates the path if `size` is too small. */
static void path_of(const image_source *s, size_t file, char *path, size_t size)
{
    snprintf(path, size, "%s/%s/%s", s->root, s->base.names.name[s->file[file].class],
             s->names.s + s->file[file].name);
}

/* ---- reading */

/* Reads a whole file. YK_EDATA: yk_error() is the reason, without the path. */
static yk_status load_file(const char *path, uint8_t **bytes, size_t *cap, size_t *n_out)
{
    struct stat s;
    yk_status st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return yk_fail(errno == EMFILE || errno == ENFILE || errno == ENOMEM ? YK_ESYSTEM : YK_EDATA,
                       "cannot read: %s", strerror(errno));
    if (fstat(fd, &s))
        st = yk_fail(YK_EDATA, "%s", strerror(errno));
    else if ((uint64_t)s.st_size > MAX_FILE)
        st = yk_fail(YK_EDATA, "the file is too large: %llu bytes", (unsigned long long)s.st_size);
    else
        st = YK_RESERVE(*bytes, *cap, (size_t)s.st_size + 1, path);
    *n_out = 0;
    for (ssize_t got = 1; !st && got && *n_out < (size_t)s.st_size;) {
        got = read(fd, *bytes + *n_out, (size_t)s.st_size - *n_out);
        if (got > 0)
            *n_out += (size_t)got;
        else if (got < 0 && errno != EINTR)
            st = yk_fail(YK_EDATA, "%s", strerror(errno));
    }
    close(fd);
    return st;
}

static yk_status image_reader_open(yk_reader *reader)
{
    return yk_image_decoder_create(&((image_reader *)reader)->decoder);
}

static yk_status image_row(yk_reader *reader, yk_rows *rows)
{
    image_reader *r = (image_reader *)reader;
    image_source *s = (image_source *)reader->source;
    const size_t file = (size_t)yk_perm_at(&s->order, reader->at++);
    char path[PATH_MAX];
    size_t n, offset = 0;
    reader->ended = reader->at == reader->end;
    path_of(s, file, path, sizeof path);
    yk_status st = load_file(path, &r->bytes, &r->cap, &n);
    if (!st) {
        st = yk__image_add(r->decoder, r->bytes, n, &s->form, (int32_t)s->file[file].class, rows);
        offset = yk_image_offset(r->decoder);
    }
    if (st == YK_EDATA)
        return yk_source_bad(&s->base, path, UINT64_MAX, offset, "%s", yk_error());
    if (st)
        return yk_fail(st, "%s: %s", path, yk_error());
    if (!(st = yk__carry_row(reader)))
        yk__carry(reader, 0, path, strlen(path));
    return st;
}

static void image_reader_close(yk_reader *reader)
{
    image_reader *r = (image_reader *)reader;
    yk_image_decoder_free(r->decoder);
    free(r->bytes);
}

static void image_free(yk_source *source)
{
    image_source *s = (image_source *)source;
    free(s->root);
    free(s->file);
    yk_text_fini(&s->names);
}

/* ---- opening */

static yk_status image_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    image_source *s = (image_source *)source;
    yk_status st = yk__image_options(source, &s->form);
    if (!st && !*spec->where)
        st = yk_fail(YK_EUSAGE, "%s: the directory is missing: write images:DIRECTORY", spec->text);
    if (!st && !(st = yk_files_require(spec->where)))
        st = list_images(s);
    uint8_t *bytes = NULL;
    size_t cap = 0, n;
    char path[PATH_MAX];
    /* Takes the size of the first good image. Reading the data will report the bad ones before it. */
    yk_status shaped = !st && !s->form.height ? YK_EDATA : YK_OK;
    for (size_t i = 0; i < s->files && shaped == YK_EDATA; i++) {
        path_of(s, i, path, sizeof path);
        if (!(shaped = load_file(path, &bytes, &cap, &n)))
            shaped = yk__image_form_like(bytes, n, &s->form);
    }
    free(bytes);
    if (st || shaped)
        return st ? st : yk_fail(shaped, "%s: %s", path, yk_error());
    s->order = yk_perm_make(s->files, ORDER_SEED);
    yk__set_images(source, s->form.height, s->form.width, s->form.channels);
    yk__set_rows(source, s->files, BLOCK_FILES); /* bad ones, too: only decoding finds them */
    source->classes = (uint32_t)s->base.names.n;
    source->class_names = &s->base.names;
    source->ncarry = 1;
    return YK_OK;
}

const yk_source_ops yk__images_source = {
    .name = "images",
    .usage = "images:DIRECTORY",
    .options = YK__IMAGE_KEYS,
    .source_size = sizeof(image_source),
    .reader_size = sizeof(image_reader),
    .has_directory = has_image_folders,
    .open = image_open,
    .free = image_free,
    .reader_open = image_reader_open,
    .reader_close = image_reader_close,
    .row = image_row,
    .two_sets = true,
    .has_paths = true,
};
