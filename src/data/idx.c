/* `idx:DIRECTORY` and `idx:IMAGES?labels=LABELS`: images with labels, the format of MNIST and Fashion-MNIST.
 *
 * Opening loads everything (47 MB for MNIST's training split; pixels stay bytes). yk_source.cached has all rows without a
 * copy.
 */
#include "format/idx.h"
#include "data/formats.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    yk_source base;
    yk_idx images;
    yk_rows rows; /* u8 or f32 points into `images`, label is in base.arena */
} idx_source;

/* PREFIX-WHAT-idxN-ubyte in `directory`, or with '.' in place of the second '-', plain or .gz. */
static yk_status find_file(const char *directory, const char *prefix, const char *what, int dims,
                           char **path_out)
{
    yk_status st = YK_OK;
    *path_out = NULL;
    for (const char *mark = "-."; *mark && !*path_out && !st; mark++) {
        char name[64];
        snprintf(name, sizeof name, "%s-%s%cidx%d-ubyte", prefix, what, *mark, dims);
        st = yk__find_plain_or_gz(directory, name, path_out);
    }
    return st;
}

static yk_status find_pair(const char *directory, yk_split split, char **images_out, char **labels_out)
{
    const char *prefix = split == YK_SPLIT_TRAIN ? "train" : "t10k";
    *labels_out = NULL;
    yk_status st = find_file(directory, prefix, "images", 3, images_out);
    return st ? st : find_file(directory, prefix, "labels", 1, labels_out);
}

static bool has_split(const char *directory, yk_split split)
{
    char *images = NULL, *labels = NULL;
    bool both = !find_pair(directory, split, &images, &labels) && images && labels;
    free(images);
    free(labels);
    return both;
}

static bool has_directory(const char *path)
{
    return has_split(path, YK_SPLIT_TRAIN) || has_split(path, YK_SPLIT_TEST);
}

/* The labels of x/train-images-idx3-ubyte are x/train-labels-idx1-ubyte. */
static char *guess_labels(const char *images)
{
    const char *slash = strrchr(images, '/');
    const char *word = strstr(slash ? slash : images, "images");
    char *path = NULL;
    if (!word || asprintf(&path, "%.*slabels%s", (int)(word - images), images, word + strlen("images")) < 0)
        return NULL;
    char *dims = strstr(path + (word - images), "idx3");
    if (dims)
        dims[3] = '1';
    return path;
}

/* Without labels for predictions, *labels_out may be NULL. */
static yk_status find_files(const yk_source *s, bool *directory_out, char **images_out, char **labels_out)
{
    const yk_spec *spec = &s->parsed;
    const bool unlabeled = s->options.unlabeled;
    const char *where = spec->where, *labels = yk_spec_text(spec, "labels");
    yk_status st;
    *images_out = *labels_out = NULL;
    *directory_out = yk__is_directory(where);
    if (!*where)
        return yk_fail(YK_EUSAGE,
                       "%s: the directory is missing: write idx:DIRECTORY or idx:IMAGES?labels=LABELS",
                       spec->text);
    if (*directory_out) {
        st = find_pair(where, s->split, images_out, labels_out);
        const char *prefix = s->split == YK_SPLIT_TRAIN ? "train" : "t10k";
        if (!st && (!*images_out || (!*labels_out && !unlabeled)))
            st = yk_fail(YK_EDATA, "%s: no %s-%s-ubyte[.gz] in this directory", where, prefix,
                         *images_out ? "labels-idx1" : "images-idx3");
        return st;
    }
    if ((st = yk_files_require(where)))
        return st;
    *images_out = strdup(where);
    *labels_out = labels ? strdup(labels) : guess_labels(where);
    if (!*images_out)
        return yk_fail_memory(strlen(where), "a file's name");
    if (unlabeled && *labels_out && access(*labels_out, F_OK)) {
        free(*labels_out);
        *labels_out = NULL;
    }
    if (!*labels_out && !unlabeled)
        return yk_fail(YK_EUSAGE, "%s: no labels file: write idx:IMAGES?labels=LABELS", spec->text);
    return *labels_out ? yk_files_require(*labels_out) : YK_OK;
}

static yk_status load_labels(idx_source *s, const char *path, const char *images_path)
{
    yk_idx labels;
    yk_status st = yk_idx_load(path, &labels);
    if (st)
        return st;
    size_t n = s->images.dim[0];
    if (labels.type != YK_IDX_U8 || labels.ndims != 1)
        st = yk_fail_at(path, 2, "labels must be bytes (type 08) in 1 dimension, not type %02x in %u",
                        labels.type, labels.ndims);
    else if (labels.dim[0] != n)
        st = yk_fail_at(path, 4, "%zu labels for the %zu images of %s", labels.dim[0], n, images_path);
    for (size_t i = 0; i < n && !st; i++) {
        s->rows.label[i] = labels.u8[i];
        if (labels.u8[i] >= s->base.classes)
            s->base.classes = labels.u8[i] + 1u;
    }
    yk_idx_fini(&labels);
    return st;
}

/* An image with a NaN or an infinity is a bad record. If it is skipped, the next images take its place. */
static yk_status drop_bad_images(idx_source *s, const char *path)
{
    yk_rows *rows = &s->rows;
    size_t kept = 0;
    for (size_t r = 0; r < rows->n; r++) {
        float *row = rows->f32 + r * rows->dim;
        size_t c = 0;
        while (c < rows->dim && isfinite(row[c]))
            c++;
        if (c < rows->dim) {
            yk_status st = yk_source_bad(
                &s->base, path, r + 1, s->images.header + (r * rows->dim + c) * sizeof *row,
                "value %zu of the image is %s", c, isnan(row[c]) ? "not a number (NaN)" : "infinite");
            if (st)
                return st;
            continue;
        }
        if (kept != r) {
            memmove(rows->f32 + kept * rows->dim, row, rows->dim * sizeof *row);
            rows->label[kept] = rows->label[r];
        }
        kept++;
    }
    rows->n = kept;
    return kept ? YK_OK : yk_fail(YK_EDATA, "%s: no valid images", path);
}

static yk_status load(idx_source *s, const char *images_path, const char *labels_path)
{
    yk_idx *im = &s->images;
    yk_status st = yk_idx_load(images_path, im);
    if (st || (st = yk_files_add(&s->base.files, images_path)) ||
        (labels_path && (st = yk_files_add(&s->base.files, labels_path))))
        return st;
    if (im->ndims < 2 || im->ndims > 3)
        return yk_fail_at(images_path, 3,
                          "images must have 3 dimensions (number, height, width) or 2, not %u", im->ndims);
    if (im->dim[0] == 0 || im->stride == 0)
        return yk_fail_at(images_path, 4, "has no images (%zu of %zu elements)", im->dim[0], im->stride);
    if (im->dim[0] > UINT32_MAX / 2)
        return yk_fail_at(images_path, 4, "too many images: %zu", im->dim[0]);
    yk_rows_init(&s->rows, im->u8 ? YK_ROWS_U8 : YK_ROWS_F32, im->stride);
    if (!(s->rows.label = yk_arena_alloc(&s->base.arena, im->dim[0], sizeof *s->rows.label, "labels")))
        return YK_ESYSTEM;
    if (labels_path && (st = load_labels(s, labels_path, images_path)))
        return st;
    s->rows.n = im->dim[0];
    s->rows.u8 = im->u8;
    s->rows.f32 = im->f32;
    if (im->f32 && (st = drop_bad_images(s, images_path)))
        return st;
    if (im->ndims == 3) {
        s->base.height = im->dim[1];
        s->base.width = im->dim[2];
        s->base.channels = 1;
    }
    return YK_OK;
}

static void idx_free(yk_source *source)
{
    yk_idx_fini(&((idx_source *)source)->images);
}

static yk_status idx_open(yk_source *source)
{
    idx_source *s = (idx_source *)source;
    char *images = NULL, *labels = NULL;
    bool directory;
    yk_status st = find_files(source, &directory, &images, &labels);
    if (!st)
        st = load(s, images, labels);
    free(images);
    free(labels);
    if (st)
        return st;
    yk__cached_open(source, &s->rows);
    source->has_test = directory && has_split(source->parsed.where, YK_SPLIT_TEST);
    source->cached = &s->rows;
    return YK_OK;
}

const yk_source_ops yk__idx_source = {
    .name = "idx",
    .usage = "idx:DIRECTORY",
    .options = "labels",
    .source_size = sizeof(idx_source),
    .has_directory = has_directory,
    .open = idx_open,
    .free = idx_free,
    .next = yk__cached_next,
    .two_sets = true,
};
